"""One account's transactions: signed, journalled, sent, and followed to their end.

The rules are `provenance.core.batcher.account`'s; this module asks the node and the journal. Two accounts
share a journal: the publisher's entries have the purpose ``"anchor"``, the governance key's ``"open"``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from provenance.core.batcher import Account, Ending, Nonces, next_nonce, settle
from provenance.core.transactions import JournalEntry, TxState
from provenance.errors import ConfigError, PendingError, VerificationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from provenance.core.transactions import SignedTransaction
    from provenance.ports import Call, Clock, Journal, Transactor

__all__ = ["Sender"]

SHORTEST_WAIT = 0.02
LONGEST_WAIT = 1.0
_NO_STREAM = bytes(32)


class Sender:
    """An account with its part of the journal.

    Args:
        transactor: the account.
        journal: where its signed transactions are kept.
        clock: the time.
        purpose: which of the journal's entries are this account's.
        stop: asked while transactions are waited for; see `until`.
        patience: how many seconds the account's nonce may stay below the journal's lowest entry before all
            entries are dropped and signed anew; 0 where blocks do not come back (the embedded chain).
        reserved: so many nonces, from 0 on, belong to `attempt`; see `above`.
    """

    def __init__(
        self,
        transactor: Transactor,
        journal: Journal,
        clock: Clock,
        *,
        purpose: str = "anchor",
        patience: float = 60.0,
        stop: Callable[[], bool] = lambda: False,
        reserved: int = 0,
    ) -> None:
        self._transactor = transactor
        self._journal = journal
        self._clock = clock
        self._purpose = purpose
        self._stop = stop
        self._reserved = reserved
        self._account = Account(patience)
        self._dropped: set[bytes] = set()

    def until(self, stop: Callable[[], bool]) -> Sender:
        """The same account, which waits for no transaction any more once ``stop`` says so.

        What waits then ends with ``PendingError`` (``reason="stopped"``); the journal has the transaction.
        """
        return self._with(stop, self._reserved)

    def above(self, reserved: int) -> Sender:
        """The same account, whose calls never take the first ``reserved`` nonces.

        Where those set the chain up, and it was set back so far that they are free again, another call must
        not take one: the contract would never stand at its address.
        """
        return self._with(self._stop, reserved)

    def _with(self, stop: Callable[[], bool], reserved: int) -> Sender:
        return Sender(
            self._transactor,
            self._journal,
            self._clock,
            purpose=self._purpose,
            patience=self._account.patience,
            stop=stop,
            reserved=reserved,
        )

    def entries(self) -> list[JournalEntry]:
        """The account's journal, lowest nonce first."""
        return [entry for entry in self._journal.entries() if entry.purpose == self._purpose]

    def nonce(self) -> int:
        """How many of the account's transactions were mined."""
        return self._transactor.nonce()

    def is_final(self, tx_hash: bytes) -> bool:
        """Whether a transaction, of whomever, is final by the chain's own rule."""
        return self._transactor.state(tx_hash) is TxState.FINAL

    def sign(self, call: Call) -> SignedTransaction:
        """Sign a call with the next nonce: the account's own, or the one behind the journal's last."""
        return self._transactor.sign(call, next_nonce(self.entries(), self._transactor.nonce()))

    def keep(self, entry: JournalEntry) -> None:
        """Journal an entry, synced."""
        self._journal.record(entry)

    def send(self, transaction: SignedTransaction) -> None:
        """Send a transaction's bytes."""
        self._transactor.send(transaction.raw)

    def forget(self, transaction: SignedTransaction) -> None:
        """Drop a transaction's entry."""
        self._journal.forget(transaction.hash)
        self._dropped.discard(transaction.hash)

    def settle(self) -> dict[bytes, Ending]:
        """Look at every entry once, send again what is unknown, and say which have ended, by hash.

        What can never be mined is forgotten here, all of it at once: an entry that stayed would keep the gap
        in the nonces. Other entries are the caller's to forget, when their streams have been seen to.
        """
        entries = self.entries()
        endings = {}
        if entries:
            # The nonces first: see `Nonces`.
            nonces = Nonces(self._transactor.nonce(), self._transactor.nonce(final=True))
            states = {
                entry.transaction.hash: self._transactor.state(entry.transaction.hash) for entry in entries
            }
            self._account, settlement = settle(
                self._account, entries, states, nonces=nonces, now=self._clock.monotonic()
            )
            for entry in settlement.resend:
                self.send(entry.transaction)
            endings = {entry.transaction.hash: ending for entry, ending in settlement.ended}
            for tx_hash in [tx_hash for tx_hash, ending in endings.items() if ending is Ending.GAP]:
                self._journal.forget(tx_hash)
                self._dropped.add(tx_hash)
        return endings | dict.fromkeys(self._dropped, Ending.GAP)

    def settle_all(self) -> None:
        """Wait until every entry has ended, and forget them; step 0 of whoever sends one after another."""
        wait = SHORTEST_WAIT
        while self.entries():
            endings = self.settle()
            for entry in self.entries():
                if entry.transaction.hash in endings:
                    self.forget(entry.transaction)
            if not endings:
                wait = self._pause(wait)
        self._dropped.clear()

    def complete(self, call: Call, what: str, *, stream: bytes = _NO_STREAM, seq: int = 0) -> None:
        """Sign, journal and send a call, and wait until it is final.

        Args:
            call: what to call.
            what: what it does, for messages: ``"opening the stream"``.
            stream: the stream that it concerns.
            seq: the batch's number.

        Raises:
            ConfigError: the contract refused it (``reason="refused"``).
            VerificationError: the chain was set back below what set it up (``reason="chain-behind"``).
        """
        is_final = False
        while not is_final:
            transaction = self.sign(call)
            if transaction.nonce < self._reserved:
                raise VerificationError(
                    f"{what}: the chain was set back: the account's next nonce is {transaction.nonce}, but"
                    f" its first {self._reserved} transactions had set the chain up",
                    reason="chain-behind",
                    remedy="Call the same command again: it begins with what the chain lost.",
                )
            is_final = self._follow(JournalEntry(transaction, self._purpose, stream, seq), what)

    def attempt(self, call: Call, what: str, *, nonce: int) -> bool:
        """As `complete`, with this nonce and no other; False if it was not this call that took it."""
        transaction = self._transactor.sign(call, nonce)
        return self._follow(JournalEntry(transaction, self._purpose, _NO_STREAM, 0), what)

    def _follow(self, entry: JournalEntry, what: str) -> bool:
        self.keep(entry)
        self.send(entry.transaction)
        ending = self._await(entry.transaction)
        self.forget(entry.transaction)
        if ending is Ending.REVERTED:
            raise ConfigError(
                f"{what}: the contract refused it",
                reason="refused",
                remedy="See whether the key has the role that this needs, and was not revoked.",
            )
        return ending is Ending.FINAL

    def _await(self, transaction: SignedTransaction) -> Ending:
        wait = SHORTEST_WAIT
        while (ending := self.settle().get(transaction.hash)) is None:
            wait = self._pause(wait)
        return ending

    def _pause(self, seconds: float) -> float:
        """Wait, and say how long to wait the next time."""
        if self._stop():
            raise PendingError(
                "a transaction is not final yet, and waiting for it was stopped",
                reason="stopped",
                remedy="Call the same command again: it goes on where this one stopped.",
            )
        self._clock.sleep(seconds)
        return min(LONGEST_WAIT, seconds * 2)
