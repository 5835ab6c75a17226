"""The contract and the vectors that bind every implementation."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from provenance.adapters.evm import NodeRefusedError
from provenance.adapters.evm._codec import decode_revert, encode_query
from provenance.adapters.evm._node import data
from provenance.contract import load
from provenance.core.streams import Opening, next_acc, stream_of
from provenance.errors import MalformedError
from provenance.ports import AnchorCall, OpenCall, TxState
from tests.dev_chain import ledger_at

if TYPE_CHECKING:
    from provenance.adapters.evm import Node
    from tests.dev_chain import Ledger

VECTORS = Path(__file__).resolve().parents[1] / "vectors"
STREAMS = json.loads((VECTORS / "streams.json").read_text())
INCLUSION = [
    case
    for name in ("merkle-cases.json", "merkle-cases-more.json")
    for case in json.loads((VECTORS / name).read_text())
    if case["check"] == "inclusion"
]
REFUSALS = {"NotIncluded", "BadPath"}

pytestmark = pytest.mark.service


KEYS, HEADS, STREAMS_OF = 2, 6, 9  # slots of the contract's mappings
CLOSED = 1 << 200


def keccak(node: Node, body: bytes) -> bytes:
    return data(node.call("web3_sha3", "0x" + body.hex()), "hash", 32)


def entry(node: Node, key: bytes, mapping: bytes) -> bytes:
    """The slot of ``mapping[key]``."""
    return keccak(node, key.rjust(32, b"\0") + mapping.rjust(32, b"\0"))


def forge_ledger(ledger: Ledger, case: dict[str, Any]) -> Ledger:
    """The chain of a vector: chain id, contract address, organisation and generation are set by hand to what
    it says."""
    node, org = ledger.node, case["org"]
    node.call("anvil_setChainId", case["chain_id"])
    contract = bytes.fromhex(case["contract"])
    forged = ledger_at(node, case["name"], chain_id=case["chain_id"], contract=contract)
    address = "0x" + contract.hex()
    node.call("anvil_setCode", address, "0x" + load().runtime.hex())
    generations = entry(node, bytes.fromhex(case["binding"]), entry(node, bytes([org]), bytes([STREAMS_OF])))
    storage = {
        entry(node, forged.governance.address, bytes([KEYS])): org | 3 << 8,  # governance and publisher
        generations: case["generation"] - 1,
        entry(node, b"", bytes([HEADS])): CLOSED | org << 192,  # the generation before: nameless, and closed
    }
    for slot, value in storage.items():
        node.call("anvil_setStorageAt", address, "0x" + slot.hex(), "0x" + value.to_bytes(32, "big").hex())
    return forged


@pytest.mark.parametrize("case", [c for c in STREAMS if c["chain_id"] < 2**64], ids=lambda case: case["name"])
def test_names_and_accumulators_are_those_of_the_vectors(ledger: Ledger, case: dict[str, Any]) -> None:
    try:
        forged = forge_ledger(ledger, case)
        assert forged.reader.identity().code_hash == load().code_hash
        continues = bytes.fromhex(case.get("continues", "00" * 32))
        opened = OpenCall(bytes.fromhex(case["binding"]), case["start"], continues)
        assert forged.act(forged.governance, opened) is TxState.FINAL
        *_, (stream, opening, _) = forged.reader.openings()  # two vectors share an address
        assert (stream.hex(), opening.generation) == (case["stream"], case["generation"])
        for batch in case["batches"]:
            call = anchor_call(batch, stream, forged.head(stream).acc)
            assert forged.act(forged.governance, call) is TxState.FINAL
            assert forged.head(stream).acc.hex() == batch["acc"]
    finally:
        ledger.node.call("anvil_setChainId", ledger.chain_id)


def anchor_call(batch: dict[str, Any], stream: bytes, prev_acc: bytes) -> AnchorCall:
    return AnchorCall(
        stream=stream,
        prev_acc=prev_acc,
        root=bytes.fromhex(batch["root"]),
        manifest_hash=bytes.fromhex(batch["manifest_hash"]),
        **{name: batch[name] for name in ("seq", "first_offset", "next_offset", "leaf_count")},
    )


def test_names_and_accumulators_are_those_of_the_core_up_to_the_limits(ledger: Ledger) -> None:
    """The vector whose chain id no node takes: the same batches under this chain's id."""
    (case,) = [case for case in STREAMS if case["chain_id"] >= 2**64]
    binding = bytes.fromhex(case["binding"])
    stream = ledger.open(binding, case["start"], b"c" * 32)
    opening = Opening(ledger.chain_id, ledger.contract, 1, 1, case["start"], binding, b"c" * 32)
    assert stream == stream_of(opening)
    acc = stream
    for batch in case["batches"]:
        call = anchor_call(batch, stream, acc)
        assert ledger.act(ledger.publisher, call) is TxState.FINAL
        acc = next_acc(
            acc,
            call.seq,
            first_offset=call.first_offset,
            next_offset=call.next_offset,
            leaf_count=call.leaf_count,
            root=call.root,
            manifest_hash=call.manifest_hash,
        )
    assert [anchor.acc for anchor in ledger.reader.anchors(stream)][-1] == acc


def test_inclusion_cases(ledger: Ledger) -> None:
    """Every inclusion case, each against a batch that was anchored with the case's root and size."""
    stream = ledger.open(b"b" * 32)
    anchored: dict[tuple[str, int], AnchorCall] = {}
    wrong = {}
    for case in INCLUSION:
        found = "refused"  # no such batch can be anchored: test_an_empty_batch_is_refused
        if is_a_batch(case):
            tree = (case["root"], case["size"])
            if tree not in anchored:
                anchored[tree] = ledger.next_call(
                    stream, leaves=case["size"], root=bytes.fromhex(case["root"])
                )
                assert ledger.act(ledger.publisher, anchored[tree]) is TxState.FINAL
            found = verdict(ledger, anchored[tree], case)
        if found != ("included" if case["valid"] else "refused"):
            wrong[case["name"]] = found
    assert wrong == {}
    assert sum(case["valid"] for case in INCLUSION) >= 7


def is_a_batch(case: dict[str, Any]) -> bool:
    return type(case["size"]) is int and 0 < case["size"] < 2**32 and len(case["root"]) == 64


def verdict(ledger: Ledger, call: AnchorCall, case: dict[str, Any]) -> str:
    witness = (call.first_offset, call.next_offset, call.leaf_count, call.root, call.manifest_hash)
    leaf = hashlib.sha256(b"\0" + bytes.fromhex(case["record"])).digest()
    try:
        path = [bytes.fromhex(node) for node in case["path"]]
        query = encode_query("checkInclusion", [call.stream, call.seq, witness, leaf, case["index"], path])
    except MalformedError:
        return "refused"  # a negative index, or a node that is not of 32 bytes, has no encoding
    try:
        ledger.node.call(
            "eth_call", {"to": "0x" + ledger.contract.hex(), "data": "0x" + query.hex()}, "latest"
        )
    except NodeRefusedError as error:
        revert = decode_revert(data(error.data, "revert"))
        return "refused" if revert is not None and revert.name in REFUSALS else str(revert)
    return "included"


def test_an_empty_batch_is_refused(ledger: Ledger) -> None:
    call = ledger.next_call(ledger.open(b"b" * 32), leaves=0)
    refusal = ledger.publisher.dry_run(call)
    assert refusal is not None
    assert refusal.name == "BadRange"
