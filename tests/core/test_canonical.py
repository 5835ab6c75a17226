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


def test_depth_is_that_of_the_deepest_place_whatever_stands_beside_it():
    # More brackets than the limit, so that each byte is looked at.
    value = {}
    for _ in range(62):
        value = {"a": value}
    wide = {"a": value, "b": [[[]], {}] * 40}
    assert canonical.decode(canonical.encode(wide)) == wide
    data = b'{"a":' + canonical.encode(wide) + b"}"
    assert canonical.decode(data.replace(b"{}", b"0")) == {
        "a": json.loads(canonical.encode(wide).replace(b"{}", b"0"))
    }
    with pytest.raises(MalformedError) as caught:
        canonical.decode(data)
    assert caught.value.reason == "too-deep"


@pytest.mark.parametrize("one", [b"[", b'{"a":', b"[1,", b"[[],", b'["]",', b'{"a":{},"b":', b"[X"])
def test_the_parser_that_recurses_never_sees_what_is_deep(one):
    count = canonical.MAX_BYTES // len(one)  # the parser would give up, by an error that is not ours
    with pytest.raises(MalformedError) as caught:
        canonical.decode(one * count)
    assert caught.value.reason == "too-deep"


def test_what_is_no_bracket_is_not_counted():
    with pytest.raises(MalformedError) as caught:
        canonical.decode(b'{"a":[' + b"[]," * 70 + b"X" * 70 + b"]}")
    assert caught.value.reason == "not-json"
