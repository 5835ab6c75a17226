"""What stands between a simulated process and its ports: faults, other processes' turns, the trace."""

from __future__ import annotations

import datetime as dt
from types import GeneratorType
from typing import TYPE_CHECKING, Any, TypeVar, cast

from provenance.errors import UnavailableError
from provenance.testing.fakes import FakeStore
from provenance.testing.faults import Crash, Fault

if TYPE_CHECKING:
    from collections.abc import Callable

    from provenance.testing.simulation.scheduler import Scheduler

__all__ = ["ProcessClock", "SimulatedStore", "watched"]

_P = TypeVar("_P")
_EPOCH = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


class _Watched:
    """A port; each call is announced, and may fail, lose its answer, or be the process's last."""

    def __init__(self, port: object, name: str, announce: Callable[[str], Fault | None]) -> None:
        self._port = port
        self._name = name
        self._announce = announce

    def __getattr__(self, attribute: str) -> Any:
        function = getattr(self._port, attribute)
        if not callable(function):
            return function
        operation, announce = f"{self._name}.{attribute}", self._announce

        def call(*args: Any, **kwargs: Any) -> Any:
            fault = announce(operation)
            if fault is Fault.FAILED:
                raise UnavailableError(f"{operation}: failed by arrangement", reason="fault")
            if fault is Fault.CRASH_BEFORE:
                raise Crash(operation)
            result = function(*args, **kwargs)
            if isinstance(result, GeneratorType):
                result = iter(tuple(result))
            if fault is Fault.LOST:
                raise UnavailableError(f"{operation}: its answer was lost by arrangement", reason="fault")
            if fault is Fault.CRASH_AFTER:
                raise Crash(operation)
            return result

        setattr(self, attribute, call)  # the next time it is found without this method
        return call


def watched(port: _P, name: str, announce: Callable[[str], Fault | None]) -> _P:
    """The port, with every call announced as ``NAME.METHOD``."""
    return cast("_P", _Watched(port, name, announce))


class ProcessClock:
    """A process's `Clock`; it may jump forward."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.jumped = 0.0

    def now(self) -> dt.datetime:
        """The present."""
        return _EPOCH + dt.timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        """Seconds."""
        return self._scheduler.now + self.jumped

    def sleep(self, seconds: float) -> None:
        """Let others go on."""
        self._scheduler.step()
        self._scheduler.sleep(max(0.0, seconds))


class SimulatedStore(FakeStore):
    """A `FakeStore` that may be full, and may lose what it acknowledged.

    Args:
        torn_put: the number of the put, from 1, whose object is lost, and where it is odd also the next
            one's; 0 for none.
    """

    def __init__(self, *, torn_put: int = 0) -> None:
        super().__init__()
        self.full = False
        self.torn = False
        self._puts_until_torn = torn_put
        self._torn = {0, -1} if torn_put % 2 else {0}

    def put(self, name: str, data: bytes) -> None:
        """Create the object."""
        if self.full:
            raise UnavailableError("the store is full", reason="full", remedy="Make room.")
        self._puts_until_torn -= 1
        if self._puts_until_torn in self._torn and name not in self.objects:
            self.torn = True
            return
        super().put(name, data)
