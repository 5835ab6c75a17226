"""The batcher on the real embedded set-up: SQLite, a folder, anvil; processes killed, chains lost."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from provenance import bootstrap, bootstrap_chain, config
from provenance.adapters import anvil
from provenance.cli import main
from provenance.errors import ConfigError, UnavailableError
from tests.services.batcher_world import check_anchored

pytestmark = pytest.mark.service

KILLER = Path(__file__).with_name("killed_batcher.py")
# Each stands for a numbered step, in the order in which a batch passes them.
OPERATIONS = [
    "journal.entries",
    "chain.head",
    "store.get",
    "log.read",
    "log.bounds",
    "log.identities",
    "store.put",
    "account.sign",
    "journal.record",
    "account.send",
    "account.nonce",
    "account.state",
    "chain.anchors",
    "store.names",
    "journal.forget",
    "index.add",
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder whose chain runs."""
    for name in [name for name in os.environ if name.startswith("PROVENANCE_")]:
        monkeypatch.delenv(name)
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
    assert main([*words, "--folder", str(folder), "--json"]) == code
    found = json.loads(capsys.readouterr().out)
    return found if code == 0 else found.get("error", found)


def write(folder: Path, *values: bytes) -> None:
    log = bootstrap.event_log(config.Settings(folder))
    log.append([(b"", value) for value in values])
    log.close()


def check(folder: Path) -> None:
    """Everything in the log is anchored once, in order, as chain and files say."""
    settings = config.Settings(folder)
    reader, _ = bootstrap.chain(settings)
    log = bootstrap.event_log(settings)
    (identity,) = log.identities()
    messages, start = {}, 0
    while found := log.read(0, start, 1000):
        messages.update({message.offset: message.value for message in found})
        start = found[-1].offset + 1
    log.close()
    check_anchored(reader, lambda name: (settings.store_path / name).read_bytes(), identity, messages)


def heads(folder: Path) -> list[tuple[bytes, int, bytes]]:
    reader, _ = bootstrap.chain(config.Settings(folder))
    found = [reader.head(stream) for stream, _, _ in reader.openings()]
    return [(head.stream, head.seq, head.acc) for head in found if head is not None]


def lose_state(folder: Path, capsys) -> None:
    """Stop the chain and remove all it remembers; its id stays."""
    run(capsys, folder, "down")
    for path in (folder / "chain").glob("state*"):
        path.unlink()


def test_up_batch_status_down(folder, capsys) -> None:
    found = run(capsys, folder, "up")
    assert not found["started"]
    assert found["deployed"]
    again = run(capsys, folder, "up")
    assert (again["port"], again["contract"], again["deployed"]) == (found["port"], found["contract"], False)
    write(folder, *(b"record %d" % number for number in range(10)))
    assert main(["status", "--check", "--folder", str(folder)]) == 4
    found = run(capsys, folder, "batch", "--max-records", "4")
    assert (found["records"], found["batches"], found["rejected"]) == (10, 3, 10)
    assert 150_000 < found["gas"] < 250_000
    check(folder)
    assert main(["status", "--check", "--folder", str(folder)]) == 0
    assert run(capsys, folder, "index", "rebuild")["records"] == 10
    assert run(capsys, folder, "down")["stopped"] is True
    assert run(capsys, folder, "down")["stopped"] is False


def test_a_port_that_is_taken_is_one_clear_message(folder, capsys) -> None:
    run(capsys, folder, "down")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        error = run(capsys, folder, "up", "--port", str(port), code=2)
    assert str(port) in error["message"]
    assert error["remedy"]
    assert run(capsys, folder, "up")["started"]


def test_a_chain_that_was_stopped_and_started_goes_on(folder, capsys) -> None:
    write(folder, b"one")
    run(capsys, folder, "batch")
    before = heads(folder)
    run(capsys, folder, "down")
    write(folder, b"two")
    assert run(capsys, folder, "batch", code=3)["remedy"] == "Run: provenance up"
    run(capsys, folder, "up")
    assert heads(folder) == before
    found = run(capsys, folder, "batch")
    assert (found["records"], found["anchored_again"], found["deployed"]) == (1, [], False)
    check(folder)


def test_a_chain_that_lost_its_state_is_anchored_again(folder, capsys) -> None:
    write(folder, *(b"record %d" % number for number in range(10)))
    run(capsys, folder, "batch", "--max-records", "4")
    before = heads(folder)
    lose_state(folder, capsys)
    write(folder, b"more")
    assert run(capsys, folder, "up")["deployed"]
    assert heads(folder) == []
    found = run(capsys, folder, "batch")
    ((stream, _, _),) = before
    assert found["anchored_again"] == [{"stream": stream.hex(), "first": 1, "last": 3}]
    assert (found["records"], found["batches"]) == (1, 1)
    check(folder)


def test_a_chain_that_was_killed_is_anchored_again(folder, capsys) -> None:
    write(folder, b"one", b"two")
    run(capsys, folder, "batch", "--max-records", "1")
    before = heads(folder)
    running = anvil.status(folder / "chain")
    assert running is not None
    os.kill(running.pid, signal.SIGKILL)
    assert run(capsys, folder, "batch", code=3)["kind"] == "unavailable"
    run(capsys, folder, "up")
    run(capsys, folder, "batch")
    assert heads(folder) == before
    check(folder)


def test_the_same_sight_on_another_chain_is_refused(folder, capsys, monkeypatch) -> None:
    write(folder, b"one")
    run(capsys, folder, "batch")
    lose_state(folder, capsys)
    url = run(capsys, folder, "up")["url"]
    monkeypatch.setenv("PROVENANCE_CHAIN_URL", url)
    error = run(capsys, folder, "batch", code=1)
    assert error["reason"] == "stream-unknown"
    assert error["remedy"]
    monkeypatch.delenv("PROVENANCE_CHAIN_URL")
    assert heads(folder) == []


def test_following_stops_on_sigterm(folder) -> None:
    write(folder, b"one", b"two")
    command = [
        sys.executable,
        "-m",
        "provenance",
        "batch",
        "--follow",
        "--max-age",
        "0",
        "--folder",
        str(folder),
    ]
    with subprocess.Popen(
        [*command, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        assert any("batch 1 is final" in line for line in process.stderr)
        write(folder, b"three")
        assert any("batch 2 is final" in line for line in process.stderr)
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=10)
        assert process.returncode == 0
    assert json.loads(out)["records"] == 3
    check(folder)


def test_a_batcher_killed_at_every_step_loses_and_doubles_nothing(folder) -> None:
    cases = [
        [operation, number, when, embedded]
        for number, embedded in ((1, False), (2, True))
        for operation in OPERATIONS
        for when in ("before", "after")
    ]
    done = subprocess.run(
        [sys.executable, str(KILLER), str(folder)],
        input=json.dumps([None, *cases, None]),
        capture_output=True,
        text=True,
        check=True,
    )
    ended = [json.loads(line) for line in done.stdout.splitlines()]
    assert [code for case, code in ended if case is None] == [0, 0], done.stderr
    killed = {case[0] for case, code in ended if case is not None and code == -signal.SIGKILL}
    assert killed == set(OPERATIONS)
    assert {code for _, code in ended} == {0, -signal.SIGKILL}, done.stderr
    check(folder)
    journal = bootstrap.journal(config.Settings(folder))
    assert journal.entries() == ()
    journal.close()
