"""Folders as trees: the regular files below them, by the rules of spec/digests.md, "tree1".

A symbolic link counts as the file that it ends at, if that lies below the same folder; every other link and
every special file is refused by name. Names are looked at before the first byte is hashed.
"""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from provenance.adapters.formats.files import reaching, sha256_file, shown
from provenance.core.digests import TreeEntry, tree_order
from provenance.errors import ConfigError, MalformedError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["folder_entries", "folder_paths"]

_SPECIAL = (
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISBLK, "a block device"),
    (stat.S_ISCHR, "a character device"),
)


def folder_paths(root: Path | str) -> Iterator[tuple[str, str]]:
    """Every file below a folder, in no order: its ``/`` path below it, and the place of its bytes.

    The two differ where a symbolic link stands for another file below the same folder.

    Raises:
        MalformedError: ``tree-link``, ``tree-special``; the message names the entry.
        ConfigError: ``not-a-folder``, ``no-such-file``.
        UnavailableError: a folder cannot be read.
    """
    with reaching(root):
        top = os.path.realpath(root, strict=True)
        if not stat.S_ISDIR(os.stat(top).st_mode):  # noqa: PTH116 - names may be no text, pathlib adds nothing
            raise ConfigError(f"{shown(root)}: expected a folder", reason="not-a-folder")
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        with reaching(os.path.join(top, folder)), os.scandir(os.path.join(top, folder)) as found:  # noqa: PTH118
            entries = [(entry.name, entry.stat(follow_symlinks=False).st_mode) for entry in found]
        for name, mode in entries:
            path = f"{folder}{name}"
            if stat.S_ISDIR(mode):
                waiting.append(f"{path}/")
            else:
                yield path, _place(top, path, mode)


def _place(top: str, path: str, mode: int) -> str:
    full = f"{top.rstrip('/')}/{path}"
    if stat.S_ISREG(mode):
        return full
    if stat.S_ISLNK(mode):
        return _target(top, path, full)
    kind = next((text for test, text in _SPECIAL if test(mode)), "no regular file")
    raise MalformedError(
        f"{shown(path)}: it is {kind}",
        reason="tree-special",
        remedy="Move it out of the folder: a tree holds regular files only.",
    )


def _target(top: str, path: str, full: str) -> str:
    try:
        target = os.path.realpath(full, strict=True)
        regular = stat.S_ISREG(os.stat(target).st_mode)  # noqa: PTH116 - as above
    except OSError:  # it dangles, or goes round in circles
        target, regular = "", False
    if not regular or not Path(target).is_relative_to(top):
        raise MalformedError(
            f"{shown(path)}: a link that does not end at a regular file below the same folder",
            reason="tree-link",
            remedy="Put the file itself in its place, or remove the link.",
        )
    return target


def folder_entries(root: Path | str, *, threads: int = 1) -> tuple[TreeEntry, ...]:
    """The entries of the folder's ``tree1``, in their order.

    Raises:
        MalformedError: as `folder_paths`, and as `tree_order` for names.
        ConfigError, UnavailableError: as `folder_paths`; a file vanished or cannot be read.
    """
    found = list(folder_paths(root))
    tree_order(TreeEntry(path, 0, bytes(32)) for path, _ in found)
    hashed = partial(_hashed)
    if threads == 1:
        return tree_order(map(hashed, found))
    with ThreadPoolExecutor(threads, "digest") as pool:
        return tree_order(pool.map(hashed, found))


def _hashed(found: tuple[str, str]) -> TreeEntry:
    path, place = found
    digest = sha256_file(place)
    return TreeEntry(path, digest.nbytes, digest.value)
