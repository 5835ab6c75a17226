"""The whole job with the log in Kafka, as its how-to says: recorded by processes, anchored, audited."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from pipeline import synthetic
from tests.kafka_world import CLIENTS, start_kafka_or_skip

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kafka_world import Client

pytestmark = [pytest.mark.service, pytest.mark.slow]


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with start_kafka_or_skip() as place:
        yield place


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: text for name, text in os.environ.items() if not name.startswith("PROVENANCE_")}
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=folder,
        env=inherited,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def provenance(folder: Path, *arguments: str) -> dict[str, object]:
    """A command that must succeed; what it prints as JSON."""
    done = run(folder, "provenance", *arguments, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_a_run_is_recorded_to_kafka_anchored_and_audited(
    bootstrap: str, client: Client, tmp_path: Path
) -> None:
    synthetic.write(tmp_path / "recordings", speakers=2, utterances=8)
    (tmp_path / "provenance.toml").write_text(
        f'[log]\nbootstrap = "{bootstrap}"\ntopic = "tests.{secrets.token_hex(6)}"\n'
        f'client = "{client.name}"\npartitions = 2\n'
    )
    assert provenance(tmp_path, "topic", "create")["made"] is True
    provenance(tmp_path, "init", "--name", "voices", "--licence", "CC0-1.0")
    try:
        provenance(tmp_path, "up")
        recorded = run(tmp_path, "pipeline.voice", "--source", "recordings")
        assert recorded.returncode == 0, recorded.stdout + recorded.stderr
        assert not (tmp_path / ".provenance" / "log.sqlite").exists()
        before = provenance(tmp_path, "status")["partitions"]
        provenance(tmp_path, "batch")
        after = provenance(tmp_path, "status")["partitions"]
        audit = run(tmp_path, "provenance", "audit", "--json")
    finally:
        run(tmp_path, "provenance", "down")
    assert audit.returncode == 0, audit.stdout + audit.stderr
    assert [part["sequenced"] for part in after] == [0, 0]  # type: ignore[attr-defined]
    assert all(part["sequenced"] > 0 for part in before)  # type: ignore[attr-defined]
