"""The event log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from provenance.core.streams import LogIdentity
    from provenance.core.topic_rules import TopicFacts

__all__ = ["Bounds", "EventLog", "LogMessage", "Mark", "OffsetMarks", "TopicAdmin"]


@dataclass(frozen=True, slots=True)
class LogMessage:
    """One message as the log holds it: its offset, its value's bytes as they came.

    And the epoch of the leader that wrote it (-1 unknown).
    """

    offset: int
    value: bytes
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class Bounds:
    """``start`` is the first offset that may still be read, ``end`` the next one to be given out.

    Equal when the log is empty.
    """

    start: int
    end: int


class EventLog(Protocol):
    """An ordered, durable log of partitions: Kafka, or the SQLite file of the embedded set-up."""

    def identities(self) -> Sequence[LogIdentity]:
        """Cluster, topic, topic id and number of every partition, in ascending order of number.

        Asked anew each time.
        """
        ...

    def append(self, records: Sequence[tuple[bytes, bytes]]) -> Sequence[tuple[int, int]]:
        """Append (key, value) pairs and return the (partition, offset) of each.

        Durable when it returns: acknowledged by Kafka, or synced to disk. All pairs of one call that go to
        one partition stay in order.
        On an error any prefix may have been written, or still be written later; a repeat of the same bytes is
        harmless. A value above 1 MiB (Kafka: 4 KiB less, for keys) is refused with all of its call.
        """
        ...

    def bounds(self, partition: int) -> Bounds:
        """The range of offsets that the partition holds now."""
        ...

    def read(self, partition: int, start: int, limit: int) -> Sequence[LogMessage]:
        """At most ``limit`` messages with offset ≥ ``start``, ascending; empty only at the end.

        Fewer where they are large. Offsets may skip where the log holds no message.
        """
        ...


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a stream is final, as those see it who watch a log's lag: the next offset, and a short note."""

    next_offset: int
    note: str = ""


class OffsetMarks(Protocol):
    """Offsets that a log keeps for its readers. Nothing is ever decided by them: they may be lost or old."""

    def mark(self, partition: int, mark: Mark) -> None:
        """Keep a mark in place of the last one."""
        ...

    def marked(self, partition: int) -> Mark | None:
        """The last mark, if there is one."""
        ...


class TopicAdmin(Protocol):
    """Describes and makes the topic that holds the log."""

    def facts(self) -> TopicFacts | None:
        """The topic as it is now, defaults included, or None if it is not there."""
        ...

    def brokers(self) -> int:
        """How many brokers the cluster has."""
        ...

    def create(self, partitions: int, replicas: int, settings: Mapping[str, str]) -> None:
        """Make the topic, and wait until it can be described; nothing happens where there is one."""
        ...
