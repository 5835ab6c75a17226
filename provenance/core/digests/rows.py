"""The rows of a section: an Arrow array, seen through its nulls, its parents' nulls and its dictionaries.

A section is written from `Rows`, not from arrays, so that nothing has to be rebuilt: a struct's null
reaches its fields as a mask, a dictionary becomes a selection from its values, a list's items are a slice
or a selection of its child. What an array holds under a null is never looked at: it may be garbage, an
index out of range included.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from provenance.errors import MalformedError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Rows", "bitmap", "integer_dtype", "pick", "primitive", "ranges", "settle"]


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of an array: row ``i`` is ``array[take[i]]``, or ``array[i]`` without ``take``.

    It is null if the array says so, or if ``valid`` is there and ``valid[i]`` false. Where it is,
    ``take`` may be out of range.
    """

    array: pa.Array
    take: NDArray[np.int64] | None = None
    valid: NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.array) if self.take is None else len(self.take)

    def present(self) -> NDArray[np.bool_]:
        """``valid``, written out: one bool per row."""
        return np.ones(len(self), np.bool_) if self.valid is None else self.valid


def settle(rows: Rows) -> Rows:
    """The same rows, all their nulls in ``valid``, and dictionaries replaced by selections from their values.

    Raises:
        MalformedError: ``dictionary-index`` when a row's index points outside its dictionary.
    """
    array = rows.array
    valid = _all_nulls(rows)
    if not pa.types.is_dictionary(array.type):
        return Rows(array, rows.take, valid)
    index = pick(
        Rows(array.indices, rows.take, valid), primitive(array.indices, integer_dtype(array.indices.type))
    ).astype(np.int64)
    used = index if valid is None else index[valid]
    if used.size and not 0 <= used.min() <= used.max() < len(array.dictionary):
        raise MalformedError(
            f"an index points outside its dictionary of {len(array.dictionary)} values",
            reason="dictionary-index",
        )
    return settle(Rows(array.dictionary, index, valid))


def _all_nulls(rows: Rows) -> NDArray[np.bool_] | None:
    """The rows' mask and the array's own validity, together; None when no row is null."""
    array, valid = rows.array, rows.valid
    buffer = array.buffers()[0]
    if buffer is None or not array.null_count:
        return valid
    own = bitmap(buffer, array.offset, len(array))
    if valid is None:
        return own if rows.take is None else _unless_full(own[rows.take])
    both = valid.copy()
    both[valid] = own[valid] if rows.take is None else own[rows.take[valid]]
    return both


def _unless_full(valid: NDArray[np.bool_]) -> NDArray[np.bool_] | None:
    return None if valid.all() else valid


def bitmap(buffer: pa.Buffer, offset: int, count: int) -> NDArray[np.bool_]:
    """``count`` bits of a buffer from bit ``offset`` on, least significant first, as bools."""
    if not count:
        return np.zeros(0, np.bool_)
    first, skip = divmod(offset, 8)
    packed = np.frombuffer(buffer, np.uint8, (skip + count + 7) // 8, first)
    return np.unpackbits(packed, count=skip + count, bitorder="little")[skip:].view(np.bool_)


def integer_dtype(kind: pa.DataType) -> np.dtype[Any]:
    """The NumPy type of an integer, or of the integer that a temporal type is held in."""
    return np.dtype(f"{'u' if pa.types.is_unsigned_integer(kind) else 'i'}{kind.bit_width // 8}")


def primitive(array: pa.Array, dtype: Any, width: int = 1) -> NDArray[Any]:
    """The array's values as they lie in its buffer: shape ``(n,)``, or ``(n, width)`` if that is not 1."""
    buffer, size = array.buffers()[1], np.dtype(dtype).itemsize * width
    count = len(array) * width
    if not count:
        return np.zeros((len(array), width) if width != 1 else len(array), dtype)
    values = np.frombuffer(buffer, dtype, count, array.offset * size)
    return values.reshape(-1, width) if width != 1 else values


def pick(rows: Rows, values: NDArray[Any]) -> NDArray[Any]:
    """Of ``values``, one per element of the array, those of settled rows; zeros where a row is null."""
    if rows.valid is None:
        return values if rows.take is None else values[rows.take]
    if rows.take is None:
        valid = rows.valid if values.ndim == 1 else rows.valid[:, np.newaxis]
        return np.where(valid, values, values.dtype.type(0))
    out = np.zeros((len(rows), *values.shape[1:]), values.dtype)
    out[rows.valid] = values[rows.take[rows.valid]]
    return out


def ranges(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """``start, start+1, … start+length-1`` of every pair, joined."""
    total = int(lengths.sum())
    before = np.cumsum(lengths) - lengths
    return np.repeat(starts - before, lengths) + np.arange(total, dtype=np.int64)
