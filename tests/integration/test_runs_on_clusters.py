"""Runs on processes: workers that are killed or lack the package, three scripts, tasks of other graphs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import zarr
from distributed import Client

import provenance
from provenance import errors
from provenance.services.audit import audit
from tests import recorded
from tests.anchored_runs import FakeLedger
from tests.integration.cluster_of_processes import PROJECT, Cluster, cluster, wait_for

pytestmark = [pytest.mark.service, pytest.mark.slow]


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    recorded.make_folder(tmp_path)
    recorded.make_files(tmp_path / "in", 20)
    return tmp_path


@pytest.fixture
def processes(tmp_path):
    with cluster(tmp_path / "cluster") as made:
        yield made


def read(run):
    return recorded.read_records(run.id, Path(".provenance"))


def holds(run, monkeypatch, level="replay"):
    """Anchor what is on the log (on a chain in memory), audit the run, and return the report."""
    from provenance import bootstrap, config

    ledger = FakeLedger()
    with monkeypatch.context() as patch:
        ledger.use(patch)
        ledger.anchor(Path(".provenance").absolute())
        settings = config.load(Path(".provenance").absolute())
        with bootstrap.replayer(settings, "sync") as replayer:
            report = audit(bootstrap.audit_ports(settings, replayer=replayer), run.id, level=level)
    return report


def workers(made: Cluster, *names: str):
    for name in names:
        made.worker(name)
    for name in names:
        wait_for(made.folder / f"{name}.log", "Starting established connection|Registered to")


def test_workers_elsewhere_record_what_this_process_would(here, processes, monkeypatch):
    workers(processes, "one", "two")
    with provenance.run("numbers", client=processes.address) as run:
        raw = run.files("in", key=recorded.owner, group_files=2)
        raw.stage("read", recorded.numbers).wide("owner", recorded.stack, by="key").write("out.zarr")
    with provenance.run("numbers", client="sync") as same:
        raw = same.files("in", key=recorded.owner, group_files=2)
        raw.stage("read", recorded.numbers).wide("owner", recorded.stack, by="key").write("same.zarr")
    for stage in ("raw", "read", "owner"):
        subjects = [[part.subjects for part in read(one).of(stage)] for one in (run, same)]
        assert subjects[0] == subjects[1]
        assert subjects[0]
    report = holds(run, monkeypatch)
    assert report.exit_code == 0, report.findings


@pytest.mark.parametrize("elsewhere", [False, True], ids=["a cluster of the run", "workers elsewhere"])
def test_a_worker_that_is_killed_in_the_middle(here, request, monkeypatch, elsewhere):
    """The graph goes on with what is left, and what the log has twice counts once."""
    marker = str(here / "killed")
    client = None
    if elsewhere:
        made = request.getfixturevalue("processes")
        workers(made, "one", "two")
        client = made.address
    with provenance.run("numbers", client=client) as run:
        raw = run.files("in", key=recorded.owner, group_files=1)
        read_ = raw.stage("read", recorded.die_once, marker=marker, every=7.0)
        scaled = read_.stage("scale", recorded.scale)
        scaled.wide("owner", recorded.stack, by="key").write("out.zarr")
    assert Path(marker).exists()
    found = read(run)
    assert found.seal.status == "complete"
    assert [found.sealed(stage).partitions for stage in ("raw", "read", "scale", "owner")] == [20, 20, 20, 2]
    assert all(len(found.of(stage)) == found.sealed(stage).partitions for stage in ("raw", "read", "scale"))
    assert min(found.emitted().values()) >= 1
    stored = zarr.open_group("out.zarr", mode="r")
    sums = sorted(float(np.sum(stored[f"p{n:05}"]["values"][:])) for n in range(2))
    expected = [2 * sum(4950.0 + 100 * n for n in range(start, 20, 2)) for start in (0, 1)]
    assert sums == sorted(expected)
    report = holds(run, monkeypatch, level="data")
    assert report.exit_code == 0, report.findings


def test_a_transform_that_gives_something_else_when_it_is_repeated(here, processes, monkeypatch):
    """What is stored is what was recorded; that it does not come out again is for the replay to say."""
    workers(processes, "one")
    with Client(processes.address) as client:
        with provenance.run("numbers", client=client) as run:
            raw = run.files("in", group_files=1)
            raw.stage("random", recorded.random_once, marker=str(here / "m")).write("first.zarr")
        again = provenance.attach  # sealed: nothing is added to it
        with pytest.raises(errors.ConfigError, match="sealed"):
            again(run.id)
    assert holds(run, monkeypatch, level="data").exit_code == 0
    report = holds(run, monkeypatch)
    assert report.exit_code == 1
    assert any(f.code == "replay-failed" for f in report.findings), [f.code for f in report.findings]


def test_a_worker_of_another_version_is_found_before_the_first_task(here, processes):
    other = here / "other-version"
    info = other / "provenance_ledger-99.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: provenance-ledger\nVersion: 99.0\n")
    processes.worker("other", path_first=str(other))
    wait_for(processes.folder / "other.log", "Starting established connection|Registered to")
    with pytest.raises(errors.ConfigError, match=r"Dask worker 1 of 1: .* found version 99\.0") as caught:
        provenance.run("numbers", client=processes.address)
    assert "Install provenance-ledger==" in caught.value.remedy
    assert recorded.ports_of(settings()).log.bounds(0).end == 0


def test_a_worker_without_the_package_is_found_before_the_first_task(here, processes):
    hidden = here / "without"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text(
        "import importlib.metadata as m\n"
        "found = m.version\n"
        "def version(name):\n"
        "    if name == 'provenance-ledger':\n"
        "        raise m.PackageNotFoundError(name)\n"
        "    return found(name)\n"
        "m.version = version\n"
    )
    processes.worker("bare", path_first=str(hidden))
    wait_for(processes.folder / "bare.log", "Starting established connection|Registered to")
    with pytest.raises(errors.ConfigError, match="found none"):
        provenance.run("numbers", client=processes.address)


def settings():
    from provenance import config

    return config.load(Path(".provenance").absolute())


def test_a_scheduler_that_does_not_answer_and_one_without_workers(here, monkeypatch):
    from provenance.adapters.dask import compute

    monkeypatch.setattr(compute, "_CONNECT_SECONDS", 1)
    with pytest.raises(errors.UnavailableError, match="no answer"):
        provenance.run("numbers", client="tcp://127.0.0.1:9")


SCRIPTS = {
    "start.py": """
