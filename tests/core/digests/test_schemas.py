"""A stage's schema: declared once, conformed to by every partition, carried by the stage record."""

from __future__ import annotations

import decimal
import json
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from provenance.core.digests import (
    as_table,
    bag_table,
    conform,
    declare_schema,
    decode_schema,
    encode_schema,
    table1,
    type_string,
)
from provenance.errors import MalformedError

D = decimal.Decimal


def schema(**columns: pa.DataType) -> pa.Schema:
    return pa.schema(columns)


def conformed(array: Any, declared: pa.DataType) -> pa.Table:
    return conform(pa.table({"c": array}), schema(c=declared))


# ------------------------------------------------------------------------------------------------- declaring


def test_an_undeclared_object_column_is_utf8() -> None:
    meta = pd.DataFrame(
        {
            "o": pd.Series([], dtype=object),
            "i": pd.Series([], dtype="i8"),
            "c": pd.Series([], dtype="category"),
            "l": pd.Series([], dtype=object),
        }
    )
    declared = declare_schema(meta, {"l": pa.list_(pa.int8())})
    assert encode_schema(declared) == [["o", "utf8"], ["i", "i64"], ["c", "utf8"], ["l", "list(i8)"]]


def test_known_types_stay_and_may_be_overruled() -> None:
    meta = pd.DataFrame({"s": pd.Series(["a"], dtype="category"), "f": [1.0]})
    assert [text for _, text in encode_schema(declare_schema(meta))] == ["utf8", "f64"]
    assert [text for _, text in encode_schema(declare_schema(meta, {"f": pa.float32()}))] == ["utf8", "f32"]
    assert encode_schema(declare_schema(pd.Series([], dtype="f4"))) == [["0", "f32"]]


def test_a_type_for_no_column_is_refused() -> None:
    with pytest.raises(MalformedError, match="'x'") as caught:
        declare_schema(pd.DataFrame({"a": [1]}), {"x": pa.int8()})
    assert caught.value.reason == "missing-column"


# ------------------------------------------------------------------------------------------------ conforming


def test_what_fits_is_left_alone() -> None:
    table = pa.table({"a": [1, 2], "b": pa.array(["x", None]).dictionary_encode()})
    result = conform(table, schema(a=pa.int64(), b=pa.large_string()))
    assert result.column("a") is table.column("a") or result.column("a").equals(table.column("a"))
    assert result.schema.types == table.schema.types
    assert table1(result) == table1(table)


EMPTY = [
    pd.Series([None, np.nan], dtype=object),
    pd.Series([None, None], dtype="category"),
    pd.Series([None, None], dtype=pd.CategoricalDtype(["x"])),
    pd.Series([None, None], dtype=pd.CategoricalDtype([1.5])),
]
DECLARED = [
    pa.int8(),
    pa.float64(),
    pa.string(),
    pa.large_binary(),
    pa.list_(pa.int8()),
    pa.struct({"a": pa.int8()}),
    pa.map_(pa.string(), pa.int8()),
    pa.list_(pa.int8(), 3),
    pa.timestamp("us", "UTC"),
    pa.decimal128(5, 2),
    pa.dictionary(pa.int8(), pa.string()),
    pa.bool_(),
    pa.null(),
    pa.binary(4),
]


@pytest.mark.parametrize("declared", DECLARED, ids=str)
@pytest.mark.parametrize("column", EMPTY, ids=["object", "category", "texts", "floats"])
def test_an_object_or_category_column_without_values_takes_the_declared_type(
    column: pd.Series, declared: pa.DataType
) -> None:
    for part in (column, column[:0]):
        result = conform(as_table(part.to_frame("c")), schema(c=declared))
        assert type_string(result.schema.types[0]) == type_string(declared)
        assert result.column(0).null_count == result.num_rows == len(part)
        assert table1(result) == table1(pa.table({"c": pa.nulls(len(part), declared)}))


