"""tree1: an RFC 6962 tree over a directory's files, and the names that it refuses."""

from __future__ import annotations

import hashlib
import struct
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provenance.core import merkle
from provenance.core.digests import TreeEntry, tree1, tree_leaf, tree_order
from provenance.errors import MalformedError
from tests.core.digests import reference

if TYPE_CHECKING:
    import random

PARTS = st.text("abc é雪", min_size=1, max_size=3)


def entry(path: str, data: bytes = b"") -> TreeEntry:
    return TreeEntry(path, len(data), hashlib.sha256(data).digest())


def of(files: dict[str, bytes]) -> str:
    return tree1([entry(path, data) for path, data in files.items()]).hex


def test_the_empty_tree() -> None:
    assert str(tree1([])) == "tree1-sha256:" + hashlib.sha256(b"").hexdigest()


def test_two_files_by_hand() -> None:
    data = hashlib.sha256(b"data").digest()
    one = struct.pack("<I", 1) + b"a" + struct.pack("<Q", 4) + data
    two = struct.pack("<I", 3) + b"b/c" + struct.pack("<Q", 4) + data
    nodes = b"".join(hashlib.sha256(b"\0" + leaf).digest() for leaf in (one, two))
    digest = tree1([entry("b/c", b"data"), entry("a", b"data")])
    assert digest.value == hashlib.sha256(b"\1" + nodes).digest()
    assert digest.nbytes == 8
    assert [item.path for item in digest.entries] == ["a", "b/c"]
    assert tree_leaf(entry("a", b"data")) == one


@given(st.dictionaries(PARTS.map("f{}".format), st.binary(max_size=3), max_size=9), st.randoms())
def test_the_reference_agrees_in_any_order(files: dict[str, bytes], chance: random.Random) -> None:
    items = list(files.items())
    chance.shuffle(items)
    assert of(dict(items)) == reference.tree1(files)


def test_order_is_that_of_utf8_bytes() -> None:
    paths = ["a.b", "a/b", "ab", "a-b", "é", "z", "\U0001f600", "\uffee"]
    ordered = [item.path for item in tree_order(map(entry, paths))]
    assert ordered == sorted(paths, key=lambda path: path.encode())
    assert ordered != sorted(paths, key=lambda path: path.encode("utf-16-be"))


def test_paths_count_in_nfc() -> None:
    assert of({"e\u0301/x": b""}) == of({"\u00e9/x": b""}) == reference.tree1({"e\u0301/x": b""})
    assert tree1([entry("e\u0301")]).entries[0].path == "\u00e9"


def test_one_member_can_be_proved_alone() -> None:
    digest = tree1(map(entry, ["a", "b", "c"]))
    hashes = [merkle.leaf_hash(tree_leaf(item)) for item in digest.entries]
    assert digest.value == merkle.root(hashes)


@pytest.mark.parametrize(
    "change", [{"a": b"y"}, {"b": b"x"}, {"a": b""}, {"a": b"x", "b": b""}, {"d/a": b"x"}, {}]
)
def test_everything_counts(change: dict[str, bytes]) -> None:
    assert of(change) != of({"a": b"x"})


def test_size_counts_beside_the_hash() -> None:
    one = TreeEntry("a", 1, bytes(32))
    assert tree1([one]) != tree1([TreeEntry("a", 2, bytes(32))])


@pytest.mark.parametrize(
    "paths",
    [
        ("a", "a"),
        ("a", "A"),
        ("A/x", "a/y"),
        ("d/A/x", "d/a/y"),
        ("a/b/c", "A/b/d"),
        ("a", "a/b"),
        ("a/b", "a"),
        ("a/b", "A"),
        ("A", "a/b"),
        ("\u00e9", "e\u0301"),
        ("\u00e9/x", "e\u0301/y"),
        ("\u00e9", "E\u0301"),
        ("stra\u00dfe", "STRASSE"),
        ("\u03c3", "\u03c2"),
        ("\ufb01", "fi"),
        ("\u212a", "k"),
        ("\u01f0", "J\u030c"),
        ("\u0390", "\u03aa\u0301"),
        ("x", "a", "b/y", "b/X", "B/z"),
    ],
)
def test_paths_that_fall_together_are_refused(paths: tuple[str, ...]) -> None:
    with pytest.raises(MalformedError) as caught:
        tree1(map(entry, paths))
    assert caught.value.reason == "tree-collision"
    assert caught.value.remedy


@pytest.mark.parametrize(
    "paths",
    [
        ("a", "b"),
        ("a/x", "a/y"),
        ("a/x", "b/x"),
        ("a", "a.b", "a-b", "ab"),
        ("a/b", "a b"),
        ("\u0131", "i"),
        ("d/x", "e/x", "d/y"),
        ("\uff41", "a"),
        ("a\\b", "a/b"),
    ],
)
def test_paths_that_stay_apart_are_not(paths: tuple[str, ...]) -> None:
    assert len(tree1(map(entry, paths)).entries) == len(paths)


@pytest.mark.parametrize(
    "path", ["", "/", "/a", "a/", "a//b", ".", "..", "./a", "a/.", "a/./b", "../a", "a/..", "a/../b", "a\0b"]
)
def test_what_is_no_path_below_is_refused(path: str) -> None:
    with pytest.raises(MalformedError) as caught:
        tree1([entry("fine"), entry(path)])
    assert caught.value.reason == "tree-path"
    assert repr(path) in caught.value.message


@pytest.mark.parametrize("path", ["...", ".a", "a..b", " ", "a\nb", "-"])
def test_odd_names_are_fine(path: str) -> None:
    assert of({path: b"x"}) == reference.tree1({path: b"x"})


@pytest.mark.parametrize("name", [b"\xff", b"a/\xe9", b"\xed\xa0\x80"])
def test_names_that_are_not_utf8_are_refused_by_their_bytes(name: bytes) -> None:
    with pytest.raises(MalformedError) as caught:
        tree1([entry(name.decode("utf-8", "surrogateescape"))])
    assert caught.value.reason == "name-not-utf8"
    assert f"\\x{name[-1]:02x}" in caught.value.message


@pytest.mark.parametrize(
    ("size", "digest"), [(-1, bytes(32)), (2**64, bytes(32)), (0, bytes(31)), (0, bytes(33)), (0, b"")]
)
def test_values_out_of_range_are_refused(size: int, digest: bytes) -> None:
    with pytest.raises(MalformedError, match="'f'") as caught:
        tree1([TreeEntry("f", size, digest)])
    assert caught.value.reason == "tree-entry"


def test_the_largest_size_is_not() -> None:
    assert tree_leaf(TreeEntry("f", 2**64 - 1, bytes(32)))[5:13] == b"\xff" * 8
    assert tree1([TreeEntry("f", 2**64 - 1, bytes(32))]).entries[0].size == 2**64 - 1
