"""What a digest is: a name that says what it covers, 32 bytes, and the parts that went into it.

The parts (columns, blocks, tree entries) come from the same pass over the data. They cost 32 bytes per
block and let a changed partition be told from its digests down to the column and the block.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from provenance.errors import MalformedError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["KINDS", "ColumnDigest", "Digest", "FileBytes", "TreeEntry", "parse_digest"]

KINDS = (
    "sha256",
    "blake3",
    "tree1-sha256",
    "table1-sha256",
    "table1-blake3",
    "array1-sha256",
    "array1-blake3",
)
"""Every name a digest can have (spec/digests.md)."""

_TEXT = re.compile(r"([a-z0-9-]{1,16}):([0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class ColumnDigest:
    """A column of a table: name, type string, digest, and the digest of each block of 65,536 rows."""

    name: str
    type: str
    value: bytes
    blocks: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """A regular file of a tree: ``/`` path below the root, size in bytes, raw SHA-256 of its bytes."""

    path: str
    size: int
    sha256: bytes


@dataclass(frozen=True, slots=True)
class FileBytes:
    """The bytes of a file that is digested without decoding; ``chunks`` can be read once."""

    chunks: Iterable[bytes | memoryview]


@dataclass(frozen=True, slots=True)
class Digest:
    """A digest with the name of what it covers. Equal when name and value are; the rest describes.

    Attributes:
        kind: one of `KINDS`.
        value: the 32 raw bytes.
        nbytes: what was hashed: section bytes of a table, value bytes of an array, file bytes else.
        rows: of a table.
        shape: of an array.
        type: of an array, its type string.
        columns: of a table, in schema order.
        blocks: of an array, the digest of each 2^20 bytes.
        entries: of a tree, by path.
    """

    kind: str
    value: bytes
    nbytes: int = field(default=0, compare=False)
    rows: int | None = field(default=None, compare=False)
    shape: tuple[int, ...] | None = field(default=None, compare=False)
    type: str | None = field(default=None, compare=False)
    columns: tuple[ColumnDigest, ...] = field(default=(), compare=False, repr=False)
    blocks: tuple[bytes, ...] = field(default=(), compare=False, repr=False)
    entries: tuple[TreeEntry, ...] = field(default=(), compare=False, repr=False)

    @property
    def hex(self) -> str:
        """The value as 64 lower-case hex digits."""
        return self.value.hex()

    def __str__(self) -> str:
        """The digest's text, e.g. ``table1-sha256:84090f6d…``."""
        return f"{self.kind}:{self.hex}"


def parse_digest(text: str) -> Digest:
    """Read what ``str`` of a `Digest` wrote.

    Raises:
        MalformedError: ``digest-text`` when it is not ``kind:hex``, ``digest-kind`` when the kind is none
            of `KINDS`.
    """
    match = _TEXT.fullmatch(text)
    if match is None:
        raise MalformedError(
            f"not a digest: {text[:100]!r}, expected KIND:64 hex digits", reason="digest-text"
        )
    if match[1] not in KINDS:
        raise MalformedError(
            f"unknown kind of digest {match[1]!r}, expected one of {', '.join(KINDS)}", reason="digest-kind"
        )
    return Digest(match[1], bytes.fromhex(match[2]))
