"""The batcher under crashes: at every call it makes, in every form, and at random under a moving world."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from provenance.errors import VerificationError
from provenance.testing.faults import Crash, Fault, Faults
from tests.services.batcher_world import LIMITS, PUBLISHER, SECOND, Chaos, World, parse

VALUES = [b"message %d" % number for number in range(12)]


def new_world(*, embedded: bool) -> World:
    world = World(embedded=embedded)
    world.write(*VALUES[:7])
    world.write(*VALUES[7:], skip=2)
    return world


def calls_of_a_run(*, embedded: bool) -> list[str]:
    faults = Faults()
    world = new_world(embedded=embedded)
    world.run(faults)
    world.check()
    return faults.calls


def test_a_run_asks_every_port() -> None:
    calls = set(calls_of_a_run(embedded=True))
    assert {"log.read", "chain.head", "store.put", "account.send", "journal.record", "index.add"} <= calls


@pytest.mark.parametrize("fault", Fault)
@pytest.mark.parametrize("embedded", [False, True], ids=["elsewhere", "embedded"])
def test_any_one_fault_at_any_call_loses_and_doubles_nothing(fault: Fault, embedded: bool) -> None:
    for number in range(len(calls_of_a_run(embedded=embedded))):
        world = new_world(embedded=embedded)
        faults = Faults()
        faults.at(number, fault)
        world.run_until_done(faults)
        world.check()
        assert not world.journals[PUBLISHER].entries()


@pytest.mark.parametrize("fault", Fault)
def test_a_fault_at_every_call_of_one_kind_loses_and_doubles_nothing(fault: Fault) -> None:
    for operation in sorted(set(calls_of_a_run(embedded=False))):
        world = new_world(embedded=False)
        faults = Faults()
        faults.on(operation, fault, times=3)
        world.run_until_done(faults)
        world.check()


def test_an_orphan_is_removed_when_its_seq_is_final() -> None:
    world = new_world(embedded=False)
    faults = Faults()
    faults.on("store.put", Fault.CRASH_AFTER)
    with pytest.raises(Crash):
        world.run(faults)
    (orphan,) = world.store.objects
    world.run(limits=replace(LIMITS, max_records=3))  # other boundaries: another accumulator
    world.check()
    assert orphan not in world.store.objects
    assert not world.orphans()


def run_seed(seed: int) -> None:
    rng = random.Random(seed)
    world = World(
        partitions=rng.choice([1, 1, 2, 3]), depth=rng.choice([0, 0, 1, 3]), automine=rng.random() < 0.5
    )
    world.enrol_second_publisher()
    world.write(*(b"%d" % rng.randrange(6) for _ in range(rng.randrange(1, 30))))

    def move() -> None:
        world.check_final_kept()
        if rng.random() < 0.1:
            values = [b"%d" % rng.randrange(6) for _ in range(rng.randrange(4))]
            world.write(*values, skip=rng.choice([0, 0, 1, 3]))
        if world.depth and rng.random() < 0.1:
            world.reorganise(rng.randint(1, world.depth), drop=rng.random() < 0.5)
        if rng.random() < 0.05:
            world.chain.forget_pending()

    world.moves.append(move)
    chaos = Chaos(rng, rate=rng.choice([0.0, 0.01, 0.05]))
    for _ in range(rng.randrange(1, 6)):
        world.run_until_done(chaos, rng.choice([PUBLISHER, SECOND]), tries=400)
    world.moves.clear()
    for account in (PUBLISHER, SECOND):
        world.run_until_done(None, account)
    world.check()
    assert not any(journal.entries() for journal in world.journals.values())


@pytest.mark.parametrize("block", range(8))
def test_random_crashes_reorganisations_and_lost_replies(block: int) -> None:
    for seed in range(block * 25, block * 25 + 25):
        try:
            run_seed(seed)
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise


# What befalls logs. Values written after the disaster begin with "new".


class Disaster(Faults):
    """Lets something happen to the log just before the call of a number."""

    def __init__(self, number: int, happen) -> None:
        super().__init__()
        self.number, self.happen = number, happen

    def call(self, operation, function, *args, **kwargs):
        if len(self.calls) == self.number:
            self.happen()
        return super().call(operation, function, *args, **kwargs)


def truncate(world: World) -> None:
    world.log.truncate(0, 2)
    world.log.append([(b"", b"new %d" % number) for number in range(12)])


def trim(world: World) -> None:
    world.log.trim(0, 6)
    world.log.append([(b"", b"later")])


def recreate(world: World) -> None:
    world.log.recreate()
    world.log.append([(b"", b"new %d" % number) for number in range(12)])


def lose_all(world: World) -> None:
    world.log.truncate(0, 0)


def check_nothing_went_on_silently(world: World) -> None:
    """No new message stands behind an old one that the log no longer has, and none is passed over."""
    held = {message.offset: message.value for message in world.log.read(0, 0, 1000)}
    for stream, _, _ in world.chain.openings():
        last = None
        for anchor in world.chain.anchors(stream):
            name = f"{stream.hex()}/{anchor.seq:016d}-{anchor.acc.hex()}.batch"
            manifest, leaves, _ = parse(world.store.objects[name])
            assert manifest["skipped"] == []
            new = [value for value in leaves.values() if value.startswith(b"new")]
            if new and last is not None:
                assert held.get(last[0]) == last[1], "went on behind a message that is gone"
            assert len(new) in (0, len(leaves)), "a batch of two histories"
            last = max(leaves.items())


def run_again_if_it_may(world: World) -> None:
    """It may where nothing that is anchored was lost; elsewhere it stops again, and leaves all as it is."""
    before = world.chain.openings(), dict(world.store.objects)
    try:
        world.run()
    except VerificationError:
        assert before == (world.chain.openings(), world.store.objects)


@pytest.mark.parametrize("happen", [truncate, trim, recreate, lose_all])
def test_nothing_goes_on_silently_after_a_log_lost_what_was_anchored(happen) -> None:
    def new() -> World:
        world = World()
        world.write(*VALUES)
        return world

    counter = Faults()
    new().run(counter)
    reasons: list[str] = []
    for number in range(len(counter.calls)):
        world = new()
        faults = Disaster(number, lambda world=world: happen(world))
        try:
            world.run(faults)
            world.run()
        except VerificationError as error:
            reasons.append(error.reason)
            run_again_if_it_may(world)
        check_nothing_went_on_silently(world)
    assert len(reasons) > len(counter.calls) // 4
    assert set(reasons) <= {"log-truncated", "log-rewritten", "log-retention", "log-made-anew"}
