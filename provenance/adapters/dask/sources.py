"""Files as a source: which there are, how they are grouped into partitions, and how a worker reads them.

The source owns its reader. A file is read once, and the bytes that are hashed are the bytes that the first
stage gets. Small files are grouped by size, so that a million recordings are not a million tasks; a group
holds one key only (one speaker), so that a partition's record can name it.

The driver refuses names that could not be recorded or would be ambiguous, and links that lead out of the
root. What cannot be read is found by the worker, and set aside as ``unreadable``: its record stands all the
same.
"""

from __future__ import annotations

import os
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from provenance import files
from provenance.adapters.dask.steps import Made
from provenance.core.lineage import name_cost
from provenance.core.partitions import File
from provenance.core.schemas import MAX_SUBJECTS
from provenance.core.tokens import key_token, name_token
from provenance.errors import ConfigError, MalformedError, Rejected, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from provenance.adapters.dask.steps import Work

__all__ = ["FileGroup", "Found", "ReadFiles", "find_files", "group_files", "tokens_of"]

_MAX_NAME_COST = 14_000  # bytes of names in one record; the inputs of the next stage need as much again
_MAX_PATHS = 32_000  # bytes of paths in one group: it is one row of the private store
_MAX_PLAIN_NAME = 400
_GLOB = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class Found:
    """One file of a source: its path below the root, its real path, its size in bytes, its key."""

    path: str
    real: str
    size: int
    key: str | int | None = None


@dataclass(frozen=True, slots=True)
class FileGroup:
    """The files of one partition: (name in records, real path, suffix), and their key's token."""

    entries: tuple[tuple[str, str, str], ...]
    key: str | None = None

    def __repr__(self) -> str:
        """Without paths: Dask writes arguments into its logs."""
        return f"<{len(self.entries)} files>"


@dataclass(frozen=True, slots=True)
class ReadFiles:
    """Reads the files of a group; ``limit`` is the size in bytes that none may exceed."""

    limit: int

    def apply(self, work: Work) -> Made:
        """The files with their bytes."""
        group: FileGroup = work.payload
        items = [self._read(name, path, suffix, group.key) for name, path, suffix in group.entries]
        return Made(items, (), group.key)

    def _read(self, name: str, path: str, suffix: str, key: str | None) -> File:
        item = File(name, None, key, suffix)
        try:
            data = files.read_file(Path(path), self.limit)
        except MalformedError as error:
            return item.reject(Rejected("too-large" if error.reason == "too-long" else "unreadable"))
        except UnavailableError:
            return item.reject(Rejected("unreadable"))
        return item.reject(Rejected("unreadable")) if data is None else item.with_data(data)


# ---------------------------------------------------------------------------------------------- on the driver


def find_files(
    where: str | Path | Iterable[str | Path], *, root: str | Path | None = None
) -> tuple[Path, list[Found]]:
    """The root, and the files by ascending path.

    Args:
        where: a folder (all files below it), a pattern with ``*``, ``?``, ``[…]`` or ``**``, or paths.
        root: what names are relative to; by default the folder, or the pattern's part before the first
            wildcard.

    Raises:
        ConfigError: ``no-files``, ``no-root``.
        MalformedError: ``name-not-utf8``, ``name-too-long``, ``names-collide``, ``link-escapes``,
            ``link-to-folder``, ``not-a-file``; the file is named.
        UnavailableError: a folder cannot be read.
    """
    if root is not None:
        files.refuse_address(root)
    if isinstance(where, str | Path):
        base, paths = _expand(str(where))
    else:
        paths = [_local(path) for path in where]
        base = Path(os.path.commonpath([path.absolute().parent for path in paths])) if paths else Path()
    base = Path(root) if root is not None else base
    if not base.is_dir():
        raise ConfigError(
            f"{show(str(base))}: there is no such folder",
            reason="no-root",
            remedy="Give the folder that holds the files, or a pattern below it.",
        )
    real_root = base.resolve()
    found = sorted((_look_at(path, base, real_root) for path in paths), key=lambda file: file.path.encode())
    if not found:
        raise ConfigError(
            f"{show(str(where) if isinstance(where, str | Path) else str(base))}: no file matches",
            reason="no-files",
            remedy="Check the pattern; ** stands for any folders.",
        )
    _check_distinct(found)
    return real_root, found


def _local(place: str | Path) -> Path:
    """A path of this machine; an address may hold a password, and is repeated nowhere."""
    path = Path(str(place).removeprefix("file://"))
    if not path.exists():
        remedy = "Copy or mount the files, or read them with Dask and give run.collection(…)."
        files.refuse_address(path, remedy=remedy)
    return path


def _expand(text: str) -> tuple[Path, list[Path]]:
    place = _local(text)
    text = str(place)
    if place.is_dir():
        return place, _below(place)
    if place.is_file() or not _GLOB & set(text):
        return place.parent, [place] if place.exists() or place.is_symlink() else []
    fixed = []
    for part in place.parts:
        if _GLOB & set(part):
            break
        fixed.append(part)
    base = Path(*fixed) if fixed else Path()
    pattern = str(Path(*place.parts[len(fixed) :]))
    if "**" in pattern:
        _below(base)  # what could not be entered would be left out without a word
    try:
        return base, [path for path in base.glob(pattern) if not path.is_dir()]
    except (ValueError, NotImplementedError) as error:
        raise ConfigError(
            f"pattern {show(text)}: {error}",
            reason="pattern",
            remedy="Let ** stand for whole folders: recordings/**/*.wav",
        ) from error


