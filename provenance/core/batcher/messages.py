"""What goes in and out of a stream's machine: the stream, instructions and events.

Every instruction is answered by exactly one event, or by `Failed`. A reply that got lost is a `Failed` too:
the machine never learns whether the thing happened, and must be right either way.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    from provenance.core.batcher.account import Ending
    from provenance.core.batcher.pile import Message
    from provenance.core.batches import Manifest, Position
    from provenance.core.streams import LogIdentity
    from provenance.core.transactions import JournalEntry, SignedTransaction
    from provenance.errors import ProvenanceError

__all__ = [
    "AnchorFound",
    "Dropped",
    "DropOthers",
    "Event",
    "Failed",
    "FileRead",
    "FileWritten",
    "FindAnchor",
    "Forget",
    "Forgotten",
    "HeadRead",
    "Instruction",
    "Keep",
    "Kept",
    "LogRead",
    "ReadFile",
    "ReadHead",
    "ReadLog",
    "Send",
    "Sent",
    "Settle",
    "Settled",
    "SignAnchor",
    "Signed",
    "Source",
    "Wait",
    "Woke",
    "WriteFile",
]


@dataclass(frozen=True, slots=True)
class Source:
    """A stream and the partition that it is bound to; they never change while a machine lives."""

    stream: bytes
    generation: int
    start_offset: int
    log: LogIdentity

    @property
    def name(self) -> str:
        """What messages call it: the stream's first digits, topic and partition."""
        return f"stream {self.stream.hex()[:16]} ({self.log.topic}/{self.log.partition})"


# ---------------------------------------------------------------------------------------------- instructions


@dataclass(frozen=True, slots=True)
class ReadHead:
    """Ask the contract for the stream's head → `HeadRead`."""

    source: Source


@dataclass(frozen=True, slots=True)
class ReadFile:
    """Get a batch file → `FileRead`."""

    name: str


@dataclass(frozen=True, slots=True)
class WriteFile:
    """Put a batch file, synced; equal bytes that are there already are fine → `FileWritten`."""

    name: str
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class DropOthers:
    """Delete the files of this seq with another acc: the seq is final with this one → `Dropped`."""

    stream: bytes
    seq: int
    acc: bytes


@dataclass(frozen=True, slots=True)
class ReadLog:
    """Read at most ``limit`` messages from ``start`` on, and *then* the partition's bounds and identity.

    In this order a log that was cut or made anew while we read cannot pass → `LogRead`. With ``overlap`` the
    first message was read before: where a read gives no more than that one, more are read, and then it again.
    """

    source: Source
    start: int
    limit: int
    overlap: bool = False


@dataclass(frozen=True, slots=True)
class FindAnchor:
    """Find the anchor of a seq on the chain → `AnchorFound`."""

    source: Source
    seq: int


@dataclass(frozen=True, slots=True)
class SignAnchor:
    """Sign the transaction that anchors the batch, with the account's next nonce → `Signed`."""

    manifest: Manifest


@dataclass(frozen=True, slots=True)
class Keep:
    """Journal a signed transaction, synced → `Kept`."""

    entry: JournalEntry


@dataclass(frozen=True, slots=True)
class Send:
    """Send the transaction's bytes → `Sent`."""

    transaction: SignedTransaction


@dataclass(frozen=True, slots=True)
class Settle:
    """Look the account's transactions up and send again what is unknown → `Settled` for this one."""

    entry: JournalEntry


@dataclass(frozen=True, slots=True)
class Forget:
    """Drop the journal entry → `Forgotten`."""

    transaction: SignedTransaction


@dataclass(frozen=True, slots=True)
class Wait:
    """Do nothing for about this many seconds → `Woke`."""

    seconds: float


Instruction: TypeAlias = (
    "ReadHead | ReadFile | WriteFile | DropOthers | ReadLog | FindAnchor | SignAnchor | Keep | Send | Settle"
    " | Forget | Wait"
)


# ---------------------------------------------------------------------------------------------------- events


@dataclass(frozen=True, slots=True)
class HeadRead:
    """The stream's head; ``position`` is None if the contract does not know the stream."""

    position: Position | None
    closed: bool = False


@dataclass(frozen=True, slots=True)
class FileRead:
    """The file's bytes, or None."""

    data: bytes | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class FileWritten:
    """The file is there."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """No file of this seq has another acc now."""


@dataclass(frozen=True, slots=True)
class LogRead:
    """Messages, and what the log said after they were read.

    ``start`` and ``end`` are the partition's bounds, ``log`` its identity, None if it is gone; ``now`` is
    seconds of a monotonic clock.
    """

    messages: Sequence[Message] = field(repr=False)
    start: int
    end: int
    log: LogIdentity | None
    now: float


@dataclass(frozen=True, slots=True)
class AnchorFound:
    """The position before and after the anchor of a seq, or None where nothing is anchored at it.

    ``final`` says whether the anchor is final.
    """

    before: Position | None
    after: Position | None
    final: bool = False


@dataclass(frozen=True, slots=True)
class Signed:
    """The signed transaction."""

    transaction: SignedTransaction


@dataclass(frozen=True, slots=True)
class Kept:
    """The entry is durable."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A node took the bytes."""


@dataclass(frozen=True, slots=True)
class Settled:
    """How the transaction ended; None if it has not."""

    ending: Ending | None


@dataclass(frozen=True, slots=True)
class Forgotten:
    """The entry is gone."""


@dataclass(frozen=True, slots=True)
class Woke:
    """The time is over."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The instruction failed, or its reply was lost."""

    error: ProvenanceError


Event: TypeAlias = (
    "HeadRead | FileRead | FileWritten | Dropped | LogRead | AnchorFound | Signed | Kept | Sent | Settled"
    " | Forgotten | Woke | Failed"
)
