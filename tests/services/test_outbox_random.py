"""Records, an outbox and a log that loses what it acknowledged, at random: every record becomes final.

The rules are turned off one by one, too: each of them is needed, or this test would not see it break.
"""

from __future__ import annotations

import random

import pytest

from provenance.core.outbox import Fate, Finality, Holding, Place, fate
from provenance.errors import UnavailableError
from provenance.services import outbox as service
from provenance.testing.faults import Crash, Fault
from tests.services.outbox_world import OutboxWorld

SEEDS = 300


class Life:
    """One log over its years, with a batcher of which only the effect is there."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.world = OutboxWorld(self.rng.choice((1, 1, 3)))
        self.outgoing = self.world.outgoing(jitter=self.rng.random)
        self.durable: set[bytes] = set()
        """What was in the outbox when ``send`` returned."""
        self.anchored = dict.fromkeys(range(self.world.partitions), 0)
        self.number = 0

    def run(self, steps: int) -> None:
        moves = [
            (self.record, 10),
            (self.fail, 8),
            (self.anchor, 4),
            (self.review, 4),
            (self.flush, 2),
            (self.crash, 1),
            (self.truncate, 2),
            (self.recreate, 1),
            (self.skip, 1),
            (self.wait, 4),
            (self.trim, 1),
        ]
        kinds, weights = zip(*moves, strict=True)
        for move in self.rng.choices(kinds, weights, k=steps):
            move()
        self.calm_down()

    def record(self) -> None:
        count = self.rng.randint(1, 3)
        values = [b"record %d" % (self.number + at) for at in range(count)]
        values = [b"again" if self.rng.random() < 0.1 else value for value in values]
        self.number += count
        try:
            self.outgoing.send([(value, value) for value in values], lambda: self.world.faulty_log)
        except (UnavailableError, Crash):
            return  # the task failed, and is computed again
        self.durable |= set(values) & set(self.world.waiting())

    def fail(self) -> None:
        self.world.faults.on("log.append", self.rng.choice((Fault.FAILED, Fault.LOST, Fault.CRASH_AFTER)))
        if self.rng.random() < 0.2:
            self.world.faults.on("log.read", Fault.FAILED)
        if self.rng.random() < 0.2:
            operation = self.rng.choice(("outbox.settle", "outbox.keep", "outbox.rows"))
            self.world.faults.on(operation, self.rng.choice(list(Fault)))

    def anchor(self) -> None:
        """Some more of a partition is final."""
        number = self.rng.randrange(self.world.partitions)
        end = self.world.log.bounds(number).end
        if end > self.anchored[number]:
            until = self.rng.randint(self.anchored[number] + 1, end)
            identity = self.world.log.identities()[number]
            for message in self.world.log.read(number, self.anchored[number], 10_000):
                if message.offset < until:
                    self.world.word.values[Place.at(identity, message.offset)] = message.value
            self.anchored[number] = until

    def truncate(self) -> None:
        number = self.rng.randrange(self.world.partitions)
        bounds = self.world.log.bounds(number)
        self.world.log.truncate(number, self.rng.randint(min(self.anchored[number], bounds.end), bounds.end))
        if self.rng.random() < 0.7:  # others take the offsets that were lost
            self.world.log.append([(b"%d" % at, b"other") for at in range(self.rng.randint(1, 5))])

    def recreate(self) -> None:
        self.world.log.recreate()
        self.anchored = dict.fromkeys(self.anchored, 0)

    def trim(self) -> None:
        """A person frees what is final."""
        number = self.rng.randrange(self.world.partitions)
        self.world.log.trim(number, self.rng.randint(0, self.anchored[number]))

    def skip(self) -> None:
        self.world.log.skip(self.rng.randrange(self.world.partitions))

    def wait(self) -> None:
        self.world.clock.sleep(self.rng.expovariate(0.2))
        self.world.word.is_known = self.rng.random() < 0.8

    def review(self) -> None:
        try:
            self.outgoing.review(self.world.faulty_log, self.world.word)
        except (UnavailableError, Crash):
            self.crash()

    def flush(self) -> None:
        try:
            self.outgoing.flush(self.world.faulty_log, attempts=2)
        except (UnavailableError, Crash):
            self.crash()

    def crash(self) -> None:
        self.outgoing = self.world.outgoing(jitter=self.rng.random)

    def calm_down(self) -> None:
        """No more faults: what waits is sent, anchored, and forgotten, within a few looks."""
        self.world.faults.clear()
        self.world.word.is_known = True
        for _ in range(3):
            self.outgoing.review(self.world.log, self.world.word)
            for number in range(self.world.partitions):
                self.world.finalise(number)
        self.outgoing.review(self.world.log, self.world.word)

    def lost(self) -> set[bytes]:
        return self.durable - set(self.world.word.values.values())

    def left(self) -> list[bytes]:
        return self.world.waiting()


def broken_seeds() -> int:
    broken = 0
    for seed in range(SEEDS):
        life = Life(seed)
        life.run(60)
        broken += bool(life.lost() or life.left())
    return broken


def test_whatever_befalls_the_log_every_kept_record_becomes_final_and_leaves() -> None:
    kept = repeats = 0
    for seed in range(SEEDS):
        life = Life(seed)
        life.run(60)
        assert life.lost() == set(), f"seed {seed}"
        assert life.left() == [], f"seed {seed}"
        kept += len(life.durable)
        appended = sum(life.world.log.bounds(number).end for number in range(life.world.partitions))
        repeats = max(repeats, appended)
    assert kept > 10 * SEEDS, "the outbox is what is tested"
    assert repeats < 1000, "repeats are bounded"


def without_sending_again(place, finality, holding):
    found = fate(place, finality, holding)
    return Fate.KEEP if found is Fate.SEND and place is not None else found


def forgetting_what_was_acknowledged(place, finality, holding):
    return Fate.FORGET if place is not None else Fate.SEND


def forgetting_what_the_log_holds(place, finality, holding):
    found = fate(place, finality, holding)
    return Fate.FORGET if holding is Holding.HELD else found


def forgetting_what_is_not_known(place, finality, holding):
    found = fate(place, finality, holding)
    return Fate.FORGET if place is not None and finality is Finality.UNKNOWN else found


@pytest.mark.parametrize(
    "rule",
    [
        without_sending_again,
        forgetting_what_was_acknowledged,
        forgetting_what_the_log_holds,
        forgetting_what_is_not_known,
    ],
)
def test_each_rule_is_needed(rule, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "fate", rule)
    assert broken_seeds() >= 10


def test_the_log_s_ids_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    def blind(place, value, logs, found):
        return Holding.HELD if found is not None else Holding.LOST

    monkeypatch.setattr(service, "held_at", blind)
    monkeypatch.setattr(Place, "is_in", lambda *_: True)
    assert broken_seeds() >= 10


def test_the_bytes_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    held_at = service.held_at

    def blind(place, value, logs, found):
        return Holding.HELD if place.is_in(logs) and found is not None else held_at(place, value, logs, found)

    monkeypatch.setattr(service, "held_at", blind)
    assert broken_seeds() >= 10
