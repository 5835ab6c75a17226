"""A chain that lost what was anchored: the embedded one is anchored again, any other one refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from provenance.core.batches import decode_batch, manifest_hash
from provenance.core.transactions import JournalEntry, SignedTransaction
from provenance.errors import MismatchError, VerificationError
from provenance.services.batch_files import read_batch
from provenance.services.batching import run_once
from provenance.services.chain_setup import set_up_chain
from provenance.services.reanchoring import anchor_again
from provenance.testing.fakes import FakeChain, FakeIndex, FakeJournal
from provenance.testing.faults import Crash, Fault, Faults
from tests.services.batcher_world import GOVERNANCE, LIMITS, PUBLISHER, World

VALUES = [b"message %d" % number for number in range(12)]


def anchored(**changes) -> World:
    world = World(**{"embedded": True, **changes})
    world.write(*VALUES)
    world.run()
    return world


def accs(world: World) -> list[bytes]:
    ((stream, _, _),) = world.chain.openings()
    return [anchor.acc for anchor in world.chain.anchors(stream)]


def make_chain_anew(world: World) -> None:
    world.chain = FakeChain()


def test_a_chain_made_anew_gets_the_same_contract_streams_and_accumulators() -> None:
    world = anchored()
    before, contract = accs(world), world.chain.identity().contract
    make_chain_anew(world)
    outcome = world.run()
    assert (outcome.deployed, outcome.batches) == (True, 0)
    assert [(part.first, part.last) for part in outcome.again] == [(1, 3)]
    assert (accs(world), world.chain.identity().contract) == (before, contract)
    world.check()


def test_it_goes_on_after_that() -> None:
    world = anchored()
    make_chain_anew(world)
    world.write(b"more")
    outcome = world.run()
    assert (outcome.records, outcome.batches) == (1, 1)
    world.check()


@pytest.mark.parametrize("blocks", range(1, 7))
def test_a_chain_set_back_by_so_many_blocks(blocks: int) -> None:
    world = anchored()
    before = accs(world)
    world.chain.reorganise(blocks, drop=True)  # 6: the three batches, the opening, two steps of the set-up
    world.run()
    assert accs(world) == before
    world.check()


def test_without_log_index_and_journal_the_files_are_enough() -> None:
    world = anchored()
    before = accs(world)
    make_chain_anew(world)
    world.index = FakeIndex()
    world.journals[PUBLISHER] = FakeJournal()
    world.log.trim(0, 11)  # all but the last anchored message
    world.run()
    assert accs(world) == before


@pytest.mark.parametrize("fault", Fault)
def test_any_one_fault_while_anchoring_again(fault: Fault) -> None:
    counter = Faults()
    world = anchored()
    make_chain_anew(world)
    world.run(counter)
    before = accs(world)
    for number in range(len(counter.calls)):
        world = anchored()
        make_chain_anew(world)
        faults = Faults()
        faults.at(number, fault)
        world.run_until_done(faults)
        assert accs(world) == before
        world.check()


def test_elsewhere_it_is_refused_and_the_heads_are_named() -> None:
    world = anchored(embedded=False)
    world.chain.reorganise(2, drop=True)
    world.write(b"more")
    with pytest.raises(VerificationError, match=r"head is seq 1, .* up to seq 3 were final") as caught:
        world.run()
    assert (caught.value.reason, bool(caught.value.remedy)) == ("chain-behind", True)
    assert len(accs(world)) == 1


def test_elsewhere_a_chain_made_anew_is_refused() -> None:
    world = anchored(embedded=False)
    world.chain = FakeChain.with_contract(GOVERNANCE, PUBLISHER)
    with pytest.raises(VerificationError, match="does not know stream") as caught:
        world.run()
    assert (caught.value.reason, bool(caught.value.remedy)) == ("stream-unknown", True)
    assert world.chain.openings() == ()


# Which file, when several continue a head.


def last_but_one_file_lost(world: World) -> str:
    return sorted(world.store.objects)[1]


def test_a_missing_file_in_the_middle_is_named() -> None:
    world = anchored()
    del world.store.objects[last_but_one_file_lost(world)]
    make_chain_anew(world)
    with pytest.raises(VerificationError, match=r"head, seq 1 .* files up to seq 3") as caught:
        world.run()
    assert caught.value.reason == "batch-missing"
    assert "seq 2" in caught.value.remedy


def test_a_missing_first_file_is_named() -> None:
    world = anchored()
    del world.store.objects[min(world.store.objects)]
    make_chain_anew(world)
    with pytest.raises(VerificationError, match="first batch file is missing") as caught:
        world.run()
    assert caught.value.reason == "cannot-reopen"


@pytest.mark.parametrize("change", [lambda data: data[:-1], lambda data: data[:-1] + b"?", lambda _: b""])
def test_a_damaged_file_is_never_anchored_again(change) -> None:
    world = anchored()
    name = last_but_one_file_lost(world)
    world.store.objects[name] = change(world.store.objects[name])
    make_chain_anew(world)
    with pytest.raises(VerificationError, match=name) as caught:
        world.run()
    assert caught.value.reason == "batch-file"
    assert len(accs(world)) < 3


def test_a_file_under_another_s_name_is_never_anchored_again() -> None:
    world = anchored()
    first, second, _ = sorted(world.store.objects)
    world.store.objects[second] = world.store.objects[first]
    make_chain_anew(world)
    with pytest.raises(MismatchError) as caught:
        world.run()
    assert caught.value.reason == "batch-file"


def test_files_of_another_chain_are_refused() -> None:
    world = anchored()
    world.chain = FakeChain(chain_id=4)
    with pytest.raises(VerificationError, match="another chain") as caught:
        world.run()
    assert caught.value.reason == "cannot-reopen"


def tips(world: World, seq: int) -> dict[int, bytes]:
    """Leaf count to accumulator of the files of a seq."""
    manifests = [
        decode_batch(data).manifest for name, data in world.store.objects.items() if f"{seq:016d}" in name
    ]
    return {manifest.leaf_count: manifest.acc for manifest in manifests}


def with_two_tips() -> World:
    """Two files of seq 4, as two crashes behind step 4 leave them elsewhere than on the embedded chain."""
    world = anchored()
    world.write(*(b"%d" % number for number in range(4)))
    for count in (2, 3):
        faults = Faults()
        faults.on("account.sign", Fault.CRASH_BEFORE)
        components = replace(world.components(faults), founding=None)
        with pytest.raises(Crash):
            run_once(components, replace(LIMITS, max_records=count), jitter=lambda: 0.5)
    assert set(tips(world, 4)) == {2, 3}
    return world


def test_of_two_last_files_the_longer_is_taken() -> None:
    world = with_two_tips()
    make_chain_anew(world)
    world.run()
    assert accs(world)[3] == tips(world, 4)[3]
    world.check()


def test_of_two_last_files_the_signed_one_is_taken() -> None:
    world = with_two_tips()
    short = tips(world, 4)[2]
    ((stream, _, _),) = world.chain.openings()
    manifest = read_batch(world.store, stream, 4, short).manifest
    # A real transaction's bytes hold the hash as it stands; the fake chain's are JSON.
    signed = SignedTransaction(9, b"h" * 32, b"call " + manifest_hash(manifest) + b" signature")
    world.journals[PUBLISHER].record(JournalEntry(signed, "anchor", stream, 4))
    make_chain_anew(world)
    world.run()
    assert accs(world)[3] == short
    world.check()


def test_of_two_files_the_one_with_a_successor_is_taken() -> None:
    world = with_two_tips()
    kept = dict(world.store.objects)
    run_once(replace(world.components(), founding=None), replace(LIMITS, max_records=2), jitter=lambda: 0.5)
    before = accs(world)
    assert before[3] == tips(world, 4)[2]
    world.store.objects = {**kept, **world.store.objects}  # the orphan comes back, from a copy of the folder
    make_chain_anew(world)
    world.run()
    assert accs(world)[: len(before)] == before


def test_somebody_else_who_anchors_into_the_chain_is_noticed() -> None:
    world = anchored()
    make_chain_anew(world)
    components = world.components()

    class Lying:
        def head(self, stream):
            head = world.chain.head(stream)
            return None if head is None else replace(head, acc=b"x" * 32) if head.seq == 3 else head

        def __getattr__(self, name):
            return getattr(world.chain, name)

    setup = set_up_chain(
        world.chain, components.governance, components.founding, code_hash=components.code_hash
    )
    with pytest.raises(MismatchError, match="head after anchoring again"):
        anchor_again(
            Lying(), world.store, components.publisher, components.governance, identity=setup.identity
        )
