"""Where graphs run: a cluster of processes on this machine, a scheduler somewhere else, or this process.

A worker that lacks this package, or has another version, is found before the first task. Workers are
processes of their own, so that one may die; they start without the user's main module, which would run a
second time in them.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import logging
import re
import sys
import threading
import types
from typing import TYPE_CHECKING, Any, Protocol

from provenance.adapters.dask.environment import describe_environment
from provenance.errors import ConfigError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from provenance.core.canonical import JSONObject

__all__ = ["Compute", "InProcess", "OnCluster", "open_compute"]

_DISTRIBUTION = "provenance-ledger"
_START_SECONDS = 60
_CONNECT_SECONDS = 10
_STOP_SECONDS = 30
# A worker keeps up to 256 MiB that it freed. Dask's own setting gives everything back at once, and arrays of
# a few megabytes are then mapped and cleared again and again: a third of the time of the voice pipeline.
_ALLOCATION = {"MALLOC_TRIM_THRESHOLD_": 256 << 20, "MALLOC_MMAP_THRESHOLD_": 32 << 20}


class Compute(Protocol):
    """Something that computes graphs."""

    def environments(self) -> list[JSONObject]:
        """One document for each different environment that workers have now."""
        ...

    def results(self, graph: Mapping[Any, Any], keys: Sequence[str]) -> Iterator[tuple[str, Any]]:
        """(key, value) as they are computed, in any order; the first error ends it."""
        ...

    def keep(self, graph: Mapping[Any, Any], keys: Sequence[str]) -> Mapping[str, Any]:
        """Compute and keep the keys; returns, when they are there, what stands for them in a later graph."""
        ...

    def close(self) -> None:
        """Let go of everything that was started or kept here."""
        ...


def open_compute(client: Any = None, *, workers: int = 0) -> Compute:
    """What ``client=`` of a run means.

    Args:
        client: None for a cluster of processes on this machine, ``"sync"`` or ``"threads"`` for this
            process, a scheduler's address, or a `distributed.Client`.
        workers: processes of the local cluster; 0 for one a CPU.

    Raises:
        ConfigError: ``client``; ``workers-differ``, a worker lacks this package or has another version.
        UnavailableError: no scheduler answers, or it has no workers.
    """
    if client in {"sync", "threads"} if isinstance(client, str) else False:
        return InProcess(client)
    if client is None:
        return OnCluster.local(workers)
    if isinstance(client, str):
        return OnCluster.connect(client)
    if hasattr(client, "get") and hasattr(client, "scheduler_info"):
        return OnCluster(client)
    raise ConfigError(
        f"client of type {type(client).__qualname__}",
        reason="client",
        remedy="Give a scheduler's address, a distributed.Client, 'sync', 'threads', or nothing.",
    )


class InProcess:
    """Computes in this process: one task after the other, or on threads."""

    def __init__(self, scheduler: str) -> None:
        import dask.local
        import dask.threaded

        self._get: Callable[..., Any] = dask.local.get_sync if scheduler == "sync" else dask.threaded.get

    def environments(self) -> list[JSONObject]:
        """This process's."""
        return [describe_environment()]

    def results(self, graph: Mapping[Any, Any], keys: Sequence[str]) -> Iterator[tuple[str, Any]]:
        """All at once."""
        yield from zip(keys, self._get(dict(graph), list(keys)), strict=True)

    def keep(self, graph: Mapping[Any, Any], keys: Sequence[str]) -> Mapping[str, Any]:
        """The values themselves."""
        return dict(self.results(graph, keys))

    def close(self) -> None:
        """Nothing is open."""


