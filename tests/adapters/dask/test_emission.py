"""From a worker to the log: the right one, by the right version, its environment kept once."""

from __future__ import annotations

import importlib.metadata
import pickle
import platform
import re
import socket

import pytest

from provenance.adapters.dask import emission
from provenance.adapters.dask.environment import describe_environment, environment_id
from provenance.core.runs import encode_environment, environment_name, environments_prefix
from provenance.errors import ConfigError, UnavailableError
from provenance.testing.fakes import FakeLog, FakeStore
from provenance.testing.faults import Fault, Faults, faulty
from tests.adapters.dask.graphs import RUN, outlet

RECORDS = [(b"key", b"one"), (b"key", b"two")]


def values(log):
    return [message.value for message in log.read(0, 0, 10)]


def test_records_are_on_the_log_when_it_returns():
    log = FakeLog()
    outlet(log).emit(RECORDS)
    assert values(log) == [b"one", b"two"]


def test_another_log_under_the_same_name_is_refused_each_time():
    log = FakeLog(cluster_id="mine")
    wrong = outlet(log, identities=frozenset(FakeLog(cluster_id="theirs").identities()))
    for _ in range(2):
        with pytest.raises(ConfigError, match="another event log") as caught:
            wrong.emit(RECORDS)
        assert caught.value.reason == "other-log"
        assert caught.value.remedy
    assert values(log) == []


def test_another_version_is_refused_each_time(monkeypatch):
    log = FakeLog()
    for _ in range(2):
        with pytest.raises(ConfigError, match=r"expected provenance-ledger 99\.0, found version") as caught:
            outlet(log, version="99.0").emit(RECORDS)
        assert "provenance-ledger==99.0" in caught.value.remedy
    assert values(log) == []
    assert importlib.metadata.version("provenance-ledger")


def test_a_log_that_cannot_be_opened_is_tried_again():
    faults = Faults()
    log = faulty(FakeLog(), "log", faults)
    made = outlet(log)
    faults.on("log.identities", Fault.FAILED)
    with pytest.raises(UnavailableError):
        made.emit(RECORDS)
    made.emit(RECORDS)
    assert values(log) == [b"one", b"two"]


def test_an_environment_that_the_run_does_not_name_is_kept_once():
    environment_id.cache_clear()  # earlier tests of this process may have loaded another linear algebra since
    store, log = FakeStore(), FakeLog()
    known = outlet(log, store)
    known.emit(RECORDS)
    assert store.objects == {}
    faults = Faults()
    watched = faulty(store, "store", faults)
    other = outlet(log, watched, environments=frozenset())
    other.emit(RECORDS)
    other.emit(RECORDS)
    environment, data = encode_environment(describe_environment())
    assert environment == environment_id()
    assert store.objects == {
        environment_name(environment): data,
        environments_prefix(RUN) + environment.hex(): b"",
    }
    assert faults.calls == ["store.put", "store.put"]


def test_an_environment_that_could_not_be_kept_holds_the_records_back():
    log, faults = FakeLog(), Faults()
    store = faulty(FakeStore(), "store", faults)
    made = outlet(log, store, environments=frozenset())
    faults.on("store.put", Fault.FAILED)
    with pytest.raises(UnavailableError):
        made.emit(RECORDS)
    assert values(log) == []
    made.emit(RECORDS)
    assert values(log) == [b"one", b"two"]


def test_an_environment_tells_no_machine_and_no_user(monkeypatch):
    monkeypatch.setattr(platform, "node", lambda: "secret-host")
    monkeypatch.setattr(socket, "gethostname", lambda: "secret-host")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("LOGNAME", "secret-user")
    document = describe_environment()
    assert set(document) == {"interpreter", "packages", "blas", "cpu", "variables"}
    assert document["variables"]["OMP_NUM_THREADS"] == "3"
    assert not re.search(r"secret|/home/|/root", repr(document))


def test_an_outlet_travels_without_what_it_opened():
    from provenance import config
    from provenance.recording import LogOpener, StoreOpener

    settings = config.load()
    made = emission.Outlet(
        RUN, LogOpener(settings), StoreOpener(settings), frozenset(), "0", frozenset({environment_id()})
    )
    assert pickle.loads(pickle.dumps(made)) == made
    assert hash(made.log) == hash(LogOpener(settings))
