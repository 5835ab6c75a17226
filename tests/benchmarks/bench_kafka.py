"""How fast a batcher empties a topic, beside how fast its own client reads it; prints one JSON object last.

``python tests/benchmarks/bench_kafka.py [RECORDS]``, a real broker (``KAFKA_BOOTSTRAP``, or one of its own).
Records have 600 to 900 bytes. This process is held to one core. For each client, in turn and best of three:
its *ceiling*, the bare consumer that polls and discards, and the *batcher*, the machine that `provenance
batch` runs with its real log, files in a real folder (synced, read back) and a chain in memory; the index,
a cache that lags behind, is left out. ``share_of_consumer`` is the one over the other.

``gas_per_record`` divides what an anchor costs on anvil (steady, `tests/contracts/test_gas.py`) by the leaves
of a batch, for the batch's cost does not depend on them.
"""

from __future__ import annotations

import json
import os
import random
import secrets
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provenance.adapters import kafka, kafka_confluent
from provenance.adapters._kafka import KafkaSettings
from provenance.adapters.folder_store import FolderStore
from provenance.adapters.system_clock import SystemClock
from provenance.core.batcher import Limits
from provenance.core.batcher.messages import Source
from provenance.core.streams import NO_PREDECESSOR, binding_of
from provenance.core.topic_rules import creation_settings
from provenance.ports import OpenCall
from provenance.services.conducting import Conductor, Instruments
from provenance.services.sending import Sender
from provenance.testing.fakes import FakeChain, FakeJournal
from provenance.testing.kafka_broker import KafkaCluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROUNDS = 3
ANCHOR_GAS = 61_948
SIZES = (1, 16, 256, 4_096, 65_536)
GOVERNANCE, PUBLISHER = b"g" * 20, b"p" * 20
LIMITS = Limits(max_records=65_536, max_bytes=64 << 20, max_age=10.0, read_size=16_384, poll=0.05)


@contextmanager
def broker() -> Iterator[str]:
    """Where Kafka listens."""
    if named := os.environ.get("KAFKA_BOOTSTRAP"):
        yield named
        return
    with KafkaCluster(heap_mb=512) as cluster:
        yield cluster.bootstrap


def fill(settings: KafkaSettings, records: int) -> None:
    """Make the topic and produce into it."""
    from confluent_kafka import Producer

    kafka.KafkaTopic(settings).create(1, 1, creation_settings(1))
    chance = random.Random(1)
    producer = Producer({"bootstrap.servers": settings.bootstrap, "linger.ms": 20, "acks": "all"})
    for number in range(records):
        value = b"%d" % number + bytes(chance.getrandbits(8) for _ in range(8)) * chance.randint(75, 111)
        while True:
            try:
                producer.produce(settings.topic, value=value, partition=0)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()


def python_ceiling(settings: KafkaSettings, records: int) -> float:
    """kafka-python: poll and discard."""
    from kafka import KafkaConsumer, TopicPartition

    place = TopicPartition(settings.topic, 0)
    consumer = KafkaConsumer(
        bootstrap_servers=settings.bootstrap,
        group_id=None,
        enable_auto_commit=False,
        auto_offset_reset="none",
    )
    consumer.assign([place])
    consumer.seek(place, 0)
    start, count = time.perf_counter(), 0
    while count < records:
        count += sum(map(len, consumer.poll(200, max_records=LIMITS.read_size).values()))
    seconds = time.perf_counter() - start
    consumer.close()
    return records / seconds


def confluent_ceiling(settings: KafkaSettings, records: int) -> float:
    """confluent-kafka: consume and discard."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {"bootstrap.servers": settings.bootstrap, "group.id": "bench", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(settings.topic, 0, 0)])
    start, count = time.perf_counter(), 0
    while count < records:
        count += len(consumer.consume(LIMITS.read_size, 0.2))
    seconds = time.perf_counter() - start
    consumer.close()
    return records / seconds


def batcher(log: Any, records: int) -> float:
    """The machine over the real log, a real folder and a chain in memory."""
    chain, clock = FakeChain.with_contract(GOVERNANCE, PUBLISHER), SystemClock()
    (identity,) = log.identities()
    owner = chain.account(GOVERNANCE)
    owner.send(owner.sign(OpenCall(binding_of(identity), 0, NO_PREDECESSOR), owner.nonce()).raw)
    ((stream, opening, _),) = chain.openings(binding_of(identity))
    source = Source(stream, opening.generation, 0, identity)
    with tempfile.TemporaryDirectory() as folder:
        sender = Sender(chain.account(PUBLISHER), FakeJournal(), clock, purpose="anchor", patience=0.0)
        instruments = Instruments(log, chain, FolderStore(Path(folder)), sender, clock)
        start = time.perf_counter()
        Conductor(instruments, [source], LIMITS, until={0: records}).run()
        seconds = time.perf_counter() - start
        head = chain.head(stream)
    if head is None or head.next_offset != records:
        raise SystemExit(f"anchored up to {head}, expected {records}")
    return records / seconds


def measure(settings: KafkaSettings, records: int) -> dict[str, Any]:
    """Both clients, in turn."""
    logs: dict[str, Callable[[KafkaSettings], Any]] = {
        "kafka-python": kafka.KafkaLog,
        "confluent-kafka": kafka_confluent.ConfluentLog,
    }
    ceilings = {"kafka-python": python_ceiling, "confluent-kafka": confluent_ceiling}
    best: dict[str, dict[str, float]] = {name: {"ceiling": 0.0, "batcher": 0.0} for name in logs}
    for _ in range(ROUNDS):
        for name, opened in logs.items():
            best[name]["ceiling"] = max(best[name]["ceiling"], ceilings[name](settings, records))
            log = opened(settings)
            best[name]["batcher"] = max(best[name]["batcher"], batcher(log, records))
            log.close()
        print(json.dumps(best), file=sys.stderr)
    return {
        "records": records,
        "consumer_records_per_s": {name: round(found["ceiling"]) for name, found in best.items()},
        "records_per_s": {name: round(found["batcher"]) for name, found in best.items()},
        "share_of_consumer": {
            name: round(found["batcher"] / found["ceiling"], 2) for name, found in best.items()
        },
        "gas_per_record": {str(size): round(ANCHOR_GAS / size, 2) for size in SIZES},
    }


def main(records: int) -> dict[str, Any]:
    """Start, fill, measure."""
    with broker() as bootstrap:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        settings = KafkaSettings(bootstrap, f"bench.{secrets.token_hex(4)}")
        settings = replace(settings, answer_timeout=30.0, ack_timeout=30.0)
        fill(settings, records)
        return measure(settings, records)


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]) if len(sys.argv) > 1 else 200_000)))
