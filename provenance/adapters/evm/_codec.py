"""The ledger contract's ABI: calls and their answers, events and errors, as bytes and back.

Encoding and decoding are web3.py's and eth-abi's. What they decode is encoded again and compared, so that an
answer has one form: nothing trails, no bit stands above a field's width (`spec/chain.md`, "Steps").
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from eth_abi.exceptions import DecodingError, EncodingError
from eth_utils.abi import abi_to_signature, get_abi_output_types
from eth_utils.address import to_checksum_address
from eth_utils.crypto import keccak
from web3 import Web3
from web3.exceptions import Web3Exception

from provenance.contract import load
from provenance.core.streams import MAX_OFFSET
from provenance.errors import ConfigError, MalformedError
from provenance.ports import AnchorCall, CloseCall, DeployCall, ListRecordKeyCall, OpenCall, SetKeyCall

if TYPE_CHECKING:
    from collections.abc import Sequence

    from provenance.ports import Call

__all__ = ["ANCHORED", "AnchoredEvent", "Revert", "decode_anchored", "decode_answer", "decode_revert"]
__all__ += ["encode_call", "encode_query"]

ANCHORED = keccak(text="Anchored(bytes32,uint64,address,uint64,uint64,uint32,bytes32,bytes32,bytes32,uint64)")
_ANCHORED_DATA = ("uint64", "uint64", "uint32", "bytes32", "bytes32", "bytes32", "uint64")
_MAX_NAME = 32


@dataclass(frozen=True, slots=True)
class AnchoredEvent:
    """The fields of an ``Anchored`` event."""

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


@dataclass(frozen=True, slots=True)
class Revert:
    """Why the contract refused a call: its error's name and values; bytes are raw, addresses as text."""

    name: str
    values: dict[str, object]

    def __str__(self) -> str:
        shown = (f"{key}={v.hex() if isinstance(v, bytes) else v}" for key, v in self.values.items())
        return f"{self.name}({', '.join(shown)})"


def encode_call(call: Call) -> bytes:
    """The data of the transaction that makes a call; for a deployment the code and its arguments."""
    match call:
        case DeployCall():
            founder = (_name(call.organisation), to_checksum_address(call.governance))
            return load().bytecode + encode_query("constructor", [[founder]])
        case AnchorCall():
            arguments: list[object] = [call.stream, call.seq, call.prev_acc, call.first_offset]
            arguments += [call.next_offset, call.leaf_count, call.root, call.manifest_hash]
            return encode_query("anchor", arguments)
        case OpenCall():
            arguments = [call.binding, call.start_offset, call.continues, call.k, call.eligible]
            return encode_query("openStream", arguments)
        case CloseCall():
            return encode_query("closeStream", [call.stream])
        case SetKeyCall():
            return encode_query("setKey", [to_checksum_address(call.key), call.roles])
        case ListRecordKeyCall():
            return encode_query("listRecordKey", [call.key])


def encode_query(function: str, arguments: Sequence[object]) -> bytes:
    """The data of a call of a function by name; for ``constructor`` its arguments alone.

    Raises:
        MalformedError: an argument does not fit its type.
    """
    contract = _contract()
    try:
        if function == "constructor":
            encoded = contract.constructor(*arguments).data_in_transaction
            return bytes.fromhex(encoded.removeprefix("0x"))[len(load().bytecode) :]
        return bytes.fromhex(contract.encode_abi(function, list(arguments)).removeprefix("0x"))
    except (Web3Exception, EncodingError, ValueError, TypeError, OverflowError) as error:
        text = " ".join(str(error).split())[:300]
        raise MalformedError(f"arguments of {function}: {text}", reason="abi-arguments") from None


def decode_answer(function: str, answer: bytes) -> tuple[Any, ...]:
    """What a function returned, by its ABI: integers, bytes, and tuples of them."""
    return _decode(_outputs()[function], answer, f"the answer of {function}")


def decode_anchored(topics: Sequence[bytes], body: bytes) -> AnchoredEvent:
    """An ``Anchored`` event from its four topics and its 224 bytes of data."""
    if len(topics) != 4 or any(len(topic) != 32 for topic in topics) or topics[0] != ANCHORED:
        raise MalformedError("an event has other topics than Anchored has", reason="event-topics")
    (seq,) = _decode(("uint64",), topics[2], "seq of an event")
    if any(topics[3][:12]):
        raise MalformedError("an event's publisher is no address", reason="event-publisher")
    fields = _decode(_ANCHORED_DATA, body, "the data of an event")
    event = AnchoredEvent(topics[1], seq, topics[3][12:], *fields)
    if not 1 <= event.seq <= MAX_OFFSET or event.next_offset > MAX_OFFSET:
        raise MalformedError(f"an event names seq {event.seq}, offset {event.next_offset}", reason="range")
    return event


def decode_revert(body: bytes) -> Revert | None:
    """The contract's error in the data of a revert, or None if it is none of the contract's."""
    known = _errors().get(body[:4])
    if known is None:
        return None
    name, names, types = known
    values = _decode(types, body[4:], f"the values of {name}")
    return Revert(name, dict(zip(names, values, strict=True)))


@functools.cache
def _contract() -> Any:
    artifact = load()
    return Web3().eth.contract(abi=list(artifact.abi), bytecode=artifact.bytecode)


@functools.cache
def _outputs() -> dict[str, tuple[str, ...]]:
    functions = (entry for entry in load().abi if entry["type"] == "function")
    return {entry["name"]: tuple(get_abi_output_types(entry)) for entry in functions}  # type: ignore[arg-type]


@functools.cache
def _errors() -> dict[bytes, tuple[str, tuple[str, ...], tuple[str, ...]]]:
    """Name, names and types of the values of each error, by its selector."""
    errors = {}
    for entry in load().abi:
        if entry["type"] == "error":
            inputs = entry["inputs"]
            selector = keccak(text=abi_to_signature(entry))[:4]  # type: ignore[arg-type]
            errors[selector] = (
                entry["name"],
                tuple(i["name"] for i in inputs),
                tuple(i["type"] for i in inputs),
            )
    return errors


def _decode(types: tuple[str, ...], body: bytes, what: str) -> tuple[Any, ...]:
    codec = _contract().w3.codec
    try:
        values: tuple[Any, ...] = codec.decode(types, body)
        canonical = codec.encode(types, values) == body
    except (DecodingError, EncodingError, ValueError, TypeError, OverflowError):
        canonical = False
    if not canonical:
        raise MalformedError(f"a node's answer: {what} is not in the contract's ABI", reason="abi-answer")
    return values


def _name(text: str) -> bytes:
    raw = text.encode("utf-8")
    if not 0 < len(raw) <= _MAX_NAME or b"\0" in raw:
        raise ConfigError(
            f"the organisation's name has {len(raw)} bytes in UTF-8, expected 1 to {_MAX_NAME}",
            reason="organisation-name",
            remedy="Choose a short name.",
        )
    return raw.ljust(_MAX_NAME, b"\0")
