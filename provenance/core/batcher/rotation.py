"""Where a stream's successor begins, and what it continues (`spec/anchoring.md`, "Stream").

A new generation starts at the first offset where the log stops matching what was anchored. What was anchored
is a *view*: below the start of a stream it is what its predecessors hold, from there on what it holds itself.
Where a predecessor agrees with the log for longer than its successor does (an old log came back), it is the
one that is continued. Bytes are compared, at their offsets; the leaders' epochs are not, for equal bytes at
an equal offset are anchored whoever led.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from provenance.core.batcher.pile import Message
    from provenance.core.batches import Position

__all__ = ["View", "choose_start", "first_difference", "last_good", "start_after"]


class View(Protocol):
    """A stream, for `last_good`: where it starts, its positions from seq 0 on, what it continues."""

    @property
    def start_offset(self) -> int:
        """The offset of its first leaf."""
        ...

    @property
    def positions(self) -> Sequence[Position]:
        """The position behind each batch; the opening is the first."""
        ...

    @property
    def former(self) -> View | None:
        """The stream of the same log that it continues, if there is one."""
        ...


def first_difference(leaves: Mapping[int, bytes], messages: Iterable[Message]) -> int | None:
    """The lowest offset at which one has something and the other not the same; None if they are equal.

    Args:
        leaves: what is anchored in a range of offsets.
        messages: what the log holds in it.
    """
    held = {message.offset: message.value for message in messages}
    return min(
        (offset for offset in leaves.keys() | held.keys() if leaves.get(offset) != held.get(offset)),
        default=None,
    )


def start_after(match_end: int, start: int, end: int) -> int:
    """The start offset where log and view agree up to ``match_end`` and the log is ``[start, end)`` now.

    Never below the log's start, where retention overtook us, nor above its end: what comes next comes there.
    """
    return max(start, min(match_end, end))


def choose_start(candidates: Sequence[tuple[View, int]]) -> tuple[View, int]:
    """Of (view, start offset) pairs, the latest stream first, the one that leaves least to be anchored again.

    The latest one wins where they are equal.
    """
    return max(candidates, key=lambda candidate: candidate[1])


def last_good(view: View, start: int) -> Position:
    """The last position of a view behind which nothing below ``start`` was replaced.

    That of a batch which ends at ``start`` or below it; the opening of the oldest stream if there is none.
    """
    while start < view.start_offset and view.former is not None:
        view = view.former
    good = [position for position in view.positions if position.next_offset <= start]
    return good[-1] if good else view.positions[0]
