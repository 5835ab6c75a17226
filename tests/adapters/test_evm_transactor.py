"""Signing and sending: fees as the chain has them, and what a node's answers mean."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import pytest
from eth_account import Account
from eth_account.typed_transactions.typed_transaction import TypedTransaction
from eth_utils.abi import function_signature_to_4byte_selector
from eth_utils.crypto import keccak
from hexbytes import HexBytes

from provenance.adapters.evm import EvmTransactor, NodeRefusedError, created_address
from provenance.contract import load
from provenance.errors import ConfigError, MalformedError, UnavailableError
from provenance.ports import (
    AnchorCall,
    CloseCall,
    DeployCall,
    ListRecordKeyCall,
    OpenCall,
    SetKeyCall,
    TxState,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from provenance.ports import Call

SECRET, CONTRACT, HASH = b"\x11" * 32, b"\xcc" * 20, b"\x77" * 32
ANCHOR = AnchorCall(b"s" * 32, 1, b"s" * 32, 0, 3, 3, b"r" * 32, b"m" * 32)
CALLS: list[Call] = [
    ANCHOR,
    OpenCall(b"b" * 32, 0, bytes(32)),
    CloseCall(b"s" * 32),
    SetKeyCall(b"\xaa" * 20, 2),
    ListRecordKeyCall(b"k" * 32),
    DeployCall("Ørsted", b"\xaa" * 20),
]


class ScriptedNode:
    """Answers by method name; an exception as an answer is raised."""

    name = "node"

    def __init__(self, **answers: Any) -> None:
        self.answers = {
            "eth_gasPrice": "0x0",
            "eth_getBlockByNumber": {"baseFeePerGas": "0x0"},
            "eth_blockNumber": "0x64",
            **answers,
        }
        self.asked: list[tuple[str, tuple[Any, ...]]] = []

    def call(self, method: str, *params: Any) -> Any:
        self.asked.append((method, params))
        answer = self.answers[method]
        if isinstance(answer, Exception):
            raise answer
        return answer


def account(node: ScriptedNode, **options: Any) -> EvmTransactor:
    options = {"contract": CONTRACT, **options}
    return EvmTransactor(node, secret=SECRET, chain_id=1337, **options)  # type: ignore[arg-type]


def fields_of(raw: bytes) -> dict[str, Any]:
    return TypedTransaction.from_bytes(HexBytes(raw)).as_dict()


def refused(text: str, code: int = -32000, data: object = None) -> NodeRefusedError:
    return NodeRefusedError("method", code, text, data)


@pytest.mark.parametrize("call", CALLS, ids=lambda call: type(call).__name__)
def test_a_signature_is_the_account_s_and_covers_the_call(call: Call) -> None:
    sender = account(ScriptedNode())
    signed = sender.sign(call, 5)
    assert signed.nonce == 5
    assert signed.hash == keccak(signed.raw)
    assert Account.recover_transaction(signed.raw) == Account.from_key(SECRET).address
    assert bytes.fromhex(Account.from_key(SECRET).address[2:]) == sender.address
    fields = fields_of(signed.raw)
    assert (fields["chainId"], fields["nonce"], fields["value"]) == (1337, 5, 0)
    deploys = isinstance(call, DeployCall)
    assert bytes(fields["to"]) == (b"" if deploys else CONTRACT)
    assert bytes(fields["data"]).startswith(load().bytecode) is deploys


def test_the_data_of_an_anchor_is_the_abi_s() -> None:
    data = bytes(fields_of(account(ScriptedNode()).sign(ANCHOR, 0).raw)["data"])
    signature = "anchor(bytes32,uint64,bytes32,uint64,uint64,uint32,bytes32,bytes32)"
    words: list[bytes | int] = [b"s" * 32, 1, b"s" * 32, 0, 3, 3, b"r" * 32, b"m" * 32]
    encoded = b"".join(w if isinstance(w, bytes) else w.to_bytes(32, "big") for w in words)
    assert data == function_signature_to_4byte_selector(signature) + encoded


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ({}, {"type": 2, "maxFeePerGas": 0, "maxPriorityFeePerGas": 0}),
        (
            {
                "eth_gasPrice": "0x7",
                "eth_getBlockByNumber": {"baseFeePerGas": "0x5"},
                "eth_maxPriorityFeePerGas": "0x3",
            },
            {"type": 2, "maxFeePerGas": 13, "maxPriorityFeePerGas": 3},
        ),
        (
            {
                "eth_gasPrice": "0x7",
                "eth_getBlockByNumber": {"baseFeePerGas": "0x5"},
                "eth_maxPriorityFeePerGas": refused("no such method", -32601),
            },
            {"type": 2, "maxFeePerGas": 12, "maxPriorityFeePerGas": 2},
        ),
    ],
)
def test_fees_where_blocks_have_a_base_fee(answers: dict[str, Any], expected: dict[str, int]) -> None:
    fields = fields_of(account(ScriptedNode(**answers)).sign(ANCHOR, 0).raw)
    assert {name: fields[name] for name in expected} == expected


@pytest.mark.parametrize("price", [0, 9])
@pytest.mark.parametrize("block", [{}, {"baseFeePerGas": None}])
def test_a_price_where_they_have_none(price: int, block: dict[str, None]) -> None:
    raw = account(ScriptedNode(eth_gasPrice=hex(price), eth_getBlockByNumber=block)).sign(ANCHOR, 0).raw
    assert raw[0] >= 0xC0  # a list: no typed transaction
    assert Account.recover_transaction(raw) == Account.from_key(SECRET).address
    free = account(ScriptedNode(eth_gasPrice="0x0", eth_getBlockByNumber=block)).sign(ANCHOR, 0).raw
    assert (raw == free) is (price == 0)


@pytest.mark.parametrize(
    "answers",
    [
        {"eth_gasPrice": "0xb", "eth_getBlockByNumber": {}},
        {
            "eth_gasPrice": "0x6",
            "eth_getBlockByNumber": {"baseFeePerGas": "0x5"},
            "eth_maxPriorityFeePerGas": "0x1",
        },
        {
            "eth_gasPrice": "0x1",
            "eth_getBlockByNumber": {"baseFeePerGas": "0xff"},
            "eth_maxPriorityFeePerGas": "0x0",
        },
    ],
)
def test_a_node_cannot_make_us_pay_more_than_the_limit(answers: dict[str, Any]) -> None:
    with pytest.raises(UnavailableError, match="the limit is 10") as caught:
        account(ScriptedNode(**answers), max_fee=10).sign(ANCHOR, 0)
    assert caught.value.reason == "fee-limit"


@pytest.mark.parametrize(
    "answers",
    [
        {"eth_gasPrice": None},
        {"eth_gasPrice": 7},
        {"eth_getBlockByNumber": None},
        {"eth_getBlockByNumber": {"baseFeePerGas": 5}},
        {"eth_gasPrice": "0x1", "eth_maxPriorityFeePerGas": "1"},
    ],
)
def test_fees_out_of_form(answers: dict[str, Any]) -> None:
    with pytest.raises(MalformedError):
        account(ScriptedNode(**answers)).sign(ANCHOR, 0)


@pytest.mark.parametrize(
    "call",
    [
        AnchorCall(b"s" * 31, 1, b"s" * 32, 0, 3, 3, b"r" * 32, b"m" * 32),
        AnchorCall(b"s" * 33, 1, b"s" * 32, 0, 3, 3, b"r" * 32, b"m" * 32),
        AnchorCall(b"s" * 32, -1, b"s" * 32, 0, 3, 3, b"r" * 32, b"m" * 32),
        AnchorCall(b"s" * 32, 2**64, b"s" * 32, 0, 3, 3, b"r" * 32, b"m" * 32),
        AnchorCall(b"s" * 32, 1, b"s" * 32, 0, 3, 2**32, b"r" * 32, b"m" * 32),
        OpenCall(b"b" * 32, 2**64, bytes(32)),
        OpenCall(b"b" * 32, 0, bytes(32), k=256),
        OpenCall(b"b" * 32, 0, bytes(32), eligible=2**184),
        SetKeyCall(b"\xaa" * 20, 256),
        ListRecordKeyCall(b"k" * 31),
        CloseCall(b""),
    ],
)
def test_arguments_that_do_not_fit(call: Call) -> None:
    with pytest.raises(MalformedError, match="arguments of") as caught:
        account(ScriptedNode()).sign(call, 0)
    assert caught.value.reason == "abi-arguments"
    assert "\n" not in caught.value.message


@pytest.mark.parametrize("name", ["", "x" * 33, "é" * 17, "a\0b"])
def test_a_name_that_does_not_fit(name: str) -> None:
    with pytest.raises(ConfigError, match="expected 1 to 32"):
        account(ScriptedNode()).sign(DeployCall(name, b"\xaa" * 20), 0)


def test_without_a_contract_it_can_only_deploy() -> None:
    deployer = account(ScriptedNode(), contract=None)
    assert deployer.sign(CALLS[-1], 0).raw
    with pytest.raises(ConfigError, match="no ledger contract"):
        deployer.sign(ANCHOR, 0)


def test_the_address_of_what_a_nonce_deploys() -> None:
    # the example that documents of CREATE give
    sender = bytes.fromhex("6ac7ea33f8831ea9dcc53393aaa88b25a785dbf0")
    assert created_address(sender, 0).hex() == "cd234a471b72ba2f1ccf0a70fcaba648a5eecd8d"
    assert created_address(sender, 1).hex() == "343c43a37d37dff08ae8c4a11544c718abb4fcf8"


@pytest.mark.parametrize(
    "text",
    [
        "already known",
        "Known transaction",
        "transaction already imported",
        "nonce too low",
        "Nonce too low. Expected nonce to be 4 but got 3.",
        "the tx doesn't have the correct nonce. account has nonce of: 4 tx has nonce of: 3",
        "VM Exception while processing transaction: revert",
        "execution reverted: custom error 0x12345678",
    ],
)
def test_what_only_says_that_it_is_to_be_looked_up(text: str) -> None:
    account(ScriptedNode(eth_sendRawTransaction=refused(text))).send(b"raw")


@pytest.mark.parametrize(
    "text", ["replacement transaction underpriced", "txpool is full", "invalid sender", ""]
)
def test_what_the_node_really_refuses(text: str) -> None:
    with pytest.raises(NodeRefusedError):
        account(ScriptedNode(eth_sendRawTransaction=refused(text))).send(b"raw")


def test_an_account_that_cannot_pay() -> None:
    node = ScriptedNode(eth_sendRawTransaction=refused("insufficient funds for gas * price + value"))
    with pytest.raises(ConfigError, match="cannot pay") as caught:
        account(node).send(b"raw")
    assert account(node).address.hex() in caught.value.message.lower()


def receipt(**fields: Any) -> dict[str, Any]:
    return {"transactionHash": "0x" + HASH.hex(), "status": "0x1", "blockNumber": "0x60", **fields}


@pytest.mark.parametrize(
    ("answers", "depth", "expected"),
    [
        ({"eth_getTransactionReceipt": None, "eth_getTransactionByHash": None}, 0, TxState.UNKNOWN),
        ({"eth_getTransactionReceipt": None, "eth_getTransactionByHash": {}}, 0, TxState.PENDING),
        ({"eth_getTransactionReceipt": receipt()}, 0, TxState.FINAL),
        ({"eth_getTransactionReceipt": receipt(status="0x0")}, 0, TxState.REVERTED),
        ({"eth_getTransactionReceipt": receipt()}, 5, TxState.MINED),  # the head is four blocks on
        ({"eth_getTransactionReceipt": receipt(status="0x0")}, 5, TxState.MINED),
        ({"eth_getTransactionReceipt": receipt()}, 4, TxState.FINAL),
        ({"eth_getTransactionReceipt": receipt(status="0x0")}, 4, TxState.REVERTED),
        ({"eth_getTransactionReceipt": receipt(blockNumber="0x65")}, 1, TxState.MINED),
    ],
)
def test_what_became_of_a_transaction(answers: dict[str, Any], depth: int, expected: TxState) -> None:
    assert account(ScriptedNode(**answers), depth=depth).state(HASH) is expected


@pytest.mark.parametrize(
    "answer",
    [
        [],
        "0x1",
        {},
        receipt(transactionHash="0x" + "78" * 32),
        receipt(transactionHash=None),
        receipt(status=None),  # before Byzantium: a state root stood there
        receipt(status="0x2"),
        receipt(status=1),
        receipt(blockNumber=None),
    ],
)
def test_a_receipt_out_of_form(answer: object) -> None:
    with pytest.raises(MalformedError):
        account(ScriptedNode(eth_getTransactionReceipt=answer)).state(HASH)


@pytest.mark.parametrize(
    ("depth", "final", "block"),
    [(0, False, "latest"), (0, True, "latest"), (3, False, "latest"), (3, True, "0x61")],
)
def test_which_nonce(depth: int, final: bool, block: str) -> None:
    node = ScriptedNode(eth_getTransactionCount="0x9")
    assert account(node, depth=depth).nonce(final=final) == 9
    assert node.asked[-1] == ("eth_getTransactionCount", (Account.from_key(SECRET).address, block))


def test_a_final_nonce_on_a_young_chain() -> None:
    node = ScriptedNode(eth_getTransactionCount="0x0", eth_blockNumber="0x1")
    assert account(node, depth=3).nonce(final=True) == 0
    assert node.asked[-1][1][1] == "0x0"


REVERT = "0x" + (function_signature_to_4byte_selector("UnknownStream(bytes32)") + b"?" * 32).hex()


@pytest.mark.parametrize(
    "data",
    [
        REVERT,
        {"data": REVERT},
        {"data": {"data": REVERT}},
        {"result": REVERT},
        {"0xhash": {"result": REVERT}},
    ],
    ids=["geth", "hardhat", "nested", "result", "ganache"],
)
def test_why_a_call_is_refused_whatever_way_the_node_says_it(data: object) -> None:
    revert = account(ScriptedNode(eth_call=refused("reverted", 3, data))).dry_run(ANCHOR)
    assert revert is not None
    assert (revert.name, revert.values) == ("UnknownStream", {"stream": b"?" * 32})


@pytest.mark.parametrize("data", [None, "", "0x", "0x12345678", "reverted", {}, {"data": None}, [REVERT], 7])
def test_a_refusal_of_another_kind_stays_the_node_s(data: object) -> None:
    with pytest.raises(NodeRefusedError):
        account(ScriptedNode(eth_call=refused("out of gas", 3, data))).dry_run(ANCHOR)


def test_a_call_that_would_be_accepted() -> None:
    node = ScriptedNode(eth_call="0x")
    assert account(node).dry_run(ANCHOR) is None
    assert account(node).dry_run(CALLS[-1]) is None
    assert "to" not in node.asked[-1][1][0]


def test_the_secret_does_not_show() -> None:
    sender = account(ScriptedNode())
    assert SECRET.hex() not in repr(sender)
    with pytest.raises(TypeError, match="does not leave"):
        pickle.dumps(sender)


def sends(call: Callable[[EvmTransactor], object]) -> list[str]:
    node = ScriptedNode()
    call(account(node))
    return [method for method, _ in node.asked]


def test_signing_sends_nothing() -> None:
    assert "eth_sendRawTransaction" not in sends(lambda sender: sender.sign(ANCHOR, 0))
