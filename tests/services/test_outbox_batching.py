"""The batcher and the outbox: what is final is let go of, what a log lost is sent again and anchored."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from provenance.core.outbox import Finality, OutboxDepth, Place
from provenance.errors import UnavailableError, VerificationError
from provenance.services.batching import OUTBOX_LOOK, run_forever, run_once
from provenance.services.finality import FinalRecords
from provenance.services.outbox import Outgoing
from provenance.testing.fakes import FakeOutbox
from provenance.testing.faults import Crash, Fault, Faults
from tests.services.batcher_world import LIMITS, World


class Recording(World):
    """A batcher's world with an outbox."""

    def __init__(self, **options) -> None:
        super().__init__(**options)
        self.outbox = FakeOutbox()

    def components(self, faults=None, **options):
        found = super().components(faults, **options)
        outgoing = Outgoing(self.outbox, self.store, self.clock, jitter=lambda: 0.5, background=False)
        return replace(found, outgoing=outgoing)

    def keep(self, *values: bytes) -> None:
        self.outbox.keep([(value, value) for value in values], self.clock.now())

    def run(self, faults=None, **_):
        return run_once(self.components(faults), LIMITS, jitter=lambda: 0.5)

    def final(self, faults: Faults | None = None, org: int = 1) -> FinalRecords:
        parts = self.components(faults)
        return FinalRecords(parts.reader, parts.store, org=org, is_final=parts.publisher.is_final)

    def place(self, offset: int, partition: int = 0) -> Place:
        return Place.at(self.log.identities()[partition], offset)


# What is final.


def test_a_record_is_final_where_its_bytes_were_anchored_and_nowhere_else() -> None:
    world = Recording()
    values = [b"%d" % number for number in range(23)]  # batches of five
    world.write(*values, skip=1)
    world.run()
    final = world.final()
    for offset in [*range(0, 46, 2), *range(44, -1, -2)]:
        assert final.look(world.place(offset), values[offset // 2]) is Finality.FINAL
        assert final.look(world.place(offset), b"other") is Finality.NOT_FINAL
    for offset in (1, 43, 45, 46, 47, 10_000):
        assert final.look(world.place(offset), values[0]) is Finality.NOT_FINAL
    elsewhere = Place("another", "ab" * 16, 0, 0)
    assert final.look(elsewhere, values[0]) is Finality.NOT_FINAL


def test_what_is_mined_is_not_final_before_its_depth() -> None:
    world = Recording(depth=2, automine=False)
    world.write(b"first")
    world.run()
    world.write(b"second")
    faults = Faults()
    faults.on("account.send", Fault.CRASH_AFTER)
    with pytest.raises(Crash):
        world.run(faults)
    looks = []
    for _ in range(4):
        first, second = (world.final().look(world.place(n), v) for n, v in enumerate((b"first", b"second")))
        assert first is Finality.FINAL
        looks.append(second is Finality.FINAL)
        world.chain.mine()
    assert looks == [False, False, False, True]


@pytest.mark.parametrize(
    "call", ["chain.openings", "chain.head", "chain.anchors", "account.state", "store.get"]
)
def test_what_cannot_be_asked_is_not_known(call: str) -> None:
    world = Recording()
    world.write(b"one")
    world.run()
    faults = Faults()
    faults.on(call, Fault.FAILED)
    assert world.final(faults).look(world.place(0), b"one") is Finality.UNKNOWN


@pytest.mark.parametrize("damage", ["gone", "changed"])
def test_a_batch_file_that_is_not_the_anchored_one_makes_nothing_final(damage: str) -> None:
    world = Recording()
    world.write(b"one")
    world.run()
    (name,) = world.store.objects
    if damage == "gone":
        del world.store.objects[name]
    else:
        world.store.objects[name] = world.store.objects[name].replace(b"one", b"two")
    for value in (b"one", b"two"):
        assert world.final().look(world.place(0), value) is Finality.UNKNOWN


def test_streams_of_others_over_the_same_log_make_nothing_final() -> None:
    world = Recording()
    world.write(b"one")
    world.run()
    assert world.final(org=2).look(world.place(0), b"one") is Finality.NOT_FINAL


def test_a_long_stream_is_not_walked_from_its_beginning() -> None:
    world = Recording()
    world.write(*(b"%d" % number for number in range(500)))
    world.run()
    read = []
    anchors = world.chain.anchors

    def counted(stream, from_seq=1):
        for anchor in anchors(stream, from_seq):
            read.append(anchor.seq)
            yield anchor

    world.chain.anchors = counted
    assert world.final().look(world.place(497), b"497") is Finality.FINAL
    assert read == [100]


# The batcher.


def test_the_batcher_sends_anchors_and_lets_go() -> None:
    world = Recording()
    world.write(b"before")
    world.keep(b"waits", b"waits too")
    outcome = world.run()
    assert outcome.records == 3
    assert [message.value for message in world.log.read(0, 0, 10)] == [b"before", b"waits", b"waits too"]
    assert world.outbox.depth() == OutboxDepth()


def test_an_empty_log_gets_its_first_records_from_the_outbox() -> None:
    world = Recording()
    world.keep(b"waits")
    assert world.run().records == 1
    assert world.outbox.depth() == OutboxDepth()


def test_what_was_acknowledged_and_lost_is_sent_again_and_anchored() -> None:
    world = Recording()
    world.write(b"anchored")
    world.run()
    world.keep(b"a", b"b")
    world.components().outgoing.flush(world.log)
    world.log.truncate(0, 1)
    world.log.append([(b"", b"another")])
    outcome = world.run()
    values = [message.value for message in world.log.read(0, 0, 10)]
    assert values == [b"anchored", b"another", b"a", b"b"]
    assert outcome.records == 3
    assert world.outbox.depth() == OutboxDepth()


def test_a_log_made_anew_gets_what_the_former_one_lost_even_though_the_batcher_stops() -> None:
    world = Recording()
    world.write(b"anchored")
    world.run()
    world.keep(b"a")
    world.components().outgoing.flush(world.log)
    world.log.recreate()
    with pytest.raises(VerificationError, match="made anew"):
        world.run()
    assert [message.value for message in world.log.read(0, 0, 10)] == [b"a"]
    assert world.outbox.depth().not_final == 1


def test_while_it_follows_it_looks_at_the_outbox_now_and_then() -> None:
    world = Recording()
    world.write(b"first")
    components = world.components()
    done = []

    def stop() -> bool:
        now = world.clock.monotonic()
        if now > 2 * OUTBOX_LOOK and not done:
            done.append(now)
            world.keep(b"waits")
        return now > 6 * OUTBOX_LOOK

    outcome = run_forever(components, LIMITS, stop=stop, jitter=lambda: 0.5)
    assert outcome.records == 2
    assert world.outbox.depth() == OutboxDepth()


def test_trouble_with_the_outbox_is_said_once_and_stops_no_batcher(caplog: pytest.LogCaptureFixture) -> None:
    world = Recording()
    world.write(b"first")

    def broken():
        raise UnavailableError("the disk of the outbox", reason="eio")

    world.outbox.depth = broken
    with caplog.at_level(logging.WARNING, "provenance.batcher"):
        assert world.run().records == 1
    assert [record.getMessage() for record in caplog.records] == ["the outbox waits: the disk of the outbox"]
