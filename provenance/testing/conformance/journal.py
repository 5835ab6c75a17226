"""What every `Journal` does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import pytest

from provenance.ports import Journal, JournalEntry, SignedTransaction

__all__ = ["JournalConformance"]

Open: TypeAlias = Callable[[], Journal]


def entry(nonce: int, name: bytes = b"") -> JournalEntry:
    """An entry whose hash comes of its nonce and a name."""
    tx_hash = (b"%d %b" % (nonce, name)).ljust(32, b"#")
    return JournalEntry(SignedTransaction(nonce, tx_hash, b"\x02" + tx_hash), "anchor", b"s" * 32, nonce + 1)


class JournalConformance:
    """Fill in ``open_journal``."""

    @pytest.fixture
    def open_journal(self) -> Open:
        raise NotImplementedError

    def test_a_new_journal_is_empty(self, open_journal: Open) -> None:
        assert list(open_journal().entries()) == []

    def test_entries_come_lowest_nonce_first_to_any_handle(self, open_journal: Open) -> None:
        journal = open_journal()
        for nonce in (10, 9, 100, 0):
            journal.record(entry(nonce))
        assert list(open_journal().entries()) == [entry(nonce) for nonce in (0, 9, 10, 100)]

    def test_two_transactions_of_one_nonce_both_stay(self, open_journal: Open) -> None:
        journal = open_journal()
        journal.record(entry(1, b"z"))
        journal.record(entry(1, b"a"))
        assert list(journal.entries()) == [entry(1, b"z"), entry(1, b"a")]

    def test_an_entry_recorded_again_stands_once(self, open_journal: Open) -> None:
        journal = open_journal()
        journal.record(entry(1))
        journal.record(entry(1))
        opening = replace(entry(1), purpose="open", seq=0)
        journal.record(opening)
        assert list(journal.entries()) == [opening]

    def test_what_is_forgotten_is_gone_and_the_rest_stays(self, open_journal: Open) -> None:
        journal = open_journal()
        journal.record(entry(1))
        journal.record(entry(2))
        journal.forget(entry(1).transaction.hash)
        assert list(open_journal().entries()) == [entry(2)]

    def test_forgetting_what_is_unknown_is_no_error(self, open_journal: Open) -> None:
        journal = open_journal()
        journal.forget(bytes(32))
        assert list(journal.entries()) == []
