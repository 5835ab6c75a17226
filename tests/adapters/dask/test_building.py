"""Stages as they are described: what their records say, and what is refused before anything is computed."""

from __future__ import annotations

import functools

import dask.array as da
import dask.bag as db
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from provenance.adapters.dask import wide
from provenance.adapters.dask.building import Builder
from provenance.adapters.dask.checks import (
    check_aligned,
    check_name,
    check_replay,
    encode_arguments,
    schema_of,
)
from provenance.adapters.dask.collections import TakePartition, partitions_of
from provenance.adapters.dask.handles import Handle, PieceRef
from provenance.adapters.dask.operations import MapFiles, MapPartition, SplitTable
from provenance.adapters.dask.sources import Found
from provenance.adapters.dask.steps import Work
from provenance.core.digests import encode_schema
from provenance.core.merkle import leaf_hash
from provenance.core.runs import partition_token
from provenance.errors import ConfigError, MalformedError, ReplayWarning
from tests import recorded
from tests.adapters.dask.graphs import RUN, carried, node


@pytest.fixture
def builder():
    return Builder(RUN, "0.1.0", lambda stage: leaf_hash(repr(stage).encode()))


def refused(reason, kind=ConfigError):
    return pytest.raises(kind, check=lambda error: error.reason == reason)


def make(builder, parent, fn, *, name="stage", each=None, schema=None, replay=("exact", {}), **params):
    return builder.stage(name, parent, fn, params, each=each, schema=schema, replay=replay)


# ----------------------------------------------------------------------------------------------------- stages


def test_a_stage_says_all_that_decides_its_result(builder):
    parent = node("raw", holds_files=True)
    made = make(builder, parent, recorded.scale, factor=3.0)
    assert made.stage.parents == (parent.record,)
    assert made.stage.transform.name == "tests.recorded:scale"
    assert made.stage.parameters == {
        "operation": "each",
        "arguments": encode_arguments("stage", {"factor": 3.0}),
    }
    assert made.stage.partitions == 2
    assert isinstance(made.operation, MapFiles)
    assert isinstance(make(builder, parent, recorded.stack, each=False).operation, MapPartition)
    assert make(builder, parent, recorded.scale, factor=4.0).record != made.record


def test_bound_arguments_are_parameters(builder):
    parent = node("raw", holds_files=True)
    bound = make(builder, parent, functools.partial(recorded.scale, factor=3.0))
    assert bound.record == make(builder, parent, recorded.scale, factor=3.0).record


def test_a_second_parent_is_named_by_its_parameter(builder):
    raw = node("raw")
    other = node("other")
    made = make(builder, raw, recorded.twice, right=Handle(None, other), both=Handle(None, raw))
    assert made.parents == (raw, other, raw)
    assert made.stage.parents == (raw.record, other.record)
    assert made.stage.parameters["others"] == {"right": other.record.hex(), "both": raw.record.hex()}
    assert made.stage.parameters["arguments"] == encode_arguments("stage", {})


def test_parents_that_do_not_fit(builder):
    with refused("not-aligned") as caught:
        make(builder, node("raw"), recorded.twice, right=Handle(None, node("many", count=3)))
    assert "right has 3 partitions, not 2" in str(caught.value)
    assert "wide" in caught.value.remedy
    check_aligned("s", node("a"), {"b": node("b")})


def test_a_local_function_is_recorded_with_a_warning(builder):
    with pytest.warns(ReplayWarning, match="cannot be imported by name"):
        make(builder, node("raw"), lambda data: data)


@pytest.mark.parametrize("name", ["", "x" * 201, "line\nbreak", "\x00", "\u200b"])
def test_names_that_cannot_be_shown(builder, name):
    with refused("stage-name"):
        make(builder, node("raw"), recorded.twice, name=name)


def test_names_of_any_script():
    for name in ("naïve", "語", "a b/c", "x" * 200):
        check_name(name)


