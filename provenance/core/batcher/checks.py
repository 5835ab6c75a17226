"""Step 2: whether log, batch file and chain still tell one story where the next batch begins.

A log that was made anew, cut, emptied by retention or led by a broker that had not all of it goes on giving
out offsets as if nothing were. So before every batch the last anchored message is read again and compared.
What these checks refuse cannot be mended by going on: they say what is lost, and the batcher stops.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from provenance.core.batches import Position, decode_batch, parse_file_name
from provenance.core.merkle import leaf_hash
from provenance.core.streams import binding_of
from provenance.errors import MismatchError, ProvenanceError, VerificationError

if TYPE_CHECKING:
    from provenance.core.batcher.messages import LogRead, Source
    from provenance.core.batches import Batch

__all__ = [
    "Tail",
    "batch_name",
    "check_continues",
    "check_log",
    "decode_named_batch",
    "tail_of",
]

DAMAGED = "Restore the file from a copy, or move it away: the batcher makes a head's file again from the log."
RESTORE = "Bring back the log as it was, from a copy that holds these offsets; anchor nothing before that."


@dataclass(frozen=True, slots=True)
class Last:
    """A message that was read before: its offset, its leaf hash, its leader's epoch."""

    offset: int
    leaf: bytes
    epoch: int


@dataclass(frozen=True, slots=True)
class Tail:
    """A position, and the last message before it."""

    position: Position
    last: Last


def tail_of(batch: Batch) -> Tail:
    """The tail of a batch, at the position that its anchor gives."""
    manifest = batch.manifest
    position = Position(
        manifest.stream, manifest.generation, manifest.seq, manifest.next_offset, manifest.acc
    )
    leaf = batch.leaves[-1]
    return Tail(position, Last(leaf.offset, leaf_hash(leaf.value), manifest.last_leader_epoch))


def batch_name(stream: bytes, seq: int, acc: bytes) -> str:
    """``STREAM/SEQ-ACC.batch`` from what the chain says, as `core.batches.file_name` from a manifest."""
    return f"{stream.hex()}/{seq:016d}-{acc.hex()}.batch"


def decode_named_batch(name: str, data: bytes) -> Batch:
    """The batch in a file's bytes, which must be the one that its name says.

    Raises:
        VerificationError: the file is damaged or another's (``reason="batch-file"``).
    """
    stream, seq, acc = parse_file_name(name)
    try:
        batch = decode_batch(data)
    except ProvenanceError as error:
        raise VerificationError(
            f"batch file {name} is damaged: {error.message}", reason="batch-file", remedy=DAMAGED
        ) from error
    manifest = batch.manifest
    if (manifest.stream, manifest.seq, manifest.acc) != (stream, seq, acc):
        raise MismatchError(
            f"batch file {name}: accumulator of its manifest",
            expected=acc.hex(),
            actual=manifest.acc.hex(),
            reason="batch-file",
            remedy=DAMAGED,
        )
    return batch


def check_log(source: Source, next_offset: int, read: LogRead) -> None:
    """Raise ``VerificationError`` unless the log is the bound one and holds all that is not anchored yet.

    ``reason`` is ``log-made-anew``, ``log-truncated`` or ``log-retention``.
    """
    log = source.log
    if read.log is None or binding_of(read.log) != binding_of(log):
        found = "the partition is gone" if read.log is None else f"found topic id {read.log.topic_id}"
        raise VerificationError(
            f"{source.name}: the log was deleted or made anew: the stream is bound to topic id {log.topic_id}"
            f" of cluster {log.cluster_id}, {found}; what stood at offset {next_offset} and behind was never"
            " anchored",
            reason="log-made-anew",
            remedy=RESTORE,
        )
    if read.end < next_offset:
        raise VerificationError(
            f"{source.name}: the log was cut: it ends at offset {read.end}, but all below {next_offset} is"
            f" anchored; {next_offset - read.end} anchored messages are gone from it (the batch files hold"
            " them)",
            reason="log-truncated",
            remedy=RESTORE,
        )
    if read.start > next_offset:
        raise VerificationError(
            f"{source.name}: retention overtook the batcher: the log begins at offset {read.start}, and"
            f" {read.start - next_offset} offsets from {next_offset} on were deleted before their anchors",
            reason="log-retention",
            remedy=RESTORE,
        )


def check_last(source: Source, last: Last, read: LogRead) -> None:
    """Raise ``VerificationError`` unless the log still holds a message that was read before.

    ``reason`` is ``log-rewritten``. The epoch counts only where both are known.
    """
    message = read.messages[0] if read.messages and read.messages[0].offset == last.offset else None
    if message is None:
        what = "the log no longer holds it"
    elif leaf_hash(message.value) != last.leaf:
        what = f"expected the record {last.leaf.hex()}, found {leaf_hash(message.value).hex()}"
    elif -1 not in (last.epoch, message.leader_epoch) and message.leader_epoch != last.epoch:
        what = f"expected leader epoch {last.epoch}, found {message.leader_epoch}"
    else:
        return
    raise VerificationError(
        f"{source.name}: the log was rewritten: the message at offset {last.offset} was anchored, or about to"
        f" be, and {what}; what stood in the log behind it may be lost",
        reason="log-rewritten",
        remedy=RESTORE,
    )


def check_continues(source: Source, position: Position, floor: Position | None) -> None:
    """Raise ``MismatchError`` (``reason="history-differs"``) if a final batch was replaced on the chain."""
    if floor is not None and position.seq == floor.seq and position.acc != floor.acc:
        raise MismatchError(
            f"{source.name}: accumulator at seq {floor.seq}, which was final",
            expected=floor.acc.hex(),
            actual=position.acc.hex(),
            reason="history-differs",
            remedy="Ask whoever runs the node: it serves another chain than before.",
        )
