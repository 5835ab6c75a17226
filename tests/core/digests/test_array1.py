"""array1: memory order and byte order do not count, shape, type and every value do."""

from __future__ import annotations

import hashlib
import json
import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from provenance.core.digests import array1, arrays
from provenance.errors import ConfigError, MalformedError
from tests.core.digests import reference

VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "array-1.json").read_text())
TYPES = {
    "b1": "bool", "i1": "i8", "i2": "i16", "i4": "i32", "i8": "i64", "u1": "u8", "u2": "u16", "u4": "u32",
    "u8": "u64", "f2": "f16", "f4": "f32", "f8": "f64", "c8": "c64", "c16": "c128",
}  # fmt: skip
RULE = re.compile(r"numpy\.arange\((\d+), dtype='([<>|]?\w+)'\)")


def vector_array(case: dict[str, Any]) -> np.ndarray:
    if "rule" in case:
        count, dtype = RULE.fullmatch(case["rule"]).groups()
        return np.arange(int(count), dtype=dtype).reshape(case["shape"])
    flat = np.frombuffer(bytes.fromhex(case["hex"]), case["dtype"])
    return np.array(flat.reshape(case["shape"]), order=case["order"])


@pytest.mark.parametrize("case", VECTORS, ids=lambda case: case["name"])
def test_vectors(case: dict[str, Any]) -> None:
    array = vector_array(case)
    digest = array1(array)
    assert digest.hex == case["digest"]
    assert digest.kind == "array1-sha256"
    assert (digest.shape, digest.nbytes) == (tuple(case["shape"]), array.nbytes)
    kind = TYPES[array.dtype.str[1:]]
    assert digest.type == kind
    assert array1(array, threads=3) == digest
    if array.size < 10_000:
        assert reference.array1(array, kind) == case["digest"]


def some_arrays() -> st.SearchStrategy[np.ndarray]:
    dtypes = st.sampled_from([order + name for name in TYPES for order in "<>"])
    shapes = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5)
    return hnp.arrays(dtypes.map(np.dtype), shapes)


@given(some_arrays(), st.sampled_from(["sha256", "blake3"]))
def test_the_reference_agrees(array: np.ndarray, algorithm: str) -> None:
    kind = TYPES[array.dtype.str[1:]]
    digest = array1(array, algorithm=algorithm)
    assert str(digest) == f"array1-{algorithm}:{reference.array1(array, kind, algorithm=algorithm)}"


@given(some_arrays(), st.data())
def test_layout_does_not_count(array: np.ndarray, data: st.DataObject) -> None:
    expected = array1(array)
    axes = data.draw(st.permutations(range(array.ndim)))
    moved = np.ascontiguousarray(array.transpose(axes)).transpose(np.argsort(axes)) if axes else array
    wide = np.zeros(tuple(2 * side for side in array.shape), array.dtype)
    strided = wide[(*(slice(None, None, 2) for _ in array.shape), ...)]
    strided[...] = array
    flipped = array[::-1].copy()[::-1] if array.ndim else array
    swapped = array.astype(array.dtype.newbyteorder())
    fortran = np.array(array, order="F")
    for other in (moved, strided, flipped, swapped, fortran):
        assert array1(other) == expected


@given(some_arrays(), st.data())
def test_every_value_counts(array: np.ndarray, data: st.DataObject) -> None:
    assume(array.size)
    place = data.draw(st.integers(0, array.size - 1))
    kind = TYPES[array.dtype.str[1:]]
    other = array.copy()
    other.reshape(-1)[place] = data.draw(hnp.from_dtype(array.dtype))
    old, new = (reference.number(a.reshape(-1)[place], kind) for a in (array, other))
    assert (array1(array) == array1(other)) == (old == new)


@pytest.mark.parametrize("dtype", TYPES)
def test_framing_by_hand(dtype: str) -> None:
    array = np.zeros((2, 0, 3), dtype)
    kind = TYPES[dtype].encode()
    head = b"\x22array-1" + struct.pack("<I", len(kind)) + kind + struct.pack("<IQQQ", 3, 2, 0, 3)
    digest = array1(array)
    assert digest.value == hashlib.sha256(head).digest()
    assert digest.blocks == ()


def test_a_block_by_hand() -> None:
    block = hashlib.sha256(b"\x20" + struct.pack("<hh", 1, -2)).digest()
    digest = array1(np.array([1, -2], ">i2"))
    assert digest.blocks == (block,)
    assert (
        digest.value == hashlib.sha256(b"\x22array-1\3\0\0\0i16" + struct.pack("<IQ", 1, 2) + block).digest()
    )


