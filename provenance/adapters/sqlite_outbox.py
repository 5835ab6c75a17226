"""The outbox in one SQLite file, for all processes of this machine that record into one folder.

The file is made when the first record has to be kept, so a log that always answers costs nothing here.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from typing import TYPE_CHECKING, Any

from provenance import files
from provenance.adapters._sqlite import Database, Format
from provenance.core.outbox import OutboxDepth, OutboxRow, Place
from provenance.errors import ConfigError, MalformedError, UnavailableError
from provenance.ports.outbox import MAX_OUTBOX_KEY_BYTES, MAX_OUTBOX_VALUE_BYTES

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

__all__ = ["MAX_READ_BYTES", "SqliteOutbox"]

MAX_READ_BYTES = 16 << 20  # of values, in one answer
_MICROSECONDS = 1_000_000
_LARGEST = 2**63 - 1

_FORMAT = Format(
    name="outbox",
    application_id=0x504C4F42,  # "PLOB"
    version=1,
    schema=(
        # AUTOINCREMENT: a number that was dropped must not come back for another record.
        """CREATE TABLE records (
            number INTEGER PRIMARY KEY AUTOINCREMENT, digest BLOB NOT NULL UNIQUE,
            key BLOB NOT NULL, value BLOB NOT NULL, since INTEGER NOT NULL,
            cluster_id TEXT, topic_id TEXT, partition INTEGER, offset INTEGER
        ) STRICT""",
        "CREATE INDEX unsent ON records (number) WHERE topic_id IS NULL",
        """CREATE TABLE totals (
            only_row INTEGER PRIMARY KEY CHECK (only_row = 1), records INTEGER NOT NULL, size INTEGER NOT NULL
        ) STRICT""",
        "INSERT INTO totals VALUES (1, 0, 0)",
        """CREATE TRIGGER kept AFTER INSERT ON records BEGIN
            UPDATE totals SET records = records + 1, size = size + length(new.key) + length(new.value);
        END""",
        """CREATE TRIGGER dropped AFTER DELETE ON records BEGIN
            UPDATE totals SET records = records - 1, size = size - length(old.key) - length(old.value);
        END""",
    ),
    damaged="Restore it from a copy, or move it away and compute again what the run lacks when it is sealed.",
)
_COLUMNS = "SELECT number, key, value, since, cluster_id, topic_id, partition, offset FROM records"
_ROWS = _COLUMNS + " WHERE number > ? ORDER BY number LIMIT ?"
_UNSENT = _COLUMNS + " WHERE number > ? AND topic_id IS NULL ORDER BY number LIMIT ?"


class SqliteOutbox:
    """An `Outbox` in a file.

    Args:
        path: the file; made with its folder when the first record is kept.
        max_bytes: of keys and values together.
        max_records: how many records.
        busy_timeout_s: how long a write waits for other processes', in seconds.
        mounts: the system's table of mounts, by which a network file system is refused.
    """

    def __init__(
        self,
        path: Path,
        *,
        max_bytes: int = 256 << 20,
        max_records: int = 1_000_000,
        busy_timeout_s: float = 30.0,
        mounts: Path = files.MOUNTS,
    ) -> None:
        self._database = Database(path, _FORMAT, busy_timeout_s=busy_timeout_s, mounts=mounts)
        self._max_bytes = max_bytes
        self._max_records = max_records
        self._was_there = False

    def keep(self, records: Sequence[tuple[bytes, bytes]], since: dt.datetime) -> None:
        """Keep (key, value) pairs; synced to disk when it returns.

        Raises:
            MalformedError: a key above 4 KiB or a value above 1 MiB less 4 KiB; nothing was kept.
            UnavailableError: the outbox is full (``reason="outbox-full"``), or the disk is; nothing was kept.
        """
        for key, value in records:
            _require_length("key", key, MAX_OUTBOX_KEY_BYTES)
            _require_length("value", value, MAX_OUTBOX_VALUE_BYTES)
        if not records:
            return
        moment = round(since.timestamp() * _MICROSECONDS)
        with self._database.writing() as connection:
            connection.executemany(
                "INSERT INTO records (digest, key, value, since) VALUES (?, ?, ?, ?) ON CONFLICT (digest) DO"
                " UPDATE SET cluster_id = NULL, topic_id = NULL, partition = NULL, offset = NULL",
                ((_digest(key, value), key, value, moment) for key, value in records),
            )
            count, size = _totals(connection)
            if count > self._max_records or size > self._max_bytes:
                raise self._full(count, size)
        self._was_there = True

    def rows(self, after: int, limit: int, *, only_unsent: bool = False) -> Sequence[OutboxRow]:
        """At most ``limit`` rows above ``after``, fewer when they hold more than 16 MiB."""
        if limit < 1:
            raise ConfigError(f"reading {limit} rows of the outbox: expected at least 1")
        if not self._is_there():
            return ()
        found: list[OutboxRow] = []
        size = 0
        with self._database.reading() as connection:
            rows = connection.execute(
                _UNSENT if only_unsent else _ROWS,
                (after, min(limit, _LARGEST)),
            )
            for row in rows:
                size += len(row[2])
                if found and size > MAX_READ_BYTES:
                    break
                found.append(_row(*row))
            rows.close()
        return found

    def settle(self, placed: Mapping[int, Place], forgotten: Collection[int]) -> None:
        """Note places and drop rows, in one transaction, synced."""
        if not (placed or forgotten) or not self._is_there():
            return
        with self._database.writing() as connection:
            connection.executemany(
                "UPDATE records SET cluster_id = ?, topic_id = ?, partition = ?, offset = ? WHERE number = ?",
                (
                    (place.cluster_id, place.topic_id, place.partition, place.offset, number)
                    for number, place in placed.items()
                ),
            )
            connection.executemany("DELETE FROM records WHERE number = ?", ((n,) for n in forgotten))

    def depth(self) -> OutboxDepth:
        """How much waits; nothing is made where there is no file."""
        if not self._is_there():
            return OutboxDepth()
        with self._database.reading() as connection:
            count, size = _totals(connection)
            (unsent,) = connection.execute(
                "SELECT count(*) FROM records INDEXED BY unsent WHERE topic_id IS NULL"
            ).fetchone()
            oldest = connection.execute("SELECT since FROM records ORDER BY number LIMIT 1").fetchone()
        return OutboxDepth(count, size, unsent, None if oldest is None else _moment(oldest[0]))

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        self._database.close()

    def _is_there(self) -> bool:
        # One that was there and is gone is an error, which the database raises.
        self._was_there = self._was_there or self._database.path.exists()
        return self._was_there

    def _full(self, count: int, size: int) -> UnavailableError:
        what = (
            f"{count:,} records, expected at most {self._max_records:,}"
            if count > self._max_records
            else f"{size:,} bytes, expected at most {self._max_bytes:,}"
        )
        return UnavailableError(
            f"{self._database.path}: the outbox is full: it would hold {what}",
            reason="outbox-full",
            remedy="Bring the log back; provenance batch then sends what waits and drops what is final. Or"
            " raise log.outbox_max_bytes or log.outbox_max_records, then compute again.",
        )


def _row(
    number: int, key: bytes, value: bytes, since: int, cluster: str | None, topic: str | None, *at: Any
) -> OutboxRow:
    place = None if cluster is None or topic is None else Place(cluster, topic, *at)
    return OutboxRow(number, key, value, _moment(since), place)


def _moment(microseconds: int) -> dt.datetime:
    return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=microseconds)


def _totals(connection: sqlite3.Connection) -> tuple[int, int]:
    count, size = connection.execute("SELECT records, size FROM totals").fetchone()
    return count, size


def _digest(key: bytes, value: bytes) -> bytes:
    return hashlib.sha256(len(key).to_bytes(4, "big") + key + value).digest()


def _require_length(what: str, data: bytes, limit: int) -> None:
    if len(data) > limit:
        raise MalformedError(f"{what}: {len(data)} bytes, expected at most {limit}", reason=f"{what}-length")