run = provenance.start("numbers", client="sync")
read = run.files("in", group_files=5).stage("read", recorded.numbers)
read.wide("all", recorded.stack, npartitions=2).write("a.zarr")
run.compute()
run.close()
open("run-id", "w").write(run.id)
""",
    "more.py": """
run = provenance.attach(open("run-id").read(), client="sync")
run.stored("all.zarr").stage("twice", recorded.twice).write("b.zarr")
run.compute()
run.close()
""",
    "seal.py": """
run = provenance.attach(open("run-id").read(), client="sync")
print(run.seal())
""",
}


def test_three_scripts_start_attach_and_seal(here, monkeypatch):
    for name, text in SCRIPTS.items():
        (here / name).write_text("import provenance\nfrom tests import recorded\n" + text)
        done = subprocess.run(
            [sys.executable, name], cwd=here, capture_output=True, text=True, env=environment(), check=False
        )
        assert done.returncode == 0, done.stderr
    found = recorded.read_records((here / "run-id").read_text(), here / ".provenance")
    assert found.seal.status == "complete"
    counts = {one.name: one.partitions for one in found.seal.stages}
    assert counts == {"raw": 4, "read": 4, "all": 2, "all.zarr": 2, "twice": 2, "twice.zarr": 2}
    made = [zarr.open_group(f"{name}.zarr", mode="r")["p00000"]["values"][:] for name in "ab"]
    assert np.array_equal(made[1], 2 * made[0])
    assert Counter(found.order)["seal"] == 1

    class Sealed:
        id = (here / "run-id").read_text()

    assert holds(Sealed, monkeypatch).exit_code == 0


def environment():
    return {**os.environ, "PYTHONPATH": str(PROJECT)}


def test_any_task_of_any_graph_can_record(here, processes, monkeypatch):
    workers(processes, "one", "two")
    run = provenance.start("by hand", client=processes.address)
    first = run.recorder("first", make_numbers)
    second = run.recorder("second", double_numbers, parents=[first])
    with Client(processes.address) as client:
        made = client.map(make_and_record, range(6), recorder=first, pure=False)
        refs = client.map(double_and_record, made, range(6), recorder=second, pure=False)
        client.gather(refs)
    run.seal()
    found = read(run)
    assert len(found.of("first")) == len(found.of("second")) == 6
    ids = {
        partition.number: record for record, partition in found.partitions if partition in found.of("first")
    }
    assert [part.inputs[0].record for part in found.of("second")] == [ids[n] for n in range(6)]
    assert holds(run, monkeypatch, level="chain").exit_code == 0


def make_numbers(number):
    return np.arange(5.0) + number


def double_numbers(values):
    return values * 2


def make_and_record(number, recorder):
    values = make_numbers(number)
    return values, recorder.record(values, number=number)


def double_and_record(made, number, recorder):
    values, ref = made
    return recorder.record(double_numbers(values), inputs=[ref], number=number)
