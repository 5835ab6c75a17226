"""What the pages tell a reader to type does what they say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pytest

from tests import documents

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A shell's environment in which the chain of the folder listens on a free port."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PROVENANCE_")}
    yield kept | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    down = [sys.executable, "-m", "provenance", "down", "--folder", str(tmp_path / ".provenance")]
    subprocess.run(down, check=False, capture_output=True)


@pytest.mark.service
@pytest.mark.slow
def test_the_tutorial(tmp_path: Path, environment: dict[str, str]) -> None:
    page = (ROOT / "docs/tutorial.md").read_text(encoding="utf-8")
    assert documents.walk(page, tmp_path, environment) > 15


@pytest.mark.service
@pytest.mark.slow
def test_the_example_in_the_readme(tmp_path: Path, environment: dict[str, str]) -> None:
    page = (
        (ROOT / "README.md").read_text(encoding="utf-8").split("## In a pipeline")[1].split("## Install")[0]
    )
    example, loader = (one.text for one in documents.blocks(page) if one.language == "python")
    helper = re.search(r"# (def loud.*)", example)
    assert helper is not None
    (tmp_path / "cleaning.py").write_text(helper[1] + "\n", encoding="utf-8")
    (tmp_path / "loudness").mkdir()
    for day in range(2):
        frame = pd.DataFrame({"loudness": [-50.0, -30.0, -20.0 + day]})
        frame.to_parquet(tmp_path / f"loudness/{day}.parquet")
    frame.to_parquet(tmp_path / "features.parquet")
    read = loader.replace("run=run.id", "") + "print([len(shard.parts['table']) for shard in shards])\n"
    session = (
        "```console\n$ provenance init\n```\n"
        f"```python file=record.py\n{example}```\n```console\n$ python record.py\n```\n"
        f"```python file=read.py\nimport provenance.torch\n{read}```\n"
        + re.sub(r"table1-sha256:\w+", "table1-sha256:…", page.replace("```python", "```text"))
        + "```console\n$ python read.py\n[2, 2]\n```\n"
    )
    assert documents.walk(session, tmp_path, environment) == 8


def test_a_session_that_goes_otherwise_is_found(tmp_path: Path) -> None:
    page = "```console\n$ printf 'a 7\\nb\\n'\na …\nc\n```\n"
    with pytest.raises(AssertionError, match=r"expected \['a …', 'c'\]"):
        documents.walk(page, tmp_path, os.environ)
    with pytest.raises(AssertionError, match="exit code 3"):
        documents.walk("```console\n$ exit 3\n```\n", tmp_path, os.environ)
    assert documents.walk(page.replace("\nc\n", "\nb\n"), tmp_path, os.environ) == 1


SOUNDS = """
import numpy as np


def loudness(file, *, window):
    values = np.frombuffer(file.data, np.uint8).astype(np.float64)
    return values[: len(values) // window * window].reshape(-1, window).mean(axis=1)


def spectrum(file):
    return np.abs(np.fft.rfft(np.frombuffer(file.data, np.uint8))).astype(np.float32)


def together(files):
    return {"values": np.concatenate([file.data for file in files])}


def again(parts):
    return {name: values + 1 for name, values in parts.items()}
"""


@pytest.mark.service
@pytest.mark.slow
def test_the_page_on_recording(tmp_path: Path, environment: dict[str, str]) -> None:
    page = (ROOT / "docs/how-to/record-a-pipeline.md").read_text(encoding="utf-8")
    for person in ("ada", "bo"):
        (tmp_path / "sounds" / person).mkdir(parents=True)
        for number in range(3):
            (tmp_path / "sounds" / person / f"{number}.raw").write_bytes(bytes(range(number, number + 40)))
    (tmp_path / "sounds.py").write_text(SOUNDS, encoding="utf-8")
    parts = [block.text for block in documents.blocks(page) if block.language == "python"]
    (tmp_path / "page.py").write_text("from sounds import again\n" + "\n".join(parts), encoding="utf-8")
    made = "again.zarr\nall.zarr\nloudness.zarr\nspectra.zarr\n"
    session = f"```console\n$ provenance init\n$ python page.py\n$ ls -d *.zarr\n{made}```\n"
    assert documents.walk(session, tmp_path, environment) == 3
