"""Appending with kafka-python: one idempotent producer per process, made anew when it gives up."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, Any

from kafka import KafkaProducer
from kafka import errors as foreign

from provenance.adapters._kafka import MAX_TIMEOUT_MS, InFlight, check_records, same_process
from provenance.adapters.kafka._client import make, milliseconds, translate, translated
from provenance.core.topic_rules import MAX_MESSAGE_BYTES
from provenance.errors import MalformedError, ProvenanceError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from provenance.adapters._kafka import KafkaSettings

__all__ = ["Appender"]

_BATCH_BYTES = 128 << 10
_TOO_LARGE = (foreign.MessageSizeTooLargeError, foreign.RecordListTooLargeError)


class Appender:
    """Appends records and waits for their acknowledgement; for several threads.

    The producer itself never gives a record up (its timeout is the largest there is): an append that was not
    acknowledged in time raises, and what it sent may still arrive. Whatever the producer does give up ends
    it: after a delivery timeout kafka-python does not send to that partition again.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._in_flight = InFlight(settings.in_flight_limit)
        self._producer: KafkaProducer | None = None
        self._owner = 0

    def append(self, records: Sequence[tuple[bytes, bytes]]) -> Sequence[tuple[int, int]]:
        """As the port says."""
        check_records(records)
        if not records:
            return ()
        deadline = time.monotonic() + self._settings.ack_timeout
        producer = self._opened()
        futures: list[Any] = []
        try:
            for key, value in records:
                futures.append(self._send(producer, key, value, deadline, len(records)))
            return [self._wait(future, deadline, len(records)) for future in futures]
        except foreign.KafkaError as error:
            self._discard(producer)
            raise self._failed(error, len(records)) from error

    def close(self) -> None:
        """End the producer; what is not acknowledged by now may be lost, and was never said to be there."""
        with self._lock:
            producer = self._producer
        if producer is not None:
            self._discard(producer)

    def _opened(self) -> KafkaProducer:
        with self._lock:
            if self._producer is None or not same_process(self._owner):
                if self._producer is not None:  # of the process that forked us: its threads are not here
                    self._in_flight = InFlight(self._settings.in_flight_limit)
                self._producer = make(
                    KafkaProducer,
                    self._settings,
                    acks="all",
                    enable_idempotence=True,
                    delivery_timeout_ms=MAX_TIMEOUT_MS,
                    max_block_ms=milliseconds(self._settings.ack_timeout),
                    max_request_size=MAX_MESSAGE_BYTES,
                    batch_size=_BATCH_BYTES,
                    allow_auto_create_topics=False,
                    metrics_enabled=False,
                )
                self._owner = os.getpid()
            return self._producer

    def _send(self, producer: KafkaProducer, key: bytes, value: bytes, deadline: float, count: int) -> Any:
        size, in_flight = len(key) + len(value), self._in_flight
        if not in_flight.acquire(size, deadline):
            raise self._settings.not_acknowledged(
                count, f"{in_flight.size} bytes that were sent before still wait"
            )
        try:
            future = producer.send(self._settings.topic, value=value, key=key)
        except BaseException:
            in_flight.release(size)
            raise
        future.add_both(lambda _: in_flight.release(size))
        return future

    def _wait(self, future: Any, deadline: float, count: int) -> tuple[int, int]:
        try:
            place = future.get(max(0.001, deadline - time.monotonic()))
        except foreign.KafkaTimeoutError:
            if future.is_done:
                raise
            raise self._settings.not_acknowledged(
                count, f"no answer within {self._settings.ack_timeout:g} seconds"
            ) from None
        if place.offset < 0:
            raise self._settings.not_acknowledged(count, "the broker does not know where it put a repeat")
        return place.partition, place.offset

    def _failed(self, error: foreign.KafkaError, count: int) -> ProvenanceError:
        if isinstance(error, _TOO_LARGE):
            return MalformedError(
                f"topic {self._settings.topic} takes no message of this size: {error}",
                reason="value-length",
                remedy=f"Set the topic's max.message.bytes to {MAX_MESSAGE_BYTES}.",
            )
        found = translate(self._settings, "appending", error)
        if found.reason == "kafka-unreachable":
            return self._settings.not_acknowledged(count, type(error).__name__)
        return found

    def _discard(self, producer: KafkaProducer) -> None:
        """End a producer without waiting for what it still holds; the next append makes another."""
        with self._lock:
            if self._producer is producer:
                self._producer = None
        sender = producer._sender  # noqa: SLF001 - close() alone waits for what it cannot send, then raises
        sender.force_close()
        sender.join(self._settings.ack_timeout)
        with translated(self._settings, "closing the producer"):
            producer.close(timeout=1)
