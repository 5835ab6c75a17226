"""One process at a time, by a lock on a file; the system lets it go when the process ends, however it does.

A key has one sequence of nonces, so two batchers with one key would displace each other's transactions. That
loses nothing (the contract is the fence) and helps nobody.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from typing import TYPE_CHECKING

from provenance import files
from provenance.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["hold_lock"]


@contextlib.contextmanager
def hold_lock(path: Path, what: str) -> Iterator[None]:
    """Hold the lock of a file within the block.

    Args:
        path: the file; made if it is not there, and left where it is.
        what: who holds such a lock, for the message: ``"another batcher"``.

    Raises:
        UnavailableError: it is held by another process (``reason="locked"``).
    """
    files.make_folder(path.parent)
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise files.refused(error, path, "open") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UnavailableError(
                f"{what} works in {path.parent}",
                reason="locked",
                remedy="Wait until it is done, or end it; records wait in the log meanwhile.",
            ) from error
        yield
    finally:
        os.close(descriptor)
