"""Digests of whatever a user holds, and the check of a list of them.

What a path holds comes from a reader that the caller gives; this decides which digest is taken of it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from provenance.core.digests import Digest, FileBytes, array1, bytes1, table1, tree1
from provenance.errors import ConfigError, MalformedError, ProvenanceError

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd
    import pyarrow as pa
    from numpy.typing import NDArray

    from provenance.core.digests import TreeEntry

    Content: TypeAlias = "pa.Table | NDArray[Any] | tuple[TreeEntry, ...] | FileBytes"
    Thing: TypeAlias = (
        "str | os.PathLike[str] | pa.Table | pa.RecordBatch | pd.DataFrame | pd.Series | NDArray[Any]"
    )

__all__ = ["Checked", "Reader", "check", "digest"]

_KINDS = ("table1", "array1", "tree1", "sha256")


class Reader(Protocol):
    """Gives what a path holds, in the form of the digest that is taken of it."""

    def __call__(self, path: Path, kind: str | None, *, threads: int = 1) -> Content:
        """A table, an array, a folder's entries, or the bytes of a file.

        Raises:
            ConfigError: there is nothing, or nothing of this kind.
            MalformedError: it is damaged.
            UnavailableError: it cannot be read.
        """
        ...


def digest(
    thing: Thing, *, read: Reader, kind: str | None = None, algorithm: str = "sha256", threads: int = 1
) -> Digest:
    """The digest of a table, an array or what is at a path.

    Args:
        thing: a path (also as text), a pyarrow table or batch, a pandas frame or series, a NumPy array.
        read: reads paths.
        kind: ``"table1"``, ``"array1"``, ``"tree1"`` or ``"sha256"``; what fits if None.
        algorithm: ``"sha256"``, or ``"blake3"``, which trees do not have.
        threads: how many blocks or files are hashed at once.

    Raises:
        ConfigError: the thing has no digest of this kind; as `Reader`.
        MalformedError: it has no digest at all; as `Reader`.
        UnavailableError: as `Reader`.
    """
    if kind not in {None, *_KINDS}:
        raise ConfigError(
            f"unknown kind of digest {kind!r}",
            reason="digest-kind",
            remedy=f"Use one of {', '.join(_KINDS)}.",
        )
    if not isinstance(thing, str | os.PathLike):
        return _of_content(thing, kind, algorithm, threads)
    path = Path(thing)
    content = read(path, kind, threads=threads)
    try:
        return _of_content(content, kind, algorithm, threads)
    except MalformedError as error:  # what is read is named by its file
        shown = os.fsencode(path).decode("utf-8", "backslashreplace")
        if error.message.startswith(shown):
            raise
        raise MalformedError(f"{shown}: {error.message}", reason=error.reason, remedy=error.remedy) from error


def _of_content(content: Any, kind: str | None, algorithm: str, threads: int) -> Digest:
    if isinstance(content, np.ndarray | np.generic):
        _require(kind, "array1", "an array")
        return array1(np.asanyarray(content), algorithm=algorithm, threads=threads)
    if isinstance(content, FileBytes):
        return bytes1(content.chunks, algorithm=algorithm)
    if isinstance(content, tuple):
        if algorithm != "sha256":
            raise ConfigError(
                f"there is no tree1-{algorithm}: SHA-256 is the only hash of trees",
                reason="digest-kind",
                remedy="Leave out the choice of hash for folders.",
            )
        return tree1(content)
    _require(kind, "table1", "a table")
    return table1(content, algorithm=algorithm, threads=threads)


def _require(kind: str | None, own: str, what: str) -> None:
    if kind not in {None, own}:
        raise ConfigError(f"{what} has no {kind} digest", reason="digest-kind", remedy=f"Use {own}.")


@dataclass(frozen=True, slots=True)
class Checked:
    """What became of one line of a list: ``error`` is there when no digest could be taken."""

    expected: Digest
    actual: Digest | None
    error: ProvenanceError | None

    @property
    def holds(self) -> bool:
        """Whether what is there has the digest of the list."""
        return self.actual == self.expected


def check(expected: Digest, take: Callable[[str, str], Digest]) -> Checked:
    """Compare a digest of a list with what is there now.

    Args:
        expected: as the list has it.
        take: digests the listed path in a kind and with an algorithm. Its errors are part of the result: a
            file that is gone or damaged has failed.
    """
    kind, _, algorithm = expected.kind.rpartition("-")
    try:
        return Checked(expected, take(kind or "sha256", algorithm), None)
    except ProvenanceError as error:
        return Checked(expected, None, error)
