"""Write the digest cases that this project adds to the given ones: ``python tests/vectors/make_digests.py``.

A case that must fail has no digest but the reason for which it is refused. The Arrow streams are what one
pyarrow wrote: run again with another, the bytes may differ and the verdicts may not. So nothing compares the
files with what this writes; `provenance.testing.vectors` runs them.
"""

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from provenance.core.digests import array1, table1, type_string

HERE = Path(__file__).parent
Case = dict[str, Any]


def stream(table: pa.Table, *changes: tuple[bytes, bytes]) -> str:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    data = sink.getvalue().to_pybytes()
    for old, new in changes:
        if old not in data or len(old) != len(new):
            raise SystemExit(f"{old!r} is not there to be replaced")
        data = data.replace(old, new)
    return base64.b64encode(data).decode()


def right_table(name: str, table: pa.Table, note: str = "") -> Case:
    types = [type_string(field.type) for field in table.schema]
    return {"name": name, "note": note, "types": types, "ipc": stream(table), "digest": table1(table).hex}


def wrong_table(name: str, reason: str, table: pa.Table, *changes: tuple[bytes, bytes]) -> Case:
    return {"name": name, "ipc": stream(table, *changes), "digest": None, "reason": reason}


def odd_arrays() -> dict[str, tuple[str, pa.Array]]:
    tensor = pa.fixed_shape_tensor(pa.int8(), [1])
    ends = pa.array([1], pa.int32())
    twice = pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], names=["f", "f"])
    return {
        "extension": (
            "extension-type",
            pa.ExtensionArray.from_storage(tensor, pa.array([[1]], pa.list_(pa.int8(), 1))),
        ),
        "sparse-union": ("union-type", pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])])),
        "dense-union": (
            "union-type",
            pa.UnionArray.from_dense(pa.array([0], pa.int8()), pa.array([0], pa.int32()), [pa.array([1])]),
        ),
        "runs": ("run-end-type", pa.RunEndEncodedArray.from_arrays(ends, pa.array([1]))),
        "interval": ("interval-type", pa.array([pa.MonthDayNano([1, 2, 3])])),
        "field-twice": ("duplicate-field", twice),
    }


def nested(array: pa.Array) -> dict[str, pa.Array]:
    ends = pa.array([0, 1], pa.int32())
    return {
        "": array,
        "-in-list": pa.ListArray.from_arrays(ends, array),
        "-in-fixed": pa.FixedSizeListArray.from_arrays(array, 1),
        "-in-struct": pa.StructArray.from_arrays([array], ["x"]),
        "-in-map": pa.MapArray.from_arrays(ends, pa.array([1]), array),
    }


def wrong_tables() -> list[Case]:
    cases = [
        wrong_table(f"{name}{place}", reason, pa.table({"fine": [1], "c": array}))
        for name, (reason, odd) in odd_arrays().items()
        for place, array in nested(odd).items()
    ]
    one = pa.array([1])
    texts = pa.table({"c": ["abc", "def", "ghi"]})
    offsets = [np.array(values, "i4").tobytes() for values in ([0, 3, 6, 9], [0, 3, 6, 99], [0, 6, 3, 9])]
    coded = pa.table({"c": pa.array(["abcdefgh", "b"] * 8).dictionary_encode()})
    indices = [np.array(values, "i4").tobytes() for values in ([0, 1, 0, 1], [0, 2, 0, 1], [0, -1, 0, 1])]
    limbs = [np.array([5, 0, high, 0], "i8").tobytes() for high in (0, 1)]
    decimals = pa.table({"c": pa.Array.from_buffers(pa.decimal256(38, 0), 1, [None, pa.py_buffer(limbs[0])])})
    return [
        *cases,
        wrong_table("column-twice", "duplicate-column", pa.table([one, one], ["c", "c"])),
        wrong_table("column-twice-apart", "duplicate-column", pa.table([one, one, one], ["c", "d", "c"])),
        wrong_table(
            "column-name-not-utf8", "name-not-utf8", pa.table({"nameX": one}), (b"nameX", b"name\xff")
        ),
        wrong_table(
            "field-name-not-utf8",
            "name-not-utf8",
            pa.table({"c": pa.array([{"nameX": 1}])}),
            (b"nameX", b"name\xff"),
        ),
        wrong_table("offsets-beyond-the-data", "invalid-arrow", texts, (offsets[0], offsets[1])),
        wrong_table("offsets-go-backwards", "bad-offsets", texts, (offsets[0], offsets[2])),
        wrong_table("index-beyond-the-dictionary", "dictionary-index", coded, (indices[0], indices[1])),
        wrong_table("index-below-the-dictionary", "dictionary-index", coded, (indices[0], indices[2])),
        wrong_table("decimal-beyond-its-precision", "decimal-range", decimals, (limbs[0], limbs[1])),
    ]


def right_tables() -> list[Case]:
    halves = pa.array(np.array([1, np.nan, -0.0], "f2"))
    fixed = pa.array([[{"a": 1}], None, [None]], pa.list_(pa.struct({"a": pa.int8()}), 1))
    views = pa.array(["a", None, "more than twelve bytes", ""], pa.string_view())
    lists = pa.array([[1], None, [], [2, None]], pa.large_list_view(pa.int16()))
    return [
        right_table("f16", pa.table({"c": halves})),
        right_table("fixed-of-struct", pa.table({"c": fixed}), "a null row gives N null structs"),
        right_table("utf8-view", pa.table({"c": views})),
        right_table("large-list-view", pa.table({"c": lists})),
        right_table("rows-without-columns", pa.table({"c": [1, 2]}).select([]), "rows count"),
        right_table(
            "odd-names", pa.table({"": pa.array([{'q"\\\n\x7fé': None}])}), "names as RFC 8785 strings"
        ),
        right_table(
            "dec-39", pa.table({"c": pa.array([None], pa.decimal256(39, -1))}), "32 bytes above 38 digits"
        ),
    ]


def right_array(name: str, array: np.ndarray, order: str = "C") -> Case:
    values = np.ascontiguousarray(array).tobytes().hex()
    case = {"name": name, "dtype": array.dtype.str, "shape": list(array.shape), "order": order, "hex": values}
    return case | {"digest": array1(array).hex}


def wrong_array(dtype: str) -> Case:
    size = np.dtype(dtype).itemsize
    case = {"name": f"refused-{dtype}", "dtype": dtype, "shape": [2], "order": "C", "hex": "00" * 2 * size}
    return case | {"digest": None, "reason": "array-type"}


WRONG_DTYPES = [
    "<M8[s]",
    "<M8[ns]",
    "<m8[us]",
    "|S3",
    "<U2",
    "|V5",
    ">M8[s]",
    "<i4,<f4",
    "|S1",
    "|V1",
    ">U1",
    "<m8",
]


def array_cases() -> list[Case]:
    right = [
        right_array("f16-nan-big-endian", np.array([[1, np.nan], [-0.0, 2]], ">f2")),
        right_array("bool-of-255", np.array([0, 1, 255], "u1").view("?")),
    ]
    return right + [wrong_array(dtype) for dtype in WRONG_DTYPES]


def main() -> None:
    for name, cases in (("table-1-more", right_tables() + wrong_tables()), ("array-1-more", array_cases())):
        text = json.dumps(cases, indent=1, ensure_ascii=False)
        (HERE / f"{name}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
