"""Whoever may write to a database file of the folder: what a reader of it must refuse, at once, by name."""

from __future__ import annotations

import contextlib
import sqlite3
from typing import TYPE_CHECKING

import pytest

from provenance import files
from provenance.adapters.private_names import SqlitePrivateNames
from provenance.adapters.sqlite_index import SqliteIndex
from provenance.adapters.sqlite_journal import SqliteJournal
from provenance.adapters.sqlite_log import SqliteLog
from provenance.core.streams import MAX_OFFSET
from provenance.errors import MalformedError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ENDLESS = """DROP TABLE messages;
    CREATE VIEW messages AS WITH RECURSIVE t (offset) AS (SELECT 0 UNION ALL SELECT offset + 1 FROM t)
    SELECT offset, x'' AS key, x'00' AS value FROM t"""
SILENT = "CREATE TRIGGER t BEFORE INSERT ON messages BEGIN SELECT RAISE(IGNORE); END"
UNTYPED = (
    "DROP TABLE messages; CREATE TABLE messages (offset, key, value); INSERT INTO messages VALUES ('x', 1, 2)"
)


def changed(path: Path, script: str) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript(script)


@pytest.fixture
def log_file(tmp_path: Path) -> Path:
    log = SqliteLog(tmp_path / "log.sqlite")
    log.append([(b"", b"a record")])
    log.close()
    return tmp_path / "log.sqlite"


@pytest.mark.parametrize("script", [ENDLESS, SILENT, UNTYPED, "CREATE VIEW more AS SELECT 1"])
def test_a_log_with_another_schema_is_refused_before_anything_is_read_or_written(
    log_file: Path, script: str
) -> None:
    changed(log_file, script)
    for use in (
        lambda log: log.append([(b"", b"lost without a word")]),
        lambda log: log.read(0, 0, 10),
        lambda log: log.bounds(0),
        lambda log: log.identities(),
    ):
        with pytest.raises(MalformedError, match="other tables, views or triggers") as caught:
            use(SqliteLog(log_file))
        assert caught.value.reason == "other-schema"
        assert caught.value.remedy


def read_all(log: SqliteLog) -> None:
    """As readers go through a log."""
    at = 0
    while messages := log.read(0, at, 10):
        at = messages[-1].offset + 1


def use_index(path: Path) -> object:
    return SqliteIndex(path).indexed(bytes(32))


def use_journal(path: Path) -> object:
    return SqliteJournal(path).entries()


def use_names(path: Path) -> object:
    return SqlitePrivateNames(path).plain("0" * 64)


@pytest.mark.parametrize("use", [use_index, use_journal, use_names])
def test_no_database_of_the_folder_may_bring_a_schema_of_its_own(
    tmp_path: Path, use: Callable[[Path], object]
) -> None:
    path = tmp_path / "some.sqlite"
    use(path)
    use(path)
    changed(path, "CREATE VIEW more AS SELECT 1")
    with pytest.raises(MalformedError) as caught:
        use(path)
    assert caught.value.reason == "other-schema"


@pytest.mark.parametrize("offset", [-5, MAX_OFFSET, MAX_OFFSET + 1, 2**63 - 1])
def test_an_offset_that_no_append_gives_is_damage_and_no_endless_loop(log_file: Path, offset: int) -> None:
    changed(log_file, f"INSERT INTO messages VALUES ({offset}, x'', x'00')")
    with pytest.raises(MalformedError, match=str(offset)):
        SqliteLog(log_file).bounds(0)
    if offset > 0:
        with pytest.raises(MalformedError, match=str(offset)):
            read_all(SqliteLog(log_file))


def test_a_value_of_a_hundred_mebibytes_is_damage_and_not_held(log_file: Path) -> None:
    changed(log_file, "INSERT INTO messages VALUES (1, x'', zeroblob(100000000))")
    with pytest.raises(MalformedError, match="too big"):
        SqliteLog(log_file).read(0, 0, 10)


def test_a_limit_of_terabytes_costs_no_memory(tmp_path: Path) -> None:
    (tmp_path / "part").write_bytes(b"small")
    assert files.read_file(tmp_path / "part", 1 << 46) == b"small"
    assert files.read_file(files.MOUNTS, 1 << 46), "a file of /proc tells no size"
    with pytest.raises(MalformedError) as caught:
        files.read_file(tmp_path / "part", 4)
    assert caught.value.reason == "too-long"
