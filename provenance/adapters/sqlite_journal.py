"""The journal of signed transactions in an SQLite file.

The batcher looks up by hash what it may have sent, and sends the same bytes again. Safety never depends on it
(`spec/anchoring.md`, "The batcher's steps"): the contract is the fence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from provenance import files
from provenance.adapters._sqlite import Database, Format
from provenance.errors import MalformedError
from provenance.ports import JournalEntry, SignedTransaction

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = ["MAX_RAW_BYTES", "SqliteJournal"]

MAX_RAW_BYTES = 1 << 17  # what nodes take as one transaction (128 KiB in go-ethereum)
_HASH_BYTES = 32
_MAX_INTEGER = 2**63 - 1

_FORMAT = Format(
    name="journal",
    application_id=0x504C4A4E,  # "PLJN"
    version=1,
    schema=(
        """CREATE TABLE entries (
            added INTEGER PRIMARY KEY, hash BLOB NOT NULL UNIQUE, nonce INTEGER NOT NULL, raw BLOB NOT NULL,
            purpose TEXT NOT NULL, stream BLOB NOT NULL, seq INTEGER NOT NULL
        ) STRICT""",
    ),
    damaged="Move it away: it saves time only, and positions are read from the chain.",
)


class SqliteJournal:
    """A `Journal` in a file.

    Args:
        path: the file; made with its folder when it is first used.
        busy_timeout_s: how long a write waits for other processes', in seconds.
        mounts: the system's table of mounts, by which a network file system is refused.
    """

    def __init__(self, path: Path, *, busy_timeout_s: float = 30.0, mounts: Path = files.MOUNTS) -> None:
        self._database = Database(path, _FORMAT, busy_timeout_s=busy_timeout_s, mounts=mounts)

    def entries(self) -> Sequence[JournalEntry]:
        """All entries, lowest nonce first; those of one nonce in the order in which they were recorded."""
        with self._database.reading() as connection:
            rows = connection.execute(
                "SELECT nonce, hash, raw, purpose, stream, seq FROM entries ORDER BY nonce, added"
            ).fetchall()
        return tuple(
            JournalEntry(SignedTransaction(nonce, tx_hash, raw), purpose, stream, seq)
            for nonce, tx_hash, raw, purpose, stream, seq in rows
        )

    def record(self, entry: JournalEntry) -> None:
        """Keep an entry; synced to disk when it returns. One that is there is replaced."""
        _check(entry)
        transaction = entry.transaction
        with self._database.writing() as connection:
            connection.execute(
                "INSERT INTO entries (hash, nonce, raw, purpose, stream, seq) VALUES (?, ?, ?, ?, ?, ?)"
                " ON CONFLICT (hash) DO UPDATE SET nonce = excluded.nonce, raw = excluded.raw,"
                " purpose = excluded.purpose, stream = excluded.stream, seq = excluded.seq",
                (
                    transaction.hash,
                    transaction.nonce,
                    transaction.raw,
                    entry.purpose,
                    entry.stream,
                    entry.seq,
                ),
            )

    def forget(self, tx_hash: bytes) -> None:
        """Drop an entry, if it is there."""
        with self._database.writing() as connection:
            connection.execute("DELETE FROM entries WHERE hash = ?", (tx_hash,))

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        self._database.close()


def _check(entry: JournalEntry) -> None:
    transaction = entry.transaction
    if len(transaction.hash) != _HASH_BYTES:
        raise MalformedError(
            f"transaction hash: {len(transaction.hash)} bytes, expected 32", reason="hash-length"
        )
    if not 0 < len(transaction.raw) <= MAX_RAW_BYTES:
        raise MalformedError(
            f"transaction: {len(transaction.raw)} bytes, expected 1 to {MAX_RAW_BYTES}", reason="raw-length"
        )
    if not (0 <= transaction.nonce <= _MAX_INTEGER and 0 <= entry.seq <= _MAX_INTEGER):
        raise MalformedError("journal entry: nonce or seq outside 0 to 2^63-1", reason="out-of-range")
