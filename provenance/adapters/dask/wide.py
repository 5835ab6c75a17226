"""Regrouping: which partitions, or which pieces of them, each output partition is made from.

An output partition n holds the n-th key in the order of the key tokens, so that the same data gives the same
numbers wherever it is run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from provenance.adapters.dask.handles import PieceRef
from provenance.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from provenance.adapters.dask.handles import Node

__all__ = ["wide_by_key", "wide_by_number", "wide_by_value"]


def wide_by_key(name: str, parent: Node) -> tuple[list[str | None], list[tuple[PieceRef, ...]]]:
    """(key tokens ascending, the partitions that hold each): for sources that were given keys."""
    if not parent.keys or None in parent.keys:
        raise ConfigError(
            f"stage {name!r}: some files have no key to be grouped by",
            reason="no-key",
            remedy="Give run.files(…, key=…) a key for every file, or leave files without one out.",
        )
    held: dict[str, list[PieceRef]] = {}
    for number, key in enumerate(parent.keys):
        held.setdefault(str(key), []).append(PieceRef(number))
    ordered = sorted(held)
    return list(ordered), [tuple(held[key]) for key in ordered]


def wide_by_number(
    name: str, parent: Node, count: int
) -> tuple[list[str | None], list[tuple[PieceRef, ...]]]:
    """Neighbouring partitions together, in as equal numbers as can be."""
    if not 1 <= count <= parent.partitions:
        raise ConfigError(
            f"stage {name!r}: npartitions {count}: expected 1 to {parent.partitions}", reason="npartitions"
        )
    cuts = [index * parent.partitions // count for index in range(count + 1)]
    pieces = [
        tuple(PieceRef(number) for number in range(cuts[index], cuts[index + 1])) for index in range(count)
    ]
    return [None] * count, pieces


def wide_by_value(
    found: Mapping[int, Sequence[str | int]], token: Callable[[str | int], str]
) -> tuple[list[str | None], list[tuple[PieceRef, ...]], dict[str, str]]:
    """(key tokens ascending, pieces, plain value of each token), from the values in each partition."""
    held: dict[str, list[PieceRef]] = {}
    plain: dict[str, str] = {}
    for number in sorted(found):
        for value in found[number]:
            key = token(value)
            plain[key] = str(value)
            held.setdefault(key, []).append(PieceRef(number, value))
    ordered = sorted(held)
    return list(ordered), [tuple(held[key]) for key in ordered], plain
