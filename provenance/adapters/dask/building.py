"""Makes the stages of a run: what was asked for, checked, described in a record, drawn as a node of a graph.

Everything that can be wrong with a stage is found here, before anything is computed. What a stage's record
says is enough to run it again; where files lie is not in it, but in rows for the private store.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dask

from provenance.adapters.dask import functions
from provenance.adapters.dask.handles import Handle, Node, PieceRef
from provenance.adapters.dask.operations import Gather, MapFiles, MapPartition
from provenance.adapters.dask.places import Building
from provenance.adapters.dask.sinks_parquet import WriteParquet
from provenance.adapters.dask.sources import FileGroup, ReadFiles, group_files
from provenance.adapters.dask.tables import CsvFormat, ReadTables
from provenance.core import digests
from provenance.core.kinds import Stage, Transform
from provenance.core.parameters import encode_parameters
from provenance.core.runs import partition_token
from provenance.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa

    from provenance.adapters.dask.sources import Found
    from provenance.adapters.dask.steps import Operation
    from provenance.adapters.dask.tables import TableFormat
    from provenance.core.canonical import JSONObject

__all__ = ["Builder", "Replay", "schema_of", "wide_by_key", "wide_by_number", "wide_by_value"]

Replay = tuple[str, "Mapping[str, str]"]
_PROFILES = ("exact", "logical", "tolerance")
_AS_HANDLE = (
    "Make it a handle first: handle = run.collection(it), then handle.stage(…); partitions that Dask may "
    "still merge or renumber cannot be recorded."
)


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
        _check_name(name)
        pairs = None if schema is None else digests.encode_schema(schema)
        stage = Stage(
            run=self.run,
            name=name,
            parents=tuple(dict.fromkeys(parent.record for parent in parents)),
            transform=transform,
            parameters=parameters,
            profile=replay[0],
            tolerances=_check_replay(*replay),
            schema=None if pairs is None else tuple((column, kind) for column, kind in pairs),
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
        _check_aligned(name, parent, others)
        plain = {key: value for key, value in values.items() if key not in others}
        each = (parent.holds_files and not others) if each is None else each
        arguments = _encode(name, plain)
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
        return self.node(
            name,
            self.builtin("gather") if fn is None else functions.identify(fn),
            Gather(fn, values),
            parents=(parent,),
            parameters={"operation": "gather", "arguments": _encode(name, values), **parameters},
            partitions=len(pieces),
            schema=schema if fn is not None or schema is not None else parent.schema,
            replay=replay,
            payloads=keys,
            pieces=pieces,
            keys=keys,
            split=split,
            holds_files=parent.holds_files and fn is None,
        )

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


# ---------------------------------------------------------------------------------------------------------
# checks


def schema_of(schema: Any) -> pa.Schema | None:
    """The Arrow schema that a user means.

    Args:
        schema: None, an Arrow schema, an empty frame or table, or ``{column: type string}``.

    Raises:
        ConfigError: ``schema``, it is none of these.
        MalformedError: a type string means nothing.
    """
    import pyarrow as pa

    from provenance.core.partitions import is_table

    if schema is None or isinstance(schema, pa.Schema):
        return schema
    if is_table(schema):
        return digests.declare_schema(schema)
    if isinstance(schema, dict):
        return digests.decode_schema([[name, kind] for name, kind in schema.items()])
    raise ConfigError(
        f"schema of type {type(schema).__qualname__}",
        reason="schema",
        remedy='Give an empty frame, a pyarrow schema, or {"column": "f64", …}.',
    )


def _check_name(name: str) -> None:
    if not 1 <= len(name) <= 200 or not name.isprintable():
        raise ConfigError(
            f"stage name {name!r:.80}: expected 1 to 200 printable characters", reason="stage-name"
        )


def _check_replay(profile: str, tolerances: Mapping[str, str]) -> dict[str, str]:
    if profile not in _PROFILES:
        raise ConfigError(f"profile {profile!r}: expected one of {', '.join(_PROFILES)}", reason="profile")
    for part, text in tolerances.items():
        try:
            good = part.isascii() and Decimal(text) >= 0
        except InvalidOperation:
            good = False
        if not good:
            raise ConfigError(
                f"tolerance of part {part!r}: {text!r}",
                reason="tolerance",
                remedy='Write the largest absolute difference as decimal text: {"*": "0.000001"}.',
            )
    if (profile == "tolerance") != bool(tolerances):
        raise ConfigError("tolerances go with profile='tolerance', and it with them", reason="tolerance")
    return dict(tolerances)


def _check_aligned(name: str, parent: Node, others: Mapping[str, Node]) -> None:
    for parameter, other in others.items():
        if other.partitions != parent.partitions:
            raise ConfigError(
                f"stage {name!r}: {parameter} has {other.partitions} partitions, not {parent.partitions}",
                reason="not-aligned",
                remedy="Regroup both with .wide(…, by=…) first.",
            )


def _encode(name: str, values: Mapping[str, Any]) -> JSONObject:
    for parameter, value in values.items():
        if isinstance(value, Handle) or dask.is_dask_collection(value):
            raise ConfigError(
                f"stage {name!r}: parameter {parameter!r} is a {type(value).__qualname__}",
                reason="not-a-handle",
                remedy=_AS_HANDLE,
            )
    return encode_parameters(values)


def _others(parent: Node, others: Mapping[str, Node]) -> JSONObject:
    return {key: other.record.hex() for key, other in others.items() if other is not parent} | {
        key: parent.record.hex() for key, other in others.items() if other is parent
    }


# -------------------------------------------------------------------------------------------------------
# regrouping


def wide_by_key(name: str, parent: Node) -> tuple[list[str | None], list[tuple[PieceRef, ...]]]:
    """(key tokens ascending, the partitions that hold each): for sources that were given keys."""
    if not parent.keys or None in parent.keys:
        raise ConfigError(
            f"stage {name!r}: some files have no key to be grouped by",
            reason="no-key",
            remedy="Give run.files(…, key=…) a key for every file, or leave files without one out.",
        )
    held: dict[str, list[PieceRef]] = {}
    for number, key in enumerate(parent.keys):
        held.setdefault(str(key), []).append(PieceRef(number))
    ordered = sorted(held)
    return list(ordered), [tuple(held[key]) for key in ordered]


def wide_by_number(
    name: str, parent: Node, count: int
) -> tuple[list[str | None], list[tuple[PieceRef, ...]]]:
    """Neighbouring partitions together, in as equal numbers as can be."""
    if not 1 <= count <= parent.partitions:
        raise ConfigError(
            f"stage {name!r}: npartitions {count}: expected 1 to {parent.partitions}", reason="npartitions"
        )
    cuts = [index * parent.partitions // count for index in range(count + 1)]
    pieces = [
        tuple(PieceRef(number) for number in range(cuts[index], cuts[index + 1])) for index in range(count)
    ]
    return [None] * count, pieces


def wide_by_value(
    found: Mapping[int, Sequence[str | int]], token: Callable[[str | int], str]
) -> tuple[list[str | None], list[tuple[PieceRef, ...]], dict[str, str]]:
    """(key tokens ascending, pieces, plain value of each token), from the values in each partition."""
    held: dict[str, list[PieceRef]] = {}
    plain: dict[str, str] = {}
    for number in sorted(found):
        for value in found[number]:
            key = token(value)
            plain[key] = str(value)
            held.setdefault(key, []).append(PieceRef(number, value))
    ordered = sorted(held)
    return list(ordered), [tuple(held[key]) for key in ordered], plain
