"""Throughput of ``table1`` and ``array1`` beside raw SHA-256 of as many bytes, in one run: one JSON object.

``python tests/benchmarks/bench_digests.py [MEBIBYTES]``. Each case is taken several times, in turn with the
raw hash, and the best of each counts, since other work on the machine only ever slows one down. ``share`` is
what is left of the raw speed: 1.0 means that finding the bytes cost nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from provenance.core.digests import array1, table1

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS = 3


def tables(size: int) -> dict[str, pa.Table]:
    """Tables of about ``size`` bytes, by what is in them."""
    chance = np.random.default_rng(1)
    rows = size // 8
    ints, floats = chance.integers(0, 2**60, rows), chance.random(rows)
    holes = chance.random(rows) < 0.1
    texts = pa.array([f"row {number}" for number in chance.integers(0, 10**6, rows // 2)])
    wide = pa.array(chance.random(size // 4, np.float32))
    columns: dict[str, pa.Array | pa.ChunkedArray] = {
        "i64": pa.array(ints),
        "i64 with nulls": pa.array(ints, mask=holes),
        "i64 in chunks of 1000": pa.chunked_array([ints[at : at + 1000] for at in range(0, rows, 1000)]),
        "f64": pa.array(floats),
        "f64 with NaN": pa.array(np.where(holes, np.nan, floats)),
        "utf8": texts,
        "utf8 dictionary": pa.array(
            [f"word {number % 1000}" for number in range(rows // 2)]
        ).dictionary_encode(),
        "fixed(f32,80)": pa.FixedSizeListArray.from_arrays(wide[: len(wide) // 80 * 80], 80),
        "list(i64)": pa.ListArray.from_arrays(np.arange(0, rows + 1, 4, "i4"), ints[: rows // 4 * 4]),
    }
    return {name: pa.table({"c": column}) for name, column in columns.items()}


def arrays(size: int) -> dict[str, np.ndarray]:
    """Arrays of about ``size`` bytes, by type and memory order."""
    floats = np.random.default_rng(1).random((80, size // 320), np.float32)
    return {
        "f32": floats,
        "f32 Fortran order": np.asfortranarray(floats),
        "f32 big-endian": floats.astype(">f4"),
        "i16": np.arange(size // 2, dtype="i2"),
    }


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def measure(take: Callable[..., Any], content: Any, **options: int) -> dict[str, float]:
    """MB/s of a digest and of SHA-256 over a buffer of the bytes that it hashed, best of `ROUNDS`."""
    nbytes = take(content).nbytes
    buffer = bytes(nbytes)
    pairs = [
        (seconds(lambda: take(content, **options)), seconds(lambda: hashlib.sha256(buffer).digest()))
        for _ in range(ROUNDS)
    ]
    mine, raw = (min(column) for column in zip(*pairs, strict=True))
    return {
        "MB/s": round(nbytes / mine / 1e6),
        "raw MB/s": round(nbytes / raw / 1e6),
        "share": round(raw / mine, 2),
    }


def main() -> None:
    """Measure everything and print it."""
    size = int(sys.argv[1]) << 20 if len(sys.argv) > 1 else 32 << 20
    threads = min(os.cpu_count() or 1, 8)
    some_tables, some_arrays = tables(size), arrays(size)
    result = {
        "bytes": size,
        "python": platform.python_version(),
        "pyarrow": pa.__version__,
        "numpy": np.__version__,
        "cores": os.cpu_count(),
        "table1": {name: measure(table1, table) for name, table in some_tables.items()},
        "array1": {name: measure(array1, array) for name, array in some_arrays.items()},
        "threads": {
            "count": threads,
            "table1 f64": measure(table1, some_tables["f64"], threads=threads),
            "array1 f32": measure(array1, some_arrays["f32"], threads=threads),
        },
    }
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
