"""What tests over Kafka share: the broker, the two clients, a topic for each test, and a foreign producer."""

from __future__ import annotations

import contextlib
import gc
import os
import secrets
import warnings
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest

from provenance.adapters import kafka, kafka_confluent
from provenance.adapters._kafka import KafkaSettings
from provenance.core.topic_rules import creation_settings
from provenance.errors import ConfigError, UnavailableError
from provenance.testing.kafka_broker import KafkaCluster
from provenance.testing.kafka_jars import find_jars, find_java

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType

    from provenance.ports import EventLog, LogMessage, OffsetMarks, TopicAdmin


@contextlib.contextmanager
def start_cluster_or_skip(brokers: int = 1, **options: Any) -> Iterator[KafkaCluster]:
    """A cluster of a test's own; where there is neither Java nor Maven, the test is skipped."""
    try:
        find_java()
        find_jars()
    except (ConfigError, UnavailableError) as error:
        pytest.skip(f"Kafka is not to be had here: {error}")
    with KafkaCluster(brokers, heap_mb=256, **options) as cluster:
        yield cluster


# kafka-python leaves the socket of a failed connection to the garbage collector.
LEAKS = "ignore:unclosed <socket.socket:ResourceWarning"


def collect_leaks() -> None:
    """Collect them here, and not in the middle of somebody else's test."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def append_until_acknowledged(log: EventLog, records: list[tuple[bytes, bytes]]) -> list[tuple[int, int]]:
    """What a worker without an outbox does: the same bytes again, at most forty times."""
    for _ in range(40):
        with contextlib.suppress(UnavailableError):
            return list(log.append(records))
    raise AssertionError("no acknowledgement in forty tries")


@contextlib.contextmanager
def start_kafka_or_skip() -> Iterator[str]:
    """``host:port`` of the broker that ``KAFKA_BOOTSTRAP`` names, or of a new one."""
    if named := os.environ.get("KAFKA_BOOTSTRAP"):
        yield named
        return
    with start_cluster_or_skip() as cluster:
        yield cluster.bootstrap


@dataclass(frozen=True)
class Client:
    """One of the two libraries."""

    name: str
    log: Any
    topic: Any
    marks: Any


CLIENTS = (
    Client("kafka-python", kafka.KafkaLog, kafka.KafkaTopic, kafka.KafkaMarks),
    Client(
        "confluent-kafka",
        kafka_confluent.ConfluentLog,
        kafka_confluent.ConfluentTopic,
        kafka_confluent.ConfluentMarks,
    ),
)


@dataclass
class World:
    """A topic, and what works on it."""

    bootstrap: str
    client: Client
    partitions: int = 1
    replicas: int = 1
    brokers: int = 1
    settings: KafkaSettings = field(init=False)
    _open: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        name = f"tests.{secrets.token_hex(6)}"
        self.settings = KafkaSettings(self.bootstrap, name, answer_timeout=20.0, ack_timeout=20.0)

    def __enter__(self) -> World:
        self.admin.create(self.partitions, self.replicas, creation_settings(self.brokers))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for log in self._open:
            log.close()

    @property
    def admin(self) -> TopicAdmin:
        made: TopicAdmin = self.client.topic(self.settings)
        return made

    @property
    def marks(self) -> OffsetMarks:
        made: OffsetMarks = self.client.marks(self.settings, f"tests.{self.settings.topic}")
        return made

    def log(self, **changes: Any) -> EventLog:
        """A handle; with other settings where the test names some."""
        made: EventLog = self.client.log(replace(self.settings, **changes))
        self._open.append(made)
        return made


def read_all(log: EventLog, partition: int = 0, page: int = 500) -> list[LogMessage]:
    """Every message of a partition, in pages."""
    found: list[LogMessage] = []
    while messages := log.read(partition, found[-1].offset + 1 if found else 0, page):
        found += messages
    return found


def read_patiently(log: EventLog) -> list[LogMessage]:
    """All of partition 0, asked for again while its leader is away, at most forty times."""
    for _ in range(40):
        with contextlib.suppress(UnavailableError):
            return read_all(log)
    raise AssertionError("no answer in forty tries")


def foreign_producer(bootstrap: str, **options: Any) -> Any:
    """A producer that is not ours: other tools write to a topic too."""
    from confluent_kafka import Producer

    return Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, **options})


def send(producer: Any, topic: str, values: Sequence[bytes | None], partition: int = 0) -> None:
    """Send values and wait until all are acknowledged."""
    for value in values:
        producer.produce(topic, value=value, key=b"foreign", partition=partition)
    assert producer.flush(20.0) == 0
