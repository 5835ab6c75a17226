"""Where graphs run: what ``client=`` may be, and that this process computes as a cluster would."""

from __future__ import annotations

import operator

import pytest

from provenance.adapters.dask.compute import InProcess, open_compute
from provenance.adapters.dask.environment import describe_environment
from provenance.errors import ConfigError, UnavailableError

GRAPH = {"a": 1, "b": (operator.add, "a", 1), "c": (operator.mul, "b", 10)}


@pytest.mark.parametrize("scheduler", ["sync", "threads"])
def test_this_process(scheduler):
    compute = open_compute(scheduler)
    assert isinstance(compute, InProcess)
    assert dict(compute.results(GRAPH, ["b", "c"])) == {"b": 2, "c": 20}
    kept = compute.keep(GRAPH, ["b"])
    assert dict(compute.results({**kept, "d": (operator.neg, "b")}, ["d"])) == {"d": -2}
    assert compute.environments() == [describe_environment()]
    compute.close()


@pytest.mark.parametrize(
    "client", ["", "localhost", "tcp://", "a b://c", "tcp://host/path", 5, ["tcp://x:1"], object()]
)
def test_what_is_no_client(client):
    with pytest.raises(ConfigError) as caught:
        open_compute(client)
    assert caught.value.reason == "client"
    assert "'sync'" in caught.value.remedy
    assert "x:1" not in str(caught.value)


def test_an_address_where_nobody_answers(monkeypatch):
    from provenance.adapters.dask import compute

    monkeypatch.setattr(compute, "_CONNECT_SECONDS", 1)
    with pytest.raises(UnavailableError, match="no answer") as caught:
        open_compute("tcp://127.0.0.1:9")
    assert caught.value.reason == "scheduler"
    assert caught.value.remedy