def test_a_dictionary_whose_only_value_is_null_has_none() -> None:
    array = pa.DictionaryArray.from_arrays(pa.array([0, 0], pa.int8()), pa.array([None], pa.string()))
    assert type_string(conformed(array, pa.int8()).schema.types[0]) == "i8"


def test_an_empty_bag_takes_the_declared_type() -> None:
    declared = schema(item=pa.struct({"a": pa.int64()}))
    assert conform(bag_table([]), declared).schema.types == [pa.struct({"a": pa.int64()})]
    assert table1(conform(bag_table([]), declared)) != table1(bag_table([]))


WIDENED = [
    ([[None], []], pa.list_(pa.string()), [[None], []]),
    ([[None]], pa.large_list(pa.int8()), [[None]]),
    ([[]], pa.list_view(pa.list_(pa.string())), [[]]),
    ([[[None]]], pa.list_(pa.list_(pa.float32())), [[[None]]]),
    ([{"a": None, "b": 1}], pa.struct({"a": pa.string(), "b": pa.int64()}), [{"a": None, "b": 1}]),
    ([[{"a": None}]], pa.list_(pa.struct({"a": pa.list_(pa.int8())})), [[{"a": None}]]),
    ([D("1.5")], pa.decimal128(10, 2), [D("1.50")]),
    ([D("1.5")], pa.decimal256(60, 2), [D("1.50")]),
    ([D(5)], pa.decimal128(2, 1), [D("5.0")]),
    ([[D("1.5")], [None]], pa.list_(pa.decimal128(10, 2)), [[D("1.50")], [None]]),
    (
        [{"d": D(1), "n": None}],
        pa.struct({"d": pa.decimal128(3, 1), "n": pa.bool_()}),
        [{"d": D("1.0"), "n": None}],
    ),
]


@pytest.mark.parametrize(("rows", "declared", "expected"), WIDENED, ids=lambda value: str(value)[:40])
def test_what_says_less_takes_the_declared_type(
    rows: list[Any], declared: pa.DataType, expected: list[Any]
) -> None:
    result = conformed(pa.array(rows), declared)
    assert type_string(result.schema.types[0]) == type_string(declared)
    assert result.column(0).to_pylist() == expected
    assert table1(result) == table1(pa.table({"c": pa.array(expected, declared)}))


def test_nulls_inside_fixed_lists_maps_views_and_dictionaries() -> None:
    fixed = pa.array([[None, None], None], pa.list_(pa.null(), 2))
    assert table1(conformed(fixed, pa.list_(pa.int8(), 2))) == table1(
        pa.table({"c": pa.array([[None, None], None], pa.list_(pa.int8(), 2))})
    )
    pairs = [[("k", None)], None]
    kind = pa.map_(pa.string(), pa.int8())
    loose = pa.array(pairs, pa.map_(pa.string(), pa.null()))
    assert table1(conformed(loose, kind)) == table1(pa.table({"c": pa.array(pairs, kind)}))
    views = pa.array([[None], None], pa.list_view(pa.null()))
    for declared in (pa.list_(pa.int8()), pa.list_view(pa.int8())):
        assert table1(conformed(views, declared)) == table1(
            pa.table({"c": pa.array([[None], None], declared)})
        )
    decimals = pa.array([D("1.5"), None]).dictionary_encode()
    expected = pa.array([D("1.50"), None], pa.decimal128(9, 2))
    declared = pa.dictionary(pa.int8(), pa.decimal128(9, 2))
    assert table1(conformed(decimals, declared)) == table1(pa.table({"c": expected}))
    assert table1(conformed(decimals, pa.decimal128(9, 2))) == table1(pa.table({"c": expected}))


def test_a_dictionary_inside_a_struct_is_its_values() -> None:
    inner = pa.array([D("1.5"), None]).dictionary_encode()
    array = pa.StructArray.from_arrays([inner, pa.nulls(2)], ["d", "n"])
    declared = pa.struct({"d": pa.decimal128(9, 2), "n": pa.string()})
    expected = pa.array([{"d": D("1.50"), "n": None}, {"d": None, "n": None}], declared)
    assert table1(conformed(array, declared)) == table1(pa.table({"c": expected}))


