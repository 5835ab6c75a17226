"""Partitions that are computed more than once: the same bytes count once, other bytes are set aside.

What repeats them in practice: a second ``compute()``, a worker that dies after its records were on the log,
an attempt that was given up for dead and was not.
"""

from __future__ import annotations

from pathlib import Path

import dask
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import zarr

import provenance
from provenance import bootstrap, config
from provenance.adapters.dask.planning import plan
from provenance.services.audit import audit
from tests import recorded
from tests.anchored_runs import FakeLedger


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    recorded.make_folder(tmp_path)
    recorded.make_files(tmp_path / "in", 4)
    Path("count").write_text("0")
    return tmp_path


@pytest.fixture
def audited(monkeypatch):
    ledger = FakeLedger()
    ledger.use(monkeypatch)

    def report(run, level):
        folder = Path(".provenance").absolute()
        ledger.anchor(folder)
        with bootstrap.replayer(config.load(folder), "sync") as replayer:
            return audit(bootstrap.audit_ports(config.load(folder), replayer=replayer), run.id, level=level)

    return report


def read(run):
    return recorded.read_records(run.id, Path(".provenance"))


def counted():
    """How often this was called; no transform may do this."""
    number = int(Path("count").read_text()) + 1
    Path("count").write_text(str(number))
    return number


def unsteady(file):
    return np.frombuffer(file.data) + counted()


def unsteady_table(files):
    return pd.DataFrame({"value": [float(counted())] * len(files)})


def plain(files):
    return np.concatenate([file.data for file in files])


def attempt(run, sink):
    """Compute a sink's partitions as a worker would: nothing of it passes through the driver."""
    sink._node.building.begin()
    run._keep_rows()
    run._execution._publish([sink._node])
    planned = plan([sink._node], run._session.outlet)
    return dask.get(planned.graph, list(planned.wanted))


def test_the_same_bytes_are_recorded_each_time_and_count_once(here, audited):
    with provenance.run("numbers", client="sync") as run:
        done = run.files("in", group_files=1).stage("read", recorded.numbers)
        first = done.compute()
        again = done.compute()
        done.write("out.zarr")
    assert [part[0].data.tolist() for part in first] == [part[0].data.tolist() for part in again]
    found = read(run)
    assert set(found.emitted().values()) == {3, 1}
    assert [found.emitted()["read", number] for number in range(4)] == [3] * 4
    assert found.sealed("read").partitions == 4
    assert [one.set_aside.count for one in found.seal.stages] == [0, 0, 0]
    assert audited(run, "replay").exit_code == 0


def test_of_other_bytes_what_the_sink_was_made_from_counts(here, audited):
    with provenance.run("numbers", client="sync") as run:
        made = run.files("in", group_files=2).stage("unsteady", unsteady)
        made.compute()
        made.wide("all", plain, npartitions=1).write("out.zarr")
    found = read(run)
    assert len(found.of("unsteady")) == 4  # two numbers, two attempts each
    assert {one.name: one.set_aside.count for one in found.seal.stages} == {
        "raw": 0,
        "unsteady": 2,
        "all": 0,
        "all.zarr": 0,
    }
    stored = zarr.open_group("out.zarr", mode="r")["p00000"]["data"][:]
    assert sorted({float(part[0]) for part in stored.reshape(4, 100)}) != [1, 2, 3, 4]
    report = audited(run, "data")
    assert report.exit_code == 0, report.findings
    assert "set-aside" in {finding.code for finding in report.findings}


def test_of_a_sinks_attempts_the_stored_one_counts(here, audited):
    """A worker that was given up for dead goes on; its records come last, and its file does not."""
    run = provenance.start("numbers", client="sync")
    tables = run.files("in", group_files=2).wide("table", unsteady_table, npartitions=2)
    sink = tables.write("out")
    kept = [done.entries for done in attempt(run, sink)]
    assert [done.entries for done in attempt(run, sink)] == kept
    run.seal()
    found = read(run)
    assert found.emitted()["table.parquet", 0] == 3
    assert len(found.of("table.parquet")) == 6
    assert found.sealed("table.parquet").set_aside.count == 4
    assert found.sealed("table").set_aside.count == 4
    values = [pq.read_table(f"out/part-0000{n}.parquet")["value"][0].as_py() for n in range(2)]
    assert sorted(values) == [1.0, 2.0]
    report = audited(run, "data")
    assert report.exit_code == 0, report.findings


@pytest.mark.parametrize("store", ["out.zarr", "out"])
def test_an_attempt_after_the_run_ended_writes_and_records_nothing(here, store):
    with provenance.run("numbers", client="sync") as run:
        made = run.files("in").stage("read", recorded.numbers)
        if store == "out":
            made = made.wide("table", steady_table, npartitions=1)
        sink = made.write(store)
        planned = plan([sink._node], run._session.outlet)

    def lying():
        return {
            path: path.read_bytes() for path in Path().glob("**/*") if path.is_file() and store in str(path)
        }

    before, records = lying(), read(run).order
    with pytest.raises(provenance.errors.UnavailableError, match="not to be seen") as caught:
        dask.get(planned.graph, list(planned.wanted))
    assert "share" in caught.value.remedy
    assert lying() == before
    assert read(run).order[: len(records)] == records
    assert read(run).emitted()[sink.name, 0] == 1


def steady_table(files):
    return pd.DataFrame({"value": [float(len(file.data)) for file in files]})
