"""What every `Clock` does."""

from __future__ import annotations

import datetime as dt

import pytest

from provenance.ports import Clock

__all__ = ["ClockConformance"]


class ClockConformance:
    """Fill in ``clock``."""

    @pytest.fixture
    def clock(self) -> Clock:
        raise NotImplementedError

    def test_now_is_in_utc(self, clock: Clock) -> None:
        assert clock.now().utcoffset() == dt.timedelta(0)

    def test_the_monotonic_clock_never_goes_back(self, clock: Clock) -> None:
        seen = [clock.monotonic() for _ in range(100)]
        assert seen == sorted(seen)

    def test_sleep_lasts_at_least_as_long_as_it_is_told(self, clock: Clock) -> None:
        before = clock.monotonic()
        clock.sleep(0.001)
        assert clock.monotonic() >= before + 0.001
        clock.sleep(0)
