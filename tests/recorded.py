"""Small recorded runs: transforms that workers can import, data for them, the records that came of it."""

from __future__ import annotations

import os
import signal
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import provenance
from provenance import bootstrap, config
from provenance.core.kinds import Seal
from provenance.core.records import decode_record
from provenance.core.replays import ReplayPlan
from provenance.core.runs import decode_partition
from provenance.services.runlog import RunPorts, read_history, read_values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from provenance.config import Settings
    from provenance.core.kinds import Partition, Stage

DATASET = """\
name = "numbers"
version = "1"
title = "Numbers"
licence = "CC0-1.0"
names_are_personal = true
"""


def make_files(root: Path, count: int = 10, *, size: int = 100) -> None:
    """Files of float64 numbers of two owners: ``anna/00.bin``, ``boris/01.bin`` …"""
    for number in range(count):
        owner = root / ("anna", "boris")[number % 2]
        owner.mkdir(parents=True, exist_ok=True)
        values = np.arange(size, dtype=np.float64) + number
        (owner / f"{number:02}.bin").write_bytes(values.tobytes())


def make_folder(root: Path, *, personal: bool = True) -> Path:
    """A folder with ``dataset.toml``; returns the place for ``.provenance``."""
    text = DATASET if personal else DATASET.replace("true", "false")
    (root / "dataset.toml").write_text(text)
    return root / ".provenance"


# ------------------------------------------------------------------------------------------------- transforms


def owner(path: str) -> str:
    """The first folder of a path."""
    return path.partition("/")[0]


def numbers(file: provenance.File) -> np.ndarray:
    """The numbers in a file; an empty one cannot be used."""
    if not file.data:
        raise provenance.Rejected("empty-file")
    return np.frombuffer(file.data)


def scale(file: provenance.File, *, factor: float = 2.0) -> np.ndarray:
    """The numbers, scaled."""
    return file.data * factor


def stack(files: Sequence[provenance.File]) -> dict[str, np.ndarray]:
    """All numbers of one owner, and how many each file had."""
    return {
        "values": np.concatenate([file.data for file in files]),
        "counts": np.array([len(file.data) for file in files]),
    }


def twice(parts: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Named arrays, doubled."""
    return {name: values * 2 for name, values in parts.items()}


def die_once(file: provenance.File, *, marker: str, every: float = 0.0) -> np.ndarray:
    """The numbers; the first worker that gets to a file that begins with ``every`` is killed."""
    values = np.frombuffer(file.data)
    if values[0] == every:
        try:
            os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return values
        os.kill(os.getpid(), signal.SIGKILL)
    return values


def random_once(file: provenance.File, *, marker: str) -> np.ndarray:
    """Other numbers each time: a transform that is not deterministic. The first worker is killed."""
    values = np.random.default_rng().random(8)
    if values[0] >= 0 and not Path(marker).exists():
        Path(marker).touch()
    return values


# ---------------------------------------------------------------------------------------------------- records


@dataclass(frozen=True)
class Records:
    """Everything that the log holds of one run."""

    run: bytes
    stages: dict[bytes, Stage]
    partitions: list[tuple[bytes, Partition]]
    seal: Seal | None
    order: list[str]

    def of(self, stage: str) -> list[Partition]:
        """The different partition records of a stage, by number."""
        found = {
            record: partition
            for record, partition in self.partitions
            if self.stages[partition.stage].name == stage
        }
        return sorted(found.values(), key=lambda partition: partition.number)

    def id_of(self, stage: str) -> bytes:
        """A stage's id."""
        return next(record for record, one in self.stages.items() if one.name == stage)

    def emitted(self) -> Counter[tuple[str, int]]:
        """How often each (stage, number) was recorded, repeats included."""
        return Counter((self.stages[p.stage].name, p.number) for _, p in self.partitions)

    def sealed(self, stage: str) -> Any:
        """What the seal says of a stage."""
        assert self.seal is not None
        return next(one for one in self.seal.stages if one.name == stage)

    def plan(self) -> ReplayPlan:
        """All of it, to be run again."""
        assert self.seal is not None
        counts = {one.stage: one.partitions for one in self.seal.stages}
        return ReplayPlan(self.run, self.stages, counts)


def ports_of(settings: Settings) -> RunPorts:
    """Log, store, key and clock of a folder."""
    return RunPorts(
        bootstrap.event_log(settings),
        bootstrap.batch_store(settings),
        bootstrap.record_signer(settings),
        bootstrap.clock(),
    )


def read_records(run: str, folder: Path) -> Records:
    """Read a run back from the log of a folder."""
    run_id = bytes.fromhex(run)
    ports = ports_of(config.load(folder))
    history = read_history(run_id, ports)
    partitions, seal, order = [], None, []
    for value in read_values(run_id, ports):
        found = decode_partition(value, run_id)
        if found is not None:
            partitions.append(found)
            order.append("partition")
            continue
        record = decode_record(value)
        if record.id == run_id or record.statement.predicate.get("run") == run:
            order.append(record.kind)
            seal = Seal.from_statement(record.statement) if record.kind == "seal" else seal
    return Records(run_id, history.stages, partitions, seal, order)