@pytest.mark.parametrize(
    ("profile", "tolerances", "reason"),
    [
        ("roughly", {}, "profile"),
        ("tolerance", {}, "tolerance"),
        ("exact", {"*": "0.1"}, "tolerance"),
        ("tolerance", {"*": "-1"}, "tolerance"),
        ("tolerance", {"*": "one"}, "tolerance"),
        ("tolerance", {"ü": "0.1"}, "tolerance"),
    ],
)
def test_how_a_replay_may_differ(profile, tolerances, reason):
    with refused(reason):
        check_replay(profile, tolerances)
    assert check_replay("tolerance", {"*": "1e-6"}) == {"*": "1e-6"}
    assert check_replay("logical", {}) == {}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, None),
        (pa.schema({"a": pa.int64()}), [["a", "i64"]]),
        (pd.DataFrame({"a": np.zeros(0, "i8")}), [["a", "i64"]]),
        (pa.table({"a": pa.array([], pa.float32())}), [["a", "f32"]]),
        ({"a": "utf8", "b": "f64"}, [["a", "utf8"], ["b", "f64"]]),
    ],
)
def test_what_a_schema_may_be_given_as(given, expected):
    found = schema_of(given)
    assert found == expected if expected is None else encode_schema(found) == expected


def test_what_is_no_schema():
    with refused("schema"):
        schema_of(["a", "b"])
    with pytest.raises(MalformedError, match="float"):
        schema_of({"a": "float"})


@pytest.mark.parametrize(
    "value",
    [dd.from_pandas(pd.DataFrame({"a": [1]}), npartitions=1), da.ones(3), db.from_sequence([1])],
    ids=["frame", "array", "bag"],
)
def test_a_collection_is_no_parameter(value):
    with refused("not-a-handle") as caught:
        encode_arguments("stage", {"other": value})
    assert "run.collection" in caught.value.remedy


def test_a_sink_follows_its_stage(builder, tmp_path):
    parent = make(builder, node("raw"), recorded.twice, replay=("tolerance", {"*": "0.1"}))
    made = builder.sink(parent, tmp_path / "out.zarr", None, None)
    assert (made.name, made.stage.transform.name) == ("stage.zarr", "provenance:write_zarr")
    assert (made.stage.profile, made.stage.tolerances) == ("tolerance", {"*": "0.1"})
    assert builder.sink(parent, tmp_path / "out", "named", None).name == "named"
    assert builder.sink(parent, tmp_path / "o", None, "zarr").name == "stage.zarr"
    with refused("format"):
        builder.sink(parent, tmp_path / "out", None, "hdf5")
    assert ("location", made.record.hex(), str(tmp_path / "out.zarr")) in builder.rows


def test_a_source_keeps_names_and_places_for_the_private_store_only(builder, tmp_path):
    named = [(Found("anna/1.wav", "/real/1", 5, "anna"), "token-1", "key-a")]
    made = builder.files("raw", tmp_path, named, limit=10, target_bytes=10, most=5)
    assert "anna" not in repr(made.stage)
    assert made.payloads[0].entries == (("token-1", "/real/1", ".wav"),)
    assert ("location", made.record.hex(), str(tmp_path)) in builder.rows
    assert ("name", "token-1", "anna/1.wav") in builder.rows
    assert ("key", "key-a", "anna") in builder.rows
    assert any(row[1] == partition_token(made.record, 0) for row in builder.rows)


# -------------------------------------------------------------------------------------------------- regrouped


def test_by_key_each_key_is_a_partition_in_the_order_of_tokens():
    parent = node("raw", count=4, keys=["b", "a", "b", "a"])
    keys, pieces = wide.wide_by_key("wide", parent)
    assert keys == ["a", "b"]
    assert pieces == [(PieceRef(1), PieceRef(3)), (PieceRef(0), PieceRef(2))]


@pytest.mark.parametrize("keys", [[], [None, "a"]])
def test_by_key_without_a_key(keys):
    with refused("no-key"):
        wide.wide_by_key("wide", node("raw", keys=keys))


