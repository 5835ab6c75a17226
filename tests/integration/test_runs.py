"""Runs that are recorded in this process: sources, stages, sinks and the seal, and what is refused."""

from __future__ import annotations

import errno
import os
import re
import warnings
from pathlib import Path

import dask.array as da
import dask.bag as db
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import zarr

import provenance
from provenance import errors
from provenance.core.kinds import Partition
from provenance.core.merkle import root
from tests import recorded


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    recorded.make_folder(tmp_path)
    recorded.make_files(tmp_path / "in")
    return tmp_path


def start(**how):
    return provenance.run("numbers", client="sync", **how)


def read(run):
    return recorded.read_records(run.id, Path(".provenance"))


def doubled(frame, *, factor=2):
    return frame.assign(value=frame["value"] * factor)


def drop_all(frame):
    return frame.iloc[:0]


def add(frame, *, other):
    return frame.assign(value=frame["value"] + other["value"].to_numpy())


def spoil(data):
    data[0] = -1.0
    return data


def spoil_frame(frame):
    frame["value"] = 0.0
    return frame


def total(parts):
    return {"sum": np.array([sum(float(np.sum(part)) for part in parts)])}


def fail(frame):
    raise ZeroDivisionError("in the transform")


def frames(count=4, rows=25):
    return [
        pd.DataFrame({"name": [f"r{n}" for n in range(rows)], "value": np.arange(rows) * (part + 1.0)})
        for part in range(count)
    ]


# ------------------------------------------------------------------------------------------- a run as a whole


def test_a_run_from_files_to_shards_by_key(here):
    with start() as run:
        raw = run.files("in/**/*.bin", key=recorded.owner)
        scaled = raw.stage("read", recorded.numbers).stage("scale", recorded.scale, factor=3.0)
        scaled.wide("owner", recorded.stack, by="key").write("out.zarr")
    found = read(run)
    assert (
        found.order == ["dataset", "run"][-1:] + ["stage"] * 5 + ["partition"] * 10 + ["seal"] or found.order
    )
    assert found.order[0] == "run"
    assert found.order[-1] == "seal"
    assert {one.name: one.partitions for one in found.seal.stages} == {
        "raw": 2,
        "read": 2,
        "scale": 2,
        "owner": 2,
        "owner.zarr": 2,
    }
    assert found.seal.status == "complete"
    store = zarr.open_group("out.zarr", mode="r")
    expected = np.concatenate([(np.arange(100.0) + n) * 3 for n in range(0, 10, 2)])
    groups = [store[f"p{number:05}"] for number in range(2)]
    assert any(np.array_equal(group["values"][:], expected) for group in groups)
    assert [group["counts"][:].tolist() for group in groups] == [[100] * 5] * 2


def test_lineage_leads_from_every_shard_to_its_files(here):
    with start() as run:
        raw = run.files("in", key=recorded.owner)
        raw.stage("read", recorded.numbers).wide("owner", recorded.stack, by="key").write("out.zarr")
    found = read(run)
    ids = dict(found.partitions)
    for shard in found.of("owner.zarr"):
        waiting, seen = [shard], []
        while waiting:
            partition = waiting.pop()
            seen.append(found.stages[partition.stage].name)
            waiting += [ids[record] for record in dict.fromkeys(entry.record for entry in partition.inputs)]
        assert seen == ["owner.zarr", "owner", "read", "raw"]


def test_the_seal_has_the_root_of_each_stage(here):
    with start() as run:
        raw = run.files("in")
        raw.stage("read", recorded.numbers).wide("all", recorded.stack, npartitions=1).write("out.zarr")
    found = read(run)
    for sealed in found.seal.stages:
        ids = [record for record, one in sorted(found.partitions, key=lambda pair: pair[1].number)]
        ids = [record for record in ids if dict(found.partitions)[record].stage == sealed.stage]
        assert sealed.root == root(ids), sealed.name


def test_the_same_program_twice_gives_the_same_digests(here):
    def once(out):
        with start() as run:
            run.files("in").stage("read", recorded.numbers).write(out)
        return [[s.digest for s in p.subjects] for p in read(run).of("read")]

    first, second = once("a.zarr"), once("b.zarr")
    assert first == second
    assert first


# -------------------------------------------------------------------------------------------------- tables


def test_parquet_through_stages_to_parquet(here):
    Path("tables").mkdir()
    for number, frame in enumerate(frames()):
        frame.to_parquet(f"tables/{number}.parquet")
    with start() as run:
        rows = run.parquet("tables/*.parquet")
        rows.stage("double", doubled, factor=3).write("out")
    result = pq.read_table("out").to_pandas()
    assert result["value"].sum() == 3 * sum(frame["value"].sum() for frame in frames())
    found = read(run)
    assert [partition.rows for partition in found.of("double")] == [25] * 4
    assert found.seal.status == "complete"


