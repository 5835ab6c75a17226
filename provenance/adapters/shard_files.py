"""Stored shards as bytes in memory, and what they decode to.

A part is read whole, so that what is checked and what is decoded are the same bytes; nothing can change
between the two. A Zarr array is decoded from a store that lives in memory, a Parquet file from a buffer.
"""

from __future__ import annotations

import os
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provenance import files as local_files
from provenance.errors import ConfigError, MalformedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["decode_part", "part_key", "read_part"]

_MAX_FILES = 100_000
_MAX_DEPTH = 64
_FILE = ""  # the path of a part that is one file
_TABLE = "table"
# What codecs and parsers raise over damaged bytes; fuzzing found no other.
_UNDECODABLE = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    ImportError,
    LookupError,
    MemoryError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
    zlib.error,
)


def part_key(name: str) -> str:
    """What a part is called within its shard: ``features`` of ``p00007/features``, ``table`` of a file."""
    return name.partition("/")[2] or _TABLE


# ------------------------------------------------------------------------------------------------- reading


def read_part(store: Path, name: str, limit: int) -> dict[str, bytes]:
    """The bytes of a part, by ``/`` path below it; ``""`` for a part that is one file.

    Links and special files as `spec/digests.md`, "tree1": a link that ends at a regular file of the same part
    is that file.

    Args:
        store: the sink's folder.
        name: the part's name, a ``/`` path below it.
        limit: the most bytes that are taken into memory.

    Returns:
        Nothing if there is no such part.

    Raises:
        MalformedError: ``path``, the name leads out of the store; ``link``, ``not-a-file``, ``too-many``,
            ``too-long``, ``name-not-utf8``: what no part has.
        UnavailableError: it cannot be read.
    """
    if not _is_below(name):
        raise MalformedError(f"the name {name!r:.120} leads out of the store", reason="path")
    base, root = os.path.realpath(store), os.path.realpath(store / name)
    if not Path(root).is_relative_to(base):
        raise MalformedError("a link that leads out of the store", reason="link")
    if not os.path.isdir(root):  # noqa: PTH112 - beside realpath, which pathlib has only with errors of its own
        data = local_files.read_file(Path(root), limit)
        return {} if data is None else {_FILE: data}
    found: dict[str, bytes] = {}
    for path, place in _files_below(root, "", _MAX_DEPTH):
        if len(found) >= _MAX_FILES:
            raise MalformedError(f"more than {_MAX_FILES} files", reason="too-many")
        data = local_files.read_file(Path(place), limit)
        if data is not None:
            found[path] = data
            limit -= len(data)
    return found


def _is_below(name: str) -> bool:
    return "\0" not in name and {"", ".", ".."}.isdisjoint(name.split("/"))


def _files_below(root: str, prefix: str, depth: int) -> Iterator[tuple[str, str]]:
    """(path below the root, place of the bytes) of every file, in the order of names."""
    folder = Path(root, prefix)
    if not depth:
        raise MalformedError(f"folders more than {_MAX_DEPTH} deep", reason="too-many")
    try:
        with os.scandir(folder) as scan:
            entries = sorted(scan, key=lambda entry: entry.name)
    except OSError as error:
        raise local_files.refused(error, folder, "read") from error
    for entry in entries:
        path = f"{prefix}{entry.name}"
        if entry.is_dir(follow_symlinks=False):
            yield from _files_below(root, f"{path}/", depth - 1)
        else:
            yield path, _target(root, entry) if entry.is_symlink() else entry.path


def _target(root: str, link: os.DirEntry[str]) -> str:
    target = os.path.realpath(link.path)
    if not (Path(target).is_relative_to(root) and Path(target).is_file()):
        raise MalformedError(
            f"{link.name!r:.120}, a link that ends at no file of the same part", reason="link"
        )
    return target


# ------------------------------------------------------------------------------------------------ decoding


def decode_part(files: Mapping[str, bytes], limit: int) -> Any:
    """What a part's bytes mean: a NumPy array (Zarr) or an Arrow table (Parquet).

    Args:
        files: as `read_part` gives them.
        limit: the most bytes that they may decode to.

    Raises:
        MalformedError: they are neither, or decode to more.
        ConfigError: a package is missing.
    """
    try:
        if "zarr.json" in files:
            return _decode_zarr(files, limit)
        if files.get(_FILE, b"")[:4] == b"PAR1":
            return _decode_parquet(files[_FILE], limit)
    except _UNDECODABLE as error:
        raise MalformedError(
            f"it does not decode: {type(error).__name__}: {error}"[:300],
            reason="decode",
            remedy="Compare the versions of zarr, numcodecs and pyarrow with those that the run recorded.",
        ) from error
    raise MalformedError("neither a Zarr array nor a Parquet file", reason="decode")


def _decode_zarr(files: Mapping[str, bytes], limit: int) -> Any:
    try:
        import zarr
        from zarr.buffer import default_buffer_prototype
        from zarr.storage import MemoryStore
    except ImportError as error:
        raise ConfigError(
            f"Zarr shards need the Python package zarr, 3.1 or later: {error}",
            reason="extra-missing",
            remedy="Run: pip install 'provenance-ledger[zarr]'",
        ) from error
    buffer = default_buffer_prototype().buffer
    store = MemoryStore({path: buffer.from_bytes(data) for path, data in files.items()}, read_only=True)
    array = zarr.open_array(store=store, mode="r", zarr_format=3)
    _require_size(array.nbytes, limit)
    return array[...]


def _decode_parquet(data: bytes, limit: int) -> Any:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(pa.BufferReader(data), page_checksum_verification=True) as file:
            groups = range(file.metadata.num_row_groups)
            _require_size(sum(file.metadata.row_group(at).total_byte_size for at in groups), limit)
            return file.read(use_threads=False)
    except pa.ArrowException as error:
        raise ValueError(str(error)) from error


def _require_size(size: int, limit: int) -> None:
    if size > limit:
        raise MalformedError(
            f"it decodes to {size} bytes, expected at most {limit}",
            reason="too-long",
            remedy="Raise part_limit in [loading] of provenance.toml, or store smaller partitions.",
        )
