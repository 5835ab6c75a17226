"""One chain for the contract's tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from provenance.adapters import anvil
from tests.dev_chain import Ledger, deploy, start_or_skip

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[anvil.NodeInfo]:
    folder = tmp_path_factory.mktemp("chain")
    info = start_or_skip(folder)
    yield info
    anvil.stop(folder)


@pytest.fixture
def ledger(chain: anvil.NodeInfo, request: pytest.FixtureRequest) -> Ledger:
    return deploy(chain, request.node.nodeid)
