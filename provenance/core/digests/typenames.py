"""The type strings of table1, written and read.

A type string names what the values are, never how Arrow holds them: `string`, `large_string`, `string_view`
and a dictionary of any of them are all ``utf8``. It is part of what a column's digest covers, and a stage
record carries its declared schema so.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING

import pyarrow as pa

from provenance.errors import MalformedError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "MAX_DEPTH",
    "SIMPLE",
    "decode_type",
    "is_binary",
    "is_list",
    "is_view",
    "type_string",
]

MAX_DEPTH = 128
"""Levels of nesting that are read or written; Arrow itself reads files up to 64."""

SIMPLE: dict[pa.DataType, str] = {
    pa.null(): "null",
    pa.bool_(): "bool",
    pa.int8(): "i8",
    pa.int16(): "i16",
    pa.int32(): "i32",
    pa.int64(): "i64",
    pa.uint8(): "u8",
    pa.uint16(): "u16",
    pa.uint32(): "u32",
    pa.uint64(): "u64",
    pa.float16(): "f16",
    pa.float32(): "f32",
    pa.float64(): "f64",
    pa.date32(): "date32",
    pa.date64(): "date64",
    pa.time32("s"): "time32(s)",
    pa.time32("ms"): "time32(ms)",
    pa.time64("us"): "time64(us)",
    pa.time64("ns"): "time64(ns)",
    pa.duration("s"): "dur(s)",
    pa.duration("ms"): "dur(ms)",
    pa.duration("us"): "dur(us)",
    pa.duration("ns"): "dur(ns)",
    pa.string(): "utf8",
    pa.large_string(): "utf8",
    pa.string_view(): "utf8",
    pa.binary(): "bin",
    pa.large_binary(): "bin",
    pa.binary_view(): "bin",
}
"""The types without parameters, or with one unit (spec/digests.md, "section")."""

# Written as they stand, these four would be four types of one meaning.
_UTC = ("UTC", "Etc/UTC", "Z", "+00:00")


def is_view(kind: pa.DataType) -> bool:
    """Whether values are held as 16-byte views into several buffers."""
    return bool(pa.types.is_string_view(kind) or pa.types.is_binary_view(kind))


def is_binary(kind: pa.DataType) -> bool:
    """Whether the type is written as ``utf8`` or ``bin``; dictionaries are not asked about."""
    return SIMPLE.get(kind) in {"utf8", "bin"}


def is_list(kind: pa.DataType) -> bool:
    """Whether the type is written as ``list(T)``."""
    tests = (pa.types.is_list, pa.types.is_large_list, pa.types.is_list_view, pa.types.is_large_list_view)
    return any(test(kind) for test in tests)


def type_string(kind: pa.DataType) -> str:
    """The type string of an Arrow type (spec/digests.md, table of sections).

    Raises:
        MalformedError: for a type that is refused: ``extension-type``, ``union-type``, ``run-end-type``,
            ``interval-type``, ``duplicate-field``, ``name-not-utf8``, ``too-deep``, ``unsupported-type``.
    """
    return _write(kind, 0)


def _write(kind: pa.DataType, depth: int) -> str:
    if depth > MAX_DEPTH:
        raise MalformedError(f"the type is nested more than {MAX_DEPTH} levels deep", reason="too-deep")
    simple = SIMPLE.get(kind)
    if simple is not None:
        return simple
    for test, write in _WRITERS:
        if test(kind):
            return write(kind, depth + 1)
    raise _refusal(kind)


def _write_timestamp(kind: pa.DataType, _depth: int) -> str:
    if kind.tz is None:
        return f"ts({kind.unit})"
    return f"ts({kind.unit},{'UTC' if kind.tz in _UTC else kind.tz})"


def _write_struct(kind: pa.DataType, depth: int) -> str:
    fields = [kind.field(i) for i in range(kind.num_fields)]
    names = [_name(field) for field in fields]
    twice = {name for name, count in Counter(names).items() if count > 1}
    if twice:
        raise MalformedError(f"a struct has two fields {min(twice)!r}", reason="duplicate-field")
    # RFC 8785 §3.2.2.2 escapes exactly what json.dumps escapes when it is told to keep other scripts.
    parts = (
        f"{json.dumps(name, ensure_ascii=False)}:{_write(field.type, depth)}"
        for name, field in zip(names, fields, strict=True)
    )
    return f"struct({','.join(parts)})"


def _name(field: pa.Field) -> str:
    try:
        name: str = field.name
    except UnicodeDecodeError as error:
        raise MalformedError(
            f"a field's name is not UTF-8: {error.object!r}", reason="name-not-utf8"
        ) from error
    return name


_WRITERS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType, int], str]], ...] = (
    (pa.types.is_timestamp, _write_timestamp),
    (pa.types.is_decimal, lambda kind, _: f"dec({kind.precision},{kind.scale})"),
    (pa.types.is_fixed_size_binary, lambda kind, _: f"fbin({kind.byte_width})"),
    (pa.types.is_dictionary, lambda kind, depth: _write(kind.value_type, depth)),
    (is_list, lambda kind, depth: f"list({_write(kind.value_type, depth)})"),
    (
        pa.types.is_fixed_size_list,
        lambda kind, depth: f"fixed({_write(kind.value_type, depth)},{kind.list_size})",
    ),
    (
        pa.types.is_map,
        lambda kind, depth: f"map({_write(kind.key_type, depth)},{_write(kind.item_type, depth)})",
    ),
    (pa.types.is_struct, _write_struct),
)


def _refusal(kind: pa.DataType) -> MalformedError:
    reasons: tuple[tuple[bool, str, str], ...] = (
        (isinstance(kind, pa.BaseExtensionType), "extension-type", "Use its storage type."),
        (pa.types.is_union(kind), "union-type", "Use a struct with one field per alternative."),
        (pa.types.is_run_end_encoded(kind), "run-end-type", "Decode it with pyarrow.compute.run_end_decode."),
        (pa.types.is_interval(kind), "interval-type", "Use a duration, or a struct of integers."),
    )
    for refused, reason, remedy in reasons:
        if refused:
            return MalformedError(f"the type {kind} has no table-1 digest", reason=reason, remedy=remedy)
    return MalformedError(
        f"the type {kind} has no table-1 digest", reason="unsupported-type", remedy="Cast it first."
    )


# --------------------------------------------------------------------------------------------------- reading

_WORDS = {text: kind for kind, text in reversed(SIMPLE.items())}
"""Type string → the plainest Arrow type of it (``utf8`` is `string`)."""

_WORD = re.compile(r"(?:time32|time64|dur)\((?:s|ms|us|ns)\)|[a-z]+[0-9]*")
_TIMESTAMP = re.compile(r"\((s|ms|us|ns)(?:,([A-Za-z0-9_+:/-]{1,64}))?\)")
_NUMBERS = re.compile(r"\((-?[0-9]{1,10})(?:,(-?[0-9]{1,10}))?\)")
_COUNT = re.compile(r",([0-9]{1,10})\)")


def decode_type(text: str) -> pa.DataType:
    """The plainest Arrow type that has this type string; the inverse of `type_string` up to encoding.

    Raises:
        MalformedError: ``type-text`` when the text is not what `type_string` writes, ``too-deep``.
    """
    try:
        kind, end = _read(text, 0, 0)
        # Written again it must be the same: leading zeros, other escapes and the aliases of UTC fall here.
        whole = end == len(text) and type_string(kind) == text
    except (pa.ArrowException, ValueError, OverflowError) as error:
        raise _not_a_type(text) from error
    if not whole:
        raise _not_a_type(text)
    return kind


def _not_a_type(text: str) -> MalformedError:
    return MalformedError(f"not a table-1 type string: {text[:200]!r}", reason="type-text")


def _read(text: str, at: int, depth: int) -> tuple[pa.DataType, int]:
    if depth > MAX_DEPTH:
        raise MalformedError(f"the type is nested more than {MAX_DEPTH} levels deep", reason="too-deep")
    match = _match(_WORD, text, at)
    if match[0] in _WORDS:
        return _WORDS[match[0]], match.end()
    read = _READERS.get(match[0])
    if read is None:
        raise ValueError(match[0])
    return read(text, match.end(), depth + 1)


def _match(pattern: re.Pattern[str], text: str, at: int) -> re.Match[str]:
    match = pattern.match(text, at)
    if match is None:
        raise ValueError(at)
    return match


def _expect(text: str, at: int, mark: str) -> int:
    if not text.startswith(mark, at):
        raise ValueError(at)
    return at + len(mark)


def _read_timestamp(text: str, at: int, _depth: int) -> tuple[pa.DataType, int]:
    match = _match(_TIMESTAMP, text, at)
    return pa.timestamp(match[1], match[2]), match.end()


def _read_decimal(text: str, at: int, _depth: int) -> tuple[pa.DataType, int]:
    match = _match(_NUMBERS, text, at)
    precision, scale = int(match[1]), int(match[2] or "")
    return (pa.decimal128 if precision <= 38 else pa.decimal256)(precision, scale), match.end()


def _read_fixed_binary(text: str, at: int, _depth: int) -> tuple[pa.DataType, int]:
    match = _match(_NUMBERS, text, at)
    if match[2] is not None or match[1].startswith("-"):
        raise ValueError(at)
    return pa.binary(int(match[1])), match.end()


def _read_list(text: str, at: int, depth: int) -> tuple[pa.DataType, int]:
    item, at = _read(text, _expect(text, at, "("), depth)
    return pa.list_(item), _expect(text, at, ")")


def _read_fixed_list(text: str, at: int, depth: int) -> tuple[pa.DataType, int]:
    item, at = _read(text, _expect(text, at, "("), depth)
    match = _match(_COUNT, text, at)
    return pa.list_(item, int(match[1])), match.end()


def _read_map(text: str, at: int, depth: int) -> tuple[pa.DataType, int]:
    key, at = _read(text, _expect(text, at, "("), depth)
    item, at = _read(text, _expect(text, at, ","), depth)
    return pa.map_(key, item), _expect(text, at, ")")


def _read_struct(text: str, at: int, depth: int) -> tuple[pa.DataType, int]:
    at = _expect(text, at, "(")
    fields: list[pa.Field] = []
    while not text.startswith(")", at):
        if fields:
            at = _expect(text, at, ",")
        _expect(text, at, '"')
        name, at = _DECODER.raw_decode(text, at)
        kind, at = _read(text, _expect(text, at, ":"), depth)
        fields.append(pa.field(name, kind))
    return pa.struct(fields), at + 1


_DECODER = json.JSONDecoder()

_READERS: dict[str, Callable[[str, int, int], tuple[pa.DataType, int]]] = {
    "ts": _read_timestamp,
    "dec": _read_decimal,
    "fbin": _read_fixed_binary,
    "list": _read_list,
    "fixed": _read_fixed_list,
    "map": _read_map,
    "struct": _read_struct,
}
