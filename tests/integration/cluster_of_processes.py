"""A real ``dask scheduler`` with real ``dask worker`` processes, for as long as a block lasts."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

PROJECT = Path(__file__).parents[2]
PATIENCE = 60.0


@dataclass
class Cluster:
    """Its scheduler's address, and the workers' process ids."""

    folder: Path
    address: str = ""
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, *arguments: str, name: str, first: bool = False, **environment: str) -> Path:
        """Start ``dask ARGUMENTS`` and return its log."""
        log = self.folder / f"{name}.log"
        paths = [environment.pop("path_first", ""), str(PROJECT)]
        variables = {**os.environ, **environment, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        with log.open("wb") as output:
            self.processes.append(
                subprocess.Popen(
                    [sys.executable, "-m", "distributed.cli.dask_" + arguments[0], *arguments[1:]],
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    cwd=self.folder,
                    env=variables,
                )
            )
        return log

    def worker(self, name: str, *more: str, **environment: str) -> Path:
        """Start a worker of one thread, without a nanny unless told otherwise."""
        plain = ["--no-dashboard", "--nthreads", "1", "--local-directory", str(self.folder), "--name", name]
        nanny = [] if "--nanny" in more else ["--no-nanny"]
        return self.start("worker", self.address, *plain, *nanny, *more, name=name, **environment)


def wait_for(log: Path, pattern: str) -> str:
    """The first match of a pattern in a log that grows."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        found = re.search(pattern, log.read_text(errors="replace"))
        if found:
            return found[0]
        time.sleep(0.05)
    raise TimeoutError(f"{log.name} never said {pattern!r}: {log.read_text(errors='replace')[-2000:]}")


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """A scheduler on a free port; workers are started by whoever uses it."""
    folder.mkdir()
    made = Cluster(folder)
    try:
        log = made.start(
            "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", name="scheduler"
        )
        made.address = wait_for(log, r"tcp://127\.0\.0\.1:\d+")
        yield made
    finally:
        for process in made.processes:  # nothing of them is needed, and a worker whose scheduler goes waits
            process.kill()
        for process in made.processes:
            process.wait()