def test_partitions_that_differ_by_luck_have_one_schema() -> None:
    declared = schema(s=pa.string(), d=pa.decimal128(10, 3))
    frames = [
        pd.DataFrame({"s": ["x"], "d": [D("1.5")]}),
        pd.DataFrame({"s": pd.Series([None], dtype=object), "d": [D("1000.125")]}),
        pd.DataFrame({"s": pd.Series([], dtype=object), "d": pd.Series([], dtype=object)}),
    ]
    types = {tuple(map(type_string, conform(as_table(frame), declared).schema.types)) for frame in frames}
    assert types == {("utf8", "dec(10,3)")}


def test_rows_without_columns_stay() -> None:
    assert conform(pa.table({"a": [1, 2]}).select([]), pa.schema([])).num_rows == 2


DIFFERENT = [
    (pa.array([1]), pa.int32()),
    (pa.array([1], pa.int32()), pa.int64()),
    (pa.array([1]), pa.float64()),
    (pa.array([1.5]), pa.string()),
    (pa.array([None], pa.int8()), pa.string()),
    (pa.array([], pa.int8()), pa.string()),
    (pa.array(["a"]), pa.binary()),
    (pa.array(["1"]), pa.int64()),
    (pa.array(["a"]).dictionary_encode(), pa.int8()),
    (pa.array([1], pa.timestamp("us")), pa.timestamp("ns")),
    (pa.array([1], pa.timestamp("us")), pa.timestamp("us", "UTC")),
    (pa.array([D("1.55")]), pa.decimal128(10, 1)),
    (pa.array([D("100")]), pa.decimal128(4, 2)),
    (pa.array([D("1.5")]), pa.float64()),
    (pa.array([1]), pa.decimal128(5, 0)),
    (pa.array([1]), pa.list_(pa.int64())),
    (pa.array([[1]]), pa.list_(pa.int8())),
    (pa.array([[1]]), pa.list_(pa.int64(), 1)),
    (pa.array([[1]], pa.list_(pa.int64(), 1)), pa.list_(pa.int64())),
    (pa.array([[None]], pa.list_(pa.null(), 1)), pa.list_(pa.int8(), 2)),
    (pa.array([[1]], pa.list_(pa.int8(), 1)), pa.list_(pa.int16(), 1)),
    (pa.array([{"a": 1}]), pa.struct({"b": pa.int64()})),
    (pa.array([{"a": 1, "b": 1}]), pa.struct({"b": pa.int64(), "a": pa.int64()})),
    (pa.array([{"a": None}]), pa.struct({"a": pa.int64(), "b": pa.int64()})),
    (pa.array([{"a": None, "b": 1}]), pa.struct({"a": pa.int64(), "b": pa.string()})),
    (pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int8())), pa.map_(pa.string(), pa.int16())),
    (pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int8())), pa.map_(pa.binary(), pa.int8())),
    (pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int8())), pa.list_(pa.int8())),
    (pa.array([{"a": 1}]), pa.map_(pa.string(), pa.int64())),
]


@pytest.mark.parametrize(
    ("array", "declared"), DIFFERENT, ids=lambda value: str(getattr(value, "type", value))
)
def test_any_other_difference_is_an_error_that_names_its_place(
    array: pa.Array, declared: pa.DataType
) -> None:
    table = pa.table({"fine": array, "c": array})
    with pytest.raises(MalformedError) as caught:
        conform(table, schema(fine=array.type, c=declared), stage="clean", partition=3)
    assert caught.value.reason == "type-differs"
    expected = f"expected {type_string(declared)}, found {type_string(array.type)}"
    assert caught.value.message == f"stage 'clean', partition 3, column 'c': {expected}"
    assert caught.value.remedy


