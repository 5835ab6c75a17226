"""The event log in a Kafka topic, by confluent-kafka: the same as `provenance.adapters.kafka`, and faster.

It is built on librdkafka, a library in C, which some systems do not have; everything else about the two is
one port, one set of settings and one set of tests.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from provenance.adapters._kafka import check_read
from provenance.adapters.kafka_confluent._admin import (
    ConfluentMarks,
    ConfluentTopic,
    describe_identities,
)
from provenance.adapters.kafka_confluent._client import client_options, translated
from provenance.adapters.kafka_confluent._producer import Appender
from provenance.adapters.kafka_confluent._reader import Reader
from provenance.core.streams import MAX_OFFSET
from provenance.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeVar

    from confluent_kafka.admin import AdminClient

    from provenance.adapters._kafka import KafkaSettings
    from provenance.core.streams import LogIdentity
    from provenance.ports import Bounds, LogMessage

    Result = TypeVar("Result")

__all__ = ["ConfluentLog", "ConfluentMarks", "ConfluentTopic"]


class ConfluentLog:
    """An `EventLog`; nothing is connected before the first call.

    Appends may come from several threads at once; reads wait for one another.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._appender = Appender(settings)
        self._lock = threading.RLock()
        self._admin: AdminClient | None = None
        self._readers: dict[int, Reader] = {}
        self._is_there = False

    def identities(self) -> Sequence[LogIdentity]:
        """Every partition of the topic as the cluster knows it now.

        Raises:
            ConfigError: there is no such topic (``reason="no-topic"``), or the brokers refuse us.
            UnavailableError: no broker answers.
        """
        with self._lock:
            return self._fresh(self._identities)

    def append(self, records: Sequence[tuple[bytes, bytes]]) -> Sequence[tuple[int, int]]:
        """Append (key, value) pairs; acknowledged by every replica in sync when it returns.

        Raises:
            MalformedError: a key above 4 KiB or a value above what 1 MiB leaves for it; nothing is sent.
            UnavailableError: not acknowledged in time (``reason="not-acknowledged"``); it may still arrive.
        """
        if records and not self._is_there:
            with self._lock:
                self._fresh(self._identities)  # the library would wait for a topic that nobody will make
            self._is_there = True
        return self._appender.append(records)

    def bounds(self, partition: int) -> Bounds:
        """The range of offsets that the partition holds now."""
        with self._lock:
            return self._fresh(lambda: self._reader(partition).bounds())

    def read(self, partition: int, start: int, limit: int) -> Sequence[LogMessage]:
        """At most ``limit`` messages from ``start`` on, fewer when they hold more than 16 MiB.

        Raises:
            MalformedError: a batch is damaged, or packed with an unknown codec; named by its offset,
                ``reason="log-corrupt"`` or ``"log-codec"``.
            UnavailableError: no broker answers.
        """
        check_read(start, limit)
        with self._lock:
            return self._fresh(lambda: self._reader(partition).read(min(start, MAX_OFFSET), limit))

    def close(self) -> None:
        """Close every connection; the next use opens them again."""
        self._appender.close()
        with self._lock:
            self._drop()

    def _fresh(self, ask: Callable[[], Result]) -> Result:
        """Ask; clients that nobody answers are dropped, so that the next call connects anew."""
        try:
            return ask()
        except UnavailableError:
            self._drop()
            raise

    def _drop(self) -> None:
        readers = list(self._readers.values())
        self._readers, self._admin = {}, None
        for reader in readers:
            reader.close()

    def _reader(self, partition: int) -> Reader:
        if partition not in self._readers:
            count = len(self._identities())
            if not 0 <= partition < count:
                raise self._settings.no_partition(partition, count)
            self._readers[partition] = Reader(self._settings, partition)
        return self._readers[partition]

    def _identities(self) -> list[LogIdentity]:
        if self._admin is None:
            from confluent_kafka.admin import AdminClient

            options = client_options(self._settings)
            with translated(self._settings, "connecting"):
                self._admin = AdminClient(options)
        return describe_identities(self._admin, self._settings)
