"""Every row of the table of sections in spec/digests.md, byte for byte, written out by hand."""

from __future__ import annotations

import decimal
import mmap
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from provenance.core.digests import sections
from provenance.core.digests.hashes import Sink
from provenance.core.digests.rows import Rows
from provenance.core.digests.sections import write_section
from provenance.errors import MalformedError

D = decimal.Decimal


class Recorder(Sink):
    """A sink that keeps what it hashes."""

    def __init__(self) -> None:
        super().__init__("sha256", b"")
        self.data = b""

    def write(self, values: Any) -> None:
        super().write(values)
        self.data += values.astype(values.dtype.newbyteorder("<")).tobytes()


def section(*chunks: pa.Array) -> str:
    sink = Recorder()
    write_section(sink, [Rows(chunk) for chunk in chunks])
    assert sink.nbytes == len(sink.data)
    return sink.data.hex()


def h(text: str) -> str:
    return text.replace(" ", "")


LISTS = [[1, 2], None, [], [None]]
LIST_SECTION = "0d 02000000 00000000 00000000 01000000 03 01 02 00"

CASES = {
    "null": (pa.nulls(3), ""),
    "bool": (pa.array([True, False, None, True]), "0b 09"),
    "bool-nine": (pa.array([True] * 9), "ff01 ff01"),
    "i8": (pa.array([1, None, -1], pa.int8()), "05 01 00 ff"),
    "i16": (pa.array([1, None, -2], pa.int16()), "05 0100 0000 feff"),
    "i32": (pa.array([1, None], pa.int32()), "01 01000000 00000000"),
    "i64": (pa.array([-1, 2], pa.int64()), "03 ffffffffffffffff 0200000000000000"),
    "u8": (pa.array([255, None], pa.uint8()), "01 ff 00"),
    "u16": (pa.array([65535, 1], pa.uint16()), "03 ffff 0100"),
    "u32": (pa.array([2**32 - 1], pa.uint32()), "01 ffffffff"),
    "u64": (pa.array([2**64 - 1], pa.uint64()), "01 ffffffffffffffff"),
    "f16": (pa.array(np.array([1.0, np.nan, -0.0], "f2")), "07 003c 007e 0080"),
    "f32": (pa.array([1.0, -np.nan, None], pa.float32()), "03 0000803f 0000c07f 00000000"),
    "f64": (pa.array([-np.nan, -0.0]), "03 000000000000f87f 0000000000000080"),
    "f64-infinity": (pa.array([np.inf, -np.inf]), "03 000000000000f07f 000000000000f0ff"),
    "date32": (pa.array([1, None], pa.date32()), "01 01000000 00000000"),
    "date64": (pa.array([86_400_000], pa.date64()), "01 005c260500000000"),
    "time32": (pa.array([1], pa.time32("ms")), "01 01000000"),
    "time64": (pa.array([1], pa.time64("ns")), "01 0100000000000000"),
    "ts": (pa.array([-1], pa.timestamp("s", "UTC")), "01 ffffffffffffffff"),
    "dur": (pa.array([1, None], pa.duration("us")), "01 0100000000000000 0000000000000000"),
    "dec-38": (pa.array([D("-0.01"), None], pa.decimal128(38, 2)), "01" + "ff" * 16 + "00" * 16),
    "dec-39": (pa.array([D("0.01")], pa.decimal256(39, 2)), "01 01" + "00" * 31),
    "dec-76-negative": (pa.array([D(-2)], pa.decimal256(76, 0)), "01 fe" + "ff" * 31),
    "dec256-narrow": (pa.array([D(-2)], pa.decimal256(38, 0)), "01 fe" + "ff" * 15),
    "utf8": (pa.array(["a", None, "", "é"]), "0d 01000000 00000000 00000000 02000000 61 c3a9"),
    "bin": (pa.array([b"\0", b"\1\2"]), "03 01000000 02000000 00 0102"),
    "utf8-none": (pa.array([None, None], pa.string()), "00 00000000 00000000"),
    "fbin": (pa.array([b"ab", None], pa.binary(2)), "01 6162 0000"),
    "fbin-1": (pa.array([b"a", None], pa.binary(1)), "01 61 00"),
    "fbin-0": (pa.array([b"", None], pa.binary(0)), "01"),
    "list": (pa.array(LISTS, pa.list_(pa.int8())), LIST_SECTION),
    "large-list": (pa.array(LISTS, pa.large_list(pa.int8())), LIST_SECTION),
    "list-view": (pa.array(LISTS, pa.list_view(pa.int8())), LIST_SECTION),
    "large-list-view": (pa.array(LISTS, pa.large_list_view(pa.int8())), LIST_SECTION),
    "list-of-null": (pa.array([[None, None]], pa.list_(pa.null())), "01 02000000"),
    "list-without-items": (pa.array([[], None], pa.list_(pa.string())), "01 00000000 00000000"),
    "fixed": (pa.array([[1, 2], None, [3, None]], pa.list_(pa.int8(), 2)), "05 13 01 02 00 00 03 00"),
    "fixed-0": (pa.array([[], None], pa.list_(pa.int8(), 0)), "01"),
    "fixed-of-utf8": (
        pa.array([None, ["a"]], pa.list_(pa.string(), 1)),
        "02 02 00000000 01000000 61",
    ),
    "map": (
        pa.array([[("k", 1)], None, [("l", None), ("m", 2)]], pa.map_(pa.string(), pa.int8())),
        "05 01000000 00000000 02000000 07  07 01000000 01000000 01000000 6b6c6d  05 01 00 02",
    ),
    "struct": (
        pa.array(
            [{"a": 1, "b": True}, None, {"a": None, "b": False}], pa.struct({"a": pa.int8(), "b": pa.bool_()})
        ),
        "05  01 01 00 00  05 01",
    ),
    "struct-without-fields": (pa.array([{}, None], pa.struct([])), "01"),
    "dictionary": (pa.array(["a", None, "a"]).dictionary_encode(), "05 01000000 00000000 01000000 6161"),
    "dictionary-of-i16": (pa.array([7, 7, None], pa.int16()).dictionary_encode(), "03 0700 0700 0000"),
    "utf8-view": (
        pa.array(["a", None, "x" * 13, "bc"], pa.string_view()),
        "0d 01000000 00000000 0d000000 02000000 61" + "78" * 13 + "6263",
    ),
    "bin-view-12": (pa.array([b"x" * 12], pa.binary_view()), "01 0c000000" + "78" * 12),
}


