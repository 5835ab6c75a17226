"""A progress bar on standard error, and only on a terminal."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["Progress"]

_WIDTH = 40


@dataclass(slots=True)
class Progress:
    """Shows how many of ``total`` partitions are done."""

    title: str
    total: int
    done: int = 0
    _shown: int = -1

    def __enter__(self) -> Progress:
        self._show()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if sys.stderr.isatty():
            sys.stderr.write("\n")
            sys.stderr.flush()

    def advance(self) -> None:
        """One more is done."""
        self.done += 1
        self._show()

    def _show(self) -> None:
        """Drawn again only when it looks different."""
        filled = _WIDTH * self.done // max(1, self.total)
        if filled == self._shown or not sys.stderr.isatty():
            return
        self._shown = filled
        bar = "█" * filled + "·" * (_WIDTH - filled)
        sys.stderr.write(f"\r{self.title[:30]} {bar} {self.done}/{self.total}")
        sys.stderr.flush()
