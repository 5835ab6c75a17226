"""Stores: whole shards, everything hashed as it is set, one step into place, nothing replaced."""

from __future__ import annotations

import errno
import hashlib
import math
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

from provenance.adapters.dask import sinks_parquet, sinks_zarr
from provenance.adapters.dask.places import Building, discard, hash_file, holds, read_tree
from provenance.adapters.dask.sinks_parquet import WriteParquet, encode_parquet, read_parquet_part, table_of
from provenance.adapters.dask.sinks_zarr import WriteZarr, arrays_of, finish_zarr, layout, stored_form
from provenance.adapters.dask.steps import Work
from provenance.core.digests import array1, table1, tree1
from provenance.core.kinds import Partition
from provenance.core.records import Subject
from provenance.errors import ConfigError, UnavailableError, VerificationError
from tests.adapters.dask.graphs import RUN, SOME, a_file, carried


@pytest.fixture
def building(tmp_path):
    made = Building(str(tmp_path / "store"), RUN.hex())
    made.begin()
    return made


def work(data, number=0):
    return Work("stage", number, None, (carried(data, number),))


def refused(kind, reason):
    return pytest.raises(kind, check=lambda error: error.reason == reason and error.remedy)


# ----------------------------------------------------------------------------------------------------- shards


@given(
    st.lists(st.integers(0, 300), min_size=1, max_size=3),
    st.sampled_from([1, 2, 4, 8, 16]),
    st.integers(1, 2000),
    st.integers(1, 20_000),
)
def test_one_write_covers_whole_shards(shape, itemsize, chunk_bytes, shard_bytes):
    chunks, shards = layout(tuple(shape), itemsize, chunk_bytes, shard_bytes)
    assert len(chunks) == len(shards) == len(shape)
    assert all(s % c == 0 and c >= 1 for s, c in zip(shards, chunks, strict=True))
    assert shards[1:] == chunks[1:] == tuple(max(1, size) for size in shape[1:])
    row = max(1, itemsize * math.prod(shape[1:]))
    assert chunks[0] == 1 or chunks[0] * row <= max(chunk_bytes, row)
    assert shards[0] == chunks[0] or shards[0] * row <= max(shard_bytes, chunks[0] * row)


def test_a_scalar_has_no_shards():
    assert layout((), 8, 1, 1) == ((), ())


ARRAYS = {
    "f32": np.arange(6, dtype="f4").reshape(2, 3),
    "big-endian": np.arange(4, dtype=">f8"),
    "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "strided": np.arange(20.0)[::3],
    "bool": np.array([True, False]),
    "complex": np.array([1 + 2j]),
    "half": np.arange(3, dtype="f2"),
    "u8": np.arange(5, dtype="u1"),
    "scalar": np.array(7),
    "no rows": np.empty((0, 80), "f4"),
    "no columns": np.empty((3, 0), "f4"),
    "zeros": np.zeros((50, 10)),
    "nan": np.array([np.nan, -0.0, np.inf]),
}


@pytest.mark.parametrize("array", ARRAYS.values(), ids=ARRAYS)
@pytest.mark.parametrize("limits", [(1 << 20, 64 << 20), (16, 64)], ids=["one chunk", "many"])
def test_an_array_is_stored_as_it_was_hashed(building, array, limits):
    made = WriteZarr(building, *limits).apply(work(array))
    entries = made.commit()
    there = {entry.path: entry for entry in read_tree(building.path / "p00000", "p00000/")}
    assert {entry.path: entry for entry in entries} == there
    (subject,) = made.measured.subjects
    stored = sinks_zarr.read_zarr_part(building.path, 0, "data")[...]
    assert array1(stored) == array1(array)
    assert subject.digest["array1-sha256"] == array1(array).hex
    assert subject.digest["tree1-sha256"] == tree1(read_tree(building.path / "p00000" / "data", "")).hex
    chunks = [entry for entry in entries if "/c" in entry.path]
    assert bool(chunks) == bool(array.size), "an array of zeros is stored like any other"
    replayed = WriteZarr(None, *limits).apply(work(array))
    assert replayed.measured.subjects == made.measured.subjects


def test_named_parts_are_one_group(building):
    parts = {"values": np.arange(3.0), "counts": np.array([1, 2])}
    made = WriteZarr(building).apply(work(parts, 12))
    made.commit()
    assert [subject.name for subject in made.measured.subjects] == ["p00012/counts", "p00012/values"]
    assert made.measured.rows == 3
    group = zarr.open_group(str(building.path / "p00012"), mode="r")
    assert sorted(group.array_keys()) == ["counts", "values"]


def test_the_root_is_written_last_and_names_the_run(building):
    WriteZarr(building).apply(work(np.arange(3.0))).commit()
    assert not (building.path / "zarr.json").exists()
    entry = finish_zarr(building, "ab", "cd")
    assert hash_file(building.path / "zarr.json", "zarr.json") == entry
    building.finish()
    root = zarr.open_group(building.place, mode="r")
    assert dict(root.attrs) == {"provenance": {"run": "ab", "stage": "cd"}}
    assert root["p00000"]["data"][:].tolist() == [0, 1, 2]


def test_data_that_changed_since_it_was_hashed_is_not_stored(building):
    array = np.arange(3.0)
    late = work(array)
    array[0] = 9
    with refused(VerificationError, "data-changed"):
        WriteZarr(building).apply(late)
    assert list((building.path / "waiting").iterdir()) == []


