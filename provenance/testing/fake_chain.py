"""A chain in memory with the ledger contract's rules (`spec/anchoring.md`, "Contract").

Blocks are lists of transactions, and the contract's state is what replaying them gives, so a reorganisation
takes blocks off and the state follows. Transactions are JSON and their hashes SHA-256; nothing is signed.
With ``automine`` each is mined when it is sent, as anvil does; a block is final ``depth`` blocks later.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from provenance.errors import UnavailableError
from provenance.ports import (
    AnchorCall,
    Call,
    ChainIdentity,
    CloseCall,
    DeployCall,
    ListRecordKeyCall,
    OpenCall,
    SetKeyCall,
    SignedTransaction,
    TxState,
)
from provenance.testing.fake_ledger import PUBLISHER, Block, LedgerState, Reverted, Transaction, execute

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from provenance.core.streams import Opening
    from provenance.ports import Anchor, Head

__all__ = ["FakeAccount", "FakeChain"]

_CALLS: dict[str, Callable[..., Call]] = {
    call.__name__: call
    for call in (AnchorCall, OpenCall, CloseCall, DeployCall, SetKeyCall, ListRecordKeyCall)
}
_CODE_HASH = hashlib.sha256(b"the fake contract's code").digest()


class FakeChain:
    """A `ChainReader`; its accounts are `Transactor` objects.

    Args:
        chain_id: the chain's id.
        depth: how many blocks must follow one before it is final.
        automine: mine each transaction when it is sent.
    """

    def __init__(self, *, chain_id: int = 31_337, depth: int = 0, automine: bool = True) -> None:
        self.chain_id = chain_id
        self.depth = depth
        self.automine = automine
        self.down = False
        self._forks = 0
        self._blocks: list[Block] = []
        self._pool: list[Transaction] = []
        self._state = LedgerState()

    @classmethod
    def with_contract(
        cls, governance: bytes, publisher: bytes, *, chain_id: int = 31_337, depth: int = 0
    ) -> FakeChain:
        """A chain on which the contract stands, with one organisation and its two 20-byte accounts."""
        chain = cls(chain_id=chain_id, depth=depth)
        owner = chain.account(governance)
        calls: tuple[Call, ...] = (DeployCall("organisation", governance), SetKeyCall(publisher, PUBLISHER))
        for nonce, call in enumerate(calls):
            owner.send(owner.sign(call, nonce).raw)
        for _ in range(depth):
            chain.mine()
        return chain

    def account(self, address: bytes) -> FakeAccount:
        """The account of a 20-byte address."""
        return FakeAccount(self, address)

    # The ChainReader.

    def identity(self) -> ChainIdentity:
        """The chain and its contract."""
        self.require_up()
        contract = self._state.contract
        genesis = hashlib.sha256(b"genesis" + self.chain_id.to_bytes(32, "big")).digest()
        return ChainIdentity(self.chain_id, genesis, contract, _CODE_HASH if contract else None, "fake")

    def openings(self, binding: bytes | None = None) -> Sequence[tuple[bytes, Opening, int]]:
        """Every stream opened, oldest first."""
        self.require_up()
        return tuple(row for row in self._state.openings if binding in (None, row[1].binding))

    def head(self, stream: bytes) -> Head | None:
        """The stream's head."""
        self.require_up()
        return self._state.heads.get(stream)

    def anchors(self, stream: bytes, from_seq: int = 1) -> Iterator[Anchor]:
        """The stream's anchors."""
        self.require_up()
        yield from tuple(anchor for anchor in self._state.anchors.get(stream, ()) if anchor.seq >= from_seq)

    # What befalls chains.

    def mine(self) -> None:
        """Make a block of the pending transactions whose turn it is; of none too."""
        due = self._due()
        mined = {transaction.hash for transaction in due}
        self._pool = [transaction for transaction in self._pool if transaction.hash not in mined]
        self._add(due)

    def reorganise(self, blocks: int, *, drop: bool = False) -> None:
        """Take the last blocks off, final or not; their transactions wait again, unless they are dropped."""
        kept, lost = self._blocks[: len(self._blocks) - blocks], self._blocks[len(self._blocks) - blocks :]
        self._forks += 1
        self._blocks, self._state = [], LedgerState()
        for block in kept:
            self._blocks.append(block)
            self._replay(block)
        if not drop:
            self._pool += [transaction for block in lost for transaction in block.transactions]

    def forget_pending(self) -> None:
        """Drop every pending transaction, as a node that starts again does."""
        self._pool.clear()

    def close(self, stream: bytes) -> None:
        """Close a stream without a transaction; a reorganisation undoes it."""
        self._state.heads[stream] = replace(self._state.heads[stream], closed=True)

    def revoke(self, address: bytes) -> None:
        """Take an account's roles, as its organisation's governance key can; a reorganisation undoes it."""
        self._state.keys[address].roles = 0

    def require_up(self) -> None:
        """Raise ``UnavailableError`` while the chain is down."""
        if self.down:
            raise UnavailableError("the fake chain is down", reason="down", remedy="Set down to False.")

    # What accounts call.

    def submit(self, raw: bytes) -> None:
        """Take a transaction; what is known or too late is passed over."""
        self.require_up()
        transaction = _decode(raw)
        known = any(
            (other.sender, other.nonce) == (transaction.sender, transaction.nonce) for other in self._pool
        )
        if known or transaction.nonce < self._state.nonces.get(transaction.sender, 0):
            return
        self._pool.append(transaction)
        if self.automine and self._due():
            self.mine()

    @property
    def height(self) -> int:
        """How many blocks there are."""
        return len(self._blocks)

    @property
    def has_pending(self) -> bool:
        """Whether a transaction waits for a block."""
        return bool(self._pool)

    def state_of(self, tx_hash: bytes, *, behind: int = 0) -> TxState:
        """What has become of a transaction, for a node that lacks the last ``behind`` blocks."""
        self.require_up()
        height = len(self._blocks) - behind
        number, succeeded = self._state.receipts.get(tx_hash, (height + 1, False))
        if number <= height:
            if height - number < self.depth:
                return TxState.MINED
            return TxState.FINAL if succeeded else TxState.REVERTED
        pending = any(transaction.hash == tx_hash for transaction in self._pool)
        return TxState.PENDING if pending else TxState.UNKNOWN

    def nonce_of(self, address: bytes, *, final: bool, behind: int = 0) -> int:
        """The next nonce of an account, for a node that lacks the last ``behind`` blocks."""
        self.require_up()
        behind += self.depth if final else 0
        if not behind:
            return self._state.nonces.get(address, 0)
        for block in reversed(self._blocks[: max(0, len(self._blocks) - behind)]):
            for item in reversed(block.transactions):
                if item.sender == address:
                    return item.nonce + 1
        return 0

    def _due(self) -> tuple[Transaction, ...]:
        due: list[Transaction] = []
        nonces = dict(self._state.nonces)
        for transaction in sorted(self._pool, key=lambda item: item.nonce):
            if transaction.nonce == nonces.get(transaction.sender, 0):
                nonces[transaction.sender] = transaction.nonce + 1
                due.append(transaction)
        return tuple(due)

    def _add(self, transactions: tuple[Transaction, ...]) -> None:
        number = len(self._blocks) + 1
        parent = self._blocks[-1].hash if self._blocks else bytes(32)
        content = b"".join(transaction.hash for transaction in transactions)
        salt = self._forks.to_bytes(8, "big")
        block = Block(number, hashlib.sha256(parent + salt + content).digest(), transactions)
        self._blocks.append(block)
        self._replay(block)

    def _replay(self, block: Block) -> None:
        logs = 0
        for transaction in block.transactions:
            self._state.nonces[transaction.sender] = transaction.nonce + 1
            try:
                logs += execute(self._state, self.chain_id, block, transaction, logs)
                succeeded = True
            except Reverted:
                succeeded = False
            self._state.receipts[transaction.hash] = (block.number, succeeded)


