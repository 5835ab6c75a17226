"""How a pandas frame becomes the Arrow table that is hashed (spec/digests.md, "pandas").

pandas 2.2 and 3 must give one digest for equal Arrow types, so the rules are few and spelled out:
`Table.from_pandas` without the index, which makes a NumPy NaN null; named index levels lead the columns;
big-endian columns are swapped.

pandas is not imported here: whoever holds a frame has imported it.
"""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING

import pyarrow as pa

from provenance.errors import ConfigError, MalformedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

__all__ = ["as_table", "bag_table"]

_FOREIGN = (pa.ArrowException, ValueError, TypeError, OverflowError)
"""What pyarrow raises at objects it cannot type."""


def as_table(thing: pa.Table | pa.RecordBatch | pd.DataFrame | pd.Series) -> pa.Table:
    """The Arrow table whose digest is that of the thing.

    Raises:
        ConfigError: the thing is none of the four.
        MalformedError: ``python-object``, ``duplicate-column``, each naming the column.
    """
    if isinstance(thing, pa.Table):
        return thing
    if isinstance(thing, pa.RecordBatch):
        return pa.Table.from_batches([thing])
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(thing, pandas.Series):
        return _frame_table(_series_frame(thing))
    if pandas is not None and isinstance(thing, pandas.DataFrame):
        return _frame_table(thing)
    raise ConfigError(
        f"a {type(thing).__qualname__} is no table",
        remedy="Give a pyarrow Table or RecordBatch, or a pandas DataFrame or Series.",
    )


def bag_table(items: Sequence[object]) -> pa.Table:
    """A bag partition as a one-column table ``item``; floats keep their NaN.

    `Table.from_pylist` would drop keys that the first item lacks.

    Raises:
        MalformedError: ``python-object`` when Arrow finds no type for the items.
    """
    try:
        column = pa.array(items)
    except _FOREIGN as error:
        raise _untyped("item", error) from error
    return pa.table({"item": column})


def _series_frame(series: pd.Series) -> pd.DataFrame:
    try:
        named = bool(series.name)
    except TypeError:  # pandas.NA is neither true nor false, and no name
        named = False
    return series.to_frame(series.name if named else "0")


def _frame_table(frame: pd.DataFrame) -> pa.Table:
    if any(name is not None for name in frame.index.names):
        try:
            frame = frame.reset_index()
        except (ValueError, TypeError) as error:
            raise MalformedError(
                f"an index level cannot become a column: {error}",
                reason="duplicate-column",
                remedy="Rename the index level, or drop it with reset_index(drop=True).",
            ) from error
    twice = [name for name, count in Counter(map(str, frame.columns)).items() if count > 1]
    if twice:
        raise MalformedError(
            f"two columns are named {twice[0]!r}", reason="duplicate-column", remedy="Rename one of them."
        )
    frame = _native(frame)
    try:
        # One thread: a worker has one core, and starting more takes longer than a partition.
        return pa.Table.from_pandas(frame, preserve_index=False, nthreads=1)
    except _FOREIGN as error:
        column, cause = _culprit(frame, error)
        raise _untyped(column, cause) from error


def _native(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with columns of foreign byte order swapped; the same frame if there is none."""
    foreign = [number for number, kind in enumerate(frame.dtypes) if getattr(kind, "isnative", True) is False]
    if not foreign:
        return frame
    frame = frame.copy(deep=False)
    for number in foreign:
        column = frame.iloc[:, number]
        frame.isetitem(number, column.to_numpy().astype(column.to_numpy().dtype.newbyteorder("=")))
    return frame


def _culprit(frame: pd.DataFrame, error: Exception) -> tuple[str, Exception]:
    """The first column that cannot be converted alone; pyarrow does not always say which it was."""
    for number, name in enumerate(frame.columns):
        try:
            pa.Table.from_pandas(frame.iloc[:, [number]], preserve_index=False)
        except _FOREIGN as alone:
            return str(name), alone
    return "?", error


def _untyped(column: str, error: Exception) -> MalformedError:
    detail = str(error.args[0]) if error.args else type(error).__name__
    return MalformedError(
        f"column {column!r} holds Python objects that Arrow cannot type: {detail}",
        reason="python-object",
        remedy="Convert the column to one Arrow type.",
    )
