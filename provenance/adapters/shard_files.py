"""Stored shards as bytes in memory, and what they decode to.

A part is read whole, so that what is checked and what is decoded are the same bytes; nothing can change
between the two. A Zarr array is decoded from a store that lives in memory, a Parquet file from a buffer.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provenance.errors import ConfigError, MalformedError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["decode_part", "read_part"]

_MAX_FILES = 100_000


def read_part(store: Path, name: str, *, limit: int) -> dict[str, bytes]:
    """The bytes of a part, a file or a folder of files, by path below it; ``""`` for a file.

    Args:
        store: the sink's folder.
        name: the part's name, a ``/`` path below it.
        limit: the most bytes that are taken into memory.

    Raises:
        MalformedError: the name leads out of the store, a link is among the files, or there is more than
        the limit.
        UnavailableError: it is not there, or cannot be read.
    """
    root = store / name
    if not root.resolve().is_relative_to(store.resolve()):
        raise MalformedError(f"part {name!r:.120}: it leads out of its store", reason="path")
    try:
        if root.is_file():
            return {"": _read(root, limit)}
        return _read_folder(root, limit)
    except FileNotFoundError as error:
        raise _missing(name) from error
    except OSError as error:
        raise UnavailableError(
            f"part {name!r:.120}: cannot be read: {error.strerror}", reason="unreadable"
        ) from error


def _missing(name: str) -> UnavailableError:
    return UnavailableError(
        f"part {name!r:.120}: it is not in the store",
        reason="object-missing",
        remedy="Restore the store from a copy.",
    )


def _read_folder(root: Path, limit: int) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    left = limit
    for folder, folders, names in os.walk(root, onerror=_raise, followlinks=False):
        folders.sort()
        for name in sorted([*names, *(entry for entry in folders if Path(folder, entry).is_symlink())]):
            path = Path(folder, name)
            if path.is_symlink() or len(files) >= _MAX_FILES:
                raise MalformedError(
                    f"{path.name!r:.80}: a link, or one of too many files in a part", reason="path"
                )
            data = _read(path, left)
            left -= len(data)
            files[path.relative_to(root).as_posix()] = data
    if not files:
        raise _missing(root.name)
    return files


def _raise(error: OSError) -> None:
    raise error


def _read(path: Path, limit: int) -> bytes:
    with path.open("rb") as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise MalformedError(
            f"{path.name!r:.80}: more than the {limit} bytes that a part may have", reason="too-long"
        )
    return data


def decode_part(name: str, files: Mapping[str, bytes]) -> Any:
    """What a part's bytes mean: a NumPy array (Zarr) or an Arrow table (Parquet).

    Raises:
        MalformedError: they are neither, although they are what was recorded.
    """
    try:
        if "zarr.json" in files:
            return _decode_zarr(files)
        if files.get("", b"")[:4] == b"PAR1":
            return _decode_parquet(files[""])
    except (ValueError, KeyError, TypeError, RuntimeError, OSError) as error:
        raise MalformedError(
            f"part {name!r:.120}: does not decode: {error}"[:300], reason="decode"
        ) from error
    raise MalformedError(f"part {name!r:.120}: neither a Zarr array nor a Parquet file", reason="decode")


def _decode_zarr(files: Mapping[str, bytes]) -> Any:
    try:
        import zarr
        from zarr.core.buffer import default_buffer_prototype
        from zarr.storage import MemoryStore
    except ImportError as error:
        raise ConfigError(
            "Zarr shards need the zarr package", remedy="pip install 'provenance-ledger[zarr]'"
        ) from error
    buffer = default_buffer_prototype().buffer
    store = MemoryStore({path: buffer.from_bytes(data) for path, data in files.items()}, read_only=True)
    return zarr.open_array(store=store, mode="r")[...]


def _decode_parquet(data: bytes) -> Any:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        return parquet.read_table(pa.BufferReader(data))
    except pa.ArrowException as error:
        raise ValueError(str(error)) from error
