"""The EVM adapter on a real anvil: the ports' suite, and what only a chain shows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from provenance.adapters import anvil
from provenance.adapters.evm import EvmReader, EvmTransactor, Node, _reader
from provenance.contract import load
from provenance.core.streams import LogIdentity, Opening, binding_of, continues_of, next_acc, stream_of
from provenance.errors import ConfigError, MismatchError, UnavailableError
from provenance.ports import CloseCall, DeployCall, ListRecordKeyCall, OpenCall, SetKeyCall, TxState
from provenance.testing.conformance import ChainConformance
from provenance.testing.conformance.chain import ChainUnderTest
from tests.dev_chain import PUBLISHER, Ledger, deploy, start_or_skip

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.service


@pytest.fixture(scope="module")
def info(tmp_path_factory: pytest.TempPathFactory) -> Iterator[anvil.NodeInfo]:
    folder = tmp_path_factory.mktemp("chain")
    yield start_or_skip(folder)
    anvil.stop(folder)


@pytest.fixture
def ledger(info: anvil.NodeInfo, request: pytest.FixtureRequest) -> Ledger:
    return deploy(info, request.node.nodeid)


@pytest.fixture
def stream(ledger: Ledger) -> bytes:
    return ledger.open(b"b" * 32)


class TestEvm(ChainConformance):
    @pytest.fixture(params=[0, 2])
    def chain(self, info: anvil.NodeInfo, request: pytest.FixtureRequest) -> ChainUnderTest:
        depth = request.param
        ledger = deploy(info, request.node.nodeid, depth=depth)

        def settle() -> None:
            for _ in range(depth + 1):
                ledger.node.call("evm_mine")

        settle()
        return ChainUnderTest(ledger.reader, ledger.governance, ledger.publisher, settle, b"b" * 32)


def test_the_deployed_contract_is_the_shipped_one(ledger: Ledger) -> None:
    identity = ledger.reader.identity()
    assert (identity.contract, identity.code_hash) == (ledger.contract, load().code_hash)
    assert (identity.chain_id, identity.kind) == (ledger.chain_id, "anvil")


def test_an_address_without_a_contract(ledger: Ledger) -> None:
    nothing = EvmReader(ledger.node, chain_id=ledger.chain_id, contract=b"\1" * 20)
    assert (nothing.identity().contract, nothing.identity().code_hash) == (None, None)
    for ask in (nothing.openings, lambda: nothing.head(b"s" * 32), lambda: list(nothing.anchors(b"s" * 32))):
        with pytest.raises(UnavailableError, match="no ledger contract at 0x0101") as caught:
            ask()
        assert caught.value.remedy


def test_openings_of_another_chain_are_refused(ledger: Ledger, stream: bytes) -> None:
    elsewhere = EvmReader(ledger.node, chain_id=ledger.chain_id + 1, contract=ledger.contract)
    with pytest.raises(MismatchError, match="name of a stream"):
        elsewhere.openings()


def test_generations_continue_each_other(ledger: Ledger) -> None:
    log = LogIdentity("cluster", "topic", "0" * 32, 0)
    first = ledger.open(binding_of(log))
    call = ledger.next_call(first)
    ledger.act(ledger.publisher, call)
    ((_, opening, _),) = ledger.reader.openings(binding_of(log))
    continues = continues_of(opening, 1, ledger.head(first).acc)
    assert ledger.act(ledger.governance, CloseCall(first)) is TxState.FINAL
    second = ledger.open(binding_of(log), call.next_offset, continues)
    found = ledger.reader.openings(binding_of(log))
    assert [name for name, _, _ in found] == [first, second]
    assert found[1][1] == Opening(
        ledger.chain_id, ledger.contract, 1, 2, call.next_offset, binding_of(log), continues
    )
    assert stream_of(found[1][1]) == second
    assert ledger.head(first).closed
    assert found == ledger.reader.openings()


def test_more_anchors_than_one_request_holds(
    ledger: Ledger, stream: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sixty anchors, with gaps of blocks, read in windows and in chunks; each acc is the core's."""
    monkeypatch.setattr(_reader, "_WINDOW", 25)
    acc, nonce = stream, ledger.publisher.nonce()
    call = ledger.next_call(stream)
    for seq in range(1, 61):
        call = replace(call, seq=seq, prev_acc=acc, first_offset=3 * seq - 3, next_offset=3 * seq)
        acc = next_acc(
            acc,
            seq,
            first_offset=call.first_offset,
            next_offset=call.next_offset,
            leaf_count=call.leaf_count,
            root=call.root,
            manifest_hash=call.manifest_hash,
        )
        ledger.publisher.send(ledger.publisher.sign(call, nonce + seq - 1).raw)
        if seq % 20 == 0:
            ledger.node.call("anvil_mine", hex(30))
    anchors = list(ledger.reader.anchors(stream))
    assert [anchor.seq for anchor in anchors] == list(range(1, 61))
    assert anchors[-1].acc == acc == ledger.head(stream).acc
    assert anchors[-1].block_number - anchors[0].block_number > 100
    assert list(ledger.reader.anchors(stream, 59)) == anchors[58:]
    assert list(ledger.reader.anchors(stream, 0)) == anchors


