"""A chain that lost what was anchored: refused, or where it is the embedded one, anchored again from files.

anvil keeps its state by dumping it now and then, so a chain behind what was final on it is an ordinary case
there; and one that was made anew gives the same contract address, hence the same stream names and
accumulators. Everything is then anchored again from the batch files, each under the accumulator that its name
says. On any other chain the same sight means that somebody rewrote history: nothing is anchored on it.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from provenance.core.batcher.checks import batch_name, decode_named_batch
from provenance.core.batches import manifest_hash
from provenance.core.streams import Opening, binding_of, stream_of
from provenance.errors import ConfigError, MismatchError, VerificationError
from provenance.ports import OpenCall
from provenance.services.batch_files import anchor_call, list_batches

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from provenance.core.batches import Batch, Manifest
    from provenance.ports import BatchStore, ChainIdentity, ChainReader, Head, Index
    from provenance.services.sending import Sender

__all__ = ["AnchoredAgain", "anchor_again", "check_heads"]

_log = logging.getLogger("provenance.batcher")


@dataclass(frozen=True, slots=True)
class AnchoredAgain:
    """A stream whose batches ``first`` to ``last`` the chain did not have, and now has again."""

    stream: bytes
    first: int
    last: int


def check_heads(reader: ChainReader, index: Index, streams: Iterable[bytes]) -> None:
    """Raise ``VerificationError`` where the chain is behind batches that were final on it.

    The index holds final batches only. It is a cache, and no proof of anything, but reason enough to stop.
    """
    for stream in streams:
        head = reader.head(stream)
        seq, known = (0 if head is None else head.seq), index.indexed(stream)
        if known > seq:
            raise VerificationError(
                f"stream {stream.hex()[:16]}: the chain was set back: its head is seq {seq}, but batches up"
                f" to seq {known} were final on it",
                reason="chain-behind",
                remedy="Ask whoever runs the node; nothing is anchored on a chain that lost final blocks.",
            )


def anchor_again(
    reader: ChainReader, store: BatchStore, publisher: Sender, governance: Sender, *, identity: ChainIdentity
) -> list[AnchoredAgain]:
    """Open the streams and anchor the batches that the embedded chain does not have and the batch files do.

    Several files may continue one head: what was final, and orphans. Orphans of a final seq are deleted with
    it, so the choice is open for a stream's last batch only; the one that was signed is taken, else the
    longest.

    Raises:
        VerificationError: a file is damaged or missing, or does not give the accumulator of its name.
    """
    signed = [entry.transaction.raw for entry in publisher.entries()]
    publisher.settle_all()
    governance.settle_all()
    found = []
    for stream, entries in groupby(list_batches(store), key=lambda entry: entry[0]):
        files = _Files(store, stream, [(seq, acc) for _, seq, acc in entries], signed)
        head = reader.head(stream) or _open(reader, governance, files, identity)
        last = _anchor_files(reader, files, publisher, head)
        if last > head.seq:
            _log.warning(
                "stream %s: batches %d to %d, which the chain did not have, were anchored from their files",
                stream.hex()[:16],
                head.seq + 1,
                last,
            )
            found.append(AnchoredAgain(stream, head.seq + 1, last))
        _check_head(reader, files, head.seq, last)
    return found


class _Files:
    """One stream's batch files."""

    def __init__(
        self, store: BatchStore, stream: bytes, entries: Sequence[tuple[int, bytes]], signed: Sequence[bytes]
    ) -> None:
        self.stream = stream
        self._store = store
        self._signed = signed
        self._accs: dict[int, list[bytes]] = {}
        for seq, acc in entries:
            self._accs.setdefault(seq, []).append(acc)
        self.last = max(self._accs, default=0)
        self.anchored: dict[int, bytes] = {}

    def load(self, seq: int, acc: bytes) -> Batch:
        """The batch in one file."""
        name = batch_name(self.stream, seq, acc)
        return decode_named_batch(name, self._store.get(name) or b"")

    def any_of(self, seq: int) -> Manifest | None:
        """A manifest of this seq."""
        accs = self._accs.get(seq)
        return None if accs is None else self.load(seq, accs[0]).manifest

    def next_after(self, seq: int, acc: bytes) -> Manifest | None:
        """The manifest that continues a position; of several that with a successor, or signed, or longest."""
        manifests = [self.load(seq + 1, found).manifest for found in self._accs.get(seq + 1, ())]
        manifests = [manifest for manifest in manifests if manifest.prev_acc == acc]
        if len(manifests) < 2:
            return manifests[0] if manifests else None
        return max(manifests, key=lambda m: (self._has_successor(m), self._was_signed(m), m.next_offset))

    def _has_successor(self, manifest: Manifest) -> bool:
        seq = manifest.seq + 1
        return any(
            self.load(seq, found).manifest.prev_acc == manifest.acc for found in self._accs.get(seq, ())
        )

    def _was_signed(self, manifest: Manifest) -> bool:
        # The transaction's data holds the hash as it stands.
        return any(manifest_hash(manifest) in raw for raw in self._signed)


