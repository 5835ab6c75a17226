"""The private store: the dataset's secret and the plain values behind tokens, in an SQLite file of mode 0600.

It is the only place where a speaker, a file's name or an absolute path stands, and is never sent anywhere.
Erasing a row unlinks a person, deleting the file unlinks the dataset (`spec/records.md`, "Personal data never
stand in a record"); freed pages are overwritten.
"""

from __future__ import annotations

import re
import secrets
from typing import TYPE_CHECKING

from provenance import files
from provenance.adapters._sqlite import Database, Format
from provenance.core.tokens import SECRET_BYTES
from provenance.errors import MalformedError

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence
    from pathlib import Path

__all__ = ["DOMAINS", "SqlitePrivateNames"]

DOMAINS = frozenset({"key", "name", "location"})
MAX_PLAIN_BYTES = 65_536
_TOKEN = re.compile(r"[0-9a-f]{64}")

_FORMAT = Format(
    name="private store",
    application_id=0x504C504E,  # "PLPN"
    version=1,
    schema=(
        "CREATE TABLE secret (only_row INTEGER PRIMARY KEY CHECK (only_row = 1), value BLOB NOT NULL) STRICT",
        """CREATE TABLE names (
            token BLOB PRIMARY KEY, domain TEXT NOT NULL, plain BLOB NOT NULL
        ) STRICT, WITHOUT ROWID""",
    ),
    damaged="Restore it from a copy. Without one records stay valid, but nobody can tell whose tokens are.",
    private=True,
)


class SqlitePrivateNames:
    """A `PrivateNames` in a file.

    Args:
        path: the file; made with its secret and its folder when it is first used.
        busy_timeout_s: how long a write waits for other processes', in seconds.
        mounts: the system's table of mounts, by which a network file system is refused.
    """

    def __init__(self, path: Path, *, busy_timeout_s: float = 30.0, mounts: Path = files.MOUNTS) -> None:
        self._database = Database(
            path, _FORMAT, busy_timeout_s=busy_timeout_s, first_rows=_draw_secret, mounts=mounts
        )

    def secret(self) -> bytes:
        """The dataset's 32-byte secret, drawn when the file was made."""
        with self._database.reading() as connection:
            row = connection.execute("SELECT value FROM secret").fetchone()
        if row is None or len(row[0]) != SECRET_BYTES:
            raise MalformedError(
                f"{self._database.path}: it has no secret", reason="damaged", remedy=_FORMAT.damaged
            )
        return bytes(row[0])

    def remember(self, values: Sequence[tuple[str, str, str]]) -> None:
        """Keep (domain, token, plain value) rows, durably; a token that is there gets the new value."""
        rows = [(_token(token), _domain(domain), _encode_plain(plain)) for domain, token, plain in values]
        if not rows:
            return
        with self._database.writing() as connection:
            connection.executemany(
                "INSERT INTO names (token, domain, plain) VALUES (?, ?, ?)"
                " ON CONFLICT (token) DO UPDATE SET domain = excluded.domain, plain = excluded.plain"
                " WHERE domain <> excluded.domain OR plain <> excluded.plain",
                rows,
            )

    def plain(self, token: str) -> str | None:
        """The plain value behind a token, if it is known here."""
        with self._database.reading() as connection:
            row = connection.execute("SELECT plain FROM names WHERE token = ?", (_token(token),)).fetchone()
        return None if row is None else row[0].decode("utf-8", "surrogateescape")

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        self._database.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self._database.path)!r})"


def _draw_secret(connection: sqlite3.Connection) -> None:
    connection.execute("INSERT INTO secret VALUES (1, ?)", (secrets.token_bytes(SECRET_BYTES),))


def _token(token: str) -> bytes:
    if not _TOKEN.fullmatch(token):
        raise MalformedError(f"token {token!r:.80}: expected 64 lower-case hex digits", reason="token")
    return bytes.fromhex(token)


def _domain(domain: str) -> str:
    if domain not in DOMAINS:
        raise MalformedError(f"domain {domain!r:.80}: expected one of {sorted(DOMAINS)}", reason="domain")
    return domain


def _encode_plain(plain: str) -> bytes:
    """UTF-8; the bytes of a path that is none stand as Python's paths carry them."""
    try:
        data = plain.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise MalformedError("plain value: not valid Unicode text", reason="plain-not-utf-8") from error
    if len(data) > MAX_PLAIN_BYTES:
        raise MalformedError(
            f"plain value: {len(data)} bytes, expected at most {MAX_PLAIN_BYTES}", reason="plain-length"
        )
    return data
