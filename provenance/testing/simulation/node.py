"""A node that sees the chain late, or not at all: each simulated process asks its own."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from provenance.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from provenance.core.streams import Opening
    from provenance.ports import Anchor, Call, ChainIdentity, Head, SignedTransaction, TxState
    from provenance.testing.fake_chain import FakeAccount, FakeChain

__all__ = ["Node", "NodeAccount"]


class Node:
    """A `ChainReader` that lacks the last ``behind`` blocks, and answers nothing while it is ``down``."""

    def __init__(self, chain: FakeChain) -> None:
        self.chain = chain
        self.behind = 0
        self.down = False

    def account(self, address: bytes) -> NodeAccount:
        """The account of an address, through this node."""
        return NodeAccount(self, self.chain.account(address))

    def identity(self) -> ChainIdentity:
        """The chain and its contract."""
        self.require_up()
        return self.chain.identity()

    def openings(self, binding: bytes | None = None) -> Sequence[tuple[bytes, Opening, int]]:
        """Every stream opened that the node knows of."""
        self.require_up()
        found = self.chain.openings(binding)
        return tuple(row for row in found if row[2] <= self._height()) if self.behind else found

    def head(self, stream: bytes) -> Head | None:
        """The stream's head as the node knows it."""
        self.require_up()
        head = self.chain.head(stream)
        if not self.behind or head is None or head.last_block <= self._height():
            return head
        opened = next(row for row in self.chain.openings() if row[0] == stream)
        if opened[2] > self._height():
            return None
        last = None
        for anchor in self.anchors(stream):
            last = anchor
        if last is None:
            start = opened[1].start_offset
            return replace(head, seq=0, next_offset=start, acc=stream, last_block=0, closed=False)
        return replace(
            head,
            seq=last.seq,
            next_offset=last.next_offset,
            acc=last.acc,
            last_block=last.block_number,
            closed=False,
        )

    def anchors(self, stream: bytes, from_seq: int = 1) -> Iterator[Anchor]:
        """The stream's anchors that the node knows of."""
        self.require_up()
        height = self._height()
        return iter([a for a in self.chain.anchors(stream, from_seq) if a.block_number <= height])

    def require_up(self) -> None:
        """Raise ``UnavailableError`` while the node is down."""
        if self.down:
            raise UnavailableError("the node is down", reason="down")

    def _height(self) -> int:
        return self.chain.height - self.behind


class NodeAccount:
    """A `Transactor` through a node."""

    def __init__(self, node: Node, account: FakeAccount) -> None:
        self._node = node
        self._account = account

    def sign(self, call: Call, nonce: int) -> SignedTransaction:
        """Sign; needs no node."""
        return self._account.sign(call, nonce)

    def send(self, raw: bytes) -> None:
        """Send the bytes; the node passes them on."""
        self._node.require_up()
        self._account.send(raw)

    def state(self, tx_hash: bytes) -> TxState:
        """What the node knows of a transaction."""
        self._node.require_up()
        return self._node.chain.state_of(tx_hash, behind=self._node.behind)

    def nonce(self, *, final: bool = False) -> int:
        """The next nonce as the node knows it."""
        self._node.require_up()
        return self._node.chain.nonce_of(self._account.address, final=final, behind=self._node.behind)
