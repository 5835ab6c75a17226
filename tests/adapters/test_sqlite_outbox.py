"""The outbox's file: it outlives its process, serves several, and is not made for nothing."""

from __future__ import annotations

import datetime as dt
import os
import signal
import sqlite3
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from provenance.adapters.sqlite_outbox import MAX_READ_BYTES, SqliteOutbox
from provenance.core.outbox import OutboxDepth, Place
from provenance.errors import UnavailableError
from tests.together import run_together

if TYPE_CHECKING:
    from pathlib import Path

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
IMPORTS = """
import datetime as dt, os
from pathlib import Path
from provenance.adapters.sqlite_outbox import SqliteOutbox
"""
WRITER = (
    IMPORTS
    + """
import sys
outbox = SqliteOutbox(Path(sys.argv[1]))
number = 0
while True:
    outbox.keep([(b"key", b"%d/%d" % (number, at)) for at in range(3)], dt.datetime.now(dt.UTC))
    print(number, flush=True)
    number += 1
"""
)


def test_nothing_is_made_until_something_is_kept(tmp_path: Path) -> None:
    outbox = SqliteOutbox(tmp_path / "sub" / "outbox.sqlite")
    assert outbox.depth() == OutboxDepth()
    assert list(outbox.rows(0, 10)) == []
    outbox.settle({1: Place("c", "t", 0, 0)}, [2])
    outbox.keep([], NOW)
    assert not (tmp_path / "sub").exists()
    outbox.keep([(b"k", b"v")], NOW)
    assert outbox.depth().records == 1
    outbox.close()


def test_what_was_kept_is_there_after_a_kill_in_the_middle_of_writing(tmp_path: Path) -> None:
    path = tmp_path / "outbox.sqlite"
    for _ in range(3):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert writer.stdout is not None
        for _ in range(20):
            assert writer.stdout.readline()
        os.kill(writer.pid, signal.SIGKILL)  # it goes on writing meanwhile
        told = 20 + len(writer.stdout.read().split())
        assert writer.wait() == -signal.SIGKILL
        for stream in (writer.stdout, writer.stderr):
            if stream is not None:
                stream.close()
        outbox = SqliteOutbox(path)
        rows = outbox.rows(0, 1_000_000)
        whole = len(rows) // 3
        assert [row.value for row in rows] == [b"%d/%d" % (n, at) for n in range(whole) for at in range(3)]
        assert told <= whole <= told + 1, "what it was told is there, and at most the one under way with it"
        size = sum(len(row.key) + len(row.value) for row in rows)
        assert outbox.depth() == OutboxDepth(len(rows), size, len(rows), rows[0].since)
        outbox.settle({}, [row.number for row in rows])
        assert outbox.depth() == OutboxDepth()
        outbox.close()


def test_several_processes_keep_and_settle_at_once(tmp_path: Path) -> None:
    path = tmp_path / "sub" / "outbox.sqlite"
    run_together(
        IMPORTS,
        """
        outbox = SqliteOutbox(Path(sys.argv[1]))
        for n in range(10):
            now = dt.datetime.now(dt.UTC)
            outbox.keep([(b"k", b"common %d" % n), (b"k", b"%d/%d" % (os.getpid(), n))], now)
            outbox.settle({}, [row.number for row in outbox.rows(0, 100) if row.value.endswith(b"/3")])
        """,
        path,
    )
    outbox = SqliteOutbox(path)
    values = [row.value for row in outbox.rows(0, 1000)]
    outbox.close()
    assert len(values) == len(set(values)) == 10 + 4 * 9
    assert not any(value.endswith(b"/3") for value in values)


def test_a_page_holds_no_more_than_fits(tmp_path: Path) -> None:
    outbox = SqliteOutbox(tmp_path / "outbox.sqlite")
    size = 1 << 19
    count = MAX_READ_BYTES // size + 2
    outbox.keep([(b"%d" % n, b"x" * size) for n in range(count)], NOW)
    first = outbox.rows(0, 1000)
    assert len(first) == MAX_READ_BYTES // size
    rest = outbox.rows(first[-1].number, 1000)
    assert [int(row.key) for row in [*first, *rest]] == list(range(count))
    outbox.close()


def test_a_full_one_says_what_it_would_hold_and_what_to_do(tmp_path: Path) -> None:
    outbox = SqliteOutbox(tmp_path / "outbox.sqlite", max_bytes=10, max_records=2)
    outbox.keep([(b"k", b"1234")], NOW)
    with pytest.raises(UnavailableError, match=r"it would hold 12 bytes, expected at most 10") as caught:
        outbox.keep([(b"k", b"123456")], NOW)
    assert (caught.value.reason, "outbox_max_bytes" in caught.value.remedy) == ("outbox-full", True)
    with pytest.raises(UnavailableError, match="it would hold 3 records, expected at most 2"):
        outbox.keep([(b"", b"1"), (b"", b"2")], NOW)
    assert [row.value for row in outbox.rows(0, 10)] == [b"1234"]
    outbox.close()


def test_an_outbox_that_is_taken_away_is_no_empty_one(tmp_path: Path) -> None:
    outbox = SqliteOutbox(tmp_path / "outbox.sqlite")
    outbox.keep([(b"k", b"v")], NOW)
    (tmp_path / "outbox.sqlite").unlink()
    with pytest.raises(UnavailableError, match="removed or replaced"):
        outbox.depth()
    outbox.close()


def test_the_file_is_one_of_sqlite_s_safest_kind(tmp_path: Path) -> None:
    outbox = SqliteOutbox(tmp_path / "outbox.sqlite")
    outbox.keep([(b"k", b"v")], NOW)
    with outbox._database.writing() as connection:
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
    outbox.close()
    found = sqlite3.connect(tmp_path / "outbox.sqlite")
    assert found.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    found.close()
