"""Building a tree beside two libraries of PyPI and beside OpenSSL, in one run: one JSON object.

``python tests/benchmarks/bench_merkle.py [LEAVES]``. Every library gets the same records and hashes them
itself: ``pymerkle`` builds the tree of RFC 6962 too, ``merkletools`` a simpler one without prefixes (fewer
bytes to hash). They are installed from ``requirements.txt`` beside this file into ``.tools/bench``, without
what they depend on but do not use here. Each case is taken several times in turn, and the best of each
counts. ``share_of_openssl`` is ``openssl speed``'s time for as many hashes of as many bytes, over ours.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provenance.core import merkle

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS = 5
RECORD = 760  # bytes: a partition record of the voice pipeline
FOLDER = Path(__file__).parents[2] / ".tools" / "bench"


def install() -> None:
    """Install the libraries to compare with, once."""
    if not (FOLDER / "pymerkle").is_dir():
        needs = Path(__file__).with_name("requirements.txt")
        command = [
            sys.executable,
            "-m",
            "uv",
            "pip",
            "install",
            "--quiet",
            "--target",
            str(FOLDER),
            "--no-deps",
        ]
        subprocess.run([*command, "--require-hashes", "-r", str(needs)], check=True)
    sys.path.append(str(FOLDER))
    warnings.simplefilter("ignore")  # merkletools warns that it found no sha3, which nobody asked for


def ours(records: list[bytes]) -> bytes:
    """The root by this package."""
    return merkle.root([merkle.leaf_hash(record) for record in records])


def by_pymerkle(records: list[bytes]) -> bytes:
    """The same root by pymerkle."""
    from pymerkle import InmemoryTree

    tree = InmemoryTree(algorithm="sha256")
    for record in records:
        tree.append_entry(record)
    return bytes(tree.get_root())


def by_merkletools(records: list[bytes]) -> bytes:
    """Another root, without prefixes, by merkletools."""
    from merkletools import MerkleTools

    tree = MerkleTools(hash_type="sha256")
    tree.add_leaf([record.decode() for record in records], do_hash=True)
    tree.make_tree()
    return bytes.fromhex(tree.get_merkle_root())


def openssl_seconds(leaves: int) -> float | None:
    """What ``openssl speed`` takes for the hashes of a tree; None where there is no such program."""
    total = 0.0
    for count, size in ((leaves, RECORD + 1), (leaves - 1, 65)):
        command = ["openssl", "speed", "-mr", "-seconds", "1", "-bytes", str(size), "sha256"]
        try:
            done = subprocess.run(command, check=True, capture_output=True, text=True)
        except (OSError, subprocess.CalledProcessError):
            return None
        found = re.search(r"\+F:\d+:sha256:([0-9.]+)", done.stdout)
        if found is None:
            return None
        total += count * size / float(found[1])
    return total


def main(leaves: int) -> dict[str, Any]:
    """Measure."""
    install()
    records = [b"%0*d" % (RECORD, number) for number in range(leaves)]
    cases: dict[str, Callable[[list[bytes]], bytes]] = {
        "provenance": ours,
        "pymerkle": by_pymerkle,
        "merkletools": by_merkletools,
    }
    if cases["provenance"](records) != cases["pymerkle"](records):
        raise SystemExit("pymerkle finds another root")
    best = dict.fromkeys(cases, float("inf"))
    for _ in range(ROUNDS):
        for name, build in cases.items():
            start = time.perf_counter()
            build(records)
            best[name] = min(best[name], time.perf_counter() - start)
    fastest = min(seconds for name, seconds in best.items() if name != "provenance")
    raw = openssl_seconds(leaves)
    return {
        "leaves": leaves,
        "record_bytes": RECORD,
        "seconds": {name: round(seconds, 4) for name, seconds in best.items()},
        "speed_of_fastest_library": round(fastest / best["provenance"], 2),
        "share_of_openssl": None if raw is None else round(raw / best["provenance"], 2),
        "machine": f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}",
    }


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]) if len(sys.argv) > 1 else 65_536)))
