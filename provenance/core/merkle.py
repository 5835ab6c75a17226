"""The RFC 6962 tree: build, prove, check.

One tree serves batches, seals and stores. A leaf is ``SHA-256(0x00 || record)``, a node ``SHA-256(0x01 ||
left || right)``, the split is at the
largest power of two below the size, and an odd node is promoted, never duplicated (RFC 6962 §2.1, RFC 9162
§2.1). Functions take *leaf hashes*,
since a record's id is its leaf hash.

The verifier always supplies index, size and root; a path must have exactly the length that index and size
give, so a proof can choose nothing.
Index and size come from a manifest or a witness and are below 2^53.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from provenance.errors import MalformedError, MismatchError, VerificationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = [
    "EMPTY_ROOT",
    "HASH_BYTES",
    "MAX_SIZE",
    "Tree",
    "check_consistency",
    "check_inclusion",
    "inclusion_root",
    "leaf_hash",
    "node_hash",
    "root",
]

HASH_BYTES = 32
MAX_SIZE = 2**53 - 1
EMPTY_ROOT = hashlib.sha256(b"").digest()

_sha256 = hashlib.sha256


def leaf_hash(record: bytes) -> bytes:
    """``SHA-256(0x00 || record)`` (RFC 6962 §2.1): the id of a record."""
    return _sha256(b"\x00" + record).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """``SHA-256(0x01 || left || right)`` (RFC 6962 §2.1)."""
    return _sha256(b"\x01" + left + right).digest()


def _next_level(level: Sequence[bytes]) -> list[bytes]:
    above = [_sha256(b"\x01" + level[i] + level[i + 1]).digest() for i in range(0, len(level) - 1, 2)]
    if len(level) % 2:
        above.append(level[-1])  # promoted: duplicating it would give [A,B,C] and [A,B,C,C] one root
    return above


def root(leaf_hashes: Iterable[bytes]) -> bytes:
    """The tree head over leaf hashes in order; ``SHA-256("")`` of none."""
    level = list(leaf_hashes)
    _require_hashes(level, "leaf hash")
    if not level:
        return EMPTY_ROOT
    while len(level) > 1:
        level = _next_level(level)
    return level[0]


class Tree:
    """A tree that is kept whole, to prove many things about it. Memory: two hashes a leaf."""

    def __init__(self, leaf_hashes: Iterable[bytes]) -> None:
        level = list(leaf_hashes)
        _require_hashes(level, "leaf hash")
        self._levels = [level]
        while len(level) > 1:
            level = _next_level(level)
            self._levels.append(level)

    @property
    def size(self) -> int:
        """The number of leaves."""
        return len(self._levels[0])

    @property
    def root(self) -> bytes:
        """The tree head."""
        return self._levels[-1][0] if self.size else EMPTY_ROOT

    def prove_inclusion(self, index: int) -> list[bytes]:
        """The path of leaf ``index``, leaf to root (RFC 9162 §2.1.3.1)."""
        if not 0 <= index < self.size:
            raise MalformedError(
                f"leaf {index}: the tree has {self.size} leaves", reason="index-out-of-range"
            )
        path = []
        for level in self._levels[:-1]:
            sibling = index ^ 1
            if sibling < len(level):
                path.append(level[sibling])
            index >>= 1
        return path

    def prove_consistency(self, old_size: int) -> list[bytes]:
        """That the tree of the first ``old_size`` leaves is a prefix of this one (RFC 9162 §2.1.4.1)."""
        if not 0 < old_size <= self.size:
            raise MalformedError(
                f"old size {old_size}: the tree has {self.size} leaves", reason="old-size-out-of-range"
            )
        return self._subproof(old_size, 0, self.size, known=True)

    def _subproof(self, old_size: int, start: int, end: int, *, known: bool) -> list[bytes]:
        size = end - start
        if old_size == size:
            return [] if known else [self._range(start, end)]
        split = 1 << (size - 1).bit_length() - 1
        if old_size <= split:
            return [
                *self._subproof(old_size, start, start + split, known=known),
                self._range(start + split, end),
            ]
        return [
            *self._subproof(old_size - split, start + split, end, known=False),
            self._range(start, start + split),
        ]

    def _range(self, start: int, end: int) -> bytes:
        # Every range that RFC 9162 asks for begins at a multiple of the power of two at or above its length,
        # so it is one kept node.
        height = (end - start - 1).bit_length()
        return self._levels[height][start >> height]


def inclusion_root(leaf: bytes, index: int, size: int, path: Sequence[bytes]) -> bytes:
    """The root that a path leads to (RFC 9162 §2.1.3.2).

    ``VerificationError`` if the path's length is not what index and size give. Computes and compares nothing:
    callers that hold the root call `check_inclusion`.
    """
    _require_size(size)
    if isinstance(index, bool) or not 0 <= index < size:
        raise VerificationError(
            f"inclusion proof: index {index} is outside a tree of {size} leaves", reason="index-out-of-range"
        )
    _require_hashes([leaf, *path], "inclusion proof")
    node, rest = leaf, iter(path)
    expected = _path_length(index, size)
    if len(path) != expected:
        raise VerificationError(
            f"inclusion proof of leaf {index} of {size}: expected {expected} hashes, found {len(path)}",
            reason="path-length",
        )
    last = size - 1
    while last:
        if index % 2:
            node = node_hash(next(rest), node)
        elif index < last:
            node = node_hash(node, next(rest))
        index >>= 1
        last >>= 1
    return node


def check_inclusion(leaf: bytes, index: int, size: int, path: Sequence[bytes], *, root: bytes) -> None:
    """Raise ``VerificationError`` unless ``leaf`` is leaf ``index`` of the tree (RFC 9162 §2.1.3.2)."""
    _require_hashes([root], "root")
    found = inclusion_root(leaf, index, size, path)
    if found != root:
        raise MismatchError(
            f"inclusion proof of leaf {index} of {size}: root",
            expected=root.hex(),
            actual=found.hex(),
            reason="root-differs",
        )


def _path_length(index: int, size: int) -> int:
    # Levels below the point where the paths of `index` and of the last leaf meet all have a sibling; above
    # it, one for each set bit.
    inner = (index ^ (size - 1)).bit_length()
    return inner + (index >> inner).bit_count()


def check_consistency(
    old_size: int, size: int, path: Sequence[bytes], *, old_root: bytes, root: bytes
) -> None:
    """Raise ``VerificationError`` unless the old tree is a prefix of the new one (RFC 9162 §2.1.4.2).

    An old size of 0 proves nothing: refused.
    """
    _require_size(size)
    if isinstance(old_size, bool) or not 0 < old_size <= size:
        raise VerificationError(
            f"consistency proof: old size {old_size} is not within 1 to {size}",
            reason="old-size-out-of-range",
        )
    _require_hashes([old_root, root, *path], "consistency proof")
    if old_size == size:
        if path:
            raise VerificationError(
                f"consistency proof of equal sizes: expected 0 hashes, found {len(path)}",
                reason="path-length",
            )
        old_found = found = old_root
    else:
        old_found, found = _consistency_roots(old_size, size, path, old_root)
    for what, expected, actual in (("old root", old_root, old_found), ("root", root, found)):
        if expected != actual:
            raise MismatchError(
                f"consistency proof {old_size} to {size}: {what}",
                expected=expected.hex(),
                actual=actual.hex(),
                reason=f"{what.replace(' ', '-')}-differs",
            )


def _consistency_roots(
    old_size: int, size: int, path: Sequence[bytes], old_root: bytes
) -> tuple[bytes, bytes]:
    node, last = old_size - 1, size - 1
    while node % 2:
        node >>= 1
        last >>= 1
    nodes = [old_root, *path] if old_size & (old_size - 1) == 0 else list(path)  # RFC 9162 §2.1.4.2 step 2
    expected = 1 + _path_length(node, last + 1)
    if len(nodes) != expected:
        wanted = expected - len(nodes) + len(path)
        raise VerificationError(
            f"consistency proof {old_size} to {size}: expected {wanted} hashes, found {len(path)}",
            reason="path-length",
        )
    rest = iter(nodes)
    old = new = next(rest)
    while last:
        if node % 2:
            sibling = next(rest)
            old, new = node_hash(sibling, old), node_hash(sibling, new)
        elif node < last:
            new = node_hash(new, next(rest))
        node >>= 1
        last >>= 1
    return old, new


def _require_size(size: int) -> None:
    if isinstance(size, bool) or not 0 < size <= MAX_SIZE:
        raise VerificationError(f"tree size {size}: expected 1 to 2^53-1", reason="size-out-of-range")


def _require_hashes(values: Iterable[bytes], what: str) -> None:
    for value in values:
        if len(value) != HASH_BYTES:
            raise MalformedError(
                f"{what}: a hash of {len(value)} bytes, expected {HASH_BYTES}", reason="hash-length"
            )
