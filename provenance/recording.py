"""Recording, as one calls it: ``provenance.run``, ``start``, ``attach``.

Joins what a run needs (log, store, key, names, cluster) and hands out the run of the Dask adapter. Nothing
but pip is needed: without a chain the records wait in the log, and are anchored later.
"""

from __future__ import annotations

import importlib.metadata
import re
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provenance import bootstrap, config, files
from provenance.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from provenance.adapters.dask.compute import Compute
    from provenance.adapters.dask.run import Run
    from provenance.config import Settings
    from provenance.core.kinds import Partition
    from provenance.core.lineage import Ref
    from provenance.ports import BatchStore, EventLog
    from provenance.services.publish import DriverRecorder
    from provenance.services.runlog import RunPorts

__all__ = ["attach", "record", "rejected", "run", "start"]

_DISTRIBUTION = "provenance-ledger"
_MAX_DESCRIPTOR = 1 << 20
_TOKEN = re.compile(r"[0-9a-f]{64}")
_ON_BAD_INPUT = ("reject", "stop")
_current: ContextVar[Run | None] = ContextVar("provenance run", default=None)


@dataclass(frozen=True, slots=True)
class LogOpener:
    """Opens the event log; a worker gets this, never a connection."""

    settings: Settings

    def __call__(self) -> EventLog:
        """The log."""
        return bootstrap.event_log(self.settings)


@dataclass(frozen=True, slots=True)
class StoreOpener:
    """Opens the batch store."""

    settings: Settings

    def __call__(self) -> BatchStore:
        """The store."""
        return bootstrap.batch_store(self.settings)


def run(
    name: str,
    *,
    dataset: str | Path | None = "dataset.toml",
    client: Any = None,
    folder: str | Path | None = None,
    on_bad_input: str = "reject",
    seeds: Mapping[str, int] | None = None,
) -> Run:
    """Start a run, for a ``with`` block at whose end it is sealed.

    Args:
        name: the run's name.
        dataset: the dataset's descriptor, see ``provenance init``; None for none.
        client: where to compute: nothing for processes on this machine, a Dask scheduler's address, a
            `distributed.Client`, ``"sync"`` or ``"threads"`` for this process.
        folder: of log, batches and keys; by default the nearest ``.provenance`` upwards.
        on_bad_input: ``"reject"``: a file that cannot be used is recorded as such and the run goes on;
            ``"stop"``: it ends the run.
        seeds: random seeds to be recorded, by name.

    Raises:
        ConfigError: wrong use, or workers that lack this package.
        MalformedError: the descriptor.
        UnavailableError: the log, the store or the scheduler cannot be reached.
    """
    from provenance.adapters.dask.compute import open_compute
    from provenance.adapters.source_code import source_facts
    from provenance.services.publish import RunFacts, start_run

    _check_choice(on_bad_input)
    settings = _settings(folder)
    descriptors = [] if dataset is None else [_read_descriptor(dataset)]
    ports = _ports(settings)
    compute = open_compute(client, workers=settings.compute_workers)
    try:
        source = source_facts()
        facts = RunFacts(
            name=name,
            descriptors=descriptors,
            environments=compute.environments(),
            source=source.entries,
            producer=(_DISTRIBUTION, importlib.metadata.version(_DISTRIBUTION)),
            dirty=source.dirty,
            commit=source.commit,
            lockfile=source.lockfile,
            seeds=dict(seeds or {}),
        )
        recorder = start_run(facts, ports, _stored_check(settings))
        if source.root:
            bootstrap.names(settings).remember([("location", recorder.id.hex(), source.root)])
    except BaseException:
        compute.close()
        raise
    return _run(settings, recorder, lambda: compute, on_bad_input, compute)


start = run


def record(
    output: Any,
    *,
    inputs: Iterable[Ref | str | Path] = (),
    stage: str,
    number: int | None = None,
    fn: Callable[..., Any] | None = None,
) -> Ref:
    """Record one output of a graph that one does not rewrite, in the run that was started last here.

    In the tasks of a cluster use `Run.recorder`, which can be sent there.

    Args:
        output: a frame, a table, an array, a list, or a dict of named arrays and tables.
        inputs: paths of files, and what earlier calls returned.
        stage: the stage's name.
        number: the partition's number in the stage; by default the next.
        fn: what computed it.

    Returns:
        What to give as an input where the output is used.

    Raises:
        ConfigError: ``no-run``, none was started, or it is sealed.
    """
    current = _current.get()
    if current is None:
        raise ConfigError(
            "there is no run to record in",
            reason="no-run",
            remedy="Start one: run = provenance.start(name, dataset=…).",
        )
    return current.record(output, inputs=inputs, stage=stage, number=number, fn=fn)


