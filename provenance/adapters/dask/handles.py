"""Handles: what ``run.files``, ``.stage``, ``.wide`` and ``.write`` return, and the graph behind them.

A handle is a stage that has been named and signed, and not been computed. It is no Dask collection: a
collection may drop, merge and renumber partitions in its optimiser, and would take the digests along.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa

    from provenance.adapters.dask.places import Building
    from provenance.adapters.dask.run import Run
    from provenance.adapters.dask.steps import Operation
    from provenance.core.kinds import Stage

__all__ = ["Handle", "Node", "PieceRef", "Sink"]


@dataclass(frozen=True, slots=True)
class PieceRef:
    """One input of a wide partition: partition ``number`` of a parent, or its piece with this value."""

    number: int
    value: str | int | None = None


@dataclass(slots=True, eq=False)
class Node:
    """One stage in the graph of a run.

    Attributes:
        record: the stage record's id.
        stage: what the record says.
        operation: what a worker does.
        parents: of a stage whose partition n is made from their partitions n, or of a wide one.
        partitions: how many.
        payloads: what each partition has of its own (files, a key); empty if nothing.
        pieces: for a wide stage, what each partition is made from.
        split: cuts the parents' partitions into pieces.
        keys: the key token of each partition, where known beforehand.
        schema: as declared.
        raw: for a source over another graph, the keys of that graph's partitions.
        graph: that graph.
        building: of a sink, where it writes.
        holds_files: whether the partitions are lists of `File`.
        is_stored: whether the partitions are read back from a sink's store, and are on record already.
    """

    record: bytes
    stage: Stage
    operation: Operation
    parents: tuple[Node, ...]
    partitions: int
    payloads: Sequence[Any] = ()
    pieces: Sequence[tuple[PieceRef, ...]] | None = None
    split: Any = None
    keys: Sequence[str | None] = ()
    schema: pa.Schema | None = None
    raw: Sequence[Any] = ()
    graph: Mapping[Any, Any] = field(default_factory=dict)
    building: Building | None = None
    holds_files: bool = False
    is_stored: bool = False

    @property
    def name(self) -> str:
        """The stage's name."""
        return self.stage.name

    @property
    def is_wide(self) -> bool:
        """Whether a partition is made from several of a parent's."""
        return self.pieces is not None

    def key(self, number: int) -> str:
        """The graph key of a partition: the stage record's id makes it unique."""
        prefix = "stored_" if self.is_stored else ""
        return f"{prefix}{_graph_name(self.name)}-{self.record.hex()[:32]}-{number}"


def _graph_name(name: str) -> str:
    return "".join(c if c.isascii() and c.isalnum() else "_" for c in name)[:40]


@dataclass(frozen=True, slots=True, eq=False)
class Handle:
    """A stage of a run, not computed yet.

    Methods that take a function name the stage in the record; the function itself is not changed, and needs
    to know nothing of this.
    """

    _run: Run
    _node: Node

    @property
    def name(self) -> str:
        """The stage's name."""
        return self._node.name

    @property
    def id(self) -> str:
        """The stage record's id, in hex."""
        return self._node.record.hex()

    @property
    def partitions(self) -> int:
        """How many partitions the stage has."""
        return self._node.partitions

    @property
    def schema(self) -> pa.Schema | None:
        """The declared schema."""
        return self._node.schema

    def stage(
        self,
        name: str,
        fn: Callable[..., Any],
        *,
        each: bool | None = None,
        schema: Any = None,
        profile: str = "exact",
        tolerances: Mapping[str, str] | None = None,
        **params: Any,
    ) -> Handle:
        """One partition in, one out.

        Args:
            name: the stage's name, unlike any other of the run.
            fn: called as ``fn(data, **params)``. Over a partition of files it is called once for each file,
                with a `File`, and returns the file's new data, or raises or returns `Rejected`.
            each: whether to call it for each file; by default where the partitions are files.
            schema: the columns of the result: an empty frame, an Arrow schema, or ``{name: type string}``.
            profile: what a replay must give: ``"exact"``, ``"logical"`` (equal digests of content) or
                ``"tolerance"``.
            tolerances: largest absolute difference by the part's name (``"*"``: any other), as decimal text.
            **params: plain values, or handles with as many partitions, whose data is then passed along.

        Raises:
            ConfigError: the transform or a parameter cannot be recorded, or the parents do not fit.
        """
        return self._run._stage(  # noqa: SLF001 - handle and run are one thing to users
            self._node, name, fn, params, each=each, schema=schema, replay=(profile, tolerances or {})
        )

    def wide(
        self,
        name: str,
        fn: Callable[..., Any] | None = None,
        *,
        by: str | None = None,
        npartitions: int | None = None,
        schema: Any = None,
        profile: str = "exact",
        tolerances: Mapping[str, str] | None = None,
        **params: Any,
    ) -> Handle:
        """Regroup: one output partition for each key, or so many of neighbouring input partitions.

        Args:
            name: as `stage`.
            fn: called as ``fn(everything of one key, **params)``: a list of files, one table, or a list of
                the partitions' data. Without it the joined data is the result.
            by: ``"key"`` for the key that the source was given, else a table's column.
            npartitions: the number of output partitions, without ``by``.
            schema: as `stage`.
            profile: as `stage`.
            tolerances: as `stage`.
            **params: plain values.

        Raises:
            ConfigError: as `stage`; neither or both of ``by`` and ``npartitions``.
        """
        return self._run._wide(  # noqa: SLF001 - as above
            self._node,
            name,
            fn,
            params,
            by=by,
            npartitions=npartitions,
            schema=schema,
            replay=(profile, tolerances or {}),
        )

    def write(self, path: Any, *, name: str | None = None, format: str | None = None) -> Sink:  # noqa: A002
        """Store every partition when the run is computed: at ``run.compute()``, or when the run ends.

        Args:
            path: of the store: a name that ends in ``.zarr`` (arrays), any other for a folder of Parquet
            (tables).
            name: of the sink's stage; by default this stage's with ``.zarr`` or ``.parquet``.
            format: ``"zarr"`` or ``"parquet"``, whatever the path's ending.

        Raises:
            ConfigError: something is at the path already.
        """
        return self._run._write(self._node, path, name, format)  # noqa: SLF001 - as above

    def compute(self) -> list[Any]:
        """The data of every partition, in order; None for one that was rejected. Records what it computes."""
        return self._run._compute_node(self._node)  # noqa: SLF001 - as above

    def persist(self) -> Handle:
        """Compute the partitions now and keep them on the workers, for whatever is built on them later."""
        self._run._persist(self._node)  # noqa: SLF001 - as above
        return self

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"a stage has no {name!r}: it is no Dask collection. What Dask, pandas or NumPy would do between "
            "stages is a stage too: .stage(name, function), or .wide(name, function, by=…) to regroup"
        )

    def __repr__(self) -> str:
        return f"<stage {self.name}: {self.partitions} partitions>"


@dataclass(frozen=True, slots=True, eq=False)
class Sink:
    """A store that is written when the run is computed."""

    _node: Node
    path: str

    @property
    def name(self) -> str:
        """The sink's stage."""
        return self._node.name

    @property
    def id(self) -> str:
        """The stage record's id, in hex."""
        return self._node.record.hex()

    def __repr__(self) -> str:
        return f"<sink {self.name}>"
