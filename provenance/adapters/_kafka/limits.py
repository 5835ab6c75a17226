"""What is sent and read at most: bounds of our own, where a client has none or other ones."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING

from provenance.core.topic_rules import MAX_MESSAGE_BYTES
from provenance.errors import ConfigError, MalformedError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["InFlight", "check_read", "check_records", "same_process"]

MAX_KEY_BYTES = 4096
# A batch of one message has 61 bytes of its own and a few for lengths; what is left goes to key and value.
MAX_VALUE_BYTES = MAX_MESSAGE_BYTES - MAX_KEY_BYTES - 256
MAX_READ_BYTES = 16 << 20  # of values, in one answer
MAX_AGE_MS = 10_000  # of what a client knows about leaders and partitions
MAX_TIMEOUT_MS = 2**31 - 1  # Kafka's largest, 24 days: giving up is for us to decide, not for the client
FETCH_BYTES = 4 << 20  # of one partition at a time; a message always comes whole
GROUP = "provenance-batcher"  # only commits offsets, for those who watch the lag
AUTO_CREATE = "auto.create.topics.enable"


class InFlight:
    """The bytes that were sent and are not settled: our own bound, shared by the threads of a process."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._changed = threading.Condition()
        self._size = 0

    @property
    def size(self) -> int:
        """Bytes in flight now."""
        return self._size

    def acquire(self, size: int, deadline: float) -> bool:
        """Wait until there is room; one append alone may always go. False if the deadline passes first."""
        with self._changed:
            if not self._changed.wait_for(
                lambda: not self._size or self._size + size <= self._limit,
                max(0.0, deadline - time.monotonic()),
            ):
                return False
            self._size += size
            return True

    def release(self, size: int) -> None:
        """Settled, or given up together with its producer."""
        with self._changed:
            self._size -= size
            self._changed.notify_all()


def check_records(records: Sequence[tuple[bytes, bytes]]) -> None:
    """Refuse all records of a call if one is too large.

    Raises:
        MalformedError: ``reason="key-length"`` or ``"value-length"``.
    """
    for key, value in records:
        for what, data, limit in (("key", key, MAX_KEY_BYTES), ("value", value, MAX_VALUE_BYTES)):
            if len(data) > limit:
                raise MalformedError(
                    f"{what}: {len(data)} bytes, expected at most {limit}", reason=f"{what}-length"
                )


def check_read(start: int, limit: int) -> None:
    """Refuse a read that can only be a mistake.

    Raises:
        ConfigError: it begins before 0, or asks for nothing.
    """
    if limit < 1 or start < 0:
        raise ConfigError(f"reading {limit} messages from {start}: expected at least 1, from 0 on")


def same_process(pid: int) -> bool:
    """Whether the process is still the one that made a client: threads do not survive a fork."""
    return pid == os.getpid()
