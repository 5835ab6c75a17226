"""What each call costs, held to a snapshot: a change of the contract shows what it does to the price.

``docs/reference/contract.md`` gives the same figures. After a change on purpose, take over what the failing
test prints.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from provenance.adapters.evm._node import Node, data, member, quantity
from provenance.contract import load
from provenance.ports import CloseCall, DeployCall, ListRecordKeyCall, OpenCall, SetKeyCall
from tests.dev_chain import PUBLISHER, ledger_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from provenance.adapters import anvil
    from provenance.adapters.evm import EvmTransactor
    from provenance.ports import Call
    from tests.dev_chain import Ledger

SNAPSHOT = Path(__file__).with_name("gas.json")
DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "reference" / "contract.md"
CHAIN_ID = 1337  # names, and so the zero bytes that are cheaper to send, depend on it

pytestmark = pytest.mark.service


@pytest.fixture
def fixed(chain: anvil.NodeInfo) -> Iterator[Ledger]:
    node = Node(chain.url)
    node.call("anvil_setChainId", CHAIN_ID)
    yield ledger_at(node, "gas", chain_id=CHAIN_ID, contract=None)
    node.call("anvil_setChainId", chain.chain_id)


def gas_of(ledger: Ledger, account: EvmTransactor, call: Call) -> int:
    transaction = account.sign(call, account.nonce())
    account.send(transaction.raw)
    ledger.node.call("evm_mine")
    receipt = member(ledger.node.call("eth_getTransactionReceipt", "0x" + transaction.hash.hex()), "receipt")
    assert receipt["status"] == "0x1"
    return quantity(receipt["gasUsed"], "gas")


def measure(ledger: Ledger) -> dict[str, int]:
    governance, publisher = ledger.governance, ledger.publisher
    gas: dict[str, int] = {"bytes of code": len(load().runtime)}
    gas["deploy"] = gas_of(ledger, governance, DeployCall("Test", governance.address))
    gas["setKey"] = gas_of(ledger, governance, SetKeyCall(publisher.address, PUBLISHER))
    gas["listRecordKey"] = gas_of(ledger, governance, ListRecordKeyCall(b"k" * 32))
    gas["openStream"] = gas_of(ledger, governance, OpenCall(b"b" * 32, 0, bytes(32)))
    ((stream, _, _),) = ledger.reader.openings()
    first = ledger.next_call(stream, leaves=1000)
    gas["anchor, first"] = gas_of(ledger, publisher, first)
    gas_of(ledger, publisher, ledger.next_call(stream, leaves=1000))
    gas["anchor, steady"] = gas_of(ledger, publisher, ledger.next_call(stream, leaves=1000))
    gas["anchor, repeat of an old batch"] = gas_of(ledger, publisher, first)
    gas["closeStream"] = gas_of(ledger, governance, CloseCall(stream))
    return gas


def test_gas_is_that_of_the_snapshot(fixed: Ledger) -> None:
    assert data(fixed.node.call("eth_getCode", "0x" + fixed.contract.hex(), "latest"), "code") == b""
    gas = measure(fixed)
    assert gas == json.loads(SNAPSHOT.read_text()), json.dumps(gas, indent=1)
    assert gas["anchor, steady"] <= 63_000


def test_the_reference_gives_these_figures() -> None:
    text = DOCUMENT.read_text().replace(",", "")
    missing = [name for name, value in json.loads(SNAPSHOT.read_text()).items() if f" {value} " not in text]
    assert missing == []