@pytest.mark.parametrize("name", CASES)
def test_layout(name: str) -> None:
    array, expected = CASES[name]
    array.validate(full=True)
    assert section(array) == h(expected)


@pytest.mark.parametrize("name", CASES)
def test_layout_does_not_show_chunks_or_offsets(name: str) -> None:
    array, expected = CASES[name]
    pieces = [array.slice(number, 1) for number in range(len(array))]
    assert section(*pieces, array.slice(0, 0)) == h(expected)


@pytest.mark.parametrize("shift", [1, 7, 8, 9])
@pytest.mark.parametrize("kind", [pa.bool_(), pa.int16(), pa.string(), pa.list_(pa.bool_())], ids=str)
def test_a_slice_at_any_bit_is_its_rows(shift: int, kind: pa.DataType) -> None:
    values: dict[str, list[Any]] = {
        "bool": [True, None, False],
        "int16": [1, None, 3],
        "string": ["a", None, "ccc"],
    }
    rows = values.get(str(kind), [[True, None], None, [False]]) * 7
    assert section(pa.array(rows, kind).slice(shift, 10)) == section(pa.array(rows[shift : shift + 10], kind))


def test_a_null_in_the_dictionary_and_a_null_index_are_one() -> None:
    indices = pa.array([0, 1, None], pa.int8())
    array = pa.DictionaryArray.from_arrays(indices, pa.array([None, "v"]))
    assert section(array) == h("02 00000000 01000000 00000000 76")


def test_a_dictionary_of_structs_is_its_values() -> None:
    dictionary = pa.array([{"a": 1}, {"a": None}, None], pa.struct({"a": pa.int8()}))
    array = pa.DictionaryArray.from_arrays(pa.array([1, 0, 2, None, 0], pa.uint8()), dictionary)
    assert section(array) == h("13  12 00 01 00 00 01")


