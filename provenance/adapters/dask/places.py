"""Where a sink's files lie while a run writes them, and how they get to their place.

A store is built beside its place, in ``.NAME.RUN.partial``: each partition is written to a name of its own
and linked or renamed into the building once its record is on the log, and never replaces one that is there;
at the end the driver renames the whole. So a killed worker leaves no half shard, a failed run leaves the
place free for the next, and a worker that was given up for dead can change nothing any more.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from provenance import files
from provenance.core.digests import TreeEntry, tree1
from provenance.errors import ConfigError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from provenance.core.kinds import Partition

__all__ = ["Building", "hash_file", "holds", "read_tree"]

_CHUNK = 1 << 20
_WAITING = "waiting"


@dataclass(frozen=True, slots=True)
class Building:
    """A store under construction: its final place and the run that builds it (its id in hex)."""

    place: str
    run: str

    def __repr__(self) -> str:
        """Without the path: Dask writes arguments into its logs."""
        return "<store>"

    @property
    def path(self) -> Path:
        """The folder that is built."""
        place = Path(self.place)
        return place.with_name(f".{place.name}.{self.run[:16]}.partial")

    def check_free(self) -> None:
        """Raise ``ConfigError`` if something is at the store's place."""
        if Path(self.place).exists() or Path(self.place).is_symlink():
            raise ConfigError(
                f"{self.place}: there is something at this place already",
                reason="store-exists",
                remedy="Choose another path, or remove what is there: nothing is ever overwritten.",
            )

    def begin(self) -> None:
        """Make the folders."""
        files.make_folder(self.path / _WAITING)

    def check_begun(self) -> None:
        """Raise ``UnavailableError`` unless the driver's folders are to be seen from here, on a worker."""
        if not (self.path / _WAITING).is_dir():
            raise UnavailableError(
                f"{self.place}: what the driver began there is not to be seen from a worker",
                reason="other-disk",
                remedy="Write to a path that driver and workers share. A run that ended writes nothing more.",
            )

    @contextlib.contextmanager
    def waiting(self) -> Iterator[Path]:
        """A name of one's own for what is written before it is moved in; removed if it is not moved."""
        place = self.path / _WAITING / secrets.token_hex(8)
        try:
            yield place
        except OSError as error:
            discard(place)
            raise files.refused(error, Path(self.place), "write") from error
        except BaseException:
            discard(place)
            raise

    def commit(self, waiting: Path, name: str) -> bool:
        """Give what was written its name in the store, in one step; what has that name already stays.

        Returns:
            Whether this call did it.
        """
        target = self.path / name
        try:
            if waiting.is_dir():
                sync_tree(waiting)
                waiting.rename(target)  # fails if it is there: a folder that is not empty is never replaced
            else:
                target.hardlink_to(waiting)
                waiting.unlink()
        except OSError as error:
            discard(waiting)
            if target.exists():
                return False
            raise files.refused(error, Path(self.place), "write") from error
        files.sync_folder(self.path)
        return True

    def check_whole(self, entries: Sequence[TreeEntry]) -> None:
        """Raise ``UnavailableError`` unless every file that workers wrote is to be seen from here."""
        for entry in entries:
            place = self.path / entry.path
            if not place.is_file() or place.stat().st_size != entry.size:
                raise UnavailableError(
                    f"{self.place}: {entry.path}, which a worker wrote, is not to be seen from here",
                    reason="other-disk",
                    remedy="Write to a path that the driver and all workers share.",
                )

    def finish(self) -> None:
        """Give the whole store its place; nothing writes to it afterwards."""
        discard(self.path / _WAITING)
        self.check_free()
        try:
            self.path.rename(self.place)
        except OSError as error:
            raise files.refused(error, Path(self.place), "write") from error
        files.sync_folder(Path(self.place).parent)

    def abandon(self) -> None:
        """Remove what was built."""
        discard(self.path)

    def current(self, name: str) -> Path:
        """Where a part of the store is now: in its place, or in the building."""
        final = Path(self.place) / name
        return final if final.exists() else self.path / name


def holds(building: Building, partition: Partition) -> bool:
    """Whether every subject of a sink's record is what lies in the store, byte for byte."""
    return all(_is_there(building.current(subject.name), subject.digest) for subject in partition.subjects)


def _is_there(place: Path, digest: Mapping[str, str]) -> bool:
    try:
        if "tree1-sha256" in digest:
            return tree1(read_tree(place, "")).hex == digest["tree1-sha256"]
        return hash_file(place, "file").sha256.hex() == digest.get("sha256")
    except OSError:
        return False


def discard(place: Path) -> None:
    """Remove a file or folder, if it is there and can be."""
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            place.unlink(missing_ok=True)


def sync_tree(folder: Path) -> None:
    """Sync every file and folder below."""
    for path, _, names in os.walk(folder):
        for name in names:
            descriptor = os.open(Path(path) / name, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        files.sync_folder(Path(path))


def hash_file(path: Path, name: str) -> TreeEntry:
    """Size and SHA-256 of a file, under a name."""
    hasher, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            hasher.update(chunk)
            size += len(chunk)
    return TreeEntry(name, size, hasher.digest())


def read_tree(folder: Path, prefix: str) -> list[TreeEntry]:
    """The files below a folder as they are on disk now, under names that begin with the prefix."""
    return [
        hash_file(path, f"{prefix}{path.relative_to(folder).as_posix()}")
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    ]
