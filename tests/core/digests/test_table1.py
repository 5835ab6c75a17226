"""table1: its framing, its parts, what it takes and what it refuses."""

from __future__ import annotations

import base64
import hashlib
import json
import struct
from pathlib import Path
from typing import Any

import blake3
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from provenance.core.digests import Digest, bag_table, table1, table1_bag, tables
from provenance.core.digests.tables import MAX_THREADS
from provenance.errors import ConfigError, MalformedError
from tests.core.digests import reference

VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "table-1.json").read_text())


def vector_table(case: dict[str, Any]) -> pa.Table:
    return pa.ipc.open_stream(base64.b64decode(case["ipc"])).read_all()


@pytest.mark.parametrize("case", VECTORS, ids=lambda case: case["name"])
def test_vectors(case: dict[str, Any]) -> None:
    digest = table1(vector_table(case))
    assert digest.hex == case["digest"]
    assert [column.type for column in digest.columns] == case["types"]


@pytest.mark.parametrize("case", VECTORS[:-1], ids=lambda case: case["name"])
def test_vectors_of_the_reference(case: dict[str, Any]) -> None:
    assert reference.table1(vector_table(case)) == case["digest"]


def test_framing_by_hand() -> None:
    table = pa.table({"n": pa.array([1, None], pa.int8()), "é": ["x", ""]})
    block_n = hashlib.sha256(b"\x10" + b"\x01" + b"\x01\x00").digest()
    block_e = hashlib.sha256(b"\x10" + b"\x03" + struct.pack("<II", 1, 0) + b"x").digest()
    rows = struct.pack("<Q", 2)
    column_n = hashlib.sha256(b"\x11\x01\0\0\0n\x02\0\0\0i8" + rows + block_n).digest()
    column_e = hashlib.sha256(b"\x11\x02\0\0\0\xc3\xa9\x04\0\0\0utf8" + rows + block_e).digest()
    whole = hashlib.sha256(b"\x12table-1" + rows + b"\x02\0\0\0" + column_n + column_e).digest()
    digest = table1(table)
    assert digest.value == whole
    assert digest.kind == "table1-sha256"
    assert (digest.rows, digest.nbytes) == (2, 3 + 10)
    assert digest.columns[0].value == column_n
    assert [(column.name, column.type) for column in digest.columns] == [("n", "i8"), ("é", "utf8")]
    assert digest.columns[0].blocks == (block_n,)
    assert digest.columns[1].blocks == (block_e,)
    assert digest.columns[1].value == column_e


def test_blocks_of_65536_rows_from_any_chunks() -> None:
    values = np.arange(140_000, dtype="i4")
    chunked = pa.chunked_array([values[:10], values[10:70_000], values[70_000:]])
    digest = table1(pa.table({"c": chunked}))
    parts = (values[:65_536], values[65_536:131_072], values[131_072:])
    expected = tuple(
        hashlib.sha256(b"\x10" + reference.bits([True] * len(part)) + part.tobytes()).digest()
        for part in parts
    )
    assert digest.columns[0].blocks == expected
    assert digest.nbytes == 140_000 * 4 + 8192 * 2 + 1116


@pytest.mark.parametrize(
    ("rows", "blocks"), [(0, 0), (1, 1), (65_535, 1), (65_536, 1), (65_537, 2), (131_072, 2)]
)
def test_number_of_blocks(rows: int, blocks: int) -> None:
    digest = table1(pa.table({"a": pa.nulls(rows), "b": pa.nulls(rows)}))
    assert [len(column.blocks) for column in digest.columns] == [blocks, blocks]
    assert digest.nbytes == 0


def test_a_changed_cell_is_told_by_column_and_block() -> None:
    values = np.zeros(200_000, "i8")
    before = table1(pa.table({"a": values, "b": values}))
    changed = values.copy()
    changed[70_000] = 1
    after = table1(pa.table({"a": values, "b": changed}))
    assert before != after
    assert before.columns[0] == after.columns[0]
    differ = [
        one != other for one, other in zip(before.columns[1].blocks, after.columns[1].blocks, strict=True)
    ]
    assert differ == [False, True, False, False]