def _open(reader: ChainReader, governance: Sender, files: _Files, identity: ChainIdentity) -> Head:
    """Open a stream anew as it was: its name says whether that is what it was opened with."""
    first = files.any_of(1)
    if first is None or identity.contract is None:
        raise _cannot(files, "its first batch file is missing")
    opening = Opening(
        chain_id=identity.chain_id,
        contract=identity.contract,
        org=1,
        generation=first.generation,
        start_offset=first.first_offset,
        binding=binding_of(first.log),
    )
    if first.generation != 1 or stream_of(opening) != files.stream:
        raise _cannot(files, "it belongs to another chain, contract or organisation, or continues a stream")
    call = OpenCall(opening.binding, opening.start_offset, opening.continues)
    governance.complete(call, f"opening stream {files.stream.hex()[:16]} again")
    head = reader.head(files.stream)
    if head is None:
        raise _cannot(files, "the contract opened another stream in its place")
    return head


def _cannot(files: _Files, why: str) -> VerificationError:
    return VerificationError(
        f"stream {files.stream.hex()[:16]}: the chain does not know it, and it cannot be opened again: {why}",
        reason="cannot-reopen",
        remedy="Bring back the chain's state or the batch files from a copy.",
    )


def _anchor_files(reader: ChainReader, files: _Files, publisher: Sender, head: Head) -> int:
    """Anchor what continues the head; the last seq."""
    seq, acc = head.seq, head.acc
    while (manifest := files.next_after(seq, acc)) is not None:
        what = f"anchoring batch {manifest.seq} of stream {files.stream.hex()[:16]} again"
        try:
            publisher.complete(anchor_call(manifest), what, stream=files.stream, seq=manifest.seq)
        except ConfigError as error:
            _refuse_moved(reader, files, manifest, error)
            raise
        seq, acc = manifest.seq, manifest.acc
        files.anchored[seq] = acc
    if files.last > seq + 1:
        raise VerificationError(
            f"stream {files.stream.hex()[:16]}: no batch file continues the chain's head, seq {seq} (acc"
            f" {acc.hex()}), but there are files up to seq {files.last}",
            reason="batch-missing",
            remedy=f"Bring back the file of seq {seq + 1} from a copy of the batch store.",
        )
    return seq


def _refuse_moved(reader: ChainReader, files: _Files, manifest: Manifest, cause: ConfigError) -> None:
    """Where the head is no longer the one that the manifest continues, the chain was set back once more."""
    head = reader.head(files.stream)
    if head is not None and (head.seq, head.acc) == (manifest.seq - 1, manifest.prev_acc):
        return
    raise VerificationError(
        f"stream {files.stream.hex()[:16]}: the chain was set back while batch {manifest.seq} was anchored"
        " again",
        reason="chain-behind",
        remedy="Call the same command again: it begins with what the chain lost.",
    ) from cause


def _check_head(reader: ChainReader, files: _Files, before: int, last: int) -> None:
    """That the chain now says what the files' names say."""
    if last == before:
        return
    head = reader.head(files.stream)
    if head is None or (head.seq, head.acc) != (last, files.anchored[last]):
        raise MismatchError(
            f"stream {files.stream.hex()[:16]}: head after anchoring again",
            expected=f"seq {last}, acc {files.anchored[last].hex()}",
            actual="none" if head is None else f"seq {head.seq}, acc {head.acc.hex()}",
            reason="head-differs",
            remedy="Ask whoever else anchors into this chain.",
        )
