"""The files of a stored tree, written out: the leaves of its ``tree1``, joined.

A seal names a store by one digest. With the list beside it in the batch store, an audit can say which file of
the store differs; without it only which partition does. The list proves itself: its root is the digest in the
seal.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from provenance.core import merkle
from provenance.core.digests import TreeEntry, tree_leaf
from provenance.errors import MalformedError, MismatchError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["decode_tree_list", "encode_tree_list", "tree_list_name"]

_HEAD = struct.Struct("<I")
_TAIL = struct.Struct("<Q32s")


def tree_list_name(tree: bytes) -> str:
    """The list's name in the batch store."""
    return f"trees/{tree.hex()}.tree"


def encode_tree_list(entries: Iterable[TreeEntry]) -> bytes:
    """The entries of a `tree1` digest, as it orders them."""
    return b"".join(tree_leaf(entry) for entry in entries)


def decode_tree_list(data: bytes, tree: bytes) -> tuple[TreeEntry, ...]:
    """The entries, checked against the tree's digest.

    Raises:
        MalformedError: ``tree-list``, it is no list of leaves.
        MismatchError: ``tree-differs``, it is the list of another tree.
    """
    leaves, entries = [], []
    for at, end in _spans(data):
        leaves.append(merkle.leaf_hash(data[at:end]))
        entries.append(_entry(data[at:end]))
    found = merkle.root(leaves)
    if found != tree:
        raise MismatchError(
            "list of a store's files: root", expected=tree.hex(), actual=found.hex(), reason="tree-differs"
        )
    return tuple(entries)


def _spans(data: bytes) -> Iterator[tuple[int, int]]:
    at = 0
    while at < len(data):
        if len(data) - at < _HEAD.size:
            raise MalformedError("list of a store's files: bytes after the last", reason="tree-list")
        (length,) = _HEAD.unpack_from(data, at)
        end = at + _HEAD.size + length + _TAIL.size
        if end > len(data):
            raise MalformedError("list of a store's files: it ends within a file", reason="tree-list")
        yield at, end
        at = end


def _entry(leaf: bytes) -> TreeEntry:
    size, digest = _TAIL.unpack_from(leaf, len(leaf) - _TAIL.size)
    try:
        path = leaf[_HEAD.size : -_TAIL.size].decode()
    except UnicodeDecodeError as error:
        raise MalformedError("list of a store's files: a name is not UTF-8", reason="tree-list") from error
    return TreeEntry(path, size, digest)