class FakeAccount:
    """A `Transactor` for one 20-byte address."""

    def __init__(self, chain: FakeChain, address: bytes) -> None:
        self.address = address
        self._chain = chain

    def sign(self, call: Call, nonce: int) -> SignedTransaction:
        """The call's bytes; there is no key."""
        fields = {
            name: value.hex() if isinstance(value, bytes) else value for name, value in asdict(call).items()
        }
        content = {"call": type(call).__name__, "fields": fields, "from": self.address.hex(), "nonce": nonce}
        raw = json.dumps(
            content, sort_keys=True
        ).encode()  # not canonical: a wrong number must reach the contract
        return SignedTransaction(nonce, hashlib.sha256(raw).digest(), raw)

    def send(self, raw: bytes) -> None:
        """Send the bytes."""
        self._chain.submit(raw)

    def state(self, tx_hash: bytes) -> TxState:
        """What has become of a transaction."""
        return self._chain.state_of(tx_hash)

    def nonce(self, *, final: bool = False) -> int:
        """The account's next nonce."""
        return self._chain.nonce_of(self.address, final=final)


def _decode(raw: bytes) -> Transaction:
    content = json.loads(raw)
    kind = _CALLS[content["call"]]
    texts = {"organisation"}
    fields = {
        name: bytes.fromhex(value) if isinstance(value, str) and name not in texts else value
        for name, value in content["fields"].items()
    }
    return Transaction(
        raw, hashlib.sha256(raw).digest(), bytes.fromhex(content["from"]), content["nonce"], kind(**fields)
    )
