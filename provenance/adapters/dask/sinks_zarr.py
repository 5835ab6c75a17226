"""Zarr as a sink: a group a partition, an array a part, whole shards, every object hashed as it is set.

One task writes all of a partition's arrays, so no shard has two writers (two half-shard writers lose writes
silently). Chunks of zeros are stored like any other: one that is left out reads as zeros, and so would one
that was deleted. The driver adds the root's ``zarr.json`` last: a store without it is not finished.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import zarr
from zarr.storage import LocalStore, MemoryStore, WrapperStore

from provenance.adapters.dask.places import read_tree
from provenance.adapters.dask.steps import Made
from provenance.core.digests import TreeEntry, array1, tree1
from provenance.core.partitions import File, Measured, partition_name
from provenance.core.records import Subject
from provenance.errors import ConfigError, VerificationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from zarr.core.buffer import Buffer

    from provenance.adapters.dask.places import Building
    from provenance.adapters.dask.steps import Work
    from provenance.core.lineage import Ref

__all__ = ["WriteZarr", "arrays_of", "finish_zarr", "read_zarr_part", "stored_form"]

_ROOT = "zarr.json"
_CHUNK_BYTES = 1 << 20
_SHARD_BYTES = 64 << 20


class HashingStore(WrapperStore[Any]):  # type: ignore[misc] # zarr is not looked into
    """Passes everything on to another store, and keeps size and SHA-256 of each object that is set."""

    def __init__(self, store: Any, objects: dict[str, tuple[int, bytes]] | None = None) -> None:
        super().__init__(store)
        self.objects = {} if objects is None else objects

    def _with_store(self, store: Any) -> HashingStore:
        return HashingStore(store, self.objects)

    async def set(self, key: str, value: Buffer) -> None:
        """Store an object whole."""
        data = value.to_bytes()
        self.objects[key] = (len(data), hashlib.sha256(data).digest())
        await self._store.set(key, value)

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        """Store an object unless it is there; in a store of one's own it never is."""
        await self.set(key, value)

    async def _set_many(self, values: Iterable[tuple[str, Buffer]]) -> None:
        for key, value in values:
            await self.set(key, value)

    async def delete(self, key: str) -> None:
        """Remove an object."""
        self.objects.pop(key, None)
        await self._store.delete(key)


@dataclass(frozen=True, slots=True)
class WriteZarr:
    """Writes a partition's arrays; without a building into memory only, to be measured (a replay).

    There it hands on what it stored, for stages that went on from the store.
    """

    building: Building | None
    chunk_bytes: int = _CHUNK_BYTES
    shard_bytes: int = _SHARD_BYTES

    def apply(self, work: Work) -> Made:
        """Write, measure, and say how to commit."""
        parent = work.parents[0]
        parts = arrays_of(parent.data, work.stage)
        if self.building is None:
            store = HashingStore(MemoryStore())
            measured = self._write(store, parts, work.number, parent.ref)
            return Made(stored_form(parts), (parent.ref,), parent.ref.key, measured=measured)
        self.building.check_begun()
        with self.building.waiting() as place:
            store = HashingStore(LocalStore(place))
            measured = self._write(store, parts, work.number, parent.ref)
        name = partition_name(work.number)
        entries = [
            TreeEntry(f"{name}/{key}", size, sha) for key, (size, sha) in sorted(store.objects.items())
        ]
        commit = functools.partial(_commit, self.building, place, name, entries)
        return Made(None, (parent.ref,), parent.ref.key, measured=measured, commit=commit)

    def _write(self, store: HashingStore, parts: dict[str, Any], number: int, ref: Ref) -> Measured:
        group = zarr.create_group(store=store, zarr_format=3)
        subjects, nbytes, rows = [], 0, 0
        name = partition_name(number)
        for part, array in parts.items():
            self._write_array(group, part, array)
            logical = array1(group[part][...])
            _check_unchanged(ref, number, part, logical.hex)
            tree = tree1(_below(store.objects, f"{part}/"))
            subjects.append(Subject(f"{name}/{part}", {"tree1-sha256": tree.hex, logical.kind: logical.hex}))
            nbytes += tree.nbytes
            rows = max(rows, array.shape[0] if array.ndim else 1)
        return Measured(tuple(subjects), rows, nbytes)

    def _write_array(self, group: Any, part: str, array: Any) -> None:
        chunks, shards = layout(array.shape, array.dtype.itemsize, self.chunk_bytes, self.shard_bytes)
        target = group.create_array(
            part,
            shape=array.shape,
            dtype=array.dtype,
            chunks=chunks,
            shards=shards or None,  # a scalar is one chunk, and no shard of chunks
            config={"write_empty_chunks": True},
        )
        if array.size or not array.ndim:
            target[...] = array


