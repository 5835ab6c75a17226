"""Digests are the same under the oldest pandas that is supported and under the one that is installed."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

pytestmark = [pytest.mark.service, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "requirements" / "pandas-2.2.txt"


@pytest.fixture(scope="module")
def old() -> Path:
    """The Python of an environment with the old pandas; made once for each lock file."""
    name = f"pandas-{hashlib.sha256(LOCK.read_bytes()).hexdigest()[:12]}-{sys.version_info.minor}"
    folder = ROOT / ".tools" / name
    python = folder / "bin" / "python"
    ready = folder / "ready"
    if not ready.exists():
        uv = [sys.executable, "-m", "uv"]
        steps = (
            [*uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(folder)],
            [*uv, "pip", "install", "--quiet", "--python", str(python), "--require-hashes", "-r", str(LOCK)],
        )
        for step in steps:
            done = subprocess.run(step, capture_output=True, text=True, check=False)
            if done.returncode:
                reason = f"pandas 2.2 cannot be installed here: {done.stderr.strip()[-300:]}"
                (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(reason)
        ready.touch()
    return python


def run(python: Path | str, *arguments: str) -> str:
    done = subprocess.run(
        [str(python), *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def outcomes(old: Path) -> list[dict[str, Any]]:
    """What the cases came to under the old pandas and the new one."""
    script = str(Path(__file__).with_name("pandas_cases.py"))
    then, now = (json.loads(run(python, script)) for python in (old, sys.executable))
    assert then["pandas"].startswith("2.2.")
    assert now["pandas"] == pd.__version__
    assert not pd.__version__.startswith("2.2."), "nothing would be compared"
    return [then["outcomes"], now["outcomes"]]


def test_frames_have_one_digest(outcomes: list[dict[str, Any]]) -> None:
    then, now = outcomes
    assert then.keys() == now.keys()
    differ = {name: (then[name], now[name]) for name in now if then[name] != now[name]}
    # Equality holds for equal Arrow types (spec/digests.md): without a value, the object column that pandas 2
    # makes of plain texts is nothing, and the str column of pandas 3 is a text.
    types = {name: tuple(found[1] for found in pair) for name, pair in differ.items()}
    nothing, text = [["c", "null"]], [["c", "utf8"]]
    assert types == {"no-rows-texts": (nothing, text), "no-rows-texts-scripts": (nothing, text)}


def test_the_cases_differ_among_themselves(outcomes: list[dict[str, Any]]) -> None:
    # Were the comparison blind, everything would be equal.
    now = outcomes[1]
    assert ["the public name gives another digest"] not in now.values()
    assert len({json.dumps(found) for found in now.values()}) > 90
    assert {name for name, found in now.items() if name.startswith("refused") and len(found) == 1} == {
        "refused-mixed",
        "refused-object",
        "refused-complex",
        "refused-period",
        "refused-interval",
        "refused-sparse",
        "refused-big-endian-inside",
    }


def test_the_vectors_pass_under_both(old: Path) -> None:
    files = [
        str(path) for path in sorted((ROOT / "tests/vectors").glob("*.json")) if path.name != "chain.json"
    ]
    for python in (old, sys.executable):
        last = run(python, "-m", "provenance.testing.vectors", *files).splitlines()[-1]
        assert last.endswith(", 0 failed")
        assert int(last.split()[0]) > 1000
