"""Rotation: what is lost is said, the successor begins where the log still holds, any step may be cut off."""

from __future__ import annotations

from dataclasses import replace

import pytest

from provenance.core.streams import continues_of
from provenance.errors import ConfigError, MismatchError, PendingError, UnavailableError, VerificationError
from provenance.services.audit import audit
from provenance.services.rotating import Rotator
from provenance.testing.checker import Acknowledged, check_ledger
from provenance.testing.fakes import FakeChain
from provenance.testing.faults import Crash, Fault, Faults
from tests.services.batcher_world import PUBLISHER, World

VALUES = [b"message %d" % number for number in range(12)]  # batches [0,5) [5,10) [10,12)
NEW = [b"new %d" % number for number in range(8)]


def anchored(**changes) -> World:
    world = World(**changes)
    world.write(*VALUES)
    world.run()
    return world


def rotator(world: World, faults: Faults | None = None, confirming=None) -> Rotator:
    components = world.components(faults)
    return Rotator(components, components.governance, confirming=confirming)


def rotate(world: World, faults: Faults | None = None, **changes):
    """Plan and carry out what has to be rotated."""
    found = rotator(world, faults)
    return [found.rotate(plan) for plan in found.plans(**changes)]


def streams(world: World):
    """Opening and head of each stream, oldest first."""
    return [(opening, world.chain.head(name)) for name, opening, _ in world.chain.openings()]


def held(world: World) -> dict[int, bytes]:
    return {message.offset: message.value for message in world.log.read(0, 0, 1000)}


def check(world: World) -> None:
    """What the log holds now is anchored once, each at its offset; the checker shares no code with us."""
    (identity,) = world.log.identities()
    records = [Acknowledged(identity, offset, value) for offset, value in held(world).items()]
    start = world.log.bounds(0).start
    found = check_ledger(world.chain, world.store, records)
    if not start:
        found += check_ledger(world.chain, world.store, [], held={identity: held(world)})
    assert not found


def cut(world: World) -> None:
    world.log.truncate(0, 7)
    world.log.append([(b"", value) for value in NEW])


def trim(world: World) -> None:
    world.log.append([(b"", value) for value in NEW])
    world.log.trim(0, 15)


def recreate(world: World) -> None:
    world.log.recreate()
    world.log.append([(b"", value) for value in NEW])


def empty(world: World) -> None:
    world.log.truncate(0, 0)


LOSSES = {
    #  what happens: reason, start, seq continued, replaced, lost, behind
    cut: ("log-rewritten", 7, 1, (7, 12), None, 12),
    trim: ("log-retention", 15, 3, None, (12, 15), None),
    recreate: ("log-made-anew", 0, 3, (0, 12), None, 12),
    empty: ("log-truncated", 0, 0, (0, 12), None, 12),
}


@pytest.mark.parametrize("happen", LOSSES, ids=lambda happen: happen.__name__)
def test_a_loss_is_told_and_the_successor_begins_where_the_log_still_holds(happen) -> None:
    reason, start, seq, replaced, lost, behind = LOSSES[happen]
    world = anchored()
    happen(world)
    with pytest.raises(VerificationError) as caught:
        world.run()
    assert caught.value.reason == reason
    assert "provenance stream rotate" in caught.value.remedy
    (plan,) = rotator(world).plans()
    assert plan.why.reason == reason
    assert (plan.start, plan.continued.seq, plan.replaced) == (start, seq, replaced)
    assert (plan.lost, plan.behind, plan.endpoints) == (lost, behind, 1)
    assert len(streams(world)) == 1, "planning writes nothing"
    (done,) = rotate(world)
    (old, old_head), (new, new_head) = streams(world)
    assert (old_head.closed, new_head.closed, new_head.next_offset) == (True, False, start)
    assert new.generation == (1 if happen is recreate else 2) == plan.generation
    position = old_head.stream if seq == 0 else list(world.chain.anchors(old_head.stream))[seq - 1].acc
    assert new.continues == continues_of(old, seq, position)
    assert done.successor == new_head.stream
    world.run()
    world.log.append([(b"", b"later")])
    world.run()
    check(world)
    assert rotate(world) == []


