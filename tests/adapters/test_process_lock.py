"""One batcher per folder, whatever becomes of the one before."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from provenance.adapters.process_lock import hold_lock
from provenance.errors import UnavailableError

HOLD = """
import sys, pathlib
from provenance.adapters.process_lock import hold_lock
with hold_lock(pathlib.Path(sys.argv[1]), "another batcher"):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_it_is_held_once_and_again_afterwards(tmp_path) -> None:
    path = tmp_path / "folder" / "batcher.lock"
    with (
        hold_lock(path, "another batcher"),
        pytest.raises(UnavailableError, match="another batcher works in") as caught,
        hold_lock(path, "another batcher"),
    ):
        pass
    assert (caught.value.reason, bool(caught.value.remedy)) == ("locked", True)
    with hold_lock(path, "another batcher"):
        assert path.stat().st_mode & 0o777 == 0o600


def test_a_killed_process_lets_it_go(tmp_path) -> None:
    path = tmp_path / "batcher.lock"
    command = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(UnavailableError), hold_lock(path, "another batcher"):
            pass
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        with hold_lock(path, "another batcher"):
            pass


def test_a_link_in_its_place_is_not_followed(tmp_path) -> None:
    (tmp_path / "batcher.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UnavailableError), hold_lock(tmp_path / "batcher.lock", "another batcher"):
        pass
    assert not (tmp_path / "elsewhere").exists()
