"""Where a batch file was changed: the byte, and the offset of the leaf that it belongs to.

A root says that a leaf differs, not which. If the log still holds the batch's messages, the file is made
again from them, and if that gives the anchored accumulator it is the file as it was: the first differing byte
is then known for certain. Without the log the index tells which leaves it knew; it is a cache that nobody
vouches for, so what it says is called a hint.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from provenance.core import merkle
from provenance.core.batches import Leaf, Position, build_batch, encode_batch
from provenance.core.streams import binding_of
from provenance.errors import MalformedError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from provenance.ports import EventLog, Index, LogMessage
    from provenance.services.anchored import AnchoredBatch

__all__ = ["Damage", "locate", "restore"]

_HEAD = 12  # "PLBATCH1" and the manifest's length
_ROW = 12  # offset and length
_READ = 4096


@dataclass(frozen=True, slots=True)
class Damage:
    """The first thing that differs.

    ``offset`` of the leaf if it is in one, ``byte`` of the file if it is known.
    """

    what: str
    offset: int | None = None
    byte: int | None = None
    expected: str = ""
    actual: str = ""


def restore(batch: AnchoredBatch, log: EventLog) -> bytes | None:
    """The anchored file made again from the log; None if the log does not hold its messages any more."""
    anchor, opening = batch.anchor, batch.opening
    position = Position(
        anchor.stream, opening.generation, anchor.seq - 1, anchor.first_offset, batch.prev_acc
    )
    try:
        log_id = next((one for one in log.identities() if binding_of(one) == opening.binding), None)
        if log_id is None:
            return None
        messages = list(_messages(log, log_id.partition, anchor.first_offset, anchor.next_offset))
        leaves = [Leaf(message.offset, message.value) for message in messages]
        epoch = messages[-1].leader_epoch if messages else -1
        made = build_batch(position, log_id, leaves, last_leader_epoch=epoch)
    except (MalformedError, UnavailableError):
        return None
    return encode_batch(made) if made.manifest.acc == anchor.acc else None


def _messages(log: EventLog, partition: int, start: int, until: int) -> Iterator[LogMessage]:
    while start < until:
        messages = log.read(partition, start, min(_READ, until - start))
        yield from (message for message in messages if message.offset < until)
        if not messages:
            return
        start = messages[-1].offset + 1


def locate(data: bytes, original: bytes | None, batch: AnchoredBatch, index: Index | None) -> Damage:
    """Find the first difference between a batch file and what was anchored, as closely as it can be told.

    Args:
        data: the file's bytes, which are not the anchored ones.
        original: the anchored ones, if `restore` could make them again.
        batch: the anchor.
        index: a hint where the log is of no help.
    """
    if original is not None:
        return _first_difference(original, data)
    hint = None if index is None else _by_index(data, batch, index)
    if hint is not None:
        return hint
    anchor = batch.anchor
    return Damage(f"somewhere in offsets {anchor.first_offset} to {anchor.next_offset - 1}")


def _first_difference(original: bytes, data: bytes) -> Damage:
    pairs = enumerate(zip(original, data, strict=False))
    byte = next((at for at, (a, b) in pairs if a != b), min(len(original), len(data)))
    what, offset = _region(original, byte)
    return Damage(what, offset, byte, expected=_shown(original, byte), actual=_shown(data, byte))


def _shown(data: bytes, byte: int) -> str:
    return f"0x{data[byte]:02x}" if byte < len(data) else "the end of the file"


def _region(original: bytes, byte: int) -> tuple[str, int | None]:
    manifest_end = _HEAD + int.from_bytes(original[8:_HEAD], "big")
    if byte < _HEAD:
        return "head of the file", None
    if byte < manifest_end:
        return "manifest", None
    for offset, begins, ends in _rows(original, manifest_end):
        if byte < ends:
            part = "leaf" if byte >= begins + _ROW else "leaf's offset and length"
            return part, offset
    return "bytes after the last leaf", None


def _rows(data: bytes, at: int) -> Iterator[tuple[int, int, int]]:
    """(offset, first byte, end) of each row, as far as the bytes make sense."""
    while at + _ROW <= len(data):
        end = at + _ROW + int.from_bytes(data[at + 8 : at + _ROW], "big")
        if end > len(data):
            return
        yield int.from_bytes(data[at : at + 8], "big"), at, end
        at = end


def _by_index(data: bytes, batch: AnchoredBatch, index: Index) -> Damage | None:
    anchor = batch.anchor
    if index.indexed(anchor.stream) < anchor.seq:
        return None
    manifest_end = _HEAD + int.from_bytes(data[8:_HEAD], "big")
    for at, (offset, begins, ends) in enumerate(_rows(data, manifest_end)):
        leaf = merkle.leaf_hash(data[begins + _ROW : ends])
        known = itertools.islice(index.find(record_id=leaf), _READ)
        if not any((one.stream, one.seq, one.index) == (anchor.stream, anchor.seq, at) for one in known):
            what = "leaf (a hint of the index, the log does not hold it any more)"
            return Damage(what, offset, begins + _ROW)
    return None
