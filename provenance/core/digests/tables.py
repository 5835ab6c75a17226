"""table1: the digest of a table partition's logical content (spec/digests.md, "table1").

A digest per block of 65,536 rows, over them one per column, over those one per table. Blocks know nothing
of each other, so threads can share them, and two tables can be compared down to the block that differs.
"""

from __future__ import annotations

import struct
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product
from typing import TYPE_CHECKING

import pyarrow as pa

from provenance.core.digests.frames import as_table, bag_table
from provenance.core.digests.hashes import Sink, concat_hash, new_hasher
from provenance.core.digests.model import ColumnDigest, Digest
from provenance.core.digests.rows import Rows
from provenance.core.digests.sections import write_section
from provenance.core.digests.typenames import type_string
from provenance.errors import ConfigError, MalformedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import TypeVar

    import pandas as pd

    T = TypeVar("T")
    R = TypeVar("R")

__all__ = ["BLOCK_ROWS", "MAX_THREADS", "spread", "table1", "table1_bag"]

BLOCK_ROWS = 65_536
MAX_THREADS = 256


def table1(
    table: pa.Table | pa.RecordBatch | pd.DataFrame | pd.Series,
    *,
    algorithm: str = "sha256",
    threads: int = 1,
) -> Digest:
    """The ``table1`` digest, with that of each column and block.

    Args:
        table: a frame or series is taken by the rules of `frames`.
        algorithm: ``"sha256"`` or ``"blake3"``.
        threads: how many blocks are hashed at once, 1 to `MAX_THREADS`.

    Raises:
        ConfigError: not a table, an unknown algorithm, a bad number of threads.
        MalformedError: the table has no digest; the message names the column, ``reason`` says why.
    """
    new_hasher(algorithm)
    arrow = as_table(table)
    types = _check_schema(arrow.schema)
    try:
        arrow.validate()
    except pa.ArrowInvalid as error:
        raise MalformedError(f"the table is not valid Arrow data: {error}", reason="invalid-arrow") from error
    places = list(product(range(arrow.num_columns), range(0, arrow.num_rows, BLOCK_ROWS)))
    results = spread(partial(_block, arrow, algorithm), places, threads)
    per_column = -(-arrow.num_rows // BLOCK_ROWS)
    blocks: list[list[bytes]] = [[] for _ in types]
    for number, (value, _) in enumerate(results):
        blocks[number // per_column].append(value)
    columns = tuple(
        _column(name, kind, arrow.num_rows, mine, algorithm)
        for (name, kind), mine in zip(types, blocks, strict=True)
    )
    head = b"\x12table-1" + struct.pack("<QI", arrow.num_rows, arrow.num_columns)
    value = concat_hash(algorithm, (head, *(column.value for column in columns)))
    nbytes = sum(size for _, size in results)
    return Digest(f"table1-{algorithm}", value, nbytes=nbytes, rows=arrow.num_rows, columns=columns)


def table1_bag(items: Sequence[object], *, algorithm: str = "sha256", threads: int = 1) -> Digest:
    """The ``table1`` digest of a bag partition: its items as a one-column table ``item``.

    Raises:
        MalformedError: as `table1`; ``python-object`` when Arrow finds no type for the items.
    """
    return table1(bag_table(items), algorithm=algorithm, threads=threads)


def spread(work: Callable[[T], R], items: Sequence[T], threads: int) -> list[R]:
    """``work`` of every item, in order, on so many threads; hashing releases the interpreter's lock.

    Raises:
        ConfigError: ``threads`` is not from 1 to `MAX_THREADS`.
    """
    if not 1 <= threads <= MAX_THREADS:
        raise ConfigError(f"threads must be from 1 to {MAX_THREADS}, not {threads}")
    if threads == 1 or len(items) < 2:
        return [work(item) for item in items]
    with ThreadPoolExecutor(min(threads, len(items)), "digest") as pool:
        return list(pool.map(work, items))


def _check_schema(schema: pa.Schema) -> list[tuple[str, str]]:
    """(name, type string) of every column."""
    types = []
    for field, name in zip(schema, _names(schema), strict=True):
        try:
            types.append((name, type_string(field.type)))
        except MalformedError as error:
            raise _in_column(name, error) from error
    return types


def _names(schema: pa.Schema) -> list[str]:
    try:
        names: list[str] = schema.names
    except UnicodeDecodeError as error:
        raise MalformedError(
            f"a column's name is not UTF-8: {error.object!r}", reason="name-not-utf8"
        ) from error
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise MalformedError(
            f"two columns are named {twice[0]!r}", reason="duplicate-column", remedy="Rename one of them."
        )
    return names


def _in_column(name: str, error: MalformedError) -> MalformedError:
    return MalformedError(f"column {name!r}: {error.message}", reason=error.reason, remedy=error.remedy)


def _block(table: pa.Table, algorithm: str, place: tuple[int, int]) -> tuple[bytes, int]:
    """Digest and section bytes of one block; ``place`` is the column's number and the first row."""
    number, start = place
    chunks: Iterable[pa.Array] = table.column(number).slice(start, BLOCK_ROWS).chunks
    sink = Sink(algorithm, b"\x10")
    try:
        write_section(sink, [Rows(chunk) for chunk in chunks])
    except MalformedError as error:
        raise _in_column(table.schema.names[number], error) from error
    return sink.digest(), sink.nbytes


def _column(name: str, kind: str, rows: int, blocks: list[bytes], algorithm: str) -> ColumnDigest:
    value = concat_hash(algorithm, _column_parts(name, kind, rows, blocks))
    return ColumnDigest(name, kind, value, tuple(blocks))


def _column_parts(name: str, kind: str, rows: int, blocks: list[bytes]) -> Iterator[bytes]:
    yield b"\x11"
    for text in (name.encode(), kind.encode()):
        yield struct.pack("<I", len(text))
        yield text
    yield struct.pack("<Q", rows)
    yield from blocks
