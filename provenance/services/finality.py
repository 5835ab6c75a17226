"""Whether a record is final where the log acknowledged it: below a final head, and in the anchored batch.

Positions come from the chain, bytes from the batch files, which the chain's accumulators vouch for. Nothing
is taken from the index. What cannot be read is not known, which is no reason to give a record up.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from typing import TYPE_CHECKING

from provenance.core.outbox import Finality
from provenance.core.streams import LogIdentity, binding_of
from provenance.errors import ProvenanceError
from provenance.services.batch_files import read_batch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from provenance.core.batches import Batch
    from provenance.core.outbox import Place
    from provenance.ports import Anchor, BatchStore, ChainReader

__all__ = ["FinalRecords"]

_ANY_TOPIC = "any"  # a stream's name does not cover the topic's


@dataclass(frozen=True, slots=True)
class _Walked:
    """Final anchors of a stream, and from which offset on these are all of them."""

    start: int
    anchors: list[Anchor]


class FinalRecords:
    """What the chain says is final now; make another one for another look.

    Args:
        reader: the chain.
        store: the batch files.
        org: our organisation's number; streams of others do not count.
        is_final: whether a transaction is final.
    """

    def __init__(
        self, reader: ChainReader, store: BatchStore, *, org: int, is_final: Callable[[bytes], bool]
    ) -> None:
        self._reader = reader
        self._store = store
        self._org = org
        self._is_final = is_final
        self._streams: dict[bytes, list[bytes]] = {}
        self._walked: dict[bytes, _Walked] = {}
        self._last: tuple[bytes, Batch] | None = None

    def look(self, place: Place, value: bytes) -> Finality:
        """Whether the value is final at its place.

        Ask in the order of offsets: one batch is held at a time.
        """
        log = LogIdentity(place.cluster_id, _ANY_TOPIC, place.topic_id, place.partition)
        try:
            streams = self._streams_of(binding_of(log))
            is_final = any(self._holds(stream, place.offset, value) for stream in streams)
        except ProvenanceError:  # the chain does not answer, or a file is not there or not the anchored one
            return Finality.UNKNOWN
        return Finality.FINAL if is_final else Finality.NOT_FINAL

    def _streams_of(self, binding: bytes) -> list[bytes]:
        if binding not in self._streams:
            openings = self._reader.openings(binding)
            ours = [name for name, opening, _ in openings if opening.org == self._org]
            self._streams[binding] = ours[::-1]
        return self._streams[binding]

    def _holds(self, stream: bytes, offset: int, value: bytes) -> bool:
        anchors = self._final_anchors(stream, offset)
        at = bisect.bisect_right(anchors, offset, key=lambda anchor: anchor.first_offset) - 1
        if at < 0 or offset >= anchors[at].next_offset:
            return False
        leaves = self._batch(anchors[at]).leaves
        found = bisect.bisect_left(leaves, offset, key=lambda leaf: leaf.offset)
        return found < len(leaves) and (leaves[found].offset, leaves[found].value) == (offset, value)

    def _final_anchors(self, stream: bytes, offset: int) -> Sequence[Anchor]:
        """The stream's final anchors, from one that begins at the offset or before, or from the first."""
        known = self._walked.get(stream)
        if known is None or known.start > offset:
            known = self._walk_back(stream, offset)
            while known.anchors and not self._is_final(known.anchors[-1].transaction):
                known.anchors.pop()
            self._walked[stream] = known
        return known.anchors

    def _walk_back(self, stream: bytes, offset: int) -> _Walked:
        """Anchors up to the head; twice as many each time, for what waits was recorded lately."""
        head = self._reader.head(stream)
        seq = 0 if head is None else head.seq
        count = 1
        while True:
            first = max(1, seq - count + 1)
            found = list(self._reader.anchors(stream, first)) if seq else []
            if not found or first == 1:
                return _Walked(0, found)
            if found[0].first_offset <= offset:
                return _Walked(found[0].first_offset, found)
            count *= 2

    def _batch(self, anchor: Anchor) -> Batch:
        if self._last is None or self._last[0] != anchor.acc:
            self._last = anchor.acc, read_batch(self._store, anchor.stream, anchor.seq, anchor.acc)
        return self._last[1]
