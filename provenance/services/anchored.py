"""Anchored batches as chain and batch store hold them: position from the one, content from the other.

`survey` walks every stream's anchors and recomputes what chains them; `read_batch` gives a batch only if its
file is the anchored one, byte for byte. Audit and proof both stand on these two, and on nothing that an index
says.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from provenance.core.batches import decode_batch
from provenance.core.streams import NO_PREDECESSOR, binding_of, continues_of, next_acc, stream_of
from provenance.errors import MalformedError, MismatchError, UnavailableError, VerificationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from provenance.core.batches import Batch
    from provenance.core.streams import Opening
    from provenance.ports import Anchor, BatchStore, ChainIdentity, ChainReader, Head

    Complain = Callable[..., Any]

__all__ = ["AnchoredBatch", "Stream", "Survey", "anchored_name", "read_batch", "survey"]


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream: what it was opened with, its head, and how many records and how much gas its anchors hold."""

    name: bytes
    opening: Opening
    head: Head
    records: int
    gas: int


@dataclass(frozen=True, slots=True)
class AnchoredBatch:
    """One anchor with what is needed to check its file. ``ordinal`` counts all batches in block order."""

    ordinal: int
    anchor: Anchor
    opening: Opening
    prev_acc: bytes

    @property
    def name(self) -> str:
        """The file's name in the batch store."""
        return anchored_name(self.anchor)

    @property
    def place(self) -> dict[str, Any]:
        """Stream and seq, as findings name them."""
        return {"stream": self.anchor.stream.hex(), "seq": self.anchor.seq}


@dataclass(frozen=True, slots=True)
class Survey:
    """All that the chain says: streams, and batches in the order of blocks and logs."""

    identity: ChainIdentity
    contract: bytes
    streams: tuple[Stream, ...]
    batches: tuple[AnchoredBatch, ...]


def anchored_name(anchor: Anchor) -> str:
    """``STREAM/SEQ-ACC.batch`` of what an anchor covers."""
    return f"{anchor.stream.hex()}/{anchor.seq:016d}-{anchor.acc.hex()}.batch"


def survey(chain: ChainReader, complain: Complain) -> Survey:
    """Walk all anchors. Memory: a few hundred bytes a batch.

    Args:
        chain: the reader.
        complain: called as ``complain(code, message, stream=…, seq=…, expected=…, actual=…)`` for
            whatever does not follow: a node can be wrong, and its answers are checked as far as hashes go.

    Raises:
        UnavailableError: the node cannot be reached, or has no contract.
    """
    identity = chain.identity()
    if identity.contract is None:
        raise UnavailableError(
            f"chain {identity.chain_id}: the ledger contract is not deployed there",
            reason="no-contract",
            remedy="Run `provenance up`.",
        )
    streams, batches = [], []
    for name, opening, _ in chain.openings():
        _check_opening(name, opening, identity.chain_id, identity.contract, complain)
        head = chain.head(name)
        if head is None:
            complain(
                "stream-unknown", "the contract opened this stream and does not know it", stream=name.hex()
            )
            continue
        found = _anchors(chain, name, opening, head, complain)
        batches += found
        streams.append(
            Stream(
                name,
                opening,
                head,
                records=sum(batch.anchor.leaf_count for batch in found),
                gas=sum(batch.anchor.gas_used for batch in found),
            )
        )
    _check_continuations(streams, batches, complain)
    batches.sort(key=lambda batch: (batch.anchor.block_number, batch.anchor.log_index))
    ordered = tuple(replace(batch, ordinal=at) for at, batch in enumerate(batches))
    return Survey(identity, identity.contract, tuple(streams), ordered)


def _check_opening(name: bytes, opening: Opening, chain_id: int, contract: bytes, complain: Complain) -> None:
    if (opening.chain_id, opening.contract, stream_of(opening)) != (chain_id, contract, name):
        complain(
            "stream-name",
            "the stream's name is not that of its opening on this chain and contract",
            stream=name.hex(),
            expected=stream_of(replace(opening, chain_id=chain_id, contract=contract)).hex(),
            actual=name.hex(),
        )


