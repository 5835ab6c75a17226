"""What befalls the fakes, and how faults meet calls."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from provenance.core.streams import NO_PREDECESSOR
from provenance.errors import ConfigError, UnavailableError
from provenance.ports import AnchorCall, Bounds, OpenCall, TxState
from provenance.testing.fakes import FakeChain, FakeClock, FakeLog, FakeStore
from provenance.testing.faults import Crash, Fault, Faults, faulty

if TYPE_CHECKING:
    from collections.abc import Callable

    from provenance.ports import SignedTransaction
    from provenance.testing.fakes import FakeAccount

GOVERNANCE, PUBLISHER = b"\x01" * 20, b"\x02" * 20


# The log


@pytest.fixture
def log() -> FakeLog:
    log = FakeLog()
    log.append([(b"k", b"%d" % n) for n in range(5)])
    return log


def test_a_cut_log_goes_on_from_the_cut_under_another_leader(log: FakeLog) -> None:
    log.truncate(0, 3)
    assert log.bounds(0) == Bounds(0, 3)
    log.append([(b"k", b"new")])
    assert [(m.offset, m.value, m.leader_epoch) for m in log.read(0, 2, 9)] == [(2, b"2", 0), (3, b"new", 1)]


def test_retention_moves_the_start(log: FakeLog) -> None:
    log.trim(0, 2)
    assert log.bounds(0) == Bounds(2, 5)
    assert [message.offset for message in log.read(0, 0, 2)] == [2, 3]
    log.trim(0, 9)
    assert log.bounds(0) == Bounds(9, 9)


def test_skipped_offsets_hold_no_message(log: FakeLog) -> None:
    log.skip(0, 2)
    log.append([(b"k", b"after")])
    assert [message.offset for message in log.read(0, 4, 9)] == [4, 7]
    assert log.bounds(0) == Bounds(0, 8)


def test_a_log_made_anew_has_another_topic_id_and_begins_at_0(log: FakeLog) -> None:
    before = log.identities()[0]
    log.recreate()
    (after,) = log.identities()
    assert (after.cluster_id, after.topic) == (before.cluster_id, before.topic)
    assert after.topic_id != before.topic_id
    assert log.bounds(0) == Bounds(0, 0)


def test_a_rewritten_message_has_other_bytes(log: FakeLog) -> None:
    log.rewrite(0, 2, b"other")
    assert log.read(0, 2, 1)[0].value == b"other"


def test_partitions_are_by_key() -> None:
    log = FakeLog(3)
    places = log.append([(b"%d" % n, b"") for n in range(50)])
    assert {partition for partition, _ in places} == {0, 1, 2}
    assert log.append([(b"7", b"")])[0][0] == places[7][0]
    with pytest.raises(ConfigError):
        log.bounds(3)


def test_the_clock_goes_on_when_it_is_slept_upon() -> None:
    clock = FakeClock(dt.datetime(2026, 1, 1, tzinfo=dt.UTC))
    clock.sleep(90)
    clock.sleep(-5)
    assert clock.monotonic() == 90
    assert clock.now() == dt.datetime(2026, 1, 1, 0, 1, 30, tzinfo=dt.UTC)


# The chain


class World:
    """A chain with one stream, and what it takes to anchor in it."""

    def __init__(self, depth: int = 0) -> None:
        self.chain = FakeChain.with_contract(GOVERNANCE, PUBLISHER, depth=depth)
        self.governance = self.chain.account(GOVERNANCE)
        self.publisher = self.chain.account(PUBLISHER)
        self.send(self.governance, OpenCall(b"b" * 32, 0, NO_PREDECESSOR))
        ((self.stream, _, _),) = self.chain.openings()

    def send(self, account: FakeAccount, call: AnchorCall | OpenCall) -> SignedTransaction:
        transaction = account.sign(call, account.nonce())
        account.send(transaction.raw)
        return transaction

    def next_call(self, root: bytes = b"r" * 32) -> AnchorCall:
        head = self.chain.head(self.stream)
        assert head is not None
        first = head.next_offset
        return AnchorCall(self.stream, head.seq + 1, head.acc, first, first + 2, 2, root, b"m" * 32)

    def seq(self) -> int:
        head = self.chain.head(self.stream)
        assert head is not None
        return head.seq


def test_a_block_is_final_so_many_blocks_later() -> None:
    world = World(depth=2)
    transaction = world.send(world.publisher, world.next_call())
    states = []
    for _ in range(3):
        states.append(world.publisher.state(transaction.hash))
        world.chain.mine()
    assert states == [TxState.MINED, TxState.MINED, TxState.FINAL]


def test_a_reverted_transaction_is_mined_until_it_is_final() -> None:
    world = World(depth=1)
    transaction = world.send(world.publisher, replace(world.next_call(), seq=7))
    assert world.publisher.state(transaction.hash) is TxState.MINED
    world.chain.mine()
    assert world.publisher.state(transaction.hash) is TxState.REVERTED


def test_a_reorganisation_takes_the_anchor_off_and_its_transaction_waits() -> None:
    world = World(depth=3)
    transaction = world.send(world.publisher, world.next_call())
    before = next(world.chain.anchors(world.stream))
    world.chain.reorganise(1)
    assert world.seq() == 0
    assert world.publisher.state(transaction.hash) is TxState.PENDING
    assert world.publisher.nonce() == transaction.nonce
    world.chain.mine()
    (after,) = world.chain.anchors(world.stream)
    assert after.acc == before.acc
    assert after.block_hash != before.block_hash


def test_a_chain_set_back_forgets_the_transaction() -> None:
    world = World()
    transaction = world.send(world.publisher, world.next_call())
    world.chain.reorganise(1, drop=True)
    assert world.publisher.state(transaction.hash) is TxState.UNKNOWN
    assert world.seq() == 0


def test_a_set_back_far_enough_forgets_the_contract() -> None:
    world = World()
    world.chain.reorganise(3, drop=True)
    assert world.chain.identity().contract is None
    assert world.chain.openings() == ()
    assert world.chain.head(world.stream) is None
    again = World()
    assert again.stream == world.stream  # the deployer's first transaction again gives the same names


def test_the_pool_keeps_what_waits_and_may_lose_it() -> None:
    world = World()
    world.chain.automine = False
    transaction = world.send(world.publisher, world.next_call())
    assert world.publisher.state(transaction.hash) is TxState.PENDING
    assert world.seq() == 0
    world.chain.forget_pending()
    assert world.publisher.state(transaction.hash) is TxState.UNKNOWN
    world.publisher.send(transaction.raw)
    world.chain.mine()
    assert world.seq() == 1


def test_a_revoked_publisher_and_a_closed_stream_take_repeats_only() -> None:
    for closed in (False, True):
        world = World()
        first = world.next_call()
        world.send(world.publisher, first)
        if closed:
            world.chain.close(world.stream)
        else:
            world.chain.revoke(PUBLISHER)
        again = world.send(world.publisher, first)
        refused = world.send(world.publisher, world.next_call())
        assert world.publisher.state(again.hash) is TxState.FINAL
        assert world.publisher.state(refused.hash) is TxState.REVERTED


def test_a_chain_that_is_down_answers_nothing() -> None:
    world = World()
    call = world.next_call()
    world.chain.down = True
    calls: list[Callable[[], object]] = [
        world.chain.identity,
        world.chain.openings,
        lambda: world.chain.head(world.stream),
        lambda: list(world.chain.anchors(world.stream)),
        world.publisher.nonce,
        lambda: world.publisher.state(bytes(32)),
        lambda: world.publisher.send(world.publisher.sign(call, 0).raw),
    ]
    for ask in calls:
        with pytest.raises(UnavailableError, match="down"):
            ask()


def test_the_final_nonce_counts_final_blocks() -> None:
    world = World(depth=1)
    world.chain.mine()
    transaction = world.send(world.publisher, world.next_call())
    assert (world.publisher.nonce(), world.publisher.nonce(final=True)) == (transaction.nonce + 1, 0)
    world.chain.mine()
    assert world.publisher.nonce(final=True) == transaction.nonce + 1


def test_without_a_contract_a_call_succeeds_and_does_nothing() -> None:
    chain = FakeChain()
    account = chain.account(GOVERNANCE)
    transaction = account.sign(OpenCall(b"b" * 32, 0, NO_PREDECESSOR), 0)
    account.send(transaction.raw)
    assert account.state(transaction.hash) is TxState.FINAL
    assert chain.openings() == ()


# Faults


def test_a_failed_call_did_nothing_and_a_lost_one_did() -> None:
    faults = Faults()
    log = faulty(FakeLog(), "log", faults)
    faults.on("log.append", Fault.FAILED)
    faults.on("log.append", Fault.LOST)
    for expected in (0, 1):
        with pytest.raises(UnavailableError):
            log.append([(b"k", b"v")])
        assert log.bounds(0).end == expected
    assert log.append([(b"k", b"v")]) == ((0, 1),)


@pytest.mark.parametrize(("fault", "done"), [(Fault.CRASH_BEFORE, False), (Fault.CRASH_AFTER, True)])
def test_a_crash_is_no_exception_that_code_may_catch(fault: Fault, done: bool) -> None:
    faults, inner = Faults(), FakeStore()
    store = faulty(inner, "store", faults)
    faults.on("store.put", fault)
    with pytest.raises(Crash):
        store.put("a", b"")
    assert not issubclass(Crash, Exception)
    assert ("a" in inner.objects) is done


def test_calls_are_counted_over_all_ports() -> None:
    faults = Faults()
    log, store = faulty(FakeLog(), "log", faults), faulty(FakeStore(), "store", faults)
    faults.at(2, Fault.FAILED)
    log.identities()
    store.get("a")
    with pytest.raises(UnavailableError, match=r"store\.get"):
        store.get("a")
    store.get("a")
    assert faults.calls == ["log.identities", "store.get", "store.get", "store.get"]


def test_faults_can_be_arranged_several_times_and_cleared() -> None:
    faults = Faults()
    store = faulty(FakeStore(), "store", faults)
    faults.on("store.get", Fault.FAILED, times=3)
    for _ in range(2):
        with pytest.raises(UnavailableError):
            store.get("a")
    faults.clear()
    assert store.get("a") is None


def test_what_is_no_method_is_handed_through() -> None:
    chain = faulty(FakeChain(chain_id=5), "chain", Faults())
    assert chain.chain_id == 5
