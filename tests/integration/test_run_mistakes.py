"""What a user of runs gets wrong, and what then stands in the log: nothing that nobody asked for."""

from __future__ import annotations

import os
from pathlib import Path

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import zarr

import provenance
from provenance import errors
from tests import recorded


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    recorded.make_folder(tmp_path)
    recorded.make_files(tmp_path / "in", 4)
    return tmp_path


def start(**how):
    return provenance.run("numbers", client="sync", **how)


def read(run):
    return recorded.read_records(run.id, Path(".provenance"))


def refused(reason):
    return pytest.raises(errors.ProvenanceError, check=lambda error: error.reason == reason and error.remedy)


def frame():
    return pd.DataFrame({"value": np.arange(8.0)})


def same(data):
    return data


def first_of(data, *, other):
    return data


def lazily(data):
    return dd.from_pandas(data, npartitions=1)


def fails_until(file, *, marker):
    if not Path(marker).exists():
        raise RuntimeError("not yet")
    return np.frombuffer(file.data)


# -------------------------------------------------------------------------------------------- handles, sealed


def test_a_handle_of_a_sealed_run_computes_nothing(here):
    with start() as run:
        run.files("in").stage("read", recorded.numbers).write("a.zarr")
        late = run.files("in", name="again").stage("late", recorded.numbers)
    for call in (late.compute, late.persist, lambda: late.stage("more", same), lambda: late.write("b.zarr")):
        with refused("sealed"):
            call()
    assert read(run).order[-1] == "seal"


def test_a_stage_of_another_run_is_refused_by_parameter(here):
    other = start()
    foreign = other.files("in")
    with refused("other-run") as caught, start() as run:
        run.files("in").stage("pair", first_of, other=foreign)
    assert "'other'" in str(caught.value)
    other.seal("aborted")


def test_what_dask_would_do_between_stages_is_told_as_a_stage(here):
    run = start()
    handle = run.files("in")
    with pytest.raises(AttributeError, match=r"no 'groupby'.*\.stage\(name, function\).*\.wide\("):
        handle.groupby("owner")
    assert not hasattr(handle, "__dask_graph__")
    run.seal("aborted")


def test_a_stage_that_returns_a_collection_is_refused(here):
    with refused("not-a-handle") as caught, start() as run:
        run.collection(dd.from_pandas(frame(), npartitions=2)).stage("lazy", lazily).write("out")
    assert "'lazy'" in str(caught.value)
    assert "returned a Dask DataFrame" in str(caught.value)
    assert not Path("out").exists()


def test_what_is_no_partition_is_named_by_stage_and_partition(here):
    with refused("partition-type") as caught, start() as run:
        run.files("in").stage("nothing", nothing).write("out.zarr")
    assert "stage 'nothing', partition 0: a builtins.NoneType" in str(caught.value)


def nothing(file):
    return None


@pytest.mark.parametrize("delimiter", ["", ";;", '"', "\n", "ü"])
def test_a_delimiter_that_is_none(here, delimiter):
    with refused("delimiter"), start() as run:
        run.csv("in/**/*.bin", delimiter=delimiter)


# -------------------------------------------------------------------------------------------------- going on


def test_compute_goes_on_after_an_error_with_what_was_not_written(here):
    run = provenance.start("numbers", client="sync")
    raw = run.files("in")
    raw.stage("read", recorded.numbers).write("good.zarr")
    run.compute()
    raw.stage("later", fails_until, marker="ready").write("late.zarr")
    for _ in range(2):
        with pytest.raises(RuntimeError, match="not yet"):
            run.compute()
        assert not Path("late.zarr").exists()
    Path("ready").touch()
    run.compute()
    run.seal()
    assert Path("late.zarr/zarr.json").exists()
    found = read(run)
    assert found.seal.status == "complete"
    aside = {one.name: one.set_aside.count for one in found.seal.stages}
    assert aside == dict.fromkeys(["raw", "read", "read.zarr", "later", "later.zarr"], 0)


