"""No name of a speaker or a file leaves the private store: a real run is searched for them, byte by byte."""

from __future__ import annotations

import base64
import json
import os
import stat
import subprocess
import sys
import urllib.parse
from pathlib import Path

import pytest

from pipeline import synthetic

pytestmark = [pytest.mark.service, pytest.mark.slow]

SPEAKERS = ("Zachariah Quuxington", "Ольга Петрова-Жижек", "ann'o\"nym\nous-person")
RECORDING = "confidential-visit"
PRIVATE = ("names.sqlite",)


def encodings(name: str) -> set[bytes]:
    """The ways in which a name could be written somewhere, parts of it long enough to be no chance."""
    plain = name.encode()
    found = {plain, plain.lower(), name.encode("utf-16-le"), name.encode("utf-16-be")}
    found |= {plain.hex().encode(), plain.hex().upper().encode()}
    found |= {json.dumps(name)[1:-1].encode(), urllib.parse.quote(name).encode(), repr(name)[1:-1].encode()}
    for shift in range(3):  # base64 of it in the middle of something else, at each alignment
        text = base64.b64encode(bytes(shift) + plain)
        found.add(text[4:-4] if shift else text[:-4])
    return found


def leaks(root: Path, names: tuple[str, ...]) -> list[str]:
    """Where any of the names stands in or below a folder, in file names and in bytes."""
    needles = {needle for name in names for needle in encodings(name)}
    found = []
    for path in sorted(root.rglob("*")):
        if path.name.startswith(PRIVATE) or not path.is_file():
            continue
        held = os.fsencode(path.relative_to(root)) + b"\n" + path.read_bytes()
        found += [f"{path.relative_to(root)}: {needle!r}" for needle in needles if needle in held]
    return found


class World:
    """A folder with recordings and what the commands made of them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.said = b""

    def call(self, *arguments: str, code: int = 0, module: str = "provenance") -> str:
        command = [sys.executable, "-m", module, *arguments]
        project = str(Path(__file__).parents[2])
        environment = {**os.environ, "PYTHONPATH": project}
        done = subprocess.run(
            command, cwd=self.root, capture_output=True, timeout=300, check=False, env=environment
        )
        assert done.returncode == code, (arguments, done.stdout.decode(), done.stderr.decode())
        if module == "provenance":
            self.said += done.stdout + done.stderr
        return done.stdout.decode()


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    root = tmp_path_factory.mktemp("private")
    world = World(root)
    made = synthetic.write(root / "made", speakers=3, utterances=12)
    for speaker, folder in zip(
        SPEAKERS, sorted(path for path in made.iterdir() if path.is_dir()), strict=True
    ):
        (root / "recordings" / speaker).mkdir(parents=True)
        for number, path in enumerate(sorted(folder.iterdir())):
            path.rename(root / "recordings" / speaker / f"{RECORDING}-{number}.wav")
    (root / "recordings" / SPEAKERS[0] / f"{RECORDING}-broken.wav").write_bytes(b"RIFF")
    world.call("init")
    recorded = ("--source", "recordings", "--out", "features.zarr", "--json")
    world.run = json.loads(world.call(*recorded, module="pipeline.voice"))["run"]
    world.call("up", "--json")
    try:
        world.call("batch")
        world.call("audit", "--level", "replay", "--json")
        world.call("audit", "--level", "replay")
        world.call("prove", world.run, "--ancestors")
        world.call("verify", "proof.json", "--trust", ".provenance/trust.toml")
        world.call("--run", world.run, "--checkpoint", "speakers.pt", module="pipeline.train")
        world.call("batch")
        world.call("report")
        world.call("status")
        first = min((root / "features.zarr").rglob("c/0/0"))
        first.write_bytes(first.read_bytes()[:-1] + b"\x00\x01")
        world.call("audit", "--level", "replay", code=1)
    finally:
        world.call("down")
    return world


def test_the_search_finds_what_is_there(tmp_path):
    for number, needle in enumerate(sorted(encodings(SPEAKERS[1]))):
        (tmp_path / "held").write_bytes(b"\x00before" + needle + b"after\xff")
        assert leaks(tmp_path, SPEAKERS), (number, needle)
    (tmp_path / "held").write_bytes(b"before" + base64.b64encode(b"xx" + SPEAKERS[0].encode() + b"y"))
    assert leaks(tmp_path, SPEAKERS)
    (tmp_path / "held").write_bytes(b"nothing")
    assert leaks(tmp_path, SPEAKERS) == []


def test_no_name_is_in_log_batches_index_chain_or_journal(world):
    assert (world.root / ".provenance" / "log.sqlite").stat().st_size > 10_000
    assert leaks(world.root / ".provenance", (*SPEAKERS, RECORDING)) == []


def test_no_name_is_in_the_store_the_model_the_proof_or_the_report(world):
    for name in ("features.zarr", "made"):
        assert leaks(world.root / name, (*SPEAKERS, RECORDING)) == []
    for name in ("proof.json", "report.html", "speakers.pt"):
        held = (world.root / name).read_bytes()
        assert [
            needle for name in (*SPEAKERS, RECORDING) for needle in encodings(name) if needle in held
        ] == []


def test_no_name_is_in_what_the_commands_say(world):
    assert b"shards" in world.said
    assert [n for name in (*SPEAKERS, RECORDING) for n in encodings(name) if n in world.said] == []


def test_the_private_store_knows_them_and_is_for_its_owner_alone(world):
    names = world.root / ".provenance" / "names.sqlite"
    held = b"".join(path.read_bytes() for path in names.parent.glob("names.sqlite*"))
    for name in (*SPEAKERS[:2], RECORDING):
        assert name.encode() in held
    assert {stat.S_IMODE(path.stat().st_mode) for path in names.parent.glob("names.sqlite*")} == {0o600}
