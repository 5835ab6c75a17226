"""Lists that grow: in a record ``{count, root}`` over ascending ids.

The list itself in the batch store (`spec/records.md`).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from provenance.core import merkle
from provenance.errors import MalformedError, MismatchError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from provenance.core.canonical import JSONObject

__all__ = ["EMPTY_LIST", "ListHead", "decode_list", "encode_list", "list_name"]


@dataclass(frozen=True, slots=True)
class ListHead:
    """How many ids, and the RFC 6962 root over them; the ids are leaf hashes already."""

    count: int
    root: bytes

    @classmethod
    def over(cls, ids: Iterable[bytes]) -> ListHead:
        """The head over a set of ids; they are sorted and each counts once."""
        ordered = sorted(set(ids))
        return cls(len(ordered), merkle.root(ordered))

    @classmethod
    def from_json(cls, value: JSONObject) -> ListHead:
        """From the ``{count, root}`` of a record that its schema has checked."""
        return cls(value["count"], bytes.fromhex(value["root"]))

    def as_json(self) -> JSONObject:
        """``{count, root}``."""
        return {"count": self.count, "root": self.root.hex()}


EMPTY_LIST = ListHead(0, merkle.EMPTY_ROOT)


def list_name(head: ListHead) -> str:
    """The list's name in the batch store."""
    return f"lists/{head.root.hex()}.ids"


def encode_list(ids: Iterable[bytes]) -> bytes:
    """The ids, ascending, 32 bytes each, joined."""
    return b"".join(sorted(set(ids)))


def decode_list(data: bytes, head: ListHead) -> list[bytes]:
    """The ids of a list, checked against the head that a record gives."""
    if len(data) != head.count * merkle.HASH_BYTES:
        raise MalformedError(
            f"list: {len(data)} bytes, expected {head.count} ids of 32", reason="list-length"
        )
    ids = [data[at : at + merkle.HASH_BYTES] for at in range(0, len(data), merkle.HASH_BYTES)]
    if any(before >= after for before, after in pairwise(ids)):
        raise MalformedError("list: its ids are not ascending", reason="list-order")
    found = merkle.root(ids)
    if found != head.root:
        raise MismatchError("list: root over its ids", expected=head.root.hex(), actual=found.hex())
    return ids