def _below(base: Path) -> list[Path]:
    """Every file below a folder. One that cannot be entered is refused: no file may be left out silently."""
    found: list[Path] = []
    for folder, inner, names in os.walk(base, onerror=_not_entered):
        for name in inner:
            place = Path(folder) / name
            if place.is_symlink():  # it is not entered: it may lead out of the root, or in a circle
                raise _refused("link-to-folder", str(place), "is a link to a folder")
        found += [Path(folder) / name for name in names]
    return found


def _not_entered(error: OSError) -> None:
    raise files.refused(error, Path(error.filename), "read") from error


def _look_at(path: Path, base: Path, real_root: Path) -> Found:
    """One file, checked: a name that can be written down, and a place below the root."""
    absolute = Path(os.path.normpath(path.absolute()))
    try:
        relative = absolute.relative_to(os.path.normpath(base.absolute())).as_posix()
    except ValueError:
        raise _refused("outside", str(path), "lies outside the root") from None
    try:
        relative.encode()
    except UnicodeEncodeError:
        raise _refused("name-not-utf8", relative, "is not named in UTF-8") from None
    try:
        real = absolute.resolve(strict=True)
    except (OSError, RuntimeError):
        if absolute.is_symlink():
            raise _refused("link-broken", relative, "is a link that leads nowhere") from None
        return Found(relative, str(absolute), 0)  # gone or not to be reached: the worker will say so
    if not real.is_relative_to(real_root):
        raise _refused("link-escapes", relative, "is a link out of the root")
    if not real.is_file():
        raise _refused("not-a-file", relative, "is no regular file")
    return Found(relative, str(real), real.stat().st_size)


def _check_distinct(found: Sequence[Found]) -> None:
    """Two paths that are one in NFC would have one token."""
    seen: dict[str, str] = {}
    for file in found:
        form = unicodedata.normalize("NFC", file.path)
        other = seen.get(form)
        if other == file.path:
            raise _refused("names-collide", file.path, "was given twice")
        if other is not None:
            raise _refused(
                "names-collide", file.path, f"differs from {show(other)} by its Unicode form alone"
            )
        seen[form] = file.path


def _refused(reason: str, name: str, detail: str) -> MalformedError:
    return MalformedError(f"{show(name)} {detail}", reason=reason, remedy="Rename, replace or remove it.")


def show(name: str) -> str:
    """A file's name on one line, whatever it holds."""
    text = name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
    return f"'{shown[:200]}…'" if len(shown) > 200 else f"'{shown}'"


def tokens_of(
    found: Sequence[Found], secret: bytes, *, personal: bool
) -> Iterator[tuple[Found, str, str | None]]:
    """(file, name in records, key token) of every file."""
    keys: dict[str | int, str] = {}
    for file in found:
        if not personal and len(file.path) > _MAX_PLAIN_NAME:
            raise _refused("name-too-long", file.path, f"has more than {_MAX_PLAIN_NAME} characters")
        name = name_token(secret, file.path) if personal else unicodedata.normalize("NFC", file.path)
        if file.key is not None and file.key not in keys:
            keys[file.key] = key_token(secret, file.key)
        yield file, name, None if file.key is None else keys[file.key]


def group_files(
    named: Iterable[tuple[Found, str, str | None]], *, target_bytes: int, most: int = MAX_SUBJECTS
) -> list[list[tuple[Found, str, str | None]]]:
    """Files into partitions: of one key each, by path, up to a size and a number.

    Args:
        named: as `tokens_of` yields them.
        target_bytes: a group is closed before it exceeds this, unless one file alone does.
        most: files in a group, at most 200.
    """
    ordered = sorted(named, key=lambda entry: (entry[2] or "", entry[0].path.encode()))
    groups: list[list[tuple[Found, str, str | None]]] = []
    size = cost = paths = 0
    for entry in ordered:
        file, name, key = entry
        here = (file.size, name_cost(name), len(file.real.encode("utf-8", "surrogateescape")) + 8)
        full = (
            not groups
            or groups[-1][0][2] != key
            or len(groups[-1]) >= min(most, MAX_SUBJECTS)
            or size + here[0] > target_bytes
            or cost + here[1] > _MAX_NAME_COST
            or paths + here[2] > _MAX_PATHS
        )
        if full:
            groups.append([])
            size = cost = paths = 0
        groups[-1].append(entry)
        size, cost, paths = size + here[0], cost + here[1], paths + here[2]
    return groups


def with_keys(found: Iterable[Found], key: Callable[[str], str | int | None]) -> list[Found]:
    """The files with what ``key`` says of each path below the root."""
    return [Found(file.path, file.real, file.size, key(file.path)) for file in found]