@pytest.mark.parametrize("also_at_the_end", [False, True])
def test_a_log_that_fills_up_in_the_middle_counts_nothing_by_halves(here, monkeypatch, also_at_the_end):
    from provenance.adapters.sqlite_log import SqliteLog

    append, full = SqliteLog.append, [False]

    def limited(log, records):
        partitions = [value for _, value in records if b'"number"' in value]
        full[0] = full[0] or (log.bounds(0).end > 9 and bool(partitions))
        if full[0] and (also_at_the_end or partitions):
            raise errors.UnavailableError("log: the disk is full", reason="enospc", remedy="Free some space.")
        return append(log, records)

    with monkeypatch.context() as patch:
        patch.setattr(SqliteLog, "append", limited)
        with pytest.raises(errors.UnavailableError, match="disk is full") as caught, start() as run:
            run.files("in", group_files=1).stage("read", recorded.numbers).write("out.zarr")
    assert not Path("out.zarr").exists()
    assert not list(here.glob(".out.zarr.*"))
    notes = [note for note in caught.value.context if "could not be sealed" in note]
    found = read(run)
    assert len({record for record, _ in found.partitions}) % 3 == 0, "a task's records stand together"
    if not also_at_the_end:
        assert (notes, found.seal.status) == ([], "aborted")
        return
    assert len(notes) == 1
    assert found.seal is None
    again = provenance.attach(run.id, client="sync")
    again.files("in", group_files=1).stage("read", recorded.numbers).write("out.zarr")
    again.seal()
    counts = {one.name: (one.partitions, one.set_aside.count) for one in read(run).seal.stages}
    assert counts == {"raw": (4, 0), "read": (4, 0), "read.zarr": (4, 0)}


def test_records_by_hand_go_on_counting_after_attach(here):
    run = provenance.start("by hand", client="sync")
    for number in range(3):
        provenance.record(np.arange(3.0) + number, stage="part")
    run.close()
    again = provenance.attach(run.id, client="sync")
    for number in range(3, 5):
        assert provenance.record(np.arange(3.0) + number, stage="part").number == number
    provenance.record(np.arange(2.0), inputs=["in/anna/00.bin"], stage="file")
    again.close()
    last = provenance.attach(run.id, client="sync")
    provenance.record(np.arange(4.0), inputs=["in/boris/01.bin"], stage="file")
    last.seal()
    found = read(run)
    assert [part.number for part in found.of("part")] == [0, 1, 2, 3, 4]
    assert [part.number for part in found.of("file.files")] == [0, 1]
    assert all(one.set_aside.count == 0 for one in found.seal.stages)


def test_what_a_run_opened_is_closed_even_if_nothing_was_computed(here, monkeypatch):
    from provenance.adapters.dask import compute

    opened = []

    class Watched(compute.InProcess):
        closed = False

        def close(self):
            self.closed = True

    def open_watched(client, *, workers):
        opened.append(Watched("sync"))
        return opened[-1]

    monkeypatch.setattr(compute, "open_compute", open_watched)
    run = provenance.start("by hand")
    provenance.record([1], stage="one")
    run.seal()
    provenance.start("nothing").close()
    assert [one.closed for one in opened] == [True, True]


# ----------------------------------------------------------------------------------------- files left nowhere


def test_no_folder_is_left_out_without_a_word(here, monkeypatch):
    Path("elsewhere").mkdir()
    Path("in/linked").symlink_to(here / "elsewhere")
    for where in ("in", "in/**/*.bin"):
        with refused("link-to-folder") as caught, start() as run:
            run.files(where)
        assert "in/linked" in str(caught.value)
    Path("in/linked").unlink()
    scan = os.scandir

    def closed(path):
        if str(path).endswith("boris"):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", closed)
    with refused("eacces") as caught, start() as run:
        run.files("in")
    assert "in/boris" in str(caught.value)


def test_a_folder_inside_and_a_file_of_like_name_are_two_parts(here):
    recorded.make_folder(here, personal=False)
    Path("in/anna_00.bin").write_bytes(np.arange(5.0).tobytes())
    Path("in/50%.bin").write_bytes(np.arange(6.0).tobytes())
    with start() as run:
        run.files("in").stage("read", recorded.numbers).write("out.zarr")
    stored = zarr.open_group("out.zarr", mode="r")["p00000"]
    parts = {name: array.shape[0] for name, array in stored.arrays()}
    assert parts == {
        "50%25.bin": 6,
        "anna%2F00.bin": 100,
        "anna%2F02.bin": 100,
        "anna_00.bin": 5,
        "boris%2F01.bin": 100,
        "boris%2F03.bin": 100,
    }
    assert read(run).seal.status == "complete"
