"""What ordinary stages do: a user's function over a partition, over each file of it, over several."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from provenance.adapters.dask.carried import Carried, shield
from provenance.adapters.dask.steps import Made
from provenance.core.partitions import File, is_table, rejection
from provenance.errors import ConfigError, MalformedError, Rejected

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from provenance.adapters.dask.steps import Work
    from provenance.core.lineage import Ref

__all__ = ["Gather", "MapFiles", "MapPartition", "Piece", "SplitTable", "joined"]


@dataclass(frozen=True, slots=True)
class MapPartition:
    """``function(data, **arguments)`` over a partition; ``others`` names further parents' partitions."""

    function: Callable[..., Any]
    arguments: Mapping[str, Any] = field(default_factory=dict)
    others: tuple[str, ...] = ()

    def apply(self, work: Work) -> Made:
        """Call the function; what it raises as `Rejected`, or returns, rejects the partition."""
        first = work.parents[0]
        read = tuple(parent.ref for parent in work.parents)
        rejected = next((ref.rejected for ref in read if ref.rejected), None)
        if rejected is not None:
            return Made(None, read, first.ref.key, rejected)
        further = {
            name: shield(usable(parent.data))
            for name, parent in zip(self.others, work.parents[1:], strict=True)
        }
        try:
            data = self.function(shield(usable(first.data)), **further, **self.arguments)
        except Rejected as why:
            data = why
        if isinstance(data, Rejected):
            return Made(None, read, first.ref.key, data.reason)
        return Made(data, read, first.ref.key)


@dataclass(frozen=True, slots=True)
class MapFiles:
    """``function(file, **arguments)`` over each usable file of a partition."""

    function: Callable[..., Any]
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def apply(self, work: Work) -> Made:
        """Call the function for each file; those that are set aside stay, with their reasons."""
        parent = work.parents[0]
        items = [item if item.rejected else self._one(item) for item in _files_of(work, parent)]
        return Made(items, (parent.ref,), parent.ref.key)

    def _one(self, item: File) -> File:
        try:
            result = self.function(shield(item), **self.arguments)
        except Rejected as why:
            return item.reject(why)
        except Exception as error:
            error.add_note(f"file {item.name}")
            raise
        if isinstance(result, Rejected):
            return item.reject(result)
        if isinstance(result, File):
            return File(item.name, result.data, item.key, item.suffix, result.rejected)
        return item.with_data(result)


def _files_of(work: Work, parent: Carried) -> list[File]:
    data = parent.data
    if isinstance(data, list) and all(isinstance(item, File) for item in data):
        return data
    raise ConfigError(
        f"stage {work.stage!r}: its parent's partitions are no files",
        reason="not-files",
        remedy="Call the stage without each=True.",
    )


def usable(data: Any) -> Any:
    """The partition's files without those that are set aside; any other data as it is."""
    if isinstance(data, list) and data and all(isinstance(item, File) for item in data):
        return [item for item in data if not item.rejected]
    return data


# ------------------------------------------------------------------------------------------------------- wide


@dataclass(frozen=True, slots=True)
class SplitTable:
    """Cuts tables into one piece for each value of a column."""

    column: str

    def values(self, carried: Carried) -> list[Any]:
        """The values that the column has in the partition, each once, in the order in which they come.

        Raises:
            MalformedError: ``no-column``, ``key-missing`` (a null), ``key-type``.
        """
        return [] if carried.ref.rejected else list(self._places(carried))

    def split(self, carried: Carried) -> dict[Any, Carried]:
        """The partition's rows by the column's value, in their order."""
        pieces = {}
        for value, places in self._places(carried).items():
            data = carried.data
            data = data.take(places) if _is_arrow(data) else data.iloc[places]
            pieces[value] = Carried(data, carried.ref)
        return pieces

    def _places(self, carried: Carried) -> dict[Any, list[int]]:
        places: dict[Any, list[int]] = {}
        for place, value in enumerate(self._column(carried)):
            if value is None or value != value:  # noqa: PLR0124 - NaN
                raise MalformedError(
                    f"partition {carried.ref.number}: column {self.column!r} has no value in row {place}",
                    reason="key-missing",
                    remedy="Fill the column or drop such rows in a stage before: no row may vanish.",
                )
            if isinstance(value, bool) or not isinstance(value, str | int):
                raise MalformedError(
                    f"partition {carried.ref.number}: column {self.column!r} holds a {type(value).__name__}: "
                    "rows are grouped by text or whole numbers",
                    reason="key-type",
                )
            places.setdefault(value, []).append(place)
        return places

    def _column(self, carried: Carried) -> list[Any]:
        data = carried.data
        if not is_table(data) or self.column not in (data.column_names if _is_arrow(data) else data.columns):
            raise ConfigError(
                f"partition {carried.ref.number}: no table with a column {self.column!r} to group by",
                reason="no-column",
            )
        if _is_arrow(data):
            return list(data.column(self.column).to_pylist())
        return list(data[self.column].astype(object).where(data[self.column].notna(), None).tolist())


def piece_of(pieces: dict[Any, Carried], value: Piece) -> Carried:
    """One piece of a split partition."""
    return pieces[value.value]


@dataclass(frozen=True, slots=True)
class Piece:
    """Which piece of a split partition is meant."""

    value: str | int

    def __repr__(self) -> str:
        """Never the value, which may be a person's name: Dask writes arguments into its logs."""
        return "<piece>"


@dataclass(frozen=True, slots=True)
class Gather:
    """``function(everything of one key, **arguments)``; without a function the joined pieces themselves.

    The payload is the key's token, or None.
    """

    function: Callable[..., Any] | None
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def apply(self, work: Work) -> Made:
        """Join the parents' partitions in their order and call the function."""
        refs: tuple[Ref, ...] = tuple(parent.ref for parent in work.parents)
        key = work.payload
        pieces = [usable(parent.data) for parent in work.parents if not parent.ref.rejected]
        pieces = [piece for piece in pieces if not (isinstance(piece, list) and not piece)]
        if work.parents and not pieces:
            reasons = {parent.ref.rejected or rejection(parent.data) or "several" for parent in work.parents}
            return Made(None, refs, key, reasons.pop() if len(reasons) == 1 else "several")
        data = joined(pieces)
        if self.function is None:
            return Made(data, refs, key)
        try:
            data = self.function(shield(data), **self.arguments)
        except Rejected as why:
            data = why
        if isinstance(data, Rejected):
            return Made(None, refs, key, data.reason)
        return Made(data, refs, key)


def joined(pieces: Sequence[Any]) -> Any:
    """Partitions as one: files and bags end to end, tables row by row; anything else as a list."""
    if all(isinstance(piece, list) for piece in pieces):
        return [item for piece in pieces for item in piece]
    if all(_is_arrow(piece) for piece in pieces):
        import pyarrow as pa

        return pa.concat_tables(pieces)
    if all(is_table(piece) for piece in pieces):
        import pandas as pd

        return pd.concat(pieces)
    return list(pieces)


def _is_arrow(data: Any) -> bool:
    arrow = sys.modules.get("pyarrow")
    return arrow is not None and isinstance(data, arrow.Table)
