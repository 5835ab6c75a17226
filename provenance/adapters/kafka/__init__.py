"""The event log in a Kafka topic, by kafka-python.

What Kafka promises rests on settings, so they are all given: the producer is idempotent, waits for every
replica in sync and never gives up by itself; consumers are assigned to partitions by hand, begin where the
caller says, and turn an offset that is gone into an error. A topic is known by the ids of cluster and topic,
asked for each time, for offsets begin again where either is made anew (`docs/adr/0040-kafka-log.md`).

A client that stopped answering is thrown away and made anew by the next call.
"""

from __future__ import annotations

import threading
import uuid
from typing import TYPE_CHECKING

from kafka import KafkaAdminClient
from kafka import errors as foreign

from provenance.adapters._kafka import check_read
from provenance.adapters.kafka._client import make, translated
from provenance.adapters.kafka._producer import Appender
from provenance.adapters.kafka._reader import Reader
from provenance.adapters.kafka._topic import KafkaMarks, KafkaTopic
from provenance.core.streams import MAX_OFFSET, LogIdentity
from provenance.errors import MalformedError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeVar

    from provenance.adapters._kafka import KafkaSettings
    from provenance.ports import Bounds, LogMessage

    Result = TypeVar("Result")

__all__ = ["KafkaLog", "KafkaMarks", "KafkaTopic"]


class KafkaLog:
    """An `EventLog`; nothing is connected before the first call.

    Appends may come from several threads at once; reads wait for one another.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._appender = Appender(settings)
        self._lock = threading.RLock()
        self._admin: KafkaAdminClient | None = None
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
            MalformedError: a batch is damaged, or packed with a codec that is not installed; named by its
                offset, ``reason="log-corrupt"`` or ``"log-codec"``.
            UnavailableError: no broker answers.
        """
        check_read(start, limit)
        with self._lock:
            return self._fresh(lambda: self._read(partition, min(start, MAX_OFFSET), limit))

    def close(self) -> None:
        """Close every connection; the next use opens them again."""
        self._appender.close()
        with self._lock:
            self._drop()

    def _read(self, partition: int, start: int, limit: int) -> Sequence[LogMessage]:
        reader = self._reader(partition)
        try:
            return reader.read(start, limit)
        finally:
            if reader.is_broken:
                del self._readers[partition]
                reader.close()

    def _fresh(self, ask: Callable[[], Result]) -> Result:
        """Ask; clients that nobody answers are dropped, so that the next call connects anew."""
        try:
            return ask()
        except UnavailableError:
            self._drop()
            raise

    def _drop(self) -> None:
        readers, admin = list(self._readers.values()), self._admin
        self._readers, self._admin = {}, None
        for reader in readers:
            reader.close()
        if admin is not None:
            with translated(self._settings, "closing"):
                admin.close()

    def _reader(self, partition: int) -> Reader:
        if partition not in self._readers:
            count = len(self._identities())
            if not 0 <= partition < count:
                raise self._settings.no_partition(partition, count)
            self._readers[partition] = Reader(self._settings, partition)
        return self._readers[partition]

    def _identities(self) -> list[LogIdentity]:
        if self._admin is None:
            self._admin = make(KafkaAdminClient, self._settings)
        with translated(self._settings, "asking for the topic"):
            cluster_id = self._admin.describe_cluster()["cluster_id"]
            (topic,) = self._admin.describe_topics([self._settings.topic])
            failure = foreign.for_code(topic["error_code"])
            if failure is not foreign.NoError:
                raise failure()
        if not cluster_id or not topic["topic_id"]:
            raise MalformedError(
                f"Kafka at {self._settings.bootstrap} gives no id for its cluster or topic, which came with"
                " Kafka 2.8",
                reason="no-topic-id",
                remedy="Use Kafka 2.8 or later.",
            )
        name, topic_id = self._settings.topic, uuid.UUID(topic["topic_id"]).hex
        numbers = sorted(partition["partition_index"] for partition in topic["partitions"])
        return [LogIdentity(cluster_id, name, topic_id, number) for number in numbers]
