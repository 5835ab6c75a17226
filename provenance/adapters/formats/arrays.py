"""Arrays: NumPy's `.npy`, and Zarr."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from provenance.adapters.formats.files import decoding, open_regular, shown
from provenance.errors import ConfigError, MalformedError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["read_npy", "read_zarr"]

_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
"""Version 3 differs only in the names of records, which have no digest."""


def read_npy(path: Path | str) -> NDArray[Any]:
    """The array in a ``.npy`` file. Nothing is unpickled, and the file holds one array and no more.

    Raises:
        MalformedError: ``npy-version``, ``array-type`` for Python objects, ``truncated``, ``trailing-bytes``,
            ``damaged``.
    """
    with open_regular(path) as file, decoding(path, "a NumPy array"):
        version = np.lib.format.read_magic(file)
        if version not in _HEADERS:
            raise MalformedError(
                f"{shown(path)}: a .npy file of version {version[0]}.{version[1]}",
                reason="npy-version",
                remedy="Save it again with numpy.save.",
            )
        shape, fortran, dtype = _HEADERS[version](file)
        if dtype.hasobject:
            raise MalformedError(
                f"{shown(path)}: an array of Python objects, which are not unpickled",
                reason="array-type",
                remedy="Save the values in one of NumPy's own types.",
            )
        count = math.prod(shape)  # in Python's integers: a header can claim anything
        _check_size(path, os.fstat(file.fileno()).st_size - file.tell(), count * dtype.itemsize)
        values = np.fromfile(file, dtype, count)
        return values.reshape(shape, order="F" if fortran else "C")


def _check_size(path: Path | str, found: int, expected: int) -> None:
    if found == expected:
        return
    raise MalformedError(
        f"{shown(path)}: {found} bytes of values, expected {expected}",
        reason="truncated" if found < expected else "trailing-bytes",
        remedy="Get the file again from where it came from.",
    )


def read_zarr(path: Path | str) -> NDArray[Any]:
    """The array in a Zarr folder, version 2 or 3, decoded whole; chunks not stored have the fill value.

    Raises:
        ConfigError: ``zarr-group``; zarr is not installed.
        MalformedError: ``damaged``.
    """
    try:
        import zarr
    except ImportError as error:
        raise ConfigError(
            f"{shown(path)}: reading a Zarr array needs the package zarr",
            reason="extra-missing",
            remedy="Run: pip install 'provenance-ledger[zarr]'",
        ) from error
    with decoding(path, "a Zarr array"):
        if _is_group(Path(path)):
            raise ConfigError(
                f"{shown(path)}: a Zarr group has no array-1 digest",
                reason="zarr-group",
                remedy="Give the folder of one of its arrays, or take the tree: --kind tree1",
            )
        return np.asarray(zarr.open_array(store=str(path), mode="r")[...])


def _is_group(path: Path) -> bool:
    """Whether version 3 metadata say so; of version 2, only arrays have a ``.zarray``."""
    try:
        metadata = json.loads((path / "zarr.json").read_bytes())
    except FileNotFoundError:
        return False
    return isinstance(metadata, dict) and metadata.get("node_type") == "group"
