"""Parameters in a record: every value comes back as it went in, and what has no form is refused by name."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import zoneinfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from provenance.core import canonical
from provenance.core.parameters import decode_parameters, encode_parameters
from provenance.errors import ConfigError, MalformedError

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.binary(max_size=50)
    | st.decimals(allow_nan=False, allow_infinity=False)
    | st.datetimes().map(lambda time: time.replace(fold=0))
    | st.datetimes(timezones=st.just(dt.UTC)).map(lambda time: time.replace(fold=0))
    | st.dates()
    | st.timedeltas()
    | st.complex_numbers(allow_nan=False)
)
keys = st.text(st.characters(exclude_categories=["Cs"])) | st.integers() | st.booleans() | st.none()
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(keys, inner, max_size=4)
    ),
    max_leaves=20,
)


def same(one: object, other: object) -> bool:
    """Equality that tells types and the signs of zeros apart."""
    return repr(one) == repr(other)


@given(values)
def test_what_is_written_is_read_back(value: object) -> None:
    written = encode_parameters({"value": value})
    canonical.encode(written)
    assert same(decode_parameters(written)["value"], value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.5, {"$float": "1.5"}),
        (1.0, {"$float": "1.0"}),
        (-0.0, {"$float": "-0.0"}),
        (math.inf, {"$float": "inf"}),
        (-math.inf, {"$float": "-inf"}),
        (math.nan, {"$float": "nan"}),
        (2**53 - 1, 2**53 - 1),
        (2**53, {"$int": "9007199254740992"}),
        (np.float64(0.1), {"$float": "0.1"}),
        (True, True),
        (None, None),
        ((1, [2]), {"$tuple": [1, [2]]}),
        ({"a": 1}, {"a": 1}),
        ({"$a": 1}, {"$dict": [["$a", 1]]}),
        ({"é": 1}, {"$dict": [["é", 1]]}),
        ({1: 2}, {"$dict": [[1, 2]]}),
        (b"\x00\xff", {"$bytes": "AP8="}),
        (decimal.Decimal("1.50"), {"$decimal": "1.50"}),
        (dt.date(2026, 1, 2), {"$date": "2026-01-02"}),
    ],
)
def test_forms(value: object, text: object) -> None:
    written = encode_parameters({"value": value})["value"]
    assert written == text
    assert type(written) is type(text)


def test_nan_comes_back() -> None:
    assert math.isnan(decode_parameters(encode_parameters({"value": math.nan}))["value"])


LOCAL = dt.datetime(2026, 1, 2, tzinfo=zoneinfo.ZoneInfo("Europe/Rome"))


class Odd:
    pass


@pytest.mark.parametrize(
    "value",
    [
        Odd(),
        np.arange(3),
        np.float32(1),
        np.int64(1),
        {1, 2},
        object,
        len,
        [Odd()],
        {"a": Odd()},
        {Odd(): 1},
        LOCAL,
        LOCAL.replace(tzinfo=None, fold=1),
    ],
)
def test_what_no_record_holds_is_refused_by_name(value: object) -> None:
    with pytest.raises(ConfigError, match="'threshold'") as refused:
        encode_parameters({"threshold": value})
    assert refused.value.reason == "parameter-type"
    assert refused.value.remedy


def test_text_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="not valid Unicode"):
        encode_parameters({"name": "\ud800"})


def test_depth_is_bounded() -> None:
    value: list[object] = []
    value.append(value)
    with pytest.raises(ConfigError) as refused:
        encode_parameters({"value": value})
    assert refused.value.reason == "parameter-depth"


@pytest.mark.parametrize("name", ["a b", "é", "", "1"])
def test_names_are_identifiers(name: str) -> None:
    with pytest.raises(ConfigError) as refused:
        encode_parameters({name: 1})
    assert refused.value.reason == "parameter-name"


@pytest.mark.parametrize(
    "written",
    [
        {"$float": "one"},
        {"$float": 1.0, "more": 1},
        {"$float": None},
        {"$unknown": 1},
        {"$int": "1" * 5000},
        {"$int": "x"},
        {"$bytes": "A"},
        {"$bytes": 1},
        {"$decimal": "x"},
        {"$date": "2026-13-01"},
        {"$datetime": 1},
        {"$timedelta": [1, 2, 3, 4, 5, 6, 7, 8]},
        {"$tuple": 1},
        {"$dict": [1]},
        {"$dict": [[[], 1]]},
        {"$complex": ["1"]},
        [{"$float": "x"}],
        {"a": {"$float": "x"}},
    ],
)
def test_what_is_never_written_is_malformed(written: object) -> None:
    with pytest.raises(MalformedError) as refused:
        decode_parameters({"value": written})
    assert refused.value.reason == "parameter-text"
