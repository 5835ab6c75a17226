"""What a partition may be, and the digests of its parts."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from provenance.core import digests
from provenance.core.partitions import File, is_table, measure, partition_name, rejection
from provenance.errors import ConfigError, MalformedError, Rejected

FRAME = pd.DataFrame({"a": [1, 2], "b": ["x", "y"]})


def only(data: Any, **more: Any) -> tuple[str, dict[str, str], int, int]:
    found = measure(data, 7, stage="clean", **more)
    (subject,) = found.subjects
    return subject.name, dict(subject.digest), found.rows, found.bytes


def test_a_frame_and_its_table_are_one() -> None:
    expected = digests.table1(FRAME)
    assert only(FRAME) == ("p00007", {"table1-sha256": expected.hex}, 2, expected.nbytes)
    assert only(pa.Table.from_pandas(FRAME)) == only(FRAME)


def test_arrays() -> None:
    assert only(np.zeros((3, 2)))[1:] == ({"array1-sha256": digests.array1(np.zeros((3, 2))).hex}, 3, 48)
    assert only(np.float32(1))[2] == 1


def test_bytes() -> None:
    assert only(b"abc")[1:] == ({"sha256": hashlib.sha256(b"abc").hexdigest()}, 1, 3)


def test_a_bag_is_a_table_of_one_column() -> None:
    assert only([1, 2, 3]) == only(pa.table({"item": [1, 2, 3]}))


def test_an_empty_bag_takes_the_declared_type() -> None:
    declared = pa.schema([("item", pa.int64())])
    assert only([], schema=declared)[1] == only(pa.table({"item": pa.array([], pa.int64())}))[1]


def test_undeclared_a_column_without_a_type_is_text() -> None:
    empty = pa.table({"a": pa.nulls(2)})
    assert only(empty)[1] == only(pa.table({"a": pa.array([None, None], pa.string())}))[1]


def test_blake3() -> None:
    assert set(only(FRAME, algorithm="blake3")[1]) == {"table1-blake3"}
    assert set(only([File("a", b"x")], algorithm="blake3")[1]) == {"blake3"}


def test_named_parts_in_the_order_of_their_names() -> None:
    found = measure({"y": np.arange(3), "x": FRAME}, 1)
    assert [subject.name for subject in found.subjects] == ["p00001/x", "p00001/y"]
    assert found.rows == 3
    assert found.bytes == digests.table1(FRAME).nbytes + 24
    assert measure({}, 1).subjects == ()


def test_files_are_parts_by_their_names_and_the_rejected_stay() -> None:
    items = [File("b", b"bytes"), File("a", np.arange(2)), File("c", None, rejected="silence")]
    found = measure(items, 0)
    assert [subject.name for subject in found.subjects] == ["b", "a", "c#rejected:silence"]
    assert found.subjects[0].digest == {"sha256": hashlib.sha256(b"bytes").hexdigest()}
    assert found.subjects[2].digest == {"sha256": hashlib.sha256(b"").hexdigest()}
    assert (found.rows, found.bytes) == (2, 5 + 16)


@pytest.mark.parametrize(
    "data", [None, 1, "text", (1, 2), {1, 2}, object(), [File("a", b""), 1], [File("a", "text")], {"a": None}]
)
def test_what_is_no_partition_is_refused(data: object) -> None:
    with pytest.raises(ConfigError, match="stage 'clean', partition 7") as refused:
        measure(data, 7, stage="clean")
    assert refused.value.reason == "partition-type"


@pytest.mark.parametrize("name", ["", "a/b", "..", ".a", "a b", 1, "é", "a" * 101])
def test_names_of_parts(name: Any) -> None:
    with pytest.raises(ConfigError) as refused:
        measure({name: np.arange(1)}, 0)
    assert refused.value.reason == "part-name"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ({f"a{n}": np.arange(1) for n in range(201)}, "subjects"),
        ([File(str(n), b"") for n in range(201)], "subjects"),
        ([File("a", b""), File("a", b"")], "duplicate-name"),
        (np.array(["text"]), "array-type"),
        (pd.DataFrame({"a": [object()]}), "python-object"),
    ],
)
def test_what_cannot_be_digested_names_stage_and_partition(data: object, reason: str) -> None:
    with pytest.raises(MalformedError, match="stage 'clean', partition 7") as refused:
        measure(data, 7, stage="clean")
    assert refused.value.reason == reason


def test_another_type_than_declared_is_an_error() -> None:
    with pytest.raises(MalformedError, match="partition 7, column 'a'"):
        measure(FRAME, 7, schema=pa.schema([("a", pa.string()), ("b", pa.string())]))


@pytest.mark.parametrize(
    ("reasons", "expected"),
    [(["", "x"], None), (["x", "x"], "x"), (["x", "y"], "several"), ([""], None), ([], None)],
)
def test_a_partition_without_usable_files_is_rejected(reasons: list[str], expected: str | None) -> None:
    assert rejection([File(str(n), b"", rejected=reason) for n, reason in enumerate(reasons)]) == expected


def test_other_data_is_not_rejected() -> None:
    assert rejection(FRAME) is rejection([1]) is rejection({}) is None


def test_a_file_shows_no_data_and_keeps_what_it_is() -> None:
    file = File("t" * 64, b"secret", "k", ".wav")
    assert "secret" not in repr(file)
    assert file.with_data(b"other") == File("t" * 64, b"other", "k", ".wav")
    assert file.reject(Rejected("silence")) == File("t" * 64, None, "k", ".wav", "silence")


def test_tables_are_told_from_other_data() -> None:
    assert is_table(FRAME)
    assert is_table(FRAME["a"])
    assert is_table(pa.table({}))
    assert not is_table([1])


def test_names_of_partitions() -> None:
    assert [partition_name(n) for n in (0, 99_999, 100_000)] == ["p00000", "p99999", "p100000"]


@pytest.mark.parametrize("reason", ["", "Silence", "a b", "-a", "a" * 65, "é"])
def test_reason_codes(reason: str) -> None:
    with pytest.raises(ConfigError):
        Rejected(reason)
