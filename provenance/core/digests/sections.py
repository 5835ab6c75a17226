"""The sections of table1: how the values of a block are laid out for hashing (spec/digests.md, "section").

One writer per row of the specification's table. A writer gets *pieces*, the parts of the block that lie in
different chunks; each stage of a layout (bitmap, lengths, values) is written for all pieces before the
next, so that chunking cannot show. Where a piece has no nulls and lies in one run, its own buffer is hashed
and nothing is copied; everything else is vectorised, and takes memory for at most one block.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from provenance.core.digests.floats import one_nan
from provenance.core.digests.rows import Rows, bitmap, integer_dtype, pick, primitive, ranges, settle
from provenance.core.digests.typenames import is_binary, is_list, is_view
from provenance.errors import MalformedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from provenance.core.digests.hashes import Sink

    Ints = NDArray[np.int64]

__all__ = ["write_section"]

_MAX_LENGTH = 2**32 - 1
_GATHER_BYTES = 1 << 22
"""How many bytes of scattered values are joined at a time."""


def write_section(sink: Sink, pieces: Sequence[Rows]) -> None:
    """Write ``section(T, m values)`` of the pieces, joined.

    There is at least one piece, and all are of one Arrow type that `type_string` accepts.

    Raises:
        MalformedError: ``too-long``, ``bad-offsets``, ``decimal-range``, ``dictionary-index``.
    """
    settled = [settle(piece) for piece in pieces]
    kind = settled[0].array.type
    if pa.types.is_null(kind):
        return
    sink.write_bits([piece.present() for piece in settled])
    write = next(write for test, write in _WRITERS if test(kind))
    write(sink, settled)


# ----------------------------------------------------------------------------------------------- fixed width


def _write_bools(sink: Sink, pieces: Sequence[Rows]) -> None:
    sink.write_bits([pick(p, bitmap(p.array.buffers()[1], p.array.offset, len(p.array))) for p in pieces])


def _write_integers(sink: Sink, pieces: Sequence[Rows]) -> None:
    """Integers, and temporal values as theirs."""
    dtype = integer_dtype(pieces[0].array.type)
    for piece in pieces:
        sink.write(pick(piece, primitive(piece.array, dtype)))


def _write_floats(sink: Sink, pieces: Sequence[Rows]) -> None:
    dtype = np.dtype(f"f{pieces[0].array.type.bit_width // 8}")
    for piece in pieces:
        sink.write(one_nan(pick(piece, primitive(piece.array, dtype))))


def _write_fixed_binary(sink: Sink, pieces: Sequence[Rows]) -> None:
    for piece in pieces:
        sink.write(pick(piece, primitive(piece.array, np.uint8, piece.array.type.byte_width)))


def _write_decimals(sink: Sink, pieces: Sequence[Rows]) -> None:
    """Unscaled values, sign-extended or cut to the width that the precision asks for, whatever Arrow uses."""
    kind = pieces[0].array.type
    width = 2 if kind.precision <= 38 else 4
    for piece in pieces:
        limbs = _limbs(piece, kind.bit_width)
        sign = np.where(limbs[:, width - 1 : width] < 0, -1, 0)
        if (limbs[:, width:] != sign).any():
            raise MalformedError(f"a value does not fit in {kind}", reason="decimal-range")
        sink.write(np.ascontiguousarray(limbs[:, :width]))


def _limbs(piece: Rows, bits: int) -> NDArray[np.int64]:
    if bits > 64:
        return pick(piece, primitive(piece.array, np.int64, bits // 64))
    low = pick(piece, primitive(piece.array, np.dtype(f"i{bits // 8}"))).astype(np.int64)
    return np.stack([low, np.where(low < 0, -1, 0)], axis=1)


# -------------------------------------------------------------------------------------------- variable width


def _offsets(array: pa.Array) -> NDArray[Any]:
    """The n+1 offsets of a list or binary array; slicing is taken into account."""
    wide = (
        pa.types.is_large_list(array.type)
        or pa.types.is_large_binary(array.type)
        or pa.types.is_large_string(array.type)
    )
    dtype = np.dtype(np.int64 if wide else np.int32)
    if not len(array):
        return np.zeros(1, dtype)
    return np.frombuffer(array.buffers()[1], dtype, len(array) + 1, array.offset * dtype.itemsize)


def _write_lengths(sink: Sink, lengths: Ints) -> None:
    if lengths.size and lengths.max() > _MAX_LENGTH:
        raise MalformedError(
            f"one value has {lengths.max()} bytes or items, more than {_MAX_LENGTH}", reason="too-long"
        )
    if lengths.size and lengths.min() < 0:
        raise MalformedError("the offsets of an array go backwards", reason="bad-offsets")
    sink.write(lengths.astype(np.uint32))


def _spans(piece: Rows) -> tuple[Ints, Ints]:
    """Start and length of every row in the child or data buffer; zeros where a row is null."""
    array = piece.array
    if pa.types.is_list_view(array.type) or pa.types.is_large_list_view(array.type):
        dtype = np.dtype(np.int64 if pa.types.is_large_list_view(array.type) else np.int32)
        sizes = np.zeros(0, dtype)
        if len(array):
            sizes = np.frombuffer(array.buffers()[2], dtype, len(array), array.offset * dtype.itemsize)
        starts = pick(piece, primitive(array, dtype)).astype(np.int64)
        return starts, pick(piece, sizes).astype(np.int64)
    offsets = _offsets(array)
    starts = pick(piece, offsets[:-1]).astype(np.int64)
    return starts, pick(piece, offsets[1:]) - starts


def _one_run(starts: Ints, lengths: Ints) -> slice | None:
    """The slice that the spans are when joined, or None when they do not follow each other."""
    used = lengths > 0
    if not used.all():  # empty rows and nulls may stand anywhere
        starts, lengths = starts[used], lengths[used]
    if not starts.size:
        return slice(0, 0)
    ends = starts + lengths
    return slice(int(starts[0]), int(ends[-1])) if (starts[1:] == ends[:-1]).all() else None


def _write_binary(sink: Sink, pieces: Sequence[Rows]) -> None:
    spans = [_spans(piece) for piece in pieces]
    for _, lengths in spans:
        _write_lengths(sink, lengths)
    for piece, (starts, lengths) in zip(pieces, spans, strict=True):
        run = _one_run(starts, lengths)
        if run is not None:
            sink.write(_bytes(piece.array.buffers()[2])[run])
            continue
        used = np.flatnonzero(lengths)
        elements = used if piece.take is None else piece.take[used]
        for part in _parts(lengths[used]):
            taken = piece.array.take(pa.array(elements[part]))
            offsets = _offsets(taken)
            sink.write(_bytes(taken.buffers()[2])[offsets[0] : offsets[-1]])


def _bytes(buffer: pa.Buffer) -> NDArray[np.uint8]:
    return np.frombuffer(buffer, np.uint8)


def _parts(lengths: Ints) -> Iterator[slice]:
    """Cut rows into runs of at most `_GATHER_BYTES` each; a longer row stands alone."""
    ends, at, done = np.cumsum(lengths), 0, 0
    while at < len(ends):
        stop = max(at + 1, int(np.searchsorted(ends, done + _GATHER_BYTES, side="right")))
        yield slice(at, stop)
        at, done = stop, int(ends[stop - 1])


def _write_views(sink: Sink, pieces: Sequence[Rows]) -> None:
    """A view is 16 bytes: length, then a value of up to 12, or its first 4, a buffer's number, an offset."""
    views = [pick(piece, primitive(piece.array, np.int32, 4)) for piece in pieces]
    for view in views:
        _write_lengths(sink, view[:, 0].astype(np.int64))
    for piece, view in zip(pieces, views, strict=True):
        buffers = [view.reshape(-1).view(np.uint8), *map(_bytes, piece.array.buffers()[2:])]
        used = np.flatnonzero(view[:, 0])
        lengths = view[used, 0].astype(np.int64)
        inline = lengths <= 12
        source = np.where(inline, 0, view[used, 2] + 1)
        starts = np.where(inline, used * 16 + 4, view[used, 3])
        for part in _parts(lengths):
            sink.write(_join(buffers, source[part], starts[part], lengths[part]))


