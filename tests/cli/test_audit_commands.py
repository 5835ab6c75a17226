"""audit, prove, verify and report, over fakes: what they print, where they write, how they exit."""

from __future__ import annotations

import json
import socket
import subprocess
import sys

import pytest

from provenance import bootstrap
from provenance.cli import main
from provenance.core.trust import encode_trust
from tests.services.audit_world import COUNT, World
from tests.services.test_audit_replay import FakeReplayer, other_value


class ClosingReplayer(FakeReplayer):
    closed = False

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.closed = True


@pytest.fixture
def world(tmp_path, monkeypatch):
    """A run in `tmp_path`, with the fakes in place of what bootstrap would join."""
    monkeypatch.chdir(tmp_path)
    world = World(tmp_path).complete()

    def write_trust(settings):
        path = tmp_path / "trust.toml"
        path.write_text(encode_trust(world.trust))
        return path

    world.replayer = ClosingReplayer(world)
    monkeypatch.setattr(
        bootstrap, "audit_ports", lambda settings, replayer=None: world.ports(replayer=replayer)
    )
    monkeypatch.setattr(bootstrap, "replayer", lambda settings, code: world.replayer)
    monkeypatch.setattr(bootstrap, "write_trust", write_trust)
    return world


@pytest.fixture
def call(capsys):
    def run(*words):
        capsys.readouterr()
        code = main(list(words))
        out, err = capsys.readouterr()
        return code, out, err

    return run


def document(out):
    found = json.loads(out)
    assert found["version"] == 1
    return found


# ------------------------------------------------------------------------------------------------------ audit


def test_audit_says_what_was_looked_at(world, call):
    code, out, err = call("audit")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert (
        lines[0] == f"run {world.run_id.hex()[:12]}  voice, sealed as complete 2026-01-01T00:10:00Z: complete"
    )
    assert lines[1].startswith("chain   passed  1 stream, 6 batches, 27 records (0 rejected), 6 signatures")
    assert lines[2].startswith(
        f"data    passed  {COUNT} raw files, {COUNT} stored parts in {2 * COUNT + 1} objects"
    )
    assert lines[3] == "on a node's word: chain 31337 (fake) has no seals"
    assert len(lines) == 4


def test_audit_tells_programs_the_same(world, call):
    code, out, _ = call("audit", world.run_id.hex()[:8], "--level", "replay", "--json")
    found = document(out)
    assert (code, found["command"], found["exit_code"]) == (0, "audit", 0)
    assert found["verdicts"] == {"chain": "passed", "data": "passed", "replay": "passed"}
    assert found["runs"][0]["stages"][0]["replay"]["verdict"] == "bit-exact"
    assert found["runs"][0]["anchors"][0]["seq"] == 1
    assert world.replayer.closed


def test_audit_shows_the_replay(world, call):
    world.replayer.changes = {("stored", 2): other_value}
    code, out, _ = call("audit", "--level", "replay")
    assert code == 1
    assert "replay  failed  raw bit-exact, feature bit-exact, store failed" in out
    assert "error replay-failed: stage 'store', shard 2" in out


def test_audit_names_a_changed_leaf(world, call):
    name = world.batch_names()[1]
    world.flip(name, len(world.store.objects[name]) - 1)
    code, out, _ = call("audit", "--level", "chain")
    assert code == 1
    assert "error batch-changed: the batch file of seq 2 was changed in the leaf" in out
    assert (
        f"at: stream {name[:12]}, seq 2, offset 9, byte {len(world.store.objects[name]) - 1}, {name}" in out
    )
    assert "expected 0x7d, found 0x7c" in out
    assert "next: Restore the file" in out
    _, out, _ = call("audit", "--level", "chain", "--json")
    (finding,) = document(out)["findings"]
    assert (finding["seq"], finding["offset"], finding["severity"]) == (2, 9, "error")


def test_audit_shows_plain_names_to_whoever_has_them(world, call):
    path = world.folder / "raw/speaker 0/2.wav"
    path.write_bytes(b"changed")
    code, out, _ = call("audit")
    assert code == 1
    assert f"detail: {path}" in out


def test_audit_waits_for_anchors(world, call):
    world.train()
    code, out, _ = call("audit")
    assert code == 4
    assert "chain   pending" in out
    assert "1 record pending" in out


def test_audit_without_where_things_lie(world, call):
    world.names._plain.clear()
    code, out, _ = call("audit")
    assert code == 3
    assert "unreachable location-unknown" in out


def test_audit_counts_what_it_does_not_show(world, call, monkeypatch):
    monkeypatch.setattr("provenance.services.audit.findings._MOST_OF_A_KIND", 1)
    for path in (world.folder / "raw/speaker 0").iterdir():
        path.write_bytes(b"changed")
    assert "3 more of raw-changed" in call("audit")[1]


@pytest.mark.parametrize(
    "words",
    [("audit", "abcd", "--all"), ("audit", "nothex"), ("audit", "--level", "deep"), ("audit", "a", "b")],
)
def test_audit_used_wrongly(world, call, words):
    code, out, err = call("audit", *words)
    assert (code, out) == (2, "")
    assert "error: " in err


