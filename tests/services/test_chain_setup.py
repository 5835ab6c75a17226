"""Setting up the embedded chain: once, in order, and on from wherever it stopped."""

from __future__ import annotations

from dataclasses import replace

import pytest

from provenance.errors import ConfigError, MismatchError, UnavailableError, VerificationError
from provenance.ports import DeployCall, SetKeyCall
from provenance.services.chain_setup import Founding, check_contract, set_up_chain
from provenance.testing.fakes import FakeChain
from provenance.testing.faults import Crash, Fault, Faults
from tests.services.batcher_world import CODE_HASH, GOVERNANCE, PUBLISHER, World

FOUNDING = Founding("org", GOVERNANCE, PUBLISHER, b"r" * 32)


def set_up(world: World, faults: Faults | None = None, **changes):
    governance = world.components(faults).governance
    return set_up_chain(world.chain, governance, FOUNDING, **{"code_hash": CODE_HASH, **changes})


def keys(world: World):
    state = world.chain._state
    return {address: (key.org, key.roles) for address, key in state.keys.items()}, state.record_keys


def test_it_deploys_and_enrols_once() -> None:
    world = World(embedded=True)
    assert set_up(world).deployed
    assert keys(world) == ({GOVERNANCE: (1, 1), PUBLISHER: (1, 2)}, [(1, b"r" * 32)])
    blocks = len(world.chain._blocks)
    again = set_up(world)
    assert not again.deployed
    assert again.identity.code_hash == CODE_HASH
    assert len(world.chain._blocks) == blocks


@pytest.mark.parametrize("fault", Fault)
def test_any_one_fault_leaves_it_to_the_next_call(fault: Fault) -> None:
    counter = Faults()
    set_up(World(embedded=True), counter)
    for number in range(len(counter.calls)):
        world, faults = World(embedded=True), Faults()
        faults.at(number, fault)
        for _ in range(3):
            try:
                set_up(world, faults)
                break
            except (Crash, UnavailableError):
                continue
        assert keys(world) == ({GOVERNANCE: (1, 1), PUBLISHER: (1, 2)}, [(1, b"r" * 32)])


@pytest.mark.parametrize("blocks", [1, 2, 3])
def test_a_chain_that_lost_blocks_is_set_up_from_there(blocks: int) -> None:
    world = World(embedded=True)
    contract = set_up(world).identity.contract
    world.chain.reorganise(blocks, drop=True)
    assert set_up(world).identity.contract == contract
    assert keys(world)[1] == [(1, b"r" * 32)]


def test_a_key_that_was_used_otherwise_is_refused() -> None:
    world = World(embedded=True)
    account = world.chain.account(GOVERNANCE)
    for nonce in range(3):
        account.send(account.sign(SetKeyCall(b"k" * 20, 2), nonce).raw)
    with pytest.raises(VerificationError) as caught:
        set_up(world)
    assert (caught.value.reason, bool(caught.value.remedy)) == ("no-contract", True)


def test_other_code_at_the_address_is_refused() -> None:
    world = World(embedded=True)
    with pytest.raises(MismatchError) as caught:
        set_up(world, code_hash=b"x" * 32)
    assert caught.value.expected == (b"x" * 32).hex()


def test_a_publisher_of_another_organisation_is_refused() -> None:
    world = World(embedded=True)
    account = world.chain.account(GOVERNANCE)
    account.send(account.sign(DeployCall("org", GOVERNANCE), 0).raw)
    world.chain._state.keys[PUBLISHER] = type(world.chain._state.keys[GOVERNANCE])(2, 2)
    with pytest.raises(ConfigError, match="enrolling the publisher's key"):
        set_up(world)


def test_a_contract_is_checked_by_its_code_alone() -> None:
    identity = FakeChain.with_contract(GOVERNANCE, PUBLISHER).identity()
    check_contract(identity, CODE_HASH)
    with pytest.raises(VerificationError):
        check_contract(replace(identity, code_hash=None), CODE_HASH)
