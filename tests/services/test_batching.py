"""The batcher as a service: one drain, or for ever; what it indexes, opens, waits for and refuses."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from provenance.core.kinds import Partition
from provenance.core.merkle import leaf_hash
from provenance.core.records import Subject, encode_record
from provenance.errors import ConfigError, UnavailableError, VerificationError
from provenance.ports import CloseCall
from provenance.services.batching import run_forever, run_once
from provenance.services.streams import find_bindings
from provenance.testing.fakes import FakeChain, FakeJournal, FakeLog
from provenance.testing.faults import Crash, Fault, Faults
from tests.services.batcher_world import GOVERNANCE, LIMITS, PUBLISHER, World


def filled(*values: bytes, **changes) -> World:
    world = World(**changes)
    world.write(*(values or [b"message %d" % number for number in range(12)]))
    return world


def partition_record() -> bytes:
    digest = {"sha256": "ab" * 32}
    record = Partition(
        run=b"r" * 32,
        stage=b"s" * 32,
        number=7,
        rows=1,
        bytes=2,
        inputs=(),
        subjects=(Subject("p", digest), Subject("q", digest)),
    )
    return encode_record(record.statement())


# One drain.


def test_a_drain_anchors_all_that_is_there() -> None:
    world = filled()
    outcome = world.run()
    world.check()
    ((stream, anchor),) = outcome.positions.items()
    assert (outcome.records, outcome.batches, outcome.gas) == (12, 3, 3 * 61_472)
    assert (anchor.seq, anchor.next_offset, world.chain.head(stream).acc) == (3, 12, anchor.acc)
    assert not outcome.deployed
    assert world.run().batches == 0


def test_an_empty_log_opens_no_stream() -> None:
    world = World(embedded=True)
    outcome = world.run()
    assert (outcome.batches, outcome.deployed, world.chain.openings()) == (0, True, ())
    assert not world.run().deployed


def test_what_comes_during_a_drain_waits_for_the_next() -> None:
    world = filled()
    world.moves.append(lambda: world.write(b"later"))
    outcome = world.run()
    assert outcome.records < 12 + 5
    world.moves.clear()
    world.run()
    world.check()


def test_a_malformed_message_is_anchored_and_indexed_with_its_reason() -> None:
    record = partition_record()
    world = filled(record, b"", b"{", b'{"a":1}', record[:-1], b"\xff")
    outcome = world.run()
    world.check()
    assert (outcome.indexed.records, outcome.indexed.rejected) == (6, 5)
    found = {row.offset: row for row in world.index.find()}
    assert [found[offset].reason for offset in range(1, 6)] == [
        "not-json",
        "not-json",
        "unknown-kind",
        "not-json",
        "not-utf-8",
    ]
    assert all(found[offset].kind == "rejected" for offset in range(1, 6))
    (row,) = world.index.find(kind="partition", run=b"r" * 32, stage=b"s" * 32, subject=b"\xab" * 32)
    assert (row.id, row.number, row.offset, row.seq, row.index) == (leaf_hash(record), 7, 0, 1, 0)
    assert row.subjects == (b"\xab" * 32,)


def test_several_partitions_share_one_account_and_never_wait_for_each_other() -> None:
    world = World(partitions=4, automine=False)
    world.write(*(b"%d" % number for number in range(60)))
    most = 0

    def look() -> None:
        nonlocal most
        streams = [entry.stream for entry in world.journals[PUBLISHER].entries()]
        assert len(set(streams)) == len(streams), "two transactions of one stream under way"
        most = max(most, len(streams))

    world.moves.append(look)
    world.run()
    world.check()
    assert most > 1


def test_an_unreachable_chain_ends_a_drain_and_loses_nothing() -> None:
    world = filled()
    faults = Faults()
    faults.on("account.send", Fault.FAILED, times=1)
    faults.on("account.state", Fault.FAILED, times=50)
    for _ in range(2):  # the first ends at the opening of the stream
        with pytest.raises(UnavailableError):
            world.run(faults)
    world.run()
    world.check()


def test_an_index_that_fails_stops_no_anchor() -> None:
    world = filled()
    faults = Faults()
    faults.on("index.add", Fault.FAILED, times=50)
    outcome = world.run(faults)
    world.check()
    assert outcome.index_error is not None
    assert outcome.batches == 3
    assert world.run().index_error is None
    assert world.index.indexed(next(iter(outcome.positions))) == 3


def test_a_journal_that_was_removed_under_way_is_written_again() -> None:
    world = filled(automine=False)
    removed = []

    def remove() -> None:
        for entry in list(world.journals[PUBLISHER].entries()):
            if entry.purpose == "anchor" and entry.transaction.hash not in removed:
                removed.append(entry.transaction.hash)
                world.journals[PUBLISHER].forget(entry.transaction.hash)
                world.chain.forget_pending()

    world.moves[:] = [remove]
    world.run()
    world.check()
    assert removed


def test_an_entry_of_a_stream_that_is_not_ours_any_more_is_settled_too() -> None:
    world = filled()
    faults = Faults()
    faults.on("account.send", Fault.CRASH_AFTER, times=2)
    for _ in range(2):
        with pytest.raises(Crash):
            world.run(faults)
    (entry,) = world.journals[PUBLISHER].entries()
    other = FakeJournal()
    other.record(replace(entry, stream=b"z" * 32))
    world.journals[PUBLISHER] = other
    world.run()
    world.check()
    assert not other.entries()


# Opening streams.


def test_somebody_else_s_stream_over_our_log_is_not_taken_for_ours() -> None:
    world = filled()
    world.run()
    ((ours, opening, _),) = world.chain.openings()

    class Crowded(FakeChain):
        def openings(self, binding=None):
            return (*world.chain.openings(binding), (b"x" * 32, replace(opening, org=2), 9))

        def __getattr__(self, name):
            return getattr(world.chain, name)

    components = replace(world.components(), reader=Crowded())
    (binding,) = find_bindings(components.log, components.reader, org=1)
    assert binding.stream == ours
    (binding,) = find_bindings(components.log, components.reader, org=3)
    assert (binding.stream, binding.source) == (None, None)


def test_without_a_governance_key_there_is_a_next_step() -> None:
    world = filled()
    with pytest.raises(ConfigError, match="no stream is open") as caught:
        run_once(replace(world.components(), governance=None), LIMITS)
    assert (caught.value.reason, bool(caught.value.remedy)) == ("no-stream", True)


def test_a_log_made_anew_gets_no_stream_silently() -> None:
    world = filled()
    world.run()
    world.log.recreate()
    world.log.append([(b"", b"new")])
    with pytest.raises(VerificationError, match="made anew") as caught:
        world.run()
    assert (caught.value.reason, bool(caught.value.remedy)) == ("log-made-anew", True)
    assert len(world.chain.openings()) == 1


def test_a_log_made_anew_before_anything_was_anchored_is_a_new_log() -> None:
    world = filled()
    world.log.recreate()
    world.written.clear()
    world.write(b"new")
    world.run()
    world.check()


def test_a_second_log_beside_the_first_is_no_log_made_anew() -> None:
    world = filled()
    world.run()
    world.log = FakeLog(1, cluster_id="other")
    world.log.append([(b"", b"new")])
    renamed = [replace(identity, topic="another.topic") for identity in world.log.identities()]
    world.log.identities = lambda: renamed
    world.run()
    assert len(world.chain.openings()) == 2


def test_a_closed_stream_stops() -> None:
    world = filled()
    outcome = world.run()
    owner = world.chain.account(GOVERNANCE)
    owner.send(owner.sign(CloseCall(next(iter(outcome.positions))), owner.nonce()).raw)
    world.write(b"more")
    with pytest.raises(ConfigError) as caught:
        world.run()
    assert caught.value.reason == "stream-closed"


def test_a_log_that_starts_late_is_anchored_from_there() -> None:
    world = filled()
    world.log.trim(0, 4)
    world.written[0] = {offset: value for offset, value in world.written[0].items() if offset >= 4}
    world.run()
    world.check()


def test_another_contract_is_refused() -> None:
    world = filled()
    for embedded in (False, True):
        world = filled(embedded=embedded)
        with pytest.raises(VerificationError, match="code hash"):
            run_once(replace(world.components(), code_hash=b"x" * 32), LIMITS)
    bare = World()
    bare.chain = FakeChain()
    with pytest.raises(VerificationError) as caught:
        bare.run()
    assert caught.value.reason == "no-contract"


# For ever.


def follow(world: World, *, seconds: float, limits=LIMITS, faults: Faults | None = None):
    end = world.clock.monotonic() + seconds
    return run_forever(
        world.components(faults), limits, stop=lambda: world.clock.monotonic() >= end, jitter=lambda: 0.5
    )


def test_following_closes_by_age_and_goes_on() -> None:
    world = filled(b"one", b"two")
    arrivals = [b"three", b"four"]

    def arrive() -> None:
        if arrivals and world.clock.monotonic() > 10:
            world.write(arrivals.pop(0))

    world.moves.append(arrive)
    outcome = follow(world, seconds=40)
    world.check()
    assert outcome.records == 4
    assert outcome.batches in (2, 3)


def test_following_does_not_anchor_before_the_age() -> None:
    world = filled(b"one")
    outcome = follow(world, seconds=30, limits=replace(LIMITS, max_age=60.0))
    assert outcome.batches == 0


def test_following_an_empty_log_waits_for_its_first_message() -> None:
    world = World(partitions=2)
    arrivals = [(5.0, b"0"), (15.0, b"1"), (25.0, b"2"), (35.0, b"3")]

    def arrive() -> None:
        if arrivals and world.clock.monotonic() > arrivals[0][0]:
            world.write(arrivals.pop(0)[1])

    world.moves.append(arrive)
    outcome = follow(world, seconds=80)
    world.check()
    assert outcome.records == 4


def test_a_chain_that_is_down_for_an_hour_is_waited_for_in_few_words(caplog) -> None:
    world = filled()
    world.chain.down = True

    def repair() -> None:
        if world.clock.monotonic() > 3_600:
            world.chain.down = False

    world.moves.append(repair)
    with caplog.at_level(logging.INFO, "provenance.batcher"):
        outcome = follow(world, seconds=4_000)
    world.check()
    assert outcome.records == 12
    assert sum("tried again" in line for line in caplog.messages) == 1


def test_a_chain_that_goes_down_under_way_is_told_once_each_way(caplog) -> None:
    world = filled(automine=False)
    world.moves.append(lambda: setattr(world.chain, "down", 2 < world.clock.monotonic() < 500))
    mine = world.chain.mine
    world.chain.mine = lambda: None if world.chain.down else mine()
    with caplog.at_level(logging.INFO, "provenance.batcher"):
        follow(world, seconds=1_000)
    world.chain.mine = mine
    world.run()
    world.check()
    told = [line for line in caplog.messages if "tried again" in line or "goes on" in line]
    assert len(told) == 2


def test_stopping_does_not_wait_for_a_stream_to_open() -> None:
    world = filled(automine=False)
    world.chain.mine = lambda: None
    assert follow(world, seconds=5).batches == 0
    assert [entry.purpose for entry in world.journals[PUBLISHER].entries()] == ["open"]
    del world.chain.mine
    world.run()
    world.check()


def test_stopping_leaves_what_is_under_way_to_the_next_start() -> None:
    world = filled(automine=False)
    world.chain.mine, mine = (lambda: mine() if not world.chain.openings() else None), world.chain.mine
    outcome = follow(world, seconds=30)
    assert outcome.batches == 0
    assert [entry.purpose for entry in world.journals[PUBLISHER].entries()] == ["anchor"]
    world.chain.mine = mine
    world.run()
    world.check()


def test_the_embedded_chain_made_anew_under_a_running_batcher_is_anchored_again() -> None:
    world = filled(embedded=True)
    anew = FakeChain()

    def replace_chain() -> None:
        if world.clock.monotonic() > 10 and world.chain._blocks:
            world.chain._blocks.clear()
            world.chain._state = anew._state
            world.write(b"more")
            world.moves.clear()

    world.moves.append(replace_chain)
    outcome = follow(world, seconds=60)
    world.check()
    assert outcome.records == 13
    assert [(part.first, part.last) for part in outcome.again] == [(1, 3)]


def test_another_chain_made_anew_under_a_running_batcher_stops_it() -> None:
    world = filled()

    def set_back() -> None:
        if world.clock.monotonic() > 10 and not world.moves_done:
            world.moves_done = True
            world.chain.reorganise(2, drop=True)
            world.write(b"more")

    world.moves_done = False
    world.moves.append(set_back)
    with pytest.raises(VerificationError) as caught:
        follow(world, seconds=60)
    assert caught.value.reason == "chain-behind"


def test_a_log_that_was_rewritten_stops_a_running_batcher() -> None:
    world = filled()

    def rewrite() -> None:
        if world.clock.monotonic() > 10:
            world.log.rewrite(0, 11, b"other")
            world.write(b"more")
            world.moves.clear()

    world.moves.append(rewrite)
    with pytest.raises(VerificationError) as caught:
        follow(world, seconds=60)
    assert caught.value.reason == "log-rewritten"
