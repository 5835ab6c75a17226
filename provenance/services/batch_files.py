"""Batch files as they lie in the store, checked against the chain's accumulators as they are read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from provenance.core.batcher.checks import batch_name, decode_named_batch
from provenance.core.batches import manifest_hash, parse_file_name
from provenance.errors import MalformedError, VerificationError
from provenance.ports import AnchorCall

if TYPE_CHECKING:
    from provenance.core.batches import Batch, Manifest
    from provenance.ports import BatchStore

__all__ = ["anchor_call", "list_batches", "read_batch"]


def read_batch(store: BatchStore, stream: bytes, seq: int, acc: bytes) -> Batch:
    """The batch that the chain names by stream, seq and accumulator.

    Raises:
        VerificationError: there is no file (``reason="batch-missing"``), or it is not the anchored one
            (``reason="batch-file"``).
    """
    name = batch_name(stream, seq, acc)
    data = store.get(name)
    if data is None:
        raise VerificationError(
            f"batch file {name}: it is missing",
            reason="batch-missing",
            remedy="Restore it from a copy of the batch store.",
        )
    return decode_named_batch(name, data)


def list_batches(store: BatchStore, prefix: str = "") -> list[tuple[bytes, int, bytes]]:
    """``(stream, seq, acc)`` of every batch file whose name begins with the prefix, in order of their names.

    Other objects of the store (lists, environments, reports) are passed by.
    """
    found = []
    for name in store.names(prefix):
        try:
            found.append(parse_file_name(name))
        except MalformedError:
            continue
    return found


def anchor_call(manifest: Manifest) -> AnchorCall:
    """The call that anchors a batch."""
    return AnchorCall(
        stream=manifest.stream,
        seq=manifest.seq,
        prev_acc=manifest.prev_acc,
        first_offset=manifest.first_offset,
        next_offset=manifest.next_offset,
        leaf_count=manifest.leaf_count,
        root=manifest.root,
        manifest_hash=manifest_hash(manifest),
    )
