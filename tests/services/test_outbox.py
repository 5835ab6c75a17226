"""Sending through the outbox: under every fault nothing is lost, and a repeat is all that it costs."""

from __future__ import annotations

import itertools
import logging
import threading

import pytest

from provenance.core.outbox import LONGEST_PAUSE, OutboxDepth
from provenance.errors import ConfigError, MalformedError, UnavailableError
from provenance.services.outbox import ATTEMPTS, PAGE, Drained
from provenance.testing.fakes import FakeOutbox
from provenance.testing.faults import Crash, Fault
from tests.services.outbox_world import OutboxWorld, down

RECORDS = [(b"k", b"one"), (b"k", b"two")]


# Sending.


def test_a_process_looks_once_whether_another_one_left_something() -> None:
    world = OutboxWorld()
    outgoing = world.outgoing(background=True)
    for _ in range(3):
        outgoing.send(RECORDS, lambda: world.faulty_log)
    assert world.faults.calls == ["log.append", "outbox.depth", "log.append", "log.append"]


def test_an_outbox_that_cannot_be_looked_at_fails_no_record_that_is_on_the_log() -> None:
    world = OutboxWorld()
    world.faults.on("outbox.depth", Fault.FAILED)
    world.outgoing(background=True).send(RECORDS, lambda: world.faulty_log)
    assert world.on_log() == [b"one", b"two"]


def test_while_the_log_answers_nothing_else_is_touched() -> None:
    world = OutboxWorld()
    outgoing = world.outgoing()
    for _ in range(3):
        outgoing.send(RECORDS, lambda: world.faulty_log)
    assert world.faults.calls == ["log.append"] * 3
    assert world.store.objects == {}


@pytest.mark.parametrize(("fault", "on_log"), [(Fault.FAILED, []), (Fault.LOST, [b"one", b"two"])])
def test_what_is_not_acknowledged_is_kept(fault: Fault, on_log: list[bytes]) -> None:
    world = OutboxWorld()
    world.faults.on("log.append", fault)
    world.outgoing().send(RECORDS, lambda: world.faulty_log)
    assert world.on_log() == on_log
    assert world.waiting() == [b"one", b"two"]
    assert world.outbox.depth() == OutboxDepth(2, 8, 2, world.clock.now())


def test_a_log_that_cannot_even_be_opened_is_the_same() -> None:
    world = OutboxWorld()

    def closed() -> None:
        raise UnavailableError("no broker answers", reason="kafka-unreachable")

    world.outgoing().send(RECORDS, closed)
    assert world.waiting() == [b"one", b"two"]


def test_where_the_settings_say_so_the_task_fails() -> None:
    world = OutboxWorld()
    outgoing = world.outgoing(keep=False)
    for _ in range(2):  # the log is asked each time
        down(world)
        with pytest.raises(UnavailableError, match="by arrangement"):
            outgoing.send(RECORDS, lambda: world.faulty_log)
    assert world.waiting() == []
    outgoing.send(RECORDS, lambda: world.faulty_log)
    assert world.on_log() == [b"one", b"two"]


@pytest.mark.parametrize("reason", ["enospc", "sqlite-ioerr", "file-replaced"])
def test_a_broken_disk_here_ends_the_task(reason: str) -> None:
    world = OutboxWorld()

    def broken() -> None:
        raise UnavailableError("the disk", reason=reason)

    with pytest.raises(UnavailableError, match="the disk"):
        world.outgoing().send(RECORDS, broken)
    assert world.waiting() == []


@pytest.mark.parametrize("error", [ConfigError("another log"), MalformedError("too large")])
def test_what_is_refused_for_good_is_not_kept(error: Exception) -> None:
    world = OutboxWorld()

    def refuse() -> None:
        raise error

    with pytest.raises(type(error)):
        world.outgoing().send(RECORDS, refuse)
    assert world.waiting() == []


def test_a_log_that_is_away_is_left_alone_for_a_while_and_then_asked() -> None:
    world = OutboxWorld()
    outgoing = world.outgoing()
    down(world, times=2)
    asked = []
    for number in range(8):
        before = len(world.faults.calls)
        outgoing.send([(b"k", b"%d" % number)], lambda: world.faulty_log)
        asked.append("log.append" in world.faults.calls[before:])
        world.clock.sleep(0.3)
    # Failures at 0 (pause 0.5) and 0.6 (pause 1.0); at 1.8 it answers, and is asked each time from then on.
    assert asked == [True, False, True, False, False, False, True, True]
    assert world.waiting() == [b"0", b"1", b"2", b"3", b"4", b"5"]
    assert world.on_log() == [b"6", b"7"]


def test_an_hour_away_costs_few_timeouts() -> None:
    world = OutboxWorld()
    outgoing = world.outgoing()
    down(world, times=1_000_000)
    for number in range(3600):
        outgoing.send([(b"k", b"%d" % number)], lambda: world.faulty_log)
        world.clock.sleep(1.0)
    asked = world.faults.calls.count("log.append")
    assert 3600 / LONGEST_PAUSE / 2 < asked < 3600 / LONGEST_PAUSE + 10
    assert world.outbox.depth().records == 3600


