"""Computing the graphs of a run in their order: names, stages on the log, tasks, stores in their places.

========================================= =================================================================
a crash after                             means
========================================= =================================================================
the private rows are kept                 rows that no record refers to
the stages are on the log                 stages without partitions; computed again, or the seal is aborted
some partitions are recorded              repeats of the same bytes when they are computed again
the last shard                            a building without its root: not a store, removed or left aside
the store is in its place                 a store that no seal names yet
========================================= =================================================================
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from provenance.adapters.dask.carried import Carried
from provenance.adapters.dask.planning import ancestors, plan
from provenance.adapters.dask.progress import Progress
from provenance.adapters.dask.steps import BadInputError
from provenance.errors import MalformedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from provenance.adapters.dask.compute import Compute
    from provenance.adapters.dask.emission import Outlet
    from provenance.adapters.dask.handles import Node
    from provenance.adapters.dask.operations import SplitTable
    from provenance.adapters.dask.planning import Plan
    from provenance.core.digests import TreeEntry
    from provenance.core.kinds import Partition, Stage
    from provenance.ports import PrivateNames, Recorder

__all__ = ["Execution", "Limits", "Session"]


@dataclass(frozen=True, slots=True)
class Limits:
    """How large things may be: one raw file, and the files that share a partition; bytes."""

    file_bytes: int
    group_bytes: int


@dataclass(frozen=True, slots=True)
class Session:
    """What a run works with.

    Attributes:
        run: the run's id.
        title: the run's name, for the progress bar.
        version: of this package.
        recorder: signs and publishes.
        names: the private store.
        outlet: where workers put records.
        compute: gives what computes, opened when it is first needed.
        stages: the stages that are on the log.
        records: the partition records that are.
        names_are_personal: whether files' names become tokens.
        stop_on_bad_input: whether an item that cannot be used ends the run.
    """

    run: bytes
    title: str
    version: str
    recorder: Recorder
    names: PrivateNames
    outlet: Outlet
    compute: Callable[[], Compute]
    stages: Callable[[], Mapping[bytes, Stage]]
    records: Callable[[], Iterable[tuple[bytes, Partition]]]
    names_are_personal: bool = True
    stop_on_bad_input: bool = False


@dataclass(slots=True)
class Execution:
    """Runs graphs for one session."""

    session: Session
    opened: Compute | None = None
    computed: bool = False
    _ready: dict[Node, Any] = field(default_factory=dict)
    unfinished: list[Node] = field(default_factory=list)

    def write(self, sinks: Sequence[Node]) -> None:
        """Compute sinks and put their stores into place; those that have none yet are ``unfinished``."""
        if not sinks:
            return
        self.unfinished += [sink for sink in sinks if sink not in self.unfinished]
        for sink in sinks:
            if sink.building is not None:
                sink.building.check_free()
                sink.building.begin()
        entries: dict[Node, list[TreeEntry]] = {sink: [] for sink in sinks}
        for node, _, value in self._run(sinks):
            if not isinstance(value, Carried):
                entries[node] += value.entries
        for sink in sinks:
            self._finish(sink, entries[sink])

    def data(self, node: Node) -> list[Any]:
        """The data of every partition, in order."""
        found = {number: value.data for _, number, value in self._run([node])}
        return [found[number] for number in sorted(found)]

    def persist(self, node: Node) -> None:
        """Compute a node's partitions and keep them where they are."""
        if node in self._ready:
            return
        self._publish([node])
        planned = self._plan([node])
        with self._explained():
            self._ready[node] = self._opened().keep(planned.graph, list(planned.wanted))
        self.computed = True

    def values(self, node: Node, split: SplitTable) -> dict[int, list[Any]]:
        """The values of a column in each partition; the partitions are kept, since they will be cut next."""
        self.persist(node)
        graph = dict(self._ready[node])
        keys = {f"values-{node.key(number)}": number for number in range(node.partitions)}
        graph.update({key: (split.values, node.key(number)) for key, number in keys.items()})
        with self._explained():
            return {keys[key]: value for key, value in self._opened().results(graph, list(keys))}

    def close(self) -> None:
        """Let go of the cluster."""
        if self.opened is not None:
            self.opened.close()
            self.opened = None
        self._ready.clear()

    def abandon(self) -> None:
        """Stop, and remove stores that were begun."""
        self.close()
        for sink in self.unfinished:
            if sink.building is not None:
                sink.building.abandon()
        self.unfinished.clear()

    def _run(self, targets: Sequence[Node]) -> Iterator[tuple[Node, int, Any]]:
        self._publish(targets)
        planned = self._plan(targets)
        with self._explained(), Progress(self.session.title, len(planned.wanted)) as progress:
            for key, value in self._opened().results(planned.graph, list(planned.wanted)):
                progress.advance()
                yield (*planned.wanted[key], value)
        self.computed = True

    def _plan(self, targets: Sequence[Node]) -> Plan:
        return plan(targets, self.session.outlet, ready=self._ready, stop=self.session.stop_on_bad_input)

    def _publish(self, targets: Iterable[Node]) -> None:
        self.session.recorder.publish([node.record for node in ancestors(targets)])

    def _opened(self) -> Compute:
        if self.opened is None:
            self.opened = self.session.compute()
        return self.opened

    def _finish(self, sink: Node, entries: list[TreeEntry]) -> None:
        if sink.building is None:
            return
        if sink.name and sink.stage.transform.name == "provenance:write_zarr":
            from provenance.adapters.dask.sinks_zarr import finish_zarr

            entries.append(finish_zarr(sink.building, self.session.run.hex(), sink.record.hex()))
        sink.building.check_whole(entries)
        sink.building.finish()
        self.session.recorder.stored(sink.record, entries)
        self.unfinished.remove(sink)

    def _explained(self) -> Any:
        return _PlainNames(self.session.names)


class _PlainNames:
    """Puts the plain name of a file into what is raised: workers know tokens only."""

    def __init__(self, names: PrivateNames) -> None:
        self._names = names

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, BadInputError):
            name = self._plain(error.subject) or f"partition {error.number}"
            raise MalformedError(
                f"{name}: it cannot be used: {error.reason} (stage {error.stage!r})",
                reason=error.reason,
                remedy="Mend or remove the file, or let the run go on without it: on_bad_input='reject'.",
            ) from None
        notes = getattr(error, "__notes__", None)
        for at, note in enumerate(notes or ()):
            if note.startswith("file ") and notes is not None:
                notes[at] = f"file {self._plain(note.removeprefix('file ')) or note.removeprefix('file ')}"

    def _plain(self, subject: str) -> str | None:
        if len(subject) != 64 or not set(subject) <= set("0123456789abcdef"):
            return subject or None
        return self._names.plain(subject)
