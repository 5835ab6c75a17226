"""``python -m provenance.testing.crash 0-1000``: simulate seeds, and say what went wrong, and its replay.

Each failure is told with its seed, the command that replays it, the smallest scenario found in which the same
rule is broken, and what happens in that. The last line is ``N passed, M failed``.
"""

from __future__ import annotations

import re
import sys
import time
from typing import TYPE_CHECKING

import click

from provenance.testing.simulation import shrink, simulate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from provenance.testing.simulation import Result

__all__ = ["command", "parse_seeds"]

MOST_SEEDS = 10_000_000
MOST_LINES = 60
PROGRESS = 10.0
"""Seconds between two lines of progress."""


def parse_seeds(text: str) -> range:
    """``"7"`` or ``"0-1000"``, both ends included."""
    match = re.fullmatch(r"([0-9]{1,12})(?:-([0-9]{1,12}))?", text)
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, -1)
    if not 0 <= last - first < MOST_SEEDS:
        raise click.BadParameter(f"{text!r}: expected a seed or a range such as 0-1000")
    return range(first, last + 1)


@click.command(help="Simulate the batcher under the misfortunes of each seed: 17, or 0-1000.")
@click.argument("seeds")
@click.option("--trace", is_flag=True, help="Show what happened in each run, also where nothing is wrong.")
@click.option("--shrink/--no-shrink", "smaller", default=True, help="Look for a smaller scenario that fails.")
def command(seeds: str, trace: bool, smaller: bool) -> None:
    """Run them."""
    wanted = parse_seeds(seeds)
    failed, begun = 0, time.monotonic()
    said = begun
    for count, seed in enumerate(wanted, start=1):
        result = simulate(seed)
        if result.violations:
            failed += 1
            _print(_failure(result, smaller=smaller))
        elif trace:
            _print(
                (f"seed {seed}: passed, digest {result.digest}", *_scenario(result), *_trace(result, None))
            )
        now = time.monotonic()
        if now - said >= PROGRESS:
            said = now
            speed = count / (now - begun)
            _print([f"{count:,} of {len(wanted):,} seeds, {failed} failed, {speed:.0f} a second"])
    _print([f"{len(wanted) - failed} passed, {failed} failed"])
    sys.exit(1 if failed else 0)


def _failure(result: Result, *, smaller: bool) -> Iterator[str]:
    seed = result.scenario.seed
    yield f"seed {seed}: FAILED"
    yield from (f"  {violation}"[:400] for violation in result.violations[:5])
    yield f"  replay: python -m provenance.testing.crash {seed} --trace --no-shrink"
    if smaller:
        result = shrink(result)
        yield "  the smallest scenario found that breaks the same rule:"
    yield from _scenario(result)
    yield from _trace(result, MOST_LINES)


def _scenario(result: Result) -> Iterator[str]:
    yield from (f"    {line}" for line in result.scenario.lines)


def _trace(result: Result, most: int | None) -> Iterator[str]:
    lines = [f"    {when:9.3f}  {line}"[:300] for when, line in result.trace]
    if most is not None and len(lines) > most:
        lines = [*lines[: most // 2], f"    … {len(lines) - most} lines …", *lines[-most // 2 :]]
    yield from lines


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(line)


if __name__ == "__main__":
    command()
