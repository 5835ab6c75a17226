"""The batch store in a folder: one file per object, created once and never overwritten.

An object is staged and synced, then linked to its name, which fails if the name is taken; so two batchers
that put one object at once leave one file, and a reader never sees half of it. Names are lower-case paths
without ``..``; nothing is reached through a symbolic link.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from provenance import files
from provenance.errors import MalformedError, MismatchError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["DEFAULT_LIMIT", "FolderStore"]

DEFAULT_LIMIT = 256 << 20
_MAX_NAME = 512
_PART = re.compile(
    r"[0-9a-z_-][0-9a-z._-]{0,199}"
)  # no dot first: staged files are hidden, and .. is no name


class FolderStore:
    """A `BatchStore` in a folder, which is made when the first object is put.

    Args:
        root: the folder.
        limit: the size that no object may exceed, in bytes.
    """

    def __init__(self, root: Path, *, limit: int = DEFAULT_LIMIT) -> None:
        self._root = root
        self._limit = limit

    def put(self, name: str, data: bytes) -> None:
        """Create the object; synced, name and all, when it returns."""
        path = self._path(name)
        if len(data) > self._limit:
            raise MalformedError(
                f"object {name}: {len(data)} bytes, expected at most {self._limit}", reason="too-long"
            )
        files.make_folder(path.parent)
        self._require_no_link(path)
        if files.create_file(path, data):
            return
        found = files.read_file(path, self._limit)
        if found != data:
            raise MismatchError(
                f"object {name}",
                expected=f"the {len(data)} bytes offered",
                actual="absent" if found is None else f"{len(found)} other bytes",
                reason="object-differs",
                remedy="See who wrote the other bytes: a stored object never changes.",
            )

    def get(self, name: str) -> bytes | None:
        """The object's bytes, or None."""
        path = self._path(name)
        self._require_no_link(path)
        return None if path.is_dir() else files.read_file(path, self._limit)

    def names(self, prefix: str) -> Iterator[str]:
        """The names that begin with the prefix, ascending; files with other names are passed by."""
        yield from _walk(self._root, "", prefix)

    def delete(self, name: str) -> None:
        """Remove the object, durably."""
        path = self._path(name)
        self._require_no_link(path)
        if path.is_dir():
            return
        try:
            path.unlink()
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise files.refused(error, path, "remove") from error
        files.sync_folder(path.parent)

    def _path(self, name: str) -> Path:
        parts = name.split("/")
        if len(name) > _MAX_NAME or not all(_PART.fullmatch(part) for part in parts):
            raise MalformedError(
                f"object name {name!r:.160}: expected parts of a-z, 0-9, '.', '_' and '-', separated by '/',"
                " none of which begins with '.'",
                reason="object-name",
            )
        return self._root.joinpath(*parts)

    def _require_no_link(self, path: Path) -> None:
        for folder in path.relative_to(self._root).parents:
            place = self._root / folder
            if place != self._root and place.is_symlink():
                raise MalformedError(
                    f"{place}: a symbolic link in the batch store",
                    reason="symbolic-link",
                    remedy="Replace the link by the folder that it leads to.",
                )


def _walk(folder: Path, above: str, prefix: str) -> Iterator[str]:
    for name, is_folder in _entries(folder):
        full = above + name
        if not is_folder:
            if full.startswith(prefix):
                yield full
        elif full.startswith(prefix) or prefix.startswith(full):
            yield from _walk(folder / name, full, prefix)


def _entries(folder: Path) -> list[tuple[str, bool]]:
    """Names in a folder, in the order of whole names: a folder's has the ``/`` that follows it."""
    try:
        with os.scandir(folder) as entries:
            found = [
                (f"{entry.name}/" if entry.is_dir(follow_symlinks=False) else entry.name, entry)
                for entry in entries
                if _PART.fullmatch(entry.name)
            ]
            return sorted(
                (name, name.endswith("/"))
                for name, entry in found
                if name.endswith("/") or entry.is_file(follow_symlinks=False)
            )
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise files.refused(error, folder, "list") from error