def test_what_the_log_still_holds_as_it_was_anchored_is_not_anchored_again() -> None:
    world = anchored()
    cut(world)
    rotate(world)
    outcome = world.run()
    assert outcome.records == len(NEW)


def test_equal_bytes_of_another_leader_are_anchored_already() -> None:
    world = anchored()
    world.log.truncate(0, 7)
    world.log.append([(b"", value) for value in VALUES[7:]])  # a producer sent them again
    world.log.append([(b"", b"more")])
    with pytest.raises(VerificationError, match="leader epoch"):
        world.run()
    (plan,) = rotator(world).plans()
    assert (plan.start, plan.continued.seq, plan.replaced, plan.behind) == (12, 3, None, 12)
    rotate(world)
    assert world.run().records == 1
    check(world)


def test_the_start_is_sought_back_through_all_predecessors() -> None:
    world = anchored()
    cut(world)
    rotate(world)
    world.run()
    world.log.truncate(0, 3)
    world.log.append([(b"", b"third %d" % number) for number in range(6)])
    (plan,) = rotator(world).plans()
    (first, _), _ = streams(world)
    assert (plan.start, plan.generation, plan.continued.seq) == (3, 3, 0)
    assert plan.continues == continues_of(first, 0, plan.continued.stream)
    assert plan.continued.stream == streams(world)[0][1].stream
    rotate(world)
    world.run()
    check(world)


def test_an_old_log_that_came_back_is_continued_where_it_agrees_longest() -> None:
    world = anchored()
    copy = dict(held(world))
    cut(world)
    rotate(world)
    world.run()
    world.log.truncate(0, 0)
    world.log.append([(b"", value) for value in copy.values()])
    world.log.append([(b"", b"more")])
    (plan,) = rotator(world).plans()
    assert (plan.start, plan.continued.seq, plan.continued.generation) == (12, 3, 1)
    assert plan.replaced == (7, 15)
    rotate(world)
    assert world.run().records == 1
    check(world)


def test_messages_that_came_back_into_a_gap_of_retention_are_anchored() -> None:
    world = anchored()
    trim(world)
    rotate(world)
    world.run()
    everything = {**{offset: b"message %d" % offset for offset in range(12)}, **held(world)}
    everything |= {12: NEW[0], 13: NEW[1], 14: NEW[2]}
    world.log.truncate(0, 0)
    world.log._partitions[0].start = 0
    world.log.append([(b"", everything[offset]) for offset in sorted(everything)])
    (plan,) = rotator(world).plans(anyway=True)
    assert plan.start == 12
    rotate(world, anyway=True)
    world.run()
    check(world)


def test_a_topic_made_anew_twice_continues_the_last_one() -> None:
    world = anchored()
    recreate(world)
    rotate(world)
    recreate(world)  # nothing of the second was anchored
    (plan,) = rotator(world).plans()
    assert plan.why.reason == "log-made-anew"
    assert plan.old.name == streams(world)[1][1].stream
    rotate(world)
    world.run()
    check(world)
    assert [head.closed for _, head in streams(world)] == [True, True, False]


def test_a_log_made_anew_is_not_passed_off_as_new_when_the_rotation_stopped_half_way() -> None:
    world = anchored()
    recreate(world)
    faults = Faults()
    found = rotator(world, faults)
    (plan,) = found.plans()
    faults.on("log.identities", Fault.CRASH_BEFORE)  # behind the closing
    with pytest.raises(Crash):
        found.rotate(plan)
    ((_, head),) = streams(world)
    assert head.closed
    with pytest.raises(VerificationError) as caught:
        world.run()
    assert caught.value.reason == "log-made-anew"
    assert len(streams(world)) == 1
    rotate(world)
    world.run()
    check(world)


