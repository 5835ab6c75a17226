"""Type strings: one per meaning, whatever Arrow holds it in; and the way back."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given

from provenance.core.digests import decode_type, type_string
from provenance.core.digests.typenames import MAX_DEPTH
from provenance.errors import MalformedError
from tests.core.digests import reference
from tests.core.digests.strategies import types

KNOWN = {
    "null": [pa.null(), pa.dictionary(pa.int8(), pa.null())],
    "bool": [pa.bool_()],
    "i8": [pa.int8(), pa.dictionary(pa.int64(), pa.int8())],
    "i16": [pa.int16()],
    "i32": [pa.int32()],
    "i64": [pa.int64()],
    "u8": [pa.uint8()],
    "u16": [pa.uint16()],
    "u32": [pa.uint32()],
    "u64": [pa.uint64()],
    "f16": [pa.float16()],
    "f32": [pa.float32()],
    "f64": [pa.float64()],
    "date32": [pa.date32()],
    "date64": [pa.date64()],
    "time32(s)": [pa.time32("s")],
    "time32(ms)": [pa.time32("ms")],
    "time64(us)": [pa.time64("us")],
    "time64(ns)": [pa.time64("ns")],
    "dur(s)": [pa.duration("s")],
    "dur(ms)": [pa.duration("ms")],
    "dur(us)": [pa.duration("us")],
    "dur(ns)": [pa.duration("ns")],
    "ts(s)": [pa.timestamp("s")],
    "ts(ms)": [pa.timestamp("ms")],
    "ts(us)": [pa.timestamp("us")],
    "ts(ns)": [pa.timestamp("ns")],
    "ts(us,UTC)": [pa.timestamp("us", zone) for zone in ("UTC", "Etc/UTC", "Z", "+00:00")],
    "ts(us,utc)": [pa.timestamp("us", "utc")],
    "ts(us,GMT)": [pa.timestamp("us", "GMT")],
    "ts(us,-00:00)": [pa.timestamp("us", "-00:00")],
    "ts(ns,Europe/Paris)": [pa.timestamp("ns", "Europe/Paris")],
    "ts(ns,Etc/GMT+5)": [pa.timestamp("ns", "Etc/GMT+5")],
    "dec(5,2)": [pa.decimal128(5, 2), pa.decimal256(5, 2)],
    "dec(38,38)": [pa.decimal128(38, 38)],
    "dec(39,0)": [pa.decimal256(39, 0)],
    "dec(76,-5)": [pa.decimal256(76, -5)],
    "utf8": [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string_view())],
    "bin": [pa.binary(), pa.large_binary(), pa.binary_view()],
    "fbin(0)": [pa.binary(0)],
    "fbin(16)": [pa.binary(16)],
    "list(i8)": [pa.list_(pa.int8()), pa.large_list(pa.int8()), pa.list_view(pa.int8())],
    "list(list(utf8))": [pa.large_list_view(pa.list_(pa.field("element", pa.string(), nullable=False)))],
    "fixed(f32,0)": [pa.list_(pa.float32(), 0)],
    "fixed(f32,80)": [pa.list_(pa.float32(), 80)],
    "map(utf8,i32)": [
        pa.map_(pa.string(), pa.int32()),
        pa.map_(pa.large_string(), pa.int32(), keys_sorted=True),
    ],
    "struct()": [pa.struct([])],
    'struct("a":i8,"b":list(utf8))': [pa.struct({"a": pa.int8(), "b": pa.list_(pa.string())})],
    'struct("b":i8,"a":i8)': [pa.struct({"b": pa.int8(), "a": pa.int8()})],
    'struct("":i8)': [pa.struct({"": pa.int8()})],
    'struct("q\\"\\\\/é😀\x7f":i8)': [pa.struct({'q"\\/é😀\x7f': pa.int8()})],
    'struct("\\b\\t\\n\\f\\r\\u0000\\u001f":i8)': [pa.struct({"\b\t\n\f\r\0\x1f": pa.int8()})],
}


@pytest.mark.parametrize(("text", "kinds"), KNOWN.items(), ids=list(KNOWN))
def test_known(text: str, kinds: list[pa.DataType]) -> None:
    assert [type_string(kind) for kind in kinds] == [text] * len(kinds)
    assert [reference.type_string(kind) for kind in kinds] == [text] * len(kinds)


def test_narrow_decimals_are_decimals() -> None:
    if not hasattr(pa, "decimal32"):
        pytest.skip("this pyarrow has no narrow decimals")
    assert {type_string(kind(5, 2)) for kind in (pa.decimal32, pa.decimal64)} == {"dec(5,2)"}


@pytest.mark.parametrize("text", KNOWN)
def test_the_way_back(text: str) -> None:
    assert type_string(decode_type(text)) == text


@given(types())
def test_every_type_comes_back(kind: pa.DataType) -> None:
    assert decode_type(type_string(kind)).equals(kind)


def nested(levels: int) -> str:
    return "list(" * levels + "i8" + ")" * levels


def test_nesting_is_bounded_both_ways() -> None:
    kind = decode_type(nested(MAX_DEPTH))
    assert type_string(kind) == nested(MAX_DEPTH)
    for call in (lambda: type_string(pa.list_(kind)), lambda: decode_type(nested(MAX_DEPTH + 1))):
        with pytest.raises(MalformedError) as caught:
            call()
        assert caught.value.reason == "too-deep"


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "i9", "I8", "i8 ", " i8", "i8i8", "int8", "float", "f8", "utf", "utf-8", "null()", "bool,",
        "date", "date32()", "time32", "time32(us)", "time64(s)", "time32(s", "dur()", "dur(m)",
        "dur(us,UTC)", "ts", "ts()", "ts(us", "ts(us,)", "ts(us,Z)", "ts(us,Etc/UTC)", "ts(us,+00:00)",
        "ts(us, UTC)", "ts(us,a)b)", "ts(us," + "x" * 65 + ")", "ts(m)", "dec", "dec()", "dec(5)",
        "dec(5,)", "dec(05,2)", "dec(5,02)", "dec(5,-0)", "dec(0,0)", "dec(77,0)", "dec(5,2,1)",
        "dec(-5,2)", "dec(5,99999999999)", "dec(5,+2)", "fbin", "fbin()", "fbin(-1)", "fbin(01)",
        "fbin(1,2)", "fbin(4294967296)", "fbin(x)", "list", "list()", "list(i8", "list(i8,)", "list(i8))",
        "list[i8]", "fixed(i8)", "fixed(i8,)", "fixed(i8,-1)", "fixed(i8,01)", "fixed(i8,4294967296)",
        "fixed(,3)", "map(utf8)", "map(utf8,i8", "map(utf8;i8)", "map(utf8,i8,i8)", "struct", "struct(",
        'struct("a")', 'struct("a":)', 'struct("a":i8', 'struct("a":i8,)', 'struct(,"a":i8)',
        'struct("a":i8"b":i8)', "struct(a:i8)", 'struct("a" :i8)', 'struct("\\u0061":i8)',
        'struct("\\/":i8)', 'struct("\\u00e9":i8)', 'struct("\\ud800":i8)', 'struct("\t":i8)',
        'struct("a:i8)', "struct(1:i8)", "struct({}:i8)", "struct(null:i8)", "union(i8)",
    ],
)  # fmt: skip
def test_what_nobody_writes_is_refused(text: str) -> None:
    with pytest.raises(MalformedError) as caught:
        decode_type(text)
    assert caught.value.reason == "type-text"
    assert repr(text)[:50] in caught.value.message


def test_a_field_named_twice_is_refused_by_its_name() -> None:
    with pytest.raises(MalformedError, match="'b'") as caught:
        decode_type('struct("a":i8,"b":i8,"b":i8)')
    assert caught.value.reason == "duplicate-field"


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (pa.month_day_nano_interval(), "interval-type"),
        (pa.run_end_encoded(pa.int16(), pa.int8()), "run-end-type"),
        (pa.sparse_union([pa.field("a", pa.int8())]), "union-type"),
        (pa.dense_union([pa.field("a", pa.int8())]), "union-type"),
        (pa.fixed_shape_tensor(pa.int8(), [2]), "extension-type"),
    ],
    ids=str,
)
def test_types_without_a_string(kind: pa.DataType, reason: str) -> None:
    with pytest.raises(MalformedError) as caught:
        type_string(kind)
    assert caught.value.reason == reason
    assert str(kind)[:20] in caught.value.message
    assert caught.value.remedy


def test_a_type_of_a_later_arrow_is_refused() -> None:
    class Later:
        id = 10_000

        def __str__(self) -> str:
            return "later"

    with pytest.raises(MalformedError, match="later") as caught:
        type_string(Later())
    assert caught.value.reason == "unsupported-type"
