"""Attacks on the chain level: each is found, and named by its own code."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest

from provenance.core import merkle
from provenance.core.batches import Position, build_batch, decode_batch, encode_batch
from provenance.core.kinds import Input, InputRoot, Seal
from provenance.core.records import Subject, sign_record
from provenance.errors import ConfigError, PendingError, UnavailableError
from provenance.services.audit.findings import NEXT_STEPS
from provenance.testing.fakes import FakeSigner
from tests.services.audit_world import COUNT, ENDED, World, codes


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def only(report, code):
    """The one finding of that code."""
    (found,) = [one for one in report.findings if one.code == code]
    return found


def test_a_whole_run_passes(world):
    report = world.complete().audit(level="chain")
    assert list(report.findings) == []
    assert (report.exit_code, report.verdict("chain"), report.verdict("data")) == (0, "passed", "not run")
    assert report.counts.records == 3 * COUNT + 6
    assert report.counts.signatures == 6
    assert report.runs[0].complete
    assert report.evidence.value == "on a node's word"


def test_nothing_is_ever_called_proved(world):
    report = world.complete().audit()
    assert "proved" not in str(report.as_json())


# ---------------------------------------------------------------------------------------------- batch files


def leaf_of(data, offset):
    """First byte of the value at an offset, and its end."""
    batch = decode_batch(data)
    at = 12 + int.from_bytes(data[8:12], "big")
    for leaf in batch.leaves:
        if leaf.offset == offset:
            return at + 12, at + 12 + len(leaf.value)
        at += 12 + len(leaf.value)
    raise AssertionError(offset)


@pytest.mark.parametrize("offset", [5, 7, 9])
@pytest.mark.parametrize("where", [0, -1])
def test_a_changed_byte_of_a_leaf_is_named_to_the_byte(world, offset, where):
    world.complete()
    name = world.batch_names()[1]
    begin, end = leaf_of(world.store.objects[name], offset)
    byte = begin if where == 0 else end - 1
    was = world.store.objects[name][byte]
    world.flip(name, byte)
    report = world.audit(level="chain")
    found = only(report, "batch-changed")
    assert (found.seq, found.offset, found.byte) == (2, offset, byte)
    assert found.stream == name[:64]
    assert (found.expected, found.actual) == (f"0x{was:02x}", f"0x{was ^ 1:02x}")
    assert report.exit_code == 1
    assert codes(report) == ["batch-changed"], "the log still has it: nothing else is wrong"


def test_every_region_of_a_batch_file_is_covered(world):
    world.complete()
    name = world.batch_names()[0]
    whole = world.store.objects[name]
    begin, _ = leaf_of(whole, 0)
    manifest_end = 12 + int.from_bytes(whole[8:12], "big")
    expected = {
        0: ("head of the file", None),
        11: ("head of the file", None),
        12: ("manifest", None),
        manifest_end - 1: ("manifest", None),
        manifest_end: ("leaf's offset and length", 0),
        begin - 1: ("leaf's offset and length", 0),
        begin: ("leaf", 0),
        len(whole) - 1: ("leaf", 4),
    }
    for byte, (region, offset) in expected.items():
        world.flip(name, byte)
        found = only(world.audit(level="chain"), "batch-changed")
        assert found.message.endswith(f"changed in the {region}"), byte
        assert (found.offset, found.byte) == (offset, byte)
        world.flip(name, byte)
    assert world.audit(level="chain").exit_code == 0


@pytest.mark.parametrize("change", ["cut", "grown"])
def test_a_file_cut_off_or_grown_is_named(world, change):
    world.complete()
    name = world.batch_names()[0]
    whole = world.store.objects[name]
    world.store.objects[name] = whole[:-1] if change == "cut" else whole + b"\x00"
    found = only(world.audit(level="chain"), "batch-changed")
    assert found.byte == len(whole) - (change == "cut")


def test_without_the_log_the_index_gives_a_hint(world):
    world.complete()
    name = world.batch_names()[1]
    begin, _ = leaf_of(world.store.objects[name], 7)
    world.flip(name, begin + 30)
    report = world.audit(level="chain", log=None)
    found = only(report, "batch-changed")
    assert (found.seq, found.offset, found.byte) == (2, 7, begin)
    assert "hint" in found.message
    assert "partition-missing" in codes(report), "what the file held is not believed"


def test_without_log_and_index_the_batch_is_named(world):
    world.complete()
    name = world.batch_names()[1]
    world.flip(name, len(world.store.objects[name]) - 1)
    for found in (
        only(world.audit(level="chain", log=None, index=None), "batch-changed"),
        only(world.audit(level="chain", log=type(world.log)(), index=type(world.index)()), "batch-changed"),
    ):
        assert (found.seq, found.offset) == (2, None)
        assert "offsets 5 to 9" in found.message


def test_a_log_that_was_rewritten_as_well_is_not_believed(world):
    world.complete()
    name = world.batch_names()[1]
    begin, _ = leaf_of(world.store.objects[name], 7)
    world.flip(name, begin)
    world.log.rewrite(0, 7, b"\x7a" + world.log.read(0, 7, 1)[0].value[1:])
    found = only(world.audit(level="chain"), "batch-changed")
    assert "hint" in found.message
    assert found.offset == 7


def test_files_swapped_between_seqs(world):
    world.complete()
    first, second = world.batch_names()[:2]
    objects = world.store.objects
    objects[first], objects[second] = objects[second], objects[first]
    report = world.audit(level="chain")
    assert codes(report) == ["other-acc"]
    assert [one.seq for one in report.findings] == [1, 2]


def test_a_well_formed_file_of_another_history(world):
    world.complete()
    name = world.batch_names()[2]
    batch = decode_batch(world.store.objects[name])
    manifest = batch.manifest
    position = Position(
        manifest.stream, manifest.generation, manifest.seq - 1, manifest.first_offset, manifest.prev_acc
    )
    leaves = [*batch.leaves[:-1], replace(batch.leaves[-1], value=b"another history")]
    forged = build_batch(position, manifest.log, leaves, last_leader_epoch=manifest.last_leader_epoch)
    world.store.objects[name] = encode_batch(forged)
    found = only(world.audit(level="chain"), "other-acc")
    assert (found.seq, found.actual) == (3, forged.manifest.acc.hex())

    # Under its own name it is what a crashed batcher leaves: an orphan.
    del world.store.objects[name]
    orphan = f"{name[:82]}{forged.manifest.acc.hex()}.batch"
    world.store.objects[orphan] = encode_batch(forged)
    report = world.audit(level="chain")
    assert codes(report) == ["missing-file"]
    assert only(report, "orphan-file").object == orphan


def test_a_missing_file_is_named_and_its_records_with_it(world):
    world.complete()
    name = world.batch_names()[1]
    del world.store.objects[name]
    report = world.audit(level="chain")
    assert codes(report) == ["missing-file"], "the log makes its content again"
    report = world.audit(level="chain", log=None)
    assert only(report, "missing-file").seq == 2
    assert {"partition-missing", "input-not-counted"} <= set(codes(report))
    assert not report.runs[0].complete


def test_extra_objects(world):
    world.complete()
    world.store.objects["notes.txt"] = b"mine"
    world.store.objects["lists/anything"] = b"ours"
    report = world.audit(level="chain")
    assert only(report, "extra-file").object == "notes.txt"
    assert report.exit_code == 0


def test_an_unreadable_store_is_unreachable_and_not_a_forgery(world):
    world.complete()

    class Refusing(type(world.store)):
        def get(self, name):
            if name.endswith(".batch"):
                raise UnavailableError(f"{name}: no permission", reason="eacces")
            return super().get(name)

    refusing = Refusing()
    refusing.objects = world.store.objects
    report = world.audit(level="chain", store=refusing)
    assert report.exit_code == 3
    assert report.verdict("chain") == "not all could be reached"


# ------------------------------------------------------------------------------------------------ the chain


def test_a_chain_made_anew_is_behind_the_files(world):
    world.complete()
    files = len(world.batch_names())
    other = World(world.folder)
    with pytest.raises(UnavailableError, match="not deployed"):
        world.audit(level="chain", chain=other.chain)
    other.start()
    other.anchor()
    report = world.audit(level="chain", chain=other.chain, log=None)
    behind = only(report, "chain-behind")
    assert f"holds {files - 1} batches" in behind.message
    assert behind.severity.word == "pending"


class Lying:
    """A node that changes some anchors, or its head."""

    def __init__(self, chain, *, drop=0, change=None, head=None, name=None):
        self.chain, self.drop, self.change, self.changed_head, self.name = chain, drop, change, head, name

    def __getattr__(self, attribute):
        return getattr(self.chain, attribute)

    def anchors(self, stream, from_seq=1):
        for anchor in self.chain.anchors(stream, from_seq):
            if anchor.seq != self.drop:
                yield self.change(anchor) if self.change and anchor.seq == 3 else anchor

    def head(self, stream):
        head = self.chain.head(stream)
        if head is None or self.changed_head == "none":
            return None
        return replace(head, **(self.changed_head or {}))

    def openings(self, binding=None):
        for stream, opening, block in self.chain.openings(binding):
            yield (self.name or stream), opening, block


@pytest.mark.parametrize(
    ("lie", "code"),
    [
        ({"drop": 2}, "gap"),
        ({"change": lambda anchor: replace(anchor, first_offset=11)}, "range-gap"),
        ({"change": lambda anchor: replace(anchor, root=bytes(32))}, "acc-differs"),
        ({"change": lambda anchor: replace(anchor, manifest_hash=bytes(32))}, "acc-differs"),
        ({"change": lambda anchor: replace(anchor, leaf_count=4)}, "acc-differs"),
        ({"change": lambda anchor: replace(anchor, next_offset=0)}, "gap"),
        ({"head": {"seq": 99}}, "head-differs"),
        ({"head": {"acc": bytes(32)}}, "head-differs"),
        ({"head": "none"}, "stream-unknown"),
        ({"name": bytes(32)}, "stream-name"),
    ],
)
def test_a_node_whose_answers_do_not_follow(world, lie, code):
    world.complete()
    report = world.audit(level="chain", chain=Lying(world.chain, **lie))
    assert code in codes(report)
    assert report.exit_code == 1


def test_a_down_chain_is_unreachable(world):
    world.complete()
    world.chain.down = True
    with pytest.raises(UnavailableError) as raised:
        world.audit()
    assert raised.value.exit_code == 3


# --------------------------------------------------------------------------------------------------- records


def test_a_malformed_leaf_is_shown_and_harms_nothing(world):
    world.start()
    world.compute()
    world.append(b"no record at all")
    world.append(b"")
    world.emit()
    world.seal()
    world.anchor()
    report = world.audit(level="chain")
    rejected = [one for one in report.findings if one.code == "rejected-record"]
    assert [(one.offset, one.actual) for one in rejected] == [(5, "not-json"), (6, "not-json")]
    assert (report.counts.rejected, report.exit_code) == (2, 0)


def sealed(world, before=lambda world: None, after=lambda world: None):
    """A run with something done before or after its seal, anchored and audited."""
    world.start()
    world.compute()
    world.emit()
    before(world)
    world.seal()
    after(world)
    world.anchor()
    return world.audit(level="chain")


def test_no_seal(world):
    world.start()
    world.compute()
    world.emit()
    world.anchor()
    report = world.audit(world.run_id.hex()[:8], level="chain")
    assert codes(report) == ["no-seal"]
    assert not report.runs[0].complete
    assert world.audit(level="chain").exit_code == 4, "no sealed run: nothing was audited"


def test_a_forged_seal_by_a_key_that_nobody_trusts(world):
    forger = FakeSigner(b"f" * 32)

    def forge(world):
        world.stored[0] = replace(world.stored[0], rows=17)
        forged = Seal(world.run_id, "complete", ENDED, ())
        world.append(sign_record(forged.statement(), forger))
        world.stored[0] = replace(world.stored[0], rows=16)

    report = sealed(world, after=forge)
    found = only(report, "forged-seal")
    assert "not trusted" in found.message
    assert found.offset == world.log.bounds(0).end - 1
    assert codes(report, errors_only=False) == ["forged-seal"]
    assert report.runs[0].seal, "the valid one still counts"
    assert report.runs[0].complete
    assert report.exit_code == 0, "whoever may write to the log cannot take the run away"


def test_a_seal_whose_signature_was_taken_from_elsewhere(world):
    world.start()
    world.compute()
    world.emit()
    world.seal()

    class Replaying:
        def public_key(self):
            return world.signer.public_key()

        def sign(self, message):
            return world.signer.sign(b"something else")

    world.append(sign_record(Seal(world.run_id, "complete", ENDED, ()).statement(), Replaying()))
    world.anchor()
    report = world.audit(level="chain")
    assert (codes(report, errors_only=False), report.exit_code) == (["forged-seal"], 0)


def test_only_a_forged_seal_leaves_the_run_without_one(world):
    world.start()
    world.compute()
    world.emit()
    signer, world.signer = world.signer, FakeSigner(b"f" * 32)
    world.seal()
    world.signer = signer
    world.anchor()
    report = world.audit(world.run_id.hex(), level="chain")
    assert codes(report) == ["forged-seal", "no-seal"]


def test_a_second_valid_seal(world):
    report = sealed(world, after=lambda world: world.seal(ended="2026-01-02T00:00:00Z"))
    assert codes(report) == ["second-seal"]
    assert report.runs[0].seal == ""


def test_a_repeated_seal_counts_once(world):
    assert sealed(world, after=lambda world: world.seal()).exit_code == 0


def test_an_aborted_run_is_never_complete(world):
    world.start()
    world.compute()
    world.emit()
    world.seal(status="aborted")
    world.anchor()
    assert codes(world.audit(level="chain")) == ["run-aborted"]


def test_an_extra_partition_after_the_seal(world):
    extra = lambda world: world.put(replace(world.stored[0], number=COUNT))
    found = only(sealed(world, after=extra), "not-counted")
    assert (found.stage, found.shard) == ("store", COUNT)


def test_another_version_of_a_partition_after_the_seal(world):
    def other(world):
        world.other = world.put(replace(world.stored[2], rows=17))

    report = sealed(world, after=other)
    found = only(report, "not-counted")
    assert (found.stage, found.shard, found.record) == ("store", 2, world.other.hex())
    assert codes(report) == ["not-counted"]


def test_another_version_before_the_counted_one(world):
    world.start()
    world.compute()
    other = world.put(replace(world.stored[2], rows=17))
    world.emit()
    world.seal()
    world.anchor()
    report = world.audit(level="chain")
    assert only(report, "not-counted").record == other.hex(), "the seal's root tells which one counts"
    assert codes(report) == ["not-counted"]


def test_a_divergent_record_that_the_seal_sets_aside(world):
    def aside(world):
        world.other = world.put(replace(world.stored[2], rows=17))

    world.start()
    world.compute()
    world.emit()
    aside(world)
    world.seal(aside={world.store_id: [world.other]})
    world.anchor()
    report = world.audit(level="chain")
    found = only(report, "set-aside")
    assert (found.shard, found.record, found.severity.word) == (2, world.other.hex(), "warning")
    assert report.exit_code == 0
    assert report.runs[0].stages[2].set_aside == 1

    # The list itself can be lost, as long as what is anchored gives it again.
    (name,) = [name for name in world.store.objects if name.startswith("lists/")]
    whole = world.store.objects.pop(name)
    report = world.audit(level="chain")
    assert only(report, "list-missing").severity.word == "warning"
    assert report.exit_code == 0
    world.store.objects[name] = bytes(32)
    assert only(world.audit(level="chain"), "list-missing").severity.word == "warning"
    world.store.objects[name] = whole


def test_a_list_of_others_does_not_excuse_a_divergent_record(world):
    def before(world):
        world.put(replace(world.stored[2], rows=17))

    world.start()
    world.compute()
    world.emit()
    before(world)
    world.seal(aside={world.store_id: [hashlib.sha256(b"another").digest()]})
    world.anchor()
    assert codes(world.audit(level="chain")) == ["not-counted"]
    (name,) = [name for name in world.store.objects if name.startswith("lists/")]
    del world.store.objects[name]
    assert codes(world.audit(level="chain")) == ["list-missing", "not-counted"]


def test_a_missing_partition_is_named(world):
    world.start()
    world.compute()
    gone = world.feature[3]
    for partitions in (world.raw, [one for one in world.feature if one is not gone], world.stored):
        for partition in partitions:
            world.put(partition)
    world.seal()
    world.anchor()
    report = world.audit(level="chain")
    found = only(report, "partition-missing")
    assert (found.stage, found.shard) == ("feature", 3)
    assert codes(report) == ["input-not-counted", "partition-missing"]
    assert not report.runs[0].complete


def test_many_missing_partitions_are_counted(world, monkeypatch):
    monkeypatch.setattr("provenance.core.completeness._NAMED", 3)
    world.start()
    world.compute()
    for partition in (*world.raw, *world.feature):
        world.put(partition)
    world.seal()
    world.anchor()
    report = world.audit(level="chain")
    assert len([one for one in report.findings if one.code == "partition-missing"]) == 3
    assert only(report, "partitions-missing").expected == str(COUNT)


def swapped(world, number, **changes):
    """The stored partition with other inputs, everywhere."""
    world.stored[number] = replace(world.stored[number], **changes)


def test_an_input_that_no_parent_counts(world):
    world.start()
    world.compute()
    stranger = Input(bytes(32), "p00001", world.feature[1].subjects[0].digest)
    swapped(world, 1, inputs=(stranger,))
    world.emit()
    world.seal()
    world.anchor()
    found = only(world.audit(level="chain"), "input-not-counted")
    assert (found.stage, found.shard, found.actual) == ("store", 1, bytes(32).hex())


def test_an_input_of_a_stage_that_is_no_parent(world):
    world.start()
    world.compute()
    raw = world.raw[1]
    swapped(world, 1, inputs=(Input(world.id_of(raw), raw.subjects[0].name, raw.subjects[0].digest),))
    world.emit()
    world.seal()
    world.anchor()
    assert codes(world.audit(level="chain")) == ["input-not-counted"]


@pytest.mark.parametrize("part", ["digest", "name"])
def test_an_input_with_another_digest_than_its_record(world, part):
    world.start()
    world.compute()
    used = world.stored[1].inputs[0]
    changed = (
        replace(used, digest={"array1-sha256": "0" * 64}) if part == "digest" else replace(used, name="x")
    )
    swapped(world, 1, inputs=(changed,))
    world.emit()
    world.seal()
    world.anchor()
    assert codes(world.audit(level="chain")) == ["input-digest-differs"]


def test_rows_from_nowhere(world):
    world.start()
    world.compute()
    swapped(world, 1, inputs=())
    world.emit()
    world.seal()
    world.anchor()
    assert codes(world.audit(level="chain")) == ["no-inputs"]


@pytest.mark.parametrize(
    ("root", "code"),
    [
        (lambda ids: InputRoot(b"", len(ids), merkle.root(ids)), None),
        (lambda ids: InputRoot(b"", len(ids), bytes(32)), "input-root-differs"),
        (lambda ids: InputRoot(b"", len(ids) + 1, bytes(32)), "input-not-counted"),
        (lambda ids: InputRoot(b"", 3, merkle.root(ids[:3])), "input-root-partial"),
        (lambda ids: InputRoot(b"", 1, ids[4]), None),
        (lambda ids: InputRoot(b"", 1, bytes(32)), "input-not-counted"),
        (lambda ids: InputRoot(b"x" * 32, len(ids), merkle.root(ids)), "input-not-counted"),
    ],
)
def test_inputs_by_their_root(world, root, code):
    world.start()
    world.compute()
    entry = root([world.id_of(one) for one in world.feature])
    swapped(world, 1, inputs=(replace(entry, stage=entry.stage or world.feature_id),))
    world.emit()
    world.seal()
    world.anchor()
    report = world.audit(level="chain")
    assert codes(report, errors_only=False) == ([code] if code else [])
    assert report.exit_code == (0 if code in {None, "input-root-partial"} else 1)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"root": bytes(32)}, "seal-root-differs"),
        ({"rows": 1}, "rows-differ"),
        ({"bytes": 1}, "bytes-differ"),
        ({"partitions": COUNT + 1}, "partition-missing"),
        ({"partitions": COUNT - 1}, "not-counted"),
        ({"name": "other"}, "stage-differs"),
        ({"stage": b"s" * 32}, "stage-record-missing"),
    ],
)
def test_a_seal_that_counts_wrongly(world, change, code):
    world.start()
    world.compute()
    world.emit()
    world.aside = {}
    stages = (
        world._sealed(world.raw_id, world.raw),
        world._sealed(world.feature_id, world.feature),
        replace(world._sealed(world.store_id, world.stored), **change),
    )
    world.sign(Seal(world.run_id, "complete", ENDED, stages))
    world.anchor()
    report = world.audit(level="chain")
    assert code in codes(report)
    assert not report.runs[0].complete


def test_a_sink_that_stored_less_than_it_was_to(world):
    world.start()
    world.compute(COUNT - 2)
    world.emit()
    world.seal()
    world.anchor()
    assert codes(world.audit(level="chain")) == ["sink-short"]


def test_a_stage_that_the_seal_does_not_count(world):
    world.start()
    world.compute()
    world.emit()
    world.aside = {}
    stages = (world._sealed(world.raw_id, world.raw), world._sealed(world.feature_id, world.feature))
    world.sign(Seal(world.run_id, "complete", ENDED, stages))
    world.anchor()
    assert set(codes(world.audit(level="chain"))) == {"stage-not-sealed", "unknown-stage"}


def test_records_of_the_run_by_untrusted_keys(world):
    forger = FakeSigner(b"f" * 32)
    stage = lambda world: world.append(
        sign_record(replace(world.stages[world.raw_id], name="more").statement(), forger)
    )
    report = sealed(world, before=stage)
    assert (codes(report, errors_only=False), report.exit_code) == (["unknown-key"], 0)


def test_without_trusted_keys_nothing_is_sealed(world):
    report = world.complete().audit(level="chain", keys={})
    assert (report.exit_code, report.counts.signatures) == (4, 0)
    assert only(report, "no-sealed-run")


def test_a_dataset_and_a_run_record_that_nobody_trusts(world):
    world.start()
    stranger = replace(world.run, datasets=(world.dataset_id, bytes(32)))
    world.run_id = world.append(sign_record(stranger.statement(), FakeSigner(b"f" * 32)))
    world.sign(Seal(world.run_id, "complete", ENDED, ()))
    world.anchor()
    assert codes(world.audit(world.run_id.hex(), level="chain")) == ["run-record-missing"]

    missing = replace(world.run, datasets=(bytes(32),))
    world.run_id = world.sign(missing)
    world.sign(Seal(world.run_id, "complete", ENDED, ()))
    world.anchor()
    assert codes(world.audit(world.run_id.hex(), level="chain")) == ["dataset-missing"]


def test_what_no_sink_descends_from_need_not_be_whole(world):
    world.start()
    world.compute()
    side = world._stage("side", "voice:look", (world.raw_id,))
    world.emit()
    world.aside = {}
    stages = (
        world._sealed(world.raw_id, world.raw),
        world._sealed(world.feature_id, world.feature),
        world._sealed(world.store_id, world.stored),
        replace(world._sealed(world.raw_id, world.raw), stage=side, name="side", root=bytes(32)),
    )
    world.sign(Seal(world.run_id, "complete", ENDED, stages))
    world.anchor()
    assert world.audit(level="chain").exit_code == 0


# ------------------------------------------------------------------------------------- several runs, pending


def second_run(world):
    world.raw, world.feature, world.stored = [], [], []
    world.start(nonce=b"second nonce 16b")
    world.compute()
    world.emit()
    world.seal()
    world.anchor()


def test_the_latest_sealed_run_is_the_default_and_all_can_be_had(world):
    first = world.complete().run_id.hex()
    second_run(world)
    second = world.run_id.hex()
    assert [run.id for run in world.audit(level="chain").runs] == [second]
    assert [run.id for run in world.audit(first[:6], level="chain").runs] == [first]
    report = world.audit(level="chain", every_run=True)
    assert [run.id for run in report.runs] == [first, second]
    assert report.exit_code == 0


def test_a_stage_that_descends_from_another_run(world):
    world.complete()
    parent, parents = world.feature_id, list(world.feature)
    world.raw, world.feature, world.stored = [], [], []
    world.start(nonce=b"second nonce 16b")
    world.stages.clear()
    del world.raw_id
    world.feature_id = parent
    child = world._stage("again", "provenance:write_zarr", (parent,))
    stored = []
    for number, source in enumerate(parents):
        used = Input(world.id_of(source), source.subjects[0].name, source.subjects[0].digest)
        partition = replace(
            source,
            run=world.run_id,
            stage=child,
            inputs=(used,),
            subjects=(Subject(f"p{number:05d}/mel", {"sha256": "0" * 64}),),
        )
        stored.append(partition)
        world.put(partition)
    world.aside = {}
    world.sign(Seal(world.run_id, "complete", ENDED, (world._sealed(child, stored),)))
    world.anchor()
    report = world.audit(level="chain")
    # The two other stages of this run, which the fixture made, are not in its seal.
    assert codes(report) == ["stage-not-sealed"]


def test_what_waits_in_the_log_is_pending(world):
    world.complete()
    world.train()
    report = world.audit(level="chain")
    assert report.exit_code == 4
    assert only(report, "records-pending").run == world.run_id.hex()
    assert report.counts.pending == 1
    world.anchor()
    report = world.audit(level="chain")
    assert (report.exit_code, report.runs[0].consumptions) == (0, 1)


def test_a_run_of_which_nothing_is_anchored_is_pending(world):
    world.complete()
    second = World(world.folder)
    second.log = world.log
    second.start(nonce=b"second nonce 16b")
    with pytest.raises(PendingError):
        world.audit(second.run_id.hex()[:10])


def test_what_is_missing_may_be_pending(world):
    world.start()
    world.compute()
    world.emit()
    world.anchor()
    world.seal()
    report = world.audit(world.run_id.hex(), level="chain")
    assert report.exit_code == 4
    assert {one.code for one in report.findings} == {"no-seal", "records-pending"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [("", "run-prefix"), ("abc", "run-prefix"), ("xyzw", "run-prefix"), ("0000", "no-such-run")],
)
def test_names_of_runs_that_mean_nothing(world, text, reason):
    world.complete()
    with pytest.raises(ConfigError) as raised:
        world.audit(text)
    assert raised.value.reason == reason


def test_a_prefix_of_several_runs(world, monkeypatch):
    world.complete()
    second_run(world)
    monkeypatch.setattr("provenance.services.audit.catalogue._MIN_PREFIX", 0)
    with pytest.raises(ConfigError) as raised:
        world.audit("")
    assert raised.value.reason == "run-ambiguous"


def test_a_run_that_was_in_a_lost_batch_is_a_finding_and_not_wrong_use(world):
    world.complete()
    for name in world.batch_names():
        del world.store.objects[name]
    report = world.audit(world.run_id.hex(), level="chain", log=None)
    assert report.exit_code == 1
    assert codes(report) == ["missing-file"]


def test_levels(world):
    with pytest.raises(ConfigError, match="expected one of"):
        world.audit(level="deep")
    with pytest.raises(ConfigError, match="compute"):
        world.audit(level="replay")


def test_very_many_findings_are_counted(world, monkeypatch):
    monkeypatch.setattr("provenance.services.audit.findings._MOST_OF_A_KIND", 2)
    world.start()
    world.compute()
    for _ in range(5):
        world.append(b"junk")
    world.emit()
    world.seal()
    world.anchor()
    report = world.audit(level="chain")
    assert len(report.findings) == 2
    assert report.omitted == {"rejected-record": 3}


def test_next_steps_are_sentences():
    assert all(step.endswith(".") for step in NEXT_STEPS.values())