def test_a_dictionary_of_lists_of_fixed_lists_is_its_values() -> None:
    dictionary = pa.array([[[1, 2]], [[3, 4], None]], pa.list_(pa.list_(pa.int8(), 2)))
    array = pa.DictionaryArray.from_arrays(pa.array([1, None, 0], pa.int8()), dictionary)
    assert section(array) == h("05 02000000 00000000 01000000  05  33 03 04 00 00 01 02")


def test_a_dictionary_without_values_under_nulls_only() -> None:
    array = pa.DictionaryArray.from_arrays(pa.array([None, None], pa.int8()), pa.array([], pa.string()))
    assert section(array) == h("00 00000000 00000000")


def test_what_lies_under_a_null_does_not_count() -> None:
    validity = pa.py_buffer(b"\x05")
    full = pa.array([[1], [2, 3], [4]], pa.list_(pa.int8()))
    holed = pa.Array.from_buffers(full.type, 3, [validity, full.buffers()[1]], children=[full.values])
    assert section(holed) == h("05 01000000 00000000 01000000  03 01 04")
    text = pa.array(["a", "bb", "c"])
    assert section(pa.Array.from_buffers(text.type, 3, [validity, *text.buffers()[1:]])) == h(
        "05 01000000 00000000 01000000 61 63"
    )


def list_view(kind: pa.DataType, offsets: Any, sizes: Any, values: pa.Array) -> pa.Array:
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(sizes)]
    return pa.Array.from_buffers(kind, len(sizes), buffers, children=[values])


def test_views_may_overlap_and_go_backwards() -> None:
    values = pa.array([1, 2, 3], pa.int8())
    kind = pa.list_view(pa.int8())
    offsets, sizes = np.array([1, 0, 2], "i4"), np.array([2, 2, 0], "i4")
    array = pa.Array.from_buffers(
        kind, 3, [None, pa.py_buffer(offsets), pa.py_buffer(sizes)], children=[values]
    )
    assert section(array) == h("07 02000000 02000000 00000000  0f 02 03 01 02")


def test_a_list_view_of_structs_is_selected_through() -> None:
    values = pa.array([{"a": "x"}, None, {"a": "zz"}], pa.struct({"a": pa.string()}))
    offsets, sizes = np.array([2, 0], "i4"), np.array([1, 2], "i4")
    kind = pa.list_view(values.type)
    array = pa.Array.from_buffers(
        kind, 2, [None, pa.py_buffer(offsets), pa.py_buffer(sizes)], children=[values]
    )
    assert section(array) == h("03 01000000 02000000  03  03 02000000 01000000 00000000 7a7a 78")


@pytest.mark.parametrize("limit", [1, 3, 16, 1 << 20])
@pytest.mark.parametrize("kind", [pa.string(), pa.large_binary(), pa.string_view()], ids=str)
def test_scattered_values_are_joined_in_parts(limit: int, kind: pa.DataType, monkeypatch: Any) -> None:
    monkeypatch.setattr(sections, "_GATHER_BYTES", limit)
    rows = ["one", None, "", "a value of more than twelve bytes", "two", "another value of more than twelve"]
    whole = [*rows, *reversed(rows), "one", "one"]
    plain = section(pa.array(whole, pa.string()))
    array = pa.array(whole, pa.string())
    assert section(array.cast(kind) if kind != pa.string_view() else pa.array(whole, kind)) == plain
    values = pa.array(rows, kind) if kind == pa.string_view() else pa.array(rows).cast(kind)
    indices = pa.array([rows.index(row) for row in whole], pa.int32())
    assert section(pa.DictionaryArray.from_arrays(indices, values)) == plain


def test_views_into_several_buffers() -> None:
    rows = ["first value of its own buffer", "b", "second value, of another buffer", "third in the first one"]
    buffers = [pa.py_buffer((rows[0] + rows[3]).encode()), pa.py_buffer(rows[2].encode())]
    places = {0: (0, 0), 2: (1, 0), 3: (0, len(rows[0]))}
    views = b""
    for number, row in enumerate(rows):
        size, head = len(row).to_bytes(4, "little"), row.encode()
        if number in places:
            buffer, offset = places[number]
            views += size + head[:4] + buffer.to_bytes(4, "little") + offset.to_bytes(4, "little")
        else:
            views += size + head.ljust(12, b"\0")
    array = pa.Array.from_buffers(pa.string_view(), 4, [None, pa.py_buffer(views), *buffers])
    array.validate(full=True)
    assert section(array) == section(pa.array(rows))


