"""Describing and making the topic, and keeping offsets for those who watch the lag, with kafka-python."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any

from kafka import KafkaAdminClient, OffsetAndMetadata, TopicPartition
from kafka import errors as foreign
from kafka.admin import ConfigResource, ConfigResourceType

from provenance.adapters._kafka import AUTO_CREATE, GROUP
from provenance.adapters.kafka._client import make, milliseconds, translated
from provenance.core.topic_rules import TopicFacts
from provenance.ports import Mark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from provenance.adapters._kafka import KafkaSettings

__all__ = ["KafkaMarks", "KafkaTopic"]

_COORDINATOR = (
    foreign.CoordinatorLoadInProgressError,
    foreign.CoordinatorNotAvailableError,
    foreign.NotCoordinatorError,
)
_REFUSED = (
    foreign.InvalidConfigurationError,
    foreign.InvalidPartitionsError,
    foreign.InvalidReplicationFactorError,
    foreign.InvalidTopicError,
)


class KafkaTopic:
    """A `TopicAdmin`; each call connects for itself, for nobody administers often."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings

    def brokers(self) -> int:
        """How many brokers the cluster has."""
        with _connected(self._settings, "asking for the brokers") as client:
            return len(client.describe_cluster()["brokers"])

    def facts(self) -> TopicFacts | None:
        """The topic with all of its settings, defaults included, or None."""
        with _connected(self._settings, "asking for the topic's settings") as client:
            return self._describe(client)

    def create(self, partitions: int, replicas: int, settings: Mapping[str, str]) -> None:
        """Make the topic; one that is there stays as it is.

        Raises:
            ConfigError: the brokers refuse these settings.
        """
        wanted = {"num_partitions": partitions, "replication_factor": replicas, "configs": dict(settings)}
        with _connected(self._settings, "making the topic") as client:
            try:
                client.create_topics(
                    {self._settings.topic: wanted},
                    timeout_ms=milliseconds(self._settings.answer_timeout),
                    wait_for_metadata=True,
                )
            except foreign.TopicAlreadyExistsError:
                return
            except _REFUSED as error:
                raise self._settings.refused("making the topic", type(error).__name__) from error

    def _describe(self, client: KafkaAdminClient) -> TopicFacts | None:
        name = self._settings.topic
        (topic,) = client.describe_topics([name])
        failure = foreign.for_code(topic["error_code"])
        if failure is foreign.UnknownTopicOrPartitionError:
            return None
        if failure is not foreign.NoError:
            raise failure
        nodes = [str(broker["broker_id"]) for broker in client.describe_cluster()["brokers"]]
        resources = [ConfigResource(ConfigResourceType.TOPIC, name)]
        resources += [ConfigResource(ConfigResourceType.BROKER, node, [AUTO_CREATE]) for node in nodes]
        # Without config_filter="all" it shows only what differs from the defaults, and it is those that lose.
        found: dict[str, Any] = client.describe_configs(resources, config_filter="all")
        return TopicFacts(
            topic=name,
            brokers=len(nodes),
            partitions=len(topic["partitions"]),
            replicas=min(len(partition["replica_nodes"]) for partition in topic["partitions"]),
            settings={key: str(entry["value"]) for key, entry in found["topic"][name].items()},
            auto_create={
                node: str(found["broker"][node].get(AUTO_CREATE, {}).get("value")) for node in nodes
            },
        )


class KafkaMarks:
    """An `OffsetMarks`: a consumer group that has offsets and never a member."""

    def __init__(self, settings: KafkaSettings, group: str = GROUP) -> None:
        self._settings = settings
        self._group = group

    def mark(self, partition: int, mark: Mark) -> None:
        """Commit the offset, with the note as its metadata."""
        place = TopicPartition(self._settings.topic, partition)
        with _connected(self._settings, "committing an offset") as client:
            offsets = {place: OffsetAndMetadata(mark.next_offset, mark.note, -1)}
            failure = _patiently(
                self._settings, lambda: client.alter_group_offsets(self._group, offsets)[place]
            )
            if failure is not foreign.NoError:
                raise failure

    def marked(self, partition: int) -> Mark | None:
        """The offset that was committed last, if there is one."""
        place = TopicPartition(self._settings.topic, partition)
        with _connected(self._settings, "asking for a committed offset") as client:
            found = _patiently(
                self._settings,
                lambda: client.list_group_offsets({self._group: [place]})[self._group].get(place),
            )
        return None if found is None or found.offset < 0 else Mark(found.offset, found.metadata or "")


def _patiently(settings: KafkaSettings, ask: Callable[[], Any]) -> Any:
    """Ask again while the cluster sets up who keeps offsets, which the first question of all starts."""
    deadline = time.monotonic() + settings.answer_timeout
    while True:
        try:
            return ask()
        except _COORDINATOR:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


@contextlib.contextmanager
def _connected(settings: KafkaSettings, doing: str) -> Iterator[KafkaAdminClient]:
    client = make(KafkaAdminClient, settings)
    try:
        with translated(settings, doing):
            yield client
    finally:
        client.close()
