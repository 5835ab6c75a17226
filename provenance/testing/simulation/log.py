"""A log with the misfortunes of Kafka, which remembers every history that it ever told."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from provenance.core.streams import LogIdentity
from provenance.errors import ConfigError
from provenance.ports import Bounds, LogMessage

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from provenance.ports import EventLog

__all__ = ["PartitionsOf", "SimulatedLog"]

TOPIC = "provenance.records"


@dataclass(slots=True)
class _Partition:
    """``messages`` ascend, trimmed ones included; readers see those from ``start`` to ``visible``."""

    start: int = 0
    end: int = 0
    visible: int = 0
    epoch: int = 0
    messages: list[LogMessage] = field(default_factory=list)
    former: list[list[LogMessage]] = field(default_factory=list)


class SimulatedLog:
    """An `EventLog` whose new messages are seen when `show` says so, as replicas let readers wait.

    Args:
        partitions: how many.
        short_reads: give out fewer messages than were asked for, as where they are large.
    """

    def __init__(self, partitions: int, *, short_reads: int = 1_000) -> None:
        self._short_reads = short_reads
        self._made = 0
        self._is_gone = False
        self._partitions = [_Partition() for _ in range(partitions)]
        self._topics: dict[str, list[_Partition]] = {self.topic_id: self._partitions}

    @property
    def topic_id(self) -> str:
        """The topic's id now."""
        return f"{self._made + 1:032x}"

    def identity(self, partition: int) -> LogIdentity:
        """A partition as it is called now, also while the topic is gone."""
        return LogIdentity("simulated-cluster", TOPIC, self.topic_id, partition)

    # The EventLog.

    def identities(self) -> Sequence[LogIdentity]:
        """All partitions; none while the topic is gone."""
        if self._is_gone:
            return ()
        return tuple(self.identity(number) for number in range(len(self._partitions)))

    def append(self, records: Sequence[tuple[bytes, bytes]]) -> Sequence[tuple[int, int]]:
        """Append pairs; the key's first byte is the partition."""
        return tuple((key[0], self.write(key[0], value)) for key, value in records)

    def bounds(self, partition: int) -> Bounds:
        """The range of offsets that can be read now."""
        held = self._there(partition)
        return Bounds(held.start, max(held.start, held.visible))

    def read(self, partition: int, start: int, limit: int) -> Sequence[LogMessage]:
        """At most ``limit`` messages."""
        held = self._there(partition)
        first = bisect_left(held.messages, max(start, held.start), key=_offset)
        found = held.messages[first : first + min(limit, self._short_reads)]
        return tuple(message for message in found if message.offset < held.visible)

    # What happens to it.

    def write(self, partition: int, value: bytes) -> int:
        """Append one message; its offset."""
        held = self._partitions[partition]
        offset, held.end = held.end, held.end + 1
        held.messages.append(LogMessage(offset, value, held.epoch))
        return offset

    def show(self, partition: int) -> None:
        """Let readers see all that is there."""
        held = self._partitions[partition]
        held.visible = held.end

    def skip(self, partition: int, count: int) -> None:
        """Give out offsets that hold no message, as a transaction's markers do."""
        self._partitions[partition].end += count

    def elect(self, partition: int) -> None:
        """Another leader, which has everything."""
        self._partitions[partition].epoch += 1

    def truncate(self, partition: int, end: int) -> None:
        """An unclean election: the messages from ``end`` on are lost, and their offsets given out anew."""
        held = self._partitions[partition]
        held.former.append(held.messages)
        held.messages = held.messages[: bisect_left(held.messages, end, key=_offset)]
        held.end, held.epoch = end, held.epoch + 1
        held.start, held.visible = min(held.start, end), min(held.visible, end)

    def trim(self, partition: int, start: int) -> None:
        """Retention: the messages before ``start`` cannot be read any more."""
        held = self._partitions[partition]
        held.start = max(held.start, min(start, held.end))
        held.visible = max(held.visible, held.start)

    def delete(self) -> None:
        """Delete the topic."""
        self._is_gone = True

    def create(self) -> None:
        """Make the topic anew: another id, offsets from 0."""
        self._is_gone = False
        self._made += 1
        self._partitions = [_Partition() for _ in self._partitions]
        self._topics[self.topic_id] = self._partitions

    # What the judge asks.

    def ends(self, partition: int) -> tuple[int, int]:
        """The first offset that can be read, and the next to be given out."""
        held = self._partitions[partition]
        return held.start, held.end

    def last(self, partition: int) -> int:
        """The offset of the last message that can be read; -1 if there is none."""
        held = self._partitions[partition]
        offset = held.messages[-1].offset if held.messages else -1
        return offset if offset >= held.start else -1

    def holds(self, topic_id: str, partition: int, offset: int, value: bytes) -> bool:
        """Whether this topic is there and has this message."""
        message = self.at(partition, offset)
        return topic_id == self.topic_id and message is not None and message.value == value

    def at(self, partition: int, offset: int) -> LogMessage | None:
        """The message at an offset, if it can be read."""
        held = self._partitions[partition]
        found = bisect_left(held.messages, offset, key=_offset)
        if offset < held.start or found == len(held.messages) or held.messages[found].offset != offset:
            return None
        return held.messages[found]

    def histories(self, topic_id: str, partition: int) -> list[dict[int, bytes]]:
        """Everything that the partition ever told: what it tells now, then what it told before losses."""
        held = self._topics[topic_id][partition]
        told = [held.messages, *reversed(held.former)]
        return [{message.offset: message.value for message in messages} for messages in told]

    def topics(self) -> list[str]:
        """The ids of all topics that there ever were."""
        return list(self._topics)

    def _there(self, partition: int) -> _Partition:
        if self._is_gone or not 0 <= partition < len(self._partitions):
            raise ConfigError(f"partition {partition}: the log does not have it", reason="no-partition")
        return self._partitions[partition]


class PartitionsOf:
    """Some partitions of a log: those that one process works on."""

    def __init__(self, log: EventLog, numbers: Collection[int]) -> None:
        self._log = log
        self._numbers = frozenset(numbers)
        self.append = log.append
        self.bounds = log.bounds
        self.read = log.read

    def identities(self) -> Sequence[LogIdentity]:
        """Those of them that are there."""
        return tuple(found for found in self._log.identities() if found.partition in self._numbers)


def _offset(message: LogMessage) -> int:
    return message.offset
