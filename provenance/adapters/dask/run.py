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

import dask

from provenance import files as local_files
from provenance.adapters.dask import building, sources, tables
from provenance.adapters.dask.collections import partitions_of
from provenance.adapters.dask.execution import Execution
from provenance.adapters.dask.handles import Handle, Sink
from provenance.adapters.dask.operations import SplitTable
from provenance.core.tokens import key_token
from provenance.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from types import TracebackType

    from provenance.adapters.dask.building import Replay
    from provenance.adapters.dask.execution import Limits, Session
    from provenance.adapters.dask.handles import Node

__all__ = ["Run"]


class Run:
    """One run, from its first stage to its seal. Made by ``provenance.run``, ``start`` and ``attach``."""

    def __init__(self, session: Session, limits: Limits) -> None:
        self._session = session
        self._limits = limits
        self._execution = Execution(session)
        self._builder = building.Builder(session.run, session.version, session.recorder.draft)
        self._made: list[Node] = []
        self._sinks: list[Node] = []

    @property
    def id(self) -> str:
        """The run's id, in hex; `attach` goes on from it."""
        return self._session.run.hex()

    # ----------------------------------------------------------------------------------------------------
    # sources

    def files(
        self,
        where: str | Path | Iterable[str | Path],
        *,
        root: str | Path | None = None,
        key: Callable[[str], str | int | None] | Mapping[str, str | int] | None = None,
        name: str = "raw",
        group_bytes: int | None = None,
        group_files: int = 200,
    ) -> Handle:
        """Files as they are found: a partition is a list of `File`, a few small ones or a large one.

        Args:
            where: a folder, a pattern (``recordings/**/*.wav``) or paths.
            root: what names are relative to; by default the folder, or the part before the first wildcard.
            key: what a file belongs to, e.g. its speaker, from its path below the root: a function or a
                mapping. A partition holds one key only.
            name: the stage's name.
            group_bytes: size up to which files share a partition.
            group_files: how many may share one, at most 200.

        Raises:
            ConfigError: nothing matches.
            MalformedError: a name or a link that cannot be recorded, naming the file.
        """
        return self._handle(self._files(where, root, key, name, group_bytes, group_files))

    def csv(
        self,
        where: str | Path | Iterable[str | Path],
        *,
        root: str | Path | None = None,
        name: str = "csv",
        types: dict[str, str] | None = None,
        delimiter: str = ",",
        arrow: bool = False,
    ) -> Handle:
        """CSV files, one a partition: a source stage ``NAME.files``, and the rows behind it.

        Args:
            where: as `files`.
            root: as `files`.
            name: the stage's name.
            types: type strings (``f64``, ``utf8``) of columns; the others are worked out from the first file.
            delimiter: between values.
            arrow: partitions are pyarrow Tables instead of pandas DataFrames.

        Raises:
            ConfigError: as `files`; the first file's types cannot be worked out.
        """
        return self._tables(where, root, name, tables.CsvFormat(delimiter), types, arrow)

    def parquet(
        self,
        where: str | Path | Iterable[str | Path],
        *,
        root: str | Path | None = None,
        name: str = "parquet",
        arrow: bool = False,
    ) -> Handle:
        """Parquet files, one a partition: a source stage ``NAME.files``, and the rows behind it.

        Args:
            where: as `files`.
            root: as `files`.
            name: the stage's name.
            arrow: partitions are pyarrow Tables instead of pandas DataFrames.

        Raises:
            ConfigError: as `files`; the first file cannot be read.
        """
        return self._tables(where, root, name, tables.ParquetFormat(), None, arrow)

    def collection(self, collection: Any, *, name: str = "collection", schema: Any = None) -> Handle:
        """The partitions of a Dask DataFrame, Series, Bag or Array, frozen as they are now.

        What is upstream of it is not recorded, and a replay cannot run it again.

        Args:
            collection: the collection.
            name: the stage's name.
            schema: as `Handle.stage`; by default what the collection says of itself.
        """
        return self._handle(partitions_of(self._builder, name, collection, building.schema_of(schema)))

    # -----------------------------------------------------------------------------------------------------
    # the end

    def compute(self) -> None:
        """Compute what is to be written and has not been; stages that several sinks need are computed once.

        Raises:
            ProvenanceError: what a stage met; what a transform raised goes on as it is.
        """
        sinks, self._sinks = self._sinks, []
        self._keep_rows()
        self._execution.write(sinks)

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
        return self._session.recorder.seal(status).hex()

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
        from provenance.errors import ProvenanceError

        self._execution.abandon()
        try:
            self._session.recorder.seal("aborted")
        except ProvenanceError as second:
            error.add_note(f"The run could not be sealed as aborted: {second.message}")

    def _check_something_done(self) -> None:
        if self._made and not self._execution.computed:
            raise ConfigError(
                "the run has stages, and none of them was written or computed",
                reason="nothing-written",
                remedy="Call .write(path) on the last stage.",
            )

    # ------------------------------------------------------------------------------------ what handles call
    # back for

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
            name, parent, fn, params, each=each, schema=building.schema_of(schema), replay=replay
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
            keys, pieces = building.wide_by_number(name, parent, npartitions)
        elif by == "key" and (parent.holds_files or any(parent.keys)):
            keys, pieces = building.wide_by_key(name, parent)
        else:
            split = SplitTable(str(by))
            self._keep_rows()
            found = self._execution.values(parent, split)
            secret = self._session.names.secret()
            keys, pieces, plain = building.wide_by_value(found, lambda value: key_token(secret, value))
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
            schema=building.schema_of(schema),
            replay=replay,
        )
        return self._handle(node)

    def _write(self, parent: Node, path: Any, name: str | None, format_: str | None) -> Sink:
        place = Path(path).absolute()
        node = self._builder.sink(parent, place, name, format_)
        if any(sink.building == node.building for sink in self._sinks):
            raise ConfigError(f"{place}: it is written already in this run", reason="store-exists")
        self._made.append(node)
        self._sinks.append(node)
        return Sink(node, str(place))

    def _compute_node(self, node: Node) -> list[Any]:
        self._keep_rows()
        return self._execution.data(node)

    def _persist(self, node: Node) -> None:
        self._keep_rows()
        self._execution.persist(node)

    def _handle(self, node: Node) -> Handle:
        self._made.append(node)
        return Handle(self, node)

    def _keep_rows(self) -> None:
        rows, self._builder.rows = self._builder.rows, []
        if rows:
            self._session.names.remember(rows)

    def _files(
        self,
        where: str | Path | Iterable[str | Path],
        root: str | Path | None,
        key: Callable[[str], str | int | None] | Mapping[str, str | int] | None,
        name: str,
        group_bytes: int | None,
        most: int,
    ) -> Node:
        if dask.is_dask_collection(where):
            raise ConfigError(
                f"a {type(where).__qualname__} is no place of files",
                reason="not-a-handle",
                remedy="Give it to run.collection(…).",
            )
        base, found = sources.find_files(where, root=root)
        if key is not None:
            found = sources.with_keys(found, key if callable(key) else key.get)
        named = list(
            sources.tokens_of(found, self._session.names.secret(), personal=self._session.names_are_personal)
        )
        return self._builder.files(
            name,
            base,
            named,
            limit=self._limits.file_bytes,
            target_bytes=self._limits.group_bytes if group_bytes is None else group_bytes,
            most=most,
        )

    def _tables(
        self,
        where: str | Path | Iterable[str | Path],
        root: str | Path | None,
        name: str,
        format_: tables.TableFormat,
        types: dict[str, str] | None,
        arrow: bool,
    ) -> Handle:
        parent = self._files(where, root, None, f"{name}.files", 0, 1)
        _, path, _ = parent.payloads[0].entries[0]
        limit = self._limits.file_bytes
        schema = tables.declared(
            format_, lambda: local_files.read_file(Path(path), limit) or b"", types, pandas=not arrow
        )
        return self._handle(self._builder.tables(name, parent, format_, schema, pandas=not arrow))
