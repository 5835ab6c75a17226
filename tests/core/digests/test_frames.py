"""How pandas frames become tables: the rules of spec/digests.md, "pandas"."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from provenance.core.digests import as_table, frames, table1
from provenance.errors import ConfigError, MalformedError


def same(frame: Any, **columns: Any) -> bool:
    return table1(frame) == table1(pa.table(columns))


def test_numpy_nan_is_null_also_inside_lists() -> None:
    frame = pd.DataFrame({"f": [1.0, np.nan], "o": [[1.0, np.nan], None], "s": ["a", np.nan]})
    assert same(frame, f=[1.0, None], o=[[1.0, None], None], s=["a", None])


def test_arrow_backed_columns_keep_their_nan() -> None:
    array = pa.array([1.0, np.nan, None])
    frame = pd.DataFrame({"f": pd.Series(array, dtype=pd.ArrowDtype(pa.float64()))})
    assert table1(frame) == table1(pa.table({"f": array}))
    assert table1(frame) != table1(pa.table({"f": [1.0, None, None]}))


@pytest.mark.parametrize(
    "index",
    [
        pd.RangeIndex(5, 8),
        pd.Index([3, 1, 2]),
        pd.Index(["x", "y", "z"]),
        pd.DatetimeIndex(["2020-01-01"] * 3),
        pd.MultiIndex.from_tuples([(1, 2), (3, 4), (5, 6)]),
        pd.CategoricalIndex(["a", "b", "a"]),
    ],
    ids=lambda index: type(index).__name__,
)
def test_an_index_without_a_name_does_not_count(index: pd.Index) -> None:
    assert same(pd.DataFrame({"a": [1, 2, 3]}, index=index), a=[1, 2, 3])


def test_named_levels_lead_the_columns() -> None:
    one = pd.DataFrame({"a": [1, 2]}, index=pd.Index(["x", "y"], name="i"))
    assert same(one, i=["x", "y"], a=[1, 2])
    assert same(pd.DataFrame({"a": [1, 2]}, index=pd.RangeIndex(2, name="i")), i=[0, 1], a=[1, 2])
    assert same(pd.DataFrame({"a": [1]}, index=pd.Index([7], name="")), **{"": [7], "a": [1]})
    two = pd.DataFrame({"a": [1, 2]}, index=pd.MultiIndex.from_tuples([(1, "x"), (2, "y")], names=["i", "j"]))
    assert same(two, i=[1, 2], j=["x", "y"], a=[1, 2])
    half = two.rename_axis(["i", None])
    assert as_table(half).column_names == ["i", "level_1", "a"]
    assert as_table(two["a"]).column_names == ["i", "j", "a"]


def test_a_series_is_a_frame_of_one_column() -> None:
    assert same(pd.Series([1, 2], name="n"), n=[1, 2])
    for name in (None, "", 0, pd.NA):
        assert same(pd.Series([1, 2], name=name), **{"0": [1, 2]})
    assert as_table(pd.Series([1], name=5)).column_names == ["5"]


@pytest.mark.parametrize("dtype", ["i2", "u4", "i8", "f4", "f8"])
def test_big_endian_columns_are_swapped(dtype: str) -> None:
    values = np.array([1, 2, 3], dtype)
    frame = pd.DataFrame(
        {"a": values.astype(f">{dtype}"), "b": ["x", "y", "z"], "c": values.astype(f">{dtype}")}
    )
    before = frame.copy()
    assert same(frame, a=values, b=["x", "y", "z"], c=values)
    pd.testing.assert_frame_equal(frame, before)
    assert list(frame.dtypes) == list(before.dtypes)


def test_a_big_endian_index_level_is_swapped() -> None:
    frame = pd.DataFrame({"a": [1, 2]}, index=pd.Index(np.array([5, 6], ">i8"), name="i"))
    assert same(frame, i=[5, 6], a=[1, 2])


def test_a_category_counts_as_its_values() -> None:
    frame = pd.DataFrame({"c": pd.Categorical(["x", None, "y", "x"], ["y", "x", "unused"])})
    assert same(frame, c=["x", None, "y", "x"])


def test_types_of_pandas_and_their_arrow_types() -> None:
    frame = pd.DataFrame(
        {
            "i": pd.array([1, None], "Int16"),
            "b": pd.array([True, None], "boolean"),
            "s": pd.array(["x", None], "string"),
            "d": [dt.date(2020, 1, 1), None],
            "n": [decimal.Decimal("1.50"), None],
            "t": pd.to_datetime(["2020-01-01", None]).as_unit("ns").tz_localize("UTC"),
            "e": pd.to_timedelta([1, None], "s").as_unit("ms"),
            "y": [b"x", None],
            "l": [np.array([1, 2], "i4"), None],
            "m": [{"k": 1}, None],
        }
    )
    types = [column.type for column in table1(frame).columns]
    assert types == [
        "i16", "bool", "utf8", "date32", "dec(3,2)", "ts(ns,UTC)", "dur(ms)", "bin", "list(i32)",
        'struct("k":i64)',
    ]  # fmt: skip


def test_an_empty_object_column_is_null() -> None:
    frame = pd.DataFrame({"o": pd.Series([None, np.nan], dtype=object)})
    assert same(frame, o=pa.nulls(2))


def test_names_are_texts() -> None:
    frame = pd.DataFrame([[1, 2, 3]], columns=[0, None, ("a", 1)])
    assert as_table(frame).column_names == ["0", "None", "('a', '1')"]


def test_zero_rows_and_zero_columns() -> None:
    assert table1(pd.DataFrame()).rows == 0
    assert table1(pd.DataFrame(index=range(3))).rows == as_table(pd.DataFrame(index=range(3))).num_rows
    assert same(pd.DataFrame({"a": pd.Series([], dtype="i8")}), a=pa.array([], pa.int64()))


def test_a_frame_is_left_as_it_was() -> None:
    frame = pd.DataFrame({"a": [1.0, np.nan]}, index=pd.Index([1, 2], name="i"))
    before = frame.copy()
    table1(frame)
    pd.testing.assert_frame_equal(frame, before)


# --------------------------------------------------------------------------------------------------- refused


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame([[1, 2]], columns=["a", "a"]),
        pd.DataFrame([[1, 2]], columns=["1", 1]),
        pd.DataFrame({"i": [1]}, index=pd.Index([1], name="i")),
        pd.DataFrame({"0": [1]}, index=pd.Index([1], name=0)),
    ],
)
def test_a_name_for_two_columns_is_refused(frame: pd.DataFrame) -> None:
    with pytest.raises(MalformedError) as caught:
        table1(frame)
    assert caught.value.reason == "duplicate-column"
    assert caught.value.remedy


def test_names_that_become_one_in_arrow_are_refused() -> None:
    with pytest.raises(MalformedError) as caught:
        table1(pd.DataFrame([[1, 2]], columns=["a", b"a"]))
    assert caught.value.reason == "duplicate-column"


@pytest.mark.parametrize(
    "values",
    [
        [1, "a"],
        [object(), None],
        [2**70, 1],
        [[1], "a"],
        [{"k": 1}, {"k": "x"}],
        [1 + 2j, None],
        [np.zeros(2, ">i4"), None],
        [np.zeros((2, 2)), None],
    ],
    ids=["mixed", "object", "huge", "list-or-text", "dicts", "complex", "big-endian", "two-dimensional"],
)
def test_objects_that_arrow_cannot_type_are_refused_by_column(values: list[Any]) -> None:
    frame = pd.DataFrame({"fine": [1, 2], "odd": pd.Series(values, dtype=object), "also": [1, 2]})
    with pytest.raises(MalformedError, match="column 'odd'") as caught:
        table1(frame)
    assert caught.value.reason == "python-object"
    assert caught.value.remedy


def test_complex_and_sparse_columns_are_refused_by_column() -> None:
    for column in (np.array([1j, 2j]), pd.arrays.SparseArray([0, 1])):
        with pytest.raises(MalformedError, match="column 'odd'"):
            table1(pd.DataFrame({"fine": [1, 2], "odd": column}))


def test_extension_types_of_pandas_are_refused() -> None:
    for column in (pd.period_range("2020", periods=2, freq="D"), pd.interval_range(0, 2)):
        with pytest.raises(MalformedError, match="column 'odd'") as caught:
            table1(pd.DataFrame({"odd": column}))
        assert caught.value.reason == "extension-type"


def test_an_error_that_no_column_has_alone_is_still_told(monkeypatch: Any) -> None:
    real = pa.Table.from_pandas

    def fails_on_all(frame: pd.DataFrame, **options: Any) -> pa.Table:
        if frame.shape[1] > 1:
            raise pa.ArrowInvalid
        return real(frame, **options)

    class Fake:
        from_pandas = staticmethod(fails_on_all)

    monkeypatch.setattr(frames.pa, "Table", type("Table", (Fake,), {}))
    with pytest.raises(MalformedError, match="ArrowInvalid"):
        frames._frame_table(pd.DataFrame({"a": [1], "b": [2]}))


def test_a_table_is_not_asked_of_pandas_when_there_is_none(monkeypatch: Any) -> None:
    frame = pd.DataFrame({"a": [1]})
    monkeypatch.delitem(frames.sys.modules, "pandas")
    with pytest.raises(ConfigError, match="DataFrame is no table"):
        as_table(frame)