def _join(
    buffers: Sequence[NDArray[np.uint8]], source: Ints, starts: Ints, lengths: Ints
) -> NDArray[np.uint8]:
    """The bytes at ``starts`` of the given lengths, each from its own buffer, joined."""
    if len(lengths) == 1:  # a value longer than a part: no index of eight times its size
        whole: NDArray[np.uint8] = buffers[source[0]][starts[0] : starts[0] + lengths[0]]
        return whole
    out = np.empty(int(lengths.sum()), np.uint8)
    places = np.cumsum(lengths) - lengths
    for number in np.unique(source):
        here = source == number
        out[ranges(places[here], lengths[here])] = buffers[number][ranges(starts[here], lengths[here])]
    return out


# ---------------------------------------------------------------------------------------------------- nested


def _items(child: pa.Array, starts: Ints, lengths: Ints) -> Rows:
    run = _one_run(starts, lengths)
    if run is None:
        return Rows(child, ranges(starts, lengths))
    return Rows(child.slice(run.start, run.stop - run.start))


def _write_lists(sink: Sink, pieces: Sequence[Rows]) -> None:
    write_section(sink, _write_list_lengths(sink, pieces))


def _write_list_lengths(sink: Sink, pieces: Sequence[Rows]) -> list[Rows]:
    spans = [_spans(piece) for piece in pieces]
    for _, lengths in spans:
        _write_lengths(sink, lengths)
    return [_items(piece.array.values, *span) for piece, span in zip(pieces, spans, strict=True)]


