"""A run as its user sees it: sources, stages and sinks by name, computed together, sealed at the end.

::

    with provenance.run("voice", dataset="dataset.toml") as run:
        raw = run.files("recordings/**/*.wav")
        clean = raw.stage("clean", remove_silence, threshold_db=-40)
        clean.stage("feature", mel, n_mels=80).write("features.zarr")

Stages are lazy and sinks are gathered: they are computed in one graph, each stage once however many sinks
need it, when the block ends or at ``run.compute()``. An error in the block seals the run as aborted and goes
on.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from provenance import files
from provenance.adapters.dask import wide
from provenance.adapters.dask.checks import schema_of
from provenance.adapters.dask.execution import Execution
from provenance.adapters.dask.handles import Handle, Sink
from provenance.adapters.dask.manual import ManualStages, StageRecorder
from provenance.adapters.dask.operations import SplitTable
from provenance.adapters.dask.reading import Reading
from provenance.core.tokens import key_token
from provenance.errors import ConfigError, ProvenanceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from types import TracebackType

    from provenance.adapters.dask.building import Replay
    from provenance.adapters.dask.compute import Compute
    from provenance.adapters.dask.execution import Limits, Session
    from provenance.adapters.dask.handles import Node
    from provenance.core.kinds import Stage
    from provenance.core.lineage import Ref

__all__ = ["Run"]


class Run(Reading):
    """One run, from its first stage to its seal. Made by ``provenance.run``, ``start`` and ``attach``."""

    def __init__(self, session: Session, limits: Limits, opened: Compute | None = None) -> None:
        super().__init__(session, limits)
        self._execution = Execution(session, opened)
        self._manual = ManualStages(
            self._make_manual, session.outlet, session.names, session.names_are_personal
        )
        self._sealed = False
        self._made: list[Node] = []
        self._sinks: list[Node] = []

    @property
    def id(self) -> str:
        """The run's id, in hex; `attach` goes on from it."""
        return self._session.run.hex()

    # ------------------------------------------------------------------------------------------------ by hand

    def recorder(
        self,
        name: str,
        fn: Callable[..., Any] | None = None,
        *,
        parents: Iterable[StageRecorder | Handle] = (),
        schema: Any = None,
        **params: Any,
    ) -> StageRecorder:
        """For graphs that one does not rewrite: something that any task can record its output with.

        The stage is on the log when this returns.

        Args:
            name: the stage's name.
            fn: what computes it; without it the record says only that somebody did.
            parents: the recorders (or handles) of the stages that its inputs come from.
            schema: as `Handle.stage`.
            **params: what ``fn`` is called with, as plain values.
        """
        records = [
            parent.stage if isinstance(parent, StageRecorder) else bytes.fromhex(parent.id)
            for parent in parents
        ]
        self._check_open()
        return self._manual.recorder(name, fn, records, schema_of(schema), params)

    def record(
        self,
        output: Any,
        *,
        inputs: Iterable[Ref | str | Path] = (),
        stage: str,
        number: int | None = None,
        fn: Callable[..., Any] | None = None,
    ) -> Ref:
        """Record one output of a program that is not written in stages; on the log when it returns.

        Args:
            output: a frame, a table, an array, a list, or a dict of named arrays and tables.
            inputs: paths of files, and what earlier calls returned.
            stage: the stage's name; its first call makes it, with these inputs' stages as its parents.
            number: the partition's number; by default the next.
            fn: what computed it.

        Returns:
            What to give as an input where the output is used.
        """
        self._check_open()
        return self._manual.record(output, inputs=list(inputs), stage=stage, number=number, fn=fn)

    def _make_manual(
        self,
        name: str,
        fn: Callable[..., Any] | None,
        parents: tuple[bytes, ...],
        schema: Any,
        params: dict[str, Any],
    ) -> tuple[bytes, Stage, int]:
        """(id, stage, the first number that is free): an earlier cell or script may have recorded some."""
        stage_id, stage = self._builder.manual(name, fn, parents, schema, params)
        last = -1
        if stage_id in self._session.stages():
            numbers = (one.number for _, one in self._session.records() if one.stage == stage_id)
            last = max(numbers, default=-1)
        self._session.recorder.publish([stage_id])
        self._execution.computed = True
        return stage_id, stage, last + 1

    # ------------------------------------------------------------------------------------------------ the end

    def compute(self) -> None:
        """Compute what is to be written and has not been; stages that several sinks need are computed once.

        Raises:
            ProvenanceError: what a stage met; what a transform raised goes on as it is.
        """
        self._check_open()
        self._keep_rows()
        try:
            self._execution.write(self._sinks)
        finally:  # after an error one may call again, and go on with what was not written
            self._sinks = [sink for sink in self._sinks if sink in self._execution.unfinished]

    def seal(self, status: str = "complete") -> str:
        """End the run: compute what is left, write the seal, let go of the cluster. Returns the seal's id.

        Args:
            status: ``"complete"`` or ``"aborted"``.

        Raises:
            ConfigError: ``sealed``, or ``nothing-written``: there are stages and none was computed.
            PendingError: partitions are missing.
        """
        try:
            if status == "complete":
                self.compute()
                self._check_something_done()
        except BaseException as error:
            self._abort(error)
            raise
        self._execution.close()
        seal = self._session.recorder.seal(status).hex()
        self._sealed = True
        return seal

    def close(self) -> None:
        """Let go of the cluster without sealing: another cell, script or task goes on with ``attach``."""
        self._execution.close()

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.seal()
        else:
            self._abort(error)

    def __repr__(self) -> str:
        return f"<run {self.id[:16]}…: {len(self._made)} stages>"

    def _abort(self, error: BaseException) -> None:
        """Seal as aborted; what went wrong before is what the user has to see, whatever goes wrong now."""
        self._execution.abandon()
        self._sealed = True
        try:
            self._session.recorder.seal("aborted")
        except ProvenanceError as second:
            error.add_note(f"The run could not be sealed as aborted: {second.message}")

    def _check_open(self) -> None:
        if self._sealed:
            raise ConfigError(
                f"run {self.id}: it is sealed",
                reason="sealed",
                remedy="Start a new run: what is sealed is over.",
            )

    def _check_something_done(self) -> None:
        if self._made and not self._execution.computed:
            raise ConfigError(
                "the run has stages, and none of them was written or computed",
                reason="nothing-written",
                remedy="Call .write(path) on the last stage.",
            )

    # ----------------------------------------------------------------------------- what handles call back for

    def _stage(
        self,
        parent: Node,
        name: str,
        fn: Callable[..., Any],
        params: Mapping[str, Any],
        *,
        each: bool | None,
        schema: Any,
        replay: Replay,
    ) -> Handle:
        node = self._builder.stage(
            name, parent, fn, params, each=each, schema=schema_of(schema), replay=replay
        )
        return self._handle(node)

    def _wide(
        self,
        parent: Node,
        name: str,
        fn: Callable[..., Any] | None,
        params: Mapping[str, Any],
        *,
        by: str | None,
        npartitions: int | None,
        schema: Any,
        replay: Replay,
    ) -> Handle:
        if (by is None) == (npartitions is None):
            raise ConfigError(
                f"stage {name!r}: give either by or npartitions",
                reason="wide",
                remedy='by="key" or by="column".',
            )
        split = None
        if npartitions is not None:
            keys, pieces = wide.wide_by_number(name, parent, npartitions)
        elif by == "key" and (parent.holds_files or any(parent.keys)):
            keys, pieces = wide.wide_by_key(name, parent)
        else:
            split = SplitTable(str(by))
            self._keep_rows()
            found = self._execution.values(parent, split)
            secret = self._session.names.secret()
            keys, pieces, plain = wide.wide_by_value(found, lambda value: key_token(secret, value))
            self._builder.rows += [("key", token, value) for token, value in plain.items()]
        node = self._builder.wide(
            name,
            parent,
            fn,
            params,
            parameters={"by": by} if npartitions is None else {"npartitions": npartitions},
            pieces=pieces,
            keys=keys,
            split=split,
            schema=schema_of(schema),
            replay=replay,
        )
        return self._handle(node)

    def _write(self, parent: Node, path: Any, name: str | None, format_: str | None) -> Sink:
        self._check_open()
        files.refuse_address(path)
        place = Path(path).absolute()
        node = self._builder.sink(parent, place, name, format_)
        if any(sink.building == node.building for sink in self._sinks):
            raise ConfigError(f"{place}: it is written already in this run", reason="store-exists")
        self._made.append(node)
        self._sinks.append(node)
        return Sink(node, str(place))

    def _compute_node(self, node: Node) -> list[Any]:
        self._check_open()
        self._keep_rows()
        return self._execution.data(node)

    def _persist(self, node: Node) -> None:
        self._check_open()
        self._keep_rows()
        self._execution.persist(node)

    def _handle(self, node: Node) -> Handle:
        self._check_open()
        self._made.append(node)
        return Handle(self, node)

    def _keep_rows(self) -> None:
        rows, self._builder.rows = self._builder.rows, []
        if rows:
            self._session.names.remember(rows)
