"""Canonical JSON: what the vectors do not reach."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provenance.core import canonical
from provenance.errors import MalformedError

ASCII = st.text(st.characters(max_codepoint=127), max_size=8)
LIMIT = canonical.MAX_INTEGER
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-LIMIT, LIMIT) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ASCII, inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(ASCII, VALUES, max_size=5))
def test_what_is_encoded_decodes_to_the_same(value):
    data = canonical.encode(value)
    assert canonical.decode(data) == value
    assert json.loads(data) == value


@given(st.dictionaries(ASCII, VALUES, max_size=5), st.data())
def test_no_other_bytes_decode_to_the_same(value, data):
    text = bytearray(canonical.encode(value))
    at = data.draw(st.integers(0, len(text) - 1))
    text[at] ^= data.draw(st.integers(1, 255))
    try:
        other = canonical.decode(bytes(text))
    except MalformedError:
        return
    assert canonical.encode(other) == bytes(text)
    assert other != value


class Text(str):
    __slots__ = ()


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ([], "not-an-object"),
        (None, "not-an-object"),
        ({"a": 1.0}, "not-an-integer"),
        ({"a": float("nan")}, "not-an-integer"),
        ({"a": (1, 2)}, "not-an-integer"),
        ({"a": {1}}, "not-an-integer"),
        ({"a": b""}, "not-an-integer"),
        ({"a": Text("x")}, "not-an-integer"),
        ({"a": 2**53}, "integer-too-large"),
        ({"a": -(2**53)}, "integer-too-large"),
        ({"é": 1}, "key-not-ascii"),
        ({1: 1}, "key-not-ascii"),
        ({"a": [{2: 1}]}, "key-not-ascii"),
        ({"a": "\ud800"}, "lone-surrogate"),
        ({"a": "x" * 65_528}, "too-long"),
    ],
)
def test_what_is_not_written(value, reason):
    with pytest.raises(MalformedError) as caught:
        canonical.encode(value)
    assert caught.value.reason == reason


def test_depth_counts_the_outermost_object():
    value = {}
    for _ in range(63):
        value = {"a": value}
    assert canonical.decode(canonical.encode(value)) == value
    with pytest.raises(MalformedError) as caught:
        canonical.encode({"a": value})
    assert caught.value.reason == "too-deep"


def test_the_longest_record():
    assert len(canonical.encode({"a": "x" * 65_527})) == canonical.MAX_BYTES == 65_535


def test_many_brackets_that_are_not_deep():
    value = {"a": [[] for _ in range(200)], "t": "[" * 70}
    assert canonical.decode(canonical.encode(value)) == value
