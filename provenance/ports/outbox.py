"""The outbox: records that the log did not acknowledge, until they are final."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable, Collection, Mapping, Sequence

    from provenance.core.outbox import OutboxDepth, OutboxRow, Place
    from provenance.ports.log import EventLog

__all__ = ["MAX_OUTBOX_KEY_BYTES", "MAX_OUTBOX_VALUE_BYTES", "Dispatcher", "Outbox"]

MAX_OUTBOX_KEY_BYTES = 4096
MAX_OUTBOX_VALUE_BYTES = (1 << 20) - MAX_OUTBOX_KEY_BYTES  # what every log takes


class Outbox(Protocol):
    """Records that must not be lost, on a disk of this machine; of all its processes that record."""

    def keep(self, records: Sequence[tuple[bytes, bytes]], since: dt.datetime) -> None:
        """Keep (key, value) pairs, all or none; durable when it returns: synced to disk.

        A pair that is there already keeps its number and loses its place: it is to be sent again. Raises
        ``UnavailableError`` with ``reason="outbox-full"`` where the limit of bytes or records would be
        exceeded, ``MalformedError`` for a key or value that a log would not take.
        """
        ...

    def rows(self, after: int, limit: int, *, only_unsent: bool = False) -> Sequence[OutboxRow]:
        """At most ``limit`` rows with a number above ``after``, ascending; fewer where they are large.

        Empty only at the end. With ``only_unsent`` those that have no place.
        """
        ...

    def settle(self, placed: Mapping[int, Place], forgotten: Collection[int]) -> None:
        """Note where rows were acknowledged, and drop others, atomically.

        A number that is gone is no error.
        """
        ...

    def depth(self) -> OutboxDepth:
        """How much waits."""
        ...


class Dispatcher(Protocol):
    """Makes records durable: on the log, or in the outbox where the log does not answer."""

    def send(self, records: Sequence[tuple[bytes, bytes]], log: Callable[[], EventLog]) -> None:
        """Append (key, value) pairs to the log that ``log`` opens, or keep them; durable when it returns.

        Raises ``UnavailableError`` where neither is possible; what the log or its opener refuses for another
        reason goes on as it is.
        """
        ...
