"""An independent checker: were all acknowledged records anchored, each once, in order, without a gap?

It sees what anybody sees: the contract's openings and anchors, the batch files, and a list of what a log
acknowledged. It reads files, manifests, names and accumulators by itself (`spec/anchoring.md`, "Stream"), and
shares with the batcher nothing but SHA-256 and the tree of `provenance.core.merkle`; so a mistake there is
not repeated here. It repairs nothing and stops at nothing: `check_ledger` returns all that is wrong.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from provenance.core import merkle

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from provenance.core.streams import LogIdentity, Opening
    from provenance.ports import Anchor, BatchStore, ChainReader

__all__ = ["Acknowledged", "Violation", "check_ledger"]

_KEYS = {
    "version", "stream", "generation", "seq", "cluster_id", "topic", "topic_id", "partition", "first_offset",
    "next_offset", "skipped", "leaf_count", "last_leader_epoch", "root", "prev_acc",
}  # fmt: skip
_NAME = re.compile(r"([0-9a-f]{64})/([0-9]{16})-([0-9a-f]{64})\.batch")
_MAX_MANIFEST = 65_535
_NONE = bytes(32)


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """A record that the log has acknowledged: the partition, its offset there, its bytes."""

    log: LogIdentity
    offset: int
    value: bytes


@dataclass(frozen=True, slots=True)
class Violation:
    """One thing that is wrong: the rule's name, where, and what was found."""

    rule: str
    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.where}: {self.what}"


class _Broken(Exception):  # noqa: N818 - it becomes a Violation
    """A rule that something breaks; what comes behind it cannot be judged."""

    def __init__(self, rule: str, what: str) -> None:
        super().__init__(rule, what)
        self.rule, self.what = rule, what


@dataclass(slots=True)
class _Stream:
    """One stream as it was found: its leaves by offset, and where each seq ends."""

    name: bytes
    opening: Opening
    leaves: dict[int, bytes] = field(default_factory=dict)
    ends: list[tuple[bytes, int]] = field(default_factory=list)
    """``(acc, next offset)`` by seq; seq 0 is the opening."""
    good_until: int | None = None
    """The offset from which on a successor replaces it."""

    @property
    def where(self) -> str:
        return f"stream {self.name.hex()[:16]}"

    @property
    def place(self) -> tuple[int, bytes]:
        """Streams of one place are generations of each other."""
        return self.opening.org, self.opening.binding

    def effective(self) -> Iterator[tuple[int, bytes]]:
        """The leaves that no successor replaced."""
        for offset, value in self.leaves.items():
            if self.good_until is None or offset < self.good_until:
                yield offset, value


def check_ledger(
    chain: ChainReader,
    store: BatchStore,
    acknowledged: Iterable[Acknowledged],
    *,
    held: Mapping[LogIdentity, Mapping[int, bytes]] | None = None,
    final: Mapping[bytes, int] | None = None,
) -> list[Violation]:
    """All that is wrong with the ledger, in the order in which it is found; empty if nothing is.

    Args:
        chain: openings, anchors and heads.
        store: the batch files.
        acknowledged: records that must be anchored, each at its offset with its bytes.
        held: by partition, all that its log holds by offset, where that is known: then nothing else may be
            anchored, and a skipped range may cover none of it.
        final: by stream, the seq up to which it is final, for the rule on orphans; the head's if left out.
    """
    found: list[Violation] = []
    streams = [_check_stream(chain, store, name, opening, found) for name, opening, _ in chain.openings()]
    _check_generations(streams, found)
    _check_orphans(store, streams, final, found)
    by_binding: dict[bytes, list[_Stream]] = {}
    for stream in streams:
        by_binding.setdefault(stream.opening.binding, []).append(stream)
    for record in acknowledged:
        _check_acknowledged(record, by_binding.get(_binding(record.log), []), found)
    for log, messages in (held or {}).items():
        _check_held(log, messages, by_binding.get(_binding(log), []), found)
    return found


# ------------------------------------------------------------------------------------------------ one stream


def _check_stream(
    chain: ChainReader, store: BatchStore, name: bytes, opening: Opening, found: list[Violation]
) -> _Stream:
    stream = _Stream(name, opening, ends=[(name, opening.start_offset)])
    if _stream_name(opening) != name:
        found.append(Violation("stream-name", stream.where, "its opening gives another name"))
    block = 0
    for anchor in chain.anchors(name):
        where = f"{stream.where}, batch {anchor.seq}"
        try:
            _check_anchor(stream, anchor, block)
            _check_file(stream, anchor, store)
        except _Broken as broken:
            found.append(Violation(broken.rule, where, broken.what))
        stream.ends.append((anchor.acc, anchor.next_offset))
        block = anchor.block_number
    head = chain.head(name)
    told = None if head is None else (head.seq, head.acc, head.next_offset)
    if told != (len(stream.ends) - 1, *stream.ends[-1]):
        found.append(Violation("head", stream.where, f"its events do not lead to its head, {told}"))
    return stream


