"""Messages read and not yet a batch, and the limits that close one (step 3).

A batch closes by count, by uncompressed bytes or by age, and earlier in two cases: where the skipped ranges
would make its manifest longer than a canonical object may be, and where another leader's messages begin, so
that step 2 reads the last one of the former leader again before any of the new one is anchored. Where it
closes is free: other boundaries after a crash are as good, for the contract accepts only what continues the
head.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Protocol

from provenance.core import canonical
from provenance.core.batches import (
    MAX_LEAF_BYTES,
    Batch,
    Leaf,
    Manifest,
    Position,
    build_batch,
    encode_manifest,
)
from provenance.core.streams import MAX_GENERATION, MAX_OFFSET
from provenance.errors import ConfigError, MalformedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from provenance.core.streams import LogIdentity

__all__ = ["Limits", "Message", "Pile", "add_messages", "build_from_pile", "empty_pile", "is_closed"]

MAX_RECORDS = 65_536
MAX_BYTES = 64 << 20
MAX_AGE = 86_400.0


class Message(Protocol):
    """A message of the log; `provenance.ports.LogMessage` is one."""

    @property
    def offset(self) -> int:
        """Its offset."""
        ...

    @property
    def value(self) -> bytes:
        """Its value's bytes; empty for null."""
        ...

    @property
    def leader_epoch(self) -> int:
        """The epoch of the leader that wrote it, -1 if unknown."""
        ...


@dataclass(frozen=True, slots=True)
class Limits:
    """When a batch closes, and how the log is read.

    Args:
        max_records: leaves in a batch, 1 to 65,536.
        max_bytes: uncompressed bytes of a batch's leaves, 1 to 64 MiB; one larger message is a batch alone.
        max_age: seconds since the batch's first message was read, 0 to 86,400; a drain does not wait for it.
        read_size: messages asked for in one read, 1 to 65,536.
        poll: seconds between two looks at a quiet log or an unmined transaction, above 0 to 3,600.
    """

    max_records: int = 16_384
    max_bytes: int = 16 << 20
    max_age: float = 10.0
    read_size: int = 1_000
    poll: float = 1.0

    def __post_init__(self) -> None:
        _require("records in a batch", self.max_records, 1, MAX_RECORDS)
        _require("bytes in a batch", self.max_bytes, 1, MAX_BYTES)
        _require("age of a batch in seconds", self.max_age, 0, MAX_AGE)
        _require("messages in a read", self.read_size, 1, MAX_RECORDS)
        _require("seconds between polls", self.poll, 0.001, 3_600)


def _require(what: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:  # false for NaN too
        raise ConfigError(f"{what}: {value}, expected {low} to {high}", reason="limit")


@dataclass(frozen=True, slots=True)
class Pile:
    """Messages from ``first_offset`` on, in chunks as they were read.

    ``size`` counts their bytes, ``room`` the bytes that the manifest still has for skipped ranges, ``since``
    is when the first one was read (seconds of a monotonic clock), ``epoch`` the last one's leader epoch.
    """

    first_offset: int
    next_offset: int
    room: int
    chunks: tuple[tuple[Leaf, ...], ...] = ()
    count: int = 0
    size: int = 0
    epoch: int = -1
    since: float = 0.0
    full: bool = False


def empty_pile(log: LogIdentity, next_offset: int) -> Pile:
    """A pile for the batch that begins at this offset."""
    # The longest manifest without a skipped range: its numbers as large as they may be.
    longest = Manifest(
        stream=bytes(32),
        generation=MAX_GENERATION,
        seq=MAX_OFFSET,
        log=log,
        first_offset=MAX_OFFSET,
        next_offset=MAX_OFFSET,
        skipped=(),
        leaf_count=2**32 - 1,
        last_leader_epoch=2**31 - 1,
        root=bytes(32),
        prev_acc=bytes(32),
    )
    return Pile(next_offset, next_offset, canonical.MAX_BYTES - len(encode_manifest(longest)))


def add_messages(pile: Pile, messages: Sequence[Message], limits: Limits, now: float) -> Pile:
    """The pile with as many of the messages as its batch has room for; at least one if it is empty.

    Raises:
        MalformedError: offsets that do not ascend, or a message above 1 MiB (``reason="leaf-length"``).
    """
    taken: list[Leaf] = []
    count, size, room, epoch, expected = pile.count, pile.size, pile.room, pile.epoch, pile.next_offset
    full = pile.full
    for message in messages:
        offset, length = message.offset, len(message.value)
        _check_message(offset, length, expected)
        cost = len(f"[{expected},{offset}],") if offset > expected else 0
        elected = count > 0 and message.leader_epoch != epoch
        if (
            count == limits.max_records
            or cost > room
            or elected
            or (count and size + length > limits.max_bytes)
        ):
            full = True
            break
        taken.append(Leaf(offset, message.value))
        count, size, room, epoch, expected = (
            count + 1,
            size + length,
            room - cost,
            message.leader_epoch,
            offset + 1,
        )
    full = full or count >= limits.max_records or size >= limits.max_bytes
    if not taken:
        return replace(pile, full=full)
    since = pile.since if pile.count else now
    return Pile(
        pile.first_offset, expected, room, (*pile.chunks, tuple(taken)), count, size, epoch, since, full
    )


def _check_message(offset: int, length: int, expected: int) -> None:
    if offset < expected:
        raise MalformedError(
            f"log: offset {offset} was read where {expected} or a later one was due", reason="offset-order"
        )
    if length > MAX_LEAF_BYTES:
        raise MalformedError(
            f"log: the message at offset {offset} has {length} bytes, expected at most {MAX_LEAF_BYTES}",
            reason="leaf-length",
            remedy="Lower the log's own limit for messages; the stream cannot pass this one.",
        )


def is_closed(pile: Pile, limits: Limits, now: float) -> bool:
    """Whether the pile is a batch by count, bytes, manifest or age."""
    return pile.full or (pile.count > 0 and now - pile.since >= limits.max_age)


def build_from_pile(pile: Pile, position: Position, log: LogIdentity) -> Batch:
    """The batch of a pile's messages, which continues the position."""
    leaves = tuple(chain.from_iterable(pile.chunks))
    return build_batch(position, log, leaves, last_leader_epoch=pile.epoch)
