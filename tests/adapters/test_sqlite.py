"""What befalls SQLite files: other processes, full disks, damage, other programs, network disks, forks."""

from __future__ import annotations

import os
import pickle
import sqlite3
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import pytest

from provenance.adapters.private_names import SqlitePrivateNames
from provenance.adapters.sqlite_index import SqliteIndex
from provenance.adapters.sqlite_journal import SqliteJournal
from provenance.adapters.sqlite_log import MAX_KEY_BYTES, MAX_READ_BYTES, SqliteLog
from provenance.errors import ConfigError, MalformedError, ProvenanceError, UnavailableError
from provenance.ports import Bounds, JournalEntry, SignedTransaction
from tests.together import run_together

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

IMPORTS = "from pathlib import Path; from provenance.adapters.sqlite_log import SqliteLog"


class Store(Protocol):
    def close(self) -> None: ...


def use_log(path: Path, **options: Any) -> Store:
    log = SqliteLog(path, **options)
    log.append([(b"k", b"v")])
    return log


def use_index(path: Path, **options: Any) -> Store:
    index = SqliteIndex(path, **options)
    index.add(b"s" * 32, 1, [])
    return index


def use_journal(path: Path, **options: Any) -> Store:
    journal = SqliteJournal(path, **options)
    journal.record(JournalEntry(SignedTransaction(0, bytes(32), b"raw"), "anchor", bytes(32), 1))
    return journal


def use_names(path: Path, **options: Any) -> Store:
    names = SqlitePrivateNames(path, **options)
    names.remember([("key", "ab" * 32, "Ann")])
    return names


Use: TypeAlias = "Callable[..., Store]"
every_store = pytest.mark.parametrize(
    "use", [use_log, use_index, use_journal, use_names], ids=["log", "index", "journal", "names"]
)


