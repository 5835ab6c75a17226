"""Appending with confluent-kafka: one idempotent producer per process, made anew when it gives up."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from confluent_kafka import KafkaError, KafkaException, Producer

from provenance.adapters._kafka import MAX_TIMEOUT_MS, InFlight, check_records, same_process
from provenance.adapters.kafka_confluent._client import client_options, translate, translated
from provenance.core.topic_rules import MAX_MESSAGE_BYTES
from provenance.errors import MalformedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from confluent_kafka import Message

    from provenance.adapters._kafka import KafkaSettings
    from provenance.errors import ProvenanceError

__all__ = ["Appender"]

_POLL = 0.05  # seconds; other threads may have served our reports in the meantime


@dataclass(slots=True)
class _Waiting:
    """The records of one call, and what became of them."""

    places: list[tuple[int, int] | None]
    left: int
    error: KafkaError | None = None
    changed: threading.Condition = field(default_factory=threading.Condition)


class Appender:
    """Appends records and waits for their acknowledgement; for several threads.

    The producer itself never gives a record up (its timeout is the largest there is): an append that was not
    acknowledged in time raises, and what it sent may still arrive.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._in_flight = InFlight(settings.in_flight_limit)
        self._producer: Producer | None = None
        self._owner = 0

    def append(self, records: Sequence[tuple[bytes, bytes]]) -> Sequence[tuple[int, int]]:
        """As the port says."""
        check_records(records)
        if not records:
            return ()
        deadline = time.monotonic() + self._settings.ack_timeout
        producer = self._opened()
        waiting = _Waiting([None] * len(records), len(records))
        try:
            for number, (key, value) in enumerate(records):
                self._send(
                    producer, key, value, deadline, self._report(waiting, number, len(key) + len(value))
                )
            return self._wait(producer, waiting, deadline)
        except KafkaException as error:
            self._discard(producer)
            raise self._failed(error.args[0], len(records)) from error

    def close(self) -> None:
        """End the producer; what is not acknowledged by now may be lost, and was never said to be there."""
        with self._lock:
            producer = self._producer
        if producer is not None:
            self._discard(producer)

    def _opened(self) -> Producer:
        with self._lock:
            if self._producer is None or not same_process(self._owner):
                if self._producer is not None:  # of the process that forked us: its threads are not here
                    self._in_flight = InFlight(self._settings.in_flight_limit)
                options = client_options(self._settings)
                options |= {
                    "acks": "all",
                    "enable.idempotence": True,
                    "message.timeout.ms": MAX_TIMEOUT_MS,
                    "message.max.bytes": MAX_MESSAGE_BYTES,
                    "batch.size": 128 << 10,
                    "linger.ms": 0,
                    "compression.type": "none",
                    # As the other client and Java do it: one key goes to one partition, whoever sends it.
                    "partitioner": "murmur2_random",
                }
                with translated(self._settings, "connecting"):
                    self._producer = Producer(options)
                self._owner = os.getpid()
            return self._producer

    def _report(
        self, waiting: _Waiting, number: int, size: int
    ) -> Callable[[KafkaError | None, Message], None]:
        in_flight = self._in_flight

        def report(error: KafkaError | None, message: Message) -> None:
            in_flight.release(size)
            with waiting.changed:
                waiting.left -= 1
                waiting.error = waiting.error or error
                waiting.places[number] = (message.partition() or 0, _offset(message))
                waiting.changed.notify_all()

        return report

    def _send(
        self,
        producer: Producer,
        key: bytes,
        value: bytes,
        deadline: float,
        report: Callable[[KafkaError | None, Message], None],
    ) -> None:
        size, in_flight = len(key) + len(value), self._in_flight
        while not in_flight.acquire(size, time.monotonic() + _POLL):
            producer.poll(0)  # room comes with the reports of others, which nobody may be serving
            if time.monotonic() > deadline:
                raise self._settings.not_acknowledged(
                    1, f"{in_flight.size} bytes that were sent before still wait"
                )
        while True:
            try:
                producer.produce(self._settings.topic, value=value, key=key, on_delivery=report)
                return
            except BufferError:
                if time.monotonic() > deadline:
                    in_flight.release(size)
                    raise self._settings.not_acknowledged(1, "the producer's queue is full") from None
                producer.poll(_POLL)
            except BaseException:
                in_flight.release(size)
                raise

    def _wait(self, producer: Producer, waiting: _Waiting, deadline: float) -> Sequence[tuple[int, int]]:
        while waiting.left:
            left = deadline - time.monotonic()
            if left <= 0:
                raise self._settings.not_acknowledged(
                    waiting.left, f"no answer within {self._settings.ack_timeout:g} seconds"
                )
            producer.poll(min(left, _POLL))
        if waiting.error is not None:
            raise KafkaException(waiting.error)
        places = [place for place in waiting.places if place is not None]
        if any(offset < 0 for _, offset in places):
            raise self._settings.not_acknowledged(
                len(places), "the broker does not know where it put a repeat"
            )
        return places

    def _failed(self, error: KafkaError, count: int) -> ProvenanceError:
        if error.code() in {KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE}:
            return MalformedError(
                f"topic {self._settings.topic} takes no message of this size: {error.str()}",
                reason="value-length",
                remedy=f"Set the topic's max.message.bytes to {MAX_MESSAGE_BYTES}.",
            )
        found = translate(self._settings, "appending", error)
        if found.reason == "kafka-unreachable":
            return self._settings.not_acknowledged(count, error.name())
        return found

    def _discard(self, producer: Producer) -> None:
        """End a producer without waiting for what it still holds; the next append makes another."""
        with self._lock:
            if self._producer is producer:
                self._producer = None
        producer.purge()
        producer.flush(1.0)  # serves the reports of what was purged


def _offset(message: Message) -> int:
    offset = message.offset()
    return -1 if offset is None else offset
