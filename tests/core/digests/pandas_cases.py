"""Frames whose digests must be equal on every pandas; run as a script it prints them as JSON.

Times carry their unit, since pandas 2 and 3 choose different ones where none is given.
"""

from __future__ import annotations

import datetime as dt
import decimal
import json
import sys
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from provenance.core.digests import as_table, conform, declare_schema, encode_schema, table1
from provenance.errors import ProvenanceError

D = decimal.Decimal
TIMES = pd.to_datetime(["2020-02-29T12:00", None, "1969-12-31T00:00"])
DICTIONARY = pa.dictionary(pa.int8(), pa.string())
THREE: dict[str, Any] = {
    "ints": [1, 2, 3],
    "floats": [1.5, np.nan, -0.0],
    "bools": [True, False, True],
    "objects-bool": pd.Series([True, None, False], dtype=object),
    "texts": ["a", None, "é"],
    "texts-nan": pd.Series(["a", np.nan, ""], dtype=object),
    "texts-str": pd.Series(["a", None, ""], dtype="string"),
    "texts-python": pd.Series(["a", None, ""], dtype="string[python]"),
    "texts-arrow": pd.Series(["a", None, ""], dtype="string[pyarrow]"),
    "bytes": [b"a", None, b""],
    "mixed-null": pd.Series([None, np.nan, pd.NA], dtype=object),
    "nat": pd.Series([pd.NaT, None, pd.NaT], dtype=object),
    "dates": [dt.date(2020, 1, 1), None, dt.date(1, 1, 1)],
    "times": [dt.time(1, 2, 3, 4), None, dt.time()],
    "datetimes-objects": pd.Series([dt.datetime(2020, 1, 1, tzinfo=dt.UTC), None, None], dtype=object),
    "decimals": [D("1.50"), None, D("-100")],
    "lists": [[1, 2], None, []],
    "lists-nan": [[1.0, np.nan], None, []],
    "arrays": [np.array([1, 2], "i2"), None, np.array([], "i2")],
    "nested": [[["a"], None], [], None],
    "dicts": [{"a": 1, "b": "x"}, None, {"b": None}],
    "lists-of-dicts": [[{"a": np.nan}], [], None],
    "int16": pd.array([1, None, 3], "Int16"),
    "uint64": pd.array([1, None, 2**64 - 1], "UInt64"),
    "float32": pd.array([1.5, None, 2.5], "Float32"),
    "boolean": pd.array([True, None, False], "boolean"),
    "half": np.array([1, 2, 3], "f2"),
    "big-endian": np.array([1, 2, 3], ">i4"),
    "big-endian-float": np.array([1, np.nan, 3], ">f8"),
    "category": pd.Categorical(["x", None, "x"], ["y", "x"]),
    "category-ints": pd.Categorical([3, None, 1]),
    "category-ordered": pd.Categorical(["b", "a", "b"], ["b", "a"], ordered=True),
    "category-times": pd.Categorical(TIMES.as_unit("ns")),
    "category-empty": pd.Series([None] * 3, dtype=pd.CategoricalDtype(["x"])),
    "category-nothing": pd.Categorical([None, None, None]),
    "ns": TIMES.as_unit("ns"),
    "us": TIMES.as_unit("us"),
    "s": TIMES.as_unit("s"),
    "ns-utc": TIMES.as_unit("ns").tz_localize("UTC"),
    "us-paris": TIMES.as_unit("us").tz_localize("Europe/Paris"),
    "ms-offset": TIMES.as_unit("ms").tz_localize(dt.timezone(dt.timedelta(hours=-3))),
    "utc-python": TIMES.as_unit("us").tz_localize(dt.timezone.utc),  # noqa: UP017 - the offset is the case
    "durations": pd.to_timedelta([1, None, -1], "s").as_unit("ms"),
    "arrow-floats": pd.Series([1.5, None, 2.5], dtype=pd.ArrowDtype(pa.float32())),
    "arrow-nan": pd.Series(pd.arrays.ArrowExtensionArray(pa.array([np.nan, None, 1.0]))),
    "arrow-list": pd.Series([[1], None, []], dtype=pd.ArrowDtype(pa.list_(pa.int8()))),
    "arrow-dictionary": pd.Series(["a", None, "a"], dtype=pd.ArrowDtype(DICTIONARY)),
}  # fmt: skip
INDEXES: dict[str, Any] = {
    "range": pd.RangeIndex(2, 8, 2),
    "range-named": pd.RangeIndex(2, 8, 2, name="i"),
    "ints-named": pd.Index([3, 1, 2], name="i"),
    "texts": pd.Index(["a", "b", "c"]),
    "texts-named": pd.Index(["a", None, "c"], name="i", dtype=object),
    "times-named": TIMES.as_unit("us").rename("i"),
    "category-named": pd.CategoricalIndex(["a", "b", "a"], name="i"),
    "multi": pd.MultiIndex.from_tuples([(1, "a"), (2, "b"), (3, "c")]),
    "multi-named": pd.MultiIndex.from_tuples([(1, "a"), (2, "b"), (3, "c")], names=["i", "j"]),
    "multi-half": pd.MultiIndex.from_tuples([(1, "a"), (2, "b"), (3, "c")], names=["i", None]),
    "big-endian-named": pd.Index(np.array([1, 2, 3], ">i8"), name="i"),
    "name-taken": pd.Index([1, 2, 3], name="c"),
    "number-for-a-name": pd.Index([1, 2, 3], name=7),
}
COLUMNS: dict[str, Any] = {
    "numbers": [1, 2],
    "tuples": pd.MultiIndex.from_tuples([("a", 1), ("b", 2)]),
    "category": pd.CategoricalIndex(["a", "b"]),
    "times": pd.DatetimeIndex(["2020-01-01", "2020-01-02"]).as_unit("ns"),
    "twice": ["a", "a"],
    "twice-as-text": [1, "1"],
    "floats": [1.0, 2.5],
    "bools": [True, False],
    "named": pd.Index(["a", "b"], name="letters"),
}
REFUSED: dict[str, Any] = {
    "refused-mixed": pd.Series([1, "a", None], dtype=object),
    "refused-object": [object(), None, None],
    "refused-complex": np.array([1j, 2, 3]),
    "refused-period": pd.period_range("2020", periods=3, freq="D"),
    "refused-interval": pd.interval_range(0, 3),
    "refused-sparse": pd.arrays.SparseArray([0, 0, 1]),
    "refused-big-endian-inside": [np.zeros(2, ">i4"), None, None],
}


