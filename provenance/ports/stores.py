"""The batch store, the index over it, and the private store of names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


__all__ = ["BatchStore", "Index", "IndexedRecord", "PrivateNames"]


class BatchStore(Protocol):
    """Immutable objects by name (``STREAM/SEQ-ACC.batch``), shared by all batchers.

    A folder or an object store.
    """

    def put(self, name: str, data: bytes) -> None:
        """Create the object, durably.

        Equal bytes already there are fine; other bytes under the name raise ``MismatchError``.
        """
        ...

    def get(self, name: str) -> bytes | None:
        """The object's bytes, or None if there is none.

        Never more than the store's limit: a larger one raises ``MalformedError``.
        """
        ...

    def names(self, prefix: str) -> Iterator[str]:
        """The names that begin with the prefix, ascending."""
        ...

    def delete(self, name: str) -> None:
        """Remove the object; removing an absent one is no error."""
        ...


@dataclass(frozen=True, slots=True)
class IndexedRecord:
    """Where a record stands, and the few fields by which one looks it up.

    ``kind`` is ``rejected`` with a ``reason`` for a malformed leaf.

    ``run``, ``stage`` and ``subjects`` are raw digests; ``number`` is the partition number or -1.
    """

    id: bytes
    stream: bytes
    seq: int
    index: int
    offset: int
    kind: str
    run: bytes | None
    stage: bytes | None
    number: int
    subjects: tuple[bytes, ...]
    reason: str = ""


class Index(Protocol):
    """A cache over the batch files, rebuilt by one command; nothing is believed because the index says so."""

    def add(self, stream: bytes, seq: int, records: Sequence[IndexedRecord]) -> None:
        """Index one batch, atomically. A batch that is already there is replaced by the same."""
        ...

    def find(
        self,
        *,
        record_id: bytes | None = None,
        run: bytes | None = None,
        stage: bytes | None = None,
        subject: bytes | None = None,
        kind: str | None = None,
    ) -> Iterator[IndexedRecord]:
        """The records that match all that is given, by position (stream, seq, index)."""
        ...

    def indexed(self, stream: bytes) -> int:
        """The highest seq up to which the stream is indexed without a gap; 0 if nothing is."""
        ...

    def clear(self) -> None:
        """Forget everything."""
        ...


class PrivateNames(Protocol):
    """The private store of a dataset's secret and of the plain values behind its tokens; beside the keys.

    Mode 0600, never exported.
    """

    def secret(self) -> bytes:
        """The dataset's 32-byte secret; made when it is first asked for."""
        ...

    def remember(self, values: Sequence[tuple[str, str, str]]) -> None:
        """Keep (domain, token, plain value) rows; domain is ``"key"``, ``"name"`` or ``"location"``.

        A location's token is a record id in hex, its plain value an absolute path. A token that is there gets
        the new value; a row of no form refuses all of them.
        """
        ...

    def plain(self, token: str) -> str | None:
        """The plain value behind a token, if this store knows it."""
        ...
