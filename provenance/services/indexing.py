"""The index, fed from batch files that were checked against the chain's accumulators as they are read.

Only what is final is indexed, so an index that is ahead of the chain says that the chain was set back.
It is a cache: `rebuild_index` makes it anew from chain and batch files, and nothing is believed because it
says so. A malformed leaf is indexed too, as ``rejected`` with its reason; it never disappears.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from provenance.core.merkle import leaf_hash
from provenance.core.records import decode_record
from provenance.errors import MalformedError
from provenance.ports import IndexedRecord
from provenance.services.batch_files import read_batch

if TYPE_CHECKING:
    from collections.abc import Callable

    from provenance.core.batches import Batch
    from provenance.core.records import Record
    from provenance.ports import Anchor, BatchStore, ChainReader, Index

__all__ = ["REJECTED", "Indexed", "catch_up", "indexed_records", "rebuild_index"]

REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class Indexed:
    """What was indexed: batches, records, and how many of these are rejected."""

    batches: int = 0
    records: int = 0
    rejected: int = 0

    def __add__(self, other: Indexed) -> Indexed:
        return Indexed(
            self.batches + other.batches, self.records + other.records, self.rejected + other.rejected
        )


def indexed_records(batch: Batch) -> list[IndexedRecord]:
    """Where each leaf of a batch stands, and the fields by which one looks it up.

    A run record's ``run`` and a stage record's ``stage`` are its own id, so that one question finds all of a
    run, or all of a stage.
    """
    return [_indexed(batch, index, leaf.offset, leaf.value) for index, leaf in enumerate(batch.leaves)]


def _indexed(batch: Batch, index: int, offset: int, value: bytes) -> IndexedRecord:
    stream, seq = batch.manifest.stream, batch.manifest.seq
    try:
        record = decode_record(value)
    except MalformedError as error:
        reason = error.reason or "malformed"
        return IndexedRecord(
            leaf_hash(value), stream, seq, index, offset, REJECTED, None, None, -1, (), reason
        )
    predicate: dict[str, Any] = record.statement.predicate
    return IndexedRecord(
        id=record.id,
        stream=stream,
        seq=seq,
        index=index,
        offset=offset,
        kind=record.kind,
        run=record.id if record.kind == "run" else _digest(predicate.get("run")),
        stage=record.id if record.kind == "stage" else _digest(predicate.get("stage")),
        number=predicate["number"] if record.kind == "partition" else -1,
        subjects=_subjects(record),
    )


def _digest(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


def _subjects(record: Record) -> tuple[bytes, ...]:
    """Every digest of every subject, each once, in their order."""
    digests = (bytes.fromhex(digest) for s in record.statement.subjects for digest in s.digest.values())
    return tuple(dict.fromkeys(digests))


def catch_up(
    index: Index,
    reader: ChainReader,
    store: BatchStore,
    stream: bytes,
    *,
    is_final: Callable[[bytes], bool],
    on_batch: Callable[[Anchor], None] = lambda _: None,
) -> Indexed:
    """Index the batches of a stream that are final and not indexed yet.

    Args:
        index: what to feed.
        reader: the chain.
        store: the batch files.
        stream: which stream.
        is_final: whether a transaction, named by its hash, is final.
        on_batch: called with each anchor that was indexed.

    Raises:
        VerificationError: a batch file is missing or not the anchored one; what came before it is indexed.
    """
    batches = records = rejected = 0
    for anchor in reader.anchors(stream, index.indexed(stream) + 1):
        if not is_final(anchor.transaction):
            break
        batch = read_batch(store, stream, anchor.seq, anchor.acc)
        rows = indexed_records(batch)
        index.add(stream, anchor.seq, rows)
        batches, records = batches + 1, records + len(rows)
        rejected += sum(row.kind == REJECTED for row in rows)
        on_batch(anchor)
    return Indexed(batches, records, rejected)


def rebuild_index(
    index: Index,
    reader: ChainReader,
    store: BatchStore,
    *,
    is_final: Callable[[bytes], bool],
    on_batch: Callable[[Anchor], None] = lambda _: None,
) -> Indexed:
    """Make the index anew, of every stream that the contract knows; arguments as of `catch_up`.

    Raises:
        VerificationError: as `catch_up`.
    """
    streams = [stream for stream, _, _ in reader.openings()]
    index.clear()
    total = Indexed()
    for stream in streams:
        total += catch_up(index, reader, store, stream, is_final=is_final, on_batch=on_batch)
    return total
