"""Batches: a manifest, the batch file, and the checks that both must pass.

A batch covers the log's offsets ``[first_offset, next_offset)``; every message in them is a leaf, valid or
not, and an offset that holds none is listed in
``skipped``. Its file depends only on log and chain, so any batcher makes the same one (`spec/anchoring.md`,
"Stream").
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from provenance.core import canonical, merkle
from provenance.core.streams import LogIdentity, next_acc
from provenance.errors import MalformedError, MismatchError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from provenance.core.canonical import JSONObject

__all__ = [
    "MAGIC",
    "Batch",
    "Leaf",
    "Manifest",
    "Position",
    "build_batch",
    "decode_batch",
    "decode_manifest",
    "encode_batch",
    "encode_manifest",
    "file_name",
    "leaf_location",
    "manifest_hash",
    "parse_file_name",
    "skipped_between",
]

MAGIC = b"PLBATCH1"
MAX_LEAF_BYTES = 1 << 20
_LENGTH = 4
_ROW = 12
_FILE_NAME = re.compile(r"([0-9a-f]{64})/([0-9]{16})-([0-9a-f]{64})\.batch")
_HEX = re.compile(r"[0-9a-f]{64}")
_KEYS = frozenset({"version", "stream", "generation", "seq", "root", "prev_acc", "leaf_count", "skipped"})
_KEYS |= {"cluster_id", "topic", "topic_id", "partition", "first_offset", "next_offset", "last_leader_epoch"}


@dataclass(frozen=True, slots=True)
class Leaf:
    """One message: its log offset and its bytes as they came."""

    offset: int
    value: bytes


@dataclass(frozen=True, slots=True)
class Position:
    """Where the next batch of a stream begins: after ``seq`` batches, at ``next_offset``.

    With accumulator ``acc``.
    """

    stream: bytes
    generation: int
    seq: int
    next_offset: int
    acc: bytes


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a batch says of itself.

    Hashes are raw; ``skipped`` holds maximal ascending ``(from, until)`` ranges.
    """

    stream: bytes
    generation: int
    seq: int
    log: LogIdentity
    first_offset: int
    next_offset: int
    skipped: tuple[tuple[int, int], ...]
    leaf_count: int
    last_leader_epoch: int
    root: bytes
    prev_acc: bytes

    @property
    def acc(self) -> bytes:
        """The accumulator after this batch."""
        return next_acc(
            self.prev_acc,
            self.seq,
            first_offset=self.first_offset,
            next_offset=self.next_offset,
            leaf_count=self.leaf_count,
            root=self.root,
            manifest_hash=manifest_hash(self),
        )


@dataclass(frozen=True, slots=True)
class Batch:
    """A manifest with the leaves that it covers, in offset order."""

    manifest: Manifest
    leaves: tuple[Leaf, ...] = field(repr=False)

    @property
    def ids(self) -> list[bytes]:
        """The leaf hashes, in order."""
        return [merkle.leaf_hash(leaf.value) for leaf in self.leaves]


