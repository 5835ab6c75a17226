"""Opening streams anew on the embedded chain, as they were: each name says whether that is what it was.

A stream's batch files give its generation, first offset and log, but not what it continues. That is found by
trying: one of the positions that other streams have, on the chain or in their files. A name that comes out is
the proof, for it covers all of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from provenance.core.streams import NO_PREDECESSOR, Opening, binding_of, continues_of, stream_of
from provenance.errors import VerificationError
from provenance.ports import CloseCall, OpenCall
from provenance.services.chain_setup import ORGANISATION

if TYPE_CHECKING:
    from collections.abc import Iterator

    from provenance.core.batches import Manifest
    from provenance.ports import ChainIdentity, ChainReader, Head
    from provenance.services.sending import Sender

__all__ = ["Reopening", "StreamFiles"]


class StreamFiles(Protocol):
    """The batch files of one stream."""

    @property
    def stream(self) -> bytes:
        """Its name."""
        ...

    def any_of(self, seq: int) -> Manifest | None:
        """A manifest of this seq."""
        ...


class Reopening:
    """Opens streams that the chain does not know (any more).

    Args:
        reader: the chain.
        governance: opens and closes.
        identity: the chain and the contract.
    """

    def __init__(self, reader: ChainReader, governance: Sender, identity: ChainIdentity) -> None:
        self._reader, self._governance, self._identity = reader, governance, identity
        self._known: dict[bytes, bytes] = {}
        self._looked: dict[bytes, int] = {}

    def _positions(self) -> dict[bytes, bytes]:
        """Every position that can be continued, and its stream; looked up only where a stream asks for it."""
        for stream, opening, _ in self._reader.openings():
            head = self._reader.head(stream)
            if head is None or self._looked.get(stream) == head.seq:
                continue
            self._known[continues_of(opening, 0, stream)] = stream
            for anchor in self._reader.anchors(stream):
                self._known[continues_of(opening, anchor.seq, anchor.acc)] = stream
            self._looked[stream] = head.seq
        return self._known

    def is_ready(self, files: StreamFiles) -> bool:
        """Whether the stream is on the chain, or what it was opened with is known."""
        return self._reader.head(files.stream) is not None or self._opening(files) is not None

    def open(self, files: StreamFiles) -> Head:
        """Open a stream as it was; what it continues is closed first, as it had been.

        Raises:
            VerificationError: what it was opened with cannot be found (``reason="cannot-reopen"``).
        """
        if files.any_of(1) is None or self._identity.contract is None:
            raise self._cannot(files, "its first batch file is missing")
        opening = self._opening(files)
        if opening is None:
            raise self._cannot(
                files,
                "it belongs to another chain, contract or organisation, or continues a stream of which there"
                " is no batch file",
            )
        self._close_former(opening)
        call = OpenCall(opening.binding, opening.start_offset, opening.continues)
        self._governance.complete(call, f"opening stream {files.stream.hex()[:16]} again")
        head = self._reader.head(files.stream)
        if head is None:
            raise self._cannot(files, "the contract opened another stream in its place")
        return head

    def _opening(self, files: StreamFiles) -> Opening | None:
        """What the stream was opened with, if that is known by now."""
        first = files.any_of(1)
        if first is None or self._identity.contract is None:
            return None
        for continues in self._candidates():
            opening = Opening(
                chain_id=self._identity.chain_id,
                contract=self._identity.contract,
                org=ORGANISATION,
                generation=first.generation,
                start_offset=first.first_offset,
                binding=binding_of(first.log),
                continues=continues,
            )
            if stream_of(opening) == files.stream:
                return opening
        return None

    def _candidates(self) -> Iterator[bytes]:
        yield NO_PREDECESSOR
        yield from self._positions()

    def _close_former(self, opening: Opening) -> None:
        former = self._known.get(opening.continues)
        ours = [name for name, other, _ in self._reader.openings(opening.binding) if other.org == opening.org]
        for stream in {*ours, *([former] if former is not None else [])}:
            head = self._reader.head(stream)
            if head is not None and not head.closed:
                self._governance.complete(CloseCall(stream), f"closing stream {stream.hex()[:16]} again")

    @staticmethod
    def _cannot(files: StreamFiles, why: str) -> VerificationError:
        return VerificationError(
            f"stream {files.stream.hex()[:16]}: the chain does not know it, and it cannot be opened again:"
            f" {why}",
            reason="cannot-reopen",
            remedy="Bring back the chain's state or the batch files from a copy.",
        )