def _check_anchor(stream: _Stream, anchor: Anchor, block: int) -> None:
    seq, (acc, end) = len(stream.ends), stream.ends[-1]
    if anchor.stream != stream.name or anchor.seq != seq:
        raise _Broken("seq", f"expected seq {seq} of this stream")
    if anchor.first_offset != end:
        raise _Broken("gap", f"it begins at offset {anchor.first_offset}, the one before ends at {end}")
    if anchor.prev_block != block:
        raise _Broken("prev-block", f"it names block {anchor.prev_block}, the one before is in {block}")
    numbers = struct.pack(">QQQI", seq, anchor.first_offset, anchor.next_offset, anchor.leaf_count)
    expected = _sha256(b"\x02" + acc + numbers + anchor.root + anchor.manifest_hash)
    if anchor.acc != expected:
        raise _Broken("acc", f"expected {expected.hex()}, the event says {anchor.acc.hex()}")


def _check_file(stream: _Stream, anchor: Anchor, store: BatchStore) -> None:
    name = f"{stream.name.hex()}/{anchor.seq:016d}-{anchor.acc.hex()}.batch"
    data = store.get(name)
    if data is None:
        raise _Broken("file-missing", name)
    text, leaves = _parse(data)
    if _sha256(text) != anchor.manifest_hash:
        raise _Broken("manifest-hash", "the file's manifest is not the anchored one")
    manifest = _read_manifest(text)
    told = {
        "version": 1,
        "stream": stream.name.hex(),
        "generation": stream.opening.generation,
        "seq": anchor.seq,
        "first_offset": anchor.first_offset,
        "next_offset": anchor.next_offset,
        "leaf_count": anchor.leaf_count,
        "root": anchor.root.hex(),
        "prev_acc": stream.ends[-1][0].hex(),
    }
    wrong = sorted(key for key, value in told.items() if manifest[key] != value)
    if wrong:
        raise _Broken("manifest-differs", f"from the chain's words in {', '.join(wrong)}")
    if _binding_of(manifest["cluster_id"], manifest["partition"], manifest["topic_id"]) != (
        stream.opening.binding
    ):
        raise _Broken("binding", "the manifest names another partition than the stream is bound to")
    _check_leaves(manifest, leaves, anchor)
    doubled = [offset for offset, _ in leaves if offset in stream.leaves]
    if doubled:
        raise _Broken("twice", f"offsets {doubled[:5]} were anchored before")
    stream.leaves.update(leaves)


def _parse(data: bytes) -> tuple[bytes, list[tuple[int, bytes]]]:
    """``"PLBATCH1" || u32 length || manifest || (u64 offset || u32 length || bytes)*``."""
    try:
        magic, length = struct.unpack_from(">8sI", data)
        at = 12 + length
        text, leaves = data[12:at], []
        while at < len(data):
            offset, size = struct.unpack_from(">QI", data, at)
            at += 12 + size
            leaves.append((offset, data[at - size : at]))
    except struct.error as error:
        raise _Broken("file-format", str(error)) from error
    if magic != b"PLBATCH1" or at != len(data) or length > _MAX_MANIFEST:
        raise _Broken("file-format", "magic, lengths or end are not those of a batch file")
    return text, leaves