def test_one_line_is_logged_when_it_goes_away_and_one_when_it_is_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = OutboxWorld()
    outgoing = world.outgoing()
    with caplog.at_level(logging.INFO, "provenance.outbox"):
        down(world, times=3)
        for number in range(20):
            outgoing.send([(b"k", b"secret %d" % number)], lambda: world.faulty_log)
            world.clock.sleep(1.0)
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 2
    assert "kept in the outbox" in messages[0]
    assert "again" in messages[1]
    assert not any("secret" in message for message in messages)


def test_a_full_outbox_ends_the_task_and_tells_both_reasons() -> None:
    world = OutboxWorld(outbox=FakeOutbox(max_records=1))
    down(world)
    with pytest.raises(UnavailableError) as caught:
        world.outgoing().send(RECORDS, lambda: world.faulty_log)
    assert caught.value.reason == "outbox-full"
    assert any("log.append: failed" in note for note in caught.value.context)
    assert world.waiting() == []


# Draining.


def kept(world: OutboxWorld, *values: bytes) -> None:
    world.outbox.keep([(b"k", value) for value in values], world.clock.now())


def test_what_waits_is_sent_in_order_and_stays_until_it_is_final() -> None:
    world = OutboxWorld()
    kept(world, *(b"%d" % number for number in range(PAGE + 3)))
    outgoing = world.outgoing()
    assert outgoing.flush(world.faulty_log) == Drained(PAGE + 3)
    assert world.on_log() == [b"%d" % number for number in range(PAGE + 3)]
    assert world.outbox.depth().not_final == PAGE + 3
    assert outgoing.flush(world.faulty_log) == Drained()
    assert outgoing.review(world.faulty_log, world.word) == Drained()
    world.finalise()
    assert outgoing.review(world.faulty_log, world.word) == Drained(forgotten=PAGE + 3)
    assert world.outbox.depth() == OutboxDepth()
    assert len(world.on_log()) == PAGE + 3


@pytest.mark.parametrize("befalls", ["truncate", "recreate", "rewrite", "trim"])
def test_what_the_log_lost_is_sent_again(befalls: str) -> None:
    world = OutboxWorld()
    kept(world, b"a", b"b", b"c")
    outgoing = world.outgoing()
    outgoing.flush(world.faulty_log)
    {
        "truncate": lambda: world.log.truncate(0, 1),
        "recreate": world.log.recreate,
        "rewrite": lambda: [world.log.rewrite(0, offset, b"x") for offset in (1, 2)],
        "trim": lambda: world.log.trim(0, 2),
    }[befalls]()
    world.word.is_known = False
    assert outgoing.review(world.faulty_log, world.word) == Drained(), "not on a guess"
    world.word.is_known = True
    lost = {"truncate": 2, "recreate": 3, "rewrite": 2, "trim": 2}[befalls]
    assert outgoing.review(world.faulty_log, world.word) == Drained(sent=lost, again=lost)
    assert {b"a", b"b", b"c"} - set(world.on_log()) == set()
    assert outgoing.review(world.faulty_log, world.word) == Drained(), "once"
    world.finalise()
    assert outgoing.review(world.faulty_log, world.word) == Drained(forgotten=3)


def test_what_was_final_before_the_log_lost_it_is_not_sent_again() -> None:
    world = OutboxWorld()
    kept(world, b"a", b"b")
    outgoing = world.outgoing()
    outgoing.flush(world.faulty_log)
    world.finalise()
    world.log.recreate()
    assert outgoing.review(world.faulty_log, world.word) == Drained(forgotten=2)
    assert world.on_log() == []


def test_a_log_that_cannot_be_read_keeps_everything() -> None:
    world = OutboxWorld()
    kept(world, b"a")
    outgoing = world.outgoing()
    outgoing.flush(world.faulty_log)
    world.faults.on("log.read", Fault.FAILED)
    assert outgoing.review(world.faulty_log, world.word) == Drained()
    assert world.waiting() == [b"a"]


def test_messages_between_and_offsets_without_one_confuse_nothing() -> None:
    world = OutboxWorld()
    outgoing = world.outgoing()
    for number in range(40):
        kept(world, b"%d" % number)
        outgoing.flush(world.faulty_log)
        world.log.append([(b"k", b"other")] * (number % 3))
        world.log.skip(0, number % 2)
    before = world.on_log()
    assert outgoing.review(world.faulty_log, world.word) == Drained()
    assert world.on_log() == before
    world.finalise()
    assert outgoing.review(world.faulty_log, world.word).forgotten == 40


