"""Small graphs without a run behind them: nodes, a log in memory, a file of a source."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from provenance.adapters.dask.carried import Carried
from provenance.adapters.dask.emission import Outlet
from provenance.adapters.dask.handles import Node
from provenance.adapters.dask.steps import Made
from provenance.core.kinds import Stage, Transform
from provenance.core.lineage import Ref
from provenance.core.partitions import File, measure
from provenance.testing.fakes import FakeLog, FakeStore

RUN = b"r" * 32
SOME = hashlib.sha256(b"some").digest()


@dataclass(frozen=True)
class Opener:
    """Gives the same port again: what a worker opens by a path."""

    port: object = field(compare=False)
    name: str = ""

    def __call__(self) -> object:
        return self.port


def outlet(log: FakeLog, store: FakeStore | None = None, **changes: object) -> Outlet:
    import importlib.metadata

    from provenance.adapters.dask.environment import environment_id

    given = {
        "run": RUN,
        "log": Opener(log, f"log {id(log)}"),
        "store": Opener(store or FakeStore(), f"store {id(store)}"),
        "identities": frozenset(log.identities()),
        "version": importlib.metadata.version("provenance-ledger"),
        "environments": frozenset({environment_id()}),
    }
    return Outlet(**{**given, **changes})


@dataclass(frozen=True)
class Give:
    """A source: the payload is the data."""

    def apply(self, work: object) -> Made:
        return Made(work.payload, ())


@dataclass(frozen=True)
class Add:
    """Adds up whatever the parents hold, and one."""

    def apply(self, work: object) -> Made:
        data = [sum(value for parent in work.parents for value in parent.data) + 1]
        return Made(data, tuple(parent.ref for parent in work.parents))


def node(name: str, *parents: Node, count: int = 2, sink: bool = False, **more: object) -> Node:
    """A stage; a source without parents, whose partition n holds [n]."""
    function = "provenance:write_parquet" if sink else f"m:{name}"
    stage = Stage(
        RUN,
        name,
        tuple(dict.fromkeys(parent.record for parent in parents)),
        Transform(function, SOME, SOME, SOME, "m 1"),
        partitions=count,
    )
    if not parents:
        more = {"payloads": [[number] for number in range(count)], **more}
    record = hashlib.sha256(name.encode()).digest()
    return Node(record, stage, Add() if parents else Give(), parents, count, **more)


def carried(data: object, number: int = 0, *, stage: bytes = SOME, rejected: str | None = None) -> Carried:
    """A partition as it travels."""
    measured = None if rejected else measure(data, number)
    ref = Ref(
        stage,
        number,
        hashlib.sha256(stage + bytes([number])).digest(),
        measured.subjects if measured else (),
        measured.rows if measured else 0,
        measured.bytes if measured else 0,
        rejected=rejected,
    )
    return Carried(data, ref)


def a_file(name: str, data: object = b"data", **more: object) -> File:
    return File(name, data, **more)
