"""A folder of Parquet as a sink: a file for each partition, with the digests of its bytes and its content."""

from __future__ import annotations

import functools
import hashlib
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from provenance.adapters.dask.places import hash_file
from provenance.adapters.dask.steps import Made
from provenance.core.digests import TreeEntry, bag_table, table1
from provenance.core.partitions import File, Measured, conformed, is_table
from provenance.core.records import Subject
from provenance.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from provenance.adapters.dask.places import Building
    from provenance.adapters.dask.steps import Work

__all__ = ["WriteParquet", "encode_parquet", "parquet_name", "read_parquet_part", "table_of"]


def parquet_name(number: int) -> str:
    """The file of a partition."""
    return f"part-{number:05d}.parquet"


@dataclass(frozen=True, slots=True)
class WriteParquet:
    """Writes a partition's table; without a building it is only measured (a replay)."""

    building: Building | None

    def apply(self, work: Work) -> Made:
        """Write, measure, and say how to commit."""
        parent = work.parents[0]
        if self.building is not None:
            self.building.check_begun()
        data = encode_parquet(conformed(table_of(parent.data, work.stage), work.number, work.schema))
        decoded = read_parquet_part(data)
        logical = table1(decoded)
        name = parquet_name(work.number)
        entry = TreeEntry(name, len(data), hashlib.sha256(data).digest())
        subject = Subject(name, {"sha256": entry.sha256.hex(), logical.kind: logical.hex})
        measured = Measured((subject,), decoded.num_rows, len(data))
        if self.building is None:
            # As `Run.stored` gives it to stages that went on from the store.
            return Made(decoded.to_pandas(), (parent.ref,), parent.ref.key, measured=measured)
        commit = functools.partial(_commit, self.building, data, entry)
        return Made(None, (parent.ref,), parent.ref.key, measured=measured, commit=commit)


def _commit(building: Building, data: bytes, entry: TreeEntry) -> Sequence[TreeEntry]:
    from provenance import files

    target = building.path / entry.path
    if files.create_file(target, data):
        return (entry,)
    return (hash_file(target, entry.path),)  # an earlier attempt's: what counts is what lies there


def table_of(data: Any, stage: str) -> Any:
    """A partition's table; a bag is a table of one column."""
    if is_table(data):
        return data
    if isinstance(data, list) and not any(isinstance(item, File) for item in data):
        return bag_table(data)
    raise ConfigError(
        f"stage {stage!r}: Parquet stores tables, and this partition is none",
        reason="not-tables",
        remedy="Return a pandas DataFrame or a pyarrow Table, or write arrays to a .zarr store.",
    )


def encode_parquet(table: pa.Table) -> bytes:
    """A table as the bytes of a file; checksums let a reader name the page that was damaged."""
    from pyarrow import parquet

    buffer = io.BytesIO()
    parquet.write_table(table, buffer, write_page_checksum=True, compression="zstd")
    return buffer.getvalue()


def read_parquet_part(data: bytes) -> pa.Table:
    """What decodes from a file's bytes."""
    import pyarrow as pa
    from pyarrow import parquet

    with parquet.ParquetFile(pa.BufferReader(data), page_checksum_verification=True) as file:
        return file.read(use_threads=False)
