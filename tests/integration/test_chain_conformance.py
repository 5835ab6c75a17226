"""The contract on anvil and the fake chain keep one suite: what services may rely on holds on both."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import pytest

from provenance import bootstrap, config
from provenance.errors import ConfigError, ProvenanceError, UnavailableError
from provenance.ports import DeployCall, SetKeyCall, TxState
from provenance.testing.conformance import ChainConformance
from provenance.testing.conformance.chain import ChainUnderTest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from provenance.adapters.evm import EvmTransactor
    from provenance.config import Settings
    from provenance.ports import Call

pytestmark = pytest.mark.service


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """A folder whose chain runs, with the contract deployed and the publisher's key set."""
    from provenance.adapters import anvil

    settings = config.Settings(tmp_path_factory.mktemp("project") / ".provenance")
    try:
        anvil.start(settings.chain_path)
    except (ConfigError, UnavailableError) as error:
        pytest.skip(f"no anvil: {error}")
    try:
        _, publisher = bootstrap.chain(settings)
        governance = bootstrap.governance(settings)
        act(settings, governance, DeployCall("organisation", governance.address))
        act(settings, governance, SetKeyCall(publisher.address, 2))
        yield settings
    finally:
        anvil.stop(settings.chain_path)


def mine(settings: Settings) -> None:
    """A block with what was sent: anvil makes one by itself, and not at once."""
    from provenance.adapters import anvil
    from provenance.adapters.evm import Node

    running = anvil.status(settings.chain_path)
    assert running is not None
    Node(running.url).call("evm_mine")


def act(settings: Settings, account: EvmTransactor, call: Call) -> None:
    transaction = account.sign(call, account.nonce())
    account.send(transaction.raw)
    mine(settings)
    assert account.state(transaction.hash) is TxState.FINAL


class TestEvmOnAnvil(ChainConformance):
    @pytest.fixture
    def chain(self, settings: Settings) -> ChainUnderTest:
        reader, publisher = bootstrap.chain(settings)
        governance = bootstrap.governance(settings)
        return ChainUnderTest(reader, governance, publisher, lambda: mine(settings), secrets.token_bytes(32))


def test_a_chain_under_another_id_is_refused(settings: Settings, tmp_path: Path) -> None:
    from provenance.adapters import anvil

    running = anvil.status(settings.chain_path)
    assert running is not None
    other = config.Settings(tmp_path, chain_url=running.url, chain_id=running.chain_id + 1)
    with pytest.raises(ConfigError, match=f"serves chain {running.chain_id}, expected"):
        bootstrap.chain(other)
    named = config.Settings(tmp_path, chain_url=running.url)
    reader, _ = bootstrap.chain(named)
    assert reader.identity().chain_id == running.chain_id
    assert reader.identity().contract is None  # the keys of this folder have deployed none


def test_a_chain_that_does_not_run_is_named_with_the_next_step(tmp_path: Path) -> None:
    with pytest.raises(ProvenanceError) as caught:
        bootstrap.chain(config.Settings(tmp_path))
    assert isinstance(caught.value, UnavailableError)
    assert caught.value.remedy == "Run: provenance up"