def _anchors(
    chain: ChainReader, name: bytes, opening: Opening, head: Head, complain: Complain
) -> list[AnchoredBatch]:
    found: list[AnchoredBatch] = []
    seq, offset, acc = 0, opening.start_offset, name
    try:
        for anchor in chain.anchors(name):
            _check_anchor(anchor, seq, offset, acc, complain)
            found.append(AnchoredBatch(0, anchor, opening, acc))
            seq, offset, acc = anchor.seq, anchor.next_offset, anchor.acc
    except (MalformedError, VerificationError) as error:
        complain(
            "gap", f"the stream's anchors cannot be followed: {error.message}", stream=name.hex(), seq=seq + 1
        )
        return found
    if (seq, offset, acc) != (head.seq, head.next_offset, head.acc):
        complain(
            "head-differs",
            "the stream's anchors do not lead to its head",
            stream=name.hex(),
            seq=head.seq,
            expected=f"seq {head.seq}, offset {head.next_offset}, acc {head.acc.hex()}",
            actual=f"seq {seq}, offset {offset}, acc {acc.hex()}",
        )
    return found


def _check_anchor(anchor: Anchor, seq: int, offset: int, prev_acc: bytes, complain: Complain) -> None:
    place = {"stream": anchor.stream.hex(), "seq": anchor.seq}
    if anchor.seq != seq + 1:
        complain("gap", "anchors are missing", **place, expected=f"seq {seq + 1}", actual=f"seq {anchor.seq}")
    if anchor.first_offset != offset:
        complain(
            "range-gap",
            "the batch does not begin where the one before it ends",
            **place,
            expected=f"offset {offset}",
            actual=f"offset {anchor.first_offset}",
        )
    acc = next_acc(
        prev_acc,
        anchor.seq,
        first_offset=anchor.first_offset,
        next_offset=anchor.next_offset,
        leaf_count=anchor.leaf_count,
        root=anchor.root,
        manifest_hash=anchor.manifest_hash,
    )
    if acc != anchor.acc:
        complain(
            "acc-differs",
            "the anchored accumulator does not follow from the one before it",
            **place,
            expected=acc.hex(),
            actual=anchor.acc.hex(),
        )


def _check_continuations(
    streams: Sequence[Stream], batches: Iterable[AnchoredBatch], complain: Complain
) -> None:
    """That a stream which continues another names a position that the other really had."""
    successors = [stream for stream in streams if stream.opening.continues != NO_PREDECESSOR]
    if not successors:
        return
    positions = {continues_of(stream.opening, 0, stream.name) for stream in streams}
    positions |= {continues_of(b.opening, b.anchor.seq, b.anchor.acc) for b in batches}
    for stream in successors:
        if stream.opening.continues not in positions:
            complain(
                "predecessor-unknown",
                "the stream continues one that is not on this chain; that one was not audited",
                stream=stream.name.hex(),
            )


def read_batch(store: BatchStore, batch: AnchoredBatch) -> Batch:
    """The batch's content, checked against its anchor.

    Raises:
        UnavailableError: ``missing-file``: the store has no such file.
        MalformedError: its bytes are no batch file.
        MismatchError: ``root-differs``, ``other-acc`` or ``binding-differs``: it is not the anchored one.
    """
    data = store.get(batch.name)
    if data is None:
        raise UnavailableError(
            f"batch file {batch.name}: the batch store does not have it", reason="missing-file"
        )
    found = decode_batch(data)
    # The accumulator covers seq, range, count, root, manifest and everything before: equal acc, equal batch.
    if found.manifest.acc != batch.anchor.acc:
        raise MismatchError(
            f"batch file {batch.name}: accumulator of its manifest",
            expected=batch.anchor.acc.hex(),
            actual=found.manifest.acc.hex(),
            reason="other-acc",
        )
    binding = binding_of(found.manifest.log)
    if (binding, found.manifest.generation) != (batch.opening.binding, batch.opening.generation):
        raise MismatchError(
            f"batch file {batch.name}: the log that it names is not the one its stream is bound to",
            expected=batch.opening.binding.hex(),
            actual=binding.hex(),
            reason="binding-differs",
        )
    return found
