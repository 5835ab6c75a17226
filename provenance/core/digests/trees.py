"""tree1: the digest of a directory (spec/digests.md, "tree1").

It is an RFC 6962 tree head over the files, so that one of them can be proved alone.

What is refused is refused because two machines could disagree about it: names that one file system keeps
apart and another folds together, and names that are no text. Walking a directory belongs to an adapter;
here paths are only strings.
"""

from __future__ import annotations

import struct
import unicodedata
from typing import TYPE_CHECKING

from provenance.core import merkle
from provenance.core.digests.model import Digest, TreeEntry
from provenance.errors import MalformedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["tree1", "tree_leaf", "tree_order"]


def tree1(entries: Iterable[TreeEntry]) -> Digest:
    """The ``tree1`` digest of the files below a directory, in any order.

    Paths are taken as the file system has them and counted in NFC. The result's ``entries`` are sorted and
    in NFC.

    Raises:
        MalformedError: the path is named. ``tree-path`` (empty, absolute, ``.``, ``..`` or a doubled
            slash), ``name-not-utf8``, ``tree-collision`` (two paths that NFC or case folding makes one),
            ``tree-entry`` (size or hash out of range).
    """
    ordered = tree_order(entries)
    value = merkle.root([merkle.leaf_hash(tree_leaf(entry)) for entry in ordered])
    return Digest("tree1-sha256", value, nbytes=sum(entry.size for entry in ordered), entries=ordered)


def tree_leaf(entry: TreeEntry) -> bytes:
    """The leaf of a file: ``u32 len(path) || path || u64 size || sha256``."""
    path = entry.path.encode()
    return struct.pack("<I", len(path)) + path + struct.pack("<Q", entry.size) + entry.sha256


def tree_order(entries: Iterable[TreeEntry]) -> tuple[TreeEntry, ...]:
    """The entries in NFC and in the order of their leaves.

    Raises:
        MalformedError: as `tree1`.
    """
    given = list(entries)
    for entry in given:
        _check_entry(entry)
    _check_distinct(entry.path for entry in given)
    ordered = [
        TreeEntry(unicodedata.normalize("NFC", entry.path), entry.size, entry.sha256) for entry in given
    ]
    return tuple(sorted(ordered, key=lambda entry: entry.path.encode()))


def _check_entry(entry: TreeEntry) -> None:
    try:
        entry.path.encode()
    except UnicodeEncodeError as error:
        shown = entry.path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
        raise MalformedError(
            f"the name of {shown} is not UTF-8", reason="name-not-utf8", remedy="Rename the file."
        ) from error
    if "\0" in entry.path or not {"", ".", ".."}.isdisjoint(entry.path.split("/")):
        raise MalformedError(f"not a path below a directory: {entry.path!r}", reason="tree-path")
    if not 0 <= entry.size < 2**64 or len(entry.sha256) != merkle.HASH_BYTES:
        raise MalformedError(f"{entry.path!r}: a size or hash out of range", reason="tree-entry")


def _check_distinct(paths: Iterable[str]) -> None:
    """Each path and each directory above it may be spelled in one way only, and a file is no directory."""
    spellings: dict[str, str] = {}
    directories: set[str] = set()
    for path in paths:
        for directory in _directories(path):
            if directory not in directories:
                directories.add(directory)
                _spell(directory, spellings)
        _spell(path, spellings)


def _directories(path: str) -> Iterator[str]:
    """``a/``, ``a/b/`` of ``a/b/c``; the slash tells a directory from a file of that name."""
    return (path[: at + 1] for at, mark in enumerate(path) if mark == "/")


def _spell(spelling: str, spellings: dict[str, str]) -> None:
    key = _folded(spelling.rstrip("/"))
    if key in spellings:
        raise MalformedError(
            f"{spellings[key]!r} and {spelling!r} are one path where case or Unicode form does not count",
            reason="tree-collision",
            remedy="Rename one of them.",
        )
    spellings[key] = spelling


def _folded(path: str) -> str:
    """Equal for paths that NFC or full case folding makes one; folding can undo NFC, so it is made again."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())
