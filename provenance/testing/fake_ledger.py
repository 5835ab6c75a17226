"""The ledger contract's rules over plain values, for `provenance.testing.fake_chain`.

`spec/anchoring.md`, "Contract": the fence, the quiet repeat, the conflict, who may do what. Each rule returns
how many events it emitted, or raises `Reverted` and changes nothing.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from dataclasses import asdict, dataclass, field, replace

from provenance.core.streams import MAX_OFFSET, NO_PREDECESSOR, Opening, next_acc, stream_of
from provenance.ports import Anchor, AnchorCall, Call, CloseCall, DeployCall, Head, OpenCall, SetKeyCall

__all__ = ["PUBLISHER", "Block", "LedgerState", "Reverted", "Transaction", "execute"]

GOVERNANCE, PUBLISHER = 1, 2
_GAS = 61_472
_EPOCH = int(dt.datetime(2026, 1, 1, tzinfo=dt.UTC).timestamp())


@dataclass(frozen=True, slots=True)
class Transaction:
    """What an account sent."""

    raw: bytes
    hash: bytes
    sender: bytes
    nonce: int
    call: Call


@dataclass(frozen=True, slots=True)
class Block:
    """Transactions mined together; numbers begin at 1."""

    number: int
    hash: bytes
    transactions: tuple[Transaction, ...]


@dataclass(slots=True)
class _Key:
    org: int
    roles: int


class Reverted(Exception):  # noqa: N818 - what it is called
    """The contract refuses the call."""


@dataclass(slots=True)
class LedgerState:
    """What replaying the blocks gives."""

    contract: bytes | None = None
    keys: dict[bytes, _Key] = field(default_factory=dict)
    record_keys: list[tuple[int, bytes]] = field(default_factory=list)
    openings: list[tuple[bytes, Opening, int]] = field(default_factory=list)
    heads: dict[bytes, Head] = field(default_factory=dict)
    anchors: dict[bytes, list[Anchor]] = field(default_factory=dict)
    nonces: dict[bytes, int] = field(default_factory=dict)
    receipts: dict[bytes, tuple[int, bool]] = field(default_factory=dict)


def execute(state: LedgerState, chain_id: int, block: Block, transaction: Transaction, logs: int) -> int:
    """Apply a transaction; ``logs`` is how many events the block has before it."""
    call, sender = transaction.call, transaction.sender
    if isinstance(call, DeployCall):
        return _deploy(state, call, transaction)
    if state.contract is None:
        return 0  # a call to an address without code succeeds and does nothing
    if isinstance(call, AnchorCall):
        return _anchor(state, block, transaction, call, logs)
    org = _governed(state, sender)
    if isinstance(call, OpenCall):
        return _open(state, chain_id, block, org, call)
    if isinstance(call, SetKeyCall):
        key = state.keys.get(call.key, _Key(org, 0))
        if key.org != org or call.roles & ~6 or not (call.roles or key.roles):
            raise Reverted
        state.keys[call.key] = _Key(org, call.roles | key.roles & GOVERNANCE)
        return 1
    if isinstance(call, CloseCall):
        return _close(state, org, call)
    if (org, call.key) in state.record_keys:
        return 0
    state.record_keys.append((org, call.key))
    return 1


def _deploy(state: LedgerState, call: DeployCall, transaction: Transaction) -> int:
    if state.contract is None:
        place = transaction.sender + transaction.nonce.to_bytes(8, "big")
        state.contract = hashlib.sha256(place).digest()[:20]
        state.keys[call.governance] = _Key(1, GOVERNANCE)
    return 1


def _governed(state: LedgerState, sender: bytes) -> int:
    key = state.keys.get(sender)
    if key is None or not key.roles & GOVERNANCE:
        raise Reverted
    return key.org


def _open(state: LedgerState, chain_id: int, block: Block, org: int, call: OpenCall) -> int:
    if call.k or call.eligible or not 0 <= call.start_offset <= MAX_OFFSET:
        raise Reverted
    generations = [row for row in state.openings if (row[1].org, row[1].binding) == (org, call.binding)]
    if generations and not state.heads[generations[-1][0]].closed:
        known = generations[-1][1]
        if (known.start_offset, known.continues) != (call.start_offset, call.continues):
            raise Reverted
        return 0
    opening = Opening(
        chain_id=chain_id,
        contract=state.contract or bytes(20),
        org=org,
        generation=len(generations) + 1,
        start_offset=call.start_offset,
        binding=call.binding,
        continues=call.continues or NO_PREDECESSOR,
    )
    stream = stream_of(opening)
    state.openings.append((stream, opening, block.number))
    state.heads[stream] = Head(stream, 0, call.start_offset, stream, org, 0, closed=False)
    state.anchors[stream] = []
    return 1


def _close(state: LedgerState, org: int, call: CloseCall) -> int:
    head = state.heads.get(call.stream)
    if head is None or head.org != org:
        raise Reverted
    if head.closed:
        return 0
    state.heads[call.stream] = replace(head, closed=True)
    return 1


def _anchor(state: LedgerState, block: Block, transaction: Transaction, call: AnchorCall, logs: int) -> int:
    head = state.heads.get(call.stream)
    if head is None:
        raise Reverted
    content = asdict(call)
    del content["stream"]
    if not (call.leaf_count > 0 and call.first_offset + call.leaf_count <= call.next_offset <= MAX_OFFSET):
        raise Reverted
    if call.seq < 1:
        raise Reverted
    acc = next_acc(content.pop("prev_acc"), content.pop("seq"), **content)
    known = state.anchors[call.stream]
    if call.seq <= head.seq:
        if known[call.seq - 1].acc != acc:
            raise Reverted
        return 0  # a repeat is quiet, whatever became of key and stream since
    key = state.keys.get(transaction.sender)
    may = key is not None and key.org == head.org and key.roles & PUBLISHER
    if not may or head.closed:
        raise Reverted
    if (call.seq, call.prev_acc, call.first_offset) != (head.seq + 1, head.acc, head.next_offset):
        raise Reverted
    known.append(
        Anchor(
            stream=call.stream,
            seq=call.seq,
            publisher=transaction.sender,
            first_offset=call.first_offset,
            next_offset=call.next_offset,
            leaf_count=call.leaf_count,
            root=call.root,
            manifest_hash=call.manifest_hash,
            acc=acc,
            prev_block=head.last_block,
            block_number=block.number,
            block_hash=block.hash,
            transaction=transaction.hash,
            log_index=logs,
            gas_used=_GAS,
            block_time=_EPOCH + block.number,
        )
    )
    state.heads[call.stream] = replace(
        head, seq=call.seq, next_offset=call.next_offset, acc=acc, last_block=block.number
    )
    return 1
