"""Reading one partition with kafka-python: assigned by hand, from where the caller says."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kafka import KafkaConsumer, TopicPartition
from kafka import errors as foreign

from provenance.adapters._kafka import FETCH_BYTES, MAX_READ_BYTES
from provenance.adapters.kafka._client import make, milliseconds, translated
from provenance.errors import MalformedError
from provenance.ports import Bounds, LogMessage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from provenance.adapters._kafka import KafkaSettings

__all__ = ["Reader"]

_POLL_MS = 200
_WAIT_MS = 20  # how long a broker may hold back an answer when there is nothing new


class Reader:
    """One partition, one consumer.

    The consumer's group is empty and it commits nothing; ``none`` as reset policy turns an offset that is
    gone into an error, where the default would go on at the end.

    Attributes:
        is_broken: after a batch that cannot be read. It must not be used again: kafka-python would loop
            inside its next poll, on an iterator that has ended.
    """

    def __init__(self, settings: KafkaSettings, partition: int) -> None:
        self._settings = settings
        self._place = TopicPartition(settings.topic, partition)
        self._position = -1
        self.is_broken = False
        self._consumer = make(
            KafkaConsumer,
            settings,
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="none",
            isolation_level="read_uncommitted",
            check_crcs=True,
            allow_auto_create_topics=False,
            fetch_max_wait_ms=_WAIT_MS,
            fetch_max_bytes=FETCH_BYTES,
            max_partition_fetch_bytes=FETCH_BYTES,
            metrics_enabled=False,
        )
        self._consumer.assign([self._place])

    def close(self) -> None:
        """Close the connections."""
        with translated(self._settings, "closing"):
            self._consumer.close(autocommit=False, timeout_ms=milliseconds(1.0))

    def bounds(self) -> Bounds:
        """What the partition holds."""
        with translated(self._settings, "asking for the log's bounds"):
            timeout = milliseconds(self._settings.answer_timeout)
            start = self._consumer.beginning_offsets([self._place], timeout)[self._place]
            end = self._consumer.end_offsets([self._place], timeout)[self._place]
        return Bounds(start, end)

    def read(self, start: int, limit: int) -> Sequence[LogMessage]:
        """As the port says."""
        with translated(self._settings, "reading"):
            # Not from what was fetched ahead: what the broker holds now may be something else.
            self._seek(start)
            found = self._first(start, limit)
            size = sum(len(message.value) for message in found)
            while 0 < len(found) < limit and size + FETCH_BYTES <= MAX_READ_BYTES and self._has_more():
                try:
                    more = self._poll(limit - len(found))
                except MalformedError:  # the next read begins with it
                    break
                if not more:  # a transaction's markers stand at the end, or the leader just went
                    break
                size += sum(len(message.value) for message in more)
                found += more
        return found

    def _first(self, start: int, limit: int) -> list[LogMessage]:
        """The first messages from ``start`` on; none only at the end of the log."""
        deadline = time.monotonic() + self._settings.answer_timeout
        if not self._has_more() and start >= self.bounds().end:
            return []  # a quiet log is asked, not waited for
        while True:
            try:
                if found := self._poll(limit):
                    return found
                position = self._consumer.position(self._place, timeout_ms=_POLL_MS)
            except (foreign.OffsetOutOfRangeError, foreign.LogTruncationError):
                # Behind the end, before the start, or cut off beneath us: the caller compares what comes.
                position = None
            bounds = self.bounds()
            if max(start, position or 0) >= bounds.end:
                return []
            if time.monotonic() > deadline:
                raise self._settings.silent("reading")
            if position is None:
                self._seek(max(start, bounds.start))

    def _seek(self, offset: int) -> None:
        self._consumer.seek(self._place, offset)
        self._position = offset

    def _has_more(self) -> bool:
        end = self._consumer.highwater(self._place)
        return end is not None and self._position < end

    def _poll(self, limit: int) -> list[LogMessage]:
        try:
            records = self._consumer.poll(_POLL_MS, max_records=limit).get(self._place, ())
        except (foreign.UnsupportedCodecError, foreign.CorruptRecordError) as error:
            self.is_broken = True
            codec = isinstance(error, foreign.UnsupportedCodecError)
            raise self._settings.unreadable(
                self._place.partition, self._position, error, codec=codec
            ) from error
        if records:
            self._position = records[-1].offset + 1
        return [
            LogMessage(record.offset, record.value or b"", _epoch(record.leader_epoch)) for record in records
        ]


def _epoch(found: int | None) -> int:
    return -1 if found is None else found