@pytest.mark.parametrize("dtype", ["i1", "f4", "c16"])
@pytest.mark.parametrize("extra", [-1, 0, 1])
@pytest.mark.parametrize("layout", ["contiguous", "strided", "fortran"])
def test_blocks_end_at_every_mebibyte(dtype: str, extra: int, layout: str) -> None:
    count = 2 * (2**20 // np.dtype(dtype).itemsize) + extra
    values = (np.arange(count) % 120).astype(dtype)
    array = values
    if layout == "strided":
        array = np.repeat(values, 2)[::2]
    elif layout == "fortran":
        array = np.asfortranarray(np.stack([values, values], axis=1))[:, :1]
    raw = values.tobytes()
    expected = [hashlib.sha256(b"\x20" + raw[at : at + 2**20]).digest() for at in range(0, len(raw), 2**20)]
    assert array1(array).blocks == tuple(expected)
    assert array1(array, threads=2).blocks == tuple(expected)


@pytest.mark.parametrize("slab", [16, 48, 100, 4096])
def test_a_scattered_array_is_taken_in_slabs(slab: int, monkeypatch: Any) -> None:
    array = np.asfortranarray(np.arange(7 * 5 * 3, dtype="f8").reshape(7, 5, 3))
    expected = array1(np.ascontiguousarray(array))
    monkeypatch.setattr(arrays, "_SLAB_BYTES", slab)
    assert array1(array) == expected
    slabs = list(arrays._slabs(array))
    assert all(part.flags.c_contiguous and part.ndim == 1 for part in slabs)
    assert max(part.nbytes for part in slabs) <= slab
    assert b"".join(slabs) == array.tobytes()


def test_a_scattered_array_is_regrouped_into_blocks(monkeypatch: Any) -> None:
    monkeypatch.setattr(arrays, "BLOCK_BYTES", 64)
    monkeypatch.setattr(arrays, "_SLAB_BYTES", 56)
    array = np.asfortranarray(np.arange(11 * 7, dtype="i4").reshape(11, 7))
    raw = np.ascontiguousarray(array).tobytes()
    expected = [hashlib.sha256(b"\x20" + raw[at : at + 64]).digest() for at in range(0, len(raw), 64)]
    assert array1(array).blocks == tuple(expected)
    assert array1(np.ascontiguousarray(array)).blocks == tuple(expected)


def test_a_changed_value_is_told_by_its_block() -> None:
    array = np.zeros(700_000, "f4")
    other = array.copy()
    other[400_000] = 1
    pairs = zip(array1(array).blocks, array1(other).blocks, strict=True)
    assert [one != two for one, two in pairs] == [False, True, False]


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ">f2", ">f4", ">f8"])
def test_every_nan_is_one_in_any_byte_order(dtype: str) -> None:
    quiet = np.array([np.nan, 1.0], dtype)
    signed = -quiet
    signed[1] = 1.0
    assert quiet.tobytes() != signed.tobytes()
    assert array1(quiet) == array1(signed)
    before = signed.tobytes()
    array1(signed)
    assert signed.tobytes() == before


def test_zero_has_a_sign() -> None:
    assert array1(np.array([0.0])) != array1(np.array([-0.0]))


def test_nan_in_either_part_of_a_complex() -> None:
    raw = np.array([[-np.nan, 1.0], [1.0, -np.nan]])
    assert array1(raw.view("c16")) == array1(np.array([[np.nan, 1.0], [1.0, np.nan]]).view("c16"))
    assert array1(raw[:1].view("c16")) != array1(raw[1:].view("c16"))


def test_any_byte_of_a_bool_but_zero_is_one() -> None:
    odd = np.array([0, 1, 2, 255], "u1").view("?")
    assert array1(odd) == array1(np.array([False, True, True, True]))
    assert array1(odd[::-1]) == array1(np.array([True, True, True, False]))


def test_shape_and_type_count() -> None:
    zeros = np.zeros(6, "i4")
    forms = [
        zeros,
        zeros.reshape(2, 3),
        zeros.reshape(3, 2),
        zeros.reshape(6, 1),
        zeros.view("u4"),
        zeros.view("f4"),
    ]
    assert len({array1(form).hex for form in forms}) == len(forms)


def test_a_scalar_is_its_zero_dimensional_array() -> None:
    assert array1(np.float32(1.5)) == array1(np.array(1.5, "f4"))
    assert array1(np.float32(1.5)).shape == ()


def test_platform_names_of_types_do_not_count() -> None:
    assert array1(np.zeros(3, np.longlong)) == array1(np.zeros(3, np.int64))


def test_subclasses_are_plain_arrays(tmp_path: Path) -> None:
    array = np.arange(10.0)
    array.tofile(tmp_path / "x")
    assert array1(np.memmap(tmp_path / "x", "f8", "r")) == array1(array)


OTHERS = ["O", "S3", "U3", "V4", "M8[s]", "m8[ns]", "datetime64", "i4,f4", "(2,)i4,i4"]
if np.dtype(np.longdouble) != np.dtype(float):
    OTHERS += ["longdouble", "clongdouble"]


@pytest.mark.parametrize("dtype", OTHERS)
def test_other_types_are_refused(dtype: str) -> None:
    with pytest.raises(MalformedError) as caught:
        array1(np.zeros(2, dtype))
    assert caught.value.reason == "array-type"
    assert str(np.dtype(dtype)) in caught.value.message


def test_variable_width_strings_are_refused() -> None:
    with pytest.raises(MalformedError) as caught:
        array1(np.array(["a"], np.dtypes.StringDType()))
    assert caught.value.reason == "array-type"


def test_masked_arrays_are_refused() -> None:
    with pytest.raises(MalformedError) as caught:
        array1(np.ma.array([1, 2], mask=[False, True]))
    assert caught.value.reason == "masked-array"


@pytest.mark.parametrize("thing", [[1, 2], 1.5, b"ab", None, memoryview(b"ab")])
def test_what_is_no_array_is_refused(thing: Any) -> None:
    with pytest.raises(ConfigError, match="no NumPy array"):
        array1(thing)


@pytest.mark.parametrize("array", [np.zeros(3), np.zeros((3, 4))[:, ::2]], ids=["plain", "scattered"])
def test_wrong_use_is_refused(array: np.ndarray) -> None:
    with pytest.raises(ConfigError, match="unknown hash"):
        array1(array, algorithm="sha1")
    with pytest.raises(ConfigError, match="threads"):
        array1(array, threads=0)