def test_two_anchors_in_one_block(ledger: Ledger, stream: bytes) -> None:
    ledger.node.call("evm_setAutomine", False)
    try:
        nonce = ledger.publisher.nonce()
        first = ledger.next_call(stream)
        ledger.publisher.send(ledger.publisher.sign(first, nonce).raw)
        acc = next_acc(
            stream,
            1,
            first_offset=0,
            next_offset=3,
            leaf_count=3,
            root=first.root,
            manifest_hash=first.manifest_hash,
        )
        second = replace(first, seq=2, prev_acc=acc, first_offset=3, next_offset=6)
        ledger.publisher.send(ledger.publisher.sign(second, nonce + 1).raw)
        ledger.node.call("evm_mine")
    finally:
        ledger.node.call("evm_setAutomine", True)
    one, two = ledger.reader.anchors(stream)
    assert one.block_number == two.block_number == two.prev_block
    assert (one.prev_block, one.log_index, two.log_index) == (0, 0, 1)
    assert list(ledger.reader.anchors(stream, 2)) == [two]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"seq": 3}, "NotNext(seq=1, nextOffset=3, acc={acc})"),
        ({"prev_acc": b"p" * 32}, "NotNext(seq=1, nextOffset=3, acc={acc})"),
        ({"first_offset": 4}, "NotNext(seq=1, nextOffset=3, acc={acc})"),
        ({"leaf_count": 0}, "BadRange(firstOffset=3, nextOffset=6, leafCount=0)"),
        ({"next_offset": 2**53}, "BadRange(firstOffset=3, nextOffset=9007199254740992, leafCount=3)"),
        ({"stream": b"?" * 32}, "UnknownStream(stream=" + "3f" * 32 + ")"),
    ],
)
def test_why_a_batch_is_refused(
    ledger: Ledger, stream: bytes, change: dict[str, object], expected: str
) -> None:
    ledger.act(ledger.publisher, ledger.next_call(stream))
    call = replace(ledger.next_call(stream), **change)  # type: ignore[arg-type]
    assert str(ledger.publisher.dry_run(call)) == expected.format(acc=ledger.head(stream).acc.hex())
    assert ledger.publisher.dry_run(ledger.next_call(stream)) is None


def test_a_conflict_names_both(ledger: Ledger, stream: bytes) -> None:
    call = ledger.next_call(stream)
    ledger.act(ledger.publisher, call)
    assert ledger.publisher.dry_run(call) is None  # the exact repeat
    refusal = ledger.publisher.dry_run(replace(call, root=b"o" * 32))
    assert refusal is not None
    assert refusal.name == "Conflict"
    assert refusal.values["anchored"] == ledger.head(stream).acc
    assert refusal.values["seq"] == 1


def test_a_stranger_is_named(ledger: Ledger, stream: bytes) -> None:
    refusal = ledger.governance.dry_run(ledger.next_call(stream))
    assert refusal is not None
    assert refusal.name == "NotPublisher"
    assert str(refusal.values["sender"]).lower() == "0x" + ledger.governance.address.hex()
    refusal = ledger.publisher.dry_run(OpenCall(b"x" * 32, 0, bytes(32)))
    assert refusal is not None
    assert refusal.name == "NotGovernance"


def test_policies_wait_for_endorsement(ledger: Ledger) -> None:
    refusal = ledger.governance.dry_run(OpenCall(b"x" * 32, 0, bytes(32), k=1, eligible=2))
    assert str(refusal) == "PolicyUnsupported(k=1, eligible=2)"


def test_keys_of_records_are_listed_once(ledger: Ledger) -> None:
    for _ in range(2):
        assert ledger.act(ledger.governance, ListRecordKeyCall(b"k" * 32)) is TxState.FINAL
    assert ledger.act(ledger.publisher, ListRecordKeyCall(b"k" * 32)) is TxState.REVERTED


def test_signing_is_repeatable_and_bound_to_the_chain(ledger: Ledger, stream: bytes) -> None:
    call = ledger.next_call(stream)
    nonce = ledger.publisher.nonce()
    assert ledger.publisher.sign(call, nonce) == ledger.publisher.sign(call, nonce)
    stranger = EvmTransactor(
        ledger.node, secret=b"s" * 32, chain_id=ledger.chain_id + 1, contract=ledger.contract
    )
    with pytest.raises(UnavailableError, match="refused eth_sendRawTransaction"):
        stranger.send(stranger.sign(call, 0).raw)


def test_a_second_organisation_cannot_take_a_key(info: anvil.NodeInfo, ledger: Ledger) -> None:
    refusal = ledger.publisher.dry_run(SetKeyCall(ledger.publisher.address, PUBLISHER))
    assert refusal is not None
    assert refusal.name == "NotGovernance"
    with pytest.raises(ConfigError, match="name has 33 bytes"):
        ledger.governance.sign(DeployCall("x" * 33, ledger.governance.address), 0)
    assert Node(info.url).call("eth_chainId") == hex(info.chain_id)


def test_a_chain_that_ended(tmp_path: object, info: anvil.NodeInfo, ledger: Ledger) -> None:
    gone = Node("http://127.0.0.1:1")
    reader = EvmReader(gone, chain_id=info.chain_id, contract=ledger.contract)
    account = EvmTransactor(gone, secret=b"s" * 32, chain_id=info.chain_id, contract=ledger.contract)
    for ask in (reader.identity, reader.openings, account.nonce, lambda: account.state(b"t" * 32)):
        with pytest.raises(UnavailableError, match="does not answer"):
            ask()