@pytest.mark.slow
@pytest.mark.parametrize("happen", LOSSES, ids=lambda happen: happen.__name__)
@pytest.mark.parametrize("fault", Fault)
@pytest.mark.parametrize("embedded", [False, True], ids=["elsewhere", "embedded"])
def test_any_one_fault_at_any_call_leaves_it_to_the_next_call(happen, fault: Fault, embedded: bool) -> None:
    def new() -> World:
        world = anchored(embedded=embedded)
        happen(world)
        return world

    counter, world = Faults(), new()
    rotate(world, counter)
    wanted = streams(world)
    for number in range(len(counter.calls)):
        world, faults = new(), Faults()
        faults.at(number, fault)
        for _ in range(3):
            try:
                rotate(world, faults)
                break
            except (Crash, UnavailableError):
                continue
        assert [(opening, head.closed) for opening, head in streams(world)] == [
            (opening, head.closed) for opening, head in wanted
        ]
        world.run()
        check(world)
        assert not world.journals[PUBLISHER].entries()


def test_a_stream_that_is_in_order_is_left_alone_unless_it_is_meant() -> None:
    world = anchored()
    assert rotate(world) == []
    assert rotate(world, wanted="0") == []
    (done,) = rotate(world, wanted="0", anyway=True)
    assert (done.plan.why, done.plan.start, done.plan.continued.seq) == (None, 12, 3)
    assert (done.plan.replaced, done.plan.lost, done.plan.behind) == (None, None, None)
    world.write(b"more")
    world.run()
    check(world)


def test_a_stream_that_somebody_closed_is_continued() -> None:
    world = anchored()
    name = streams(world)[0][1].stream
    world.chain.close(name)
    world.write(b"more")
    with pytest.raises(ConfigError) as caught:
        world.run()
    assert (caught.value.reason, "provenance stream rotate" in caught.value.remedy) == ("stream-closed", True)
    (done,) = rotate(world, wanted=name.hex()[:12])
    assert done.plan.why.reason == "stream-closed"
    world.run()
    check(world)
    assert rotate(world, wanted=name.hex()[:12]) == [], "named by the old stream, the new one is looked at"


@pytest.mark.parametrize("wanted", ["7", "abcdef12", "zzzzzzzz", "0x00"])
def test_a_name_that_means_nothing_is_refused(wanted) -> None:
    world = anchored()
    with pytest.raises(ConfigError) as caught:
        rotator(world).plans(wanted)
    assert (caught.value.reason, "stream list" in caught.value.remedy) == ("no-stream", True)


def test_a_partition_without_a_stream_has_nothing_to_rotate() -> None:
    world = World()
    assert rotator(world).plans() == []
    with pytest.raises(ConfigError) as caught:
        rotator(world).plans("0")
    assert caught.value.reason == "no-stream"


def test_a_missing_batch_file_is_named_and_its_offsets_are_anchored_once_more() -> None:
    world = anchored()
    cut(world)
    name = min(world.store.objects)
    del world.store.objects[name]
    (plan,) = rotator(world).plans()
    assert (plan.missing, plan.start, plan.continued.seq) == ((1,), 0, 0)


# When it is decided.


def test_a_head_that_is_not_final_decides_nothing() -> None:
    world = anchored(depth=2, automine=False)
    cut(world)
    world.chain.depth = 50
    with pytest.raises(PendingError) as caught:
        rotator(world).plans()
    assert caught.value.reason == "head-not-final"
    assert len(streams(world)) == 1


def test_a_head_that_moved_under_the_plan_is_planned_anew() -> None:
    world = anchored()
    world.write(b"one more")
    found = rotator(world)
    (plan,) = found.plans("0", anyway=True)
    world.run()  # another batcher was quicker
    with pytest.raises(PendingError) as caught:
        found.rotate(plan)
    assert caught.value.reason == "plan-outdated"
    (done,) = rotate(world)
    assert (done.plan.continued.seq, done.plan.start) == (4, 13)
    world.write(b"more")
    world.run()
    check(world)


