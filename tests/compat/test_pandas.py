"""Digests are the same under the oldest pandas that is supported and under the one that is installed."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

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


def test_frames_have_one_digest(old: Path) -> None:
    script = str(Path(__file__).with_name("frames_of_any_pandas.py"))
    then, now = (json.loads(run(python, script)) for python in (old, sys.executable))
    assert then.pop("pandas").startswith("2.2.")
    assert now.pop("pandas") == pd.__version__ != "2.2.3"
    assert then == now
    assert sum(text.startswith("table1-sha256:") for text in now.values()) >= 20


def test_the_vectors_pass_under_both(old: Path) -> None:
    files = [
        str(path) for path in sorted((ROOT / "tests/vectors").glob("*.json")) if path.name != "chain.json"
    ]
    for python in (old, sys.executable):
        last = run(python, "-m", "provenance.testing.vectors", *files).splitlines()[-1]
        assert last.endswith(", 0 failed")
        assert int(last.split()[0]) > 1000
