"""What the adapters over SQLite share: how a file is made, opened and checked, and what its errors become.

A database is made whole under another name (WAL mode, schema, first rows) and linked to its place, so that of
several processes that start at once one makes it and the others find it finished. Then every process appends
through its own connection: a write begins with ``BEGIN IMMEDIATE``, waits for others for as long as
``busy_timeout_s``, and is synced when it ends.

What is refused: a file on a network file system (WAL needs shared memory and locks), one that another program
or a newer version of this one wrote, one whose schema somebody changed (a trigger could drop what is written,
a view never end), a private one that others may open, and one that was removed or replaced while in use (what
went there would be lost). No value is longer than a record may be by far.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sqlite3
import threading
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING

from provenance import files
from provenance.errors import ConfigError, MalformedError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

__all__ = ["Database", "Format"]

_SYNC = {"full": "PRAGMA synchronous=FULL", "normal": "PRAGMA synchronous=NORMAL"}
_NO_SPACE = "Free some space, then call the same command again: nothing that was recorded is lost."
_MAX_VALUE = 8 << 20  # bytes: the longest, a record, has 1 MiB
_LITTLE = 1 << 16  # bytes: what SQLite needs at once beside a file that it only reads
_LOOK = "Look at the disk and the file, then call the same command again."
_LOCAL = "Choose a folder on a local disk, with --folder or PROVENANCE_FOLDER."
_MAY_NOT = "Run as a user who may read and write the file and its folder."


@dataclass(frozen=True, slots=True)
class Format:
    """One kind of database file.

    ``application_id`` tells it from any other SQLite file, ``version`` is its schema's, ``schema`` the
    statements that make it. ``damaged`` is the next step when the file cannot be read. A ``private`` one has
    mode 0600; with ``sync`` ``"normal"`` the last writes, but nothing else, may be lost when power fails.
    """

    name: str
    application_id: int
    version: int
    schema: tuple[str, ...]
    damaged: str
    private: bool = False
    sync: str = "full"


class Database:
    """One SQLite file, one connection for each process that uses this object, which threads share by turns.

    Args:
        path: the file; it and its folder are made when they are first needed.
        kind: its format.
        busy_timeout_s: how long a write waits for other processes' writes, in seconds.
        first_rows: fills a new database.
        mounts: the system's table of mounts.
    """

    def __init__(
        self,
        path: Path,
        kind: Format,
        *,
        busy_timeout_s: float,
        first_rows: Callable[[sqlite3.Connection], None] | None = None,
        mounts: Path = files.MOUNTS,
    ) -> None:
        self.path = path
        self._kind = kind
        self._busy_timeout_s = busy_timeout_s
        self._first_rows = first_rows
        self._mounts = mounts
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._identity = (0, 0)
        self._closing: weakref.finalize[..., Database] | None = None
        _databases.add(self)

    def close(self) -> None:
        """Close this process's connection; the next use opens another."""
        with self._lock:
            if self._closing is not None:
                self._closing()
            self._closing = self._connection = None

    def forget_connection(self) -> sqlite3.Connection | None:
        """After a fork, in the child: give up what belongs to the parent, without closing it."""
        self._lock = threading.Lock()
        inherited, self._connection, self._closing = self._connection, None, None
        return inherited

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """The connection, to read with; one snapshot for the whole block."""
        yield from self._transaction("BEGIN DEFERRED")

    @contextlib.contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """The connection in a transaction that alone may write; durable at the block's end."""
        yield from self._transaction("BEGIN IMMEDIATE")

    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        with self._lock, self._converted():
            connection = self._open()
            connection.execute(begin)
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:  # SQLite has rolled back by itself when the disk was full
                    connection.execute("ROLLBACK")
                raise
            self._require_same_file()

    def _open(self) -> sqlite3.Connection:
        if self._connection is not None:
            self._require_same_file()
            return self._connection
        self._refuse_network()
        if not self.path.exists():
            self._make()
        if self._kind.private:
            files.check_private(self.path)
        connection = self._connect(self.path)
        try:
            self._check_format(connection)
        except BaseException:
            connection.close()
            raise
        self._connection, self._identity = connection, self._file_identity()
        self._closing = weakref.finalize(self, _close_in, os.getpid(), connection)
        return connection

    def _connect(self, path: Path) -> sqlite3.Connection:
        connection = sqlite3.connect(
            path, timeout=self._busy_timeout_s, isolation_level=None, check_same_thread=False
        )
        try:
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_VALUE)
            connection.execute(_SYNC[self._kind.sync])
            connection.execute("PRAGMA fullfsync=ON")
            connection.execute("PRAGMA foreign_keys=ON")
            connection.execute("PRAGMA trusted_schema=OFF")
            if self._kind.private:
                connection.execute("PRAGMA secure_delete=ON")
        except BaseException:
            connection.close()
            raise
        return connection

    def _make(self) -> None:
        files.make_folder(self.path.parent)
        with files.staged(self.path, private=self._kind.private) as place:
            try:
                self._fill(place)
            finally:  # what a failure leaves
                for suffix in ("-wal", "-shm"):
                    place.with_name(place.name + suffix).unlink(missing_ok=True)
            with contextlib.suppress(FileExistsError):  # another process was quicker: its file is the one
                self.path.hardlink_to(place)
        files.sync_folder(self.path.parent)

    def _fill(self, place: Path) -> None:
        with contextlib.closing(self._connect(place)) as connection:
            (mode,) = connection.execute("PRAGMA journal_mode=WAL").fetchone()
            if mode != "wal":
                raise ConfigError(
                    f"{self.path}: its file system has no shared memory for SQLite (journal mode {mode})",
                    reason="no-shared-memory",
                    remedy=_LOCAL,
                )
            connection.execute("BEGIN IMMEDIATE")
            for statement in self._kind.schema:
                connection.execute(statement)
            if self._first_rows is not None:
                self._first_rows(connection)
            connection.execute(f"PRAGMA application_id={self._kind.application_id}")
            connection.execute(f"PRAGMA user_version={self._kind.version}")
            connection.execute("COMMIT")

    def _check_format(self, connection: sqlite3.Connection) -> None:
        (application_id,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if application_id != self._kind.application_id:
            raise MalformedError(
                f"{self.path}: expected a {self._kind.name}, found another program's file or an empty one",
                reason="other-application",
                remedy=self._kind.damaged,
            )
        if version != self._kind.version:
            raise ConfigError(
                f"{self.path}: {self._kind.name} of format {version}, expected {self._kind.version}",
                reason="other-version",
                remedy="Use the version of the program that wrote it, or a later one.",
            )
        if _schema_of(connection) != _expected_schema(self._kind):
            raise MalformedError(
                f"{self.path}: this {self._kind.name} has other tables, views or triggers than it began with",
                reason="other-schema",
                remedy=self._kind.damaged,
            )

    def _refuse_network(self) -> None:
        found = files.network_filesystem(self.path, self._mounts)
        if found is not None:
            raise ConfigError(
                f"{self.path}: on a network file system ({found}), where SQLite would lose records",
                reason="network-filesystem",
                remedy=_LOCAL,
            )

    def _file_identity(self) -> tuple[int, int]:
        status = self.path.stat()
        return status.st_dev, status.st_ino

    def _require_same_file(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            if self._file_identity() == self._identity:
                return
        raise UnavailableError(
            f"{self.path}: it was removed or replaced while in use; nothing more is written to it",
            reason="file-replaced",
            remedy="Put the file back, or start the program again to go on with the one that is there.",
        )

    @contextlib.contextmanager
    def _converted(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            if not hasattr(error, "sqlite_errorname"):
                raise  # wrong use of the module, which is a bug
            raise self._convert(error, error.sqlite_errorname) from error
        except OSError as error:
            raise files.refused(error, self.path, "open") from error

    def _disk_is_full(self) -> bool:
        with contextlib.suppress(OSError):
            return _free_bytes(self.path.parent) < _LITTLE
        return False

    def _convert(self, error: sqlite3.Error, name: str) -> MalformedError | UnavailableError:
        code = "_".join(name.split("_")[:2])  # SQLITE_IOERR_WRITE is a kind of SQLITE_IOERR
        if code in {"SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_ERROR", "SQLITE_MISMATCH", "SQLITE_TOOBIG"}:
            return MalformedError(
                f"{self.path}: this {self._kind.name} is damaged ({error})",
                reason="damaged",
                remedy=self._kind.damaged,
            )
        if code == "SQLITE_IOERR" and self._disk_is_full():  # readers too need its few pages of shared memory
            return UnavailableError(
                f"{self.path}: no space is left on its disk ({error})", reason="enospc", remedy=_NO_SPACE
            )
        remedies = {
            "SQLITE_FULL": _NO_SPACE,
            "SQLITE_IOERR": _NO_SPACE if "WRITE" in name else _LOOK,
            "SQLITE_BUSY": "See which process keeps it open, then call the same command again.",
            "SQLITE_READONLY": _MAY_NOT,
            "SQLITE_CANTOPEN": _MAY_NOT,
            "SQLITE_PERM": _MAY_NOT,
        }
        reason = {"SQLITE_FULL": "enospc", "SQLITE_BUSY": "busy"}.get(code, code.lower().replace("_", "-"))
        return UnavailableError(
            f"{self.path}: {error}",
            reason=reason,
            remedy=remedies.get(code, _LOOK),
        )


def _schema_of(connection: sqlite3.Connection) -> list[tuple[str, str, str]]:
    """Type, name and statement of all that is in a database; what SQLite makes by itself has none."""
    rows = connection.execute("SELECT type, name, sql FROM sqlite_schema ORDER BY type, name")
    return [(kind, name, sql or "") for kind, name, sql in rows]


@functools.cache
def _expected_schema(kind: Format) -> list[tuple[str, str, str]]:
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        for statement in kind.schema:
            connection.execute(statement)
        return _schema_of(connection)


def _free_bytes(folder: Path) -> int:
    """What may still be written to the disk of a folder."""
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


def _close_in(process: int, connection: sqlite3.Connection) -> None:
    if os.getpid() == process:
        connection.close()


# SQLite's handles must not be used or closed in a forked child (sqlite.org/howtocorrupt.html, 2.6), and
# PyTorch's loaders fork: a child forgets the parent's connections, keeps them from being closed, and opens
# its own.
_databases: weakref.WeakSet[Database] = weakref.WeakSet()
_inherited: list[sqlite3.Connection | None] = []


def _after_fork() -> None:
    _inherited.extend(database.forget_connection() for database in list(_databases))


os.register_at_fork(after_in_child=_after_fork)