def _read_manifest(text: bytes) -> dict[str, Any]:
    try:
        manifest: dict[str, Any] = json.loads(text)
        again = json.dumps(manifest, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    except ValueError as error:
        raise _Broken("manifest", f"no JSON: {error}") from error
    if again.encode() != text or set(manifest) != _KEYS:
        raise _Broken("manifest", "its keys are not the fifteen, or its form is not canonical")
    return manifest


def _check_leaves(manifest: dict[str, Any], leaves: list[tuple[int, bytes]], anchor: Anchor) -> None:
    offsets = [offset for offset, _ in leaves]
    if offsets != sorted(set(offsets)):
        raise _Broken("order", "its offsets do not ascend")
    if not offsets or len(offsets) != anchor.leaf_count:
        raise _Broken("leaf-count", f"{len(offsets)} leaves, {anchor.leaf_count} anchored")
    if merkle.root([merkle.leaf_hash(value) for _, value in leaves]) != anchor.root:
        raise _Broken("root", "the file's leaves give another root")
    skipped, expected = [], anchor.first_offset
    for offset in offsets:
        if offset > expected:
            skipped.append([expected, offset])
        expected = offset + 1
    if offsets[0] < anchor.first_offset or expected != anchor.next_offset or manifest["skipped"] != skipped:
        raise _Broken("skipped", f"leaves and skipped ranges {manifest['skipped']} do not fill the batch")


# ------------------------------------------------------------------------------------------ between streams


def _check_generations(streams: list[_Stream], found: list[Violation]) -> None:
    """What continues what; and no offset is told by two generations that both hold."""
    positions = {
        _continues(stream, seq, acc): (stream, end)
        for stream in streams
        for seq, (acc, end) in enumerate(stream.ends)
    }
    generations: dict[tuple[int, bytes], int] = {}
    for stream in streams:
        generations[stream.place] = expected = generations.get(stream.place, 0) + 1
        if stream.opening.generation != expected:
            found.append(Violation("generation", stream.where, f"expected generation {expected}"))
        former, end = positions.get(stream.opening.continues, (None, 0))
        if former is not None:
            former.good_until = end
        elif stream.opening.continues != _NONE or expected > 1:
            found.append(Violation("continues", stream.where, "it continues no position of any stream"))
    told: dict[tuple[int, bytes, int], _Stream] = {}
    for stream in streams:
        for offset, _ in stream.effective():
            if told.setdefault((*stream.place, offset), stream) is not stream:
                what = f"offset {offset} is in a former generation as well"
                found.append(Violation("twice", stream.where, what))


def _check_orphans(
    store: BatchStore, streams: list[_Stream], final: Mapping[bytes, int] | None, found: list[Violation]
) -> None:
    known = {stream.name.hex(): stream for stream in streams}
    for name in store.names(""):
        match = _NAME.fullmatch(name)
        if match is None:
            continue
        stream, seq = known.get(match[1]), int(match[2])
        if stream is None:
            found.append(Violation("orphan", name, "the contract knows no such stream"))
            continue
        last = len(stream.ends) - 1
        if final is not None:
            last = min(last, final.get(stream.name, 0))
        if seq == 0 or (seq <= last and stream.ends[seq][0].hex() != match[3]):
            found.append(Violation("orphan", name, "its seq is final with another accumulator"))


# ------------------------------------------------------------------------------------------------- the log


def _check_acknowledged(record: Acknowledged, streams: list[_Stream], found: list[Violation]) -> None:
    where = f"partition {record.log.partition}, offset {record.offset}"
    values = [stream.leaves[record.offset] for stream in streams if record.offset in stream.leaves]
    if record.value in values:
        return
    if values:
        found.append(Violation("altered", where, "other bytes are anchored than were acknowledged"))
    elif any(stream.opening.start_offset <= record.offset < stream.ends[-1][1] for stream in streams):
        found.append(Violation("passed-over", where, "it was acknowledged, and its batch skips it"))
    else:
        found.append(Violation("lost", where, "it was acknowledged and is not anchored"))


def _check_held(
    log: LogIdentity, messages: Mapping[int, bytes], streams: list[_Stream], found: list[Violation]
) -> None:
    anchored = {offset: value for stream in streams for offset, value in stream.effective()}
    covered = [(stream.opening.start_offset, stream.ends[-1][1]) for stream in streams]
    for offset in sorted(anchored.keys() | messages.keys()):
        where = f"partition {log.partition}, offset {offset}"
        if offset not in messages:
            found.append(Violation("invented", where, "what is anchored was never in the log"))
        elif offset not in anchored:
            over = any(start <= offset < end for start, end in covered)
            rule, how = ("passed-over", "its batch skips it") if over else ("lost", "it is not anchored")
            found.append(Violation(rule, where, f"the log holds a message, and {how}"))
        elif anchored[offset] != messages[offset]:
            found.append(Violation("altered", where, "other bytes are anchored than the log holds"))


# --------------------------------------------------------------------------------------------------- digests


def _sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def _binding(log: LogIdentity) -> bytes:
    return _binding_of(log.cluster_id, log.partition, log.topic_id)


def _binding_of(cluster_id: str, partition: int, topic_id: str) -> bytes:
    fields = {"cluster_id": cluster_id, "partition": partition, "topic_id": topic_id}
    return _sha256(json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode())


def _stream_name(opening: Opening) -> bytes:
    numbers = struct.pack(">BIQ", opening.org, opening.generation, opening.start_offset)
    return _sha256(
        b"provenance-ledger:stream:1"
        + opening.chain_id.to_bytes(32, "big")
        + opening.contract
        + numbers
        + opening.binding
        + opening.continues
    )


def _continues(stream: _Stream, seq: int, acc: bytes) -> bytes:
    chain_id = stream.opening.chain_id.to_bytes(32, "big")
    return _sha256(chain_id + stream.opening.contract + stream.name + struct.pack(">Q", seq) + acc)
