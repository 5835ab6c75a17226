"""Run a command, and end whatever it leaves running.

Tests start chain nodes, Dask workers and whole pipelines, some of which detach on purpose. On Linux this
process adopts every orphan below it, so none of them can hide: each is named and ended by its process id, and
the run fails, for what a test leaves running the program leaves running on a user's machine too.

    python scripts/supervise.py pytest -n auto
"""

from __future__ import annotations

import contextlib
import ctypes
import subprocess
import sys
import time

import psutil

PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
GRACE_SECONDS = 5.0  # helpers of a process (multiprocessing's tracker) end by themselves shortly after it
KILL_SECONDS = 10.0


def main(command: list[str]) -> int:
    """Run the command and return its exit code, or 1 if it left processes behind."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    code = 1
    try:
        code = subprocess.run(command, check=False).returncode
    finally:
        left = _leftovers()
        for line in left:
            print(f"left running, ended now: {line}", file=sys.stderr)
    return 1 if left else code


def _leftovers() -> list[str]:
    """Wait a moment for the processes below this one, end those that stay, and describe them."""
    me = psutil.Process()
    deadline = time.monotonic() + GRACE_SECONDS
    while (alive := _alive(me)) and time.monotonic() < deadline:
        psutil.wait_procs(alive, timeout=0.1)
    described = [_describe(process) for process in alive]
    for process in alive:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()
    psutil.wait_procs(alive, timeout=KILL_SECONDS)
    for process in _alive(me):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    return described


def _alive(me: psutil.Process) -> list[psutil.Process]:
    # An adopted orphan that has ended stays a zombie until it is waited for.
    processes = me.children(recursive=True)
    _, alive = psutil.wait_procs(processes, timeout=0)
    return alive


def _describe(process: psutil.Process) -> str:
    try:
        return f"{process.pid} {' '.join(process.cmdline())[:200]}"
    except psutil.Error:
        return f"{process.pid}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
