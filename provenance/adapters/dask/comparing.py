"""A stored partition against the same one computed again: which block, which stored chunk, how far apart.

It runs on a worker, where the computed partition is; what comes back is words and numbers.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from provenance.adapters.dask.sinks_parquet import encode_parquet, parquet_name, read_parquet_part, table_of
from provenance.core.digests import array1, table1
from provenance.core.partitions import conformed, partition_name
from provenance.core.replays import PartComparison

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from provenance.adapters.dask.carried import Carried
    from provenance.core.digests import Digest

__all__ = ["Stored", "compare_arrays", "compare_stored"]

_NAMED = 8  # places and chunks that are named; more say no more


@dataclass(frozen=True, slots=True)
class Stored:
    """Which stored partition is meant: the store's place and kind, the number, the sink's name and schema."""

    place: str
    zarr: bool
    number: int
    stage: str
    schema: pa.Schema | None

    def __repr__(self) -> str:
        """Without the path: Dask writes arguments into its logs."""
        return "<stored partition>"


def compare_stored(stored: Stored, computed: Carried) -> list[PartComparison]:
    """Compare every part; a part that cannot be decoded is a finding, not an error."""
    if computed.ref.rejected:
        return []
    return list(_arrays(stored, computed) if stored.zarr else _table(stored, computed))


# ----------------------------------------------------------------------------------------------------- arrays


def _arrays(stored: Stored, computed: Carried) -> Iterator[PartComparison]:
    from provenance.adapters.dask.sinks_zarr import arrays_of, read_zarr_part

    for part, again in arrays_of(computed.data, stored.stage).items():
        name = f"{partition_name(stored.number)}/{part}"
        try:
            array = read_zarr_part(Path(stored.place), stored.number, part)
            layout = (array.chunks, array.shards or array.chunks)
        except Exception as error:  # noqa: BLE001 - damaged metadata makes Zarr raise anything; it is the finding
            yield PartComparison(name, problem=f"its metadata cannot be read ({type(error).__name__})")
            continue
        found, broken = _read(array, layout[1])
        if broken:
            yield PartComparison(
                name, chunks=tuple(broken[:_NAMED]), problem=f"{len(broken)} stored objects do not decode"
            )
        else:
            yield compare_arrays(name, found, again, *layout)


def _read(array: Any, shard: tuple[int, ...]) -> tuple[Any, list[str]]:
    """(values, names of objects that do not decode)."""
    values = np.empty(array.shape, array.dtype)
    broken = []
    for index in np.ndindex(*(-(-size // step) for size, step in zip(array.shape, shard, strict=True))):
        region = tuple(slice(i * step, (i + 1) * step) for i, step in zip(index, shard, strict=True))
        name = "/".join(["c", *map(str, index)])
        try:
            if not array.store_path.store.root.joinpath(array.store_path.path, name).exists():
                raise FileNotFoundError(name)  # noqa: TRY301 - Zarr would read zeros
            values[region] = array[region]
        except Exception:  # noqa: BLE001 - damaged bytes make codecs raise anything; it is the finding
            broken.append(name)
    return values, broken


def compare_arrays(
    name: str, found: Any, again: Any, chunk: tuple[int, ...], shard: tuple[int, ...]
) -> PartComparison:
    """Two arrays, value by value.

    Args:
        name: the subject's name.
        found: as stored.
        again: as computed.
        chunk: shape of an inner chunk.
        shard: shape of a stored object.
    """
    if found.shape != again.shape or found.dtype != again.dtype:
        was, now = f"{found.dtype} {found.shape}", f"{again.dtype} {again.shape}"
        return PartComparison(name, places=(f"stored {was}, computed {now}",))
    mine, theirs = array1(found), array1(again)
    if mine == theirs:
        return PartComparison(name)
    differ = _differ(found, again)
    return PartComparison(
        name,
        places=tuple(f"array block {n}" for n in _blocks(mine.blocks, theirs.blocks)[:_NAMED]),
        chunks=tuple(itertools.islice(_chunks(differ, chunk, shard), _NAMED)),
        deviation=_deviation(found, again),
    )


def _blocks(mine: tuple[bytes, ...], theirs: tuple[bytes, ...]) -> list[int]:
    return [n for n, (a, b) in enumerate(itertools.zip_longest(mine, theirs)) if a != b]


def _differ(found: Any, again: Any) -> Any:
    """Which values differ; NaN is equal to NaN, 0.0 is not -0.0."""
    width = found.dtype.itemsize
    bits = [np.ascontiguousarray(a).view(np.uint8).reshape(*a.shape, width) for a in (found, again)]
    differ = (bits[0] != bits[1]).any(axis=-1)
    if found.dtype.kind in "fc":
        differ &= ~(np.isnan(found) & np.isnan(again))
    return differ


def _chunks(differ: Any, chunk: tuple[int, ...], shard: tuple[int, ...]) -> Iterator[str]:
    """``c/0/0, chunk (2, 0)``: the stored object, and the chunk in it where it holds several."""
    if not differ.ndim:
        yield "c"
        return
    places = np.argwhere(differ)
    objects = np.unique(np.concatenate([places // shard, places % shard // chunk], axis=1), axis=0)
    single = chunk == shard
    for row in objects.tolist():
        outer, inner = row[: differ.ndim], tuple(row[differ.ndim :])
        name = "/".join(["c", *map(str, outer)])
        yield name if single else f"{name}, chunk {inner}"


def _deviation(found: Any, again: Any) -> str | None:
    """The largest absolute difference as decimal text; ``inf`` where a number stands against none."""
    if found.dtype.kind == "b" or not found.size:
        return None
    found, again = found.ravel(), again.ravel()
    if found.dtype.kind in "iu":
        where = found != again
        return str(max(abs(int(a) - int(b)) for a, b in zip(found[where], again[where], strict=True)))
    with np.errstate(invalid="ignore"):
        apart = np.abs(found.astype(np.complex128) - again.astype(np.complex128))
    apart[np.isnan(found) & np.isnan(again)] = 0
    apart[found == again] = 0  # infinities of one sign
    largest = float(apart.max())
    return repr(largest) if np.isfinite(largest) else "inf"


# ----------------------------------------------------------------------------------------------------- tables


def _table(stored: Stored, computed: Carried) -> Iterator[PartComparison]:
    name = parquet_name(stored.number)
    table = conformed(table_of(computed.data, stored.stage), stored.number, stored.schema)
    again = read_parquet_part(encode_parquet(table))
    try:
        found = read_parquet_part((Path(stored.place) / name).read_bytes())
    except Exception as error:  # noqa: BLE001 - damaged bytes make the reader raise anything; it is the finding
        yield PartComparison(name, chunks=(name,), problem=f"it does not decode ({type(error).__name__})")
        return
    if found.schema.names != again.schema.names or found.num_rows != again.num_rows:
        was = f"{found.num_rows} rows of {', '.join(found.schema.names)}"
        now = f"{again.num_rows} rows of {', '.join(again.schema.names)}"
        yield PartComparison(name, places=(f"stored {was}; computed {now}",), chunks=(name,))
        return
    places = list(_columns(table1(found), table1(again)))
    yield PartComparison(
        name,
        places=tuple(place for _, place in places[:_NAMED]),
        chunks=(name,) if places else (),
        deviation=_table_deviation(found, again, [column for column, _ in places]),
    )


def _columns(found: Digest, again: Digest) -> Iterator[tuple[str, str]]:
    for mine, theirs in zip(found.columns, again.columns, strict=True):
        if mine.type != theirs.type:
            yield mine.name, f"column {mine.name}: stored {mine.type}, computed {theirs.type}"
            continue
        for block in _blocks(mine.blocks, theirs.blocks):
            yield mine.name, f"column {mine.name}, block {block}"


def _table_deviation(found: pa.Table, again: pa.Table, columns: list[str]) -> str | None:
    """Over the columns that differ; None if one of them holds no numbers or nulls in other places."""
    import pyarrow as pa

    largest: list[float] = []
    for column in dict.fromkeys(columns):
        one, other = found.column(column), again.column(column)
        numeric = pa.types.is_floating(one.type) or pa.types.is_integer(one.type)
        if not numeric or one.type != other.type or one.is_null() != other.is_null():
            return None
        text = _deviation(one.drop_null().to_numpy(), other.drop_null().to_numpy())
        if text is None:
            return None
        largest.append(float(text))
    return repr(max(largest)) if largest else None