def test_audit_of_all_runs(world, call):
    assert call("audit", "--all")[0] == 0


def test_audit_where_there_is_no_folder(tmp_path, call, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for words in (("audit",), ("prove", "store/1"), ("report",)):
        code, _, err = call(*words)
        assert code == 2
        assert "there is no such folder" in err
    assert list(tmp_path.iterdir()) == [], "nothing was made"


# ---------------------------------------------------------------------------------------------- prove, verify


def test_a_proof_goes_from_one_to_the_other(world, call, monkeypatch):
    code, out, _ = call("prove", "store/3", "--ancestors")
    assert code == 0
    assert out.startswith("proof.json: 1 record, 2 ancestors, ")
    assert "next: provenance verify proof.json --trust" in out

    def refuse(*arguments, **options):
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(bootstrap, "audit_ports", refuse)
    part = "store/p00003/mel"
    code, out, _ = call("verify", "proof.json", "--trust", "trust.toml", "--file", part)
    assert code == 0
    assert "proof.json: it holds, on a node's word" in out
    assert "stage store, partition 3: record" in out
    assert "with 2 records that they descend from" in out
    assert "1 file given is a proved one, byte for byte" in out
    assert "not checked:\n  the blocks: this chain has no seals" in out


def test_a_proof_for_programs(world, call):
    code, out, _ = call("prove", world.run_id.hex()[:8], "--out", "run.json", "--json")
    found = document(out)
    assert (code, found["command"], len(found["shards"])) == (0, "prove", COUNT)
    assert found["bytes"] == (world.folder / "run.json").stat().st_size
    code, out, _ = call("verify", "run.json", "--trust", "trust.toml", "--json")
    found = document(out)
    assert (code, found["command"], found["verified"], found["evidence"]) == (
        0,
        "verify",
        True,
        "on a node's word",
    )
    assert found["seal"]["signer"] == {"org": 1, "name": "org"}
    assert len(found["unchecked"]) == 5
    _, out, _ = call("verify", "run.json", "--trust", "trust.toml")
    assert "stage store, partition 6" in out


def test_many_shards_are_not_all_listed(world, call, monkeypatch):
    monkeypatch.setattr("provenance.cli.verify._SHOWN", 2)
    call("prove", world.run_id.hex()[:8])
    assert f"and {COUNT - 2} more" in call("verify", "proof.json", "--trust", "trust.toml")[1]


def test_a_signed_records_proof(world, call):
    assert call("prove", world.dataset_id.hex())[0] == 0
    _, out, _ = call("verify", "proof.json", "--trust", "trust.toml")
    assert "dataset: record" in out


def test_verify_refuses_the_file_of_another_shard(world, call):
    call("prove", "store/3")
    code, out, err = call("verify", "proof.json", "--trust", "trust.toml", "--file", "store/p00004/mel")
    assert (code, out) == (1, "")
    assert "store/p00004/mel: tree1-sha256: expected" in err
    code, out, _ = call(
        "verify", "proof.json", "--trust", "trust.toml", "--file", "store/p00004/mel", "--json"
    )
    assert json.loads(out)["error"]["reason"] == "file"


@pytest.mark.parametrize("name", ["proof.json", "trust.toml"])
def test_verify_refuses_other_files(world, call, name):
    call("prove", "store/3")
    (world.folder / name).write_bytes(b"\xff\xfe")
    code, _, err = call("verify", "proof.json", "--trust", "trust.toml")
    assert code == 2
    assert "error: " in err
    (world.folder / name).unlink()
    assert call("verify", "proof.json", "--trust", "trust.toml")[0] == 2


def test_verify_needs_neither_chain_nor_dask(world, call):
    call("prove", "store/3")
    words = ["verify", "proof.json", "--trust", "trust.toml", "--file", "store/p00003/mel"]
    heavy = {"web3", "dask", "distributed", "torch", "zarr", "sqlite3"}
    script = f"""
import sys
from provenance.cli import main
sys.exit(main({words}) or len({heavy} & set(sys.modules)))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=world.folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_prove_of_nothing(world, call):
    code, _, err = call("prove", "nothing")
    assert code == 2
    assert "next: Name a stored file" in err
    assert not (world.folder / "proof.json").exists()


# ----------------------------------------------------------------------------------------------------- report


def test_report_is_written_whatever_the_audit_finds(world, call):
    code, out, _ = call("report", "--out", "page.html")
    assert code == 0
    assert out == f"page.html: run {world.run_id.hex()[:12]}, chain passed, data passed, on a node's word\n"
    assert (world.folder / "page.html").read_text().startswith("<!doctype html>")
    (world.folder / "store/p00003/mel/c/0").write_bytes(b"")
    code, out, _ = call("report", world.run_id.hex()[:6], "--level", "replay", "--json")
    found = document(out)
    assert (code, found["command"], found["run"]) == (1, "report", world.run_id.hex())
    assert found["verdicts"] == {"chain": "passed", "data": "failed", "replay": "passed"}
    assert "The audit failed" in (world.folder / "report.html").read_text()
    assert world.replayer.closed
