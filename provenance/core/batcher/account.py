"""The transactions of one account, from signing to their end (steps 0 and 7).

A journal holds what the process has signed and not yet seen final. It is never needed for safety: whatever
happens to it, the contract takes only a batch that continues the head. It saves gas and time, and it keeps
one account's nonces in one sequence.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

from provenance.core.transactions import JournalEntry, TxState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Account", "Ending", "Nonces", "Settlement", "next_nonce", "settle"]


class Ending(enum.Enum):
    """How a journalled transaction ended; every one of them means: forget the entry, read the head anew."""

    FINAL = "final"
    """It is mined and final by the chain's own rule."""
    REVERTED = "reverted"
    """The contract refused it, finally: the head had moved, or the key may not anchor."""
    SPENT = "spent"
    """Its nonce was spent by another transaction, at final depth."""
    GAP = "gap"
    """The account's nonce stays below it: it can never be mined. The chain was set back."""


@dataclass(frozen=True, slots=True)
class Nonces:
    """The account's next nonce by mined transactions, and by final ones; asked before the hashes are.

    In this order a hash that is unknown although the final nonce is above its own was surely displaced.
    """

    mined: int
    final: int


@dataclass(frozen=True, slots=True)
class Account:
    """What is remembered between two looks: since when the nonce has been below our lowest entry.

    ``patience`` is how many seconds it may stay there; the chain may be reorganising.
    """

    patience: float
    below_since: float | None = None


@dataclass(frozen=True, slots=True)
class Settlement:
    """What one look at the journal says: entries that ended, and those to send again, by ascending nonce."""

    ended: tuple[tuple[JournalEntry, Ending], ...]
    resend: tuple[JournalEntry, ...]


def settle(
    account: Account,
    entries: Sequence[JournalEntry],
    states: Mapping[bytes, TxState],
    *,
    nonces: Nonces,
    now: float,
) -> tuple[Account, Settlement]:
    """Judge every entry by what the node says of its hash.

    Args:
        account: what was remembered.
        entries: the account's journal.
        states: by transaction hash, looked up after the nonces.
        nonces: the account's.
        now: seconds of a monotonic clock.
    """
    entries = sorted(entries, key=lambda entry: entry.transaction.nonce)
    lowest = min((entry.transaction.nonce for entry in entries), default=0)
    below = bool(entries) and nonces.mined < lowest
    since = (now if account.below_since is None else account.below_since) if below else None
    account = Account(account.patience, since)
    if since is not None and now - since >= account.patience:
        # All of them: one signed anew above a kept one would leave the gap where it is.
        return Account(account.patience), Settlement(tuple((entry, Ending.GAP) for entry in entries), ())
    judged = [(entry, _ending(entry, states[entry.transaction.hash], nonces)) for entry in entries]
    return account, Settlement(
        tuple((entry, ending) for entry, ending in judged if ending is not None),
        tuple(
            entry
            for entry, ending in judged
            if ending is None
            and states[entry.transaction.hash] is TxState.UNKNOWN
            and entry.transaction.nonce >= nonces.mined
        ),
    )


def _ending(entry: JournalEntry, state: TxState, nonces: Nonces) -> Ending | None:
    if state is TxState.FINAL:
        return Ending.FINAL
    if state is TxState.REVERTED:
        return Ending.REVERTED
    if state is TxState.UNKNOWN and nonces.final > entry.transaction.nonce:
        return Ending.SPENT
    return None


def next_nonce(entries: Sequence[JournalEntry], mined: int) -> int:
    """The nonce to sign with: the account's, or the one after our highest entry."""
    return max([mined, *(entry.transaction.nonce + 1 for entry in entries)])