def test_blake3_names_the_same_layout() -> None:
    table = pa.table({"a": [1, 2]})
    digest = table1(table, algorithm="blake3")
    assert str(digest) == f"table1-blake3:{reference.table1(table, algorithm='blake3')}"
    block = blake3.blake3(b"\x10\x03" + struct.pack("<qq", 1, 2)).digest()
    assert digest.columns[0].blocks == (block,)


def test_rows_count_without_columns() -> None:
    none = pa.table({"a": [1, 2]}).select([])
    assert none.num_rows == 2
    head = b"\x12table-1" + struct.pack("<QI", 2, 0)
    assert table1(none).value == hashlib.sha256(head).digest()
    assert table1(none) != table1(pa.table({}))


def test_a_record_batch_is_its_table() -> None:
    batch = pa.record_batch({"a": [1, 2, None]})
    assert table1(batch) == table1(pa.table({"a": [1, 2, None]}))


@pytest.mark.parametrize("threads", [1, 2, 3, MAX_THREADS])
def test_threads_share_one_partition(threads: int) -> None:
    table = pa.table({"a": np.arange(300_000), "b": np.arange(300_000).astype("f4"), "c": ["x"] * 300_000})
    one, many = table1(table), table1(table, threads=threads)
    assert (one.value, one.columns, one.nbytes) == (many.value, many.columns, many.nbytes)


def test_threads_are_started_only_where_they_help(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[int] = []
    real = tables.ThreadPoolExecutor

    def pool(threads: int, name: str) -> Any:
        started.append(threads)
        return real(threads, name)

    monkeypatch.setattr(tables, "ThreadPoolExecutor", pool)
    one, two = pa.table({"a": [1]}), pa.table({"a": [1], "b": [2]})
    for table, threads, expected in (
        (one, 4, []),
        (two, 1, []),
        (two, 2, [2]),
        (two, 4, [2]),
        (one[:0], 4, []),
    ):
        table1(table, threads=threads)
        assert started == expected
        started.clear()
    table1(two)
    table1_bag([{"a": 1}] * 70_000)
    assert started == []
    table1_bag([{"a": 1}] * 70_000, threads=2)
    assert started == [2]


@pytest.mark.parametrize("threads", [0, -1, MAX_THREADS + 1])
def test_a_silly_number_of_threads_is_refused(threads: int) -> None:
    assert MAX_THREADS == 256
    with pytest.raises(ConfigError, match="threads"):
        table1(pa.table({"a": [1]}), threads=threads)


@pytest.mark.parametrize("algorithm", ["md5", "SHA256", "", "sha-256"])
def test_an_unknown_hash_is_refused(algorithm: str) -> None:
    with pytest.raises(ConfigError, match="unknown hash"):
        table1(pa.table({}), algorithm=algorithm)


@pytest.mark.parametrize("thing", [[1], {"a": [1]}, "x.parquet", np.zeros(3), None, pa.array([1])])
def test_what_is_no_table_is_refused(thing: Any) -> None:
    with pytest.raises(ConfigError, match="no table"):
        table1(thing)


def extension(storage: pa.Array) -> pa.Array:
    return pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(pa.int8(), [1]), storage)


TENSORS = extension(pa.array([[1]], pa.list_(pa.int8(), 1)))
UNION = pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])])
DENSE = pa.UnionArray.from_dense(pa.array([0], pa.int8()), pa.array([0], pa.int32()), [pa.array([1])])
RUNS = pa.RunEndEncodedArray.from_arrays([1], [1])
INTERVAL = pa.array([pa.MonthDayNano([1, 2, 3])])
TWICE = pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], names=["f", "f"])

REFUSED = {
    "extension": (TENSORS, "extension-type"),
    "sparse-union": (UNION, "union-type"),
    "dense-union": (DENSE, "union-type"),
    "run-end-encoded": (RUNS, "run-end-type"),
    "interval": (INTERVAL, "interval-type"),
    "field-twice": (TWICE, "duplicate-field"),
}


def wrapped(array: pa.Array) -> dict[str, pa.Array]:
    ends = pa.array([0, 1], pa.int32())
    return {
        "bare": array,
        "in-list": pa.ListArray.from_arrays(ends, array),
        "in-fixed": pa.FixedSizeListArray.from_arrays(array, 1),
        "in-struct": pa.StructArray.from_arrays([array], ["x"]),
        "in-map": pa.MapArray.from_arrays(ends, pa.array([1]), array),
        "in-list-of-struct": pa.ListArray.from_arrays(ends, pa.StructArray.from_arrays([array], ["x"])),
        "in-dictionary": pa.DictionaryArray.from_arrays(pa.array([0], pa.int8()), array),
    }


