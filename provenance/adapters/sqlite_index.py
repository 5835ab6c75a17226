"""The index in an SQLite file: where each record stands, and the fields by which one looks it up.

A cache: it is rebuilt from the batch files by one command, nothing is believed because it says so, and power
failing may cost its last batches, which are then indexed again. Streams, runs and stages are few and long, so
rows hold small numbers for them; a million partition records take about 270 MB.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from provenance import files
from provenance.adapters._sqlite import Database, Format
from provenance.errors import MalformedError
from provenance.ports import IndexedRecord

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Sequence
    from pathlib import Path

__all__ = ["SqliteIndex"]

_PAGE = 1000

# Every secondary index ends with the primary key, so what it finds comes by position, without sorting.
_FORMAT = Format(
    name="index",
    application_id=0x504C4958,  # "PLIX"
    version=1,
    schema=(
        "CREATE TABLE digests (n INTEGER PRIMARY KEY, value BLOB NOT NULL UNIQUE) STRICT",
        """CREATE TABLE batches (
            stream INTEGER NOT NULL, seq INTEGER NOT NULL, PRIMARY KEY (stream, seq)
        ) STRICT, WITHOUT ROWID""",
        "CREATE TABLE reached (stream INTEGER PRIMARY KEY, seq INTEGER NOT NULL) STRICT",
        """CREATE TABLE records (
            stream INTEGER NOT NULL, seq INTEGER NOT NULL, place INTEGER NOT NULL, offset INTEGER NOT NULL,
            id BLOB NOT NULL, kind TEXT NOT NULL, run INTEGER, stage INTEGER, number INTEGER NOT NULL,
            reason TEXT NOT NULL, PRIMARY KEY (stream, seq, place)
        ) STRICT, WITHOUT ROWID""",
        "CREATE INDEX records_by_id ON records (id)",
        "CREATE INDEX records_by_kind ON records (kind)",
        "CREATE INDEX records_by_run ON records (run)",
        "CREATE INDEX records_by_stage ON records (stage)",
        """CREATE TABLE subjects (
            stream INTEGER NOT NULL, seq INTEGER NOT NULL, place INTEGER NOT NULL, ordinal INTEGER NOT NULL,
            subject BLOB NOT NULL, PRIMARY KEY (stream, seq, place, ordinal)
        ) STRICT, WITHOUT ROWID""",
        "CREATE INDEX subjects_by_digest ON subjects (subject)",
    ),
    damaged="Run: provenance index",
    sync="normal",
)
_TABLES = ("records", "subjects", "batches", "reached", "digests")
_Query: TypeAlias = "tuple[str, dict[str, object]]"
_COLUMNS = "r.seq, r.place, r.offset, r.id, r.kind, run.value, stage.value, r.number, r.reason"


class SqliteIndex:
    """An `Index` in a file.

    Args:
        path: the file; made with its folder when it is first used.
        busy_timeout_s: how long a write waits for other processes', in seconds.
        mounts: the system's table of mounts, by which a network file system is refused.
    """

    def __init__(self, path: Path, *, busy_timeout_s: float = 30.0, mounts: Path = files.MOUNTS) -> None:
        self._database = Database(path, _FORMAT, busy_timeout_s=busy_timeout_s, mounts=mounts)

    def add(self, stream: bytes, seq: int, records: Sequence[IndexedRecord]) -> None:
        """Index one batch in one transaction, in place of what stood there."""
        for record in records:
            if (record.stream, record.seq) != (stream, seq):
                raise MalformedError(
                    f"record {record.id.hex()}: of another batch than {seq}", reason="other-batch"
                )
        with self._database.writing() as connection:
            number = _number(connection, stream)
            for table in ("records", "subjects", "batches"):
                connection.execute(f"DELETE FROM {table} WHERE stream = ? AND seq = ?", (number, seq))  # noqa: S608
            connection.execute("INSERT INTO batches VALUES (?, ?)", (number, seq))
            _insert(connection, number, records)
            _advance(connection, number)

    def find(
        self,
        *,
        record_id: bytes | None = None,
        run: bytes | None = None,
        stage: bytes | None = None,
        subject: bytes | None = None,
        kind: str | None = None,
    ) -> Iterator[IndexedRecord]:
        """The records that match all that is given, by position; a thousand are held at a time."""
        with self._database.reading() as connection:
            wanted = {
                "id": record_id,
                "stage": _known_number(connection, stage),
                "run": _known_number(connection, run),
                "kind": kind,
            }
            streams = connection.execute(
                "SELECT n, value FROM digests WHERE n IN (SELECT stream FROM reached) ORDER BY value"
            ).fetchall()
        filters = {name: value for name, value in wanted.items() if value is not None}
        for number, stream in streams:
            query = _query(number, subject, filters)
            after = (-1, -1)
            while page := self._page(query, number, stream, after):
                yield from page
                after = (page[-1].seq, page[-1].index)

    def indexed(self, stream: bytes) -> int:
        """The highest seq up to which the stream is indexed without a gap, or 0."""
        with self._database.reading() as connection:
            row = connection.execute(
                "SELECT seq FROM reached JOIN digests ON n = stream WHERE value = ?", (stream,)
            ).fetchone()
        return 0 if row is None else int(row[0])

    def clear(self) -> None:
        """Forget everything."""
        with self._database.writing() as connection:
            for table in _TABLES:
                connection.execute(f"DELETE FROM {table}")  # noqa: S608 - a name of ours

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        self._database.close()

    def _page(self, query: _Query, number: int, stream: bytes, after: tuple[int, int]) -> list[IndexedRecord]:
        text, values = query
        with self._database.reading() as connection:
            rows = connection.execute(text, {**values, "seq": after[0], "place": after[1]}).fetchall()
            return [
                IndexedRecord(
                    id=row[3],
                    stream=stream,
                    seq=row[0],
                    index=row[1],
                    offset=row[2],
                    kind=row[4],
                    run=row[5],
                    stage=row[6],
                    number=row[7],
                    subjects=_subjects(connection, number, row[0], row[1]),
                    reason=row[8],
                )
                for row in rows
            ]


def _query(stream: int, subject: bytes | None, filters: dict[str, bytes | str | int]) -> _Query:
    """The statement for one page after ``:seq`` and ``:place``, and its other values.

    The most selective filter drives: named, because SQLite, which has no statistics of a new file, would walk
    the whole stream instead.
    """
    values: dict[str, object] = {"stream": stream, "subject": subject, **filters}
    driver, source = "r", "records r"
    if subject is not None:
        driver = "s"
        source = """subjects s INDEXED BY subjects_by_digest
            CROSS JOIN records r ON r.stream = s.stream AND r.seq = s.seq AND r.place = s.place"""
    elif filters:
        source = f"records r INDEXED BY records_by_{next(iter(filters))}"
    where = [f"{driver}.stream = :stream", f"({driver}.seq, {driver}.place) > (:seq, :place)"]
    where += ["s.subject = :subject"] if subject is not None else []
    # "+" keeps the rest from choosing an index of their own: it would be walked once for each subject.
    where += [f"{'+' if subject is not None else ''}r.{name} = :{name}" for name in filters]
    # Grouped, because a record may have one digest twice. The text is of names of ours; values are bound.
    text = f"""SELECT {_COLUMNS} FROM {source}
        LEFT JOIN digests run ON run.n = r.run
        LEFT JOIN digests stage ON stage.n = r.stage
        WHERE {" AND ".join(where)}
        GROUP BY {driver}.seq, {driver}.place
        ORDER BY {driver}.seq, {driver}.place LIMIT {_PAGE}"""  # noqa: S608
    return text, values


def _known_number(connection: sqlite3.Connection, digest: bytes | None) -> int | None:
    """The small number of a digest; one that no record has if it is not known."""
    if digest is None:
        return None
    row = connection.execute("SELECT n FROM digests WHERE value = ?", (digest,)).fetchone()
    return -1 if row is None else int(row[0])


def _number(connection: sqlite3.Connection, digest: bytes | None) -> int | None:
    """The small number of a digest; it gets one if it has none."""
    if digest is None:
        return None
    connection.execute("INSERT INTO digests (value) VALUES (?) ON CONFLICT DO NOTHING", (digest,))
    (number,) = connection.execute("SELECT n FROM digests WHERE value = ?", (digest,)).fetchone()
    return int(number)


def _insert(connection: sqlite3.Connection, stream: int | None, records: Sequence[IndexedRecord]) -> None:
    known: dict[bytes | None, int | None] = {}
    for digest in {value for record in records for value in (record.run, record.stage)}:
        known[digest] = _number(connection, digest)
    connection.executemany(
        "INSERT INTO records VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            (stream, r.seq, r.index, r.offset, r.id, r.kind, known[r.run], known[r.stage], r.number, r.reason)
            for r in records
        ),
    )
    connection.executemany(
        "INSERT INTO subjects VALUES (?, ?, ?, ?, ?)",
        (
            (stream, r.seq, r.index, ordinal, subject)
            for r in records
            for ordinal, subject in enumerate(r.subjects)
        ),
    )


def _advance(connection: sqlite3.Connection, stream: int | None) -> None:
    """Move the mark up to which the stream has no gap."""
    row = connection.execute("SELECT seq FROM reached WHERE stream = ?", (stream,)).fetchone()
    seq = 0 if row is None else int(row[0])
    query = "SELECT 1 FROM batches WHERE stream = ? AND seq = ?"
    while connection.execute(query, (stream, seq + 1)).fetchone():
        seq += 1
    connection.execute(
        "INSERT INTO reached VALUES (?, ?) ON CONFLICT (stream) DO UPDATE SET seq = excluded.seq",
        (stream, seq),
    )


def _subjects(connection: sqlite3.Connection, stream: int, seq: int, place: int) -> tuple[bytes, ...]:
    rows = connection.execute(
        "SELECT subject FROM subjects WHERE stream = ? AND seq = ? AND place = ? ORDER BY ordinal",
        (stream, seq, place),
    )
    return tuple(subject for (subject,) in rows)
