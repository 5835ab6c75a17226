"""Time and turns: several processes of one program, of which one runs at a time.

Each simulated process is a thread, so the batcher's own loops run as they are; but a thread runs only while
it holds the baton, and who gets it next is drawn from the seed. Time goes on when nobody has anything to do.
So a run is a function of its seed.
"""

from __future__ import annotations

import heapq
import math
import threading
from typing import TYPE_CHECKING

from provenance.testing.faults import Crash

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

__all__ = ["Process", "Scheduler", "TooBusyError"]


class TooBusyError(Exception):
    """More steps were taken than a program that waits where it should would take."""


class Process:
    """A thread, its baton, and when it wants to go on."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.wake = 0.0
        self.baton = threading.Lock()
        self.baton.acquire()
        self.thread: threading.Thread | None = None
        self.is_over = False


class Scheduler:
    """Gives out turns.

    Args:
        rng: draws whose turn it is.
        most_steps: how many steps all processes may take together; more is a busy loop.
    """

    def __init__(self, rng: random.Random, *, most_steps: int) -> None:
        self.now = 0.0
        self.steps = 0
        self.error: BaseException | None = None
        self._rng = rng
        self._most_steps = most_steps
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = 0
        self._processes: list[Process] = []
        self._main = Process("main")
        self._current = self._main
        self._deadline = math.inf
        self._closing = False

    @property
    def current(self) -> str:
        """The name of the process that runs."""
        return self._current.name

    def at(self, delay: float, happen: Callable[[], None]) -> None:
        """Let something happen after so many seconds; what happens must not raise."""
        self._numbers += 1
        heapq.heappush(self._events, (self.now + delay, self._numbers, happen))

    def spawn(self, name: str, main: Callable[[], None]) -> None:
        """Begin a process; it gets its first turn when others wait."""
        process = Process(name)
        process.wake = self.now
        process.thread = threading.Thread(target=self._run_process, args=(process, main), daemon=True)
        self._processes.append(process)
        process.thread.start()

    def run(self, deadline: float) -> None:
        """Let the processes run until the time is over, all have ended, or one met a bug."""
        self._deadline = deadline
        self._main.wake = math.inf
        self._pass_on(self._main)

    def close(self) -> None:
        """End every process, as SIGKILL does."""
        self._closing = True
        for process in self._processes:
            if not process.is_over:
                self._current = process
                process.baton.release()
                self._main.baton.acquire()
        for process in self._processes:
            if process.thread is not None:
                process.thread.join()

    def step(self) -> None:
        """Count one step."""
        self.steps += 1
        if self._closing:
            raise Crash("closing")
        if self.steps > self._most_steps:
            raise TooBusyError(f"more than {self._most_steps} steps in {self.now:.1f} s")

    def sleep(self, seconds: float) -> None:
        """The process that runs waits; with 0 it only lets others go first, perhaps."""
        process = self._current
        process.wake = self.now + seconds
        self._pass_on(process)
        if self._closing:
            raise Crash("closing")

    def _run_process(self, process: Process, main: Callable[[], None]) -> None:
        process.baton.acquire()
        try:
            if not self._closing:
                main()
        except Crash:
            pass
        except BaseException as error:  # noqa: BLE001 - a bug of the simulation or the program; `run` ends
            self.error = self.error or error
        process.is_over = True
        process.wake = math.inf
        following = self._main if self._closing else self._pick()
        self._current = following
        following.baton.release()

    def _pass_on(self, process: Process) -> None:
        following = self._main if self._closing else self._pick()
        if following is process:
            return
        self._current = following
        following.baton.release()
        process.baton.acquire()

    def _pick(self) -> Process:
        while self.error is None:
            self._let_happen()
            ready = [process for process in self._processes if process.wake <= self.now]
            if ready:
                return ready[int(self._rng.random() * len(ready))] if len(ready) > 1 else ready[0]
            following = min((process.wake for process in self._processes), default=math.inf)
            if following == math.inf:  # all processes are over
                break
            if self._events:
                following = min(following, self._events[0][0])
            if following >= self._deadline:
                self.now = self._deadline
                break
            self.now = following
        return self._main

    def _let_happen(self) -> None:
        while self._events and self._events[0][0] <= self.now:
            _, _, happen = heapq.heappop(self._events)
            try:
                happen()
            except Exception as error:  # noqa: BLE001 - a bug of the simulation; `run` ends
                self.error = self.error or error
