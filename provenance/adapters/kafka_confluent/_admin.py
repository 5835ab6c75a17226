"""Describing and making the topic, and keeping offsets for those who watch the lag, with confluent-kafka."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from confluent_kafka import TopicCollection as Topics
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from provenance.adapters._kafka import AUTO_CREATE, GROUP
from provenance.adapters.kafka_confluent._client import client_options, translated
from provenance.core.streams import LogIdentity
from provenance.core.topic_rules import TopicFacts
from provenance.errors import MalformedError
from provenance.ports import Mark

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from provenance.adapters._kafka import KafkaSettings

__all__ = ["ConfluentMarks", "ConfluentTopic", "describe_identities"]


def _admin(settings: KafkaSettings) -> AdminClient:
    options = client_options(settings)
    with translated(settings, "connecting"):
        return AdminClient(options)


def describe_identities(client: AdminClient, settings: KafkaSettings) -> list[LogIdentity]:
    """Every partition of the topic as the cluster knows it now."""
    with translated(settings, "asking for the topic"):
        cluster, topic = _describe(client, settings)
    number = (topic.topic_id.get_most_significant_bits() << 64) | (
        topic.topic_id.get_least_significant_bits() & (1 << 64) - 1
    )
    topic_id = f"{number & (1 << 128) - 1:032x}"
    if not cluster.cluster_id or not int(topic_id, 16):
        raise MalformedError(
            f"Kafka at {settings.bootstrap} gives no id for its cluster or topic, which came with Kafka 2.8",
            reason="no-topic-id",
            remedy="Use Kafka 2.8 or later.",
        )
    numbers = sorted(partition.id for partition in topic.partitions)
    return [LogIdentity(cluster.cluster_id, settings.topic, topic_id, number) for number in numbers]


def _describe(client: AdminClient, settings: KafkaSettings) -> tuple[Any, Any]:
    timeout = settings.answer_timeout
    cluster = client.describe_cluster(request_timeout=timeout)
    topic = client.describe_topics(Topics([settings.topic]), request_timeout=timeout)[settings.topic]
    return cluster.result(timeout), topic.result(timeout)


class ConfluentTopic:
    """A `TopicAdmin`; each call connects for itself, for nobody administers often."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings

    def brokers(self) -> int:
        """How many brokers the cluster has."""
        timeout = self._settings.answer_timeout
        client = _admin(self._settings)
        with translated(self._settings, "asking for the brokers"):
            return len(client.describe_cluster(request_timeout=timeout).result(timeout).nodes)

    def facts(self) -> TopicFacts | None:
        """The topic with all of its settings, defaults included, or None."""
        client, name = _admin(self._settings), self._settings.topic
        with translated(self._settings, "asking for the topic's settings"):
            try:
                cluster, topic = _describe(client, self._settings)
            except KafkaException as error:
                if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                    return None
                raise
            nodes = [str(node.id) for node in cluster.nodes]
            wanted = {name: ConfigResource(ConfigResource.Type.TOPIC, name)}
            wanted |= {node: ConfigResource(ConfigResource.Type.BROKER, node) for node in nodes}
            found = self._settings_of(client, wanted)
        return TopicFacts(
            topic=name,
            brokers=len(nodes),
            partitions=len(topic.partitions),
            replicas=min(len(partition.replicas) for partition in topic.partitions),
            settings=found[name],
            auto_create={node: str(found[node].get(AUTO_CREATE)) for node in nodes},
        )

    def create(self, partitions: int, replicas: int, settings: Mapping[str, str]) -> None:
        """Make the topic; one that is there stays as it is.

        Raises:
            ConfigError: the brokers refuse these settings.
        """
        topic = NewTopic(self._settings.topic, partitions, replicas, config=dict(settings))
        timeout = self._settings.answer_timeout
        client = _admin(self._settings)
        with translated(self._settings, "making the topic"):
            made = client.create_topics([topic], operation_timeout=timeout, request_timeout=timeout)
            try:
                made[self._settings.topic].result(timeout)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise
            deadline = time.monotonic() + timeout
            while self.facts() is None and time.monotonic() < deadline:
                time.sleep(0.05)  # brokers other than the controller hear of it a little later

    def _settings_of(
        self, client: AdminClient, wanted: Mapping[str, ConfigResource]
    ) -> dict[str, dict[str, str]]:
        timeout = self._settings.answer_timeout
        found = {}
        for name, resource in wanted.items():  # the library asks for one broker at a time
            answer = client.describe_configs([resource], request_timeout=timeout)[resource].result(timeout)
            found[name] = {key: str(entry.value) for key, entry in answer.items()}
        return found


class ConfluentMarks:
    """An `OffsetMarks`: a consumer group that has offsets and never a member."""

    def __init__(self, settings: KafkaSettings, group: str = GROUP) -> None:
        self._settings = settings
        self._group = group

    def mark(self, partition: int, mark: Mark) -> None:
        """Commit the offset, with the note as its metadata."""
        place = TopicPartition(self._settings.topic, partition, mark.next_offset, metadata=mark.note)
        self._ask("committing an offset", lambda client: client.alter_consumer_group_offsets, place)

    def marked(self, partition: int) -> Mark | None:
        """The offset that was committed last, if there is one."""
        place = TopicPartition(self._settings.topic, partition)
        found = self._ask(
            "asking for a committed offset", lambda client: client.list_consumer_group_offsets, place
        )
        return None if found.offset < 0 else Mark(found.offset, found.metadata or "")

    def _ask(self, doing: str, method: Callable[[AdminClient], Any], place: TopicPartition) -> Any:
        timeout = self._settings.answer_timeout
        question = ConsumerGroupTopicPartitions(self._group, [place])
        client = _admin(self._settings)
        with translated(self._settings, doing):
            answer = method(client)([question], request_timeout=timeout)[self._group].result(timeout)
            (found,) = answer.topic_partitions
            if found.error is not None:
                raise KafkaException(found.error)
        return found
