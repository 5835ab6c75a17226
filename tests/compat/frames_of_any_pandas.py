"""Prints the digests of frames of every kind that pandas has; run under several versions of it."""

from __future__ import annotations

import json
import sys
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa

import provenance

warnings.simplefilter("ignore")  # what one version deprecates is not the matter here


def frames() -> dict[str, pd.DataFrame]:
    """By what is in them."""
    texts = ["a", "", "naïve", "声", "a\nb"]
    times = pd.to_datetime(
        ["2026-01-01", "1969-12-31T23:59:59.999999999", None, "2262-04-11", "2000-02-29"], format="ISO8601"
    )
    columns = {
        "objects of text": pd.Series([*texts[:4], None], dtype=object),
        "text": pd.Series(texts),
        "string type": pd.Series([*texts[:4], pd.NA], dtype="string"),
        "text in Arrow": pd.Series(texts, dtype=pd.ArrowDtype(pa.string())),
        "large text in Arrow": pd.Series(texts, dtype=pd.ArrowDtype(pa.large_string())),
        "bytes": pd.Series([b"", b"\x00", b"\xff", None, b"abc"], dtype=object),
        "bools": pd.Series([True, False, True, True, False]),
        "nullable bools": pd.Series([True, False, None, True, False], dtype="boolean"),
        "ints": pd.Series([1, -1, 0, 2**62, -(2**63)]),
        "nullable ints": pd.Series([1, -1, None, 5, 7], dtype="Int32"),
        "unsigned": pd.Series([0, 1, 2, 3, 255], dtype="uint8"),
        "floats": pd.Series([0.0, -0.0, 1.5, np.inf, -np.inf]),
        "half floats": pd.Series([0.0, 1.0, 2.0, 3.0, 4.0], dtype="float32"),
        "nullable floats": pd.Series([0.5, None, 1.5, 2.5, 3.5], dtype="Float64"),
        "categories of text": pd.Series(pd.Categorical(["b", "a", "b", "a", "c"])),
        "ordered categories": pd.Series(pd.Categorical(["x", "y", "x", "y", "x"], ["y", "x"], ordered=True)),
        "nanoseconds": pd.Series(times).astype("datetime64[ns]"),
        "microseconds": pd.Series(times[[0, 3, 4]]).astype("datetime64[us]"),
        "zoned": pd.Series(times[[0, 2, 3, 4]]).astype("datetime64[ns]").dt.tz_localize("UTC"),
        "elsewhere": pd.Series(times[[0, 4]]).astype("datetime64[ns]").dt.tz_localize("Europe/Rome"),
        "durations": pd.Series(pd.to_timedelta([0, 1, -1, 10**15, None], unit="ns")).astype(
            "timedelta64[ns]"
        ),
        "lists in Arrow": pd.Series([[1, 2], [], None], dtype=pd.ArrowDtype(pa.list_(pa.int32()))),
    }
    made = {name: pd.DataFrame({"c": column}) for name, column in columns.items()}
    made["no rows"] = pd.DataFrame({"a": pd.Series([], dtype="int64"), "b": pd.Series([], dtype="string")})
    made["an index with a name"] = pd.DataFrame({"v": [1, 2]}, index=pd.Index([5, 6], name="key"))
    made["an index of text"] = pd.DataFrame({"v": [1, 2]}, index=pd.Index(["x", "y"], name="key"))
    return made


def digest(frame: pd.DataFrame) -> str:
    """The digest, or why there is none."""
    try:
        return str(provenance.digest(frame))
    except provenance.ProvenanceError as error:
        return f"refused: {error.reason}"


if __name__ == "__main__":
    print(json.dumps({"pandas": pd.__version__, **{name: digest(frame) for name, frame in frames().items()}}))
    sys.exit(0)
