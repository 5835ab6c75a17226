"""Columns of every type, and the many ways in which Arrow can hold one and the same column."""

from __future__ import annotations

import decimal
import math
import struct
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as t
from hypothesis import strategies as st

ZONES = ["UTC", "Europe/Paris", "+05:30"]
ALIASES = ["UTC", "Etc/UTC", "Z", "+00:00"]
NANS = [math.nan, -math.nan, struct.unpack("<d", struct.pack("<Q", 0x7FF8_0000_0000_1234))[0]]
NAMES = st.text(st.characters(codec="utf-8"), max_size=4)

UNITS = ["s", "ms", "us", "ns"]
INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
TEMPORAL = [
    pa.date32(),
    pa.date64(),
    pa.time32("s"),
    pa.time32("ms"),
    pa.time64("us"),
    pa.time64("ns"),
    *(pa.duration(unit) for unit in UNITS),
    *(pa.timestamp(unit) for unit in UNITS),
    *(pa.timestamp("us", zone) for zone in ZONES),
]
FLOATS = [pa.float16(), pa.float32(), pa.float64()]
OTHERS = [pa.null(), pa.bool_(), pa.string(), pa.binary(), pa.binary(0), pa.binary(1), pa.binary(3)]
DECIMALS = [pa.decimal128(5, 2), pa.decimal128(38, 0), pa.decimal128(7, -2), pa.decimal256(50, 10)]
LEAVES = [*INTEGERS, *TEMPORAL, *FLOATS, *OTHERS, *DECIMALS]


def struct_types(children: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    fields = st.lists(st.tuples(NAMES, children), max_size=3, unique_by=lambda field: field[0])
    return fields.map(pa.struct)


def nested_types(children: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    return st.one_of(
        children.map(pa.list_),
        st.tuples(children, st.integers(0, 3)).map(lambda pair: pa.list_(*pair)),
        struct_types(children),
        st.tuples(st.sampled_from([pa.string(), pa.int16()]), children).map(lambda pair: pa.map_(*pair)),
    )


@cache
def types() -> st.SearchStrategy[pa.DataType]:
    """The plainest Arrow type of each type string."""
    return st.recursive(st.sampled_from(LEAVES), nested_types, max_leaves=4)


@cache
def values(kind: pa.DataType) -> st.SearchStrategy[Any]:
    """Values that `pyarrow.array` takes for the type, None included."""
    return st.none() | present(kind) if not t.is_null(kind) else st.none()


@cache
def present(kind: pa.DataType) -> st.SearchStrategy[Any]:
    """Values of the type that are not null."""
    if t.is_boolean(kind):
        return st.booleans()
    if t.is_time32(kind):
        return st.integers(0, 86_399)
    if t.is_integer(kind) or t.is_temporal(kind):
        bits = kind.bit_width
        return (
            st.integers(0, 2**bits - 1)
            if t.is_unsigned_integer(kind)
            else st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        )
    if t.is_floating(kind):
        return st.floats(width=kind.bit_width) | st.sampled_from([*NANS, 0.0, -0.0])
    if t.is_decimal(kind):
        top = 10**kind.precision - 1
        return st.integers(-top, top).map(lambda unscaled: exact(unscaled, kind.scale))
    if t.is_string(kind):
        return st.text(st.characters(codec="utf-8"), max_size=20)
    if t.is_binary(kind):
        return st.binary(max_size=20)
    if t.is_fixed_size_binary(kind):
        return st.binary(min_size=kind.byte_width, max_size=kind.byte_width)
    return present_nested(kind)


def exact(unscaled: int, scale: int) -> decimal.Decimal:
    return decimal.Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))


def present_nested(kind: pa.DataType) -> st.SearchStrategy[Any]:
    if t.is_struct(kind):
        return st.fixed_dictionaries({field.name: values(field.type) for field in kind})
    if t.is_map(kind):
        return st.lists(st.tuples(present(kind.key_type), values(kind.item_type)), max_size=3)
    if t.is_fixed_size_list(kind):
        return st.lists(values(kind.value_type), min_size=kind.list_size, max_size=kind.list_size)
    return st.lists(values(kind.value_type), max_size=4)


@dataclass(frozen=True)
class Column:
    """A logical column: the plainest type and its values."""

    kind: pa.DataType
    rows: list[Any]

    def array(self) -> pa.Array:
        return build(self.rows, self.kind)