# --------------------------------------------------------------------------------------------------- refused


def refused(*chunks: pa.Array) -> MalformedError:
    with pytest.raises(MalformedError) as caught:
        section(*chunks)
    return caught.value


def test_a_list_of_2_32_items_is_refused_and_one_fewer_is_not() -> None:
    items = pa.nulls(2**32)
    error = refused(pa.LargeListArray.from_arrays(pa.array([0, 2**32], pa.int64()), items))
    assert error.reason == "too-long"
    assert "4294967296" in error.message
    assert section(pa.LargeListArray.from_arrays(pa.array([0, 2**32 - 1], pa.int64()), items)) == "01ffffffff"


def test_a_value_of_2_32_bytes_is_refused() -> None:
    zeros = pa.py_buffer(mmap.mmap(-1, 2**32))  # reserved, never touched
    offsets = pa.py_buffer(np.array([0, 2**32], "i8"))
    for kind in (pa.large_binary(), pa.large_string()):
        assert refused(pa.Array.from_buffers(kind, 1, [None, offsets, zeros])).reason == "too-long"


def test_a_list_view_of_2_32_items_is_refused() -> None:
    sizes, offsets = np.array([2**32], "i8"), np.array([0], "i8")
    kind = pa.large_list_view(pa.null())
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(sizes)]
    assert refused(pa.Array.from_buffers(kind, 1, buffers, children=[pa.nulls(2**32)])).reason == "too-long"


def test_offsets_that_go_backwards_are_refused() -> None:
    offsets = pa.py_buffer(np.array([0, 2, 1, 3], "i4"))
    array = pa.Array.from_buffers(pa.string(), 3, [None, offsets, pa.py_buffer(b"abc")])
    array.validate()
    assert refused(array).reason == "bad-offsets"


@pytest.mark.parametrize("index", [2, 127, -1])
def test_an_index_outside_its_dictionary_is_refused(index: int) -> None:
    indices = pa.array([0, index], pa.int8())
    array = pa.DictionaryArray.from_arrays(indices, pa.array(["a", "b"]), safe=False)
    assert refused(array).reason == "dictionary-index"


@pytest.mark.parametrize("limb", [1, 2, 3])
def test_a_decimal_that_its_precision_cannot_hold_is_refused(limb: int) -> None:
    limbs = np.zeros(8, "i8")
    limbs[4 + min(limb, 3)] = 1 if limb > 1 else -(2**63)
    array = pa.Array.from_buffers(pa.decimal256(38, 0), 2, [None, pa.py_buffer(limbs)])
    error = refused(array)
    assert error.reason == "decimal-range"
    assert "decimal256(38, 0)" in error.message


def test_narrow_decimals_are_widened() -> None:
    if not hasattr(pa, "decimal32"):
        pytest.skip("this pyarrow has no narrow decimals")
    rows = [D("-1.5"), None, D("2.0")]
    wide = section(pa.array(rows, pa.decimal128(5, 1)))
    assert wide == h("05 f1" + "ff" * 15 + "00" * 16 + "14" + "00" * 15)
    assert section(pa.array(rows, pa.decimal32(5, 1))) == wide
    assert section(pa.array(rows, pa.decimal64(5, 1))) == wide
    assert section(pa.array(rows, pa.decimal256(5, 1))) == wide


@pytest.mark.parametrize(
    ("dtype", "bits", "quiet"),
    [
        ("f2", [0x7C01, 0xFE00, 0xFFFF, 0x7DFF], "007e"),
        ("f4", [0x7F800001, 0xFFC00000, 0xFFFFFFFF], "0000c07f"),
        ("f8", [0x7FF0000000000001, 0xFFF8000000000000, 2**64 - 1], "000000000000f87f"),
    ],
)
def test_every_nan_is_one_and_its_source_stays(dtype: str, bits: list[int], quiet: str) -> None:
    values = np.array(bits, f"u{dtype[1]}").view(dtype)
    before = values.tobytes()
    array = pa.array(values)
    assert section(array)[2:] == quiet * len(bits)
    assert section(pa.array([list(values)], pa.list_(array.type)))[12:] == quiet * len(bits)
    assert values.tobytes() == before