@pytest.mark.parametrize(
    "data", [[1, 2], "text", {}, {"a": [1]}, [a_file("a", b"bytes")], pd.DataFrame({"a": [1]})]
)
def test_what_is_no_array(data):
    with refused(ConfigError, "not-arrays"):
        arrays_of(data, "stage")


def test_files_are_parts_by_name_and_paths_stay_apart():
    one, other = np.arange(1.0), np.arange(2.0)
    files = [a_file("a/b", one), a_file("a%2Fb", other), a_file("gone", None, rejected="x")]
    assert arrays_of(files, "stage") == {"a%2Fb": one, "a%252Fb": other}


def test_one_array_reads_back_as_one():
    array = np.arange(2.0)
    assert stored_form({"data": array}) is array
    assert list(stored_form({"x": array})) == ["x"]


# ---------------------------------------------------------------------------------------------------- Parquet


def test_a_table_is_stored_with_both_digests(building):
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", None]})
    made = WriteParquet(building).apply(work(frame, 3))
    (entry,) = made.commit()
    place = building.path / "part-00003.parquet"
    assert hash_file(place, entry.path) == entry
    (subject,) = made.measured.subjects
    assert subject.digest["sha256"] == hashlib.sha256(place.read_bytes()).hexdigest()
    assert subject.digest["table1-sha256"] == table1(read_parquet_part(place.read_bytes())).hex
    assert WriteParquet(None).apply(work(frame, 3)).measured.subjects == made.measured.subjects


def test_a_bag_is_a_table_of_one_column():
    assert table_of([1, 2], "stage").num_rows == 2


@pytest.mark.parametrize("data", [np.arange(3), {"a": np.arange(3)}, [a_file("a")], "text"])
def test_what_is_no_table(data):
    with refused(ConfigError, "not-tables"):
        table_of(data, "stage")


def test_a_damaged_page_is_noticed():
    data = bytearray(encode_parquet(pa.table({"a": list(range(1000))})))
    data[200] ^= 0xFF
    with pytest.raises((pa.ArrowException, OSError)):
        read_parquet_part(bytes(data))


# ------------------------------------------------------------------------------------------------ into place


WRITERS = pytest.mark.parametrize(
    ("writer", "data", "other"),
    [
        (WriteZarr, np.arange(3.0), np.arange(4.0)),
        (WriteParquet, pd.DataFrame({"a": [1]}), pd.DataFrame({"a": [2]})),
    ],
    ids=["zarr", "parquet"],
)


@WRITERS
def test_a_second_attempt_finds_the_first_ones_file(building, writer, data, other):
    first = writer(building).apply(work(data))
    second = writer(building).apply(work(other))
    assert list(first.commit()) == list(second.commit()) != []
    assert list((building.path / "waiting").iterdir()) == []

    def record(made):
        subjects = made.measured.subjects
        return Partition(RUN, SOME, 0, made.measured.rows, made.measured.bytes, subjects, ())

    assert holds(building, record(first))
    assert not holds(building, record(second))
    finish_zarr(building, "r", "s")
    building.finish()
    assert holds(building, record(first))


@WRITERS
def test_a_worker_that_does_not_see_the_drivers_folder(tmp_path, writer, data, other):
    away = Building(str(tmp_path / "away"), RUN.hex())
    with refused(UnavailableError, "other-disk"):
        writer(away).apply(work(data))
    assert list(tmp_path.iterdir()) == []


@WRITERS
def test_a_full_disk_leaves_no_half_file(building, monkeypatch, writer, data, other):
    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with refused(UnavailableError, "enospc"):
            writer(building).apply(work(data)).commit()
    left = [path for path in building.path.rglob("*") if path.is_file()]
    assert left == []
    assert writer(building).apply(work(data)).commit()


def test_a_place_that_is_taken_is_never_overwritten(building):
    Path(building.place).write_text("precious")
    for call in (building.check_free, building.finish):
        with refused(ConfigError, "store-exists"):
            call()
    assert Path(building.place).read_text() == "precious"


def test_a_broken_link_is_something_at_the_place(building):
    Path(building.place).symlink_to("nowhere")
    with refused(ConfigError, "store-exists"):
        building.check_free()


def test_a_file_that_is_not_to_be_seen_from_the_driver(building):
    (entry,) = WriteParquet(building).apply(work(pd.DataFrame({"a": [1]}))).commit()
    building.check_whole([entry])
    (building.path / entry.path).write_bytes(b"shorter")
    with refused(UnavailableError, "other-disk"):
        building.check_whole([entry])


def test_two_runs_build_apart_and_what_is_abandoned_is_gone(tmp_path):
    one, other = (Building(str(tmp_path / "store"), run * 64) for run in "ab")
    one.begin()
    other.begin()
    assert one.path != other.path
    one.abandon()
    assert [path.name for path in tmp_path.iterdir()] == [other.path.name]
    assert str(tmp_path) not in repr(one)


def test_what_is_discarded_may_be_gone_or_a_link(tmp_path):
    (tmp_path / "kept").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    discard(tmp_path / "link")
    discard(tmp_path / "never")
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_a_record_of_other_bytes_is_not_what_is_stored(building):
    (building.path / "part").write_bytes(b"bytes")
    for digest in ({"sha256": "00" * 32}, {"tree1-sha256": "00" * 32}, {"array1-sha256": "00" * 32}):
        assert not holds(building, Partition(RUN, SOME, 0, 1, 1, (Subject("part", digest),), ()))
    assert not holds(building, Partition(RUN, SOME, 0, 1, 1, (Subject("gone", {"sha256": "00" * 32}),), ()))
    assert sinks_parquet.parquet_name(123456) == "part-123456.parquet"
