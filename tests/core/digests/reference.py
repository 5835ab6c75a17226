"""The digests again, row by row, from the specification alone: slow, obvious, the oracle of the tests.

Nothing here looks at an Arrow buffer: values are taken one scalar at a time.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
import unicodedata
from typing import TYPE_CHECKING, Any

import blake3
import numpy as np
import pyarrow as pa
import pyarrow.types as t

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

Section = bytes
HASHES: dict[str, Callable[[bytes], Any]] = {"sha256": hashlib.sha256, "blake3": blake3.blake3}
INTEGERS = {
    "i8": "<b", "i16": "<h", "i32": "<i", "i64": "<q", "u8": "<B", "u16": "<H", "u32": "<I", "u64": "<Q",
    "date32": "<i", "date64": "<q", "time32(s)": "<i", "time32(ms)": "<i", "time64(us)": "<q",
    "time64(ns)": "<q",
    "dur(s)": "<q", "dur(ms)": "<q", "dur(us)": "<q", "dur(ns)": "<q",
}  # fmt: skip
FLOATS = {"f16": ("<e", "007e"), "f32": ("<f", "0000c07f"), "f64": ("<d", "000000000000f87f")}


def u32(number: int) -> bytes:
    return struct.pack("<I", number)


def u64(number: int) -> bytes:
    return struct.pack("<Q", number)


# ---------------------------------------------------------------------------------------------- type strings


def type_string(kind: pa.DataType) -> str:
    if t.is_dictionary(kind):
        return type_string(kind.value_type)
    if t.is_null(kind):
        return "null"
    if t.is_boolean(kind):
        return "bool"
    if t.is_integer(kind):
        return str(kind).replace("uint", "u").replace("int", "i")
    if t.is_floating(kind):
        return f"f{kind.bit_width}"
    if t.is_date(kind):
        return str(kind).partition("[")[0]
    if t.is_time(kind) or t.is_duration(kind):
        return str(kind).replace("duration", "dur").replace("[", "(").replace("]", ")")
    if t.is_timestamp(kind):
        zone = "UTC" if kind.tz in ("UTC", "Etc/UTC", "Z", "+00:00") else kind.tz
        return f"ts({kind.unit},{zone})" if zone else f"ts({kind.unit})"
    if t.is_decimal(kind):
        return f"dec({kind.precision},{kind.scale})"
    if t.is_fixed_size_binary(kind):
        return f"fbin({kind.byte_width})"
    if t.is_string(kind) or t.is_large_string(kind) or t.is_string_view(kind):
        return "utf8"
    if t.is_binary(kind) or t.is_large_binary(kind) or t.is_binary_view(kind):
        return "bin"
    return nested_type_string(kind)


def nested_type_string(kind: pa.DataType) -> str:
    if t.is_map(kind):
        return f"map({type_string(kind.key_type)},{type_string(kind.item_type)})"
    if t.is_fixed_size_list(kind):
        return f"fixed({type_string(kind.value_type)},{kind.list_size})"
    if t.is_struct(kind):
        fields = [json.dumps(f.name, ensure_ascii=False) + ":" + type_string(f.type) for f in kind]
        return f"struct({','.join(fields)})"
    return f"list({type_string(kind.value_type)})"


# ------------------------------------------------------------------------------------------ values to Python


def plain(scalar: pa.Scalar) -> Any:
    """The scalar as None, bool, int, float, bytes, a list of such, or (struct) a tuple of such."""
    kind = scalar.type
    if t.is_dictionary(kind):
        return plain(scalar.value) if scalar.is_valid else None
    if not scalar.is_valid:
        return None
    if t.is_map(kind):
        return [(plain(entry[0]), plain(entry[1])) for entry in scalar.values]
    if t.is_nested(kind) and not t.is_struct(kind):
        return [plain(item) for item in scalar.values]
    if t.is_struct(kind):
        return tuple(plain(scalar[number]) for number in range(kind.num_fields))
    if t.is_temporal(kind):
        return scalar.value
    if t.is_decimal(kind):
        sign, digits, exponent = scalar.as_py().as_tuple()
        unscaled = int("".join(map(str, digits))) * 10 ** (exponent + kind.scale)
        return -unscaled if sign else unscaled
    if type_string(kind) == "utf8":
        return bytes(scalar.as_buffer())
    return scalar.as_py()


# -------------------------------------------------------------------------------------------------- sections


def bits(values: Iterable[bool]) -> bytes:
    whole = list(values)
    out = bytearray(math.ceil(len(whole) / 8))
    for number, value in enumerate(whole):
        out[number // 8] |= value << (number % 8)
    return bytes(out)


def section(kind: pa.DataType, values: list[Any]) -> Section:
    """``section(T, m values)`` of spec/digests.md."""
    if t.is_dictionary(kind):
        return section(kind.value_type, values)
    if t.is_null(kind):
        return b""
    return bits(value is not None for value in values) + body(kind, type_string(kind), values)


def body(kind: pa.DataType, name: str, values: list[Any]) -> Section:
    if name == "bool":
        return bits(bool(value) for value in values)
    if name in INTEGERS or name.startswith("ts("):
        return b"".join(struct.pack(INTEGERS.get(name, "<q"), value or 0) for value in values)
    if name in FLOATS:
        return b"".join(number(0.0 if value is None else value, name) for value in values)
    if name.startswith("dec("):
        width = 16 if kind.precision <= 38 else 32
        return b"".join((value or 0).to_bytes(width, "little", signed=True) for value in values)
    if name in ("utf8", "bin"):
        return b"".join(u32(len(value or b"")) for value in values) + b"".join(
            value or b"" for value in values
        )
    if name.startswith("fbin("):
        return b"".join(bytes(kind.byte_width) if value is None else value for value in values)
    return nested_body(kind, values)


def nested_body(kind: pa.DataType, values: list[Any]) -> Section:
    if t.is_struct(kind):
        return b"".join(
            section(field.type, [None if value is None else value[number] for value in values])
            for number, field in enumerate(kind)
        )
    if t.is_fixed_size_list(kind):
        size = kind.list_size
        return section(
            kind.value_type, [x for value in values for x in ([None] * size if value is None else value)]
        )
    lengths = b"".join(u32(len(value or [])) for value in values)
    items = [item for value in values for item in value or []]
    if t.is_map(kind):
        keys, values = [key for key, _ in items], [item for _, item in items]
        return (
            lengths
            + bits([True] * len(items))
            + section(kind.key_type, keys)
            + section(kind.item_type, values)
        )
    return lengths + section(kind.value_type, items)


# ---------------------------------------------------------------------------------------- table, array, tree


def table1(table: pa.Table, *, algorithm: str = "sha256", block_rows: int = 65_536) -> str:
    hashed = HASHES[algorithm]
    columns = b""
    for field, column in zip(table.schema, table.columns, strict=True):
        values = [plain(scalar) for scalar in column]
        name, kind = field.name.encode(), type_string(field.type).encode()
        blocks = b"".join(
            hashed(b"\x10" + section(field.type, values[at : at + block_rows])).digest()
            for at in range(0, len(values), block_rows)
        )
        head = u32(len(name)) + name + u32(len(kind)) + kind + u64(table.num_rows)
        columns += hashed(b"\x11" + head + blocks).digest()
    text: str = hashed(b"\x12table-1" + u64(table.num_rows) + u32(table.num_columns) + columns).hexdigest()
    return text


def array1(array: NDArray[Any], kind: str, *, algorithm: str = "sha256") -> str:
    hashed = HASHES[algorithm]
    values = b"".join(number(item, kind) for item in array.flatten(order="C"))
    blocks = b"".join(
        hashed(b"\x20" + values[at : at + 2**20]).digest() for at in range(0, len(values), 2**20)
    )
    name = kind.encode()
    shape = u32(array.ndim) + b"".join(u64(dimension) for dimension in array.shape)
    text: str = hashed(b"\x22array-1" + u32(len(name)) + name + shape + blocks).hexdigest()
    return text


def number(item: Any, kind: str) -> bytes:
    if kind == "bool":
        return b"\1" if item else b"\0"
    if kind in ("c64", "c128"):
        half = {"c64": "f32", "c128": "f64"}[kind]
        return number(item.real, half) + number(item.imag, half)
    if kind in FLOATS:
        layout, nan = FLOATS[kind]
        return bytes.fromhex(nan) if np.isnan(item) else struct.pack(layout, item)
    return struct.pack(INTEGERS[kind], item)


def tree1(files: dict[str, bytes]) -> str:
    """The digest of a directory given as path → content."""
    leaves = []
    for path, content in sorted(
        (unicodedata.normalize("NFC", path).encode(), data) for path, data in files.items()
    ):
        leaf = u32(len(path)) + path + u64(len(content)) + hashlib.sha256(content).digest()
        leaves.append(hashlib.sha256(b"\0" + leaf).digest())
    return head_of(leaves).hex()


def head_of(leaves: list[bytes]) -> bytes:
    """RFC 6962 §2.1, by its own recursion."""
    if not leaves:
        return hashlib.sha256(b"").digest()
    if len(leaves) == 1:
        return leaves[0]
    split = 1
    while split * 2 < len(leaves):
        split *= 2
    return hashlib.sha256(b"\1" + head_of(leaves[:split]) + head_of(leaves[split:])).digest()
