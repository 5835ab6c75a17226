"""Replay: a run's stages made again from its stage records, and computed anew from the raw files.

The graph is the one that the run computed, drawn from what the records say and the private store knows of
places; the tasks are the same ones, without an outlet: what would have gone on the log comes back. Nothing
that the run stored is read, except to be compared.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provenance.adapters.dask import comparing, functions, wide
from provenance.adapters.dask.handles import Node
from provenance.adapters.dask.operations import Gather, MapFiles, MapPartition, SplitTable
from provenance.adapters.dask.planning import plan as plan_graph
from provenance.adapters.dask.sinks_parquet import WriteParquet
from provenance.adapters.dask.sources import FileGroup, ReadFiles
from provenance.adapters.dask.tables import CsvFormat, ParquetFormat, ReadTables
from provenance.core.completeness import is_sink
from provenance.core.digests import decode_schema
from provenance.core.kinds import Partition
from provenance.core.parameters import decode_parameters
from provenance.core.records import decode_record
from provenance.core.runs import partition_token
from provenance.core.tokens import key_token
from provenance.errors import ConfigError, MalformedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import TracebackType

    from provenance.adapters.dask.compute import Compute
    from provenance.adapters.dask.steps import Operation
    from provenance.core.kinds import Stage, Transform
    from provenance.core.replays import PartComparison, ReplayPlan
    from provenance.ports import PrivateNames

__all__ = ["DaskReplayer"]

_BUILTIN = "provenance:"
_OTHER_FOLDER = "Replay with the .provenance folder that the run was recorded with: its names.sqlite knows."
_FROM_OUTSIDE = frozenset({"provenance:collection", "provenance:recorded"})


class DaskReplayer:
    """A `Replayer`; a context manager, since it keeps a cluster from its first computation on.

    Args:
        names: the private store: where files lie, and the secret of key tokens.
        compute: opens what computes, in fresh processes.
        version: of this package.
    """

    def __init__(self, names: PrivateNames, compute: Callable[[], Compute], version: str) -> None:
        self._names, self._open, self._version = names, compute, version
        self._compute: Compute | None = None
        self._drawn: tuple[ReplayPlan, dict[bytes, Node]] | None = None
        self._ready: dict[Node, Any] = {}

    def __enter__(self) -> DaskReplayer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the cluster."""
        if self._compute is not None:
            self._compute.close()
        self._compute, self._drawn = None, None
        self._ready.clear()

    def transform(self, stage: Stage) -> Transform:
        """What the stage's transform is now."""
        name = stage.transform.name
        if name.startswith(_BUILTIN):
            if name in _FROM_OUTSIDE:
                raise ConfigError(
                    f"stage {stage.name!r}: its data came from outside of the run",
                    reason="not-replayable",
                    remedy="Read files with run.files, run.csv or run.parquet to be able to replay from raw.",
                )
            return functions.builtin_transform(name.removeprefix(_BUILTIN), self._version)
        return functions.identify(functions.import_function(name))

    def replay(self, plan: ReplayPlan) -> Iterator[Partition]:
        """Every partition of the plan, computed again."""
        nodes = self._draw(plan)
        read = {parent for node in nodes.values() for parent in node.parents}
        targets = [node for node in nodes.values() if node not in read]
        graph = plan_graph(targets, None, ready=self._ready)
        for _, records in self._opened().results(graph.graph, list(graph.wanted)):
            for record in records:
                yield Partition.from_statement(decode_record(record).statement)

    def compare(self, plan: ReplayPlan, stage: bytes, number: int) -> Sequence[PartComparison]:
        """One stored partition against the same computed again."""
        node = self._draw(plan)[stage]
        place = self._names.plain(stage.hex())
        if not is_sink(node.stage) or place is None or number >= node.partitions:
            return ()
        (parent,) = node.parents
        graph = plan_graph([parent], None, ready=self._ready).graph
        work = comparing.Stored(
            place, node.stage.transform.name.endswith("zarr"), number, node.name, node.schema
        )
        key = f"compare-{node.key(number)}"
        graph[key] = (comparing.compare_stored, work, parent.key(number))
        ((_, found),) = self._opened().results(graph, [key])
        return tuple(found)

    def _opened(self) -> Compute:
        if self._compute is None:
            self._compute = self._open()
        return self._compute

    # -------------------------------------------------------------------------------------- drawing the graph

    def _draw(self, plan: ReplayPlan) -> dict[bytes, Node]:
        if self._drawn is not None and self._drawn[0] is plan:
            return self._drawn[1]
        nodes: dict[bytes, Node] = {}
        for record, stage in plan.stages.items():
            missing = [parent for parent in stage.parents if parent not in nodes]
            if missing:
                raise ConfigError(
                    f"stage {stage.name!r}: its parent {missing[0].hex()} is not part of this replay",
                    reason="no-parent",
                )
            nodes[record] = self._node(record, stage, nodes, plan.partitions.get(record, 0))
        self._drawn = (plan, nodes)
        return nodes

    def _node(self, record: bytes, stage: Stage, nodes: dict[bytes, Node], count: int) -> Node:
        schema = None if stage.schema is None else decode_schema([list(pair) for pair in stage.schema])
        parents = tuple(nodes[parent] for parent in stage.parents)
        name = stage.transform.name.removeprefix(_BUILTIN)
        try:
            if name == "files":
                return self._files(record, stage, count)
            if stage.parameters.get("operation") == "gather":
                return self._wide(record, stage, parents[0], schema)
            if stage.parameters.get("others"):
                parents = (
                    parents[0],
                    *(nodes[bytes.fromhex(o)] for o in stage.parameters["others"].values()),
                )
            operation = self._operation(stage)
            first = parents[0]
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise MalformedError(
                f"stage {stage.name!r}: its record does not say how to run it again", reason="parameters"
            ) from error
        return Node(
            record,
            stage,
            operation,
            parents,
            first.partitions,
            schema=schema,
            keys=first.keys,
            holds_files=isinstance(operation, MapFiles),
        )

    def _operation(self, stage: Stage) -> Operation:
        parameters = stage.parameters
        name = stage.transform.name
        if name in {"provenance:read_csv", "provenance:read_parquet"}:
            csv = name.endswith("csv")
            return ReadTables(
                CsvFormat(parameters["delimiter"]) if csv else ParquetFormat(),
                parameters["frame"] == "pandas",
            )
        if name == "provenance:write_parquet":
            return WriteParquet(None)
        if name == "provenance:write_zarr":
            from provenance.adapters.dask.sinks_zarr import WriteZarr

            return WriteZarr(None, parameters["chunk_bytes"], parameters["shard_bytes"])
        self.transform(stage)  # says why if it is one of those that cannot be run again
        fn = functions.import_function(name)
        arguments = decode_parameters(parameters["arguments"])
        if parameters["operation"] == "each":
            return MapFiles(fn, arguments)
        return MapPartition(fn, arguments, tuple(parameters.get("others", ())))

    def _files(self, record: bytes, stage: Stage, count: int) -> Node:
        root = self._names.plain(record.hex())
        if root is None:
            raise ConfigError(
                f"stage {stage.name!r}: where its files lie is not known here",
                reason="location-unknown",
                remedy=_OTHER_FOLDER,
            )
        groups = [self._group(Path(root), record, stage, number) for number in range(count)]
        return Node(
            record,
            stage,
            ReadFiles(stage.parameters["limit"]),
            (),
            count,
            payloads=groups,
            keys=[group.key for group in groups],
            holds_files=True,
        )

    def _group(self, root: Path, record: bytes, stage: Stage, number: int) -> FileGroup:
        text = self._names.plain(partition_token(record, number))
        if text is None:
            raise ConfigError(
                f"stage {stage.name!r}, partition {number}: which files it was read from is not known here",
                reason="location-unknown",
                remedy=_OTHER_FOLDER,
            )
        row = json.loads(text)
        entries = tuple((name, _within(root, path), Path(path).suffix.lower()) for name, path in row["files"])
        return FileGroup(entries, row["key"])

    def _wide(self, record: bytes, stage: Stage, parent: Node, schema: Any) -> Node:
        parameters = stage.parameters
        split = None
        if "npartitions" in parameters:
            keys, pieces = wide.wide_by_number(stage.name, parent, parameters["npartitions"])
        elif parameters["by"] == "key" and (parent.holds_files or any(parent.keys)):
            keys, pieces = wide.wide_by_key(stage.name, parent)
        else:
            split = SplitTable(parameters["by"])
            secret = self._names.secret()
            keys, pieces, _ = wide.wide_by_value(
                self._values(parent, split), lambda value: key_token(secret, value)
            )
        builtin = stage.transform.name == "provenance:gather"
        fn = None if builtin else functions.import_function(stage.transform.name)
        return Node(
            record,
            stage,
            Gather(fn, decode_parameters(parameters["arguments"])),
            (parent,),
            len(pieces),
            schema=schema,
            payloads=keys,
            pieces=pieces,
            keys=keys,
            split=split,
            holds_files=parent.holds_files and builtin,
        )

    def _values(self, parent: Node, split: SplitTable) -> dict[int, list[Any]]:
        """The values of a column; the partitions are kept, since they are cut next."""
        compute = self._opened()
        if parent not in self._ready:
            planned = plan_graph([parent], None, ready=self._ready)
            self._ready[parent] = compute.keep(
                planned.graph, [parent.key(n) for n in range(parent.partitions)]
            )
        graph = dict(self._ready[parent])
        keys = {f"values-{parent.key(number)}": number for number in range(parent.partitions)}
        graph.update({key: (split.values, parent.key(number)) for key, number in keys.items()})
        return {keys[key]: value for key, value in compute.results(graph, list(keys))}


def _within(root: Path, path: str) -> str:
    """The real path of a file below the root; one that leads out of it now is not followed."""
    place = os.path.realpath(root / path)
    return place if Path(place).is_relative_to(os.path.realpath(root)) else str(root / path)
