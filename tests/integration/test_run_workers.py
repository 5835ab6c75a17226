"""Workers that are not what the driver takes them for, and what is told of an error that one of them met."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from distributed import Client

import provenance
from provenance import bootstrap, config, errors
from provenance.adapters.dask import compute
from provenance.services.audit import audit
from tests import recorded
from tests.anchored_runs import FakeLedger
from tests.integration import on_workers
from tests.integration.cluster_of_processes import cluster, wait_for

pytestmark = [pytest.mark.service, pytest.mark.slow]
_REGISTERED = "Starting established connection|Registered to"


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    recorded.make_folder(tmp_path)
    recorded.make_files(tmp_path / "in", 8)
    return tmp_path


@pytest.fixture
def processes(tmp_path):
    with cluster(tmp_path / "cluster") as made:
        yield made


def worker(made, name, **how):
    log = made.worker(name, **how)
    wait_for(log, _REGISTERED)
    return made.processes[-1]


def read(run):
    return recorded.read_records(run.id, Path(".provenance"))


@pytest.mark.parametrize(
    ("how", "kind", "text"),
    [
        ("plain", ZeroDivisionError, "plain"),
        ("unsendable", RuntimeError, "^UnsendableError: a lock inside"),
        ("uncopyable", RuntimeError, "^UncopyableError: one and two"),
        ("wordy", RuntimeError, "^WordyError: words words"),
        ("chained", RuntimeError, "^KeyError: 'missing'"),
    ],
)
def test_an_error_of_a_worker_says_where_it_happened(here, own_client, how, kind, text):
    with pytest.raises(kind, match=text) as caught, provenance.run("numbers", client=own_client) as run:
        run.files("in").stage("breaks", on_workers.breaks, how=how).write("out.zarr")
    place, file = sorted(caught.value.__notes__, reverse=True)
    assert place in {"in stage 'breaks', partition 0", "in stage 'breaks', partition 1"}
    assert file.startswith(("file anna/", "file boris/"))
    assert read(run).seal.status == "aborted"


@pytest.fixture(scope="module")
def own_client(tmp_path_factory):
    with cluster(tmp_path_factory.mktemp("shared") / "cluster") as made:
        worker(made, "one")
        with Client(made.address, set_as_default=False) as client:
            yield client


def test_a_bad_file_on_a_worker_stops_the_run_by_its_name(here, own_client):
    Path("in/anna/04.bin").write_bytes(b"")
    with (
        pytest.raises(errors.MalformedError, match=r"^anna/04\.bin: it cannot be used: empty-file"),
        provenance.run("numbers", client=own_client, on_bad_input="stop") as run,
    ):
        run.files("in").stage("read", recorded.numbers).write("out.zarr")
    assert not list(here.glob(".out.zarr.*"))


def test_a_collection_that_is_kept_on_the_workers_is_a_source(here, own_client):
    frame = pd.DataFrame({"value": np.arange(100.0)})
    kept = own_client.persist(dd.from_pandas(frame, npartitions=5) + 1)
    with provenance.run("numbers", client=own_client) as run:
        run.collection(kept).stage("double", on_workers.double).write("out")
    assert pq.read_table("out")["value"].to_pylist() == ((frame["value"] + 1) * 2).tolist()
    assert read(run).sealed("double").partitions == 5


# ---------------------------------------------------------------------------------------------- lost and late


def test_what_a_killed_worker_kept_is_computed_again_and_counts_once(here, processes, monkeypatch):
    first = worker(processes, "one")
    worker(processes, "two")
    with provenance.run("numbers", client=processes.address) as run:
        kept = run.files("in", group_files=1).stage("read", recorded.numbers).persist()
        first.send_signal(signal.SIGKILL)
        first.wait()
        kept.stage("scale", recorded.scale).wide("all", recorded.stack, npartitions=2).write("out.zarr")
    found = read(run)
    assert sum(found.emitted()["read", number] for number in range(8)) > 8
    assert {one.name: (one.partitions, one.set_aside.count) for one in found.seal.stages} == {
        "raw": (8, 0),
        "read": (8, 0),
        "scale": (8, 0),
        "all": (2, 0),
        "all.zarr": (2, 0),
    }
    ledger, folder = FakeLedger(), Path(".provenance").absolute()
    ledger.use(monkeypatch)
    ledger.anchor(folder)
    for level in ("chain", "data", "replay"):
        with bootstrap.replayer(config.load(folder), "sync") as replayer:
            report = audit(bootstrap.audit_ports(config.load(folder), replayer=replayer), run.id, level=level)
        assert report.exit_code == 0, report.findings


def test_a_transform_that_kills_every_worker_ends_the_run(here, monkeypatch):
    monkeypatch.setenv("PROVENANCE_COMPUTE_WORKERS", "1")
    with pytest.raises(errors.UnavailableError, match="died again and again") as caught:
        run_that_dies()
    assert caught.value.reason == "worker-died"
    assert "memory" in caught.value.remedy
    assert not Path("out.zarr").exists()
    assert not list(here.glob(".out.zarr.*"))


def run_that_dies():
    with provenance.run("numbers") as run:
        run.files("in").stage("dies", on_workers.dies).write("out.zarr")


def test_a_scheduler_without_workers(here, processes, monkeypatch):
    monkeypatch.setattr(compute, "_START_SECONDS", 1)
    with pytest.raises(errors.UnavailableError, match="no workers") as caught:
        provenance.run("numbers", client=processes.address)
    assert caught.value.reason == "no-workers"


def test_a_worker_of_another_version_that_joins_later_records_nothing(here, processes):
    good = worker(processes, "good")
    info = here / "other" / "provenance_ledger-99.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: provenance-ledger\nVersion: 99.0\n")
    run = provenance.start("numbers", client=processes.address)
    worker(processes, "late", path_first=str(here / "other"))
    good.send_signal(signal.SIGTERM)
    good.wait()
    run.files("in").stage("read", recorded.numbers).write("out.zarr")
    with pytest.raises(errors.ConfigError, match=r"joined later: .* found version 99\.0"):
        run.seal()
    assert read(run).partitions == []


# -------------------------------------------------------------------------------------------- another machine


@pytest.fixture
def elsewhere(here, processes):
    """Starts a worker that sees another disk at a folder: as on another machine, the path is the same."""

    def start(folder):
        log = processes.folder / "elsewhere.log"
        python = f"exec {sys.executable} -m distributed.cli.dask_worker {processes.address}"
        script = f"mount -t tmpfs tmpfs '{folder}' && {python} --no-dashboard --nthreads 1 --no-nanny"
        with log.open("wb") as output:
            processes.processes.append(
                subprocess.Popen(
                    ["unshare", "-m", "sh", "-c", script],
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    cwd=processes.folder,
                    env={**os.environ, "PYTHONPATH": str(Path(provenance.__file__).parents[1])},
                )
            )
        wait_for(log, _REGISTERED)

    tried = ["unshare", "-m", "sh", "-c", f"mount -t tmpfs tmpfs '{processes.folder}'"]
    if shutil.which("unshare") is None or subprocess.run(tried, capture_output=True, check=False).returncode:
        pytest.skip("only root may give a process a disk of its own")
    return start


def test_a_worker_that_reaches_another_log_is_refused(here, elsewhere, processes):
    (here / ".provenance").mkdir()
    elsewhere(here / ".provenance")
    with (
        pytest.raises(errors.ConfigError, match="another event log") as caught,
        provenance.run("numbers", client=processes.address) as run,
    ):
        run.files("in").stage("read", recorded.numbers).write("out.zarr")
    assert caught.value.reason == "other-log"
    assert "Kafka" in caught.value.remedy
    assert read(run).partitions == []
    assert not Path("out.zarr").exists()


@pytest.mark.parametrize("name", ["store.zarr", "store"])
def test_a_worker_that_writes_to_another_disk_is_refused(here, elsewhere, processes, name):
    (here / "out").mkdir()
    elsewhere(here / "out")
    run = provenance.start("numbers", client=processes.address)
    tables = run.files("in").wide("table", on_workers.as_table, npartitions=1)
    (tables.stage("array", on_workers.as_array) if "zarr" in name else tables).write(here / "out" / name)
    with pytest.raises(errors.UnavailableError, match="not to be seen from a worker") as caught:
        run.seal()
    assert caught.value.reason == "other-disk"
    assert "share" in caught.value.remedy
    assert list((here / "out").iterdir()) == []
