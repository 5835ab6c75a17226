"""Which digest is taken of what, and the check of one line of a list."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from provenance.core.digests import Digest, FileBytes, TreeEntry, array1, bytes1, table1, tree1
from provenance.errors import ConfigError, MalformedError
from provenance.services.digesting import check, digest

TABLE = pa.table({"a": [1, 2]})
ARRAY = np.arange(3)
ENTRIES = (TreeEntry("x", 1, bytes(32)),)


class Shelf:
    """A reader of fixed contents that remembers what it was asked."""

    def __init__(self, content: Any = None) -> None:
        self.content = content
        self.asked: list[tuple[Path, str | None, int]] = []

    def __call__(self, path: Path, kind: str | None, *, threads: int = 1) -> Any:
        self.asked.append((path, kind, threads))
        return self.content


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (TABLE, table1(TABLE)),
        (ARRAY, array1(ARRAY)),
        (ENTRIES, tree1(ENTRIES)),
        (FileBytes([b"ab", b"c"]), bytes1([b"abc"])),
    ],
    ids=["table", "array", "tree", "bytes"],
)
def test_a_path_has_the_digest_of_what_it_holds(content: Any, expected: Digest) -> None:
    shelf = Shelf(content)
    assert (
        digest("some/where", read=shelf, kind="sha256" if expected.kind == "sha256" else None, threads=3)
        == expected
    )
    assert shelf.asked == [(Path("some/where"), "sha256" if expected.kind == "sha256" else None, 3)]


@pytest.mark.parametrize(
    "thing", [TABLE, TABLE.to_batches()[0], pd.DataFrame({"a": [1, 2]}), pd.Series([1, 2], name="a")]
)
def test_things_in_memory_are_not_read(thing: Any) -> None:
    shelf = Shelf()
    assert digest(thing, read=shelf) == digest(thing, read=shelf, kind="table1") == table1(TABLE)
    assert digest(thing, read=shelf, algorithm="blake3") == table1(TABLE, algorithm="blake3")
    assert shelf.asked == []


def test_arrays_scalars_and_their_algorithm() -> None:
    assert digest(ARRAY, read=Shelf()) == array1(ARRAY)
    assert digest(np.float32(1), read=Shelf(), kind="array1") == array1(np.float32(1))
    assert digest(ARRAY, read=Shelf(), algorithm="blake3") == array1(ARRAY, algorithm="blake3")
    with pytest.raises(MalformedError, match="masked"):
        digest(np.ma.array([1]), read=Shelf())


@pytest.mark.parametrize(
    ("thing", "kind"),
    [
        (TABLE, "array1"),
        (TABLE, "tree1"),
        (TABLE, "sha256"),
        (ARRAY, "table1"),
        (ARRAY, "sha256"),
        (TABLE, "table-1"),
    ],
)
def test_a_digest_that_a_thing_has_not_is_refused(thing: Any, kind: str) -> None:
    with pytest.raises(ConfigError) as caught:
        digest(thing, read=Shelf(), kind=kind)
    assert caught.value.reason == "digest-kind"


def test_a_tree_has_no_blake3() -> None:
    with pytest.raises(ConfigError, match="tree1-blake3"):
        digest(Path("d"), read=Shelf(ENTRIES), algorithm="blake3")


@pytest.mark.parametrize("thing", [[1, 2], {"a": 1}, 5, None, b"path"])
def test_other_things_are_refused(thing: Any) -> None:
    with pytest.raises(ConfigError, match="is no table"):
        digest(thing, read=Shelf())


def test_what_is_wrong_with_the_content_is_told_with_the_path() -> None:
    twice = pa.table([[1], [2]], ["a", "a"])
    with pytest.raises(MalformedError, match=r"^f\\xff.csv: two columns are named 'a'") as caught:
        digest("f\udcff.csv", read=Shelf(twice))
    assert caught.value.reason == "duplicate-column"
    assert caught.value.remedy
    with pytest.raises(MalformedError, match=r"^two columns"):
        digest(twice, read=Shelf())


def test_an_error_that_names_the_path_is_left_alone() -> None:
    def chunks() -> Any:
        raise MalformedError("some/where: expected a regular file", reason="not-a-file")
        yield b""

    with pytest.raises(MalformedError) as caught:
        digest("some/where", read=Shelf(FileBytes(chunks())))
    assert caught.value.message == "some/where: expected a regular file"


@pytest.mark.parametrize(
    ("kind", "asked"),
    [
        ("sha256", ("sha256", "sha256")),
        ("blake3", ("sha256", "blake3")),
        ("tree1-sha256", ("tree1", "sha256")),
        ("table1-blake3", ("table1", "blake3")),
        ("array1-sha256", ("array1", "sha256")),
    ],
)
def test_a_list_says_which_digest_to_take(kind: str, asked: tuple[str, str]) -> None:
    expected = Digest(kind, bytes(32))
    seen = []

    def take(wanted: str, algorithm: str) -> Digest:
        seen.append((wanted, algorithm))
        return Digest(kind, bytes(32), nbytes=7)

    outcome = check(expected, take)
    assert seen == [asked]
    assert outcome.holds
    assert outcome.error is None
    assert not check(expected, lambda *_: Digest(kind, bytes([1]) * 32)).holds


def test_an_error_is_an_outcome() -> None:
    def gone(kind: str, algorithm: str) -> Digest:
        raise ConfigError("x: there is no such file", reason="no-such-file")

    outcome = check(Digest("sha256", bytes(32)), gone)
    assert not outcome.holds
    assert outcome.actual is None
    assert outcome.error is not None
    assert outcome.error.reason == "no-such-file"
