"""The time as this machine has it."""

from __future__ import annotations

import datetime as dt
import time

__all__ = ["SystemClock"]


class SystemClock:
    """A `Clock` over the system's."""

    def now(self) -> dt.datetime:
        """The present, in UTC."""
        return dt.datetime.now(dt.UTC)

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait for so many seconds."""
        time.sleep(seconds)
