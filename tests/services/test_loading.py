"""Nothing is loaded of a run about which anything is wrong, and no byte that is not the anchored one."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest

from provenance.core.kinds import Run, Seal, Stage
from provenance.core.lists import EMPTY_LIST
from provenance.core.records import Subject, key_id, sign_record
from provenance.errors import (
    ConfigError,
    MalformedError,
    MismatchError,
    PendingError,
    ProvenanceError,
    UnavailableError,
    VerificationError,
)
from provenance.services.loading import check_part, prove_shards, read_part
from provenance.testing.fakes import FakeChain, FakeSigner
from tests.services.audit_world import COUNT, ENDED, STARTED, World, transform

OTHER = FakeSigner(b"o" * 32)


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


@pytest.fixture
def complete(world):
    return world.complete()


def refused(world, kind, **how):
    with pytest.raises(ProvenanceError) as caught:
        prove_shards(world.ports(), **how)
    assert type(caught.value) in {kind, *kind.__subclasses__()}, repr(caught.value)
    assert caught.value.remedy, caught.value.message
    says_to_go_on_checking(caught.value)
    return caught.value


def says_to_go_on_checking(error):
    text = f"{error.message} {error.remedy}".lower()
    assert not any(word in text for word in ("observe", "disable", "turn off", "skip", "ignore", "policy"))


# -------------------------------------------------------------------------------------------------- the set


def test_every_counted_partition_of_the_sink_is_a_shard(complete):
    found = prove_shards(complete.ports(), run=complete.run_id.hex())
    assert (found.run, found.stage, found.name) == (complete.run_id, complete.store_id, "store")
    assert [shard.number for shard in found.shards] == list(range(COUNT))
    assert [shard.record for shard in found.shards] == [complete.id_of(one) for one in complete.stored]
    assert [shard.parts for shard in found.shards] == [one.subjects for one in complete.stored]
    assert found.complaint is None
    anchors = {
        one.transaction for stream, *_ in complete.chain.openings() for one in complete.chain.anchors(stream)
    }
    assert {shard.transaction for shard in found.shards} <= anchors
    assert prove_shards(complete.ports()) == found == prove_shards(complete.ports(), stage="store")
    assert prove_shards(complete.ports(), run=complete.run_id.hex()[:4].upper()) == found


@pytest.mark.parametrize("partitions", [1, 3])
def test_records_that_stand_twice_and_in_any_order_give_each_shard_once(tmp_path, partitions):
    world = World(tmp_path, partitions=partitions)
    world.start()
    world.compute()
    for partition in reversed([*world.raw, *world.feature, *world.stored, *world.stored]):
        world.put(partition)
    world.seal()
    world.anchor()
    found = prove_shards(world.ports())
    assert [shard.number for shard in found.shards] == list(range(COUNT))


def test_a_partition_of_which_nothing_is_stored_is_no_shard(world):
    world.start()
    world.compute()
    world.stored[2] = replace(world.stored[2], subjects=(), rows=0, bytes=0, rejected="silence")
    mark = Subject("a.wav#rejected:silence", {"sha256": "0" * 64})
    world.stored[3] = replace(world.stored[3], subjects=(*world.stored[3].subjects, mark))
    world.stored[4] = replace(world.stored[4], subjects=(mark,))
    world.emit()
    world.seal()
    world.anchor()
    found = prove_shards(world.ports())
    assert [shard.number for shard in found.shards] == [0, 1, 3, 5, 6]
    assert all(len(shard.parts) == 1 for shard in found.shards)


def test_the_attempt_that_the_seal_sets_aside_is_no_shard(world):
    world.start()
    world.compute()
    attempt = replace(world.stored[3], bytes=65)
    aside = world.put(attempt)
    world.emit()
    world.seal(aside={world.store_id: [aside]})
    world.anchor()
    found = prove_shards(world.ports())
    assert found.shards[3].record == world.id_of(world.stored[3]) != aside
    assert found.shards[3].size == 64


def test_an_attempt_that_the_seal_does_not_know_stops_everything(world):
    world.start()
    world.compute()
    world.emit()
    world.seal()
    world.put(replace(world.stored[3], bytes=65))
    world.anchor()
    error = refused(world, VerificationError)
    assert error.reason == "not-counted"
    assert "shard 3" in error.message
    assert "stage 'store'" in error.message


# ----------------------------------------------------------------------------------------- which run and sink


def test_the_last_sealed_run_is_taken_if_none_is_named(world):
    world.complete()
    first = world.run_id
    world.raw, world.feature, world.stored = [], [], []
    world.start(nonce=b"n" * 16)
    world.compute()
    world.emit()
    world.seal()
    world.anchor()
    assert prove_shards(world.ports()).run == world.run_id != first
    assert prove_shards(world.ports(), run=first.hex()).run == first


@pytest.mark.parametrize(
    ("run", "reason"), [("f" * 64, "no-such-run"), ("zz", "run-prefix"), ("", "run-prefix")]
)
def test_a_run_that_is_not_known(complete, run, reason):
    assert refused(complete, ConfigError, run=run).reason == reason


def test_nothing_is_anchored(world):
    world.chain = FakeChain()
    world.start()
    world.anchor()
    assert refused(world, PendingError).reason == "no-sealed-run"


def test_a_run_that_waits_in_the_log(complete):
    waiting = Run("later", b"l" * 16, (), b"s" * 32, False, EMPTY_LIST, {}, STARTED, ("provenance", "0.1.0"))
    run = complete.sign(waiting)
    error = refused(complete, PendingError, run=run.hex())
    assert (error.reason, error.exit_code) == ("run-pending", 4)
    complete.log = None
    assert refused(complete, ConfigError, run=run.hex()).reason == "no-such-run"


def test_a_run_whose_seal_is_not_there_yet(world):
    world.start()
    world.compute()
    world.emit()
    world.anchor()
    for log in (world.log, None):
        with pytest.raises(PendingError) as caught:
            prove_shards(world.ports(log=log), run=world.run_id.hex())
        assert caught.value.exit_code == 4
        assert world.run_id.hex()[:12] in caught.value.message
    world.seal()
    assert refused(world, PendingError, run=world.run_id.hex()).reason == "no-seal"
    world.anchor()
    assert len(prove_shards(world.ports()).shards) == COUNT


def test_a_run_of_a_key_that_is_not_trusted(complete):
    stranger = key_id(OTHER.public_key())
    with pytest.raises(VerificationError) as caught:
        prove_shards(complete.ports(keys={stranger: OTHER.public_key()}), run=complete.run_id.hex())
    assert caught.value.reason == "unknown-key"
    assert key_id(complete.signer.public_key()) in caught.value.message


@pytest.mark.parametrize("name", ["raw", "feature", "nothing"])
def test_a_stage_that_stores_nothing_is_no_sink(complete, name):
    error = refused(complete, ConfigError, stage=name)
    assert (error.reason, error.exit_code) == ("sink", 2)
    assert "'store'" in error.message


def test_of_several_sinks_one_must_be_named(world):
    world.start()
    second = Stage(
        world.run_id, "copy", (world.feature_id,), transform("provenance:write_zarr"), partitions=COUNT
    )
    second_id = world.sign(second)
    world.stages[second_id] = second
    world.compute()
    world.emit()
    copies = [replace(one, stage=second_id) for one in world.stored]
    for one in copies:
        world.put(one)
    world.aside = {}
    sealed = tuple(
        world._sealed(stage, partitions)
        for stage, partitions in (
            (world.raw_id, world.raw),
            (world.feature_id, world.feature),
            (world.store_id, world.stored),
            (second_id, copies),
        )
    )
    world.sign(Seal(world.run_id, "complete", ENDED, sealed))
    world.anchor()
    assert refused(world, ConfigError).message.endswith("'store', 'copy'")
    assert prove_shards(world.ports(), stage="copy").stage == second_id


# ---------------------------------------------------------------------------------------- what does not hold


def test_a_forged_seal_is_not_a_seal_that_is_late(world):
    world.start()
    world.compute()
    world.emit()
    world.anchor()
    world.signer, own = OTHER, world.signer
    world.seal()
    world.signer = own
    world.anchor()
    error = refused(world, VerificationError, run=world.run_id.hex())
    assert error.reason == "forged-seal"
    assert key_id(OTHER.public_key()) in error.message
    assert "transaction 0x" in error.message
    with pytest.raises(VerificationError):
        prove_shards(world.ports(), run=world.run_id.hex(), enforce=False)


def test_a_forged_seal_beside_the_right_one(complete):
    forged = Seal(complete.run_id, "complete", ENDED, ())
    complete.append(sign_record(forged.statement(), OTHER))
    complete.anchor()
    assert len(prove_shards(complete.ports()).shards) == 7


def test_two_seals_are_none(complete):
    complete.seal(ended="2027-01-01T00:00:00Z")
    complete.anchor()
    assert refused(complete, VerificationError).reason == "second-seal"


def test_an_aborted_run(world):
    world.start()
    world.compute()
    world.emit()
    world.seal(status="aborted")
    world.anchor()
    assert refused(world, VerificationError).reason == "run-aborted"


def test_a_partition_that_is_missing(world):
    world.start()
    world.compute()
    for partition in (*world.raw, *world.feature, *world.stored[:3], *world.stored[4:]):
        world.put(partition)
    world.seal()
    world.anchor()
    error = refused(world, VerificationError)
    assert error.reason == "partition-missing"
    assert "shard 3" in error.message
    world.put(world.stored[3])
    error = refused(world, PendingError)
    assert error.reason == "partition-missing", "it waits in the log"
    world.anchor()
    assert len(prove_shards(world.ports()).shards) == COUNT


def test_an_input_that_comes_from_nowhere(world):
    world.start()
    world.compute()
    stranger = replace(world.feature[3].inputs[0], record=b"?" * 32)
    world.feature[3] = replace(world.feature[3], inputs=(stranger,))
    used = replace(world.stored[3].inputs[0], record=world.id_of(world.feature[3]))
    world.stored[3] = replace(world.stored[3], inputs=(used,))
    world.emit()
    world.seal()
    world.anchor()
    error = refused(world, VerificationError)
    assert isinstance(error, MismatchError)
    assert error.reason == "input-not-counted"
    assert "stage 'feature', shard 3" in error.message
    assert b"?".hex() * 32 in error.message


@pytest.mark.parametrize("with_log", [True, False])
def test_a_batch_file_that_was_changed(complete, with_log):
    name = complete.batch_names()[2]
    complete.flip(name, len(complete.store.objects[name]) - 20)
    log = complete.log if with_log else None
    with pytest.raises(VerificationError) as caught:
        prove_shards(complete.ports(log=log), run=complete.run_id.hex())
    error = caught.value
    assert error.reason == "batch-changed"
    says_to_go_on_checking(error)
    stream, seq = name.split("/")[0], int(name.split("/")[1].split("-")[0])
    assert f"stream {stream[:12]}, seq {seq}" in error.message
    (transaction,) = [
        one.transaction for one in complete.chain.anchors(bytes.fromhex(stream), seq) if one.seq == seq
    ]
    assert f"transaction 0x{transaction.hex()}" in error.message
    assert "copy" in error.remedy
    if with_log:
        assert "offset" in error.message


def test_a_batch_file_that_is_gone_is_no_run_that_is_unknown(complete):
    for name in complete.batch_names():
        del complete.store.objects[name]
    error = refused(complete, VerificationError, run=complete.run_id.hex())
    assert error.reason == "missing-file"
    assert error.message.endswith("more findings")
    observed = prove_shards(complete.ports(), enforce=False)
    assert len(observed.shards) == COUNT, "the log still has them"
    assert observed.complaint.reason == "missing-file"
    with pytest.raises(VerificationError):
        prove_shards(complete.ports(log=None), run=complete.run_id.hex(), enforce=False)


def test_a_batch_file_that_cannot_be_read(complete):
    class Unreadable:
        def __init__(self, store):
            self.store = store

        def __getattr__(self, name):
            return getattr(self.store, name)

        def get(self, name):
            if name.endswith(".batch"):
                raise UnavailableError(f"object {name}: cannot be read", reason="eio")
            return self.store.get(name)

    with pytest.raises(UnavailableError) as caught:
        prove_shards(complete.ports(store=Unreadable(complete.store)))
    assert (caught.value.reason, caught.value.exit_code) == ("unreadable", 3)


def test_a_chain_without_the_contract(complete):
    with pytest.raises(UnavailableError) as caught:
        prove_shards(complete.ports(chain=FakeChain()))
    assert caught.value.reason == "no-contract"


def test_what_others_have_under_way_stops_nothing(complete):
    stream = complete.batch_names()[0].split("/")[0]
    complete.store.put(f"{stream}/{99:016d}-{'ab' * 32}.batch", b"a batch that is not anchored yet")
    complete.store.put("stray.txt", b"?")
    assert len(prove_shards(complete.ports()).shards) == COUNT


# --------------------------------------------------------------------------------------------- only observing


def test_who_only_observes_is_told_and_gets_the_shards(complete):
    complete.put(replace(complete.stored[3], bytes=65))
    complete.anchor()
    found = prove_shards(complete.ports(), enforce=False)
    assert len(found.shards) == COUNT
    assert isinstance(found.complaint, VerificationError)
    assert found.complaint.reason == "not-counted"


def test_who_only_observes_gets_nothing_without_a_seal(world):
    world.start()
    world.compute()
    world.emit()
    world.anchor()
    with pytest.raises(PendingError):
        prove_shards(world.ports(), run=world.run_id.hex(), enforce=False)


# --------------------------------------------------------------------------------------------------- one part


@pytest.fixture
def opened(complete):
    """The set, shard 3, its only part, and what lies there."""
    found = prove_shards(complete.ports())
    shard = found.shards[3]
    base = complete.folder / "store" / shard.parts[0].name
    files = {
        path.relative_to(base).as_posix(): path.read_bytes() for path in base.rglob("*") if path.is_file()
    }
    return found, shard, shard.parts[0], files


def differs(opened, files):
    found, shard, part, _ = opened
    with pytest.raises(MismatchError) as caught:
        check_part(found, shard, part, files)
    error = caught.value
    assert (error.reason, error.exit_code) == ("shard-differs", 1)
    names_everything(error, opened)
    return error


def names_everything(error, opened):
    found, shard, part, _ = opened
    assert error.message.startswith(
        f"shard 3, part 'p00003/mel' of stage 'store', run {found.run.hex()[:12]}, anchored in transaction"
        f" 0x{shard.transaction.hex()}"
    )
    assert f"tree1-sha256:{part.digest['tree1-sha256']}" in error.message
    assert error.remedy
    says_to_go_on_checking(error)


def test_the_recorded_bytes_pass(opened):
    found, shard, part, files = opened
    check_part(found, shard, part, files)
    check_part(found, shard, part, dict(reversed(files.items())))


def test_every_changed_bit_is_found(opened):
    *_, files = opened
    for path, data in files.items():
        for at in range(len(data)):
            for bit in (1, 128):
                changed = data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :]
                error = differs(opened, {**files, path: changed})
    assert error.expected != error.actual


@pytest.mark.parametrize(
    "change",
    [
        lambda files: {**files, "c/1": b"more"},
        lambda files: {**files, "c/1": b""},
        lambda files: {path: data for path, data in files.items() if path != "c/0"},
        lambda files: {**files, "c/0": files["c/0"][:-1]},
        lambda files: {"zarr.json": files["c/0"], "c/0": files["zarr.json"]},
        lambda files: {f"x/{path}": data for path, data in files.items()},
        lambda files: {**files, "zarr.json": b"{ }"},
    ],
    ids=["more", "empty-more", "less", "shorter", "swapped", "moved", "metadata"],
)
def test_another_set_of_files_is_found(opened, change):
    assert differs(opened, change(opened[3])).actual.startswith("tree1-sha256:")


def test_the_bytes_of_another_shard_are_found(complete, opened):
    other = complete.folder / "store/p00004/mel"
    files = {path: (other / path).read_bytes() for path in opened[3]}
    differs(opened, files)


def test_a_file_in_a_folders_place_and_names_that_no_tree_has(opened):
    assert differs(opened, {"": b"a file"}).actual == "a file where a folder was stored"
    assert "one path" in differs(opened, {**opened[3], "C/0": b""}).actual


def test_a_part_that_is_one_file(opened):
    found, shard, _, _ = opened
    part = Subject(
        "part-00003.parquet", {"sha256": hashlib.sha256(b"PAR1").hexdigest(), "table1-sha256": "0" * 64}
    )
    check_part(found, shard, part, {"": b"PAR1"})
    for files in ({"": b"PAR2"}, {"": b""}, {"a": b"PAR1"}, {"": b"PAR1 "}):
        with pytest.raises(MismatchError) as caught:
            check_part(found, shard, part, files)
        assert caught.value.expected == f"sha256:{part.digest['sha256']}"
    assert "'part-00003.parquet'" in caught.value.message


def test_a_part_without_a_digest_of_its_bytes_is_never_verified(opened):
    found, shard, _, files = opened
    part = Subject("p00003/mel", {"array1-sha256": "0" * 64})
    with pytest.raises(MismatchError) as caught:
        check_part(found, shard, part, files)
    assert caught.value.actual == "only array1-sha256"


def reading(opened, result, limit=100):
    found, shard, part, _ = opened

    def read(name, most):
        assert (name, most) == ("p00003/mel", limit)
        if isinstance(result, Exception):
            raise result
        return result

    return read_part(found, shard, part, read, limit=limit)


def test_a_part_is_read_by_its_name(opened):
    assert reading(opened, opened[3]) is opened[3]


def test_a_part_that_is_not_there(opened):
    with pytest.raises(MismatchError) as caught:
        reading(opened, {})
    assert (caught.value.reason, caught.value.actual) == ("object-missing", "nothing there")
    names_everything(caught.value, opened)


def test_something_else_in_its_place(opened):
    with pytest.raises(MismatchError) as caught:
        reading(opened, MalformedError("a link that leads out of the store", reason="link"))
    assert (caught.value.reason, caught.value.exit_code) == ("link", 1)
    assert caught.value.actual == "a link that leads out of the store"
    names_everything(caught.value, opened)


def test_larger_than_recorded_is_changed_and_larger_than_allowed_is_a_setting(opened):
    too_long = MalformedError("more than 100 bytes", reason="too-long")
    with pytest.raises(MismatchError) as caught:
        reading(opened, too_long)
    names_everything(caught.value, opened)
    found, shard, part, files = opened
    with pytest.raises(ConfigError) as caught:
        reading((found, replace(shard, size=101), part, files), too_long)
    assert caught.value.message.endswith("the shard has 101 bytes, and a part may have 100")
    assert "part_limit" in caught.value.remedy


def test_a_part_that_cannot_be_read(opened):
    with pytest.raises(UnavailableError) as caught:
        reading(opened, UnavailableError("x: cannot read it: Input/output error", reason="eio"))
    assert (caught.value.reason, caught.value.exit_code) == ("eio", 3)
    assert caught.value.message.startswith("shard 3, part 'p00003/mel' of stage 'store'")
    assert caught.value.remedy
