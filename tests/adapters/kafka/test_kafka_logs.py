"""Both Kafka adapters keep what the port promises, and read what other programs write, on a real broker."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from provenance.adapters._kafka import MAX_VALUE_BYTES
from provenance.errors import ConfigError, MalformedError
from provenance.ports import Bounds, Mark
from provenance.testing.conformance import EventLogConformance
from tests.kafka_world import World, foreign_producer, read_all, send

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from provenance.ports import EventLog
    from tests.kafka_world import Client

pytestmark = pytest.mark.service


def set_topic(world: World, name: str, value: str) -> None:
    """Change a setting of the topic, as whoever runs the cluster may."""
    from kafka import KafkaAdminClient
    from kafka.admin import ConfigResource, ConfigResourceType

    admin = KafkaAdminClient(bootstrap_servers=world.bootstrap)
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, world.settings.topic, {name: value})])
    admin.close()


class TestKafkaLogs(EventLogConformance):
    largest = MAX_VALUE_BYTES

    @pytest.fixture(params=[1, 3])
    def open_log(
        self, request: pytest.FixtureRequest, bootstrap: str, client: Client
    ) -> Iterator[Callable[[], EventLog]]:
        with World(bootstrap, client, partitions=request.param) as world:
            yield world.log


def test_ids_are_those_of_cluster_and_topic(world: World) -> None:
    (identity,) = world.log().identities()
    assert identity.topic == world.settings.topic
    assert re.fullmatch(r"[A-Za-z0-9_-]{22}", identity.cluster_id)
    assert re.fullmatch(r"[0-9a-f]{32}", identity.topic_id)


def test_both_clients_name_a_topic_alike_and_send_one_key_to_one_partition(bootstrap: str) -> None:
    from tests.kafka_world import CLIENTS

    with World(bootstrap, CLIENTS[0], partitions=5) as world:
        first, second = (client.log(world.settings) for client in CLIENTS)
        assert list(first.identities()) == list(second.identities())
        records = [(b"key %d" % n, b"value") for n in range(40)]
        places = [[partition for partition, _ in log.append(records)] for log in (first, second)]
        assert places[0] == places[1]
        assert len(set(places[0])) > 1
        for log in (first, second):
            log.close()


def test_messages_carry_the_epoch_of_the_leader_that_wrote_them(world: World) -> None:
    log = world.log()
    log.append([(b"k", b"v")])
    assert [message.leader_epoch for message in read_all(log)] == [0]


def test_a_null_value_counts_as_empty(world: World) -> None:
    send(foreign_producer(world.bootstrap), world.settings.topic, [b"before", None, b"", b"after"])
    messages = read_all(world.log())
    assert [(m.offset, m.value) for m in messages] == [(0, b"before"), (1, b""), (2, b""), (3, b"after")]


def test_aborted_messages_are_messages_and_markers_are_skipped_offsets(world: World) -> None:
    topic, log = world.settings.topic, world.log()
    producer = foreign_producer(world.bootstrap, **{"transactional.id": topic})
    producer.init_transactions(20.0)
    for values, end in (
        ([b"a", b"b"], producer.commit_transaction),
        ([b"c"], producer.abort_transaction),
        ([b"d"], producer.commit_transaction),
    ):
        producer.begin_transaction()
        send(producer, topic, values)
        end()
    expected = [(0, b"a"), (1, b"b"), (3, b"c"), (5, b"d")]  # 2, 4 and 6 are markers
    assert [(message.offset, message.value) for message in read_all(log)] == expected
    assert [message.offset for message in log.read(0, 2, 1)] == [3]
    assert log.bounds(0) == Bounds(0, 7)
    assert list(log.read(0, 6, 10)) == []
    ((_, offset),) = log.append([(b"k", b"e")])
    assert [(message.offset, message.value) for message in log.read(0, 6, 10)] == [(offset, b"e")]


def test_an_open_transaction_holds_nothing_back(world: World) -> None:
    topic = world.settings.topic
    producer = foreign_producer(world.bootstrap, **{"transactional.id": topic})
    producer.init_transactions(20.0)
    producer.begin_transaction()
    send(producer, topic, [b"open"])
    assert [message.value for message in read_all(world.log())] == [b"open"]
    producer.abort_transaction()


@pytest.mark.parametrize("codec", ["gzip", "lz4", "snappy", "zstd"])
def test_what_others_send_compressed_is_stored_as_it_was(world: World, codec: str) -> None:
    values = [bytes([n]) * 1000 for n in range(20)]
    send(foreign_producer(world.bootstrap, **{"compression.type": codec}), world.settings.topic, values)
    assert [message.value for message in read_all(world.log())] == values


def test_a_codec_that_is_not_installed_is_named_with_its_offset_every_time(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    if world.client.name == "kafka-python":
        monkeypatch.setattr("kafka.record.default_records.codecs.has_zstd", lambda: False)
    set_topic(world, "compression.type", "producer")  # against the rules: topic check refuses it
    send(foreign_producer(world.bootstrap), world.settings.topic, [b"plain"])
    send(
        foreign_producer(world.bootstrap, **{"compression.type": "zstd"}), world.settings.topic, [b"a" * 999]
    )
    log = world.log()
    if world.client.name == "confluent-kafka":  # brings every codec with it
        assert [message.value for message in read_all(log)] == [b"plain", b"a" * 999]
        return
    assert [message.value for message in log.read(0, 0, 10)] == [b"plain"]
    for _ in range(3):
        with pytest.raises(
            MalformedError, match=f"{world.settings.topic}/0: what stands at offset 1"
        ) as caught:
            log.read(0, 1, 10)
        assert caught.value.reason == "log-codec"
        assert "compression.type" in caught.value.remedy


def test_a_topic_takes_nothing_larger_than_a_leaf_however_small_it_is_packed(world: World) -> None:
    # 100 MB of zeros fit into one gzip record; the broker unpacks, and counts.
    producer = foreign_producer(
        world.bootstrap, **{"compression.type": "gzip", "message.max.bytes": 4_000_000}
    )
    failures: list[str] = []
    producer.produce(
        world.settings.topic,
        value=bytes(3_000_000),
        on_delivery=lambda error, _: failures.append(error.name()),
    )
    producer.flush(20.0)
    assert failures == ["MSG_SIZE_TOO_LARGE"]


def test_retention_moves_the_start_of_what_is_read(world: World) -> None:
    from kafka import KafkaAdminClient, TopicPartition

    log = world.log()
    log.append([(b"k", b"%d" % n) for n in range(5)])
    admin = KafkaAdminClient(bootstrap_servers=world.bootstrap)
    admin.delete_records({TopicPartition(world.settings.topic, 0): 3})
    admin.close()
    assert log.bounds(0) == Bounds(3, 5)
    assert [message.offset for message in log.read(0, 0, 10)] == [3, 4]


def test_a_topic_that_was_made_anew_has_another_id(world: World) -> None:
    from kafka import KafkaAdminClient

    log = world.log()
    log.append([(b"k", b"first life")])
    (before,) = log.identities()
    admin = KafkaAdminClient(bootstrap_servers=world.bootstrap)
    admin.delete_topics([world.settings.topic])
    admin.close()
    with pytest.raises(ConfigError) as caught:
        log.identities()
    assert caught.value.reason == "no-topic"
    assert world.settings.topic in str(caught.value)
    world.admin.create(1, 1, {})
    (after,) = log.identities()
    assert before.topic_id != after.topic_id
    assert before.cluster_id == after.cluster_id
    assert list(world.log().read(0, 0, 10)) == []


def test_new_partitions_are_seen_at_once(world: World) -> None:
    from kafka import KafkaAdminClient

    log = world.log()
    assert len(log.identities()) == 1
    admin = KafkaAdminClient(bootstrap_servers=world.bootstrap)
    admin.create_partitions({world.settings.topic: 3})
    admin.close()
    assert [identity.partition for identity in log.identities()] == [0, 1, 2]
    assert log.bounds(2) == Bounds(0, 0)


def test_a_topic_that_is_not_there_is_named_and_not_made(world: World) -> None:
    log = world.log(topic=f"{world.settings.topic}.absent")
    for ask in (log.identities, lambda: log.append([(b"k", b"v")]), lambda: log.read(0, 0, 1)):
        with pytest.raises(ConfigError) as caught:
            ask()
        assert caught.value.reason == "no-topic"
        assert "provenance topic create" in caught.value.remedy


def test_a_topic_for_smaller_messages_refuses_by_name(world: World) -> None:
    set_topic(world, "max.message.bytes", "2000")
    log = world.log()
    with pytest.raises(MalformedError, match=world.settings.topic) as caught:
        log.append([(b"k", bytes(3000))])
    assert "max.message.bytes" in caught.value.remedy
    assert log.append([(b"k", b"small")]) is not None  # by another producer


def test_reads_of_many_bytes_are_cut(world: World) -> None:
    log = world.log(in_flight_limit=64 << 20)
    log.append([(b"k", bytes(900_000)) for _ in range(20)])
    first = log.read(0, 0, 100)
    assert 0 < len(first) < 20
    assert [message.offset for message in read_all(log, page=100)] == list(range(20))


def test_marks_are_kept_for_those_who_watch_the_lag(world: World) -> None:
    marks = world.marks
    assert marks.marked(0) is None
    marks.mark(0, Mark(7, "a note"))
    assert marks.marked(0) == Mark(7, "a note")
    marks.mark(0, Mark(9))
    assert world.marks.marked(0) == Mark(9)
