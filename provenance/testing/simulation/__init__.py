"""Deterministic simulation of the batcher, with seeds, as FoundationDB's and TigerBeetle's is.

A seed stands for a small world (`scenario`): a log, a chain, a store, producers with their outboxes, and one
to three batchers, which are the program's own code from `provenance.services.batching` on. Every call that
they make may fail, lose its answer, take long, or be the last of its process (`ports`, `processes`); the log
loses messages, is made anew, skips offsets and changes its leader (`log`); the chain reorganises and forgets,
and nodes lag (`node`); time is virtual and turns are drawn (`scheduler`). Then all grows calm, and the
`judge`, with the independent checker, says what must not have happened and what must.

The same seed gives the same run, to the bit::

    python -m provenance.testing.crash 0-1000
    python -m provenance.testing.crash 17 --trace
"""

from __future__ import annotations

import hashlib
import logging
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from provenance.testing.simulation.scenario import Scenario, draw, simpler
from provenance.testing.simulation.world import World

if TYPE_CHECKING:
    from collections.abc import Iterator

    from provenance.testing.checker import Violation

__all__ = ["Result", "Scenario", "draw", "shrink", "simulate"]

_log = logging.getLogger("provenance.batcher")


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a run.

    Args:
        scenario: what was to happen.
        violations: what must not have happened.
        trace: what happened, with its time.
        digest: SHA-256 over every call of every process and every line of the trace.
        steps: how many calls there were.
    """

    scenario: Scenario
    violations: tuple[Violation, ...]
    trace: tuple[tuple[float, str], ...]
    digest: str
    steps: int


def simulate(scenario: Scenario | int) -> Result:
    """Run a scenario, or that of a seed."""
    if isinstance(scenario, int):
        scenario = draw(scenario)
    world = World(scenario)
    with _listening(world):
        world.run()
    blocks = [world.chain.height, sorted(world.store.objects)]
    digest = hashlib.sha256(repr((world.calls, world.trace, blocks)).encode()).hexdigest()
    return Result(scenario, tuple(world.judge.violations), tuple(world.trace), digest, world.scheduler.steps)


class _Operator(logging.Handler):
    """Hands the batchers' lines to the world."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.ERROR)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        """Read a line."""
        self._world.read_log_line(record.levelno, record.getMessage())


@contextmanager
def _listening(world: World) -> Iterator[None]:
    """The world reads the batchers' log, and nobody else."""
    operator = _Operator(world)
    before = _log.level, _log.propagate
    _log.addHandler(operator)
    _log.propagate = False
    _log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        _log.removeHandler(operator)
        level, _log.propagate = before
        _log.setLevel(level)


def shrink(result: Result) -> Result:
    """The run of the smallest scenario found in which the same rule is broken."""
    rules = {violation.rule for violation in result.violations}
    while True:
        for scenario in simpler(result.scenario):
            found = simulate(scenario)
            if rules & {violation.rule for violation in found.violations}:
                result = found
                break
        else:
            return result
