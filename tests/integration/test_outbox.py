"""Runs whose log is held up for a while: real files, real workers, and a lock on which every append waits."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import pytest

import provenance
from provenance import bootstrap, config, errors
from provenance.core.runs import outbox_marks
from provenance.services import sealing
from tests import recorded


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PROVENANCE_LOG_BUSY_TIMEOUT", "0.2")
    recorded.make_folder(tmp_path)
    recorded.make_files(tmp_path / "in")
    return tmp_path


def settings() -> config.Settings:
    return config.load(Path(".provenance"))


@contextlib.contextmanager
def held_up():
    """Another process writes to the log, and does not end."""
    writer = sqlite3.connect(settings().log_path, isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        writer.execute("ROLLBACK")
        writer.close()


def computed(run):
    run.files("in", group_files=1).stage("read", recorded.numbers).write("out.zarr")
    run.compute()


def check(run) -> None:
    """Sealed as complete, with every partition once or more, and nothing waits but for the chain."""
    found = recorded.read_records(run.id, Path(".provenance"))
    assert found.seal is not None
    assert found.seal.status == "complete"
    counts = {one.name: (one.partitions, one.set_aside.count) for one in found.seal.stages}
    assert counts == {"raw": (10, 0), "read": (10, 0), "read.zarr": (10, 0)}
    assert found.order[-1] == "seal"
    assert set(found.emitted()) == {(name, number) for name in counts for number in range(10)}
    assert bootstrap.outbox_depth(settings()).unsent == 0
    store = bootstrap.batch_store(settings())
    assert list(store.names(outbox_marks(bytes.fromhex(run.id)))) == []


def test_a_run_in_this_process_outlasts_its_log(here, monkeypatch):
    monkeypatch.setattr(sealing, "ATTEMPTS", 1)
    run = provenance.start("numbers", client="sync")
    with held_up():
        computed(run)
        depth = bootstrap.outbox_depth(settings())
        assert depth.unsent == depth.records == 3 + 30
        with pytest.raises(errors.PendingError, match="wait in the outbox") as caught:
            run.seal()
        assert caught.value.reason == "outbox-waits"
    assert recorded.read_records(run.id, Path(".provenance")).seal is None
    again = provenance.attach(run.id, client="sync")
    again.seal()
    check(again)


@pytest.mark.service
@pytest.mark.slow
def test_workers_outlast_their_log(here):
    run = provenance.start("numbers")
    with held_up():
        computed(run)
        assert bootstrap.outbox_depth(settings()).unsent == 3 + 30
    run.seal()
    check(run)


def test_where_the_settings_say_so_the_run_fails(here, monkeypatch):
    monkeypatch.setenv("PROVENANCE_LOG_ON_ACK_TIMEOUT", "fail")
    run = provenance.start("numbers", client="sync")
    with held_up(), pytest.raises(errors.UnavailableError) as caught:
        computed(run)
    assert caught.value.reason == "busy"
    assert not settings().outbox_path.exists()
    run.compute()
    run.seal()
    check(run)


def test_a_log_that_answers_leaves_no_trace_of_an_outbox(here):
    run = provenance.start("numbers", client="sync")
    computed(run)
    run.seal()
    check(run)
    assert [path.name for path in Path(".provenance").iterdir() if "outbox" in path.name] == []
