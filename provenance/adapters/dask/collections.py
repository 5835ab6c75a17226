"""A Dask collection as a source: its partitions frozen in number and order, and entered into the run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import dask

from provenance.adapters.dask.steps import Made
from provenance.core.digests import declare_schema
from provenance.errors import ConfigError, MalformedError

if TYPE_CHECKING:
    import pyarrow as pa

    from provenance.adapters.dask.building import Builder
    from provenance.adapters.dask.handles import Node
    from provenance.adapters.dask.steps import Work

__all__ = ["TakePartition", "partitions_of"]


@dataclass(frozen=True, slots=True)
class TakePartition:
    """Takes a partition of another graph as it comes."""

    def apply(self, work: Work) -> Made:
        """The partition; a bag's may be any iterable, and becomes a list."""
        data = work.payload
        if hasattr(data, "__next__") or type(data) in {tuple, map, filter, zip}:
            data = list(data)
        return Made(data, ())


def partitions_of(builder: Builder, name: str, collection: Any, schema: pa.Schema | None) -> Node:
    """The node of a collection.

    Raises:
        ConfigError: ``not-a-collection``.
    """
    if not dask.is_dask_collection(collection) or not hasattr(collection, "to_delayed"):
        raise ConfigError(
            f"a {type(collection).__qualname__} is no Dask collection with partitions",
            reason="not-a-collection",
            remedy="Give a Dask DataFrame, Series, Bag or Array; for files: run.files, .csv, .parquet.",
        )
    # Optimised before it is numbered: the optimiser may merge a source's partitions.
    frozen = collection.optimize() if hasattr(collection, "optimize") else dask.optimize(collection)[0]
    parts = frozen.to_delayed()
    parts = list(parts.ravel()) if hasattr(parts, "ravel") else list(parts)
    graph: dict[Any, Any] = {}
    # The parts share one graph: merged for each of them, 10,000 partitions would take a minute.
    for shared in {id(part.dask): part.dask for part in parts}.values():
        graph.update(shared)
    return builder.node(
        name,
        builder.builtin("collection"),
        TakePartition(),
        parameters={"kind": type(collection).__qualname__},
        partitions=len(parts),
        schema=_schema_of(collection) if schema is None else schema,
        raw=[part.key for part in parts],
        graph=graph,
    )


def _schema_of(collection: Any) -> pa.Schema | None:
    """What a DataFrame says of its columns, without computing anything."""
    meta = getattr(collection, "_meta", None)  # what dask.dataframe itself hands on between its parts
    if meta is None or (not hasattr(meta, "to_frame") and not hasattr(meta, "columns")):
        return None
    try:
        return declare_schema(meta)
    except MalformedError:  # columns of objects that say nothing: each partition then speaks for itself
        return None
