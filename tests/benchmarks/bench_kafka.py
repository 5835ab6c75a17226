"""How much of a Kafka client's own speed is left when it is read through the port: one JSON object, last.

``python tests/benchmarks/bench_kafka.py [RECORDS [BYTES]]``. Each client reads the same topic of a real
broker three ways, in processes of their own on one core: by the library alone, throwing everything away;
through the port, as the batcher does, the last message read once more each time; and from the log into batch
files, synced and read back. The best of `ROUNDS` counts. ``share_of_consumer`` is the last over the first.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provenance import bootstrap, bootstrap_kafka
from provenance.config import Settings
from provenance.core.batcher.pile import Limits, add_messages, build_from_pile, empty_pile, is_closed
from provenance.core.batches import Position, encode_batch
from provenance.errors import ConfigError, UnavailableError
from provenance.testing.kafka_broker import KafkaCluster

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS = 3
CLIENTS = {"kafka-python": 40_000, "confluent-kafka": 600_000}  # records: a few seconds each
READ = 16_384
TOPIC = "bench"


def settings_for(place: str, client: str, folder: Path) -> Settings:
    """The settings of one client."""
    return Settings(
        folder,
        log_bootstrap=place,
        log_topic=TOPIC,
        log_client=client,
        log_ack_timeout=60.0,
        log_in_flight_limit=64 << 20,
    )


def fill(settings: Settings, records: int, size: int) -> None:
    """Put so many records on the log."""
    bootstrap_kafka.ensure_topic(settings)
    log = bootstrap.event_log(settings)
    for start in range(0, records, 10_000):
        count = min(10_000, records - start)
        log.append([(b"%032d" % n, os.urandom(16) * (size // 16)) for n in range(start, start + count)])
    log.close()


def consume(settings: Settings, records: int) -> None:
    """The library alone."""
    if settings.log_client == "kafka-python":
        from kafka import KafkaConsumer, TopicPartition

        consumer = KafkaConsumer(bootstrap_servers=settings.log_bootstrap, auto_offset_reset="none")
        place = TopicPartition(TOPIC, 0)
        consumer.assign([place])
        consumer.seek(place, 0)
        seen = 0
        while seen < records:
            seen += sum(map(len, consumer.poll(1000, max_records=READ).values()))
    else:
        from confluent_kafka import Consumer
        from confluent_kafka import TopicPartition as Place

        consumer = Consumer({"bootstrap.servers": settings.log_bootstrap, "group.id": "bench"})
        consumer.assign([Place(TOPIC, 0, 0)])
        seen = 0
        while seen < records:
            seen += len(consumer.consume(min(READ, records - seen), 1.0))
    consumer.close()


def read(settings: Settings, records: int) -> None:
    """Through the port, each read beginning with the last message of the one before."""
    log = bootstrap.event_log(settings)
    at = 0
    while at < records - 1:
        at = log.read(0, at, READ)[-1].offset
    log.close()


def batch(settings: Settings, records: int) -> None:
    """From the log into batch files."""
    log, store = bootstrap.event_log(settings), bootstrap.batch_store(settings)
    (identity,) = log.identities()
    position, limits = Position(bytes(32), 1, 0, 0, bytes(32)), Limits(read_size=READ)
    pile = empty_pile(identity, 0)
    while position.next_offset < records:
        begin = max(pile.next_offset - 1, 0)
        fresh = [m for m in log.read(0, begin, READ) if m.offset >= pile.next_offset]
        log.bounds(0)
        log.identities()
        while fresh:
            pile = add_messages(pile, fresh, limits, 0.0)
            fresh = [message for message in fresh if message.offset >= pile.next_offset]
            if is_closed(pile, limits, 0.0) or pile.next_offset >= records:
                made = build_from_pile(pile, position, identity)
                name = f"bench/{position.seq:016d}.batch"
                store.put(name, encode_batch(made))
                store.get(name)
                end = made.manifest.next_offset
                position = Position(bytes(32), 1, position.seq + 1, end, bytes(32))
                pile = empty_pile(identity, end)
    log.close()


WAYS: dict[str, Callable[[Settings, int], None]] = {"consume": consume, "read": read, "batch": batch}


def rate(place: str, client: str, way: str, records: int) -> float:
    """Records per second of the best round, in processes of their own on one core."""
    best = float("inf")
    for _ in range(ROUNDS):
        command = [sys.executable, __file__, "--one", place, client, way, str(records)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        best = min(best, float(done.stdout))
    return records / best


def one(place: str, client: str, way: str, records: int) -> None:
    """One round; prints its seconds."""
    os.sched_setaffinity(0, [max(os.sched_getaffinity(0))])
    with tempfile.TemporaryDirectory() as folder:
        settings = settings_for(place, client, Path(folder))
        started = time.perf_counter()
        WAYS[way](settings, records)
        sys.stdout.write(f"{time.perf_counter() - started}\n")


def main(records: int, size: int) -> dict[str, Any]:
    """Every client every way."""
    result: dict[str, Any] = {"bytes": size, "share_of_consumer": {}, "records_per_s": {}, "reading": {}}
    with contextlib.ExitStack() as stack:
        try:
            cluster = stack.enter_context(KafkaCluster())
        except (ConfigError, UnavailableError) as error:
            return {"skipped": f"Kafka is not to be had here: {error}"}
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        most = max(min(records, count) for count in CLIENTS.values())
        fill(settings_for(cluster.bootstrap, "confluent-kafka", Path(folder)), most, size)
        for client, count in CLIENTS.items():
            rates = {way: rate(cluster.bootstrap, client, way, min(records, count)) for way in WAYS}
            result["records_per_s"][client] = round(rates["batch"])
            result["share_of_consumer"][client] = round(rates["batch"] / rates["consume"], 2)
            result["reading"][client] = {way: round(value) for way, value in rates.items()}
    return result


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        one(sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5]))
    else:
        records, size = [*map(int, sys.argv[1:3]), *(600_000, 600)[len(sys.argv[1:3]) :]]
        print(json.dumps(main(records, size)))
