"""A real anvil for tests, and the contract upon it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from provenance.adapters import anvil
from provenance.adapters.evm import EvmReader, EvmTransactor, Node, created_address
from provenance.errors import ConfigError, UnavailableError
from provenance.ports import AnchorCall, DeployCall, OpenCall, SetKeyCall, TxState

if TYPE_CHECKING:
    from pathlib import Path

    from provenance.ports import Call, Head

PUBLISHER = 2


def start_or_skip(folder: Path) -> anvil.NodeInfo:
    """A chain in this folder; where there is neither anvil nor Node.js to install it with, the test is
    skipped."""
    try:
        return anvil.start(folder)
    except (ConfigError, UnavailableError) as error:
        pytest.skip(f"anvil is not to be had here: {error}")


@dataclass(frozen=True)
class Ledger:
    """The contract, one organisation's governance and publisher keys, and a reader."""

    node: Node
    chain_id: int
    contract: bytes
    governance: EvmTransactor
    publisher: EvmTransactor
    reader: EvmReader

    def act(self, account: EvmTransactor, call: Call) -> TxState:
        """Sign, send, mine; what became of it."""
        transaction = account.sign(call, account.nonce())
        account.send(transaction.raw)
        self.node.call("evm_mine")
        return account.state(transaction.hash)

    def open(self, binding: bytes, start_offset: int = 0, continues: bytes = bytes(32)) -> bytes:
        """The name of a new stream."""
        assert self.act(self.governance, OpenCall(binding, start_offset, continues)) is TxState.FINAL
        return list(self.reader.openings(binding))[-1][0]

    def head(self, stream: bytes) -> Head:
        """The head of a stream that is there."""
        head = self.reader.head(stream)
        assert head is not None
        return head

    def next_call(self, stream: bytes, *, leaves: int = 3, root: bytes = b"r" * 32) -> AnchorCall:
        """What continues the stream's head."""
        head = self.head(stream)
        return AnchorCall(
            stream=stream,
            seq=head.seq + 1,
            prev_acc=head.acc,
            first_offset=head.next_offset,
            next_offset=head.next_offset + leaves,
            leaf_count=leaves,
            root=root,
            manifest_hash=b"m" * 32,
        )


def ledger_at(node: Node, name: str, *, chain_id: int, contract: bytes | None, depth: int = 0) -> Ledger:
    """The contract at an address (by default where governance's first transaction puts it) with keys derived
    from a name."""
    secrets = [hashlib.sha256(f"{name} {role}".encode()).digest() for role in ("governance", "publisher")]
    if contract is None:
        deployer = EvmTransactor(node, secret=secrets[0], chain_id=chain_id, contract=None)
        contract = created_address(deployer.address, 0)
    governance, publisher = (
        EvmTransactor(node, secret=secret, chain_id=chain_id, contract=contract, depth=depth)
        for secret in secrets
    )
    reader = EvmReader(node, chain_id=chain_id, contract=contract)
    return Ledger(node, chain_id, contract, governance, publisher, reader)


def deploy(info: anvil.NodeInfo, name: str, *, depth: int = 0) -> Ledger:
    """A contract of its own for each name, with one organisation."""
    ledger = ledger_at(Node(info.url), name, chain_id=info.chain_id, contract=None, depth=depth)
    for call in (
        DeployCall("Test", ledger.governance.address),
        SetKeyCall(ledger.publisher.address, PUBLISHER),
    ):
        assert ledger.act(ledger.governance, call) is not TxState.REVERTED
    return ledger
