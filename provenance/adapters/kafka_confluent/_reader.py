"""Reading one partition with confluent-kafka: assigned by hand, from where the caller says."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaError, TopicPartition

from provenance.adapters._kafka import FETCH_BYTES, GROUP, MAX_READ_BYTES
from provenance.adapters.kafka_confluent._client import client_options, translate, translated
from provenance.core.topic_rules import MAX_MESSAGE_BYTES
from provenance.ports import Bounds, LogMessage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from confluent_kafka import Message

    from provenance.adapters._kafka import KafkaSettings

__all__ = ["Reader"]

_POLL = 0.1  # seconds
_END = KafkaError._PARTITION_EOF  # noqa: SLF001 - the library's own names for its errors
_GONE = frozenset(
    {
        KafkaError._AUTO_OFFSET_RESET,  # noqa: SLF001
        KafkaError._LOG_TRUNCATION,  # noqa: SLF001
        KafkaError.OFFSET_OUT_OF_RANGE,
    }
)
_CODEC = frozenset(
    {
        KafkaError._BAD_COMPRESSION,  # noqa: SLF001
        KafkaError._NOT_IMPLEMENTED,  # noqa: SLF001
        KafkaError._UNSUPPORTED_FEATURE,  # noqa: SLF001
    }
)
_DAMAGED = frozenset({KafkaError._BAD_MSG, KafkaError._UNDERFLOW, KafkaError.INVALID_MSG})  # noqa: SLF001


class Reader:
    """One partition, one consumer, whose group never has a member.

    ``error`` as reset policy turns an offset that is gone into an error, where the default would go on at
    the end. What the library fetches ahead is bounded, since a read that does not follow the last one throws
    it away.
    """

    def __init__(self, settings: KafkaSettings, partition: int) -> None:
        self._settings = settings
        self._place = (settings.topic, partition)
        options = client_options(settings) | {
            "group.id": GROUP,  # the library wants one; nothing is subscribed or committed
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "isolation.level": "read_uncommitted",
            "check.crcs": True,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 20,
            "fetch.queue.backoff.ms": 2,
            "fetch.message.max.bytes": FETCH_BYTES,
            "fetch.max.bytes": FETCH_BYTES,
            "queued.min.messages": 1,
            "queued.max.messages.kbytes": FETCH_BYTES >> 10,
        }
        with translated(settings, "connecting"):
            self._consumer = Consumer(options)

    def close(self) -> None:
        """Close the connections."""
        with translated(self._settings, "closing"):
            self._consumer.close()

    def bounds(self) -> Bounds:
        """What the partition holds."""
        with translated(self._settings, "asking for the log's bounds"):
            start, end = self._consumer.get_watermark_offsets(
                TopicPartition(*self._place), timeout=self._settings.answer_timeout, cached=False
            )
        return Bounds(start, end)

    def read(self, start: int, limit: int) -> Sequence[LogMessage]:
        """As the port says."""
        bounds = self.bounds()
        if start >= bounds.end:
            return []
        start = max(start, bounds.start)
        with translated(self._settings, "reading"):
            # Not from what was fetched ahead: what the broker holds now may be something else.
            self._consumer.assign([TopicPartition(*self._place, start)])
            try:
                return self._take(min(limit, bounds.end - start))
            finally:
                self._consumer.unassign()  # else the library goes on fetching what nobody may ask for

    def _take(self, limit: int) -> list[LogMessage]:
        found: list[LogMessage] = []
        size = 0
        deadline = time.monotonic() + self._settings.answer_timeout
        while len(found) < limit and size < MAX_READ_BYTES:
            # Every message may have 1 MiB, and the library gives as many as it is asked for.
            room = max(1, (MAX_READ_BYTES - size) // MAX_MESSAGE_BYTES)
            messages, is_end = self._poll(min(room, limit - len(found)))
            found += messages
            size += sum(len(message.value) for message in messages)
            if is_end or (found and not messages):
                break
            if not messages and time.monotonic() > deadline:
                raise self._settings.silent("reading")
        return found

    def _poll(self, limit: int) -> tuple[list[LogMessage], bool]:
        """Messages, and whether the end of the log was met behind them."""
        found: list[LogMessage] = []
        is_end = False
        for message in self._consumer.consume(limit, _POLL):
            error = message.error()
            if error is None:
                found.append(LogMessage(message.offset(), message.value() or b"", _epoch(message)))
            elif error.code() == _END:
                is_end = True
            else:
                if found:  # the next read begins with the error
                    return found, True
                raise self._failure(error, message)
        return found, is_end

    def _failure(self, error: KafkaError, message: Message) -> Exception:
        where = message.offset()
        if error.code() in _CODEC | _DAMAGED:
            return self._settings.unreadable(self._place[1], where, error.str(), codec=error.code() in _CODEC)
        if error.code() in _GONE:
            return self._settings.unreachable("reading", f"offset {where} went away meanwhile: {error.str()}")
        return translate(self._settings, "reading", error)


def _epoch(message: Message) -> int:
    epoch = message.leader_epoch()
    return -1 if epoch is None else epoch
