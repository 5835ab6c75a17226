"""One account's transactions, from signing to their end, under answers that get lost."""

from __future__ import annotations

import pytest

from provenance.core.batcher import Ending
from provenance.core.transactions import JournalEntry
from provenance.errors import ConfigError, PendingError, UnavailableError
from provenance.ports import OpenCall, SetKeyCall
from provenance.services.sending import Sender
from provenance.testing.faults import Crash, Fault, Faults, faulty
from tests.services.batcher_world import GOVERNANCE, PUBLISHER, World

CALL = OpenCall(b"b" * 32, 0, bytes(32))


def owner(world: World, faults: Faults | None = None, **changes) -> Sender:
    faults = faults or Faults()
    account = faulty(world.chain.account(GOVERNANCE), "account", faults)
    journal = faulty(world.journals[PUBLISHER], "journal", faults)
    return Sender(account, journal, world.clock, **{"purpose": "open", **changes})


def test_a_call_is_final_and_forgotten_when_it_returns() -> None:
    world = World(depth=2, automine=False)
    sender = owner(world)
    sender.complete(CALL, "opening")
    assert len(world.chain.openings()) == 1
    assert sender.entries() == []


def test_accounts_in_one_journal_do_not_see_each_other() -> None:
    world = World()
    transaction = world.chain.account(PUBLISHER).sign(CALL, 0)
    world.journals[PUBLISHER].record(JournalEntry(transaction, "anchor", bytes(32), 0))
    sender = owner(world)
    assert sender.entries() == []
    sender.settle_all()
    assert len(world.journals[PUBLISHER].entries()) == 1


def test_what_the_contract_refuses_is_said_and_forgotten() -> None:
    world = World()
    sender = owner(world)
    with pytest.raises(ConfigError, match="enrolling: the contract refused it") as caught:
        sender.complete(SetKeyCall(b"k" * 20, 99), "enrolling")
    assert (caught.value.reason, bool(caught.value.remedy)) == ("refused", True)
    assert sender.entries() == []


@pytest.mark.parametrize("fault", Fault)
def test_any_one_fault_opens_one_stream(fault: Fault) -> None:
    counter = Faults()
    owner(World(), counter).complete(CALL, "opening")
    for number in range(len(counter.calls)):
        world, faults = World(), Faults()
        faults.at(number, fault)
        for _ in range(3):
            try:
                sender = owner(world, faults)
                sender.settle_all()
                sender.complete(CALL, "opening")
                break
            except (Crash, UnavailableError):
                continue
        assert len(world.chain.openings()) == 1
        assert world.journals[PUBLISHER].entries() == ()


def test_a_transaction_that_was_reorganised_out_is_sent_again() -> None:
    world = World(depth=2, automine=False)
    done = []

    def lose() -> None:
        if not done and world.chain.openings():
            done.append(True)
            world.reorganise(1, drop=True)

    world.moves.append(lose)
    owner(world).complete(CALL, "opening")
    assert done
    assert len(world.chain.openings()) == 1


def test_a_nonce_that_was_spent_otherwise_is_signed_anew() -> None:
    world = World(depth=1, automine=False)
    sender = owner(world)
    transaction = sender.sign(CALL)
    sender.keep(JournalEntry(transaction, "open", bytes(32), 0))
    account = world.chain.account(GOVERNANCE)
    account.send(account.sign(SetKeyCall(b"k" * 20, 2), transaction.nonce).raw)
    world.chain.mine()
    assert sender.settle() == {}, "spent, but not at final depth"
    world.chain.mine()
    assert sender.settle() == {transaction.hash: Ending.SPENT}
    sender.settle_all()
    sender.complete(CALL, "opening")
    assert len(world.chain.openings()) == 1


@pytest.mark.parametrize("patience", [0.0, 60.0])
def test_a_chain_that_was_set_back_drops_the_whole_journal(patience: float) -> None:
    world = World()
    sender = owner(world, patience=patience)
    for step in (5, 6):
        transaction = world.chain.account(GOVERNANCE).sign(CALL, sender.nonce() + step)
        sender.keep(JournalEntry(transaction, "open", bytes(32), 0))
    started = world.clock.monotonic()
    sender.settle_all()
    assert sender.entries() == []
    assert world.clock.monotonic() - started >= patience
    sender.complete(CALL, "opening")
    assert len(world.chain.openings()) == 1


def test_what_was_dropped_is_told_until_it_is_forgotten() -> None:
    world = World()
    sender = owner(world, patience=0.0)
    transaction = world.chain.account(GOVERNANCE).sign(CALL, 99)
    sender.keep(JournalEntry(transaction, "open", bytes(32), 0))
    assert sender.settle() == {transaction.hash: Ending.GAP}
    assert sender.entries() == []
    assert sender.settle() == {transaction.hash: Ending.GAP}
    sender.forget(transaction)
    assert sender.settle() == {}


def test_waiting_ends_when_it_is_told_to() -> None:
    world = World(automine=False)
    world.chain.mine = lambda: None
    sender = owner(world).until(lambda: world.clock.monotonic() > 5)
    with pytest.raises(PendingError) as caught:
        sender.complete(CALL, "opening")
    assert caught.value.reason == "stopped"
    with pytest.raises(PendingError):
        sender.settle_all()
    assert len(sender.entries()) == 1, "the next start goes on with it"
