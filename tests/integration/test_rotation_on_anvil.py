"""A rotated stream on the real embedded set-up: audit, prove and verify reach into both generations."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import provenance
from provenance import bootstrap, bootstrap_chain, config
from provenance.adapters import anvil
from provenance.cli import main
from provenance.errors import ConfigError, UnavailableError
from provenance.testing.checker import Acknowledged, check_ledger

pytestmark = [pytest.mark.service, pytest.mark.slow]


def numbers(file: provenance.File) -> np.ndarray:
    return np.frombuffer(file.data, np.uint8).astype(np.float64)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder whose chain runs."""
    for name in [name for name in os.environ if name.startswith("PROVENANCE_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / ".provenance"
    settings = config.Settings(folder)
    try:
        bootstrap_chain.start_chain(settings)
    except (ConfigError, UnavailableError) as error:
        pytest.skip(f"no anvil: {error}")
    try:
        yield folder
    finally:
        anvil.stop(settings.chain_path)


def run(capsys, folder: Path, *words: str, code: int = 0) -> dict:
    capsys.readouterr()
    assert main([*words, "--folder", str(folder), "--json"]) == code, capsys.readouterr()
    found = json.loads(capsys.readouterr().out)
    return found if code == 0 else found.get("error", found)


def record(folder: Path, name: str) -> str:
    """Record a small run with a sink in a process of its own, and return its id."""
    source = folder.parent / f"in-{name}"
    source.mkdir()
    for number in range(5):
        (source / f"{number}.raw").write_bytes(name.encode() + bytes([number]))
    script = (
        "import sys; from tests.integration.test_rotation_on_anvil import record_here as r; r(*sys.argv[1:])"
    )
    words = [sys.executable, "-c", script, str(folder), name]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    return subprocess.run(words, check=True, capture_output=True, text=True, env=environment).stdout.strip()


def record_here(folder: str, name: str) -> None:
    """As `record`, in this process; prints the id."""
    place = Path(folder).parent
    with provenance.run(name, dataset=None, client="sync", folder=folder) as made:
        made.files(place / f"in-{name}").stage("numbers", numbers).write(str(place / f"{name}.zarr"))
    print(made.id)


def messages(folder: Path) -> list[Acknowledged]:
    log = bootstrap.event_log(config.Settings(folder))
    (identity,) = log.identities()
    found = [Acknowledged(identity, m.offset, m.value) for m in log.read(0, 0, 10_000)]
    log.close()
    return found


def delete(folder: Path, where: str, *values: int) -> None:
    connection = sqlite3.connect(folder / "log.sqlite")
    with connection:
        connection.execute(f"DELETE FROM messages WHERE {where}", values)
    connection.close()


def cut(folder: Path) -> int:
    """Lose the log's second half, as a disk that was restored from an old copy does; where it ends now."""
    end = len(messages(folder)) // 2
    delete(folder, "offset >= ?", end)
    return end


def replace(folder: Path) -> int:
    """Lose the log; the next record makes another."""
    for path in folder.glob("log.sqlite*"):
        path.unlink()
    return 0


def trim(folder: Path) -> int:
    """Lose all of the log's messages but the last, one of them before it was anchored."""
    log = bootstrap.event_log(config.Settings(folder))
    log.append([(b"", b"never anchored"), (b"", b"the last")])
    log.close()
    start = len(messages(folder)) - 1
    delete(folder, "offset < ?", start)
    return start


@pytest.mark.parametrize("lose", [cut, replace, trim])
def test_both_generations_are_audited_proved_and_verified(folder, capsys, lose) -> None:
    first = record(folder, "before")
    run(capsys, folder, "batch", "--max-records", "4")
    before = messages(folder)
    start = lose(folder)
    second = record(folder, "after")
    error = run(capsys, folder, "batch", code=1)
    assert "provenance stream rotate" in error["remedy"]
    assert run(capsys, folder, "stream", "rotate", code=2)["reason"] == "not-confirmed"
    (plan,) = run(capsys, folder, "stream", "rotate", "--yes")["plans"]
    assert (plan["reason"], plan["start"], plan["endpoints"]) == (error["reason"], start, 1)
    run(capsys, folder, "batch")
    old, new = run(capsys, folder, "stream", "list")["streams"]
    assert (old["state"], new["state"], new["start"]) == ("succeeded", "usable", start)

    parts = bootstrap_chain.batcher(config.Settings(folder))
    assert check_ledger(parts.reader, parts.store, before + messages(folder)) == []
    for run_id in (first, second):
        report = run(capsys, folder, "audit", run_id, "--level", "data")
        worse = {one["code"] for one in report["findings"] if one["severity"] not in ("note", "warning")}
        assert not worse, report["findings"]
        proof = folder.parent / f"{run_id[:8]}.json"
        run(capsys, folder, "prove", run_id, "--ancestors", "--out", str(proof))
        assert main(["verify", str(proof), "--trust", str(folder / "trust.toml")]) == 0
    assert run(capsys, folder, "stream", "rotate", "--yes")["plans"] == []


def test_a_chain_that_lost_its_state_gets_both_generations_again(folder, capsys) -> None:
    record(folder, "before")
    run(capsys, folder, "batch", "--max-records", "4")
    cut(folder)
    record(folder, "after")
    run(capsys, folder, "stream", "rotate", "--yes")
    run(capsys, folder, "batch")
    before = run(capsys, folder, "stream", "list")["streams"]
    run(capsys, folder, "down")
    for path in (folder / "chain").glob("state*"):
        path.unlink()
    run(capsys, folder, "up")
    assert len(run(capsys, folder, "batch")["anchored_again"]) == 2
    assert run(capsys, folder, "stream", "list")["streams"] == before


def test_a_second_endpoint_confirms(folder, capsys, monkeypatch) -> None:
    record(folder, "before")
    run(capsys, folder, "batch")
    replace(folder)
    record(folder, "after")
    running = anvil.status(folder / "chain")
    assert running is not None
    monkeypatch.setenv("PROVENANCE_CHAIN_CONFIRM_URL", running.url)
    assert run(capsys, folder, "stream", "rotate", "--dry-run")["plans"][0]["endpoints"] == 2
    monkeypatch.setenv("PROVENANCE_CHAIN_CONFIRM_URL", "http://127.0.0.1:1")
    assert run(capsys, folder, "stream", "rotate", "--yes", code=3)["reason"] == "node-unreachable"