def outcome(frame: Any) -> list[Any]:
    """The digest and the types of a frame, or why it has none."""
    try:
        digest = table1(frame)
    except ProvenanceError as error:
        return [getattr(error, "reason", type(error).__name__)]
    return [str(digest), [[column.name, column.type] for column in digest.columns]]


def outcomes() -> dict[str, list[Any]]:
    """Every case by name."""
    found: dict[str, list[Any]] = {}
    for name, values in (THREE | REFUSED).items():
        frame = pd.DataFrame({"c": values})
        found[name] = outcome(frame)
        found[f"series-{name}"] = outcome(frame["c"])
        if name != "texts":  # without a value, str of pandas 3 is a text and object of pandas 2 is nothing
            found[f"no-rows-{name}"] = outcome(frame[:0])
    for name, index in INDEXES.items():
        found[f"index-{name}"] = outcome(pd.DataFrame({"c": [1, 2, 3]}, index=index))
    for name, columns in COLUMNS.items():
        found[f"columns-{name}"] = outcome(pd.DataFrame([[1, 2]], columns=columns))
        indexed = pd.DataFrame([[1, 2]], columns=columns, index=pd.Index([5], name="i"))
        found[f"columns-indexed-{name}"] = outcome(indexed)
    found["empty"] = outcome(pd.DataFrame())
    found["rows-only"] = outcome(pd.DataFrame(index=range(3)))
    found["series-without-name"] = outcome(pd.Series([1, 2]))
    found["all"] = outcome(pd.DataFrame(THREE))
    meta = pd.DataFrame({name: pd.Series(values)[:0] for name, values in THREE.items()})
    declared = declare_schema(meta, {"lists": pa.list_(pa.int64())})
    found["declared"] = encode_schema(declared)
    some = ["texts", "mixed-null", "lists", "category-nothing", "ints"]
    declared = pa.schema([declared.field(name) for name in some])
    found["conformed"] = outcome(
        conform(as_table(pd.DataFrame({name: THREE[name] for name in some})), declared)
    )
    return found


if __name__ == "__main__":
    json.dump({"pandas": pd.__version__, "outcomes": outcomes()}, sys.stdout)