def test_a_value_that_the_declared_decimal_cannot_hold_is_an_error() -> None:
    # Nothing in the type forbids it: decimals are not validated when they are made.
    limbs = np.array([10**5, 0], "i8")
    array = pa.Array.from_buffers(pa.decimal128(2, 0), 1, [None, pa.py_buffer(limbs)])
    with pytest.raises(MalformedError) as caught:
        conformed(array, pa.decimal128(4, 1))
    assert caught.value.reason == "type-differs"


@pytest.mark.parametrize(
    ("names", "declared", "reason", "column"),
    [
        (["a"], ["a", "b"], "missing-column", "b"),
        ([], ["a"], "missing-column", "a"),
        (["a", "b"], ["a"], "undeclared-column", "b"),
        (["a"], [], "undeclared-column", "a"),
        (["a", "c"], ["a", "b"], "missing-column", "b"),
        (["A"], ["a"], "missing-column", "a"),
        (["a", "b", "a"], ["a", "b"], "duplicate-column", "a"),
        (["a", "c", "b"], ["a", "b", "c"], "column-order", "c"),
    ],
)
def test_other_columns_are_an_error(names: list[str], declared: list[str], reason: str, column: str) -> None:
    table = pa.table([pa.array([1])] * len(names), names)
    with pytest.raises(MalformedError) as caught:
        conform(table, pa.schema([(name, pa.int64()) for name in declared]), partition=0)
    assert caught.value.reason == reason
    assert caught.value.message.startswith(f"partition 0, column {column!r}: ")


def test_a_type_without_digest_is_an_error_by_place() -> None:
    with pytest.raises(MalformedError, match="stage 's', column 'c'") as caught:
        conform(pa.table({"c": pa.array([pa.MonthDayNano([1, 2, 3])])}), schema(c=pa.int8()), stage="s")
    assert caught.value.reason == "interval-type"
    with pytest.raises(MalformedError, match=r"^column 'c'"):
        conform(pa.table({"c": [1]}), schema(c=pa.month_day_nano_interval()))


# --------------------------------------------------------------------------------------------------- as text


def test_the_text_of_a_schema_and_back() -> None:
    declared = pa.schema(
        [("a", pa.large_string()), ("é", pa.list_(pa.struct({"x": pa.timestamp("us", "UTC")})))]
    )
    pairs = encode_schema(declared)
    assert pairs == [["a", "utf8"], ["é", 'list(struct("x":ts(us,UTC)))']]
    assert encode_schema(decode_schema(json.loads(json.dumps(pairs)))) == pairs
    assert decode_schema([]) == pa.schema([])


@pytest.mark.parametrize(
    ("pairs", "reason"),
    [
        (None, "schema-text"),
        ({}, "schema-text"),
        ("a", "schema-text"),
        ([["a"]], "schema-text"),
        ([["a", "i8", "i8"]], "schema-text"),
        ([("a", "i8")], "schema-text"),
        ([["a", 1]], "schema-text"),
        ([[1, "i8"]], "schema-text"),
        (["ab"], "schema-text"),
        ([["a", "int8"]], "type-text"),
        ([["a", ""]], "type-text"),
        ([["a", "list(" * 999]], "too-deep"),
        ([["a", "i8"], ["a", "i8"]], "duplicate-column"),
        ([["a", "i8"], ["b", "i8"], ["a", "i16"]], "duplicate-column"),
        ([["\ud800", "i8"]], "schema-text"),
    ],
)
def test_other_texts_are_refused(pairs: object, reason: str) -> None:
    with pytest.raises(MalformedError) as caught:
        decode_schema(pairs)
    assert caught.value.reason == reason


def test_a_zone_that_cannot_be_read_back_is_not_written() -> None:
    with pytest.raises(MalformedError) as caught:
        encode_schema(schema(a=pa.timestamp("us", "no such (zone)")))
    assert caught.value.reason == "type-text"
