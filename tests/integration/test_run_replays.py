"""Runs of every shape, computed again from their records: the same ids, or the reason why not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import zarr

import provenance
from provenance import bootstrap, config, errors
from provenance.core.kinds import Transform
from provenance.core.merkle import leaf_hash
from provenance.core.records import encode_record
from tests import recorded


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    recorded.make_folder(tmp_path)
    recorded.make_files(tmp_path / "in", 6)
    Path("tables").mkdir()
    for number in range(3):
        frame = pd.DataFrame({"who": ["x", "y", "x"], "value": np.arange(3.0) + number})
        frame.to_csv(f"tables/{number}.csv", index=False)
        frame.to_parquet(f"tables/{number}.parquet")
    return tmp_path


@pytest.fixture
def replayer(here):
    folder = Path(".provenance").absolute()
    with bootstrap.replayer(config.load(folder), "sync") as made:
        yield made


def read(run):
    return recorded.read_records(run.id, Path(".provenance"))


def start():
    return provenance.run("numbers", client="sync")


def total(frame):
    return pd.DataFrame({"total": [float(frame["value"].sum())]})


def joined(frame, *, other, more):
    return frame.assign(other=other["value"].to_numpy(), more=more["value"].to_numpy())


def doubled(frame, *, factor=2.0):
    return frame.assign(value=frame["value"] * factor)


def summed(parts):
    return np.array([sum(float(np.sum(part)) for part in parts)])


def values_of(frame):
    return frame["value"].to_numpy().copy()


def twice(array):
    return array * 2


def by_owner(run):
    raw = run.files("in", key=recorded.owner, group_files=1)
    raw.stage("read", recorded.numbers).wide("owner", recorded.stack, by="key").write("out.zarr")


def by_number(run):
    raw = run.files("in", group_files=2)
    raw.stage("read", recorded.numbers).wide("few", recorded.stack, npartitions=2).write("out.zarr")


def by_column(run):
    rows = run.csv("tables/*.csv", types={"value": "f64"})
    rows.stage("double", doubled, factor=3.0).wide("who", total, by="who").write("out")


def regrouped_only(run):
    run.parquet("tables/*.parquet", arrow=True).wide("who", by="who").write("out")


def several_parents(run):
    rows = run.parquet("tables/*.parquet")
    double = rows.stage("double", doubled)
    double.stage("join", joined, other=rows, more=double).write("out")


def two_sinks(run):
    rows = run.parquet("tables/*.parquet")
    double = rows.stage("double", doubled)
    double.write("out")
    double.stage("array", values_of).write("out.zarr")


def with_rejections(run):
    Path("in/anna/00.bin").write_bytes(b"")
    Path("in/boris/01.bin").write_bytes(b"")
    by_owner(run)


def with_a_whole_owner_rejected(run):
    for path in Path("in/anna").iterdir():
        path.write_bytes(b"")
    by_owner(run)


SHAPES = [
    by_owner,
    by_number,
    by_column,
    regrouped_only,
    several_parents,
    two_sinks,
    with_rejections,
    with_a_whole_owner_rejected,
]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_a_replay_gives_every_record_again(here, replayer, shape):
    with start() as run:
        shape(run)
    found = read(run)
    plan = found.plan()
    again = {leaf_hash(encode_record(one.statement())) for one in replayer.replay(plan)}
    assert again == {record for record, _ in found.partitions}
    for stage in plan.stages:
        for number in range(plan.partitions[stage]):
            for part in replayer.compare(plan, stage, number):
                assert (part.places, part.chunks, part.problem) == ((), (), "")


@pytest.mark.parametrize("kind", ["array", "dict", "table"])
def test_a_part_of_a_run_that_went_on_from_a_store(here, replayer, kind):
    run = provenance.start("numbers", client="sync")
    if kind == "table":
        run.parquet("tables/*.parquet").stage("double", doubled).write("first")
    else:
        read_ = run.files("in").stage("read", recorded.numbers)
        read_.wide("all", recorded.stack if kind == "dict" else stacked, npartitions=1).write("first.zarr")
    run.compute()
    run.close()
    again = provenance.attach(run.id, client="sync")
    stored = again.stored("double.parquet" if kind == "table" else "all.zarr")
    operation = {"array": twice, "dict": recorded.twice, "table": doubled}[kind]
    stored.stage("again", operation).write("second" if kind == "table" else "second.zarr")
    again.seal()
    found = read(run)
    sinks = {
        record for record, one in found.partitions if found.stages[one.stage].name.startswith(("all.", "do"))
    }
    assert {entry.record for part in found.of("again") for entry in part.inputs} <= sinks
    ids = {leaf_hash(encode_record(one.statement())) for one in replayer.replay(found.plan())}
    assert ids == {record for record, _ in found.partitions}


def stacked(files):
    return np.concatenate([file.data for file in files])


def stored_run():
    run = provenance.start("numbers", client="sync")
    run.files("in").stage("read", recorded.numbers).wide("all", stacked, npartitions=1).write("first.zarr")
    return run


def test_a_store_that_was_changed_is_not_gone_on_from(here):
    run = stored_run()
    run.compute()
    array = zarr.open_array("first.zarr", path="p00000/data", mode="r+")
    array[0] = -1.0
    run.stored("all.zarr").stage("again", twice).write("second.zarr")
    with pytest.raises(errors.VerificationError, match=r"'all\.zarr', partition 0") as caught:
        run.seal()
    assert caught.value.reason == "stored-differs"
    assert not Path("second.zarr").exists()


def test_a_store_that_is_not_there_yet_or_never_was(here):
    run = stored_run()
    with pytest.raises(errors.ConfigError, match="it has: none"):
        run.stored("all.zarr")
    run.compute()
    with pytest.raises(errors.ConfigError, match=r"it has: 'all\.zarr'") as caught:
        run.stored("all")
    assert caught.value.remedy
    Path("first.zarr").rename("moved.zarr")
    with pytest.raises(errors.PendingError, match="1 of 1 partitions"):
        run.stored("all.zarr")
    run.seal("aborted")


# ----------------------------------------------------------------------------------------- what cannot be run


def plan_of(run, **changed):
    """The plan, with stages of some names changed."""
    plan = read(run).plan()
    stages = {
        record: replace(stage, **changed[stage.name]) if stage.name in changed else stage
        for record, stage in plan.stages.items()
    }
    return replace(plan, stages=stages)


def finished(shape=by_owner):
    with start() as run:
        shape(run)
    return run


def test_data_from_outside_of_the_run_says_so(here, replayer):
    with start() as run:
        frame = dd.from_pandas(pd.DataFrame({"value": [1.0, 2.0]}), npartitions=2)
        run.collection(frame).stage("double", doubled).write("out")
    plan = read(run).plan()
    with pytest.raises(errors.ConfigError, match="'collection': its data came from outside") as caught:
        list(replayer.replay(plan))
    assert caught.value.reason == "not-replayable"
    assert "run.files" in caught.value.remedy


def test_a_raw_file_that_is_gone_gives_another_record(here, replayer):
    run = finished()
    Path("in/anna/02.bin").unlink()
    found = read(run)
    again = {leaf_hash(encode_record(one.statement())) for one in replayer.replay(found.plan())}
    missing = {record for record, _ in found.partitions} - again
    names = sorted(found.stages[one.stage].name for record, one in found.partitions if record in missing)
    assert names == ["owner", "owner.zarr", "raw", "read"]


def test_a_link_that_leads_out_of_the_root_now_is_not_followed(here, replayer):
    run = finished()
    secret = here / "secret"
    secret.write_bytes(np.arange(4.0).tobytes())
    Path("in/anna/02.bin").unlink()
    Path("in/anna/02.bin").symlink_to(secret)
    parts = [one for one in replayer.replay(read(run).plan()) if one.subjects]
    assert any("#rejected:unreadable" in subject.name for one in parts for subject in one.subjects)


@pytest.mark.parametrize(
    ("name", "reason"),
    [("nowhere:f", "transform-import"), ("os:nothing", "transform-import"), ("os:name", "transform-import")],
)
def test_a_transform_that_is_not_here(here, replayer, name, reason):
    run = finished()
    some = bytes(32)
    plan = plan_of(run, read={"transform": Transform(name, some, some, some, "m 1")})
    with pytest.raises(errors.ConfigError) as caught:
        list(replayer.replay(plan))
    assert caught.value.reason == reason


@pytest.mark.parametrize("parameters", [{}, {"operation": "each"}, {"arguments": {}}])
def test_a_record_that_does_not_say_enough(here, replayer, parameters):
    plan = plan_of(finished(), read={"parameters": parameters})
    with pytest.raises(errors.MalformedError):
        list(replayer.replay(plan))


def test_a_plan_without_a_parent(here, replayer):
    plan = read(finished()).plan()
    stages = {record: stage for record, stage in plan.stages.items() if stage.name != "raw"}
    with pytest.raises(errors.ConfigError, match="not part of this replay"):
        list(replayer.replay(replace(plan, stages=stages)))


def test_another_folder_does_not_know_where_the_files_lie(here, tmp_path):
    run = finished()
    other = tmp_path / "other" / ".provenance"
    provenance.start("another", dataset=None, client="sync", folder=other).close()
    with (
        bootstrap.replayer(config.load(other), "sync") as replayer,
        pytest.raises(errors.ConfigError) as caught,
    ):
        list(replayer.replay(read(run).plan()))
    assert caught.value.reason == "location-unknown"
    assert ".provenance" in caught.value.remedy


def test_a_harmed_shard_is_compared_and_named(here, replayer):
    run = finished()
    found = read(run)
    array = zarr.open_array("out.zarr", path="p00000/values", mode="r+")
    array[7] = array[7] + 0.5
    sink = found.id_of("owner.zarr")
    by_name = {part.name: part for part in replayer.compare(found.plan(), sink, 0)}
    assert by_name["p00000/values"].deviation == "0.5"
    assert by_name["p00000/values"].places == ("array block 0",)
    assert by_name["p00000/counts"].places == ()
    assert replayer.compare(found.plan(), sink, 99) == ()
    assert replayer.compare(found.plan(), found.id_of("read"), 0) == ()
