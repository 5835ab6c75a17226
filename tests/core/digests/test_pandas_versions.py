"""One frame, one digest, whether pandas 2.2 or the installed pandas holds it."""

from __future__ import annotations

import json
import subprocess
import venv
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from tests.core.digests import pandas_cases

ROOT = Path(__file__).resolve().parents[3]
HOME = ROOT / ".tools" / "pandas22"
# The same Arrow under both, so that only pandas differs; NumPy as pandas 2.2 was built for.
WANTED = ["pandas==2.2.3", f"pyarrow=={pa.__version__}", "numpy<2.3", "blake3"]

pytestmark = [pytest.mark.service, pytest.mark.slow]


@pytest.fixture(scope="module")
def python() -> Path:
    """The interpreter of an environment with pandas 2.2, made once and kept."""
    done = HOME / "installed"
    program = HOME / "bin" / "python"
    if not done.exists() or done.read_text() != "\n".join(WANTED):
        venv.create(HOME, clear=True, with_pip=True)
        command = [program, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *WANTED]
        installed = subprocess.run(command, capture_output=True, text=True, check=False)
        if installed.returncode:
            pytest.skip(f"pandas 2.2 cannot be installed: {installed.stderr[-500:]}")
        done.write_text("\n".join(WANTED))
    return program


@pytest.fixture(scope="module")
def old(python: Path) -> dict[str, Any]:
    script = Path(pandas_cases.__file__)
    environment = {"PYTHONPATH": str(ROOT), "PATH": ""}
    ran = subprocess.run([python, script], capture_output=True, text=True, check=False, env=environment)
    assert ran.returncode == 0, ran.stderr
    result: dict[str, Any] = json.loads(ran.stdout)
    assert result["pandas"].startswith("2.2.")
    return result["outcomes"]


@pytest.fixture(scope="module")
def new() -> dict[str, Any]:
    assert not pd.__version__.startswith("2.2."), "nothing would be compared"
    result: dict[str, Any] = json.loads(json.dumps(pandas_cases.outcomes()))
    return result


def test_equal_on_both(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert old.keys() == new.keys()
    assert {name: (old[name], new[name]) for name in new if old[name] != new[name]} == {}


def test_the_cases_differ_among_themselves(new: dict[str, Any]) -> None:
    # Were the comparison blind, everything would be equal.
    assert len({json.dumps(found) for found in new.values()}) > 80
    assert sum(name.startswith("refused") and len(found) == 1 for name, found in new.items()) == 7
