"""What a node may answer to a reader: what is out of form or does not hang together is not passed on."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest
from eth_abi.abi import encode
from eth_utils.abi import function_signature_to_4byte_selector

from provenance.adapters.evm import EvmReader, NodeRefusedError
from provenance.adapters.evm._codec import ANCHORED, decode_anchored, decode_revert, encode_query
from provenance.core.streams import MAX_OFFSET
from provenance.errors import MalformedError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

CONTRACT, STREAM = b"\xcc" * 20, b"\x55" * 32
BODY = ("uint64", "uint64", "uint32", "bytes32", "bytes32", "bytes32", "uint64")


def text(raw: bytes) -> str:
    return "0x" + raw.hex()


def block_hash(number: int) -> bytes:
    return b"\xb0" + number.to_bytes(31, "big")


def log(seq: int, block: int, prev: int) -> dict[str, Any]:
    """The event of one batch of ten leaves."""
    body = encode(BODY, (10 * seq - 10, 10 * seq, 10, b"r" * 32, b"m" * 32, bytes([seq]) * 32, prev))
    return {
        "address": text(CONTRACT),
        "topics": [
            text(ANCHORED),
            text(STREAM),
            text(seq.to_bytes(32, "big")),
            text(b"\0" * 12 + b"\xaa" * 20),
        ],
        "data": text(body),
        "blockNumber": hex(block),
        "blockHash": text(block_hash(block)),
        "transactionHash": text(bytes([seq]) * 32),
        "logIndex": "0x0",
        "removed": False,
    }


class ScriptedNode:
    """Answers as an honest node would over three anchors, in blocks 5, 7 and 2000; tests change its
    answers."""

    name = "node"

    def __init__(self) -> None:
        self.logs = [log(1, 5, 0), log(2, 7, 5), log(3, 2000, 7)]
        self.head: tuple[Any, ...] = (3, 30, 2000, 1, False, b"\3" * 32)
        self.receipt: dict[str, Any] = {"gasUsed": "0xf000"}
        self.block: dict[str, Any] = {"timestamp": "0x65000000"}
        self.call_answer: str | None = None
        self.version: object = "Geth/v1.13.15-stable/linux-amd64"
        self.asked: list[dict[str, Any]] = []

    def call(self, method: str, *params: Any) -> Any:
        match method:
            case "eth_getLogs":
                self.asked.append(params[0])
                first, last = int(params[0]["fromBlock"], 16), int(params[0]["toBlock"], 16)
                return [entry for entry in self.logs if first <= int(entry["blockNumber"], 16) <= last]
            case "eth_chainId":
                return "0x539"
            case "eth_getCode":
                return "0x6000"
            case "eth_getBlockByNumber":
                return {"hash": text(block_hash(0))}
            case "web3_clientVersion":
                if isinstance(self.version, Exception):
                    raise self.version
                return self.version
        raise AssertionError(method)

    def batch(self, calls: Sequence[tuple[str, Sequence[Any]]]) -> list[Any]:
        return [self._one(method, params) for method, params in calls]

    def _one(self, method: str, params: Sequence[Any]) -> Any:
        match method:
            case "eth_call":
                types = "(uint64,uint64,uint64,uint8,bool,bytes32)"
                return text(encode([types], [self.head])) if self.call_answer is None else self.call_answer
            case "eth_getTransactionReceipt":
                (entry,) = [entry for entry in self.logs if entry["transactionHash"] == params[0]]
                return {"blockHash": entry["blockHash"], **self.receipt}
            case "eth_getBlockByHash":
                return self.block
        raise AssertionError(method)


@pytest.fixture
def node() -> ScriptedNode:
    return ScriptedNode()


@pytest.fixture
def reader(node: ScriptedNode) -> EvmReader:
    return EvmReader(node, chain_id=1337, contract=CONTRACT)  # type: ignore[arg-type]


def test_an_honest_node(reader: EvmReader, node: ScriptedNode) -> None:
    anchors = list(reader.anchors(STREAM))
    assert [(a.seq, a.block_number, a.prev_block) for a in anchors] == [(1, 5, 0), (2, 7, 5), (3, 2000, 7)]
    assert anchors[0].publisher == b"\xaa" * 20
    assert (anchors[0].gas_used, anchors[0].block_time) == (0xF000, 0x65000000)
    assert [(a["fromBlock"], a["toBlock"]) for a in node.asked] == [(hex(1001), hex(2000)), ("0x0", "0x7")]


def test_only_what_is_asked_for_is_read(reader: EvmReader, node: ScriptedNode) -> None:
    assert [anchor.seq for anchor in reader.anchors(STREAM, 3)] == [3]
    assert len(node.asked) == 1
    assert list(reader.anchors(STREAM, 4)) == []


def drop(index: int) -> Callable[[ScriptedNode], None]:
    return lambda node: node.logs.pop(index).clear()


def change(index: int, **fields: object) -> Callable[[ScriptedNode], None]:
    return lambda node: node.logs[index].update(fields)


@pytest.mark.parametrize(
    "fault",
    [
        drop(0),
        drop(1),
        drop(2),
        change(1, blockNumber="0x6"),  # not where the next one says
        lambda node: node.logs.__setitem__(2, log(3, 2000, 6)),  # the one before is not there
        lambda node: node.logs.__setitem__(2, log(3, 2000, 2001)),  # a block that was yet to come
        lambda node: node.logs.__setitem__(1, log(3, 7, 5)),  # one seq twice
        lambda node: node.logs.__setitem__(1, log(1, 7, 5)),
        lambda node: node.logs.append(log(2, 6, 5)),  # one too many in between
        lambda node: setattr(node, "head", (4, 40, 2000, 1, False, b"\4" * 32)),
        lambda node: setattr(node, "head", (3, 30, 1999, 1, False, b"\3" * 32)),
        lambda node: node.receipt.update(blockHash=text(block_hash(9))),  # moved to another block
    ],
)
def test_a_gap(reader: EvmReader, node: ScriptedNode, fault: Callable[[ScriptedNode], None]) -> None:
    fault(node)
    with pytest.raises(UnavailableError, match="does not give the event") as caught:
        list(reader.anchors(STREAM))
    assert caught.value.reason == "event-gap"
    assert caught.value.remedy


@pytest.mark.parametrize("what", ["_receipt", "_block"])
def test_a_receipt_or_block_that_is_gone(what: str) -> None:
    class Forgetful(ScriptedNode):
        def _one(self, method: str, params: Sequence[Any]) -> Any:
            gone = {"_receipt": "eth_getTransactionReceipt", "_block": "eth_getBlockByHash"}[what]
            return None if method == gone else super()._one(method, params)

    reader = EvmReader(Forgetful(), chain_id=1337, contract=CONTRACT)  # type: ignore[arg-type]
    with pytest.raises(UnavailableError, match="does not give"):
        list(reader.anchors(STREAM))


@pytest.mark.parametrize(
    "fields",
    [
        {"address": text(b"\xcd" * 20)},
        {"address": None},
        {"topics": None},
        {"topics": []},
        {"topics": [text(ANCHORED)] * 3},
        {"topics": [text(ANCHORED)] * 5},
        {"topics": [text(ANCHORED), text(b"\x56" * 32), text(b"\0" * 31 + b"\1"), text(bytes(32))]},
        {"data": "0x"},
        {"data": None},
        {"blockNumber": None},
        {"blockNumber": 5},
        {"blockHash": "0x00"},
        {"transactionHash": text(bytes(31))},
        {"logIndex": "0x100000000"},
    ],
)
def test_an_event_out_of_form(reader: EvmReader, node: ScriptedNode, fields: dict[str, object]) -> None:
    # Only the last is changed where its block must still be found.
    node.call = lambda method, *_: [{**node.logs[2], **fields}]  # type: ignore[method-assign]
    with pytest.raises(MalformedError):
        list(reader.anchors(STREAM))


@pytest.mark.parametrize("answer", [None, {}, "0x", ["0x"], [None], [[]]])
def test_events_that_are_none(reader: EvmReader, node: ScriptedNode, answer: object) -> None:
    node.call = lambda *_: answer  # type: ignore[method-assign]
    with pytest.raises(MalformedError):
        list(reader.anchors(STREAM))


@pytest.mark.parametrize(
    ("receipt", "block"),
    [
        ({"gasUsed": None}, {}),
        ({"gasUsed": 1}, {}),
        ({"blockHash": None}, {}),
        ({}, {"timestamp": "0x1ffffffffffffffff"}),
        ({}, {"timestamp": -1}),
    ],
)
def test_a_receipt_or_block_out_of_form(
    reader: EvmReader, node: ScriptedNode, receipt: dict[str, object], block: dict[str, object]
) -> None:
    node.receipt.update(receipt)
    node.block.update(block)
    with pytest.raises(MalformedError):
        list(reader.anchors(STREAM))


HEAD = encode(["(uint64,uint64,uint64,uint8,bool,bytes32)"], [(3, 30, 2000, 1, False, b"a" * 32)])


def with_word(index: int, word: bytes) -> str:
    return text(HEAD[: 32 * index] + word + HEAD[32 * index + 32 :])


@pytest.mark.parametrize(
    "answer",
    [
        None,
        1,
        "0x00",
        text(HEAD[:-1]),
        text(HEAD + b"\0"),
        text(HEAD + bytes(32)),
        with_word(0, bytes(23) + b"\1" + bytes(8)),  # a bit above seq's 64
        with_word(2, b"\1" + bytes(31)),
        with_word(3, bytes(30) + b"\1\0"),
        with_word(4, bytes(31) + b"\2"),  # a boolean of two
        with_word(0, (MAX_OFFSET + 1).to_bytes(32, "big")),
        with_word(1, (MAX_OFFSET + 1).to_bytes(32, "big")),
    ],
)
def test_a_head_out_of_form(reader: EvmReader, node: ScriptedNode, answer: Any) -> None:
    node._one = lambda *_: answer  # type: ignore[method-assign]
    with pytest.raises(MalformedError):
        reader.head(STREAM)


def test_a_contract_of_too_many_streams(reader: EvmReader, node: ScriptedNode) -> None:
    node.call_answer = text((10**6 + 1).to_bytes(32, "big"))
    with pytest.raises(MalformedError, match="1000001 streams"):
        reader.openings()


@pytest.mark.parametrize(
    "answer",
    [
        "0x" + "ff" * 32,
        text(encode(["bytes32[]"], [[b"a" * 32]])[:-32]),  # a list that is shorter than it says
        text((32).to_bytes(32, "big") + (2**255).to_bytes(32, "big")),
        text((2**255).to_bytes(32, "big") + (1).to_bytes(32, "big") + bytes(32)),
    ],
)
def test_a_list_out_of_form(reader: EvmReader, node: ScriptedNode, answer: str) -> None:
    def one(method: str, params: Sequence[Any]) -> str:
        asks_count = params[0]["data"] == text(encode_query("streamCount", []))
        return text((1).to_bytes(32, "big")) if asks_count else answer

    node._one = one  # type: ignore[method-assign]
    with pytest.raises(MalformedError):
        reader.openings()


@pytest.mark.parametrize(
    ("version", "kind"),
    [
        ("anvil/v1.7.1", "anvil"),
        ("Geth/v1.13.15/linux", "geth"),
        ("besu/v25", "besu"),
        ("HardhatNetwork/2.29.0/@nomicfoundation", "hardhatnetwork"),
        ("", "unknown"),
        ("/", "unknown"),
        (None, "unknown"),
        ({"a": 1}, "unknown"),
        ("x" * 100, "x" * 32),
        ("evil\x1b[31m", "evil"),
        (NodeRefusedError("web3_clientVersion", -32601, "no", None), "unknown"),
    ],
)
def test_the_kind_of_node(reader: EvmReader, node: ScriptedNode, version: object, kind: str) -> None:
    node.version = version
    assert reader.identity().kind == kind
    assert reader.identity().genesis == block_hash(0)


TOPICS = [bytes.fromhex(topic[2:]) for topic in log(7, 1, 0)["topics"]]
DATA = bytes.fromhex(log(7, 1, 0)["data"][2:])


def test_an_event_is_decoded_to_its_fields() -> None:
    event = decode_anchored(TOPICS, DATA)
    assert (event.seq, event.first_offset, event.next_offset, event.leaf_count) == (7, 60, 70, 10)
    assert (event.root, event.manifest_hash, event.acc) == (b"r" * 32, b"m" * 32, b"\7" * 32)


@pytest.mark.parametrize(
    ("topic", "value"),
    [
        (0, b"\0" * 32),
        (1, b"s" * 31),
        (2, b"\0" * 23 + b"\1" + b"\0" * 8),
        (2, bytes(32)),
        (2, (MAX_OFFSET + 1).to_bytes(32, "big")),
        (3, b"\1" + bytes(31)),
        (3, bytes(11) + b"\1" + bytes(20)),
    ],
)
def test_topics_out_of_form(topic: int, value: bytes) -> None:
    topics = copy.copy(TOPICS)
    topics[topic] = value
    with pytest.raises(MalformedError):
        decode_anchored(topics, DATA)


@pytest.mark.parametrize("index", [0, 1, 2, 6])
def test_bits_above_a_field_are_refused(index: int) -> None:
    for bit in (64 if index != 2 else 32, 255):
        word = int.from_bytes(DATA[32 * index : 32 * index + 32], "big") | 1 << bit
        body = DATA[: 32 * index] + word.to_bytes(32, "big") + DATA[32 * index + 32 :]
        with pytest.raises(MalformedError):
            decode_anchored(TOPICS, body)


@pytest.mark.parametrize("length", [0, 192, 223, 225, 256])
def test_data_of_another_length(length: int) -> None:
    with pytest.raises(MalformedError):
        decode_anchored(TOPICS, (DATA + bytes(32))[:length])


@pytest.mark.parametrize("body", [b"", b"\1\2\3", b"\0\0\0\0" + bytes(96)])
def test_a_revert_of_another_contract(body: bytes) -> None:
    assert decode_revert(body) is None


def test_a_revert_whose_values_are_out_of_form() -> None:
    selector = function_signature_to_4byte_selector("Conflict(uint64,bytes32,bytes32)")
    shown = f"Conflict(seq=0, anchored={'00' * 32}, offered={'00' * 32})"
    assert str(decode_revert(selector + bytes(96))) == shown
    for body in (bytes(95), bytes(97), b"\1" + bytes(95)):
        with pytest.raises(MalformedError):
            decode_revert(selector + body)