def _commit(building: Building, place: Path, name: str, entries: Sequence[TreeEntry]) -> Sequence[TreeEntry]:
    if building.commit(place, name):
        return entries
    return read_tree(building.path / name, f"{name}/")  # an earlier attempt's: what counts is what lies there


def _below(objects: dict[str, tuple[int, bytes]], prefix: str) -> list[TreeEntry]:
    return [
        TreeEntry(key.removeprefix(prefix), size, sha)
        for key, (size, sha) in objects.items()
        if key.startswith(prefix)
    ]


def _check_unchanged(ref: Ref, number: int, part: str, stored: str) -> None:
    """What is stored must be what was recorded: a transform may have changed its output since."""
    names = {partition_name(number), f"{partition_name(number)}/{part}", part}
    for subject in ref.subjects:
        recorded = subject.digest.get("array1-sha256")
        if subject.name in names and recorded is not None and recorded != stored:
            raise VerificationError(
                f"partition {number}, part {part}: the data changed after its digest was recorded",
                reason="data-changed",
                remedy="Return a new array from the transform: it seems to reuse the one that it returned.",
            )


def arrays_of(data: Any, stage: str) -> dict[str, Any]:
    """A partition's arrays by part name: an array is the part ``data``, files are parts by their names."""
    if isinstance(data, np.ndarray):
        return {"data": data}
    if isinstance(data, list) and data and all(isinstance(item, File) for item in data):
        # A name may be a path; a part is one folder, and two names never the same one.
        named = {item.name.replace("%", "%25").replace("/", "%2F"): item for item in data}
        data = {name: item.data for name, item in named.items() if not item.rejected}
    if isinstance(data, dict) and data and all(isinstance(part, np.ndarray) for part in data.values()):
        return {name: data[name] for name in sorted(data)}
    raise ConfigError(
        f"stage {stage!r}: Zarr stores arrays, and this partition is none",
        reason="not-arrays",
        remedy="Return a NumPy array or a dict of them, or write tables to a folder of Parquet.",
    )


def stored_form(parts: dict[str, Any]) -> Any:
    """A partition as it is read back: the one part ``data`` is an array, anything else a dict of arrays."""
    return parts["data"] if set(parts) == {"data"} else parts


def layout(
    shape: tuple[int, ...], itemsize: int, chunk_bytes: int, shard_bytes: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(chunk shape, shard shape): cut along the first axis, every shard a whole number of chunks.

    A shard holds at most about ``shard_bytes``; an array that is smaller is one shard.
    """
    if not shape:
        return (), ()
    row = max(1, itemsize * math.prod(shape[1:]))
    rows = max(1, shape[0])
    chunk = min(rows, max(1, chunk_bytes // row))
    per_shard = max(1, min(-(-rows // chunk), shard_bytes // (chunk * row)))
    rest = tuple(max(1, size) for size in shape[1:])
    return (chunk, *rest), (chunk * per_shard, *rest)


def finish_zarr(building: Building, run: str, stage: str) -> TreeEntry:
    """Write the root's metadata, the last object of a store; it names the run and the sink's stage."""
    root = {
        "attributes": {"provenance": {"run": run, "stage": stage}},
        "node_type": "group",
        "zarr_format": 3,
    }
    data = json.dumps(root, indent=2, sort_keys=True).encode()
    from provenance import files

    files.write_file(building.path / _ROOT, data)
    return TreeEntry(_ROOT, len(data), hashlib.sha256(data).digest())


def read_zarr_part(store: Path, number: int, part: str) -> Any:
    """A stored array; errors are Zarr's own, a missing or damaged object of many kinds."""
    return zarr.open_array(
        LocalStore(store, read_only=True), path=f"{partition_name(number)}/{part}", mode="r"
    )
