"""Faults between a service and a port: a call failed, or happened and its answer was lost, or we crashed.

The three are told apart by what the world looks like afterwards, and whoever writes to a log, a store or a
chain must be right under each. `faulty` wraps any port, fake or real::

    faults = Faults()
    log = faulty(FakeLog(), "log", faults)
    faults.on("log.append", Fault.LOST)         # the next append is done, and its answer never comes

To try every place in turn, run once without faults, and then once for each ``n`` of ``len(faults.calls)`` and
each `Fault`, with ``faults.at(n, fault)``.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, TypeVar, cast

from provenance.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Crash", "Fault", "Faults", "faulty"]

_P = TypeVar("_P")


class Fault(enum.Enum):
    """What happens to a call."""

    FAILED = "failed"
    """Nothing was done; ``UnavailableError``."""
    LOST = "lost"
    """It was done, and ``UnavailableError`` all the same."""
    CRASH_BEFORE = "crash before"
    """The process ends before it is done; `Crash`."""
    CRASH_AFTER = "crash after"
    """It is done, and the process ends; `Crash`."""


class Crash(BaseException):
    """The process has ended here. No code of the program may catch it: it is no ``Exception``."""


class Faults:
    """Which calls meet which fault, and the operations called so far (``"log.append"``) in ``calls``."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self._at: dict[int, Fault] = {}
        self._on: dict[str, list[Fault]] = {}

    def at(self, number: int, fault: Fault) -> None:
        """Let the call of this number, counted from 0 over all operations, meet a fault."""
        self._at[number] = fault

    def on(self, operation: str, fault: Fault, *, times: int = 1) -> None:
        """Let the next so many calls of an operation meet a fault, after those arranged before."""
        self._on.setdefault(operation, []).extend([fault] * times)

    def clear(self) -> None:
        """Arrange no fault any more."""
        self._at.clear()
        self._on.clear()

    def call(self, operation: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call the function under whatever fault is due."""
        fault = self._next(operation)
        if fault is Fault.FAILED:
            raise UnavailableError(f"{operation}: failed by arrangement", reason="fault")
        if fault is Fault.CRASH_BEFORE:
            raise Crash(operation)
        result = function(*args, **kwargs)
        if fault is Fault.LOST:
            raise UnavailableError(f"{operation}: its answer was lost by arrangement", reason="fault")
        if fault is Fault.CRASH_AFTER:
            raise Crash(operation)
        return result

    def _next(self, operation: str) -> Fault | None:
        number = len(self.calls)
        self.calls.append(operation)
        if number in self._at:
            return self._at.pop(number)
        waiting = self._on.get(operation)
        return waiting.pop(0) if waiting else None


class _Faulty:
    def __init__(self, port: object, name: str, faults: Faults) -> None:
        self._port = port
        self._name = name
        self._faults = faults

    def __getattr__(self, attribute: str) -> Any:
        found = getattr(self._port, attribute)
        if not callable(found):
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            return self._faults.call(f"{self._name}.{attribute}", found, *args, **kwargs)

        return call


def faulty(port: _P, name: str, faults: Faults) -> _P:
    """The port, with every call subject to the faults as ``NAME.METHOD``."""
    return cast("_P", _Faulty(port, name, faults))
