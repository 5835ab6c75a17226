"""From a worker to the log: records are durable before the task that made them returns.

The task carries how to open log and store, never a connection; a worker opens each once and keeps it. There
is no buffer to be flushed at the end, because a killed worker has no end.
"""

from __future__ import annotations

import functools
import importlib.metadata
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from provenance.adapters.dask.environment import describe_environment, environment_id, keep_environment
from provenance.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from provenance.core.streams import LogIdentity
    from provenance.ports import BatchStore, EventLog

__all__ = ["Outlet"]


@functools.lru_cache(maxsize=16)
def _opened(factory: Callable[[], Any]) -> Any:
    return factory()


@functools.lru_cache(maxsize=16)
def _right_log(factory: Callable[[], EventLog], expected: frozenset[LogIdentity]) -> EventLog:
    """The log, if it is the driver's: on another machine the same path leads to another file."""
    log: EventLog = _opened(factory)
    if frozenset(log.identities()) != expected:
        raise ConfigError(
            "a worker reaches another event log than the driver, under the same name",
            reason="other-log",
            remedy="The embedded log serves processes of one machine: use workers here, or a Kafka log.",
        )
    return log


@functools.cache
def _check_version(expected: str) -> None:
    """Workers were asked before the first task; this is for one that joined later."""
    found = importlib.metadata.version("provenance-ledger")
    if found != expected:
        raise ConfigError(
            f"a worker that joined later: expected provenance-ledger {expected}, found version {found}",
            reason="workers-differ",
            remedy=f"Install provenance-ledger=={expected} for the workers, and start them again.",
        )


@functools.lru_cache(maxsize=64)
def _met(store: Callable[[], BatchStore], run: bytes) -> None:
    """Keep this process's environment for the run, once."""
    keep_environment(_opened(store), run, describe_environment())


@dataclass(frozen=True, slots=True)
class Outlet:
    """Where the records of a run go.

    Attributes:
        run: the run's id.
        log: opens the event log; hashable and picklable.
        store: opens the batch store; the same.
        identities: of the log as the driver sees it.
        version: of this package, on the driver.
        environments: ids of those that the run's record names; any other one is kept when it is met.
    """

    run: bytes
    log: Callable[[], EventLog]
    store: Callable[[], BatchStore]
    identities: frozenset[LogIdentity]
    version: str
    environments: frozenset[bytes]

    def emit(self, records: Sequence[tuple[bytes, bytes]]) -> None:
        """Append (key, record) pairs; durable when it returns."""
        _check_version(self.version)
        if environment_id() not in self.environments:
            _met(self.store, self.run)
        _right_log(self.log, self.identities).append(records)
