"""A machine that is full, and ports that are taken: nothing is lost, and the next command works."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
from pathlib import Path

import numpy as np
import pytest

import provenance
from provenance import errors
from tests.users import PROJECT, call, says

NO_SPACE = ("No space left on device", "no space is left")


def start(**how):
    return provenance.run("bad", dataset=None, client="sync", **how)


def content(file):
    return np.frombuffer(file.data, np.uint8)


def lay_in(folder):
    (folder / "in").mkdir()
    for number in range(4):
        (folder / "in" / f"{number}.bin").write_bytes(os.urandom(200_000))


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@contextlib.contextmanager
def full(place):
    """No byte is free on that file system."""
    filler = place / "filler"
    with filler.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space"):  # noqa: PT012
        while True:
            file.write(bytes(4096))
    try:
        yield
    finally:
        filler.unlink()


@pytest.fixture
def small_disk(tmp_path):
    """A file system of two mebibytes; what is full can be made larger."""
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a small file system")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_full_disk_loses_nothing_and_the_next_run_works(here, small_disk):
    lay_in(here)
    folder = small_disk / ".provenance"
    with start(folder=folder) as first:
        first.files("in").stage("read", content).write("first.zarr")
    for where in ({"folder": folder}, {"folder": here / ".provenance"}):
        store = "second.zarr" if where["folder"] is folder else str(small_disk / "second.zarr")
        refused = pytest.raises(errors.UnavailableError, match=r"full|space")
        with full(small_disk), refused as caught, start(**where) as run:
            run.files("in").stage("read", content).write(store)
        assert caught.value.exit_code == 3
        assert caught.value.remedy
        assert not Path(store).exists()
    assert provenance.rejected(first.id, folder=folder) == {}
    with start(folder=folder) as third:
        third.files("in").stage("read", content).write("third.zarr")
    assert provenance.rejected(third.id, folder=folder) == {}


def says_full(done):
    says(done, 3)
    assert any(words in done.stderr for words in NO_SPACE), done.stderr
    assert "space" in done.stderr.partition("next: ")[2]


@pytest.mark.service
@pytest.mark.slow
def test_a_full_disk_stops_up_batch_and_down_and_each_works_afterwards(here, small_disk):
    lay_in(here)
    folder = small_disk / ".provenance"
    call(here, "provenance", "init", "--folder", folder)

    def command(*arguments):
        # With anvil on the path: installing it would not fit on so small a disk.
        path = f"{PROJECT / 'contracts/node_modules/.bin'}{os.pathsep}{os.environ['PATH']}"
        return call(here, "provenance", *arguments, PROVENANCE_FOLDER=str(folder), PATH=path)

    def record(store):
        with start(folder=folder) as run:
            run.files("in").stage("read", content).write(store)

    record("first.zarr")
    with full(small_disk):
        says_full(command("up"))
    try:
        assert command("up").returncode == 0
        with full(small_disk):
            says_full(command("batch"))
            says_full(command("status"))
        assert "seq 1" in command("batch").stdout
        record("second.zarr")
        assert "seq 2" in command("batch").stdout
        with full(small_disk):
            says(
                command("down"), 3, "state.json: anvil ended without its state whole", "Make room on the disk"
            )
        up = command("up")
        assert "the chain lost blocks: its state could not be read" in up.stdout
        assert "they were anchored from their files" in command("batch").stdout
        audit = command("audit")
        assert audit.returncode == 0, audit.stdout
        assert "1 stream, 2 batches" in audit.stdout
    finally:
        last = command("down")
    assert last.returncode == 0, last.stderr


@pytest.mark.slow
def test_a_file_that_may_not_grow_is_a_full_disk(here):
    """A limit on the size of files: what a quota or ``ulimit -f`` does."""
    lay_in(here)
    assert call(here, "provenance", "init").returncode == 0
    program = here / "limited.py"
    program.write_text(
        "import resource, runpy, signal, sys\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))\n"
        "import provenance\n"
        "from tests.integration.test_bad_input_machine import content\n"
        "try:\n"
        "    with provenance.run('bad', client='sync') as run:\n"
        "        run.files('in').stage('read', content).write('limited.zarr')\n"
        "except provenance.errors.ProvenanceError as error:\n"
        "    print(error.message, error.remedy, sep='\\n')\n"
        "    sys.exit(error.exit_code)\n"
    )
    refused = call(here, "limited", "150000")
    assert refused.returncode == 3, refused.stdout + refused.stderr
    assert "limited.zarr: cannot write it: File too large" in refused.stdout
    assert "ulimit -f" in refused.stdout
    assert not list(here.glob("*limited.zarr*"))
    assert call(here, "limited", "100000000").returncode == 0


@pytest.mark.service
@pytest.mark.slow
def test_a_second_up_finds_the_first_and_a_taken_port_is_named(here):
    call(here, "provenance", "init")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        says(call(here, "provenance", "up", PROVENANCE_CHAIN_PORT=port), 2, f"port {port}", "taken")
    try:
        first = json.loads(call(here, "provenance", "up", "--json").stdout)
        second = json.loads(call(here, "provenance", "up", "--json").stdout)
        assert first["started"] is True
        assert second["started"] is False
        assert (first["url"], first["chain_id"]) == (second["url"], second["chain_id"])
        batch = call(here, "provenance", "batch")
        assert batch.returncode == 0, batch.stderr
    finally:
        assert call(here, "provenance", "down").returncode == 0
    says(call(here, "provenance", "batch"), 3, "provenance up")
