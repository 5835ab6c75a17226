"""stream list and rotate, over fakes: what they print, what they refuse, how they exit."""

from __future__ import annotations

import io
import json
import os
import sys

import pytest

from provenance import bootstrap, bootstrap_chain, config
from provenance.cli import main
from provenance.services.rotating import Rotator
from tests.services.batcher_world import World


@pytest.fixture
def world(tmp_path, monkeypatch):
    """Twelve messages anchored in three batches."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("PROVENANCE_")]:
        monkeypatch.delenv(name)
    world = World(embedded=True)
    world.write(*(b"message %d" % number for number in range(12)))
    world.run()

    def rotator(settings) -> Rotator:
        components = world.components()
        return Rotator(components, components.governance)

    monkeypatch.setattr(bootstrap_chain, "batcher", lambda settings: world.components())
    monkeypatch.setattr(bootstrap_chain, "rotator", rotator)
    monkeypatch.setattr(bootstrap, "index", lambda settings: world.index)
    return world


def cut(world: World) -> None:
    world.log.truncate(0, 7)
    world.log.append([(b"", b"new %d" % number) for number in range(8)])


def run(capsys, *words: str) -> tuple[int, str, str]:
    capsys.readouterr()
    code = main(["stream", *words])
    out, err = capsys.readouterr()
    return code, out, err


def openings(world: World) -> int:
    return len(world.chain.openings())


def test_list_shows_streams_and_why_one_is_not_usable(world, capsys) -> None:
    code, out, _ = run(capsys, "list")
    assert code == 0
    assert "provenance.records/0: stream " in out
    assert "generation 1, from offset 0 to 12, seq 3, usable" in out
    cut(world)
    code, out, _ = run(capsys, "list")
    assert (code, "not usable" in out, "was rewritten" in out) == (0, True, True)
    assert "provenance stream rotate" in out
    (row,) = json.loads(run(capsys, "list", "--json")[1])["streams"]
    assert (row["state"], row["why"]["reason"], row["closed"]) == ("not usable", "log-rewritten", False)
    assert (row["partition"], row["start"], row["seq"], row["next_offset"]) == (0, 0, 3, 12)


def test_list_shows_generations(world, capsys) -> None:
    cut(world)
    run(capsys, "rotate", "--yes")
    first, second = json.loads(run(capsys, "list", "--json")[1])["streams"]
    assert (first["state"], first["closed"], second["state"]) == ("succeeded", True, "usable")
    assert second["continues"] == {"stream": first["stream"], "seq": 1}
    assert (second["generation"], second["start"]) == (2, 7)
    assert f"continues stream {first['stream'][:16]} behind seq 1" in run(capsys, "list")[1]


def test_list_shows_partitions_without_a_stream(world, capsys) -> None:
    world.log = type(world.log)(2, cluster_id="another")
    rows = json.loads(run(capsys, "list", "--json")[1])["streams"]
    assert [(row["partition"], row["state"]) for row in rows] == [(0, "not usable"), (1, "none")]
    assert "provenance.records/1: no stream yet" in run(capsys, "list")[1]


def test_rotate_says_what_is_lost_and_does_it(world, capsys) -> None:
    cut(world)
    code, out, err = run(capsys, "rotate", "--yes")
    assert code == 0
    assert "anchored, and no longer in the log as it was: offsets 7 to 11 (5)" in err
    assert "what stood at offset 12 and behind" in err
    assert "stays provable from chain and batch files: offsets 0 to 11 (12), 3 batches" in err
    assert "generation 2 from offset 7" in err
    assert "one endpoint only" in err
    assert "its successor is" in out
    assert openings(world) == 2
    code, out, _ = run(capsys, "rotate", "--yes")
    assert (code, "nothing to rotate" in out, openings(world)) == (0, True, 2)


def test_rotate_tells_programs_the_same(world, capsys) -> None:
    cut(world)
    found = json.loads(run(capsys, "rotate", "--dry-run", "--json")[1])
    (plan,) = found["plans"]
    told = (plan["reason"], plan["start"], plan["generation"], plan["endpoints"])
    assert told == ("log-rewritten", 7, 2, 1)
    assert (plan["replaced"], plan["lost"], plan["unknown_from"]) == ([7, 12], None, 12)
    assert (found["rotated"], openings(world)) == ([], 1)
    found = json.loads(run(capsys, "rotate", "0", "--yes", "--json")[1])
    (done,) = found["rotated"]
    assert done["stream"] == plan["stream"]
    assert world.chain.head(bytes.fromhex(done["successor"])).next_offset == 7


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_nobody_s_confirmation_is_taken_for_granted(world, capsys, words) -> None:
    cut(world)
    code, out, err = run(capsys, "rotate", *words)
    assert (code, "--yes" in out + err, openings(world)) == (2, True, 1)
    assert [world.chain.head(name).closed for name, _, _ in world.chain.openings()] == [False]


@pytest.mark.parametrize(
    ("typed", "code", "count"), [("provenance.records/0", 0, 2), ("yes", 2, 1), ("", 2, 1)]
)
def test_on_a_terminal_the_partition_s_name_is_typed(world, capsys, monkeypatch, typed, code, count) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    cut(world)
    monkeypatch.setattr(sys, "stdin", Terminal(f"{typed}\n"))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert run(capsys, "rotate")[0] == code
    assert openings(world) == count


def test_retention_names_the_range_that_is_lost(world, capsys) -> None:
    world.log.append([(b"", b"new %d" % number) for number in range(8)])
    world.log.trim(0, 15)
    _, out, _ = run(capsys, "rotate", "--dry-run")
    assert "LOST, deleted before it was anchored: offsets 12 to 14 (3)" in out


def test_a_missing_batch_file_is_said(world, capsys) -> None:
    cut(world)
    del world.store.objects[min(world.store.objects)]
    _, out, _ = run(capsys, "rotate", "--dry-run")
    assert "no batch file is there for seq 1" in out


def test_what_is_in_order_is_rotated_only_when_it_is_named(world, capsys) -> None:
    assert run(capsys, "rotate", "--anyway", "--yes")[0] == 2
    assert openings(world) == 1
    code, _, err = run(capsys, "rotate", "0", "--anyway", "--yes")
    assert (code, "nothing is lost" in err, openings(world)) == (0, True, 2)


def test_no_rotation_while_a_batcher_works(world, capsys, tmp_path) -> None:
    cut(world)
    with bootstrap_chain.batcher_lock(config.load(tmp_path / ".provenance")):
        code, _, err = run(capsys, "rotate", "--yes")
    assert (code, "another batcher works in" in err, openings(world)) == (3, True, 1)
