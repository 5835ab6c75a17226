"""A run over three speakers that is really recorded, stored as arrays and as tables; and what befalls it."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

import provenance
from provenance import bootstrap, config
from provenance.core.kinds import Consumption
from provenance.core.merkle import leaf_hash
from provenance.core.records import check_signature, decode_record
from provenance.errors import MismatchError, ProvenanceError
from provenance.torch import VerifiedShards

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.anchored_runs import FakeLedger

SPEAKERS = ("anna", "boris", "chloe")


def samples(file: provenance.File) -> np.ndarray:
    return np.frombuffer(file.data, np.uint8).astype(np.float32)


def gather(files: list[provenance.File]) -> dict[str, np.ndarray]:
    return {
        "features": np.concatenate([file.data for file in files]).reshape(-1, 2),
        "lengths": np.array([len(file.data) for file in files], np.uint16),
        "count": np.array(len(files)),
        "none": np.zeros((0, 3), np.float64),
        "zeros": np.zeros(5, bool),
    }


def rows(files: list[provenance.File]) -> pd.DataFrame:
    values = [value for file in files for value in file.data.tolist()]
    return pd.DataFrame({"value": values[: 0 if len(values) == 24 else None]})


@dataclass
class World:
    """Three speakers with 2, 4 and 6 files; a Zarr sink ``arrays`` and a Parquet sink ``tables``."""

    root: Path
    run: str
    ledger: FakeLedger

    @property
    def folder(self) -> Path:
        return self.root / ".provenance"

    @property
    def arrays(self) -> Path:
        return self.root / "arrays.zarr"

    @property
    def tables(self) -> Path:
        return self.root / "tables"

    def shards(self, **how: Any) -> VerifiedShards:
        return VerifiedShards(**{"run": self.run, "stage": "arrays", "folder": self.folder, **how})


def record(root: Path) -> str:
    for number, speaker in enumerate(SPEAKERS):
        (root / "in" / speaker).mkdir(parents=True)
        for file in range(2 * number + 2):
            data = bytes(range(16 * number + file, 16 * number + file + 4))
            (root / "in" / speaker / f"{file}.raw").write_bytes(data)
    with provenance.run("loading", dataset=None, client="sync", folder=root / ".provenance") as run:
        raw = run.files(root / "in", key=lambda path: path.split("/")[0])
        loaded = raw.stage("samples", samples)
        loaded.wide("speaker", gather, by="key").write(root / "arrays.zarr", name="arrays")
        loaded.wide("rows", rows, by="key").write(root / "tables", name="tables")
    return run.id


@contextlib.contextmanager
def flipped(path: Path, at: int = -1) -> Iterator[None]:
    """One bit of a file is another within the block."""
    before = path.read_bytes()
    changed = bytearray(before)
    changed[at] ^= 1
    path.write_bytes(changed)
    try:
        yield
    finally:
        path.write_bytes(before)


@contextlib.contextmanager
def moved(path: Path, to: Path) -> Iterator[None]:
    path.rename(to)
    try:
        yield
    finally:
        to.rename(path)


def objects(part: Path) -> list[Path]:
    return sorted(path for path in part.rglob("*") if path.is_file())


def refused(shards: VerifiedShards, at: int, kind: type = MismatchError) -> Any:
    """The error of opening one shard; everything is said in it, and no other shard suffers."""
    before = shards.opened(verified=True), shards.opened(verified=False)
    with pytest.raises(ProvenanceError) as caught:
        shards.open(at)
    assert (shards.opened(verified=True), shards.opened(verified=False)) == before
    error, shard = caught.value, shards.set.shards[at]
    assert type(error) is kind, repr(error)
    assert f"shard {shard.number}, part " in error.message
    assert f"stage '{shards.set.name}'" in error.message
    assert f"run {shards.run[:12]}" in error.message
    assert f"transaction 0x{shard.transaction.hex()}" in error.message
    assert error.remedy
    assert not any(name in error.message for name in SPEAKERS), "names may be personal"
    text = f"{error.message} {error.remedy}".lower()
    assert not any(word in text for word in ("observe", "disable", "turn off", "skip", "policy"))
    others = [other for other in range(len(shards)) if other != at]
    assert [shards.open(other).verified for other in others] == [True] * len(others)
    return error


def consumption(world: World, shards: VerifiedShards, tmp_path: Path, **how: Any) -> Consumption:
    """The consumption record, from the end of the log, its signature checked."""
    (tmp_path / "model.pt").write_bytes(b"a model")
    (tmp_path / "train.py").write_bytes(b"its code")
    made = shards.consumed(
        tmp_path / "model.pt", **{"epochs": 3, "code": tmp_path / "train.py", "precision": "bfloat16", **how}
    )
    settings = config.load(world.folder)
    log = bootstrap.event_log(settings)
    (message,) = log.read(0, log.bounds(0).end - 1, 1)
    found = decode_record(message.value)
    check_signature(found, bootstrap.trusted_keys(settings))
    assert made == found.id.hex() == leaf_hash(message.value).hex()
    return Consumption.from_statement(found.statement)
