"""Brokers that freeze, are killed and come back: what was acknowledged is there, and what was not is told."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from provenance.errors import ProvenanceError, UnavailableError
from tests.kafka_world import (
    LEAKS,
    World,
    append_until_acknowledged,
    collect_leaks,
    foreign_producer,
    read_all,
    start_cluster_or_skip,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from provenance.testing.kafka_broker import KafkaCluster
    from tests.kafka_world import Client

pytestmark = [pytest.mark.service, pytest.mark.slow, pytest.mark.filterwarnings(LEAKS)]

PATIENCE = 90.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    with start_cluster_or_skip() as made:
        yield made
    collect_leaks()


@pytest.fixture
def world(cluster: KafkaCluster, client: Client) -> Iterator[World]:
    with World(cluster.bootstrap, client) as made:
        yield made


def test_an_append_that_is_not_acknowledged_is_told_and_may_still_arrive(
    cluster: KafkaCluster, world: World
) -> None:
    (broker,) = cluster.brokers
    log = world.log(ack_timeout=1.0)
    log.append([(b"k", b"before")])
    broker.freeze()
    try:
        with pytest.raises(UnavailableError, match="did not acknowledge") as caught:
            log.append([(b"k", b"in flight")])
    finally:
        broker.thaw()
    assert caught.value.reason == "not-acknowledged"
    assert "again" in caught.value.remedy
    append_until_acknowledged(log, [(b"k", b"after")])
    values = [message.value for message in read_all(world.log())]
    assert values[:2] == [b"before", b"in flight"]  # the same producer went on, in order
    assert set(values) == {b"before", b"in flight", b"after"}


def test_what_waits_for_acknowledgement_is_bounded(cluster: KafkaCluster, world: World) -> None:
    (broker,) = cluster.brokers
    log = world.log(ack_timeout=2.0, in_flight_limit=1_000)
    log.append([(b"k", b"before")])
    broker.freeze()
    try:
        with pytest.raises(UnavailableError):
            log.append([(b"k", bytes(800))])
        with pytest.raises(UnavailableError, match="801 bytes that were sent before still wait"):
            log.append([(b"k", bytes(800))])
    finally:
        broker.thaw()
    append_until_acknowledged(log, [(b"k", b"after")])
    assert [len(message.value) for message in read_all(world.log())][:2] == [6, 800]


def test_a_broker_that_freezes_is_told_to_readers_in_time(cluster: KafkaCluster, world: World) -> None:
    (broker,) = cluster.brokers
    log = world.log(answer_timeout=1.0)
    log.append([(b"k", b"v")])
    log.read(0, 0, 1)
    broker.freeze()
    try:
        for ask in (log.identities, lambda: log.bounds(0), lambda: log.read(0, 0, 1)):
            with pytest.raises(UnavailableError, match=world.bootstrap):
                ask()
    finally:
        broker.thaw()
    patient = world.log()
    assert [message.value for message in patient.read(0, 0, 1)] == [b"v"]


def test_a_killed_broker_comes_back_and_nothing_acknowledged_is_lost_or_moved(
    cluster: KafkaCluster, world: World
) -> None:
    (broker,) = cluster.brokers
    log = world.log(ack_timeout=2.0)
    (before,) = log.identities()
    acknowledged = {}
    for number in range(60):
        if number in {20, 40}:
            broker.kill()
            restarted = threading.Thread(target=broker.start)
            restarted.start()
        ((_, offset),) = append_until_acknowledged(log, [(b"k", b"%d" % number)])
        acknowledged[offset] = b"%d" % number
        if number in {20, 40}:
            restarted.join(PATIENCE)
    found = {message.offset: message.value for message in read_all(world.log())}
    assert {offset: found[offset] for offset in acknowledged} == acknowledged
    assert sorted(acknowledged.values(), key=int) == [acknowledged[offset] for offset in sorted(acknowledged)]
    assert list(found) == list(range(len(found)))
    (after,) = log.identities()
    assert before == after


def test_a_producer_that_gave_up_is_replaced(world: World) -> None:
    log = world.log()
    log.append([(b"k", b"first")])
    appender = log._appender  # type: ignore[attr-defined]
    former = appender._producer
    log.append([(b"k", b"second")])
    assert appender._producer is former
    appender._discard(former)
    assert appender._producer is None
    log.append([(b"k", b"third")])
    assert appender._producer is not former
    assert appender._in_flight.size == 0
    assert [message.value for message in read_all(log)] == [b"first", b"second", b"third"]


def test_a_batch_that_was_damaged_on_disk_is_refused_by_its_offset_every_time(
    cluster: KafkaCluster, world: World
) -> None:
    (broker,) = cluster.brokers
    producer = foreign_producer(world.bootstrap)
    producer.produce(world.settings.topic, value=b"A" * 500, partition=0)
    producer.flush(20.0)
    log = world.log(answer_timeout=8.0)
    assert len(log.read(0, 0, 1)) == 1
    broker.stop()
    (segment,) = (broker.folder / "data" / f"{world.settings.topic}-0").glob("*.log")
    data = segment.read_bytes()
    segment.write_bytes(data.replace(b"A" * 500, b"A" * 499 + b"B"))
    broker.start()
    log = world.log()
    for _ in range(3):
        with pytest.raises(
            ProvenanceError, match=f"{world.settings.topic}/0: what stands at offset 0"
        ) as caught:
            log.read(0, 0, 1)
        assert caught.value.reason == "log-corrupt"
