"""A stored partition beside the same computed again: named down to block and chunk, and how far apart."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from provenance.adapters.dask.comparing import Stored, compare_arrays, compare_stored
from provenance.adapters.dask.places import Building
from provenance.adapters.dask.sinks_parquet import WriteParquet
from provenance.adapters.dask.sinks_zarr import WriteZarr, finish_zarr
from provenance.adapters.dask.steps import Work
from tests.adapters.dask.graphs import RUN, carried


def arrays(found, again, chunk=None, shard=None):
    return compare_arrays("p00000/data", found, again, chunk or found.shape, shard or chunk or found.shape)


def changed(array, *places, by=1):
    other = array.copy()
    for place in places:
        other[place] += by
    return other


# ----------------------------------------------------------------------------------------------------- arrays


def test_equal_arrays_differ_in_nothing():
    array = np.array([[1.0, np.nan], [-0.0, np.inf]])
    result = arrays(array, array.copy())
    assert (result.places, result.chunks, result.deviation, result.problem) == ((), (), None, "")


def test_a_changed_value_is_named_by_chunk_and_block():
    array = np.zeros((100, 4))
    result = arrays(array, changed(array, (73, 2), by=0.5), (10, 4), (50, 4))
    assert result.chunks == ("c/1/0, chunk (2, 0)",)
    assert result.places == ("array block 0",)
    assert result.deviation == "0.5"
    assert arrays(array, changed(array, (73, 2)), (10, 4), (10, 4)).chunks == ("c/7/0",)


def test_many_changes_are_named_in_part():
    array = np.zeros((100, 1))
    assert len(arrays(array, array + 1, (1, 1), (1, 1)).chunks) == 8


@pytest.mark.parametrize(
    ("found", "again", "deviation"),
    [
        (np.array([1.0, np.nan]), np.array([1.5, np.nan]), "0.5"),
        (np.array([1.0]), np.array([np.nan]), "inf"),
        (np.array([np.inf]), np.array([-np.inf]), "inf"),
        (np.array([np.inf, 1.0]), np.array([np.inf, 2.0]), "1.0"),
        (np.array([0.0]), np.array([-0.0]), "0.0"),
        (np.array([1 + 1j]), np.array([1 + 2j]), "1.0"),
        (np.array([0], "u8"), np.array([2**64 - 1], "u8"), str(2**64 - 1)),
        (np.array([-128], "i1"), np.array([127], "i1"), "255"),
        (np.array([True]), np.array([False]), None),
        (np.array(1.0), np.array(3.0), "2.0"),
    ],
)
def test_how_far_apart(found, again, deviation):
    result = arrays(found, again, found.shape or (), found.shape or ())
    assert result.deviation == deviation
    assert result.places


@pytest.mark.parametrize("again", [np.zeros((3, 3)), np.zeros((2, 3), "f4"), np.zeros(6)])
def test_another_shape_or_type(again):
    (place,) = arrays(np.zeros((2, 3)), again).places
    assert place.startswith("stored float64 (2, 3), computed ")


# ----------------------------------------------------------------------------------------------------- stores


@pytest.fixture
def stored(tmp_path):
    """Writes a partition and says which it is."""

    def write(data, *, limits=(64, 256), kind="zarr"):
        building = Building(str(tmp_path / f"store.{kind}"), RUN.hex())
        building.begin()
        writer = WriteZarr(building, *limits) if kind == "zarr" else WriteParquet(building)
        writer.apply(Work("sink", 0, None, (carried(data),))).commit()
        finish_zarr(building, "r", "s")
        building.finish()
        return Stored(building.place, kind == "zarr", 0, "sink", None)

    return write


def test_what_was_stored_is_what_is_computed(stored):
    array = np.arange(100.0).reshape(20, 5)
    (result,) = compare_stored(stored(array), carried(array))
    assert (result.name, result.chunks, result.problem) == ("p00000/data", (), "")
    assert compare_stored(stored(pd.DataFrame({"a": [1]}), kind="pq"), carried(None, rejected="x")) == []


@pytest.mark.parametrize("harm", ["flip", "delete", "cut", "metadata", "metadata gone"])
def test_a_harmed_store_is_a_finding_that_names_the_object(stored, tmp_path, harm):
    array = np.arange(100.0).reshape(20, 5)
    work = stored(array)
    folder = tmp_path / "store.zarr" / "p00000" / "data"
    shard = folder / "c" / "1" / "0"
    meta = folder / "zarr.json"
    if harm == "flip":
        data = bytearray(shard.read_bytes())
        data[-3] ^= 0xFF  # of the index's checksum
        shard.write_bytes(bytes(data))
    elif harm == "cut":
        shard.write_bytes(shard.read_bytes()[:10])
    elif harm == "delete":
        shard.unlink()
    elif harm == "metadata":
        meta.write_text("{")
    else:
        meta.unlink()
    (result,) = compare_stored(work, carried(array))
    if harm.startswith("metadata"):
        assert "metadata cannot be read" in result.problem
    else:
        assert result.chunks == ("c/1/0",)
        assert "1 stored objects do not decode" in result.problem


def test_a_changed_part_is_named_beside_an_equal_one(stored):
    parts = {"x": np.arange(10.0), "y": np.arange(10.0)}
    work = stored(parts)
    by_name = {r.name: r for r in compare_stored(work, carried({**parts, "y": parts["y"] * 2}))}
    assert by_name["p00000/x"].chunks == ()
    assert by_name["p00000/y"].deviation == "9.0"
    assert "/" not in repr(work)


def frame(count=70_000):
    return pd.DataFrame(
        {"n": np.arange(count), "f": np.arange(count) / 4, "t": [f"r{n}" for n in range(count)]}
    )


def test_a_table_is_compared_by_column_and_block(stored):
    table = frame()
    work = stored(table, kind="pq")
    (same,) = compare_stored(work, carried(table))
    assert (same.places, same.chunks, same.deviation) == ((), (), None)
    other = table.copy()
    other.loc[66_000, "f"] += 0.25
    (result,) = compare_stored(work, carried(other))
    assert result.places == ("column f, block 1",)
    assert result.chunks == ("part-00000.parquet",)
    assert result.deviation == "0.25"
    other.loc[3, "t"] = "another"
    (result,) = compare_stored(work, carried(other))
    assert set(result.places) == {"column f, block 1", "column t, block 0"}
    assert result.deviation is None


def test_nulls_in_other_places_have_no_distance(stored):
    table = pa.table({"a": [1.0, None, 3.0]})
    work = stored(table, kind="pq")
    (result,) = compare_stored(work, carried(pa.table({"a": [1.0, 2.0, 3.0]})))
    assert result.places == ("column a, block 0",)
    assert result.deviation is None


@pytest.mark.parametrize(
    "again", [pa.table({"a": [1]}), pa.table({"b": [1, 2]}), pa.table({"a": [1, 2], "b": [1, 2]})]
)
def test_other_rows_or_columns(stored, again):
    work = stored(pa.table({"a": [1, 2]}), kind="pq")
    (result,) = compare_stored(work, carried(again))
    assert result.places[0].startswith("stored 2 rows of a; computed ")


def test_a_column_of_another_type(stored):
    work = stored(pa.table({"a": pa.array([1, 2], pa.int64())}), kind="pq")
    (result,) = compare_stored(work, carried(pa.table({"a": pa.array([1, 2], pa.int32())})))
    assert result.places == ("column a: stored i64, computed i32",)


@pytest.mark.parametrize("harm", ["gone", "cut", "page"])
def test_a_harmed_table(stored, tmp_path, harm):
    table = frame(1000)
    work = stored(table, kind="pq")
    place = tmp_path / "store.pq" / "part-00000.parquet"
    data = bytearray(place.read_bytes())
    if harm == "gone":
        place.unlink()
    elif harm == "cut":
        place.write_bytes(data[:100])
    else:
        data[100] ^= 0xFF
        place.write_bytes(data)
        with pytest.raises((pa.ArrowException, OSError)):
            pq.ParquetFile(place, page_checksum_verification=True).read()
    (result,) = compare_stored(work, carried(table))
    assert result.chunks == ("part-00000.parquet",)
    assert "does not decode" in result.problem
