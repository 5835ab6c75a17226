"""Where the records of a folder stand: sequenced in the log, anchored on the chain, final.

A record is *sequenced* when the log has given it an offset, *anchored* when a transaction that holds it was
mined, *final* by the chain's own rule (`spec/anchoring.md`, "States of a record"). Counts are of offsets; an
offset that holds no message counts with its neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from provenance.services.streams import find_bindings

if TYPE_CHECKING:
    from provenance.core.streams import LogIdentity
    from provenance.ports import Bounds, ChainReader, EventLog, Head
    from provenance.services.sending import Sender

__all__ = ["PartitionStatus", "look_at_log", "look_at_streams"]


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """One partition of the log and its stream; ``head`` is None where no stream is open for it.

    ``anchored`` counts offsets in batches that are mined and not final, ``final`` those in final ones.
    """

    log: LogIdentity
    bounds: Bounds
    head: Head | None = None
    anchored: int = 0
    final: int = 0

    @property
    def waiting(self) -> int:
        """Offsets that the log gave out and no batch covers yet."""
        return self.bounds.end - (self.bounds.start if self.head is None else self.head.next_offset)


def look_at_log(log: EventLog) -> list[PartitionStatus]:
    """What the log alone says: bounds; whether anything is anchored is not known without the chain."""
    return [PartitionStatus(identity, log.bounds(identity.partition)) for identity in log.identities()]


def look_at_streams(
    log: EventLog, reader: ChainReader, account: Sender, *, org: int
) -> list[PartitionStatus]:
    """Every partition with its stream's head.

    Args:
        log: the log.
        reader: the chain.
        account: asked what became of transactions, of whomever.
        org: our organisation's number.
    """
    found = []
    for binding in find_bindings(log, reader, org=org):
        bounds = log.bounds(binding.log.partition)
        head = None if binding.stream is None else reader.head(binding.stream)
        if head is None or binding.opening is None:
            found.append(PartitionStatus(binding.log, bounds))
            continue
        anchored = _not_final(reader, account, head)
        covered = head.next_offset - binding.opening.start_offset
        found.append(PartitionStatus(binding.log, bounds, head, anchored, covered - anchored))
    return found


def _not_final(reader: ChainReader, account: Sender, head: Head) -> int:
    """Offsets in batches that are not final: the head's, for a stream has one transaction under way."""
    if head.seq == 0:
        return 0
    return sum(
        anchor.next_offset - anchor.first_offset
        for anchor in reader.anchors(head.stream, head.seq)
        if not account.is_final(anchor.transaction)
    )