@pytest.mark.parametrize(("count", "sizes"), [(1, [5]), (2, [2, 3]), (3, [1, 2, 2]), (5, [1] * 5)])
def test_by_number_neighbours_stay_together(count, sizes):
    keys, pieces = wide.wide_by_number("wide", node("raw", count=5), count)
    assert keys == [None] * count
    assert [len(one) for one in pieces] == sizes
    assert [piece.number for one in pieces for piece in one] == list(range(5))


@pytest.mark.parametrize("count", [0, -1, 6])
def test_by_a_number_that_cannot_be(count):
    with refused("npartitions"):
        wide.wide_by_number("wide", node("raw", count=5), count)


def test_by_value_order_of_discovery_does_not_count():
    found = {0: ["x", 7], 1: ["x"]}
    keys, pieces, plain = wide.wide_by_value(found, lambda value: f"token {value}")
    assert keys == ["token 7", "token x"]
    assert pieces == [(PieceRef(0, 7),), (PieceRef(0, "x"), PieceRef(1, "x"))]
    assert plain == {"token 7": "7", "token x": "x"}
    assert wide.wide_by_value(dict(reversed(found.items())), lambda value: f"token {value}")[:2] == (
        keys,
        pieces,
    )


@pytest.mark.parametrize("arrow", [False, True], ids=["pandas", "arrow"])
def test_a_table_is_cut_by_a_column(arrow):
    frame = pd.DataFrame({"who": ["b", "a", "b"], "n": [1, 2, 3]})
    part = carried(pa.Table.from_pandas(frame) if arrow else frame)
    split = SplitTable("who")
    assert split.values(part) == ["b", "a"]
    pieces = split.split(part)
    as_list = {
        key: (one.data.to_pandas() if arrow else one.data)["n"].tolist() for key, one in pieces.items()
    }
    assert as_list == {"b": [1, 3], "a": [2]}
    assert split.values(carried(None, rejected="x")) == []


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (["a", None], "key-missing"),
        ([1.0, float("nan")], "key-type"),
        ([1.5, 2.5], "key-type"),
        ([True], "key-type"),
    ],
)
@pytest.mark.parametrize("arrow", [False, True], ids=["pandas", "arrow"])
def test_values_that_cannot_be_grouped_by(values, reason, arrow):
    frame = pd.DataFrame({"who": values})
    part = carried(pa.table({"who": values}) if arrow else frame, 3)
    with pytest.raises(MalformedError, match="partition 3") as caught:
        SplitTable("who").values(part)
    assert caught.value.reason == reason


@pytest.mark.parametrize("data", [pd.DataFrame({"other": [1]}), [1, 2], np.arange(3)])
def test_a_column_that_is_not_there(data):
    with refused("no-column"):
        SplitTable("who").values(carried(data))


# ------------------------------------------------------------------------------------------------ collections


def test_a_collection_is_numbered_as_it_is_frozen(builder):
    frame = dd.from_pandas(pd.DataFrame({"a": range(10), "b": ["x"] * 10}), npartitions=5)
    made = partitions_of(builder, "source", frame[["a"]].partitions[1:4], None)
    assert made.partitions == len(made.raw) == 3
    assert encode_schema(made.schema) == [["a", "i64"]]
    assert set(made.raw) <= set(made.graph)
    assert made.stage.parameters == {"kind": "DataFrame"}


def test_many_partitions_are_drawn_at_once(builder):
    made = partitions_of(builder, "source", da.ones(3000, chunks=1), None)
    assert made.partitions == 3000
    assert len(made.graph) < 3100


@pytest.mark.parametrize("thing", [pd.DataFrame({"a": [1]}), [1, 2], None, 5])
def test_what_is_no_collection(builder, thing):
    with refused("not-a-collection") as caught:
        partitions_of(builder, "source", thing, None)
    assert caught.value.remedy


@pytest.mark.parametrize("data", [(1, 2), iter([1, 2]), map(int, "12"), filter(None, [1, 2])])
def test_what_a_bag_holds_becomes_a_list(data):
    assert TakePartition().apply(Work("bag", 0, data, ())).data == [1, 2]
