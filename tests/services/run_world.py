"""A run's driver over fakes: what it publishes, and the partition records that its workers would."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from provenance.core.kinds import Input, Partition, Stage, Transform
from provenance.core.merkle import leaf_hash
from provenance.core.records import Subject, decode_record, encode_record
from provenance.services.publish import DriverRecorder, RunFacts, start_run
from provenance.services.runlog import RunPorts, read_values
from provenance.testing.fakes import FakeClock, FakeLog, FakeSigner, FakeStore

SOME = hashlib.sha256(b"some").digest()
DESCRIPTOR = b"""name = "numbers"
version = "1"
title = "Numbers"
licence = "CC0-1.0"
names_are_personal = true
"""
ENVIRONMENT = {"interpreter": {"version": "3.11"}}


def facts(**changes: object) -> RunFacts:
    given = {
        "name": "numbers",
        "descriptors": [DESCRIPTOR],
        "environments": [ENVIRONMENT],
        "source": [],
        "producer": ("provenance-ledger", "0.1.0"),
    }
    return RunFacts(**{**given, **changes})


@dataclass
class Driver:
    """Log, store, key and clock, and one run over them."""

    log: object = field(default_factory=lambda: FakeLog(3))
    store: object = field(default_factory=FakeStore)
    signer: FakeSigner = field(default_factory=FakeSigner)
    stored: list[bytes] = field(default_factory=list)

    @property
    def ports(self) -> RunPorts:
        return RunPorts(self.log, self.store, self.signer, FakeClock())

    def is_stored(self, partition: Partition) -> bool:
        return leaf_hash(encode_record(partition.statement())) in self.stored

    def start(self, **changes: object) -> DriverRecorder:
        return start_run(facts(**changes), self.ports, self.is_stored)

    def kinds(self, run: bytes) -> list[str]:
        """Of every record since the run began, as far as they go to one partition of the log, in order."""
        return [decode_record(value).kind for value in read_values(run, self.ports)]


def stage(run: bytes, name: str, *parents: bytes, partitions: int | None = 2, sink: bool = False) -> Stage:
    function = "provenance:write_parquet" if sink else f"module:{name}"
    return Stage(run, name, parents, Transform(function, SOME, SOME, SOME, "m 1"), partitions=partitions)


def put(
    log: object, run: bytes, of: bytes, number: int, *parents: tuple[bytes, Partition], variant: str = ""
) -> tuple[bytes, Partition]:
    """Append a partition record as a worker does; returns its id and content."""
    name = f"p{number:05d}"
    digest = {"sha256": hashlib.sha256(f"{of.hex()}{number}{variant}".encode()).hexdigest()}
    inputs = tuple(Input(record, one.subjects[0].name, one.subjects[0].digest) for record, one in parents)
    made = Partition(run, of, number, 3, 24, (Subject(name, digest),), inputs)
    data = encode_record(made.statement())
    log.append([(of, data)])
    return leaf_hash(data), made