def test_no_buffer_is_copied_when_nothing_is_null(monkeypatch: Any) -> None:
    array = pa.array(np.arange(100.0)).slice(3, 50)
    seen: list[int] = []
    monkeypatch.setattr(Sink, "write", lambda self, values: seen.append(values.ctypes.data))
    write_section(Sink("sha256", b""), [Rows(array)])
    assert seen[-1] == array.buffers()[1].address + 3 * 8


# -------------------------------------------------------------------------------------- runs and their parts


def spans(*pairs: tuple[int, int]) -> tuple[Any, Any]:
    starts, lengths = np.array(pairs, "i8").reshape(-1, 2).T
    return starts, lengths


@pytest.mark.parametrize(
    ("pairs", "run"),
    [
        ([], slice(0, 0)),
        ([(7, 0)], slice(0, 0)),
        ([(5, 2)], slice(5, 7)),
        ([(5, 2), (7, 1)], slice(5, 8)),
        ([(5, 2), (0, 0), (7, 1), (0, 0)], slice(5, 8)),
        ([(0, 0), (5, 2)], slice(5, 7)),
        ([(5, 2), (8, 1)], None),
        ([(5, 2), (6, 1)], None),
        ([(5, 2), (0, 0), (8, 1)], None),
        ([(7, 1), (5, 2)], None),
        ([(5, 2), (5, 2)], None),
    ],
)
def test_spans_that_follow_each_other_are_one_run(pairs: list[tuple[int, int]], run: slice | None) -> None:
    assert sections._one_run(*spans(*pairs)) == run


@pytest.mark.parametrize(
    ("lengths", "parts"),
    [
        ([], []),
        ([3], [(0, 1)]),
        ([10], [(0, 1)]),
        ([11], [(0, 1)]),
        ([5, 5], [(0, 2)]),
        ([5, 6], [(0, 1), (1, 2)]),
        ([11, 5, 5], [(0, 1), (1, 3)]),
        ([5, 11, 5], [(0, 1), (1, 2), (2, 3)]),
        ([1] * 25, [(0, 10), (10, 20), (20, 25)]),
        ([4, 4, 4, 4, 4], [(0, 2), (2, 4), (4, 5)]),
    ],
)
def test_parts_are_as_long_as_they_may(
    lengths: list[int], parts: list[tuple[int, int]], monkeypatch: Any
) -> None:
    assert sections._GATHER_BYTES == 1 << 22
    monkeypatch.setattr(sections, "_GATHER_BYTES", 10)
    found = [(part.start, part.stop) for part in sections._parts(np.array(lengths, "i8"))]
    assert found == parts


def test_values_are_joined_from_their_buffers() -> None:
    buffers = [np.frombuffer(b"abcdef", np.uint8), np.frombuffer(b"uvwxyz", np.uint8)]

    def joined(*rows: tuple[int, int, int]) -> bytes:
        source, starts, lengths = np.array(rows, "i8").T
        return sections._join(buffers, source, starts, lengths).tobytes()

    assert joined((1, 2, 3)) == b"wxy"
    assert joined((0, 1, 2), (1, 0, 1)) == b"bcu"
    assert joined((1, 3, 3), (0, 0, 1), (1, 0, 2)) == b"xyzauv"


@pytest.mark.parametrize(
    "index", [pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64()]
)
def test_indices_beyond_the_half_of_their_type(index: pa.DataType) -> None:
    values = [f"{number:03}" for number in range(256)]
    array = pa.DictionaryArray.from_arrays(pa.array([255, 128, 127, 0], index), pa.array(values))
    assert section(array) == section(pa.array(["255", "128", "127", "000"]))


@pytest.mark.parametrize(
    "kind",
    [pa.string(), pa.list_(pa.int8()), pa.int8(), pa.bool_(), pa.binary(3)],
    ids=str,
)
def test_no_rows_may_come_without_offsets_and_values(kind: pa.DataType) -> None:
    children = [pa.array([], pa.int8())] if pa.types.is_list(kind) else []
    buffers = [None, None, pa.py_buffer(b"")] if pa.types.is_string(kind) else [None, None]
    assert section(pa.Array.from_buffers(kind, 0, buffers, children=children)) == ""