class OnCluster:
    """Computes through a `distributed.Client`."""

    def __init__(self, client: Any, owned: Sequence[Any] = ()) -> None:
        self._client = client
        self._owned = tuple(owned)
        self._kept: list[Any] = []
        try:
            self._check_workers()
        except BaseException:
            self.close()
            raise

    @classmethod
    def local(cls, workers: int) -> OnCluster:
        """A cluster of processes on this machine that ends with the run. It listens on the loopback only."""
        import dask
        from distributed import Client, LocalCluster

        place = "distributed.nanny.pre-spawn-environ"  # one thread for each BLAS stands there too
        with _quiet(), dask.config.set({place: {**dask.config.get(place), **_ALLOCATION}}):
            cluster = LocalCluster(
                n_workers=workers or _cpus(),
                threads_per_worker=1,
                processes=True,
                worker_class=_nanny_class(),
                host="127.0.0.1",
                dashboard_address=None,
                # Without a dashboard the scheduler still serves its health page: on a free port, not on 8787.
                scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},
                silence_logs=logging.CRITICAL,
            )
            client = Client(cluster, set_as_default=False)
        return cls(client, (client, cluster))

    @classmethod
    def connect(cls, address: str) -> OnCluster:
        """A scheduler that runs already."""
        from distributed import Client

        if not re.fullmatch(r"[a-z]+://[^\s/]+", address):
            raise ConfigError(
                f"client: {len(address)} characters that are no scheduler's address",
                reason="client",
                remedy="Write it as tcp://host:8786, or say 'sync' or 'threads'.",
            )
        try:
            client = Client(address, set_as_default=False, timeout=_CONNECT_SECONDS)
        except (OSError, TimeoutError, ValueError) as error:
            raise UnavailableError(
                f"Dask scheduler: no answer from the address given ({type(error).__name__})",
                reason="scheduler",
                remedy="Start it, or check the address; without client= a cluster is started here.",
            ) from error
        return cls(client, (client,))

    def _check_workers(self) -> None:
        """Ask with a function of the standard library: a worker without this package could not load ours."""
        try:
            self._client.wait_for_workers(1, timeout=_START_SECONDS)
        except TimeoutError as error:
            raise UnavailableError(
                "Dask: the scheduler has no workers",
                reason="no-workers",
                remedy="Start workers, then try again.",
            ) from error
        expected = importlib.metadata.version(_DISTRIBUTION)
        found = self._client.run(importlib.metadata.version, _DISTRIBUTION, on_error="return")
        for number, version in enumerate(found.values(), 1):
            if version != expected:
                has = f"version {version}" if isinstance(version, str) else "none"
                raise ConfigError(
                    f"Dask worker {number} of {len(found)}: expected {_DISTRIBUTION} {expected}, found {has}",
                    reason="workers-differ",
                    remedy=f"Install {_DISTRIBUTION}=={expected} for the workers, and start them again.",
                )

    def environments(self) -> list[JSONObject]:
        """The workers', each different one once."""
        found: dict[str, JSONObject] = {}
        for document in self._client.run(describe_environment).values():
            found.setdefault(repr(document), document)
        return list(found.values())

    def results(self, graph: Mapping[Any, Any], keys: Sequence[str]) -> Iterator[tuple[str, Any]]:
        """As they come; a key's value is let go of when it has been taken."""
        from distributed import as_completed

        futures = self._client.get(dict(graph), list(keys), sync=False)
        try:
            for future in as_completed(futures, loop=self._client.loop):
                with _converted():
                    value = future.result()
                key = future.key
                future.release()
                yield key, value
        except BaseException:
            self._stop(futures, graph)
            raise

    def keep(self, graph: Mapping[Any, Any], keys: Sequence[str]) -> Mapping[str, Any]:
        """The graph again: the scheduler has the keys, and can make them anew if a worker dies."""
        from distributed import as_completed

        futures = self._client.get(dict(graph), list(keys), sync=False)
        try:
            for future in as_completed(futures, loop=self._client.loop):
                if future.status == "error":
                    with _converted():
                        future.result()
        except BaseException:
            self._stop(futures, graph)
            raise
        self._kept += futures
        return dict(graph)

    def _stop(self, futures: Sequence[Any], graph: Mapping[Any, Any]) -> None:
        """Cancel, and wait for what runs: a task that had begun may still put records on the log."""
        ours = set(map(str, graph))
        self._client.cancel(futures, force=True)
        pause = threading.Event()
        for _ in range(_STOP_SECONDS * 10):
            with contextlib.suppress(OSError, TimeoutError):
                running = {str(key) for keys in self._client.processing().values() for key in keys}
                if running.isdisjoint(ours):
                    return
            pause.wait(0.1)

    def close(self) -> None:
        """End what was started here; a client that was given stays open."""
        self._kept.clear()
        for thing in self._owned:
            with contextlib.suppress(TimeoutError, OSError):
                thing.close()


@contextlib.contextmanager
def _converted() -> Iterator[None]:
    """What a transform raises goes on as it is; what Dask says about dead workers becomes ours."""
    from distributed import CancelledError, KilledWorker

    try:
        yield
    except KilledWorker as error:
        raise UnavailableError(
            f"workers died again and again while computing {error.task}",
            reason="worker-died",
            remedy="Look whether the transform runs out of memory; the worker's log says how it ended.",
        ) from error
    except CancelledError as error:
        raise UnavailableError("the cluster was lost", reason="cluster-lost", remedy="Run again.") from error


def _cpus() -> int:
    from dask.system import CPU_COUNT

    return int(CPU_COUNT)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Dask's own loggers from warnings on; it makes them chatty when it is imported."""
    for name in ("distributed", "distributed.nanny", "distributed.scheduler", "distributed.worker"):
        logger = logging.getLogger(name)
        logger.setLevel(max(logger.level, logging.WARNING))
    yield


# --------------------------------------------------------------------- workers without the user's main module


class _Hidden:
    """Counts who starts a process just now, and keeps the main module out of sight for so long."""

    lock = threading.Lock()
    count = 0
    main: types.ModuleType | None = None


@contextlib.contextmanager
def _without_main() -> Iterator[None]:
    """`multiprocessing` runs the parent's main module again in each child, unless it finds an empty one.

    A script without ``if __name__ == "__main__":`` would start its pipeline in every worker.
    """
    with _Hidden.lock:
        if _Hidden.count == 0:
            _Hidden.main = sys.modules["__main__"]
            sys.modules["__main__"] = types.ModuleType("__main__")
        _Hidden.count += 1
    try:
        yield
    finally:
        with _Hidden.lock:
            _Hidden.count -= 1
            if _Hidden.count == 0 and _Hidden.main is not None:
                sys.modules["__main__"], _Hidden.main = _Hidden.main, None


def _nanny_class() -> type:
    from distributed import Nanny

    class PlainNanny(Nanny):  # type: ignore[misc] # distributed has no types
        """Starts its worker, the first time and after it died, without the user's main module."""

        async def instantiate(self) -> Any:
            with _without_main():
                return await super().instantiate()

    return PlainNanny
