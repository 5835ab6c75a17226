"""The journal's rules (steps 0 and 7): what each answer of a node means for each entry."""

from __future__ import annotations

import pytest

from provenance.core.batcher import Account, Ending, Nonces, next_nonce, settle
from provenance.core.transactions import JournalEntry, SignedTransaction, TxState


def entry(nonce: int) -> JournalEntry:
    return JournalEntry(SignedTransaction(nonce, b"%032d" % nonce, b"raw"), "anchor", bytes(32), nonce)


def look(states: dict[int, TxState], mined: int, final: int | None = None, *, account=None, now=0.0):
    entries = [entry(nonce) for nonce in sorted(states, reverse=True)]
    found = {entry(nonce).transaction.hash: state for nonce, state in states.items()}
    nonces = Nonces(mined, mined if final is None else final)
    return settle(account or Account(60.0), entries, found, nonces=nonces, now=now)


@pytest.mark.parametrize(
    ("state", "mined", "final", "ending", "resent"),
    [
        (TxState.FINAL, 6, 6, Ending.FINAL, False),
        (TxState.REVERTED, 6, 6, Ending.REVERTED, False),
        (TxState.MINED, 6, 5, None, False),
        (TxState.PENDING, 5, 5, None, False),
        (TxState.UNKNOWN, 5, 5, None, True),  # lost, or reorganised out: the same bytes again
        (TxState.UNKNOWN, 6, 6, Ending.SPENT, False),
        (TxState.UNKNOWN, 6, 5, None, False),  # spent otherwise, but that may be reorganised out yet
        (TxState.UNKNOWN, 4, 4, None, True),  # below: the chain may be reorganising
    ],
)
def test_one_entry(state, mined, final, ending, resent) -> None:
    _, settlement = look({5: state}, mined, final)
    assert settlement.ended == (((entry(5), ending),) if ending else ())
    assert settlement.resend == ((entry(5),) if resent else ())


def test_the_lowest_nonce_comes_first() -> None:
    _, settlement = look({7: TxState.UNKNOWN, 5: TxState.UNKNOWN, 6: TxState.UNKNOWN}, 5)
    assert [found.transaction.nonce for found in settlement.resend] == [5, 6, 7]


def test_a_nonce_that_stays_below_the_lowest_entry_drops_them_all() -> None:
    states = {7: TxState.UNKNOWN, 8: TxState.PENDING}
    account, settlement = look(states, 5, now=100.0)
    assert settlement.ended == ()
    account, settlement = look(states, 6, account=account, now=159.9)
    assert settlement.ended == ()
    account, settlement = look(states, 6, account=account, now=160.0)
    assert settlement.ended == ((entry(7), Ending.GAP), (entry(8), Ending.GAP))
    assert settlement.resend == ()
    assert account == Account(60.0)


def test_a_nonce_that_catches_up_drops_nothing() -> None:
    account, _ = look({7: TxState.UNKNOWN}, 6, now=0.0)
    account, _ = look({7: TxState.UNKNOWN}, 7, account=account, now=59.0)
    _, settlement = look({7: TxState.UNKNOWN}, 6, account=account, now=61.0)
    assert settlement.ended == ()


def test_without_patience_they_are_dropped_at_once() -> None:
    _, settlement = look({7: TxState.UNKNOWN}, 6, account=Account(0.0))
    assert settlement.ended == ((entry(7), Ending.GAP),)


def test_an_empty_journal_is_never_below() -> None:
    account, settlement = look({}, 0, account=Account(0.0))
    assert (account, settlement.ended, settlement.resend) == (Account(0.0), (), ())


def test_the_next_nonce_follows_account_and_journal() -> None:
    assert next_nonce([], 5) == 5
    assert next_nonce([entry(5), entry(6)], 5) == 7
    assert next_nonce([entry(3)], 5) == 5
