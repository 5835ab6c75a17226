"""Three brokers: leaders are killed while records come and go, and nothing acknowledged is lost or moved."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from provenance.core.topic_rules import check_topic
from provenance.errors import ProvenanceError
from tests.kafka_world import (
    LEAKS,
    World,
    append_until_acknowledged,
    collect_leaks,
    read_all,
    read_patiently,
    start_cluster_or_skip,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from provenance.testing.kafka_broker import Broker, KafkaCluster
    from tests.kafka_world import Client

pytestmark = [pytest.mark.service, pytest.mark.slow, pytest.mark.filterwarnings(LEAKS)]

PATIENCE = 120.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    with start_cluster_or_skip(3) as made:
        yield made
    collect_leaks()


def leader_of(world: World, cluster: KafkaCluster) -> Broker:
    from kafka import KafkaAdminClient

    admin = KafkaAdminClient(bootstrap_servers=world.bootstrap.split(","))
    (topic,) = admin.describe_topics([world.settings.topic])
    admin.close()
    leader = topic["partitions"][0]["leader_id"]
    (broker,) = [broker for broker in cluster.brokers if broker.node == leader]
    return broker


def test_leaders_are_killed_under_appends_and_reads(cluster: KafkaCluster, client: Client) -> None:
    with World(cluster.bootstrap, client, replicas=3, brokers=3) as world:
        facts = world.admin.facts()
        assert facts is not None
        check_topic(facts)
        assert not facts.is_development
        log = world.log(ack_timeout=5.0)
        (before,) = log.identities()
        acknowledged: dict[int, bytes] = {}
        done = threading.Event()
        failures: list[Exception] = []

        def record() -> None:
            try:
                for number in range(400):
                    ((_, offset),) = append_until_acknowledged(log, [(b"k", b"%d" % number)])
                    acknowledged[offset] = b"%d" % number
                    if number in {100, 200}:
                        reached.release()
                        resumed.acquire()
            except (AssertionError, ProvenanceError) as error:
                failures.append(error)
            finally:
                done.set()
                reached.release()

        reached, resumed = threading.Semaphore(0), threading.Semaphore(0)
        writer = threading.Thread(target=record, daemon=True)
        writer.start()
        reader = world.log()
        for _ in range(2):
            assert reached.acquire(timeout=PATIENCE)
            leader = leader_of(world, cluster)
            leader.kill()
            resumed.release()
            seen = read_patiently(reader)
            assert seen, "a reader goes on with another leader"
            leader.start()
        writer.join(PATIENCE)
        assert done.is_set()
        assert failures == []
        messages = read_all(world.log())
        found = {message.offset: message.value for message in messages}
        assert {offset: found.get(offset) for offset in acknowledged} == acknowledged
        in_order = [int(acknowledged[offset]) for offset in sorted(acknowledged)]
        assert in_order == list(range(400))
        assert list(found) == list(range(len(found)))
        epochs = [message.leader_epoch for message in messages]
        assert epochs == sorted(epochs)
        assert epochs[-1] > epochs[0]
        assert list(world.log().identities()) == [before]