def test_csv_and_empty_partitions_keep_their_schema(here):
    Path("tables").mkdir()
    for number, frame in enumerate(frames(2)):
        frame.to_csv(f"tables/{number}.csv", index=False)
    with start() as run:
        rows = run.csv("tables/*.csv", types={"value": "f64"})
        rows.stage("none", drop_all, schema={"name": "utf8", "value": "f64"}).write("out")
    found = read(run)
    assert [partition.rows for partition in found.of("none")] == [0, 0]
    assert pq.read_table("out").schema.names == ["name", "value"]
    assert len({partition.subjects[0].digest["table1-sha256"] for partition in found.of("none")}) == 1


def test_a_dataframe_is_frozen_before_it_is_numbered(here):
    Path("tables").mkdir()
    for number, frame in enumerate(frames(10)):
        frame.to_parquet(f"tables/{number}.parquet")
    collection = dd.read_parquet("tables")[["value"]]  # whose optimiser may merge partitions
    with start() as run:
        source = run.collection(collection)
        source.stage("double", doubled).write("out")
    found = read(run)
    numbers = [partition.number for partition in found.of("double")]
    assert numbers == list(range(source.partitions))
    assert sum(partition.rows for partition in found.of("double")) == 250
    with provenance.run("again", client="sync") as again:
        part = again.collection(collection.partitions[3])
        part.stage("double", doubled).write("part")
    assert [partition.number for partition in read(again).of("double")] == [0]


def test_bags_and_arrays_are_sources_too(here):
    with start() as run:
        run.collection(db.from_sequence(["a", "b", "c"], npartitions=2), name="bag").stage(
            "len", len_of
        ).compute()
        run.collection(da.arange(8, chunks=4), name="array").stage("twice", twice).write("out.zarr")
    found = read(run)
    assert [partition.number for partition in found.of("len")] == [0, 1]
    assert [next(iter(partition.subjects[0].digest)) for partition in found.of("twice")] == [
        "array1-sha256"
    ] * 2


def len_of(items):
    return np.array([len(item) for item in items])


def twice(array):
    return array * 2


def test_wide_by_column_and_a_second_parent(here):
    whole = pd.concat(frames()).assign(
        owner=lambda f: f["name"].isin(["r1", "r2"]).map({True: "x", False: "y"})
    )
    with start() as run:
        rows = run.collection(dd.from_pandas(whole, npartitions=3))
        rows.wide("by owner", by="owner").write("owners")
        rows.stage("sum", add, other=rows.stage("double", doubled)).write("sums")
    found = read(run)
    assert sorted(partition.rows for partition in found.of("by owner")) == [8, 92]
    assert pq.read_table("sums").to_pandas()["value"].sum() == 3 * whole["value"].sum()
    parents = {found.stages[one].name for one in found.stages[found.id_of("sum")].parents}
    assert len(parents) == 2
    assert "double" in parents
    assert found.seal.status == "complete"


# ---------------------------------------------------------------------------------------- transforms' manners


def test_a_transform_that_writes_into_its_input_changes_nothing_else(here):
    with pytest.raises(ValueError, match="read-only"), start() as run:
        run.files("in").stage("read", recorded.numbers).stage("spoil", spoil_file).write("spoilt.zarr")
    whole = pd.concat(frames())
    with start() as second:
        rows = second.collection(dd.from_pandas(whole, npartitions=2))
        rows.stage("spoil", spoil_frame).write("spoilt")
        rows.stage("double", doubled).write("kept")
    assert pq.read_table("kept").to_pandas()["value"].sum() == 2 * whole["value"].sum()


def spoil_file(file):
    return spoil(file.data)


def test_an_error_names_stage_and_partition_and_seals_the_run_as_aborted(here):
    with pytest.raises(ZeroDivisionError) as caught, start() as run:
        run.collection(dd.from_pandas(frames(1)[0], npartitions=2)).stage("fail", fail).write("out")
    assert re.fullmatch(r"in stage 'fail', partition [01]", caught.value.__notes__[0])
    assert read(run).seal.status == "aborted"
    assert not Path("out").exists()
    with start() as again:
        again.collection(dd.from_pandas(frames(1)[0], npartitions=2)).stage("double", doubled).write("out")
    assert read(again).seal.status == "complete"


