"""Checking proofs: each thing that can be wrong with one, by its reason, and what is left unchecked."""

from __future__ import annotations

from dataclasses import replace

import pytest

from provenance.core import merkle, proof_check
from provenance.core.batches import Leaf, Position, build_batch, decode_manifest, encode_manifest
from provenance.core.evidence import Evidence
from provenance.core.kinds import InputRoot, SealedStage
from provenance.core.proof_check import check_files, check_proof, offset_of
from provenance.core.proofs import Proof, prove_anchored
from provenance.core.records import Subject
from provenance.core.streams import LogIdentity, stream_of
from provenance.core.trust import Pin
from provenance.errors import MalformedError, MismatchError, VerificationError
from tests.core.proof_world import (
    COUNT,
    LOG,
    OPENING,
    RAW,
    RUN,
    STORE,
    Key,
    ProofWorld,
    hex_of,
    id_of,
    sealed,
)


@pytest.fixture
def world():
    return ProofWorld()


def refused(proof, trust, reason, where=""):
    with pytest.raises((VerificationError, MalformedError)) as raised:
        check_proof(proof, trust)
    assert raised.value.reason == reason
    assert raised.value.message.startswith(where)
    return raised.value


def changed(proof, field, at, **changes):
    """The proof with one entry of a tuple changed."""
    entries = list(getattr(proof, field))
    entries[at] = replace(entries[at], **changes)
    return replace(proof, **{field: tuple(entries)})


def flipped(data, at=-1):
    changed_bytes = bytearray(data)
    changed_bytes[at] ^= 1
    return bytes(changed_bytes)


def test_a_whole_proof(world):
    checked = check_proof(world.proof(1, ancestors=True), world.trust)
    assert checked.evidence is Evidence.NODES_WORD
    (shard,) = checked.shards
    assert (shard.stage, shard.partition.number, shard.seq, shard.index) == ("store", 1, 2, 1)
    assert shard.offset == COUNT + 3
    assert (shard.block_number, shard.stream) == (11, stream_of(OPENING))
    assert checked.ancestors[0].stage == "raw"
    assert checked.seal.signer.name == "org"
    assert (checked.seal.seal.run, checked.seal.anchored.index) == (RUN, COUNT)
    assert len(checked.unchecked) == 2
    assert not any("ancestor" in sentence or "lineage" in sentence for sentence in checked.unchecked)


@pytest.mark.parametrize("number", range(COUNT))
def test_every_shard_and_a_bundle(world, number):
    assert check_proof(world.proof(number), world.trust).shards[0].partition.number == number
    assert len(check_proof(world.proof(*range(COUNT), ancestors=True), world.trust).shards) == COUNT


def test_offsets_are_counted_around_skipped_ones(world):
    manifest = world.batches()[1].manifest
    leaves = world.batches()[1].leaves
    assert [offset_of(manifest, at) for at in range(len(leaves))] == [leaf.offset for leaf in leaves]


def test_an_empty_proof_proves_nothing(world):
    refused(replace(world.proof(1), shards=()), world.trust, "no-shard")


# ------------------------------------------------------------------------------------------------ trust first


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"chain_id": 1}, "chain-id"),
        ({"contract": b"d" * 20}, "contract"),
        ({"consensus": "qbft"}, "no-seals"),
        ({"consensus": "clique"}, "no-seals"),
        ({"endorsements_needed": 1}, "endorsements"),
        ({"members": ()}, "unknown-key"),
        ({"pins": (Pin(11, bytes(32)),)}, "pin"),
    ],
)
def test_another_trust(world, change, reason):
    refused(world.proof(1), replace(world.trust, **change), reason)


def test_a_pin_that_agrees_or_is_of_another_block(world):
    pins = (Pin(11, b"\x01" * 32), Pin(99, bytes(32)))
    assert check_proof(world.proof(1), replace(world.trust, pins=pins)).evidence is Evidence.NODES_WORD


def test_a_code_hash_is_named_as_unchecked(world):
    checked = check_proof(world.proof(1), replace(world.trust, code_hash=bytes(32)))
    assert any("contract's code" in sentence for sentence in checked.unchecked)


def test_what_this_version_does_not_know_is_named(world):
    proof = replace(world.proof(1), endorsements=2, stamps=1)
    text = " ".join(check_proof(proof, world.trust).unchecked)
    assert "endorsements, which this version does not know: 2" in text
    assert "stamps, which this version does not know: 1" in text


# ---------------------------------------------------------------------------------------------------- batches


