"""The replay level, over a replayer that computes whatever a test wants."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from provenance.core.kinds import Input
from provenance.core.replays import PartComparison
from provenance.errors import ConfigError, UnavailableError
from tests.services.audit_world import COUNT, World, codes


@dataclass
class FakeReplayer:
    """Gives what was recorded, with changes: (stage name, number) → what to make of the partition."""

    world: World
    changes: dict = field(default_factory=dict)
    code: dict = field(default_factory=dict)
    compared: dict = field(default_factory=dict)
    asked: list = field(default_factory=list)
    stop: Exception | None = None

    def transform(self, stage):
        change = self.code.get(stage.name)
        if isinstance(change, Exception):
            raise change
        return replace(stage.transform, **(change or {}))

    def replay(self, plan):
        self.plan = plan
        for name in ("raw", "feature", "stored"):
            for partition in getattr(self.world, name):
                change = self.changes.get((name, partition.number), lambda one: one)
                computed = change(partition)
                if computed is not None:
                    yield computed
        if self.stop:
            raise self.stop

    def compare(self, plan, stage, number):
        self.asked.append((stage, number))
        return self.compared.get(number, ())


def other_value(partition, kind="array1-sha256"):
    part = partition.subjects[0]
    return replace(partition, subjects=(replace(part, digest={**part.digest, kind: "0" * 64}),))


@pytest.fixture
def world(tmp_path):
    return World(tmp_path).complete()


def replayed(world, **how):
    replayer = FakeReplayer(world, **how)
    return replayer, world.audit(level="replay", replayer=replayer)


def words(report):
    return {stage.name: stage.replay.words for stage in report.runs[0].stages}


def test_bit_exact(world):
    replayer, report = replayed(world)
    assert words(report) == dict.fromkeys(["raw", "feature", "store"], "bit-exact")
    assert (report.exit_code, list(report.findings), replayer.asked) == (0, [], [])
    assert list(replayer.plan.stages) == [world.raw_id, world.feature_id, world.store_id]
    assert replayer.plan.partitions[world.raw_id] == COUNT
    json = report.as_json()["runs"][0]["stages"][1]["replay"]
    assert json == {"verdict": "bit-exact", "code_changed": False, "partitions": {"bit-exact": COUNT}}


def test_another_file_with_the_same_values_is_logically_equal(world):
    _, report = replayed(world, changes={("stored", 2): lambda one: other_value(one, "tree1-sha256")})
    assert words(report)["store"] == "logically equal"
    assert report.exit_code == 0
    assert codes(report, errors_only=False) == ["not-bit-exact"]


@pytest.mark.parametrize(
    "change",
    [
        other_value,
        lambda one: replace(one, rows=1),
        lambda one: replace(one, key="0" * 64),
        lambda one: replace(one, rejected="too-short"),
        lambda one: replace(one, subjects=()),
        lambda one: replace(one, subjects=(replace(one.subjects[0], name="q"),)),
    ],
)
def test_other_values_fail_and_name_stage_and_shard(world, change):
    compared = {2: (PartComparison("p00002/mel", ("array block 0",), ("c/0, chunk (0,)",), "0.5"),)}
    replayer, report = replayed(world, changes={("stored", 2): change}, compared=compared)
    (one,) = report.findings
    assert (one.code, one.stage, one.shard, one.level) == ("replay-failed", "store", 2, "replay")
    assert "array block 0" in one.message
    assert words(report)["store"] == "failed"
    assert (report.exit_code, report.verdict("data"), report.verdict("replay")) == (1, "passed", "failed")
    assert replayer.asked == [(world.store_id, 2)]


def test_a_changed_stored_shard_is_narrowed_to_the_block_and_chunk(world):
    path = world.folder / "store/p00003/mel/c/0"
    path.write_bytes(path.read_bytes()[:-1] + b"\x7f")
    compared = {
        3: (PartComparison("p00003/mel", ("array block 0",), ("c/0, chunk (0,)",)), PartComparison("p"))
    }
    _, report = replayed(world, compared=compared)
    one = next(one for one in report.findings if one.code == "stored-differs")
    assert (one.stage, one.shard, one.object, one.chunk) == ("store", 3, "p00003/mel", "c/0, chunk (0,)")
    assert one.message.endswith("differs from the replay: array block 0")
    assert words(report)["store"] == "bit-exact", "it was computed again as it was recorded"
    assert codes(report) == ["object-changed", "store-changed", "stored-differs"]


def test_a_shard_that_does_not_decode_says_so(world):
    (world.folder / "store/p00003/mel/c/0").write_bytes(b"")
    compared = {3: (PartComparison("p00003/mel", problem="the chunk ends early"),)}
    _, report = replayed(world, compared=compared)
    one = next(one for one in report.findings if one.code == "stored-differs")
    assert one.message.endswith("the chunk ends early")


def test_changed_code_with_equal_output_is_a_verdict_of_its_own(world):
    _, report = replayed(world, code={"feature": {"syntax": bytes(32)}})
    assert words(report)["feature"] == "code changed, output equal (bit-exact)"
    assert report.exit_code == 0
    (one,) = report.findings
    assert (one.code, one.severity.word, one.stage) == ("code-changed", "warning", "feature")


def test_a_cosmetic_change_is_none(world):
    _, report = replayed(world, code={"feature": {"source": bytes(32)}})
    assert words(report)["feature"] == "bit-exact"


def test_changed_code_and_output(world):
    _, report = replayed(
        world, code={"feature": {"captured": bytes(32)}}, changes={("feature", 1): other_value}
    )
    assert words(report)["feature"] == "failed, code changed"
    assert codes(report, errors_only=False) == ["code-and-output-changed", "replay-failed"]


def test_code_that_is_not_here_is_unreachable(world):
    replayer, report = replayed(world, code={"feature": ConfigError("no module voice", reason="import")})
    assert (report.exit_code, report.runs[0].stages[0].replay) == (3, None)
    assert codes(report, errors_only=False) == ["transform-missing"]
    assert not hasattr(replayer, "plan"), "nothing was run"


def test_a_replay_that_stops(world):
    error = UnavailableError("no worker is left", remedy="Start workers.")
    _, report = replayed(world, stop=error)
    (one,) = report.findings
    assert (one.code, one.next_step, report.exit_code) == ("replay-stopped", "Start workers.", 3)


def test_what_was_not_replayed_is_an_error(world):
    _, report = replayed(world, changes={("feature", 4): lambda one: None})
    (one,) = report.findings
    assert (one.code, one.stage, one.shard, report.exit_code) == ("not-replayed", "feature", 4, 1)
    _, report = replayed(world, changes={("stored", 4): lambda one: replace(one, number=99)})
    assert codes(report) == ["not-replayed"], "a number that the seal does not count is compared with nothing"
    assert words(report)["store"] == "bit-exact"


def test_another_raw_file_fails_from_the_source_on(world):
    changes = {("raw", 1): lambda one: other_value(one, "sha256"), ("feature", 1): other_value}
    _, report = replayed(world, changes=changes)
    assert [(one.stage, one.shard) for one in report.findings] == [("raw", 1), ("feature", 1)]


def test_a_record_that_names_other_inputs_than_were_read(world):
    def other_input(one):
        other = world.feature[5]
        used = Input(world.id_of(other), other.subjects[0].name, other.subjects[0].digest)
        return replace(one, inputs=(used,))

    _, report = replayed(world, changes={("stored", 2): other_input})
    (one,) = report.findings
    assert (one.code, one.stage, one.shard) == ("lineage-differs", "store", 2)
    changes = {("stored", 2): other_input, ("feature", 2): lambda one: replace(one, bytes=1)}
    _, report = replayed(world, changes=changes)
    assert codes(report) == [], "the parent came out as another record, with the same values"


# -------------------------------------------------------------------------------------------------- tolerance


@pytest.fixture
def tolerant(tmp_path):
    world = World(tmp_path)
    world.start()
    world.stages = {}
    profile = {"profile": "tolerance", "tolerances": {"mel": "1e-6", "bad": "x"}}
    original = World._stage

    def stage(name, function, parents):
        before = world.sign
        world.sign = lambda thing, signer=None: before(replace(thing, **profile), signer)
        made = original(world, name, function, parents)
        world.sign = before
        world.stages[made] = replace(world.stages[made], **profile)
        return made

    world.start(nonce=b"tolerant nonce16")
    world.feature_id = stage("feature", "voice:mel2", (world.raw_id,))
    world.store_id = stage("store", "provenance:write_zarr", (world.feature_id,))
    world.names.remember([("location", world.store_id.hex(), str(world.folder / "store"))])
    world.compute()
    world.emit()
    world.seal()
    world.anchor()
    return world


def within(deviation, name="p00002/mel"):
    return {2: (PartComparison(name, ("array block 0",), (), deviation),)}


CHANGED = {("feature", 2): other_value, ("stored", 2): other_value}


def test_within_the_tolerance_that_was_anchored(tolerant):
    _, report = replayed(tolerant, changes=CHANGED, compared=within("0.0000009"))
    assert [one for one in codes(report) if one.startswith("replay")] == []
    assert words(report)["store"] == "within tolerance"
    assert words(report)["feature"] == "within tolerance", "judged by what is stored of it"


@pytest.mark.parametrize(
    "compared",
    [
        within("0.0000011"),
        within(None),
        within("nan"),
        within("inf"),
        within("many"),
        within("0", "p00002/other"),
        within("0", "p00002/bad"),
        {2: (PartComparison("p00002/mel", deviation="0", problem="cannot be decoded"),)},
        {},
    ],
)
def test_beyond_it(tolerant, compared):
    _, report = replayed(tolerant, changes=CHANGED, compared=compared)
    assert words(report)["store"] == "failed"
    assert words(report)["feature"] == "failed"
    assert {(one.stage, one.shard) for one in report.findings if one.code == "replay-failed"} == {
        ("feature", 2),
        ("store", 2),
    }


def test_a_stage_without_a_tolerance_has_none(world):
    _, report = replayed(world, changes=CHANGED, compared=within("0"))
    assert words(report)["store"] == "failed"


def test_a_run_without_a_seal_is_not_replayed(tmp_path):
    world = World(tmp_path)
    world.start()
    world.anchor()
    replayer = FakeReplayer(world)
    report = world.audit(world.run_id.hex(), level="replay", replayer=replayer)
    assert not hasattr(replayer, "plan")
    assert report.exit_code == 1