def test_what_cannot_be_used_stays_on_record(here):
    Path("in/anna/00.bin").write_bytes(b"")
    with start() as run:
        raw = run.files("in", key=recorded.owner)
        raw.stage("read", recorded.numbers).wide("owner", recorded.stack, by="key").write("out.zarr")
    assert set(provenance.rejected(run.id).values()) == {"empty-file"}
    assert read(run).seal.status == "complete"
    with (
        pytest.raises(errors.MalformedError, match=r"anna/00\.bin: it cannot be used: empty-file") as caught,
        start(on_bad_input="stop") as stopped,
    ):
        stopped.files("in").stage("read", recorded.numbers).write("second.zarr")
    assert caught.value.remedy
    assert not Path("second.zarr").exists()


# ------------------------------------------------------------------------------------------- what is refused


def refused(reason):
    return pytest.raises(errors.ProvenanceError, check=lambda error: error.reason == reason and error.remedy)


def test_names_of_stages_are_unique_and_stores_are_free(here):
    with refused("stage-name"), start() as run:
        raw = run.files("in")
        raw.stage("read", recorded.numbers).write("a.zarr")
        raw.stage("read", recorded.numbers).write("b.zarr")
    Path("taken.zarr").mkdir()
    Path("taken.zarr/precious").write_text("x")
    with refused("store-exists"), start() as run:
        run.files("in").stage("read", recorded.numbers).write("taken.zarr")
    assert Path("taken.zarr/precious").read_text() == "x"


def test_a_collection_among_parameters_is_refused_with_the_way_to_pass_it(here):
    frame = dd.from_pandas(frames(1)[0], npartitions=1)
    with refused("not-a-handle"), start() as run:
        run.collection(frame).stage("sum", add, other=frame)
    with refused("not-a-collection"), start() as run:
        run.collection(frames(1)[0])


def test_stages_that_nobody_writes_are_no_run(here):
    with refused("nothing-written"), start() as run:
        run.files("in").stage("read", recorded.numbers)


@pytest.mark.parametrize("run_id", ["", "xyz", "00" * 31, "0g" * 32, "00" * 32])
def test_a_run_that_is_not_there(here, run_id):
    for call in (provenance.attach, provenance.rejected):
        with pytest.raises(errors.ConfigError) as caught:
            call(run_id)
        assert caught.value.remedy


def test_a_sealed_run_takes_nothing_more(here):
    with start() as run:
        run.files("in").stage("read", recorded.numbers).write("a.zarr")
    with refused("sealed"):
        run.files("in")
    with refused("sealed"):
        provenance.attach(run.id, client="sync")


def test_a_lambda_is_recorded_and_the_user_is_told_that_no_replay_finds_it(here):
    with warnings.catch_warnings(record=True) as seen, start() as run:
        warnings.simplefilter("always")
        run.files("in").stage("read", lambda file: np.frombuffer(file.data)).write("a.zarr")
    assert [w.category for w in seen] == [provenance.ReplayWarning]
    assert read(run).seal.status == "complete"


# -------------------------------------------------------------------------------------------------- by hand


def test_records_by_hand_form_one_lineage(here):
    run = provenance.start("by hand", client="sync")
    parts = [
        provenance.record(np.frombuffer(path.read_bytes()), inputs=[path], stage="read")
        for path in sorted(Path("in").rglob("*.bin"))
    ]
    provenance.record(total([part.rows for part in parts]), inputs=parts, stage="sum", fn=total)
    run.seal()
    found = read(run)
    (summed,) = found.of("sum")
    assert [entry.record for entry in summed.inputs] == [part.record for part in parts]
    assert len(found.of("read.files")) == 10
    assert found.seal.status == "complete"
    with refused("sealed"):
        provenance.record(1, stage="more")


def test_recording_without_a_run_says_how_to_start_one(here, monkeypatch):
    from provenance import recording

    monkeypatch.setattr(recording, "_current", type(recording._current)("none", default=None))
    with refused("no-run"):
        provenance.record(np.arange(3), stage="read")


def test_the_public_names_can_all_be_imported(here):
    names = {}
    exec("from provenance import *", names)
    assert {"run", "start", "attach", "record", "digest"} <= set(names)


# ------------------------------------------------------------------------------------------------ a full disk


def test_a_full_disk_while_storing_leaves_no_store_and_no_sealed_run(here, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(errors.UnavailableError, match="No space left") as caught, start() as run:
            run.files("in").stage("read", recorded.numbers).write("out.zarr")
    assert caught.value.remedy
    assert not Path("out.zarr").exists()
    with start() as again:
        again.files("in").stage("read", recorded.numbers).write("out.zarr")
    assert read(again).seal.status == "complete"


def test_partitions_say_nothing_of_clock_host_or_attempt(here):
    with start() as run:
        run.files("in").stage("read", recorded.numbers).write("a.zarr")
    for _, partition in read(run).partitions:
        assert isinstance(partition, Partition)
        assert set(partition.statement().predicate) <= {
            "run",
            "stage",
            "number",
            "rows",
            "bytes",
            "inputs",
            "key",
            "rejected",
        }
