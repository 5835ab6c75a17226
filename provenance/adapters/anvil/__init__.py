"""The embedded development chain: anvil, started and stopped by process id, its state kept in one folder.

The chain id is drawn once per folder and kept, and nobody pays: a chain that is made anew gives the same
deployer the same contract address, hence the same stream names and accumulators, and is anchored again from
the same batch files. anvil dumps its state every half minute and when it is told to end; a kill loses the
blocks since the last dump, and a kill in the middle of a dump the whole file. So the state that was last
loaded is kept beside it, and `NodeInfo.recovered` says when the chain began with that, or with nothing.

It listens on this machine only, to no browser, and holds no accounts. It is a node's word and nothing more:
whoever can run programs here can change it.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from provenance import files
from provenance.adapters.anvil._folder import (
    Process,
    forget_process,
    is_alive,
    load_settings,
    locked,
    mark_of,
    running,
    save_process,
    save_settings,
)
from provenance.adapters.anvil._program import find_anvil
from provenance.errors import ConfigError, UnavailableError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["DEFAULT_PORT", "NodeInfo", "start", "status", "stop"]

DEFAULT_PORT = 8545
_HOST = "127.0.0.1"
_PATIENCE = 60.0  # seconds to come up with a large state, or to dump it and end
_LIMIT = 1 << 16
_LOG, _STATE, _LOADED, _STAGED = "anvil.log", "state.json", "state.loaded.json", "state.staged.json"
_OPTIONS = {
    "host": _HOST,
    "hardfork": "cancun",
    "accounts": "0",
    "base-fee": "0",
    "gas-price": "0",
    "state-interval": "30",  # seconds; a dump of 1,000 blocks takes 0.1 s and 7.5 MB
    "prune-history": "16",  # states kept in memory; without a limit one file per block is written
}


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """A running anvil.

    ``started`` says whether this call started it; ``recovered``, what was wrong with its state, if anything
    was: the chain then lacks blocks that it had.
    """

    url: str
    port: int
    pid: int
    chain_id: int
    started: bool = False
    recovered: str = ""


def start(folder: Path, *, port: int | None = None, tools: Path | None = None) -> NodeInfo:
    """Start anvil on the state in a folder, or find it running.

    Args:
        folder: where state, log and process id are kept.
        port: the port to listen on; if None, the last one, `DEFAULT_PORT` or any that is free.
        tools: where anvil is installed if need be; by default the folder ``tools`` beside ``folder``.

    Raises:
        ConfigError: the port is taken, or Node.js is needed to install anvil and missing.
        UnavailableError: anvil cannot be installed, or does not come up.
    """
    files.make_folder(folder)
    with locked(folder):
        chain_id, last_port = load_settings(folder)
        process = running(folder)
        if process is not None:
            return _info(process, chain_id)
        executable = find_anvil(tools or folder.parent / "tools")
        try:
            process, recovered = _start(folder, executable, chain_id, _choose_port(port, last_port))
        except ConfigError as error:
            if port is not None or error.reason != "port-taken":
                raise
            forget_process(folder)  # another program was quicker to take a port that nobody asked for
            process, recovered = _start(folder, executable, chain_id, _free_port())
        save_settings(folder, chain_id, process.port)
        return _info(process, chain_id, started=True, recovered=recovered)


def stop(folder: Path) -> bool:
    """End the anvil of a folder and wait until it has dumped its state; False if none was running.

    Raises:
        UnavailableError: it does not end, or ended without its state whole on the disk.
    """
    if not folder.is_dir():
        return False
    with locked(folder):
        process = running(folder)
        if process is not None:
            _end(process)
        forget_process(folder)
        if process is not None and not _is_whole(folder / _STATE):
            raise UnavailableError(
                f"{folder / _STATE}: anvil ended without its state whole on the disk",
                reason="chain-state-cut",
                remedy="Make room on the disk, then: provenance up && provenance batch   "
                "What the chain lost is anchored again from the batch files.",
            )
        return process is not None


def status(folder: Path) -> NodeInfo | None:
    """The running anvil of a folder, or None."""
    process = running(folder)
    return None if process is None else _info(process, load_settings(folder)[0])


def _start(folder: Path, executable: Path, chain_id: int, port: int) -> tuple[Process, str]:
    """Start it with the state as it is, else as it was last loaded, else with none."""
    recovered = ""
    while True:
        _stage_state(folder)
        process = _launch(folder, executable, chain_id, port)
        if _comes_up(folder, process, chain_id):
            _keep_staged(folder)
            return process, recovered
        forget_process(folder)
        recovered = _set_state_aside(folder)


def _launch(folder: Path, executable: Path, chain_id: int, port: int) -> Process:
    """Start the program in a session of its own, and write its id down at once."""
    folder = folder.resolve()
    options = {**_OPTIONS, "port": port, "chain-id": chain_id, "state": folder / _STATE}
    arguments = [str(executable), "--quiet", "--no-cors", "--disable-min-priority-fee"]
    arguments += [f"--{name}={value}" for name, value in options.items()]
    # Nothing of the user's: no proxy or foundry setting applies, and nothing is written at home.
    environment = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(folder)}
    try:
        log = os.open(folder / _LOG, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            # Not subprocess: the process outlives this one, which then has no object to warn about.
            pid = os.posix_spawn(
                executable,
                arguments,
                environment,
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_DUP2, log, 1),
                    (os.POSIX_SPAWN_DUP2, log, 2),
                ],
                setsid=True,
            )
        finally:
            os.close(log)
    except OSError as error:
        raise files.refused(error, executable, "start") from error
    process = Process(pid, mark_of(pid), port)
    save_process(folder, process)
    return process


def _comes_up(folder: Path, process: Process, chain_id: int) -> bool:
    """Wait until it answers; False if it ended, which it does when it cannot read its state.

    Raises:
        ConfigError: another program took the port in the meantime.
        UnavailableError: it neither answers nor ends.
    """
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        if not is_alive(process):
            if "Address already in use" in _log_text(folder):
                raise _port_taken(process.port)
            return False
        if _chain_id(process.port) == chain_id:
            return True
        time.sleep(0.02)
    raise _not_up(folder)


def _stage_state(folder: Path) -> None:
    """Copy the state before anvil, which overwrites it in place, touches it."""
    if (folder / _STATE).exists():
        try:
            shutil.copyfile(folder / _STATE, folder / _STAGED)
        except OSError as error:
            raise files.refused(error, folder / _STAGED, "write") from error


def _keep_staged(folder: Path) -> None:
    """The staged state was loaded: keep it for the next time that the current one cannot be."""
    if (folder / _STAGED).exists():
        (folder / _STAGED).replace(folder / _LOADED)


def _set_state_aside(folder: Path) -> str:
    """Move a state that cannot be loaded out of the way, put the one last loaded in its place, and say so."""
    state = folder / _STATE
    if not state.exists():
        raise _not_up(folder)  # it is not the state that keeps it down
    (folder / _STAGED).unlink(missing_ok=True)
    number = 1
    while (aside := folder / f"state.unreadable-{number}.json").exists():
        number += 1
    state.replace(aside)
    if (folder / _LOADED).exists():
        (folder / _LOADED).replace(state)
        return f"its state could not be read (kept as {aside.name}); it began with the state last loaded"
    return f"its state could not be read (kept as {aside.name}); it was made anew"


def _end(process: Process) -> None:
    with contextlib.suppress(ProcessLookupError):  # it ended by itself just now
        os.kill(process.pid, signal.SIGTERM)
    deadline = time.monotonic() + _PATIENCE
    while is_alive(process):
        if time.monotonic() > deadline:
            raise UnavailableError(
                f"anvil (process {process.pid}) does not end within {_PATIENCE:.0f} s of being told to",
                reason="chain-not-down",
                remedy=f"Run: kill -9 {process.pid}   Blocks since its last dump are then anchored again.",
            )
        time.sleep(0.02)


def _is_whole(state: Path) -> bool:
    """Whether a dumped state has its end: one JSON object. anvil says nothing if the disk is full."""
    try:
        with state.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) == b"}"
    except OSError:
        return False


def _choose_port(fixed: int | None, last: int) -> int:
    if fixed is not None:
        if not _is_free(fixed):
            raise _port_taken(fixed)
        return fixed
    for port in (last, DEFAULT_PORT):
        if port and _is_free(port):
            return port
    return _free_port()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        return int(probe.getsockname()[1])


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As anvil itself does: a port whose last connections are still closing is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_HOST, port))
        except OSError:
            return False
    return True


def _port_taken(port: int) -> ConfigError:
    return ConfigError(
        f"port {port} of this machine is taken by another program",
        reason="port-taken",
        remedy="Choose another port (chain.port), or end that program.",
    )


def _not_up(folder: Path) -> UnavailableError:
    return UnavailableError(
        f"anvil does not come up: {_log_text(folder).strip()[:500] or 'it says nothing'}",
        reason="chain-not-up",
        remedy=f"Look at {folder / _LOG}.",
    )


def _chain_id(port: int) -> int | None:
    """The chain id that whatever listens on a port of this machine names; None if it does not answer."""
    connection = http.client.HTTPConnection(_HOST, port, timeout=2)
    try:
        question = {"jsonrpc": "2.0", "id": 1, "method": "eth_chainId", "params": []}
        connection.request("POST", "/", json.dumps(question), {"Content-Type": "application/json"})
        return int(json.loads(connection.getresponse().read(_LIMIT))["result"], 16)
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
        return None
    finally:
        connection.close()


def _info(process: Process, chain_id: int, *, started: bool = False, recovered: str = "") -> NodeInfo:
    url = f"http://{_HOST}:{process.port}"
    return NodeInfo(url, process.port, process.pid, chain_id, started=started, recovered=recovered)


def _log_text(folder: Path) -> str:
    return (folder / _LOG).read_bytes()[:_LIMIT].decode("utf-8", "replace")
