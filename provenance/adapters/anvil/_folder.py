"""What is remembered of a chain between commands: its id, its port, and which process it is.

A process is known by its id and its start, so that a stale file, after a kill or a reboot, never points at
another program.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from provenance import files
from provenance.errors import MalformedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["Process", "forget_process", "is_alive", "load_settings", "locked", "mark_of", "running"]
__all__ += ["save_process", "save_settings"]

_LIMIT = 1 << 16
_SETTINGS, _PROCESS, _LOCK = "anvil.json", "anvil.pid", "anvil.lock"


@dataclass(frozen=True, slots=True)
class Process:
    """A process that was started here. ``mark`` tells it from a later one with the same id."""

    pid: int
    mark: str
    port: int


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One start or stop at a time: a second waits for the first."""
    try:
        descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise files.refused(error, folder / _LOCK, "write") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def load_settings(folder: Path) -> tuple[int, int]:
    """The folder's chain id, drawn when it is first asked for, and the port last listened on, or 0."""
    known = _read(folder / _SETTINGS)
    if known is None:
        chain_id = 2**31 + secrets.randbelow(2**31)  # ten digits: none of the public chains'
        save_settings(folder, chain_id, 0)
        return chain_id, 0
    path = folder / _SETTINGS
    return _number(path, known, "chain_id", 1, 2**53 - 1), _number(path, known, "port", 0, 65_535)


def save_settings(folder: Path, chain_id: int, port: int) -> None:
    """Keep the chain id and the port."""
    _write(folder / _SETTINGS, {"chain_id": chain_id, "port": port})


def running(folder: Path) -> Process | None:
    """The process that was started last, if it still runs."""
    path = folder / _PROCESS
    known = _read(path)
    if known is None:
        return None
    pid = _number(path, known, "pid", 1, 2**31 - 1)
    process = Process(pid, str(known.get("mark")), _number(path, known, "port", 1, 65_535))
    return process if is_alive(process) else None


def save_process(folder: Path, process: Process) -> None:
    """Remember a process."""
    _write(folder / _PROCESS, {"pid": process.pid, "mark": process.mark, "port": process.port})


def forget_process(folder: Path) -> None:
    """Remember none."""
    (folder / _PROCESS).unlink(missing_ok=True)


def is_alive(process: Process) -> bool:
    """Whether this very process still runs."""
    state, mark = _look_up(process.pid)
    if not mark or mark != process.mark:
        return False
    if state in {"Z", "X"}:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(process.pid, os.WNOHANG)  # a child of this process that ended must not linger
        return False
    return True


def mark_of(pid: int) -> str:
    """What tells a process from a later one with the same id; empty if there is none.

    On Linux the boot and the clock tick of its start; elsewhere its start as ``ps`` prints it.
    """
    return _look_up(pid)[1]


def _look_up(pid: int) -> tuple[str, str]:
    """A process's state (``Z``: it ended, and nobody waited for it) and mark; both empty if there is none."""
    if not Path("/proc/self/stat").exists():
        command = ["ps", "-o", "state=,lstart=", "-p", str(pid)]
        found = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
        return found[:1], found.partition(" ")[2].strip()
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except (FileNotFoundError, ProcessLookupError):
        return "", ""
    return state, f"{boot}:{fields[18]}"  # starttime, proc_pid_stat(5)


def _write(path: Path, fields: Mapping[str, object]) -> None:
    files.write_file(path, (json.dumps(fields, sort_keys=True) + "\n").encode())


def _read(path: Path) -> dict[str, object] | None:
    data = files.read_file(path, _LIMIT)
    if data is None:
        return None
    try:
        fields = json.loads(data)
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        raise _malformed(path, "expected a JSON object")
    return fields


def _number(path: Path, fields: Mapping[str, object], name: str, low: int, high: int) -> int:
    value = fields.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise _malformed(path, f"{name} is {value!r:.40}, expected {low} to {high}")
    return value


def _malformed(path: Path, what: str) -> MalformedError:
    return MalformedError(
        f"{path}: {what}",
        reason="chain-file",
        remedy="End the embedded chain's process, if there is one, and remove this file.",
    )