def test_a_flush_tries_for_a_bounded_time_with_growing_pauses_and_smaller_pages() -> None:
    world = OutboxWorld()
    kept(world, *(b"%d" % number for number in range(100)))
    down(world, times=ATTEMPTS)
    start = world.clock.monotonic()
    with pytest.raises(UnavailableError):
        world.outgoing().flush(world.faulty_log)
    assert world.faults.calls.count("log.append") == ATTEMPTS
    assert world.clock.monotonic() - start == 0.5 + 1 + 2 + 4 + 8
    sizes = []

    class Slow:
        """Acknowledges only what is small enough."""

        identities = world.log.identities

        def append(self, records):
            sizes.append(len(records))
            if len(records) > 70:
                raise UnavailableError("not in time", reason="not-acknowledged")
            return world.log.append(records)

    assert world.outgoing().flush(Slow()).sent == 100
    assert sizes == [100, 100, 100, 62, 38]
    assert world.waiting() == world.on_log() == [b"%d" % number for number in range(100)]


def test_while_another_process_sends_this_one_waits_for_it() -> None:
    world = OutboxWorld(is_locked=True)
    kept(world, b"a")
    with pytest.raises(UnavailableError) as caught:
        world.outgoing().flush(world.faulty_log, attempts=2)
    assert caught.value.reason == "locked"
    assert world.on_log() == []


def test_a_record_that_the_log_refuses_holds_no_other_one_back() -> None:
    world = OutboxWorld()
    kept(world, *(b"%d" % number for number in range(9)))

    class Strict:
        identities = world.log.identities

        def append(self, records):
            if any(value == b"5" for _, value in records):
                raise MalformedError("too large for this topic", reason="value-length")
            return world.log.append(records)

    with pytest.raises(MalformedError, match="this topic"):
        world.outgoing().flush(Strict())
    assert world.on_log() == [b"0", b"1", b"2", b"3", b"4", b"6", b"7", b"8"]
    assert (world.outbox.depth().unsent, world.outbox.depth().records) == (1, 9)


def life(world: OutboxWorld) -> None:
    """A process: it sends, the log loses its end, it drains; all becomes final, and it drains again."""
    outgoing = world.outgoing()
    for number in range(3):
        outgoing.send([(b"k", b"%d" % number), (b"k", b"%d'" % number)], lambda: world.faulty_log)
        world.clock.sleep(60)
    outgoing.flush(world.faulty_log, attempts=1)
    outgoing.review(world.faulty_log, world.word)


VALUES = [b"0", b"0'", b"1", b"1'", b"2", b"2'"]


def calls_of_a_life() -> int:
    world = OutboxWorld()
    down(world, times=2)
    life(world)
    return len(world.faults.calls)


EVERY_FAULT = list(itertools.product(Fault, range(calls_of_a_life())))


@pytest.mark.parametrize(("fault", "number"), EVERY_FAULT)
def test_under_each_fault_at_each_call_nothing_is_lost(fault: Fault, number: int) -> None:
    world = OutboxWorld()
    down(world, times=2)
    world.faults.at(number, fault)
    for _ in range(3):  # as Dask does: what failed or died is computed again
        try:
            life(world)
            break
        except (Crash, UnavailableError):
            continue
    else:
        raise AssertionError("one fault ends one life")
    world.faults.clear()
    world.log.truncate(0, world.log.bounds(0).end // 2)
    outgoing = world.outgoing()
    outgoing.review(world.log, world.word)
    ours = {row.value for row in world.outbox.rows(0, 100)}
    assert ours <= set(world.on_log()), "what is in the outbox is on the log, whatever the log lost"
    assert not world.outbox.depth().unsent
    world.finalise()
    outgoing.review(world.log, world.word)
    assert world.outbox.depth() == OutboxDepth()
    assert len(world.on_log()) <= 4 * len(VALUES)


@pytest.mark.parametrize(("fault", "number"), EVERY_FAULT)
def test_what_a_life_sent_is_durable_when_it_ends(fault: Fault, number: int) -> None:
    world = OutboxWorld()
    down(world, times=2)
    world.faults.at(number, fault)
    outgoing, durable = world.outgoing(), []
    for at in range(3):
        try:
            outgoing.send([(b"k", b"%d" % at)], lambda: world.faulty_log)
            durable.append(b"%d" % at)
        except (Crash, UnavailableError):
            pass
        assert set(durable) <= set(world.on_log()) | set(world.waiting())


@pytest.mark.parametrize("by", ["the one that kept them", "the next one that records"])
def test_a_process_sends_what_waits_when_the_log_answers(by: str) -> None:
    world = OutboxWorld()
    done = threading.Event()
    settle = world.outbox.settle

    def settled(placed, forgotten):
        settle(placed, forgotten)
        if placed:
            done.set()

    world.outbox.settle = settled
    if by == "the one that kept them":
        down(world, times=3)
        world.outgoing(background=True).send(RECORDS, lambda: world.faulty_log)
    else:
        kept(world, b"one", b"two")
        world.outgoing(background=True).send([(b"k", b"mine")], lambda: world.faulty_log)
    assert done.wait(60)
    assert [value for value in world.on_log() if value != b"mine"] == [b"one", b"two"]
    (sender,) = [t for t in threading.enumerate() if t.name == "provenance outbox"] or [None]
    if sender is not None:
        sender.join(60)
        assert not sender.is_alive(), "nothing waits, so nobody sends"
