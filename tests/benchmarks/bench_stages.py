"""What recording costs: three stages over Parquet files, recorded and in plain Dask, in turn.

``python tests/benchmarks/bench_stages.py [PARTITIONS]``. Each partition has 4.2 MB (150,000 rows of a number,
a group and a text). Both sides read the same files with pyarrow, call the same three functions, and keep the
result on one worker process of one thread; the best of three rounds counts. ``tiny`` is the same with one row
a partition, where only what a partition costs by itself is left. The log is on the disk of the system's
temporary folder: each task waits there for one sync. Beside the seconds stand those that the worker's
processor was busy, which other programs on the machine change little. Prints one JSON object.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from distributed import Client, LocalCluster, wait

import provenance

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS = 3
ROWS = 150_000
RECORDS = 5  # a partition: the file, its rows, three stages


def scale(frame: pd.DataFrame) -> pd.DataFrame:
    """A stage."""
    return frame.assign(value=frame["value"] * 1.5)


def centre(frame: pd.DataFrame) -> pd.DataFrame:
    """Another."""
    return frame.assign(value=frame["value"] - frame["value"].mean())


def rank(frame: pd.DataFrame) -> pd.DataFrame:
    """A third."""
    return frame.assign(rank=frame["value"].rank())


def read(path: str) -> pd.DataFrame:
    """What plain Dask reads with."""
    with pq.ParquetFile(path) as file:
        return file.read(use_threads=False).to_pandas()


def write(folder: Path, partitions: int, rows: int) -> list[str]:
    """The files, all different."""
    folder.mkdir()
    chance = np.random.default_rng(1)
    paths = []
    for number in range(partitions):
        frame = pd.DataFrame(
            {
                "value": chance.random(rows),
                "group": chance.integers(0, 100, rows),
                "name": [f"row {n:07}" for n in range(rows)],
            }
        )
        paths.append(str(folder / f"{number:04}.parquet"))
        frame.to_parquet(paths[-1])
    return paths


def plain(client: Client, paths: list[str]) -> None:
    """Compute in plain Dask."""
    frame = dd.from_map(read, paths, meta=read(paths[0]).iloc[:0])
    for function in (scale, centre, rank):
        frame = frame.map_partitions(function)
    wait(client.persist(frame.optimize()))  # fused first: persist() alone takes twice as long when tiny


def recorded(client: Client, paths: list[str], run: Any) -> None:
    """Compute the same, recorded."""
    rows = run.parquet(paths)
    rows.stage("scale", scale).stage("centre", centre).stage("rank", rank).persist()


def timed(client: Client, work: Callable[..., None], *arguments: Any) -> tuple[float, float]:
    """Seconds that it takes, and seconds of the worker's processor."""
    (busy,) = client.run(time.process_time).values()
    start = time.perf_counter()
    work(client, *arguments)
    seconds = time.perf_counter() - start
    (later,) = client.run(time.process_time).values()
    return seconds, later - busy


def compare(client: Client, paths: list[str], folder: Path) -> dict[str, Any]:
    """Both, in turn."""
    found: dict[str, list[tuple[float, float]]] = {"plain": [], "recorded": []}
    for _ in range(ROUNDS):
        found["plain"].append(timed(client, plain, paths))
        run = provenance.start("bench", dataset=None, client=client, folder=folder)
        found["recorded"].append(timed(client, recorded, paths, run))
        run.seal("aborted")
    result: dict[str, Any] = {"partitions": len(paths)}
    for number, name in enumerate(("seconds", "processor")):
        best = {side: min(times[number] for times in rounds) for side, rounds in found.items()}
        extra = (best["recorded"] - best["plain"]) / len(paths) / RECORDS
        result[name] = {side: round(seconds, 2) for side, seconds in best.items()} | {
            "ratio": round(best["recorded"] / best["plain"], 2),
            "extra_ms_a_record": round(extra * 1000, 2),
        }
    return result


def main(partitions: int) -> dict[str, Any]:
    """Measure."""
    warnings.simplefilter("ignore", provenance.ReplayWarning)  # nobody replays this
    # As a run sets up its own workers: Dask's setting gives freed memory back at once, on either side.
    place = "distributed.nanny.pre-spawn-environ"
    kept = {"MALLOC_TRIM_THRESHOLD_": 256 << 20, "MALLOC_MMAP_THRESHOLD_": 32 << 20}
    dask.config.set({place: {**dask.config.get(place), **kept}})
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None, memory_limit=0) as cluster,
        Client(cluster) as client,
    ):
        root = Path(folder)
        large = compare(client, write(root / "large", partitions, ROWS), root / "a" / ".provenance")
        tiny = compare(client, write(root / "tiny", partitions, 1), root / "b" / ".provenance")
    machine = f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}"
    return {"large": large, "tiny": tiny, "machine": machine}


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)))
