"""The event log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from provenance.core.streams import LogIdentity

__all__ = ["Bounds", "EventLog", "LogMessage"]


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
        On an error any prefix may have been written; a repeat of the same bytes is harmless. A value above
        1 MiB is refused with all of its call.
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