@pytest.mark.parametrize("where", list(wrapped(pa.array([1]))))
@pytest.mark.parametrize("name", REFUSED)
def test_types_without_a_digest_are_refused_at_any_depth_by_column(name: str, where: str) -> None:
    array, reason = REFUSED[name]
    table = pa.table([pa.array([1]), wrapped(array)[where]], ["fine", "odd"])
    with pytest.raises(MalformedError) as caught:
        table1(table)
    assert caught.value.reason == reason
    assert "'odd'" in caught.value.message
    assert caught.value.remedy or reason == "duplicate-field"


def test_two_columns_of_one_name_are_refused() -> None:
    with pytest.raises(MalformedError, match="'a'") as caught:
        table1(pa.table([[1], [2], [3]], ["b", "a", "a"]))
    assert caught.value.reason == "duplicate-column"
    assert table1(pa.table([[1], [2]], ["a", "A"])).columns[1].name == "A"


def as_read(table: pa.Table, old: bytes, new: bytes) -> pa.Table:
    """The table as read from a stream with some bytes changed; pyarrow itself makes no such table."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    data = sink.getvalue().to_pybytes()
    assert old in data
    return pa.ipc.open_stream(data.replace(old, new)).read_all()


def test_damaged_arrays_are_refused() -> None:
    right, wrong = (np.array([0, 3, 6, last], "i4").tobytes() for last in (9, 99))
    table = as_read(pa.table({"c": ["abc", "def", "ghi"]}), right, wrong)
    with pytest.raises(MalformedError) as caught:
        table1(table)
    assert caught.value.reason == "invalid-arrow"


def test_an_error_in_a_block_names_the_column() -> None:
    indices = pa.array([9], pa.int8())
    array = pa.DictionaryArray.from_arrays(indices, pa.array(["a"]), safe=False)
    with pytest.raises(MalformedError, match="column 'second'") as caught:
        table1(pa.table({"first": [1], "second": array}), threads=2)
    assert caught.value.reason == "dictionary-index"


def test_a_name_that_is_not_utf8_is_refused() -> None:
    broken = as_read(pa.table({"nameX": [1]}), b"nameX", b"name\xff")
    with pytest.raises(MalformedError) as caught:
        table1(broken)
    assert caught.value.reason == "name-not-utf8"


def test_a_field_name_that_is_not_utf8_is_refused() -> None:
    table = pa.table({"c": pa.array([{"nameX": 1}])})
    with pytest.raises(MalformedError, match="'c'") as caught:
        table1(as_read(table, b"nameX", b"name\xff"))
    assert caught.value.reason == "name-not-utf8"


# ------------------------------------------------------------------------------------------------------ bags


def test_a_bag_keeps_keys_that_the_first_item_lacks_and_its_nan() -> None:
    items = [{"a": 1}, {"a": 2, "b": "x"}]
    expected = pa.table({"item": pa.array(items, pa.struct({"a": pa.int64(), "b": pa.string()}))})
    assert table1_bag(items) == table1(expected)
    assert table1_bag(items, algorithm="blake3", threads=2) == table1(expected, algorithm="blake3")
    assert table1_bag([float("nan")]) != table1_bag([None])
    assert table1_bag([float("nan")]).columns[0].type == "f64"


def test_an_empty_bag_has_one_column_of_nulls() -> None:
    assert [(column.name, column.type) for column in table1_bag([]).columns] == [("item", "null")]
    assert bag_table([]).num_rows == 0


@pytest.mark.parametrize("items", [[1, "a"], [object()], [2**70], [{1: 2}], [1 + 2j], [np.zeros(2, ">i4")]])
def test_items_without_a_type_are_refused(items: list[Any]) -> None:
    with pytest.raises(MalformedError, match="'item'") as caught:
        table1_bag(items)
    assert caught.value.reason == "python-object"


def test_a_series_and_a_frame_are_tables() -> None:
    frame = pd.DataFrame({"a": [1, 2]})
    assert table1(frame) == table1(pa.table({"a": [1, 2]}))
    assert table1(frame["a"]) == table1(frame)
    assert isinstance(table1(frame), Digest)
