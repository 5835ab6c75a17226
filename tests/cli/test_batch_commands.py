"""up, down, batch, status and index, over fakes: what they print, what they refuse, how they exit."""

from __future__ import annotations

import json
import os
import signal
import sys

import pytest

from provenance import bootstrap, bootstrap_chain, config
from provenance.adapters import anvil
from provenance.cli import main
from provenance.errors import UnavailableError
from tests.services.batcher_world import World


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder whose log has three messages; the chain is down."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("PROVENANCE_")]:
        monkeypatch.delenv(name)
    folder = tmp_path / ".provenance"
    log = bootstrap.event_log(config.load(folder))
    log.append([(b"", b"one"), (b"", b"two"), (b"", b"three")])
    log.close()
    return folder


@pytest.fixture
def world(monkeypatch, folder):
    """The fakes in place of all that a batcher works with."""
    world = World(embedded=True)
    world.write(b"one", b"two", b"three")
    monkeypatch.setattr(bootstrap_chain, "batcher", lambda settings: world.components())
    monkeypatch.setattr(bootstrap, "index", lambda settings: world.index)
    return world


def run(capsys, *words: str) -> tuple[int, str, str]:
    capsys.readouterr()
    code = main(list(words))
    out, err = capsys.readouterr()
    return code, out, err


def run_json(capsys, *words: str) -> dict:
    code, out, _ = run(capsys, *words, "--json")
    assert code == 0
    return json.loads(out)


# batch.


def test_batch_says_what_became_final(world, capsys) -> None:
    code, out, _ = run(capsys, "batch", "--max-records", "2")
    assert code == 0
    assert "3 records in 2 batches, 122,944 gas" in out
    assert "3 messages are no valid records" in out
    world.check()
    assert "nothing to anchor" in run(capsys, "batch")[1]


def test_batch_tells_programs_the_same(world, capsys) -> None:
    found = run_json(capsys, "batch")
    ((stream, position),) = found["positions"].items()
    assert (found["records"], found["batches"], found["rejected"], found["gas"]) == (3, 1, 3, 61_472)
    assert (position["seq"], position["next_offset"]) == (1, 3)
    assert world.chain.head(bytes.fromhex(stream)).acc.hex() == position["acc"]
    assert (found["deployed"], found["anchored_again"], found["index_error"]) == (True, [], "")


def test_batch_says_what_the_chain_had_lost(world, capsys) -> None:
    run(capsys, "batch", "--max-records", "1")
    world.chain.reorganise(2, drop=True)
    _, out, _ = run(capsys, "batch")
    assert "lacked 2 batches, to seq 3" in out
    world.chain.reorganise(2, drop=True)
    (again,) = run_json(capsys, "batch")["anchored_again"]
    assert (again["first"], again["last"]) == (2, 3)


def test_an_index_that_lags_is_said_and_is_no_success(world, capsys) -> None:
    run(capsys, "batch", "--max-records", "2")
    world.write(b"more")
    name = min(world.store.objects)  # not the head's, which would be made again
    world.index.clear()
    del world.store.objects[name]
    code, out, _ = run(capsys, "batch", "--json")
    assert code == 1
    assert name in json.loads(out)["index_error"]
    code, out, _ = run(capsys, "batch")
    assert code == 1
    assert "the index lags" in out
    assert "provenance index rebuild" in out


def test_without_a_chain_records_wait_and_the_next_step_is_said(folder, capsys) -> None:
    code, _, err = run(capsys, "batch")
    assert code == 3
    assert "the embedded chain does not run" in err
    assert "provenance up" in err