def _write_maps(sink: Sink, pieces: Sequence[Rows]) -> None:
    entries = _write_list_lengths(sink, pieces)
    sink.write_bits([np.ones(len(entry), np.bool_) for entry in entries])
    for field in (0, 1):
        write_section(sink, [Rows(entry.array.field(field), entry.take) for entry in entries])


def _write_fixed_lists(sink: Sink, pieces: Sequence[Rows]) -> None:
    write_section(sink, [_fixed_items(piece, piece.array.type.list_size) for piece in pieces])


def _fixed_items(piece: Rows, size: int) -> Rows:
    """``values`` knows nothing of the array's offset; a null row's items are null, whatever lies there."""
    array = piece.array
    child = array.values.slice(array.offset * size, len(array) * size)
    valid = None if piece.valid is None else np.repeat(piece.valid, size)
    if piece.take is None:
        return Rows(child, None, valid)
    take = piece.take[:, np.newaxis] * size + np.arange(size, dtype=np.int64)
    return Rows(child, take.reshape(-1), valid)


def _write_structs(sink: Sink, pieces: Sequence[Rows]) -> None:
    for number in range(pieces[0].array.type.num_fields):
        write_section(sink, [Rows(piece.array.field(number), piece.take, piece.valid) for piece in pieces])


_WRITERS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[Sink, Sequence[Rows]], None]], ...] = (
    (pa.types.is_floating, _write_floats),
    (is_view, _write_views),
    (is_binary, _write_binary),
    (pa.types.is_boolean, _write_bools),
    (is_list, _write_lists),
    (pa.types.is_struct, _write_structs),
    (pa.types.is_fixed_size_list, _write_fixed_lists),
    (pa.types.is_map, _write_maps),
    (pa.types.is_fixed_size_binary, _write_fixed_binary),
    (pa.types.is_decimal, _write_decimals),
    (lambda kind: pa.types.is_integer(kind) or pa.types.is_temporal(kind), _write_integers),
)
