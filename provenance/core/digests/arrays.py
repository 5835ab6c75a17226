"""array1: the digest of an n-dimensional array's logical content (spec/digests.md, "array1").

Memory order and byte order do not count; shape and type do. A C-ordered array is hashed where it lies. Any
other is copied a few megabytes at a time, by slabs along its first axes, so that the memory needed does not
grow with the array.
"""

from __future__ import annotations

import struct
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from provenance.core.digests.floats import one_nan
from provenance.core.digests.hashes import Sink, concat_hash, new_hasher
from provenance.core.digests.model import Digest
from provenance.core.digests.tables import spread
from provenance.errors import ConfigError, MalformedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

__all__ = ["BLOCK_BYTES", "array1"]

BLOCK_BYTES = 1 << 20
_SLAB_BYTES = 8 << 20
"""How much of a scattered array is copied at a time."""

_TYPES = {
    "b1": "bool",
    "i1": "i8",
    "i2": "i16",
    "i4": "i32",
    "i8": "i64",
    "u1": "u8",
    "u2": "u16",
    "u4": "u32",
    "u8": "u64",
    "f2": "f16",
    "f4": "f32",
    "f8": "f64",
    "c8": "c64",
    "c16": "c128",
}


def array1(array: NDArray[Any], *, algorithm: str = "sha256", threads: int = 1) -> Digest:
    """The ``array1`` digest, with that of each block of 2^20 bytes.

    Args:
        array: any shape, memory order and byte order; a NumPy scalar counts as its 0-dimensional array.
        algorithm: ``"sha256"`` or ``"blake3"``.
        threads: how many blocks are hashed at once; only a C-ordered array can be shared out.

    Raises:
        ConfigError: not a NumPy array, an unknown algorithm, a bad number of threads.
        MalformedError: ``masked-array``, or ``array-type`` for objects, text, records, times and long
            doubles.
    """
    new_hasher(algorithm)
    if not isinstance(array, np.ndarray | np.generic):
        raise ConfigError(
            f"a {type(array).__qualname__} is no NumPy array", remedy="Give numpy.asarray(…) of it."
        )
    if isinstance(array, np.ma.MaskedArray):
        raise MalformedError(
            "a masked array has no array-1 digest",
            reason="masked-array",
            remedy="Fill it, or digest data and mask apart.",
        )
    plain = np.asarray(array)
    # A type that an extension registered may share kind and size with one of ours, and mean something else.
    kind = _TYPES.get(f"{plain.dtype.kind}{plain.dtype.itemsize}") if plain.dtype.isbuiltin != 2 else None
    if kind is None:
        raise MalformedError(
            f"an array of {plain.dtype} has no array-1 digest",
            reason="array-type",
            remedy=f"Use one of {', '.join(_TYPES.values())}.",
        )
    blocks = _digests(plain, algorithm, threads)
    head = b"\x22array-1" + struct.pack("<I", len(kind)) + kind.encode()
    dimensions = struct.pack(f"<I{plain.ndim}Q", plain.ndim, *plain.shape)
    value = concat_hash(algorithm, (head, dimensions, *blocks))
    return Digest(
        f"array1-{algorithm}", value, nbytes=plain.nbytes, shape=plain.shape, type=kind, blocks=tuple(blocks)
    )


def _digests(array: NDArray[Any], algorithm: str, threads: int) -> list[bytes]:
    work = partial(_block, algorithm)
    if array.flags.c_contiguous:
        return spread(work, list(_cut(array.reshape(-1))), threads)
    spread(work, (), threads)  # checks the number of threads
    return [work(block) for block in _regroup(array)]


def _block(algorithm: str, values: NDArray[Any]) -> bytes:
    sink = Sink(algorithm, b"\x20")
    if values.dtype.kind == "b":
        values = values.view(np.uint8) != 0
    elif values.dtype.kind in "fc":
        native = values.astype(values.dtype.newbyteorder("="), copy=False)
        values = one_nan(native.view(native.real.dtype))
    sink.write(values)
    return sink.digest()


def _cut(flat: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """Blocks of a one-dimensional array, in place; the last may be shorter."""
    size = BLOCK_BYTES // flat.itemsize
    return (flat[at : at + size] for at in range(0, flat.size, size))


def _regroup(array: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """Blocks of an array that does not lie in C order; what a slab leaves over begins the next block."""
    rest = np.empty(0, array.dtype)
    for slab in _slabs(array):
        flat = np.concatenate((rest, slab)) if rest.size else slab
        whole = flat.size - flat.size % (BLOCK_BYTES // flat.itemsize)
        yield from _cut(flat[:whole])
        rest = flat[whole:].copy()
    yield from _cut(rest)


def _slabs(array: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """The values in C order, some megabytes at a time, each slab flat and contiguous."""
    if array.ndim == 1:
        size = _SLAB_BYTES // array.itemsize
        yield from (np.ascontiguousarray(array[at : at + size]) for at in range(0, array.size, size))
        return
    rows = _SLAB_BYTES // array[0].nbytes
    if rows == 0:
        for row in array:
            yield from _slabs(row)
        return
    for at in range(0, len(array), rows):
        yield array[at : at + rows].ravel()
