"""Orphans: batch files that no anchor names, left by batchers that crashed or lost a race.

They harm nothing, and step 8 deletes those of each seq that becomes final. What it cannot see is swept when a
batcher starts: files that were put after their seq was final, by one that did not know.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from provenance.core.batcher.checks import batch_name
from provenance.services.batch_files import list_batches

if TYPE_CHECKING:
    from collections.abc import Callable

    from provenance.ports import BatchStore, ChainReader

__all__ = ["drop_orphans"]


def drop_orphans(
    reader: ChainReader, store: BatchStore, stream: bytes, *, is_final: Callable[[bytes], bool]
) -> int:
    """Delete a stream's files whose seq is final with another accumulator; how many there were.

    Only a seq that has several files can have orphans, so the chain is asked about those alone.
    """
    files: dict[int, list[bytes]] = {}
    for _, seq, acc in list_batches(store, f"{stream.hex()}/"):
        files.setdefault(seq, []).append(acc)
    dropped = 0
    for seq, accs in files.items():
        anchor = next(iter(reader.anchors(stream, seq)), None) if len(accs) > 1 else None
        if anchor is None or anchor.seq != seq or not is_final(anchor.transaction):
            continue
        for acc in accs:
            if acc != anchor.acc:
                store.delete(batch_name(stream, seq, acc))
                dropped += 1
    return dropped
