"""Which streams belong to which partitions of the log; opening one where the contract has none.

A stream's name binds the log's cluster and topic id, so a log that was made anew has no stream. Nothing goes
on silently then: where another stream of ours covers a former log of the same topic, that is an error, and
not a reason to open a new one (`spec/anchoring.md`, "Stream").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from provenance.core.batcher.messages import Source
from provenance.core.batches import split_batch
from provenance.core.streams import NO_PREDECESSOR, binding_of
from provenance.errors import ConfigError, VerificationError
from provenance.ports import OpenCall
from provenance.services.batch_files import list_batches

if TYPE_CHECKING:
    from provenance.core.batches import Manifest
    from provenance.core.streams import LogIdentity, Opening
    from provenance.ports import BatchStore, ChainReader, EventLog, Index
    from provenance.services.sending import Sender

__all__ = ["Binding", "bind_streams", "find_bindings"]


@dataclass(frozen=True, slots=True)
class Binding:
    """A partition of the log, and the last stream that our organisation opened for it, if there is one."""

    log: LogIdentity
    stream: bytes | None
    opening: Opening | None

    @property
    def source(self) -> Source | None:
        """The stream as its machine takes it."""
        if self.stream is None or self.opening is None:
            return None
        return Source(self.stream, self.opening.generation, self.opening.start_offset, self.log)


def find_bindings(log: EventLog, reader: ChainReader, *, org: int) -> list[Binding]:
    """Every partition of the log, with its stream; others' streams over the same binding do not count."""
    found = []
    for identity in log.identities():
        ours = [
            (name, opening)
            for name, opening, _ in reader.openings(binding_of(identity))
            if opening.org == org
        ]
        stream, opening = ours[-1] if ours else (None, None)
        found.append(Binding(identity, stream, opening))
    return found


def bind_streams(
    log: EventLog,
    reader: ChainReader,
    store: BatchStore,
    *,
    org: int,
    governance: Sender | None,
    index: Index,
) -> list[Source]:
    """The streams to anchor into, one per partition that holds or held messages.

    Args:
        log: the log.
        reader: the chain.
        store: the batch files, in which former logs of the same topic are looked for.
        org: our organisation's number.
        governance: opens a stream where there is none; None where the governance key is elsewhere.
        index: knows of batches that were final.

    Raises:
        VerificationError: the log was made anew (``reason="log-made-anew"``), or the chain does not know a
            stream that has batch files (``reason="stream-unknown"``).
        ConfigError: there is no stream, and no key to open one (``reason="no-stream"``).
    """
    if governance is not None:
        governance.settle_all()  # first: one of them may open a stream
    bindings = find_bindings(log, reader, org=org)
    for binding in bindings:
        bounds = log.bounds(binding.log.partition)
        if binding.stream is None and bounds.end > bounds.start:
            _refuse_former(binding.log, reader, store, org=org)
            _refuse_forgotten(binding.log, reader, store, index)
            _open(binding.log, bounds.start, governance, reader, org=org)
    sources = [binding.source for binding in find_bindings(log, reader, org=org)]
    return [source for source in sources if source is not None]


def _open(log: LogIdentity, start: int, governance: Sender | None, reader: ChainReader, *, org: int) -> None:
    what = f"opening a stream for {log.topic}/{log.partition}"
    if governance is None:
        raise ConfigError(
            f"{log.topic}/{log.partition}: no stream is open for topic id {log.topic_id}",
            reason="no-stream",
            remedy="Let the organisation's governance key open one.",
        )
    binding = binding_of(log)
    try:
        # A repeat while the stream is open changes nothing, so a crash in between costs one transaction.
        governance.complete(OpenCall(binding, start, NO_PREDECESSOR), what)
    except ConfigError:
        # Unless the log begins elsewhere by now; a node that lagged did not know of the stream.
        if not any(opening.org == org for _, opening, _ in reader.openings(binding)):
            raise


def _refuse_former(log: LogIdentity, reader: ChainReader, store: BatchStore, *, org: int) -> None:
    for stream, opening, _ in reader.openings():
        head = reader.head(stream) if opening.org == org else None
        former = None if head is None or head.closed else _first_manifest(store, stream)
        if head is None or former is None or (former.log.topic, former.log.partition) != _place(log):
            continue
        if binding_of(former.log) == binding_of(log):  # it was opened since the bindings were looked up
            continue
        raise VerificationError(
            f"{log.topic}/{log.partition}: the log was deleted or made anew: stream {stream.hex()[:16]} is"
            f" bound to topic id {former.log.topic_id}, found {log.topic_id}; what stood in the former log at"
            f" offset {head.next_offset} and behind was never anchored",
            reason="log-made-anew",
            remedy="Bring back the former log, or record into another folder and keep this one as it is.",
        )


def _refuse_forgotten(log: LogIdentity, reader: ChainReader, store: BatchStore, index: Index) -> None:
    """That the chain knows every stream of this log of which a batch was final; else it was set back.

    A file of seq 1 alone shows nothing: a reorganisation may have taken the opening with the first batch. The
    second one is written when the first is final.
    """
    last = {stream: seq for stream, seq, _ in list_batches(store)}
    for stream in [stream for stream, seq in last.items() if seq > 1 or index.indexed(stream)]:
        manifest = _first_manifest(store, stream)
        if manifest is None or binding_of(manifest.log) != binding_of(log) or reader.head(stream) is not None:
            continue
        raise VerificationError(
            f"{log.topic}/{log.partition}: the chain was set back, or is another one: it does not know stream"
            f" {stream.hex()[:16]}, of which there are batch files",
            reason="stream-unknown",
            remedy="Check which chain and contract the settings name, and ask whoever runs the node.",
        )


def _place(log: LogIdentity) -> tuple[str, int]:
    return log.topic, log.partition


def _first_manifest(store: BatchStore, stream: bytes) -> Manifest | None:
    name = next(store.names(f"{stream.hex()}/"), None)
    data = None if name is None else store.get(name)
    return None if data is None else split_batch(data)[0]
