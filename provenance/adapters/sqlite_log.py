"""The event log in one SQLite file: partition 0 of a log whose cluster and topic id were drawn with the file.

Several processes append at once. Offsets are dense from 0, because a write that fails takes none; rows keep
key and value as the bytes that came. A file made anew has other ids, so nothing continues silently after a
loss (`spec/anchoring.md`, "Stream": "The embedded SQLite log").
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from provenance import files
from provenance.adapters._sqlite import Database, Format
from provenance.core.batches import MAX_LEAF_BYTES
from provenance.core.streams import MAX_OFFSET, LogIdentity
from provenance.errors import ConfigError, MalformedError
from provenance.ports import Bounds, LogMessage

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence
    from pathlib import Path

__all__ = ["MAX_KEY_BYTES", "MAX_READ_BYTES", "TOPIC", "SqliteLog"]

TOPIC = "provenance.records"
MAX_KEY_BYTES = 4096
MAX_READ_BYTES = 16 << 20  # of values, in one answer; one message more than fits is never held
_PARTITION = 0
_EPOCH = 0

_FORMAT = Format(
    name="event log",
    application_id=0x504C4C47,  # "PLLG"
    version=1,
    schema=(
        """CREATE TABLE identity (
            only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
            cluster_id TEXT NOT NULL, topic TEXT NOT NULL, topic_id TEXT NOT NULL
        ) STRICT""",
        "CREATE TABLE messages (offset INTEGER PRIMARY KEY, key BLOB NOT NULL, value BLOB NOT NULL) STRICT",
    ),
    damaged="Restore it from a copy. Without one, move it away: a new log begins, and what was anchored stays"
    " in the batch files.",
)


class SqliteLog:
    """An `EventLog` of one partition. All records of one ``append`` become durable together, or none does.

    Args:
        path: the file; made with its folder when it is first used.
        busy_timeout_s: how long an append waits for those of other processes, in seconds.
        mounts: the system's table of mounts, by which a network file system is refused.
    """

    def __init__(self, path: Path, *, busy_timeout_s: float = 30.0, mounts: Path = files.MOUNTS) -> None:
        self._database = Database(
            path, _FORMAT, busy_timeout_s=busy_timeout_s, first_rows=_draw_identity, mounts=mounts
        )

    def identities(self) -> Sequence[LogIdentity]:
        """The log's one partition."""
        with self._database.reading() as connection:
            rows = connection.execute("SELECT cluster_id, topic, topic_id FROM identity").fetchall()
        for cluster_id, topic, topic_id in rows:  # one, or none in a damaged file
            return (LogIdentity(cluster_id, topic, topic_id, _PARTITION),)
        raise MalformedError(
            f"{self._database.path}: it has no identity", reason="damaged", remedy=_FORMAT.damaged
        )

    def append(self, records: Sequence[tuple[bytes, bytes]]) -> Sequence[tuple[int, int]]:
        """Append (key, value) pairs; synced to disk when it returns.

        Raises:
            MalformedError: a key above 4 KiB or a value above 1 MiB; nothing was written.
            UnavailableError: the disk is full, or other processes kept the file busy; nothing was written.
        """
        for key, value in records:
            _require_length("key", key, MAX_KEY_BYTES)
            _require_length("value", value, MAX_LEAF_BYTES)
        if not records:
            return ()
        with self._database.writing() as connection:
            start = _bounds(connection).end
            if start + len(records) > MAX_OFFSET:
                raise MalformedError(f"{self._database.path}: no offsets are left", reason="log-full")
            connection.executemany(
                "INSERT INTO messages (offset, key, value) VALUES (?, ?, ?)",
                ((start + n, key, value) for n, (key, value) in enumerate(records)),
            )
        return tuple((_PARTITION, start + n) for n in range(len(records)))

    def bounds(self, partition: int) -> Bounds:
        """The range of offsets that the log holds now."""
        _require_partition(partition)
        with self._database.reading() as connection:
            bounds = _bounds(connection)
        if bounds.end > bounds.start:
            self._require_offset(bounds.start)
            self._require_offset(bounds.end - 1)
        return bounds

    def read(self, partition: int, start: int, limit: int) -> Sequence[LogMessage]:
        """At most ``limit`` messages from ``start`` on, fewer when they hold more than 16 MiB."""
        _require_partition(partition)
        if limit < 1 or start < 0:
            raise ConfigError(f"reading {limit} messages from {start}: expected at least 1, from 0 on")
        found: list[LogMessage] = []
        size = 0
        with self._database.reading() as connection:
            rows = connection.execute(
                "SELECT offset, value FROM messages WHERE offset >= ? ORDER BY offset LIMIT ?",
                (min(start, MAX_OFFSET), min(limit, MAX_OFFSET)),
            )
            for offset, value in rows:
                self._require_offset(offset)
                size += len(value)
                if found and size > MAX_READ_BYTES:
                    break
                found.append(LogMessage(offset, value, _EPOCH))
            rows.close()
        return found

    def _require_offset(self, offset: int) -> None:
        # One that was put there past `append`: whoever reads on from what came last would never get ahead.
        if not 0 <= offset < MAX_OFFSET:
            raise MalformedError(
                f"{self._database.path}: it holds offset {offset}, expected 0 to {MAX_OFFSET - 1}",
                reason="damaged",
                remedy=_FORMAT.damaged,
            )

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        self._database.close()


def _draw_identity(connection: sqlite3.Connection) -> None:
    connection.execute(
        "INSERT INTO identity VALUES (1, ?, ?, ?)", (secrets.token_hex(16), TOPIC, secrets.token_hex(16))
    )


def _bounds(connection: sqlite3.Connection) -> Bounds:
    # Two statements: SQLite answers min and max from the ends of the tree only when they are asked for alone.
    (first,) = connection.execute("SELECT min(offset) FROM messages").fetchone()
    (last,) = connection.execute("SELECT max(offset) FROM messages").fetchone()
    return Bounds(0, 0) if first is None else Bounds(first, last + 1)


def _require_partition(partition: int) -> None:
    if partition != _PARTITION:
        raise ConfigError(
            f"partition {partition}: the embedded log has partition 0 only", reason="no-partition"
        )


def _require_length(what: str, data: bytes, limit: int) -> None:
    if len(data) > limit:
        raise MalformedError(f"{what}: {len(data)} bytes, expected at most {limit}", reason=f"{what}-length")