def execute(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


# All of them


@every_store
def test_a_file_of_another_program_is_refused_and_kept(use: Use, tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    execute(path, "CREATE TABLE other (x)")
    path.chmod(0o600)
    before = path.read_bytes()
    with pytest.raises(MalformedError, match="another program's file") as caught:
        use(path)
    assert caught.value.remedy
    assert path.read_bytes() == before


@every_store
@pytest.mark.parametrize("version", [0, 2, 1000])
def test_another_version_is_refused(use: Use, tmp_path: Path, version: int) -> None:
    path = tmp_path / "a.sqlite"
    use(path).close()
    execute(path, f"PRAGMA user_version={version}")
    with pytest.raises(ConfigError, match=f"of format {version}, expected 1") as caught:
        use(path)
    assert "version of the program" in caught.value.remedy


@every_store
@pytest.mark.parametrize("data", [b"", b"SQLite format 3\x00" + bytes(84), b"not a database" * 100])
def test_what_is_no_database_is_refused_and_kept(use: Use, tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "a.sqlite"
    path.write_bytes(data)
    path.chmod(0o600)
    with pytest.raises(MalformedError) as caught:
        use(path)
    assert str(path) in caught.value.message
    assert caught.value.remedy
    assert path.read_bytes() == data


@every_store
def test_a_network_file_system_is_refused_before_anything_is_made(use: Use, tmp_path: Path) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"1 1 0:1 / / rw - ext4 x rw\n2 1 0:2 / {tmp_path / 'far'} rw - nfs4 x rw\n")
    with pytest.raises(ConfigError, match=r"network file system \(nfs4\)") as caught:
        use(tmp_path / "far" / "a.sqlite", mounts=mounts)
    assert "local disk" in caught.value.remedy
    assert not (tmp_path / "far").exists()
    use(tmp_path / "near" / "a.sqlite", mounts=mounts).close()


@every_store
def test_a_database_is_whole_from_the_first_moment(use: Use, tmp_path: Path) -> None:
    use(tmp_path / "a.sqlite").close()
    assert [path.name for path in tmp_path.iterdir()] == ["a.sqlite"]
    found = sqlite3.connect(tmp_path / "a.sqlite")
    assert found.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert found.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    found.close()


@every_store
def test_a_file_removed_or_replaced_while_in_use_takes_nothing_more(use: Use, tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    for replace in (False, True):
        store = use(path)
        path.unlink()
        if replace:
            use(path).close()
        with pytest.raises(UnavailableError, match="removed or replaced"):
            _use_again(store)
        store.close()
        for left in tmp_path.iterdir():
            left.unlink()


def _use_again(store: Store) -> None:
    if isinstance(store, SqliteLog):
        store.append([(b"k", b"v")])
    elif isinstance(store, SqliteIndex):
        store.clear()
    elif isinstance(store, SqliteJournal):
        store.forget(bytes(32))
    elif isinstance(store, SqlitePrivateNames):
        store.secret()


@every_store
def test_a_closed_store_opens_again(use: Use, tmp_path: Path) -> None:
    store = use(tmp_path / "a.sqlite")
    store.close()
    store.close()
    _use_again(store)
    store.close()


@every_store
def test_a_store_does_not_travel(use: Use, tmp_path: Path) -> None:
    with pytest.raises(TypeError):
        pickle.dumps(use(tmp_path / "a.sqlite"))


@every_store
def test_a_folder_that_cannot_be_made_is_named(use: Use, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(UnavailableError, match="file/below: cannot make it"):
        use(tmp_path / "file" / "below" / "a.sqlite")


@every_store
def test_a_folder_in_the_place_of_the_file_is_refused(use: Use, tmp_path: Path) -> None:
    (tmp_path / "a.sqlite").mkdir(mode=0o700)
    with pytest.raises(UnavailableError, match=r"a\.sqlite"):
        use(tmp_path / "a.sqlite")


# The log


def test_several_processes_that_start_at_once_agree_and_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "sub" / "log.sqlite"
    printed = run_together(
        IMPORTS + "; import os",
        """
        log = SqliteLog(Path(sys.argv[1]))
        places = [log.append([(b"k", b"%d/%d" % (os.getpid(), n))] * 2) for n in range(10)]
        print(log.identities(), [offset for pair in places for _, offset in pair], sep="|")
        """,
        path,
    )
    assert len({line.split("|")[0] for line in printed}) == 1
    offsets = [offset for line in printed for offset in eval(line.split("|")[1])]  # of our own making
    assert sorted(offsets) == list(range(80))
    log = SqliteLog(path)
    assert log.bounds(0) == Bounds(0, 80)
    values = [message.value for message in log.read(0, 0, 100)]
    assert values[::2] == values[1::2]  # the two of a call stand together
    for writer in {value.split(b"/")[0] for value in values}:
        own = [int(value.split(b"/")[1]) for value in values[::2] if value.startswith(writer + b"/")]
        assert own == list(range(10))
    assert [entry.name for entry in path.parent.iterdir() if entry.name.startswith(".")] == []


def test_what_a_killed_process_appended_is_there(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    script = f"""
import os, signal
{IMPORTS}
log = SqliteLog(Path({str(path)!r}))
log.append([(b"k", b"kept")])
with log._database.writing() as connection:
    connection.execute("INSERT INTO messages VALUES (1, x'', x'')")
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == -9
    log = SqliteLog(path)
    assert [(m.offset, m.value) for m in log.read(0, 0, 10)] == [(0, b"kept")]
    assert log.append([(b"k", b"next")]) == ((0, 1),)


def test_a_full_disk_refuses_the_append_whole_and_goes_on_later(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "log.sqlite")
    log.append([(b"k", b"before")])
    with log._database.reading() as connection:
        connection.execute("PRAGMA max_page_count=8")
    with pytest.raises(UnavailableError) as caught:
        log.append([(b"k", b"small"), (b"k", b"x" * 500_000)])
    assert caught.value.reason == "enospc"
    assert str(tmp_path / "log.sqlite") in caught.value.message
    assert "Free some space" in caught.value.remedy
    assert [message.value for message in log.read(0, 0, 10)] == [b"before"]
    with log._database.reading() as connection:
        connection.execute("PRAGMA max_page_count=100000")
    assert log.append([(b"k", b"x" * 500_000)]) == ((0, 1),)


def test_a_writer_that_holds_on_is_waited_for_and_then_named(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    log = SqliteLog(path, busy_timeout_s=0.05)
    log.append([(b"k", b"v")])
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(UnavailableError) as caught:
        log.append([(b"k", b"w")])
    assert caught.value.reason == "busy"
    assert "which process" in caught.value.remedy
    assert [message.value for message in log.read(0, 0, 10)] == [b"v"]  # readers never wait
    other.close()
    assert log.append([(b"k", b"w")]) == ((0, 1),)


def test_damage_is_named_with_the_next_step(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    log = SqliteLog(path)
    log.append([(b"k", b"x" * 1000)] * 200)
    log.close()
    data = bytearray(path.read_bytes())
    data[8192:] = b"\xff" * (len(data) - 8192)
    path.write_bytes(data)
    with pytest.raises(MalformedError, match="damaged") as caught:
        SqliteLog(path).read(0, 0, 1000)
    assert caught.value.reason == "damaged"
    assert "copy" in caught.value.remedy


def test_a_log_that_lost_its_identity_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    SqliteLog(path).append([(b"k", b"v")])
    execute(path, "DELETE FROM identity")
    with pytest.raises(MalformedError, match="no identity"):
        SqliteLog(path).identities()


def test_gaps_are_read_over_and_count_in_the_bounds(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    SqliteLog(path).append([(b"k", b"%d" % n) for n in range(6)])
    execute(path, "DELETE FROM messages WHERE offset IN (0, 3, 4)")
    log = SqliteLog(path)
    assert log.bounds(0) == Bounds(1, 6)
    assert [message.offset for message in log.read(0, 0, 2)] == [1, 2]
    assert [message.offset for message in log.read(0, 3, 2)] == [5]
    assert log.append([(b"k", b"next")]) == ((0, 6),)


def test_logs_made_apart_have_other_ids(tmp_path: Path) -> None:
    ids = [SqliteLog(tmp_path / name).identities()[0] for name in "ab"]
    assert ids[0].cluster_id != ids[1].cluster_id
    assert ids[0].topic_id != ids[1].topic_id
    assert ids[0].topic == ids[1].topic


def test_an_answer_is_bounded_in_bytes(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "log.sqlite")
    half = b"x" * (1 << 19)
    count = 2 * MAX_READ_BYTES // len(half)
    log.append([(b"k", half)] * count)
    first = log.read(0, 0, count)
    assert len(first) == count // 2
    assert len(log.read(0, first[-1].offset + 1, count)) == count // 2


def test_a_long_key_is_refused(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "log.sqlite")
    log.append([(b"k" * MAX_KEY_BYTES, b"v")])
    with pytest.raises(MalformedError, match="key: 4097 bytes"):
        log.append([(b"k" * (MAX_KEY_BYTES + 1), b"v")])


def test_the_last_offset_is_the_last(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    SqliteLog(path).append([(b"k", b"v")])
    execute(path, f"UPDATE messages SET offset = {2**53 - 2}")
    log = SqliteLog(path)
    with pytest.raises(MalformedError, match="no offsets are left"):
        log.append([(b"k", b"v")])


def test_a_log_reads_on_where_it_may_not_write(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "log.sqlite")
    log.append([(b"k", b"v")])
    with log._database.reading() as connection:
        connection.execute("PRAGMA query_only=ON")
    with pytest.raises(UnavailableError) as caught:
        log.append([(b"k", b"w")])
    assert caught.value.reason == "sqlite-readonly"
    assert "user who may" in caught.value.remedy
    assert [message.value for message in log.read(0, 0, 10)] == [b"v"]


def test_threads_share_a_log(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "log.sqlite")
    failures: list[ProvenanceError] = []

    def work(name: bytes) -> None:
        try:
            for n in range(5):
                log.append([(name, name + b"%d" % n)])
        except ProvenanceError as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(b"%d/" % n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert log.bounds(0) == Bounds(0, 20)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_opens_its_own_connection(tmp_path: Path) -> None:
    script = f"""
import os
{IMPORTS}
log = SqliteLog(Path({str(tmp_path / "log.sqlite")!r}))
log.append([(b"k", b"parent")])
inherited = log._database._connection
child = os.fork()
if not child:
    assert log._database._connection is None
    log.append([(b"k", b"child")])
    assert log._database._connection is not inherited
    log.close()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
log.append([(b"k", b"parent again")])
print([message.value for message in log.read(0, 0, 10)])
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[b'parent', b'child', b'parent again']"


def test_wrong_use_of_the_module_stays_what_it_is(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "log.sqlite")
    with pytest.raises(sqlite3.ProgrammingError), log._database.writing() as connection:
        connection.execute("SELECT ?", ())
    assert log.append([(b"k", b"v")]) == ((0, 0),)


# The private store


def test_two_processes_at_once_agree_on_the_secret(tmp_path: Path) -> None:
    printed = run_together(
        "from pathlib import Path; from provenance.adapters.private_names import SqlitePrivateNames",
        "print(SqlitePrivateNames(Path(sys.argv[1])).secret().hex())",
        tmp_path / "names.sqlite",
    )
    assert len(set(printed)) == 1
    assert len(printed[0].strip()) == 64


def test_the_private_store_is_private_with_all_its_files(tmp_path: Path) -> None:
    names = SqlitePrivateNames(tmp_path / "names.sqlite")
    names.remember([("key", "ab" * 32, "Ann")])
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}
    assert len(list(tmp_path.iterdir())) == 3  # with -wal and -shm, which hold rows too


def test_a_private_store_that_others_may_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "names.sqlite"
    use_names(path).close()
    path.chmod(0o644)
    with pytest.raises(ConfigError, match="others on this machine") as caught:
        SqlitePrivateNames(path).plain("ab" * 32)
    assert "chmod 600" in caught.value.remedy


def test_a_private_store_without_secret_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "names.sqlite"
    use_names(path).close()
    execute(path, "DELETE FROM secret")
    with pytest.raises(MalformedError, match="no secret"):
        SqlitePrivateNames(path).secret()


@pytest.mark.parametrize("plain", ["\ud800", "x" * 65_537])
def test_a_plain_value_that_cannot_be_kept_is_refused_and_not_shown(tmp_path: Path, plain: str) -> None:
    names = SqlitePrivateNames(tmp_path / "names.sqlite")
    with pytest.raises(MalformedError) as caught:
        names.remember([("key", "ab" * 32, plain)])
    assert plain not in caught.value.message


def test_secrets_of_stores_made_apart_differ(tmp_path: Path) -> None:
    assert SqlitePrivateNames(tmp_path / "a").secret() != SqlitePrivateNames(tmp_path / "b").secret()


# The journal


@pytest.mark.parametrize(
    "entry",
    [
        JournalEntry(SignedTransaction(0, bytes(31), b"raw"), "anchor", bytes(32), 1),
        JournalEntry(SignedTransaction(0, bytes(32), b""), "anchor", bytes(32), 1),
        JournalEntry(SignedTransaction(0, bytes(32), bytes((1 << 17) + 1)), "anchor", bytes(32), 1),
        JournalEntry(SignedTransaction(-1, bytes(32), b"raw"), "anchor", bytes(32), 1),
        JournalEntry(SignedTransaction(2**63, bytes(32), b"raw"), "anchor", bytes(32), 1),
        JournalEntry(SignedTransaction(0, bytes(32), b"raw"), "anchor", bytes(32), -1),
    ],
)
def test_an_entry_of_no_form_is_refused(tmp_path: Path, entry: JournalEntry) -> None:
    journal = SqliteJournal(tmp_path / "journal.sqlite")
    with pytest.raises(MalformedError):
        journal.record(entry)
    assert journal.entries() == ()
