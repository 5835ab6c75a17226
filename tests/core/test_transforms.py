"""Who a transform is: what changes its digests, and what must not."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import re
from typing import Any

import numpy as np
import pandas as pd
import pytest

from provenance.core.transforms import named_digest, syntax_digest, value_digest
from provenance.errors import ConfigError, MalformedError

SOURCE = '''
def clean(frame, limit=3):
    """Drop what is small."""
    # the limit is inclusive
    kept = frame[frame["x"] >= limit]

    return kept.assign(y=kept["x"] * 2)
'''


@pytest.mark.parametrize(
    "other",
    [
        SOURCE.replace('    """Drop what is small."""\n', ""),
        SOURCE.replace("Drop what is small", "Keep what is large"),
        SOURCE.replace("    # the limit is inclusive\n", ""),
        SOURCE.replace("\n\n    return", "\n    return"),
        SOURCE.replace('"x"', "'x'"),
        SOURCE.replace('["x"] >= limit', '[ "x" ]>=limit'),
        SOURCE.replace('kept["x"] * 2)', '(kept["x"] * 2),\n    )'),
        SOURCE.replace("\n", "\r\n"),
    ],
)
def test_what_does_not_run_does_not_count(other: str) -> None:
    assert syntax_digest(other) == syntax_digest(SOURCE)


@pytest.mark.parametrize(
    "other",
    [
        SOURCE.replace("* 2", "* 3"),
        SOURCE.replace("* 2", "* 2.0"),
        SOURCE.replace(">=", ">"),
        SOURCE.replace("limit=3", "limit=4"),
        SOURCE.replace("limit=3", "*, limit=3"),
        SOURCE.replace('"x"', '"z"'),
        SOURCE.replace('"x"', 'b"x"'),
        SOURCE.replace("def clean", "async def clean"),
        SOURCE.replace("def clean", "def cleaner"),
        SOURCE.replace("    return", "    'a string that is no docstring'\n    return"),
        SOURCE.replace("\ndef", "\n@cached\ndef"),
    ],
)
def test_what_runs_counts(other: str) -> None:
    assert syntax_digest(other) != syntax_digest(SOURCE)


def test_an_empty_body_behind_a_docstring_is_that_of_nothing() -> None:
    assert syntax_digest('"""Doc."""') == syntax_digest("") == syntax_digest("# nothing")
    assert syntax_digest("class A:\n  'doc'\n  x = 1") == syntax_digest("class A:\n  x = 1")


def test_the_digest_stays_for_ever() -> None:
    assert syntax_digest("def f(x):\n    return x + 1").hex() == (
        "5be1e7dcb2c86feeff958a9c73f276fda1ad1eb0d3bda09ed23efdc2347fefec"
    )


@pytest.mark.parametrize("text", ["def", "\0", "return 1 +", "(" * 300])
def test_what_is_no_python_is_malformed(text: str) -> None:
    with pytest.raises(MalformedError) as refused:
        syntax_digest(text)
    assert refused.value.reason == "source-text"


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


DIFFERENT: list[Any] = [
    None, ..., True, False, 0, 1, -1, 2**80, 0.0, -0.0, 1.0, 1j, "1", b"1", bytearray(b"1"), "", b"",
    [], (), [1], (1,), [[1]], [1, 2], [2, 1], {}, {1}, frozenset({1}), {1: 2}, {2: 1}, {"a": [1]},
    decimal.Decimal(1), dt.date(2026, 1, 1), dt.datetime(2026, 1, 1), dt.time(1), dt.timedelta(1),  # noqa: DTZ001
    range(1), range(2), slice(1), re.compile("1"), re.compile("1", re.IGNORECASE), re.compile(b"1"),
    Colour.RED, Colour.BLUE, np.arange(3), np.arange(3.0), np.arange(4), np.array([[0, 1, 2]]), np.float32(1),
    np.array(["a", "b"]), np.array(["ab"]), np.dtype("f4"), np.dtype("f8"), pd.DataFrame({"a": [1]}),
    pd.DataFrame({"b": [1]}), pd.Series([1], name="a"),
]  # fmt: skip


def test_different_values_have_different_digests() -> None:
    found = [value_digest(value) for value in DIFFERENT[:-1]]
    assert len(set(found)) == len(found)
    assert value_digest(DIFFERENT[-1]) == value_digest(pd.DataFrame({"a": [1]}))  # a series is a frame


def test_the_order_of_sets_and_dictionaries_does_not_count() -> None:
    assert value_digest({"a": 1, "b": 2}) == value_digest({"b": 2, "a": 1})
    assert value_digest({"x", "y", "z"}) == value_digest({"z", "y", "x"})
    assert value_digest(float("nan")) == value_digest(-float("nan"))


def test_what_has_no_digest_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"builtins\.object") as refused:
        value_digest([object()])
    assert refused.value.reason == "captured-value"


def test_others_may_know_more() -> None:
    assert value_digest([len], lambda value: value.__name__.encode()) == named_digest("list", b"len")


def test_depth_is_bounded() -> None:
    value: list[object] = []
    value.append(value)
    with pytest.raises(ConfigError) as refused:
        value_digest(value)
    assert refused.value.reason == "captured-depth"


def test_parts_cannot_be_moved_between_each_other() -> None:
    assert named_digest("a", "bc", "d") != named_digest("a", "b", "cd") != named_digest("ab", "c", "d")