def test_without_its_packages_the_next_step_is_said(folder, capsys, monkeypatch) -> None:
    for name in [name for name in sys.modules if name.startswith("provenance.adapters.evm")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr(sys.modules["provenance.adapters"], "evm", raising=False)
    monkeypatch.setitem(sys.modules, "web3", None)
    for command in ("batch", "up"):
        code, _, err = run(capsys, command)
        assert code == 2
        assert "pip install 'provenance-ledger[chain]'" in err
        assert "records wait in the log" in err
    assert run(capsys, "status")[0] == 0


@pytest.mark.parametrize(
    "words",
    [
        ("--max-records", "0"),
        ("--max-records", "x"),
        ("--max-bytes", "-1"),
        ("--max-age", "nan"),
        ("--max-records", "65537"),
        ("surplus",),
    ],
)
def test_limits_outside_their_range_anchor_nothing(world, capsys, words) -> None:
    assert run(capsys, "batch", *words)[0] == 2
    assert world.chain.openings() == ()


def test_a_second_batcher_is_refused(world, folder, capsys) -> None:
    with bootstrap_chain.batcher_lock(config.load(folder)):
        code, _, err = run(capsys, "batch")
    assert code == 3
    assert "another batcher works in" in err
    assert run(capsys, "batch")[0] == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_following_ends_on_a_signal(world, capsys, number) -> None:
    before = signal.getsignal(number)

    def end() -> None:
        if world.clock.monotonic() > 30:
            os.kill(os.getpid(), number)

    world.moves.append(end)
    code, out, err = run(capsys, "batch", "--follow", "--json", "--max-age", "1")
    assert code == 0
    assert json.loads(out)["records"] == 3
    assert "batch 1 is final" in err
    assert signal.getsignal(number) == before


# status.


def test_status_before_anything_was_recorded(tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, _ = run(capsys, "status", "--folder", str(tmp_path / "new"))
    assert (code, "nothing was recorded yet" in out) == (0, True)
    assert not (tmp_path / "new").exists()
    found = run_json(capsys, "status", "--folder", str(tmp_path / "new"))
    assert found["partitions"] == []


def test_status_without_the_chain_shows_the_log(folder, capsys) -> None:
    code, out, _ = run(capsys, "status")
    assert code == 0
    assert "offsets 0 to 3" in out
    assert "provenance up" in out
    found = run_json(capsys, "status")
    assert found["chain"]["up"] is False
    (part,) = found["partitions"]
    assert (part["end"], part["sequenced"], part["final"]) == (3, None, None)
    assert run(capsys, "status", "--check")[0] == 3


def test_status_shows_what_waits_and_what_is_final(world, capsys) -> None:
    code, out, _ = run(capsys, "status")
    assert (code, "sequenced 3, anchored 0, final 0" in out) == (0, True)
    assert run(capsys, "status", "--check", "--json")[0] == 4
    run(capsys, "batch")
    code, out, _ = run(capsys, "status", "--check")
    assert (code, "sequenced 0, anchored 0, final 3" in out, "seq 1, next offset 3" in out) == (0, True, True)


def test_status_shows_the_journal(world, folder, capsys) -> None:
    from provenance.core.transactions import JournalEntry, SignedTransaction

    journal = bootstrap.journal(config.load(folder))
    journal.record(JournalEntry(SignedTransaction(1, b"h" * 32, b"raw"), "anchor", bytes(32), 1))
    journal.close()
    assert "journal: 1 transactions" in run(capsys, "status")[1]
    assert run_json(capsys, "status")["journal"] == 1


# index.


def test_index_rebuild(world, capsys) -> None:
    run(capsys, "batch", "--max-records", "2")
    before = list(world.index.find())
    world.index.clear()
    code, out, _ = run(capsys, "index", "rebuild")
    assert (code, "3 records of 2 batches (3 rejected)" in out) == (0, True)
    assert list(world.index.find()) == before
    found = run_json(capsys, "index", "rebuild")
    assert (found["command"], found["batches"], found["records"]) == ("index rebuild", 2, 3)


def test_index_rebuild_names_the_file_that_is_not_the_anchored_one(world, capsys) -> None:
    run(capsys, "batch")
    (name,) = world.store.objects
    data = world.store.objects[name]
    world.store.objects[name] = data[:-1] + bytes([data[-1] ^ 1])
    code, _, err = run(capsys, "index", "rebuild")
    assert code == 1
    assert name in err


# up and down.


@pytest.fixture
def node(world, monkeypatch):
    """The chain's process, without one."""
    calls = []

    def start(folder, *, port=None):
        calls.append(port)
        recovered = "its state could not be read" if len(calls) == 3 else ""
        return anvil.NodeInfo("http://127.0.0.1:8600", 8600, 42, 7, len(calls) != 2, recovered)

    monkeypatch.setattr(anvil, "start", start)
    monkeypatch.setattr(anvil, "stop", lambda folder: bool(calls))
    return calls


def test_up_starts_once_and_says_so(node, folder, capsys) -> None:
    code, out, _ = run(capsys, "up", "--port", "8600")
    assert code == 0
    assert "chain 7 runs at http://127.0.0.1:8600 (process 42)" in out
    assert "deployed now" in out
    chain = json.loads((folder / "chain" / "chain.json").read_text())
    assert set(chain) == {"chain_id", "genesis", "contract", "code_hash"}
    code, out, _ = run(capsys, "up", "--port", "8601")
    assert code == 0
    assert "is running already" in out
    assert "provenance down" in out
    assert node == [8600, 8601]


def test_up_says_that_the_chain_lost_blocks(node, world, capsys) -> None:
    run(capsys, "up")
    run(capsys, "up")
    _, out, _ = run(capsys, "up")
    assert "lost blocks" in out
    assert "provenance batch" in out


def test_up_says_that_a_new_chain_lacks_what_is_in_the_batch_files(node, world, folder, capsys) -> None:
    assert run_json(capsys, "up")["lost_blocks"] is False
    run(capsys, "batch")
    bootstrap.batch_store(config.load(folder)).put(*next(iter(world.store.objects.items())))
    world.chain.reorganise(len(world.chain._blocks), drop=True)
    _, out, _ = run(capsys, "up")
    assert "there are batch files" in out
    assert "provenance batch" in out


def test_up_opens_nothing(node, world, capsys) -> None:
    found = run_json(capsys, "up")
    assert (found["deployed"], found["started"], found["port"]) == (True, True, 8600)
    assert world.chain.openings() == ()


def test_up_starts_nothing_where_the_settings_name_another_chain(node, capsys, monkeypatch) -> None:
    monkeypatch.setenv("PROVENANCE_CHAIN_URL", "http://127.0.0.1:1")
    code, _, err = run(capsys, "up")
    assert (code, "another chain" in err, node) == (2, True, [])


@pytest.mark.parametrize("port", ["0", "65536", "x"])
def test_up_refuses_what_is_no_port(node, capsys, port) -> None:
    assert run(capsys, "up", "--port", port)[0] == 2
    assert node == []


def test_down_says_whether_there_was_anything_to_stop(node, capsys) -> None:
    assert "no chain was running" in run(capsys, "down")[1]
    run(capsys, "up")
    assert "the chain is stopped" in run(capsys, "down")[1]
    assert run_json(capsys, "down")["stopped"] is True


def test_a_chain_that_does_not_come_up_is_one_message(folder, capsys, monkeypatch) -> None:
    def start(folder, *, port=None):
        raise UnavailableError("anvil does not come up", reason="chain-not-up", remedy="Look.")

    monkeypatch.setattr(anvil, "start", start)
    code, out, err = run(capsys, "up")
    assert (code, out) == (3, "")
    assert err.count("\n") == 2