def attach(
    run_id: str, *, client: Any = None, folder: str | Path | None = None, on_bad_input: str = "reject"
) -> Run:
    """Go on with a run that another cell, script or task started; a cluster starts when it is needed.

    Args:
        run_id: the run's id, `Run.id`.
        client: as `run`.
        folder: as `run`: that of the run.
        on_bad_input: as `run`.

    Raises:
        ConfigError: there is no such run here, or it is sealed.
    """
    from provenance.adapters.dask.compute import open_compute
    from provenance.services.publish import attach_run

    _check_choice(on_bad_input)
    settings = config.load(None if folder is None else Path(folder))
    recorder = attach_run(run_id, _ports(settings), _stored_check(settings))
    return _run(
        settings, recorder, lambda: open_compute(client, workers=settings.compute_workers), on_bad_input
    )


def rejected(run_id: str, *, folder: str | Path | None = None, plain: bool = False) -> dict[str, str]:
    """What of a run could not be used: the item's name as records have it (a token) → its reason code.

    Args:
        run_id: the run's id.
        folder: as `run`: that of the run.
        plain: give the names themselves, as far as the private store of this machine knows them. They are
            for whoever sits here: keep them in no log.

    Raises:
        ConfigError: there is no such run here.
    """
    from provenance.services.rejections import rejected_items
    from provenance.services.runlog import find_run

    settings = _settings(folder)
    ports = _ports(settings)
    history, _ = find_run(run_id, ports)
    found = rejected_items(history.id, ports)
    if not plain:
        return found
    names = bootstrap.names(settings)
    return {
        (names.plain(name) if _TOKEN.fullmatch(name) else None) or name: reason
        for name, reason in found.items()
    }


def _run(
    settings: Settings,
    recorder: DriverRecorder,
    compute: Callable[[], Compute],
    on_bad_input: str,
    opened: Compute | None = None,
) -> Run:
    from provenance.adapters.dask.emission import Outlet
    from provenance.adapters.dask.execution import Limits, Session
    from provenance.adapters.dask.run import Run
    from provenance.services import runlog

    session = Session(
        run=recorder.id,
        title=recorder.run.name,
        version=importlib.metadata.version(_DISTRIBUTION),
        recorder=recorder,
        names=bootstrap.names(settings),
        outlet=Outlet(
            run=recorder.id,
            log=LogOpener(settings),
            store=StoreOpener(settings),
            identities=frozenset(recorder.ports.log.identities()),
            version=importlib.metadata.version(_DISTRIBUTION),
            environments=recorder.environments(),
        ),
        compute=compute,
        stages=lambda: recorder.stages,
        records=lambda: runlog.read_partitions(recorder.id, recorder.ports),
        names_are_personal=any(dataset.names_are_personal for dataset in recorder.datasets)
        or not recorder.datasets,
        stop_on_bad_input=on_bad_input == "stop",
    )
    made = Run(session, Limits(settings.compute_file_limit, settings.compute_group_bytes), opened)
    _current.set(made)
    return made


def _ports(settings: Settings) -> RunPorts:
    from provenance.services.runlog import RunPorts

    bootstrap.prepare(settings)
    return RunPorts(
        bootstrap.event_log(settings),
        bootstrap.batch_store(settings),
        bootstrap.record_signer(settings),
        bootstrap.clock(),
    )


def _stored_check(settings: Settings) -> Callable[[Partition], bool]:
    """Whether what a sink's record describes lies in its store; asked for divergent records only."""

    def is_stored(partition: Partition) -> bool:
        from provenance.adapters.dask.places import Building, holds

        place = bootstrap.names(settings).plain(partition.stage.hex())
        return place is not None and holds(Building(place, partition.run.hex()), partition)

    return is_stored


def _check_choice(on_bad_input: str) -> None:
    if on_bad_input not in _ON_BAD_INPUT:
        raise ConfigError(
            f"on_bad_input {on_bad_input!r}: expected 'reject' or 'stop'", reason="on-bad-input"
        )


def _settings(folder: str | Path | None) -> Settings:
    if folder is not None:
        files.refuse_address(folder)
    return config.load(None if folder is None else Path(folder))


def _read_descriptor(place: str | Path) -> bytes:
    files.refuse_address(place)
    path = Path(place)
    data = files.read_file(path, _MAX_DESCRIPTOR)
    if data is None:
        raise ConfigError(
            f"{path}: there is no such dataset descriptor",
            reason="no-dataset",
            remedy="Run: provenance init   It writes a dataset.toml to fill in.",
        )
    return data
