"""The files that sources and sinks left on this machine, read again for an audit or beside a proof.

Bytes are read in chunks and hashed; nothing is decoded and nothing is kept. What is no regular file is
refused by name, so that a pipe or a device put in a file's place cannot hold an audit up.
"""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from provenance import files
from provenance.core.digests import TreeEntry
from provenance.errors import MalformedError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["LocalFiles"]

_CHUNK = 1 << 20


class LocalFiles:
    """A `StoredFiles` over the local file system. Paths are absolute or from the working directory."""

    def file(self, path: str) -> TreeEntry | None:
        """Size and SHA-256 of a regular file, links followed; None if there is none."""
        place = Path(path)
        hasher, size = hashlib.sha256(), 0
        try:
            # Not to wait for a writer where a pipe lies in the file's place.
            descriptor = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                _require_regular(os.fstat(descriptor).st_mode, place)
                while chunk := os.read(descriptor, _CHUNK):
                    hasher.update(chunk)
                    size += len(chunk)
            finally:
                os.close(descriptor)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None
        except OSError as error:
            raise files.refused(error, place, "read") from error
        return TreeEntry(path, size, hasher.digest())

    def paths(self, folder: str) -> Iterator[str]:
        """The regular files below a folder, in the order of ``tree1``."""
        root = Path(folder)
        try:
            real = Path(os.path.realpath(root, strict=True))
        except FileNotFoundError:
            return
        except OSError as error:
            raise files.refused(error, root, "read") from error
        if real.is_dir():
            yield from _below(real, real, "")


def _below(root: Path, folder: Path, prefix: str) -> Iterator[str]:
    try:
        with os.scandir(folder) as scan:
            entries = sorted(scan, key=_sort_key)
    except OSError as error:
        raise files.refused(error, folder, "read") from error
    for entry in entries:
        name = f"{prefix}{_text(entry.name)}"
        if entry.is_dir(follow_symlinks=False):
            yield from _below(root, Path(entry.path), f"{name}/")
            continue
        if entry.is_symlink():
            _require_link_within(root, Path(entry.path))
        elif not entry.is_file(follow_symlinks=False):
            _require_regular(entry.stat(follow_symlinks=False).st_mode, Path(entry.path))
        yield name


def _sort_key(entry: os.DirEntry[str]) -> bytes:
    # A folder sorts as its paths do, which go on with a slash: so the whole walk ascends.
    return os.fsencode(entry.name) + (b"/" if entry.is_dir(follow_symlinks=False) else b"")


def _text(name: str) -> str:
    try:
        name.encode()
    except UnicodeEncodeError as error:
        shown = os.fsencode(name).decode("utf-8", "backslashreplace")
        raise MalformedError(f"the name of {shown!r:.200} is not UTF-8", reason="name-not-utf8") from error
    return name


def _require_link_within(root: Path, link: Path) -> None:
    target = Path(os.path.realpath(link))
    if not (target.is_relative_to(root) and target.is_file()):
        raise MalformedError(
            f"{link}: a link that does not end at a file below {root}",
            reason="link",
            remedy="Replace the link by the file that it stands for.",
        )


def _require_regular(mode: int, path: Path) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(path)
    if not stat.S_ISREG(mode):
        raise MalformedError(f"{path}: neither a file nor a folder", reason="special-file")
