"""No name of a speaker or a file leaves the private store: a real run is searched for them, byte by byte."""

from __future__ import annotations

import base64
import html
import json
import os
import stat
import subprocess
import sys
import unicodedata
import urllib.parse
from pathlib import Path

import pytest

from pipeline import synthetic

pytestmark = [pytest.mark.service, pytest.mark.slow]

SPEAKERS = ("Zachariah Quuxington", "Ольга Петрова-Жижек", "ann'o\"nym\nous-person")
RECORDING = "confidential-visit"
VISIT = "Тайный визит 声"
BROKEN = "Сломанная запись"
NAMES = (*SPEAKERS, RECORDING, VISIT, BROKEN)
PRIVATE = ("names.sqlite",)


def encodings(name: str) -> set[bytes]:
    """The ways in which a name could be written somewhere, parts of it long enough to be no chance."""
    found: set[bytes] = set()
    for form in {name, name.lower(), name.casefold(), unicodedata.normalize("NFD", name)}:
        plain = form.encode()
        found |= {plain, form.encode("utf-16-le"), form.encode("utf-16-be"), form.encode("utf-32-le")}
        found |= {plain.hex().encode(), plain.hex().upper().encode()}
        quoted = {urllib.parse.quote(form), urllib.parse.quote_plus(form), urllib.parse.quote(form, safe="")}
        escaped = {json.dumps(form)[1:-1], repr(form)[1:-1], html.escape(form), ascii(form)[1:-1]}
        found |= {text.encode() for text in quoted | escaped}
        found |= {text.lower().encode() for text in quoted | escaped}
        for shift in range(3):  # base64 of it in the middle of something else, at each alignment
            text = base64.b64encode(bytes(shift) + plain)
            middle = text[4:-4] if shift else text[:-4]
            found |= {middle, middle.translate(bytes.maketrans(b"+/", b"-_"))}
    return found


def files(root: Path) -> list[Path]:
    """A file, or the files below a folder."""
    return [root] if root.is_file() else sorted(path for path in root.rglob("*") if path.is_file())


def leaks(root: Path, names: tuple[str, ...]) -> list[str]:
    """Where any of the names stands in or below a folder, in file names and in bytes."""
    needles = {needle for name in names for needle in encodings(name)}
    found = []
    for path in files(root):
        if path.name.startswith(PRIVATE):
            continue
        held = os.fsencode(path.relative_to(root)) + b"\n" + path.read_bytes()
        found += [f"{path.relative_to(root)}: {needle!r}" for needle in needles if needle in held]
    return found


class World:
    """A folder with recordings and what the commands made of them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.said = b""
        self.warned = b""

    def call(self, *arguments: str, code: int = 0, module: str = "provenance") -> str:
        command = [sys.executable, "-m", module, *arguments]
        project = str(Path(__file__).parents[2])
        # What Dask's workers leave lies in the folder too, so that it is searched.
        places = {"PYTHONPATH": project, "DASK_TEMPORARY_DIRECTORY": str(self.root / "scratch")}
        environment = {**os.environ, **places}
        done = subprocess.run(
            command, cwd=self.root, capture_output=True, timeout=300, check=False, env=environment
        )
        assert done.returncode == code, (arguments, done.stdout.decode(), done.stderr.decode())
        self.said += b"".join(
            line
            for line in (done.stdout + done.stderr).splitlines(keepends=True)
            if not line.startswith(b"warning: set aside as ")  # to whoever sits there; tested below
        )
        self.warned += done.stderr
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
            name = f"{VISIT}-{number}.wav" if number % 2 else f"{RECORDING}-{number}.wav"
            path.rename(root / "recordings" / speaker / name)
    (root / "recordings" / SPEAKERS[0] / f"{BROKEN}.wav").write_bytes(b"RIFF")
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
    held = {
        path.relative_to(world.root / ".provenance").parts[0] for path in files(world.root / ".provenance")
    }
    assert held >= {"log.sqlite", "index.sqlite", "journal.sqlite", "batches", "chain", "keys"}
    assert (world.root / ".provenance" / "log.sqlite").stat().st_size > 10_000
    assert leaks(world.root / ".provenance", NAMES) == []


def test_no_name_is_in_the_store_the_model_the_proof_or_the_report(world):
    """Nor in anything else that was written: the names of speakers in the store and the model are tokens."""
    written = {path.name for path in world.root.iterdir()}
    assert written >= {"features.zarr", "proof.json", "report.html", "speakers.pt", "dataset.toml"}
    for name in written - {"recordings", ".provenance"}:
        assert leaks(world.root / name, NAMES) == []


def test_no_name_is_in_what_the_commands_say(world):
    assert b"shards" in world.said
    assert [needle for name in NAMES for needle in encodings(name) if needle in world.said] == []


def test_only_the_warning_about_a_file_names_it_and_no_other_is_named(world):
    told = [line for line in world.warned.decode().splitlines() if any(name in line for name in NAMES)]
    assert f"warning: set aside as truncated: '{SPEAKERS[0]}/{BROKEN}.wav'" in told
    assert all(line.startswith("warning: set aside as ") for line in told)


def test_the_private_store_knows_them_and_is_for_its_owner_alone(world):
    names = world.root / ".provenance" / "names.sqlite"
    held = b"".join(path.read_bytes() for path in names.parent.glob("names.sqlite*"))
    for name in (*SPEAKERS[:2], RECORDING, VISIT, BROKEN):
        assert name.encode() in held
    assert {stat.S_IMODE(path.stat().st_mode) for path in names.parent.glob("names.sqlite*")} == {0o600}