@pytest.mark.parametrize("field", ["org", "generation", "start_offset", "binding", "continues"])
def test_another_opening_gives_another_stream(world, field):
    value = b"x" * 32 if field in {"binding", "continues"} else 7
    proof = changed(world.proof(1), "batches", 1, opening=replace(OPENING, **{field: value}))
    refused(proof, world.trust, "stream", "batches[1]")


def test_a_log_that_the_stream_is_not_bound_to(world):
    world.log = LogIdentity("other", LOG.topic, LOG.topic_id, 0)
    refused(world.proof(1), world.trust, "binding", "batches[0]")


def test_another_generation_than_the_stream_was_opened_with(world):
    batch = world.batches()[1]
    manifest = replace(batch.manifest, generation=2)
    proof = changed(world.proof(1), "batches", 1, manifest=encode_manifest(manifest), acc=manifest.acc)
    refused(proof, world.trust, "generation", "batches[1]")


def test_another_accumulator(world):
    refused(changed(world.proof(1), "batches", 1, acc=bytes(32)), world.trust, "acc", "batches[1]")


def test_a_manifest_that_is_none(world):
    error = refused(
        changed(world.proof(1), "batches", 0, manifest=b"{}"), world.trust, "manifest-keys", "batches[0]"
    )
    assert error.exit_code == 2


def test_no_byte_of_a_manifest_can_change(world):
    proof = world.proof(1)
    manifest = proof.batches[1].manifest
    for at in range(len(manifest)):
        with pytest.raises((VerificationError, MalformedError)):
            check_proof(changed(proof, "batches", 1, manifest=flipped(manifest, at)), world.trust)


# ---------------------------------------------------------------------------------------------------- records


def test_no_byte_of_a_record_can_change(world):
    proof = world.proof(1)
    record = proof.shards[0].record
    for at in range(len(record)):
        refused(
            changed(proof, "shards", 0, record=flipped(record, at)), world.trust, "root-differs", "shards[0]"
        )


def test_paths_and_indexes(world):
    proof = world.proof(1)
    entry = proof.shards[0]
    for index in range(COUNT + 2):
        if index != entry.index:
            with pytest.raises(VerificationError):
                check_proof(changed(proof, "shards", 0, index=index), world.trust)
    for path in (entry.path[:-1], (*entry.path, bytes(32)), entry.path[::-1], (bytes(32),) * len(entry.path)):
        with pytest.raises(VerificationError):
            check_proof(changed(proof, "shards", 0, path=path), world.trust)
    refused(changed(proof, "shards", 0, batch=2), world.trust, "no-such-batch", "shards[0]")
    refused(changed(proof, "shards", 0, batch=0), world.trust, "root-differs", "shards[0]")


def test_a_leaf_that_is_no_record(world):
    manifest = world.batches()[1].manifest
    position = Position(manifest.stream, 1, 2, manifest.next_offset, manifest.acc)
    junk = build_batch(position, LOG, [Leaf(manifest.next_offset, b"junk")], last_leader_epoch=0)
    proof = world.proof(1)
    batch = replace(proof.batches[1], manifest=encode_manifest(junk.manifest), acc=junk.manifest.acc)
    shard = prove_anchored(b"junk", merkle.Tree(junk.ids), 0, ordinal=2)
    proof = replace(proof, batches=(*proof.batches, batch), shards=(shard,))
    refused(proof, world.trust, "not-json", "shards[0]")


def test_the_deepest_wrong_thing_is_named(world):
    proof = world.proof(*range(COUNT), ancestors=True)
    refused(changed(proof, "shards", 2, path=()), world.trust, "path-length", "shards[2]")
    refused(changed(proof, "ancestors", 1, path=()), world.trust, "path-length", "ancestors[1]")


# ------------------------------------------------------------------------------------------------------- seal


def test_a_partition_needs_a_seal(world):
    refused(replace(world.proof(1), seal=None), world.trust, "no-seal", "shards[0]")


def test_a_seal_by_an_untrusted_key(world):
    world.key = Key(b"f" * 32)
    refused(world.proof(1), world.trust, "unknown-key", "seal")


def test_a_seal_that_is_another_record(world):
    proof = world.proof(1)
    seal = replace(proof.seal, anchored=proof.shards[0])
    refused(replace(proof, seal=seal), world.trust, "other-kind", "seal")


def test_no_byte_of_the_seal_can_change(world):
    proof = world.proof(1)
    record = proof.seal.anchored.record
    for at in range(0, len(record), 7):
        seal = replace(proof.seal, anchored=replace(proof.seal.anchored, record=flipped(record, at)))
        refused(replace(proof, seal=seal), world.trust, "root-differs", "seal")


