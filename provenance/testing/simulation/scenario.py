"""What a seed stands for: a small world, who works in it, and what befalls them."""

from __future__ import annotations

import random
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

from provenance.core.batcher import Limits

if TYPE_CHECKING:
    from collections.abc import Iterator

_LIMITS = Limits(max_records=3, max_bytes=200, max_age=1.0, read_size=3, poll=0.5)

__all__ = ["LOSSES", "Scenario", "draw", "random_of", "simpler"]

LOSSES = ("truncate", "recreate", "retention")
"""What loses messages of the log."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """All that is drawn before a run; what is drawn within one comes of the same seed.

    Args:
        seed: the seed.
        embedded: the chain is the embedded one, and may be set back or made anew.
        partitions: of the log.
        batchers: how many processes anchor; each has its own account and node.
        divided: each batcher has some of the partitions, and they move between them; otherwise all have all.
        depth: blocks that must follow one before it is final.
        instant: each transaction is mined when it is sent.
        records: how many are emitted.
        values: how many different values these have; few, so that roots repeat.
        limits: when batches close.
        chaos: seconds in which things happen; afterwards only time goes on.
        faults: the share of calls that fail, lose their answer or crash.
        slowness: the share of calls during which others go on.
        reorganisations: mean seconds between two; 0 for none.
        lost_transactions: mean seconds between two losses of all that waits for a block; 0 for none.
        lag: how many blocks a node may be behind.
        outages: mean seconds between two outages of a node or of the store; 0 for none.
        lost_journals: the share of restarts that find no journal.
        clock_jumps: monotonic clocks jump forward.
        skips: the log gives out offsets without a message.
        elections: mean seconds between two clean elections; 0 for none.
        unseen: new messages can be read only later.
        short_reads: how many messages one read gives at most.
        torn_put: the number, from 1, of a put that is acknowledged and stores nothing; 0 for none.
        losses: ``(number of a call, which of `LOSSES`, a share of the log)``: what is lost, and when.
    """

    seed: int
    embedded: bool = False
    partitions: int = 1
    batchers: int = 1
    divided: bool = False
    depth: int = 0
    instant: bool = True
    records: int = 8
    values: int = 2
    limits: Limits = _LIMITS
    chaos: float = 8.0
    faults: float = 0.0
    slowness: float = 0.0
    reorganisations: float = 0.0
    lost_transactions: float = 0.0
    lag: int = 0
    outages: float = 0.0
    lost_journals: float = 0.0
    clock_jumps: bool = False
    skips: bool = False
    elections: float = 0.0
    unseen: bool = False
    short_reads: int = 1_000
    torn_put: int = 0
    losses: tuple[tuple[int, str, float], ...] = ()

    @property
    def lines(self) -> list[str]:
        """What differs from a world in which nothing happens."""
        plain = Scenario(self.seed)
        return [
            f"{field.name} = {getattr(self, field.name)}"
            for field in fields(self)
            if getattr(self, field.name) != getattr(plain, field.name)
        ]


def random_of(seed: int, purpose: str) -> random.Random:
    """The seed's numbers for one purpose: those of one do not depend on how many another took."""
    return random.Random(f"{purpose} {seed}")  # noqa: S311 - it must be the same each time


def draw(seed: int) -> Scenario:
    """The scenario of a seed."""
    rng = random_of(seed, "scenario")
    chance = rng.random
    embedded = chance() < 0.15
    depth = 0 if embedded else rng.choice((0, 0, 1, 2, 3))
    return Scenario(
        seed,
        embedded=embedded,
        partitions=rng.choice((1, 1, 1, 2)),
        batchers=1 if embedded else rng.choice((1, 1, 2, 2, 3)),
        divided=chance() < 0.3 and not embedded,
        depth=depth,
        instant=depth == 0 and chance() < 0.5,
        records=rng.randrange(3, 14),
        values=rng.choice((1, 2, 3)),
        limits=_limits(rng),
        chaos=rng.choice((4.0, 8.0, 12.0)),
        faults=rng.choice((0.0, 0.01, 0.03, 0.08)),
        slowness=rng.choice((0.0, 0.05, 0.2)),
        reorganisations=rng.choice((0.0, 1.0, 3.0)) if depth or embedded else 0.0,
        lost_transactions=rng.choice((0.0, 0.0, 2.0)),
        lag=0 if embedded else rng.choice((0, 0, 1, 2)),
        outages=rng.choice((0.0, 0.0, 4.0)),
        lost_journals=rng.choice((0.0, 0.0, 0.5)),
        clock_jumps=chance() < 0.1,
        skips=chance() < 0.3,
        elections=rng.choice((0.0, 0.0, 3.0)),
        unseen=chance() < 0.2,
        short_reads=rng.choice((1, 2, 1_000)),
        torn_put=rng.randrange(1, 6) if chance() < 0.05 else 0,
        losses=_losses(rng),
    )


def _limits(rng: random.Random) -> Limits:
    return Limits(
        max_records=rng.choice((1, 2, 3, 5)),
        max_bytes=rng.choice((4, 200)),
        max_age=rng.choice((0.0, 0.5, 1.5)),
        read_size=rng.choice((1, 2, 4)),
        poll=rng.choice((0.4, 0.8)),
    )


def _losses(rng: random.Random) -> tuple[tuple[int, str, float], ...]:
    count = rng.choice((0, 0, 0, 1, 1, 2))
    # Early and late, within a request or between two: calls are where things happen in the program.
    return tuple(
        sorted((int(10 ** rng.uniform(1.3, 2.8)), rng.choice(LOSSES), rng.random()) for _ in range(count))
    )


_PLAIN = Scenario(0)


def simpler(scenario: Scenario) -> Iterator[Scenario]:
    """Scenarios in which one thing less happens; for finding the smallest that still fails."""
    for number in range(len(scenario.losses)):
        kept = scenario.losses[:number] + scenario.losses[number + 1 :]
        yield replace(scenario, losses=kept)
    for field in fields(scenario):
        plain = getattr(_PLAIN, field.name)
        if field.name not in ("seed", "losses", "limits", "records") and (
            getattr(scenario, field.name) != plain
        ):
            yield replace(scenario, **{field.name: plain})
    for records in (1, 2, 3, 5, scenario.records - 1):
        if 0 < records < scenario.records:
            yield replace(scenario, records=records)
