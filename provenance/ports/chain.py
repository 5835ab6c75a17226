"""The chain: reading the contract, and sending to it; the journal of what was sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from provenance.core.streams import Opening
    from provenance.core.transactions import JournalEntry, SignedTransaction, TxState

__all__ = [
    "Anchor",
    "AnchorCall",
    "Call",
    "ChainIdentity",
    "ChainReader",
    "CloseCall",
    "DeployCall",
    "Head",
    "Journal",
    "ListRecordKeyCall",
    "OpenCall",
    "SetKeyCall",
    "Transactor",
]


@dataclass(frozen=True, slots=True)
class ChainIdentity:
    """Which chain and which contract: chain id, hash of block 0, 20-byte address, SHA-256 of runtime code.

    ``contract`` and ``code_hash`` are None until the contract is deployed. ``kind`` is what the node says it
    is (``anvil``, ``geth`` …).
    """

    chain_id: int
    genesis: bytes
    contract: bytes | None
    code_hash: bytes | None
    kind: str


@dataclass(frozen=True, slots=True)
class Head:
    """A stream's head on the chain: its last seq and accumulator.

    And the log offset that the next batch must begin with.
    """

    stream: bytes
    seq: int
    next_offset: int
    acc: bytes
    org: int
    last_block: int
    closed: bool


@dataclass(frozen=True, slots=True)
class Anchor:
    """One ``Anchored`` event and where it stands. ``publisher`` is the 20-byte address that sent it."""

    stream: bytes
    seq: int
    publisher: bytes
    first_offset: int
    next_offset: int
    leaf_count: int
    root: bytes
    manifest_hash: bytes
    acc: bytes
    prev_block: int
    block_number: int
    block_hash: bytes
    transaction: bytes
    log_index: int
    gas_used: int
    block_time: int


class ChainReader(Protocol):
    """Read access to the ledger contract through one node."""

    def identity(self) -> ChainIdentity:
        """The chain and contract that the node serves now.

        Asked anew each time: a node may have been replaced.
        """
        ...

    def openings(self, binding: bytes | None = None) -> Sequence[tuple[bytes, Opening, int]]:
        """``(stream, opening, block number)`` of every stream opened, oldest first.

        Only those of one binding if it is given.
        """
        ...

    def head(self, stream: bytes) -> Head | None:
        """The stream's head, or None if the contract does not know the stream."""
        ...

    def anchors(self, stream: bytes, from_seq: int = 1) -> Iterator[Anchor]:
        """The stream's anchors with seq ≥ ``from_seq``, ascending and without a gap up to the head."""
        ...


@dataclass(frozen=True, slots=True)
class AnchorCall:
    """The arguments of the contract's ``anchor``; `spec/anchoring.md`, "Contract"."""

    stream: bytes
    seq: int
    prev_acc: bytes
    first_offset: int
    next_offset: int
    leaf_count: int
    root: bytes
    manifest_hash: bytes


@dataclass(frozen=True, slots=True)
class OpenCall:
    """The arguments of the contract's ``openStream``; k and eligible stay 0 until endorsement is used."""

    binding: bytes
    start_offset: int
    continues: bytes
    k: int = 0
    eligible: int = 0


@dataclass(frozen=True, slots=True)
class CloseCall:
    """``closeStream``: nothing can be anchored in it any more."""

    stream: bytes


@dataclass(frozen=True, slots=True)
class DeployCall:
    """Deploys the contract with one founding organisation: its name, its 20-byte governance address.

    Whoever sends it with nonce 0 gets the same contract address on every chain.
    """

    organisation: str
    governance: bytes


@dataclass(frozen=True, slots=True)
class SetKeyCall:
    """``setKey``: a 20-byte address of the sender's organisation; publisher 2, endorser 4, both 6."""

    key: bytes
    roles: int


@dataclass(frozen=True, slots=True)
class ListRecordKeyCall:
    """``listRecordKey``: a raw Ed25519 key with which the sender's organisation signs records."""

    key: bytes


Call: TypeAlias = "AnchorCall | OpenCall | CloseCall | DeployCall | SetKeyCall | ListRecordKeyCall"


class Transactor(Protocol):
    """One account that sends transactions to the ledger contract.

    Nonces are the caller's business: one key, one nonce stream.
    """

    def sign(self, call: Call, nonce: int) -> SignedTransaction:
        """Sign the call with this nonce. Sends nothing."""
        ...

    def send(self, raw: bytes) -> None:
        """Send signed bytes.

        "Already known" and "nonce too low" are not errors: the caller looks the hash up.
        """
        ...

    def state(self, tx_hash: bytes) -> TxState:
        """What has become of a transaction.

        FINAL by the chain's own rule; REVERTED only when it is final too.
        """
        ...

    def nonce(self, *, final: bool = False) -> int:
        """The account's next nonce by mined transactions only; with ``final``, by those that are final."""
        ...


class Journal(Protocol):
    """What this process has signed and not yet seen final.

    Durable; never needed for safety, only for speed.
    """

    def entries(self) -> Sequence[JournalEntry]:
        """All entries, lowest nonce first."""
        ...

    def record(self, entry: JournalEntry) -> None:
        """Keep an entry; synced to disk when it returns."""
        ...

    def forget(self, tx_hash: bytes) -> None:
        """Drop an entry; forgetting an unknown one is no error."""
        ...