@pytest.mark.parametrize("paths", [(), ((), ())])
def test_a_path_for_each_record(world, paths):
    proof = world.proof(1)
    seal = replace(proof.seal, stage_paths=paths)
    refused(replace(proof, seal=seal), world.trust, "stage-path-count", "seal")


def test_a_seal_of_another_run(world):
    world.changes = {"run": bytes(32)}
    refused(world.proof(1), world.trust, "not-sealed", "shards[0]")


def test_a_seal_that_does_not_count_the_stage(world):
    world.changes = {"stages": (sealed(RAW, "raw", world.raws),)}
    refused(world.proof(1), world.trust, "not-sealed", "shards[0]")


@pytest.mark.parametrize(
    "stage",
    [
        SealedStage(STORE, "store", COUNT, 0, 0, bytes(32)),
        SealedStage(STORE, "store", COUNT + 5, 0, 0, bytes(32)),
        SealedStage(STORE, "store", 1, 0, 0, bytes(32)),
        SealedStage(STORE, "store", 0, 0, 0, merkle.EMPTY_ROOT),
    ],
)
def test_a_seal_with_another_root(world, stage):
    world.changes = {"stages": (stage,)}
    refused(world.proof(1), world.trust, "not-sealed", "shards[0]")


def test_a_stage_path_of_another_partition(world):
    proof = world.proof(1)
    other = world.proof(2).seal.stage_paths
    refused(
        replace(proof, seal=replace(proof.seal, stage_paths=other)), world.trust, "not-sealed", "shards[0]"
    )
    empty = replace(proof.seal, stage_paths=((),))
    refused(replace(proof, seal=empty), world.trust, "not-sealed", "shards[0]")


def test_a_stage_of_which_only_some_partitions_count(world):
    kept = [
        replace(world.stores[0], number=4),
        replace(world.stores[1], number=7),
        replace(world.stores[2], number=40),
    ]
    world.stores = kept
    checked = check_proof(world.proof(0, 1, 2), world.trust)
    assert [shard.partition.number for shard in checked.shards] == [4, 7, 40]


def test_a_position_is_not_searched_for_ever(world, monkeypatch):
    world.stores = [replace(one, number=one.number + 10) for one in world.stores]
    monkeypatch.setattr(proof_check, "_SEARCHED", 1)
    check_proof(world.proof(2), world.trust)
    refused(world.proof(0), world.trust, "not-sealed", "shards[0]")


def test_a_signed_record_vouches_for_itself(world):
    proof = world.proof(1)
    bare = Proof((proof.seal.anchored,), proof.batches)
    checked = check_proof(bare, world.trust)
    assert (checked.seal, checked.shards[0].record.kind) == (None, "seal")
    world.key = Key(b"f" * 32)
    proof = world.proof(1)
    refused(Proof((proof.seal.anchored,), proof.batches), world.trust, "unknown-key", "shards[0]")


# ---------------------------------------------------------------------------------------------------- lineage


def test_without_ancestors_the_lineage_is_unchecked(world):
    assert any("lineage up to raw" in one for one in check_proof(world.proof(1), world.trust).unchecked)


def test_an_ancestor_of_nothing(world):
    proof = world.proof(1, ancestors=True)
    other = world.proof(2, ancestors=True)
    paths = (*proof.seal.stage_paths, other.seal.stage_paths[1])
    proof = replace(
        proof, ancestors=(*proof.ancestors, *other.ancestors), seal=replace(proof.seal, stage_paths=paths)
    )
    refused(proof, world.trust, "no-ancestor", "ancestors[1]")


def test_some_ancestors_only(world):
    proof = world.proof(0, 1, ancestors=True)
    paths = proof.seal.stage_paths[:-1]
    proof = replace(proof, ancestors=proof.ancestors[:1], seal=replace(proof.seal, stage_paths=paths))
    assert any("does not carry: 1" in one for one in check_proof(proof, world.trust).unchecked)


@pytest.mark.parametrize("change", [{"name": "other"}, {"digest": {"sha256": "0" * 64}}])
def test_an_input_with_other_digests_than_its_record(world, change):
    used = replace(world.stores[1].inputs[0], **change)
    world.stores[1] = replace(world.stores[1], inputs=(used,))
    error = refused(world.proof(1, ancestors=True), world.trust, "input-digest")
    assert isinstance(error, MismatchError)