def skipped_between(first_offset: int, offsets: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """The maximal ranges in ``[first_offset, offsets[-1]]`` that hold no message."""
    return tuple(
        (before + 1, after) for before, after in pairwise([first_offset - 1, *offsets]) if after > before + 1
    )


def build_batch(
    position: Position, log: LogIdentity, leaves: Sequence[Leaf], *, last_leader_epoch: int
) -> Batch:
    """The batch that continues ``position`` with these messages (at least one.

    Ascending from ``position.next_offset``).
    """
    if not leaves:
        raise MalformedError("batch: no leaf", reason="no-leaf")
    offsets = [leaf.offset for leaf in leaves]
    manifest = Manifest(
        stream=position.stream,
        generation=position.generation,
        seq=position.seq + 1,
        log=log,
        first_offset=position.next_offset,
        next_offset=offsets[-1] + 1,
        skipped=skipped_between(position.next_offset, offsets),
        leaf_count=len(leaves),
        last_leader_epoch=last_leader_epoch,
        root=merkle.root(merkle.leaf_hash(leaf.value) for leaf in leaves),
        prev_acc=position.acc,
    )
    return Batch(manifest, tuple(leaves))


# -------------------------------------------------------------------------------------------------- manifest


def encode_manifest(manifest: Manifest) -> bytes:
    """The canonical JSON of a manifest: what ``manifestHash`` covers."""
    return canonical.encode(
        {
            "version": 1,
            "stream": manifest.stream.hex(),
            "generation": manifest.generation,
            "seq": manifest.seq,
            "cluster_id": manifest.log.cluster_id,
            "topic": manifest.log.topic,
            "topic_id": manifest.log.topic_id,
            "partition": manifest.log.partition,
            "first_offset": manifest.first_offset,
            "next_offset": manifest.next_offset,
            "skipped": [list(pair) for pair in manifest.skipped],
            "leaf_count": manifest.leaf_count,
            "last_leader_epoch": manifest.last_leader_epoch,
            "root": manifest.root.hex(),
            "prev_acc": manifest.prev_acc.hex(),
        }
    )


def manifest_hash(manifest: Manifest) -> bytes:
    """``SHA-256(manifest)``."""
    return hashlib.sha256(encode_manifest(manifest)).digest()


def decode_manifest(data: bytes) -> Manifest:
    """A manifest from its canonical bytes, checked in itself: exactly its keys, ranges in order.

    Counts that agree.
    """
    value = canonical.decode(data)
    if set(value) != _KEYS:
        odd = sorted(set(value) ^ _KEYS)
        raise MalformedError(
            f"manifest: missing or unknown keys {', '.join(odd)}"[:200], reason="manifest-keys"
        )
    if value["version"] != 1 or isinstance(value["version"], bool):
        raise MalformedError(
            f"manifest: version {value['version']!r:.20}, expected 1", reason="manifest-version"
        )
    manifest = Manifest(
        stream=_digest(value, "stream"),
        generation=_integer(value, "generation", 1, 2**32 - 1),
        seq=_integer(value, "seq", 1),
        log=LogIdentity(
            _text(value, "cluster_id"),
            _text(value, "topic"),
            _text(value, "topic_id"),
            _integer(value, "partition"),
        ),
        first_offset=_integer(value, "first_offset"),
        next_offset=_integer(value, "next_offset"),
        skipped=_ranges(value["skipped"]),
        leaf_count=_integer(value, "leaf_count", 1, 2**32 - 1),
        last_leader_epoch=_integer(value, "last_leader_epoch", -1, 2**31 - 1),
        root=_digest(value, "root"),
        prev_acc=_digest(value, "prev_acc"),
    )
    _check_skipped(manifest)
    return manifest


def _check_skipped(manifest: Manifest) -> None:
    previous = manifest.first_offset - 1
    for start, until in manifest.skipped:
        # A range may begin where the batch does; after another one at least one message stands between, or
        # the two would be one.
        if not previous < start < until < manifest.next_offset:
            raise MalformedError(
                f"manifest: skipped range [{start}, {until}) is empty, not maximal or misplaced",
                reason="skipped",
            )
        previous = until
    covered = (
        manifest.next_offset - manifest.first_offset - sum(until - start for start, until in manifest.skipped)
    )
    if covered != manifest.leaf_count:
        raise MalformedError(
            f"manifest: {manifest.leaf_count} leaves, but its offsets hold {covered}",
            reason="leaf-count-differs",
        )


def _integer(value: JSONObject, key: str, low: int = 0, high: int = canonical.MAX_INTEGER) -> int:
    number = value[key]
    if type(number) is not int or not low <= number <= high:
        raise MalformedError(
            f"manifest: {key} is {number!r:.40}, expected an integer from {low} to {high}",
            reason=f"manifest-{key}",
        )
    return number


def _text(value: JSONObject, key: str) -> str:
    text = value[key]
    if type(text) is not str:
        raise MalformedError(f"manifest: {key} is not text", reason=f"manifest-{key}")
    return text


def _digest(value: JSONObject, key: str) -> bytes:
    text = value[key]
    if type(text) is not str or not _HEX.fullmatch(text):
        raise MalformedError(f"manifest: {key} is not 64 lower-case hex digits", reason=f"manifest-{key}")
    return bytes.fromhex(text)


def _ranges(value: object) -> tuple[tuple[int, int], ...]:
    if type(value) is not list or not all(
        type(pair) is list and len(pair) == 2 and type(pair[0]) is int and type(pair[1]) is int
        for pair in value
    ):
        raise MalformedError(
            "manifest: skipped is not a list of [from, until] integers", reason="manifest-skipped"
        )
    return tuple((start, until) for start, until in value)


# ------------------------------------------------------------------------------------------------ batch file


def file_name(manifest: Manifest) -> str:
    """``STREAM/SEQ-ACC.batch``. Named by acc, not by root: repeated bytes give equal roots."""
    return f"{manifest.stream.hex()}/{manifest.seq:016d}-{manifest.acc.hex()}.batch"


def parse_file_name(name: str) -> tuple[bytes, int, bytes]:
    """``(stream, seq, acc)`` of a batch file's name."""
    match = _FILE_NAME.fullmatch(name)
    if not match:
        raise MalformedError(f"batch file {name!r:.160}: expected STREAM/SEQ-ACC.batch", reason="file-name")
    return bytes.fromhex(match[1]), int(match[2]), bytes.fromhex(match[3])


def encode_batch(batch: Batch) -> bytes:
    """The bytes of a batch file.

    ``"PLBATCH1" || u32 length || manifest || (u64 offset || u32 length || bytes)*``, big-endian.
    """
    manifest = encode_manifest(batch.manifest)
    parts = [MAGIC, len(manifest).to_bytes(_LENGTH, "big"), manifest]
    for leaf in batch.leaves:
        parts += (leaf.offset.to_bytes(8, "big"), len(leaf.value).to_bytes(_LENGTH, "big"), leaf.value)
    return b"".join(parts)


def decode_batch(data: bytes) -> Batch:
    """A batch from its file, wholly checked in itself: offsets, counts, root, nothing after.

    Whether it is the anchored one is another question: compare ``batch.manifest.acc`` with the chain's.

    Raises:
        MalformedError: it does not follow the format; ``reason`` says where.
        MismatchError: the leaves do not give the manifest's root (``reason="root-differs"``).
    """
    manifest, rows = split_batch(data)
    leaves = _decode_rows(data, rows)
    _check_offsets(manifest, [leaf.offset for leaf in leaves])
    found = merkle.root(merkle.leaf_hash(leaf.value) for leaf in leaves)
    if found != manifest.root:
        raise MismatchError(
            f"batch {manifest.seq}: root over its leaves",
            expected=manifest.root.hex(),
            actual=found.hex(),
            reason="root-differs",
        )
    return Batch(manifest, leaves)


def split_batch(data: bytes) -> tuple[Manifest, int]:
    """The manifest of a batch file, and where its rows begin."""
    head = len(MAGIC) + _LENGTH
    if data[: len(MAGIC)] != MAGIC:
        raise MalformedError(f"batch file: it does not begin with {MAGIC.decode()}", reason="magic")
    length = int.from_bytes(data[len(MAGIC) : head], "big")
    if len(data) < head or len(data) - head < length:
        raise MalformedError("batch file: it ends within the manifest", reason="truncated")
    return decode_manifest(data[head : head + length]), head + length


def leaf_location(data: bytes, index: int) -> int:
    """The byte at which the value of leaf ``index`` begins in a batch file.

    For messages that point at a place on disk.
    """
    _, at = split_batch(data)
    for _ in range(index):
        at += _ROW + int.from_bytes(data[at + 8 : at + _ROW], "big")
    return at + _ROW


def _decode_rows(data: bytes, at: int) -> tuple[Leaf, ...]:
    leaves = []
    end = len(data)
    while at < end:
        if end - at < _ROW:
            raise MalformedError(f"batch file: {end - at} bytes after the last leaf", reason="trailing-bytes")
        offset = int.from_bytes(data[at : at + 8], "big")
        length = int.from_bytes(data[at + 8 : at + _ROW], "big")
        at += _ROW
        if length > MAX_LEAF_BYTES:
            raise MalformedError(
                f"batch file: offset {offset} holds {length} bytes, expected at most {MAX_LEAF_BYTES}",
                reason="leaf-length",
            )
        if end - at < length:
            raise MalformedError(f"batch file: it ends within offset {offset}", reason="truncated")
        leaves.append(Leaf(offset, bytes(data[at : at + length])))
        at += length
    return tuple(leaves)


def _check_offsets(manifest: Manifest, offsets: Sequence[int]) -> None:
    if len(offsets) != manifest.leaf_count:
        raise MalformedError(
            f"batch file: {len(offsets)} leaves, the manifest says {manifest.leaf_count}",
            reason="leaf-count-differs",
        )
    ascending = all(before < after for before, after in pairwise([manifest.first_offset - 1, *offsets]))
    if (
        not ascending
        or offsets[-1] + 1 != manifest.next_offset
        or skipped_between(manifest.first_offset, offsets) != manifest.skipped
    ):
        raise MalformedError("batch file: its offsets are not those of the manifest", reason="offsets-differ")
