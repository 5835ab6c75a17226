"""Reading the ledger contract through one node; a `ChainReader`.

A stream's events are read backwards from its head: each names the block of the one before it, so a gap that a
node leaves, or an event that it makes up, shows. Blocks are asked for in windows that any node serves.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, TypeVar

from provenance.adapters.evm._codec import (
    ANCHORED,
    AnchoredEvent,
    decode_anchored,
    decode_answer,
    encode_query,
)
from provenance.adapters.evm._node import NodeRefusedError, data, member, quantity
from provenance.core.streams import MAX_OFFSET, Opening, stream_of
from provenance.errors import MalformedError, MismatchError, UnavailableError
from provenance.ports import Anchor, ChainIdentity, Head

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from provenance.adapters.evm._node import Node

__all__ = ["EvmReader"]

_Item = TypeVar("_Item")

_WINDOW = 1000  # blocks asked for at once; Besu serves 5,000
_PAGE = 500  # streams named in one answer
_CHUNK = 50  # calls in one request
_MAX_STREAMS = 1_000_000


@dataclass(frozen=True, slots=True)
class _Log:
    event: AnchoredEvent
    block_number: int
    block_hash: bytes
    transaction: bytes
    log_index: int


class EvmReader:
    """Read access to the ledger contract at an address, through one node.

    Args:
        node: the node.
        chain_id: the chain's id, which stream names cover.
        contract: the contract's 20-byte address.
    """

    def __init__(self, node: Node, *, chain_id: int, contract: bytes) -> None:
        self._node = node
        self._chain_id = chain_id
        self._contract = contract

    def identity(self) -> ChainIdentity:
        """The chain and contract that the node serves now."""
        genesis = member(self._node.call("eth_getBlockByNumber", "0x0", False), "block 0")
        code = data(self._node.call("eth_getCode", self._address, "latest"), "code")
        return ChainIdentity(
            chain_id=quantity(self._node.call("eth_chainId"), "chain id", bits=256),
            genesis=data(genesis.get("hash"), "hash of block 0", 32),
            contract=self._contract if code else None,
            code_hash=hashlib.sha256(code).digest() if code else None,
            kind=self._kind(),
        )

    def openings(self, binding: bytes | None = None) -> Sequence[tuple[bytes, Opening, int]]:
        """``(stream, opening, block number)`` of every stream, or of every one of a binding, oldest first."""
        names = self._all_streams() if binding is None else self._streams_of(binding)
        openings = [
            self._opening(name, fields)
            for names_ in _chunks(names)
            for name, (fields,) in zip(
                names_, self._query([("opening", [name]) for name in names_]), strict=True
            )
        ]
        return sorted(
            openings, key=lambda opening: opening[2]
        )  # stable: within a block as the contract lists

    def head(self, stream: bytes) -> Head | None:
        """The stream's head, or None if the contract does not know the stream."""
        ((fields,),) = self._query([("head", [stream])])
        seq, next_offset, last_block, org, closed, acc = fields
        if org == 0:
            return None
        if seq > MAX_OFFSET or next_offset > MAX_OFFSET:
            raise MalformedError(f"a head names seq {seq}, offset {next_offset}", reason="range")
        return Head(stream, seq, next_offset, acc, org, last_block, closed)

    def anchors(self, stream: bytes, from_seq: int = 1) -> Iterator[Anchor]:
        """The stream's anchors with seq ≥ ``from_seq``, ascending and without a gap up to the head.

        Raises:
            UnavailableError: the node does not give every event, or the chain moved meanwhile.
        """
        head = self.head(stream)
        if head is None:
            return
        logs = list(self._logs_backwards(head, from_seq))
        logs.reverse()
        for chunk in _chunks(logs):
            yield from self._anchors(chunk)

    # --------------------------------------------------------------------------------------------------
    # private

    @property
    def _address(self) -> str:
        return "0x" + self._contract.hex()

    def _kind(self) -> str:
        try:
            version = self._node.call("web3_clientVersion")
        except NodeRefusedError:
            version = ""
        name = re.match(r"[A-Za-z0-9-]{1,32}", version if isinstance(version, str) else "")
        return name[0].lower() if name else "unknown"

    def _query(self, queries: Sequence[tuple[str, list[Any]]]) -> list[tuple[Any, ...]]:
        """The answers of view functions at the latest block."""
        calls = [
            (
                "eth_call",
                [{"to": self._address, "data": "0x" + encode_query(name, arguments).hex()}, "latest"],
            )
            for name, arguments in queries
        ]
        results = [data(result, "answer of a call") for result in self._node.batch(calls)]
        if not all(results):
            raise UnavailableError(
                f"there is no ledger contract at {self._address} on the chain of {self._node.name}",
                reason="no-contract",
                remedy="Run provenance up for the embedded chain, or correct the contract's address.",
            )
        return [decode_answer(name, result) for (name, _), result in zip(queries, results, strict=True)]

    def _all_streams(self) -> list[bytes]:
        ((count,),) = self._query([("streamCount", [])])
        if count > _MAX_STREAMS:
            raise MalformedError(f"a contract of {count} streams", reason="range")
        pages = ((("streams", [first, _PAGE])) for first in range(0, count, _PAGE))
        return [name for page in pages for ((names,),) in [self._query([page])] for name in names]

    def _streams_of(self, binding: bytes) -> list[bytes]:
        ((count,),) = self._query([("organisationCount", [])])
        queries: list[tuple[str, list[Any]]] = [("streamsOf", [org, binding]) for org in range(1, count + 1)]
        return [name for chunk in _chunks(queries) for (names,) in self._query(chunk) for name in names]

    def _opening(self, name: bytes, fields: tuple[Any, ...]) -> tuple[bytes, Opening, int]:
        org, generation, start_offset, opened_block, binding, continues = fields
        opening = Opening(self._chain_id, self._contract, org, generation, start_offset, binding, continues)
        if stream_of(opening) != name:
            raise MismatchError(
                "name of a stream",
                expected=stream_of(opening).hex(),
                actual=name.hex(),
                remedy="This is another chain or contract than the one named: correct the settings.",
            )
        return name, opening, opened_block

    def _logs_backwards(self, head: Head, from_seq: int) -> Iterator[_Log]:
        seq, block = head.seq, head.last_block
        while seq >= from_seq and seq > 0:
            window = self._logs(head.stream, max(0, block - _WINDOW + 1), block)
            # More may have been anchored in the head's own block since the head was read.
            found = [log for log in window if log.event.seq <= seq]
            if not found:
                raise self._gap(head.stream, seq, block)
            for log in reversed(found):
                if (log.event.seq, log.block_number) != (seq, block) or log.event.prev_block > block:
                    raise self._gap(head.stream, seq, block)
                yield log
                seq, block = seq - 1, log.event.prev_block
                if seq < from_seq:
                    return

    def _logs(self, stream: bytes, first: int, last: int) -> list[_Log]:
        """The stream's events in a range of blocks, ascending."""
        question = {
            "address": self._address,
            "topics": ["0x" + ANCHORED.hex(), "0x" + stream.hex()],
            "fromBlock": hex(first),
            "toBlock": hex(last),
        }
        entries = self._node.call("eth_getLogs", question)
        if not isinstance(entries, list):
            raise MalformedError("a node's answer: events are no list", reason="object")
        logs = [self._log(member(entry, "an event"), stream) for entry in entries]
        return sorted(logs, key=lambda log: (log.block_number, log.log_index))

    def _log(self, entry: Any, stream: bytes) -> _Log:
        topics = entry.get("topics")
        if not isinstance(topics, list):
            raise MalformedError("a node's answer: topics are no list", reason="object")
        event = decode_anchored(
            [data(t, "a topic") for t in topics], data(entry.get("data"), "an event's data")
        )
        if data(entry.get("address"), "an event's address", 20) != self._contract or event.stream != stream:
            raise MalformedError(
                "a node's answer: an event of another contract or stream", reason="event-source"
            )
        return _Log(
            event,
            quantity(entry.get("blockNumber"), "an event's block"),
            data(entry.get("blockHash"), "an event's block hash", 32),
            data(entry.get("transactionHash"), "an event's transaction", 32),
            quantity(entry.get("logIndex"), "an event's index", bits=32),
        )

    def _anchors(self, logs: Sequence[_Log]) -> Iterator[Anchor]:
        """The events with the gas that they took and the time of their blocks."""
        calls: list[tuple[str, list[object]]] = []
        for log in logs:
            calls.append(("eth_getTransactionReceipt", ["0x" + log.transaction.hex()]))
            calls.append(("eth_getBlockByHash", ["0x" + log.block_hash.hex(), False]))
        answers = iter(self._node.batch(calls))
        for log, (receipt, block) in zip(logs, zip(answers, answers, strict=True), strict=True):
            if receipt is None or block is None:
                raise self._gap(log.event.stream, log.event.seq, log.block_number)
            if (
                data(member(receipt, "a receipt").get("blockHash"), "block of a receipt", 32)
                != log.block_hash
            ):
                raise self._gap(log.event.stream, log.event.seq, log.block_number)
            yield Anchor(
                **asdict(log.event),
                block_number=log.block_number,
                block_hash=log.block_hash,
                transaction=log.transaction,
                log_index=log.log_index,
                gas_used=quantity(member(receipt, "a receipt").get("gasUsed"), "gas used"),
                block_time=quantity(member(block, "a block").get("timestamp"), "a block's time"),
            )

    def _gap(self, stream: bytes, seq: int, block: int) -> UnavailableError:
        return UnavailableError(
            f"the node at {self._node.name} does not give the event of seq {seq} in block {block}, "
            f"stream {stream.hex()}",
            reason="event-gap",
            remedy="Call again: the chain may have moved. If it stays so, ask a node that keeps all events.",
        )


def _chunks(items: Sequence[_Item]) -> Iterator[Sequence[_Item]]:
    return (items[first : first + _CHUNK] for first in range(0, len(items), _CHUNK))
