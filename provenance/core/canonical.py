"""Canonical JSON: the one encoder and the one decoder of everything that is hashed as JSON.

RFC 8785 with limits that keep every encoder in agreement (`spec/records.md`, "Canonical"): keys are ASCII,
numbers are integers within ±(2^53-1),
text is UTF-8 as it came, depth at most 64, at most 65,535 bytes. The decoder accepts exactly the bytes that
the encoder writes: it decodes, encodes
again, and compares.
"""

from __future__ import annotations

import json
import re
from typing import Any

from provenance.errors import MalformedError

__all__ = ["MAX_BYTES", "MAX_DEPTH", "MAX_INTEGER", "JSONObject", "JSONValue", "decode", "encode"]

MAX_BYTES = 65_535
MAX_DEPTH = 64
MAX_INTEGER = 2**53 - 1

# What a record is made of. Recursive aliases are not worth their price to mypy's readers: the encoder checks
# at run time.
JSONValue = Any
JSONObject = dict[str, JSONValue]

_MAX_DIGITS = 17  # "-9007199254740991"
_STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_write = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=True, check_circular=False
).encode


def encode(value: JSONObject) -> bytes:
    """The canonical bytes of an object.

    Raises:
        MalformedError: a value outside the limits; ``reason`` says which.
    """
    if type(value) is not dict:
        raise MalformedError(
            f"record: expected a JSON object, found {type(value).__name__}", reason="not-an-object"
        )
    _check(value, 1)
    try:
        data = _write(value).encode()
    except UnicodeEncodeError as error:
        raise MalformedError(
            "record: a lone surrogate cannot be written as UTF-8", reason="lone-surrogate"
        ) from error
    if len(data) > MAX_BYTES:
        raise MalformedError(f"record: {len(data)} bytes, expected at most {MAX_BYTES}", reason="too-long")
    return data


def decode(data: bytes) -> JSONObject:
    """The object that canonical bytes stand for; anything but canonical bytes is refused.

    Raises:
        MalformedError: ``reason`` is one of ``too-long``, ``too-deep``, ``not-utf-8``, ``not-json``,
            ``not-an-object``, ``duplicate-key``,
            ``key-not-ascii``, ``not-an-integer``, ``integer-too-large``, ``lone-surrogate``,
            ``not-canonical``.
    """
    if len(data) > MAX_BYTES:
        raise MalformedError(f"record: {len(data)} bytes, expected at most {MAX_BYTES}", reason="too-long")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise MalformedError(f"record: not UTF-8 at byte {error.start}", reason="not-utf-8") from error
    _check_depth(data)
    try:
        value = _decoder.decode(text)
    except json.JSONDecodeError as error:
        raise MalformedError(
            f"record: not JSON: {error.msg} at character {error.pos}", reason="not-json"
        ) from error
    if encode(value) != data:
        raise MalformedError(
            "record: valid JSON, but not in canonical form (RFC 8785)", reason="not-canonical"
        )
    return value  # type: ignore[no-any-return]


def _check(value: JSONValue, depth: int) -> None:
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return
    if kind is int:
        if not -MAX_INTEGER <= value <= MAX_INTEGER:
            raise MalformedError("record: an integer outside ±(2^53-1)", reason="integer-too-large")
        return
    if kind is not dict and kind is not list:
        raise MalformedError(
            f"record: {kind.__name__} is not written; a decimal is a string", reason="not-an-integer"
        )
    if depth > MAX_DEPTH:
        raise MalformedError(f"record: nested more than {MAX_DEPTH} deep", reason="too-deep")
    if kind is dict:
        for key in value:
            if type(key) is not str or not key.isascii():
                raise MalformedError(f"record: key {key!r:.80} is not ASCII text", reason="key-not-ascii")
        value = value.values()
    for item in value:
        _check(item, depth + 1)


def _check_depth(data: bytes) -> None:
    """Refuse deep nesting before the parser, which recurses, sees it."""
    if data.count(b"{") + data.count(b"[") <= MAX_DEPTH:
        return  # all but a few records; counting costs nothing beside the scan below
    depth = 0
    for byte in _STRINGS.sub(b"", data):
        if byte in b"{[":
            depth += 1
            if depth > MAX_DEPTH:
                raise MalformedError(f"record: nested more than {MAX_DEPTH} deep", reason="too-deep")
        elif byte in b"}]":
            depth -= 1


def _unique(pairs: list[tuple[str, JSONValue]]) -> JSONObject:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise MalformedError("record: a key stands twice in one object", reason="duplicate-key")
    return value


def _integer(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise MalformedError("record: an integer outside ±(2^53-1)", reason="integer-too-large")
    return int(digits)


def _refuse_number(text: str) -> int:
    raise MalformedError(
        f"record: number {text[:40]} is not an integer; a decimal is a string", reason="not-an-integer"
    )


_decoder = json.JSONDecoder(
    object_pairs_hook=_unique, parse_int=_integer, parse_float=_refuse_number, parse_constant=_refuse_number
)