def by_root(world, count, root, numbers=range(COUNT)):
    world.stores[1] = replace(world.stores[1], inputs=(InputRoot(RAW, count, root),))
    proof = world.proof(*range(COUNT), ancestors=True)
    kept = [at for at, entry in enumerate(world.raws) if entry.number in numbers]
    paths = (*proof.seal.stage_paths[:COUNT], *(proof.seal.stage_paths[COUNT + at] for at in kept))
    ancestors = tuple(proof.ancestors[at] for at in kept)
    return replace(proof, ancestors=ancestors, seal=replace(proof.seal, stage_paths=paths))


def test_inputs_by_their_root(world):
    whole = merkle.root(map(id_of, world.raws))
    every = check_proof(by_root(world, COUNT, whole), world.trust)
    assert not any("root alone" in one for one in every.unchecked)
    some = check_proof(by_root(world, COUNT, whole, numbers={0, 2}), world.trust)
    assert any("root alone: 1" in one for one in some.unchecked)
    for count, root in ((COUNT, bytes(32)), (2, whole)):
        # The root does not lead to them: nothing does, so they are no ancestors.
        refused(by_root(world, count, root), world.trust, "no-ancestor", "ancestors[1]")


def test_an_ancestor_of_another_run_is_anchored_and_its_seal_unchecked(world):
    world.raws[1] = replace(world.raws[1], run=bytes(32))
    used = replace(world.stores[1].inputs[0], record=id_of(world.raws[1]))
    world.stores[1] = replace(world.stores[1], inputs=(used,))
    proof = world.proof(1, ancestors=True)
    refused(proof, world.trust, "not-sealed", "ancestors[0]")
    proof = replace(proof, seal=replace(proof.seal, stage_paths=(proof.seal.stage_paths[0], ())))
    checked = check_proof(proof, world.trust)
    assert (checked.ancestors[0].stage, checked.ancestors[0].partition.run) == ("", bytes(32))
    assert any("seals of the other runs" in one for one in checked.unchecked)


def test_a_signed_ancestor_descends_from_nothing_further(world):
    proof = world.proof(1, ancestors=True)
    both = (proof.seal.anchored, *proof.ancestors)
    paths = (proof.seal.stage_paths[0], (), proof.seal.stage_paths[1])
    proof = replace(proof, ancestors=both, seal=replace(proof.seal, stage_paths=paths))
    refused(proof, world.trust, "no-ancestor", "ancestors[0]")


def test_a_signed_record_among_shards_has_no_inputs(world):
    proof = world.proof(1)
    shards = (*proof.shards, proof.seal.anchored)
    proof = replace(
        proof, shards=shards, seal=replace(proof.seal, stage_paths=(proof.seal.stage_paths[0], ()))
    )
    assert len(check_proof(proof, world.trust).shards) == 2


# ------------------------------------------------------------------------------------------------------ files


def test_files_of_the_shard(world):
    checked = check_proof(world.proof(1), world.trust)
    tree, file = ("a", "tree1-sha256", hex_of("tree 1")), ("b", "sha256", hex_of("file 1"))
    assert check_files(checked, [tree, file]) == ()
    assert "not given: 1" in check_files(checked, [tree])[0]
    assert "not given: 2" in check_files(checked, [])[0]


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("tree1-sha256", hex_of("tree 2"), hex_of("tree 1")),
        ("sha256", hex_of("tree 1"), hex_of("file 1")),
        ("sha256", hex_of("raw 1"), hex_of("file 1")),
    ],
)
def test_the_proof_of_another_shard_fails(world, kind, value, expected):
    checked = check_proof(world.proof(1, ancestors=True), world.trust)
    with pytest.raises(MismatchError) as raised:
        check_files(checked, [("given", kind, value)])
    assert (raised.value.reason, raised.value.expected) == ("file", expected)
    assert raised.value.message.startswith("given")


def test_a_file_of_none_of_many_shards(world):
    checked = check_proof(world.proof(0, 1), world.trust)
    with pytest.raises(MismatchError, match="one of 2 parts"):
        check_files(checked, [("given", "sha256", "0" * 64)])


def test_a_shard_without_physical_digests_has_no_file(world):
    part = Subject("p00001", {"array1-sha256": "0" * 64})
    world.stores[1] = replace(world.stores[1], subjects=(part,))
    checked = check_proof(world.proof(1), world.trust)
    assert check_files(checked, []) == ()
    with pytest.raises(MismatchError, match="nothing, for no part"):
        check_files(checked, [("given", "sha256", "0" * 64)])


def test_the_manifests_are_those_of_the_batches(world):
    assert decode_manifest(world.proof(1).batches[0].manifest) == world.batches()[0].manifest
