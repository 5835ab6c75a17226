"""Makes the stages of a run: what was asked for, checked, described in a record, drawn as a node of a graph.

Everything that can be wrong with a stage is found here, before anything is computed. What a stage's record
says is enough to run it again; where files lie is not in it, but in rows for the private store.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provenance.adapters.dask import functions
from provenance.adapters.dask.checks import (
    check_aligned,
    check_name,
    check_own,
    check_replay,
    encode_arguments,
    encode_pairs,
    warn_unless_importable,
)
from provenance.adapters.dask.handles import Handle, Node
from provenance.adapters.dask.operations import Gather, MapFiles, MapPartition
from provenance.adapters.dask.places import Building
from provenance.adapters.dask.sinks_parquet import WriteParquet
from provenance.adapters.dask.sources import FileGroup, ReadFiles, group_files
from provenance.adapters.dask.tables import CsvFormat, ReadTables
from provenance.core.kinds import Stage, Transform
from provenance.core.runs import partition_token
from provenance.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa

    from provenance.adapters.dask.handles import PieceRef
    from provenance.adapters.dask.sources import Found
    from provenance.adapters.dask.steps import Operation
    from provenance.adapters.dask.tables import TableFormat
    from provenance.core.canonical import JSONObject

__all__ = ["Builder", "Replay"]

Replay = tuple[str, "Mapping[str, str]"]


@dataclass(slots=True)
class Builder:
    """Makes nodes for one run.

    Attributes:
        run: the run's id.
        version: of this package.
        draft: signs a stage and gives its id.
        rows: for the private store: (domain, token, plain value), until they are kept.
    """

    run: bytes
    version: str
    draft: Callable[[Stage], bytes]
    rows: list[tuple[str, str, str]] = field(default_factory=list)

    def node(
        self,
        name: str,
        transform: Transform,
        operation: Operation,
        *,
        parents: tuple[Node, ...] = (),
        parameters: JSONObject,
        partitions: int,
        schema: pa.Schema | None = None,
        replay: Replay = ("exact", {}),
        **more: Any,
    ) -> Node:
        """Describe a stage, sign it, and make its node."""
        check_name(name)
        stage = Stage(
            run=self.run,
            name=name,
            parents=tuple(dict.fromkeys(parent.record for parent in parents)),
            transform=transform,
            parameters=parameters,
            profile=replay[0],
            tolerances=check_replay(*replay),
            schema=encode_pairs(schema),
            partitions=partitions,
        )
        return Node(self.draft(stage), stage, operation, parents, partitions, schema=schema, **more)

    def builtin(self, name: str) -> Transform:
        """The identity of a source or sink of this package."""
        return functions.builtin_transform(name, self.version)

    # ------------------------------------------------------------------------------------------------ sources

    def files(
        self,
        name: str,
        root: Path,
        named: Sequence[tuple[Found, str, str | None]],
        *,
        limit: int,
        target_bytes: int,
        most: int,
    ) -> Node:
        """A source of raw files; named as `sources.tokens_of` yields them."""
        groups = group_files(named, target_bytes=target_bytes, most=most)
        payloads = [
            FileGroup(
                tuple((token, file.real, Path(file.path).suffix.lower()) for file, token, _ in group),
                group[0][2],
            )
            for group in groups
        ]
        node = self.node(
            name,
            self.builtin("files"),
            ReadFiles(limit),
            parameters={"limit": limit},
            partitions=len(groups),
            payloads=payloads,
            keys=[group[0][2] for group in groups],
            holds_files=True,
        )
        self.rows.append(("location", node.record.hex(), str(root)))
        for number, group in enumerate(groups):
            listed = [[token, file.path] for file, token, _ in group]
            text = json.dumps(
                {"files": listed, "key": group[0][2]}, ensure_ascii=False, separators=(",", ":")
            )
            self.rows.append(("location", partition_token(node.record, number), text))
        self.rows += [("name", token, file.path) for file, token, _ in named if token != file.path]
        keys = {(key, str(file.key)) for file, _, key in named if key is not None}
        self.rows += [("key", key, plain) for key, plain in sorted(keys)]
        return node

    def tables(
        self, name: str, parent: Node, format_: TableFormat, schema: pa.Schema, *, pandas: bool
    ) -> Node:
        """The rows of CSV or Parquet files."""
        parameters: JSONObject = {"frame": "pandas" if pandas else "arrow"}
        if isinstance(format_, CsvFormat):
            parameters["delimiter"] = format_.delimiter
        return self.node(
            name,
            self.builtin(format_.name),
            ReadTables(format_, pandas),
            parents=(parent,),
            parameters=parameters,
            partitions=parent.partitions,
            schema=schema,
            keys=parent.keys,
        )

    # ------------------------------------------------------------------------------------------------- stages

    def stage(
        self,
        name: str,
        parent: Node,
        fn: Callable[..., Any],
        params: Mapping[str, Any],
        *,
        each: bool | None,
        schema: pa.Schema | None,
        replay: Replay,
    ) -> Node:
        """One partition in, one out; handles among the parameters are further parents."""
        fn, values = functions.bind(fn, dict(params))
        others = {key: value._node for key, value in values.items() if isinstance(value, Handle)}  # noqa: SLF001
        check_own(name, self.run, others)
        check_aligned(name, parent, others)
        plain = {key: value for key, value in values.items() if key not in others}
        warn_unless_importable(name, fn)
        each = (parent.holds_files and not others) if each is None else each
        arguments = encode_arguments(name, plain)
        operation: Operation = MapFiles(fn, plain) if each else MapPartition(fn, plain, tuple(others))
        return self.node(
            name,
            functions.identify(fn),
            operation,
            parents=(parent, *others.values()),
            parameters={
                "operation": "each" if each else "partition",
                "arguments": arguments,
                **({"others": _others(parent, others)} if others else {}),
            },
            partitions=parent.partitions,
            schema=schema,
            replay=replay,
            keys=parent.keys,
            holds_files=each,
        )

    def wide(
        self,
        name: str,
        parent: Node,
        fn: Callable[..., Any] | None,
        params: Mapping[str, Any],
        *,
        parameters: JSONObject,
        pieces: Sequence[tuple[PieceRef, ...]],
        keys: Sequence[str | None],
        split: Any,
        schema: pa.Schema | None,
        replay: Replay,
    ) -> Node:
        """A stage whose partitions are made from several of its parent's."""
        values = dict(params)
        if fn is not None:
            fn, values = functions.bind(fn, values)
            warn_unless_importable(name, fn)
        return self.node(
            name,
            self.builtin("gather") if fn is None else functions.identify(fn),
            Gather(fn, values),
            parents=(parent,),
            parameters={"operation": "gather", "arguments": encode_arguments(name, values), **parameters},
            partitions=len(pieces),
            schema=schema if fn is not None or schema is not None else parent.schema,
            replay=replay,
            payloads=keys,
            pieces=pieces,
            keys=keys,
            split=split,
            holds_files=parent.holds_files and fn is None,
        )

    def manual(
        self,
        name: str,
        fn: Callable[..., Any] | None,
        parents: tuple[bytes, ...],
        schema: pa.Schema | None,
        params: Mapping[str, Any],
    ) -> tuple[bytes, Stage]:
        """A stage that is recorded by hand; how many partitions it has is known at the seal."""
        check_name(name)
        values = dict(params)
        if fn is not None:
            fn, values = functions.bind(fn, values)
        stage = Stage(
            run=self.run,
            name=name,
            parents=parents,
            transform=self.builtin("recorded") if fn is None else functions.identify(fn),
            parameters={"operation": "recorded", "arguments": encode_arguments(name, values)},
            schema=encode_pairs(schema),
        )
        return self.draft(stage), stage

    def sink(self, parent: Node, place: Path, name: str | None, format_: str | None) -> Node:
        """A store; its replay profile is that of the stage that it stores."""
        kind = format_ or ("zarr" if place.suffix == ".zarr" else "parquet")
        if kind not in {"zarr", "parquet"}:
            raise ConfigError(f"format {kind!r}: expected 'zarr' or 'parquet'", reason="format")
        building = Building(str(place), self.run.hex())
        building.check_free()
        operation, parameters = _writer(kind, building)
        node = self.node(
            name or f"{parent.name}.{kind}",
            self.builtin(f"write_{kind}"),
            operation,
            parents=(parent,),
            parameters=parameters,
            partitions=parent.partitions,
            schema=parent.schema,
            replay=(parent.stage.profile, parent.stage.tolerances),
            keys=parent.keys,
            building=building,
        )
        self.rows.append(("location", node.record.hex(), str(place)))
        return node


def _writer(kind: str, building: Building) -> tuple[Operation, JSONObject]:
    if kind == "parquet":
        return WriteParquet(building), {}
    from provenance.adapters.dask.sinks_zarr import WriteZarr

    operation = WriteZarr(building)
    return operation, {"chunk_bytes": operation.chunk_bytes, "shard_bytes": operation.shard_bytes}


def _others(parent: Node, others: Mapping[str, Node]) -> JSONObject:
    return {key: other.record.hex() for key, other in others.items() if other is not parent} | {
        key: parent.record.hex() for key, other in others.items() if other is parent
    }