def build(rows: list[Any], kind: pa.DataType) -> pa.Array:
    """`pyarrow.array` of a type; half floats through NumPy, since not every version takes Python's there."""
    if t.is_float16(kind):
        data = np.array([0.0 if row is None else row for row in rows], np.float16)
        return pa.array(data, mask=np.array([row is None for row in rows], bool))
    return pa.array(rows, kind)


@st.composite
def columns(draw: st.DrawFn, rows: st.SearchStrategy[int] | None = None) -> Column:
    kind = draw(types())
    count = draw(rows if rows is not None else st.integers(0, 12))
    return Column(kind, draw(st.lists(values(kind), min_size=count, max_size=count)))


# ------------------------------------------------------------------------------------------------- encodings


@st.composite
def variants(draw: st.DrawFn, kind: pa.DataType, *, nested: bool = False) -> pa.DataType:
    """Another Arrow type with the same type string."""
    if t.is_nested(kind):
        return draw(nested_variants(kind))
    if t.is_timestamp(kind) and kind.tz == "UTC":
        return pa.timestamp(kind.unit, draw(st.sampled_from(ALIASES)))
    options = [kind]
    if t.is_string(kind):
        options += [pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]
        options += [pa.dictionary(pa.int64(), pa.large_string())]
    if t.is_binary(kind):
        options += [pa.large_binary(), pa.binary_view(), pa.dictionary(pa.uint16(), pa.binary())]
    if t.is_decimal(kind):
        options += [pa.decimal256(kind.precision, kind.scale)]
        if hasattr(pa, "decimal32") and kind.precision <= 9:
            options += [pa.decimal32(kind.precision, kind.scale), pa.decimal64(kind.precision, kind.scale)]
    if t.is_integer(kind) or (t.is_fixed_size_binary(kind) and kind.byte_width):
        options += [pa.dictionary(pa.int32(), kind)]
    return draw(st.sampled_from(options))


@st.composite
def nested_variants(draw: st.DrawFn, kind: pa.DataType) -> pa.DataType:
    if t.is_struct(kind):
        return pa.struct([pa.field(field.name, draw(variants(field.type))) for field in kind])
    if t.is_map(kind):
        return pa.map_(draw(variants(kind.key_type)), draw(variants(kind.item_type)))
    item = pa.field(draw(st.sampled_from(["item", "element"])), draw(variants(kind.value_type)))
    if t.is_fixed_size_list(kind):
        return pa.list_(item, kind.list_size)
    make = draw(st.sampled_from([pa.list_, pa.large_list, pa.list_view, pa.large_list_view]))
    return make(item)


@st.composite
def encodings(draw: st.DrawFn, column: Column) -> pa.ChunkedArray:
    """The column in another Arrow type, cut into slices of something longer, rubbish under its nulls."""
    kind = draw(variants(column.kind))
    cuts = sorted(draw(st.lists(st.integers(0, len(column.rows)), max_size=3)))
    chunks = []
    for start, stop in zip([0, *cuts], [*cuts, len(column.rows)], strict=True):
        before = draw(st.lists(values(column.kind), max_size=9))
        after = draw(st.lists(values(column.kind), max_size=2))
        rows = [*before, *column.rows[start:stop], *after]
        rubbish = draw(present(column.kind)) if not t.is_null(column.kind) else None
        chunks.append(spoil(rows, kind, rubbish).slice(len(before), stop - start))
    return pa.chunked_array(chunks, type=kind)


def spoil(rows: list[Any], kind: pa.DataType, rubbish: Any) -> pa.Array:
    """The rows as an array that holds ``rubbish`` where it is null."""
    filled = build([rubbish if row is None else row for row in rows], kind)
    if rubbish is None or None not in rows:
        return filled
    mask = np.array([row is None for row in rows])
    if t.is_dictionary(kind):
        indices = spoil_buffers(filled.indices, mask)
        return pa.DictionaryArray.from_arrays(indices, filled.dictionary)
    return spoil_buffers(filled, mask)


def spoil_buffers(filled: pa.Array, mask: np.ndarray) -> pa.Array:
    validity = pa.py_buffer(np.packbits(~mask, bitorder="little").tobytes())
    kind = filled.type
    children, own = [], len(filled.buffers())
    if t.is_struct(kind):
        children, own = [filled.field(number) for number in range(kind.num_fields)], 1
    elif t.is_fixed_size_list(kind):
        children, own = [filled.values], 1
    elif t.is_nested(kind):
        children, own = [filled.values], 3 if "list_view" in str(kind)[:15] else 2
    return pa.Array.from_buffers(kind, len(filled), [validity, *filled.buffers()[1:own]], children=children)