class Second:
    """Another endpoint: what it says of a stream's head can be changed."""

    def __init__(self, chain, **changes) -> None:
        self.chain, self.changes = chain, changes

    def head(self, stream):
        head = self.chain.head(stream)
        return None if self.changes.get("unknown") else replace(head, **self.changes)

    def __getattr__(self, name):
        return getattr(self.chain, name)


def test_a_second_endpoint_that_agrees_is_counted() -> None:
    world = anchored()
    cut(world)
    (plan,) = rotator(world, confirming=Second(world.chain)).plans()
    assert plan.endpoints == 2


@pytest.mark.parametrize("changes", [{"unknown": True}, {"seq": 2}])
def test_a_second_endpoint_that_lags_is_waited_for(changes) -> None:
    world = anchored()
    cut(world)
    with pytest.raises(PendingError) as caught:
        rotator(world, confirming=Second(world.chain, **changes)).plans()
    assert caught.value.reason == "endpoint-behind"


@pytest.mark.parametrize("changes", [{"acc": b"x" * 32}, {"next_offset": 13}])
def test_a_second_endpoint_that_differs_stops_it(changes) -> None:
    world = anchored()
    cut(world)
    with pytest.raises(MismatchError) as caught:
        rotator(world, confirming=Second(world.chain, **changes)).plans()
    assert caught.value.reason == "endpoints-differ"


def test_a_second_endpoint_of_another_chain_stops_it() -> None:
    world = anchored()
    cut(world)
    other = anchored(depth=0).chain
    other.chain_id = 4
    with pytest.raises(MismatchError, match="chain and contract"):
        rotator(world, confirming=other).plans()


def test_a_key_that_does_not_govern_is_refused_and_changes_nothing() -> None:
    world = anchored()
    cut(world)
    components = world.components()
    found = Rotator(components, components.publisher)
    (plan,) = found.plans()
    with pytest.raises(ConfigError) as caught:
        found.rotate(plan)
    assert caught.value.reason == "refused"
    assert [head.closed for _, head in streams(world)] == [False]


# Afterwards.


@pytest.mark.parametrize("happen", LOSSES, ids=lambda happen: happen.__name__)
def test_an_embedded_chain_made_anew_is_given_both_generations_again(happen) -> None:
    world = anchored(embedded=True)
    happen(world)
    rotate(world)
    world.log.append([(b"", b"more")])
    world.run()
    before = streams(world)
    world.chain = FakeChain()
    outcome = world.run()
    assert [(o, h.seq, h.acc, h.closed) for o, h in streams(world)] == [
        (o, h.seq, h.acc, h.closed) for o, h in before
    ]
    assert len(outcome.again) == 2
    check(world)


def test_a_successor_whose_predecessor_has_no_file_cannot_be_opened_again() -> None:
    world = anchored(embedded=True)
    cut(world)
    rotate(world)
    world.run()
    (_, old), _ = streams(world)
    for name in list(world.store.names(f"{old.stream.hex()}/")):
        world.store.delete(name)
    world.chain = FakeChain()
    with pytest.raises(VerificationError) as caught:
        world.run()
    assert caught.value.reason == "cannot-reopen"


@pytest.mark.parametrize("happen", LOSSES, ids=lambda happen: happen.__name__)
def test_the_audit_accepts_what_was_rotated(happen) -> None:
    from provenance.services.audit import AuditPorts

    world = anchored()
    happen(world)
    rotate(world)
    world.log.append([(b"", b"more")])
    world.run()
    ports = AuditPorts(chain=world.chain, store=world.store, keys={}, log=world.log, index=world.index)
    report = audit(ports, level="chain")
    codes = {finding.code for finding in report.findings}
    assert codes <= {"rejected-record", "no-sealed-run"}, report.findings
