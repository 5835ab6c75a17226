"""A drawing of a run by its stages: one box a stage, never one a partition, rows by distance from the source.

It goes downwards, so that a long pipeline is a long page and not a strip too wide for a phone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Box", "Drawing", "Edge", "draw"]

WIDTH, HEIGHT = 236, 62
_GAP_X, _GAP_Y, _MARGIN = 26, 40, 4
_NAME = 26  # characters of a name that fit into a box


@dataclass(frozen=True, slots=True)
class Box:
    """One stage and its upper left corner. ``kind`` is ``source``, ``stage`` or ``sink``."""

    stage: Any
    label: str
    kind: str
    x: int
    y: int


@dataclass(frozen=True, slots=True)
class Edge:
    """An SVG path from the foot of a parent to the head of a child."""

    path: str


@dataclass(frozen=True, slots=True)
class Drawing:
    """Boxes and edges, and the size of the whole."""

    boxes: tuple[Box, ...]
    edges: tuple[Edge, ...]
    width: int
    height: int


def draw(stages: Sequence[Any]) -> Drawing:
    """Lay out stages.

    Each has ``id``, ``name``, ``parents`` (ids) and ``is_sink``. Unknown parents are left out.
    """
    depths = _depths({stage.id: stage for stage in stages})
    rows: dict[int, list[Any]] = {}
    for stage in stages:
        rows.setdefault(depths[stage.id], []).append(stage)
    widest = max((len(row) for row in rows.values()), default=1)
    width = widest * (WIDTH + _GAP_X) - _GAP_X + 2 * _MARGIN
    boxes: dict[str, Box] = {}
    for depth, row in rows.items():
        left = (width - len(row) * (WIDTH + _GAP_X) + _GAP_X) // 2
        for at, stage in enumerate(row):
            x, y = left + at * (WIDTH + _GAP_X), _MARGIN + depth * (HEIGHT + _GAP_Y)
            boxes[stage.id] = Box(stage, _fit(stage.name), _kind(stage), x, y)
    edges = tuple(
        _edge(boxes[parent], boxes[stage.id])
        for stage in stages
        for parent in stage.parents
        if parent in boxes
    )
    height = len(rows) * (HEIGHT + _GAP_Y) - _GAP_Y + 2 * _MARGIN
    return Drawing(tuple(boxes.values()), edges, width, max(height, HEIGHT))


def _depths(stages: Mapping[str, Any]) -> dict[str, int]:
    """The longest way from a source; stages come in any order."""
    depths = dict.fromkeys(stages, 0)
    for _ in stages:
        before = dict(depths)
        for stage in stages.values():
            above = [depths[parent] + 1 for parent in stage.parents if parent in depths]
            depths[stage.id] = min(max(above, default=0), len(stages) - 1)
        if depths == before:
            break
    return depths


def _kind(stage: Any) -> str:
    if stage.is_sink:
        return "sink"
    return "stage" if stage.parents else "source"


def _fit(name: str) -> str:
    return name if len(name) <= _NAME else f"{name[: _NAME - 1]}…"


def _edge(parent: Box, child: Box) -> Edge:
    x1, y1 = parent.x + WIDTH // 2, parent.y + HEIGHT
    x2, y2 = child.x + WIDTH // 2, child.y - 5  # the arrow's head
    bend = (y1 + y2) // 2
    return Edge(f"M{x1},{y1} C{x1},{bend} {x2},{bend} {x2},{y2}")
