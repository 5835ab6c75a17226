"""Which recordings lie below a folder, and who speaks in each.

Four layouts are told apart by what is there: LJSpeech's (``metadata.csv`` beside ``wavs/``, one speaker),
LibriSpeech's (``SPEAKER/CHAPTER/SPEAKER-CHAPTER-NUMBER.flac``), a folder per speaker, and a bare folder. A
table ``speakers.csv`` (``folder,speaker``) says which person a folder belongs to: one person may have
several.

A recording's name is its path below the root. It becomes part of a record, so a path that cannot be written
down in one way only is refused here: bytes that are not UTF-8, two names that differ by case or Unicode form
alone, a link out of the folder. Where table and files disagree, nothing is dropped: the recordings are
returned with a list of problems.
"""

from __future__ import annotations

import enum
import hashlib
import os
import re
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.audio import SUFFIXES
from pipeline.metadata import read_librispeech_speakers, read_ljspeech, read_speaker_map
from pipeline.unusable import show_name
from provenance.errors import ConfigError, MalformedError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["Layout", "Problem", "Recording", "Recordings", "discover"]

_LIBRISPEECH = re.compile(r"(?:.*/)?(\d+)/(\d+)/\1-\2-\d+\.[^/.]+")
_MAX_DEPTH = 64


class Layout(enum.StrEnum):
    """How a folder of recordings is arranged."""

    LJSPEECH = "ljspeech"
    LIBRISPEECH = "librispeech"
    SPEAKER_FOLDER = "speaker-folder"
    BARE = "bare"


@dataclass(frozen=True, slots=True)
class Recording:
    """One file.

    ``name`` is its path below the root, with ``/``; ``speaker`` is None where nothing says who speaks.
    """

    name: str
    path: Path
    speaker: str | None


@dataclass(frozen=True, slots=True)
class Problem:
    """A table and the files disagree.

    ``reason`` is one of ``file-missing``, ``row-missing``, ``folder-missing``, ``no-speaker``,
    ``speaker-unlisted``; ``name`` the recording, row or folder; ``message`` says it to people, with file and
    line.
    """

    reason: str
    name: str
    message: str


@dataclass(frozen=True, slots=True)
class Recordings:
    """What `discover` found: the recordings by ascending name (as UTF-8), and the problems beside them."""

    root: Path
    layout: Layout
    items: tuple[Recording, ...]
    problems: tuple[Problem, ...] = ()

    def speakers(self) -> tuple[str, ...]:
        """The speakers, each once, in ascending order."""
        return tuple(sorted({item.speaker for item in self.items if item.speaker is not None}))

    def check_complete(self) -> None:
        """Raise ``MalformedError`` for the first problem, if there is any."""
        for problem in self.problems:
            more = f" ({len(self.problems)} problems in all)" if len(self.problems) > 1 else ""
            raise MalformedError(
                problem.message + more,
                reason=problem.reason,
                remedy="mend the table or the folder, or let such recordings be set aside",
            )

    def sample(self, count: int, *, seed: int = 0) -> Recordings:
        """At most ``count`` recordings, those whose names hash lowest: about the same shares of speakers."""

        def rank(
            item: Recording,
        ) -> bytes:  # no other choice by hash, such as what is held out, may follow this one
            return hashlib.sha256(f"sample\0{seed}\0{item.name}".encode()).digest()

        ranked = sorted(self.items, key=rank)
        chosen = {item.name for item in ranked[:count]}
        items = tuple(item for item in self.items if item.name in chosen)
        return Recordings(self.root, self.layout, items, self.problems)


def discover(
    root: str | os.PathLike[str],
    *,
    layout: Layout | None = None,
    speakers: Mapping[str, str] | Path | None = None,
    dataset: str = "",
) -> Recordings:
    """Find the recordings below a folder.

    Args:
        root: the folder.
        layout: how it is arranged; found out if absent.
        speakers: the person behind each top folder, as a mapping or a ``speakers.csv``; the root's own by
            default.
        dataset: the one speaker's label in LJSpeech's layout; the folder's name by default.

    Raises:
        ConfigError: ``root`` is no folder, or holds no recording.
        MalformedError: a name, a link or a table is refused; ``reason`` says why.
        UnavailableError: a folder cannot be listed.
    """
    folder = Path(root)
    if not folder.is_dir():
        raise ConfigError(
            f"{show_name(str(root))} is no folder", remedy="give the folder that holds the recordings"
        )
    files = {name: folder / name for name in sorted(_walk(folder), key=str.encode)}
    if not files:
        wanted = ", ".join(sorted(SUFFIXES))
        raise ConfigError(
            f"no recording ({wanted}) below {show_name(str(root))}", remedy="give another folder"
        )
    _check_distinct(files)
    if speakers is None and (folder / "speakers.csv").is_file():
        speakers = folder / "speakers.csv"
    layout = layout or _detect(folder, files, mapped=speakers is not None)
    if layout is Layout.LJSPEECH:
        return _ljspeech(folder, files, dataset or folder.resolve().name)
    if layout is Layout.LIBRISPEECH:
        return _librispeech(folder, files)
    if layout is Layout.SPEAKER_FOLDER:
        table = read_speaker_map(speakers) if isinstance(speakers, Path) else speakers
        return _speaker_folders(folder, files, table)
    return _assemble(folder, layout, files, dict.fromkeys(files), [])


def _walk(root: Path) -> Iterator[str]:
    """The names of all recordings below the root; links and names that are refused raise."""
    real_root = root.resolve()
    pending = [("", 0)]
    while pending:
        prefix, depth = pending.pop()
        for entry in _entries(root / prefix):
            name = f"{prefix}{entry.name}"
            recording = Path(entry.name).suffix.lower() in SUFFIXES
            folder = _is_folder(entry)
            if not recording and not folder:
                continue
            _check_name(name)
            if entry.is_symlink():
                _check_link(Path(entry.path), name, real_root)
            if folder:
                if depth >= _MAX_DEPTH:
                    raise _refused("too-deep", name, f"lies more than {_MAX_DEPTH} folders deep")
                pending.append((f"{name}/", depth + 1))
            elif entry.is_file():
                yield name
            else:
                raise _refused("not-a-file", name, "is neither a file nor a folder")


def _entries(folder: Path) -> Sequence[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError as error:
        raise UnavailableError(
            f"{show_name(str(folder))} cannot be listed: {error.strerror}",
            reason="unreadable",
            remedy="mend its permissions or the disk, then run again",
        ) from error


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads to itself
        return False


def _check_name(name: str) -> None:
    try:
        name.encode()
    except UnicodeEncodeError:
        raise _refused("name-not-utf-8", name, "is not named in UTF-8") from None


def _check_link(path: Path, name: str, real_root: Path) -> None:
    """A link may stand for a file below the same root (spec/digests.md, "tree1"), and for nothing else."""
    try:
        target = path.resolve(strict=True)
    except (OSError, RuntimeError):
        raise _refused("link-broken", name, "is a link that leads nowhere") from None
    if not target.is_relative_to(real_root):
        raise _refused("link-escapes", name, "is a link out of the folder")
    if not target.is_file():
        raise _refused("link-to-folder", name, "is a link to something that is no file")


def _check_distinct(names: Mapping[str, Path]) -> None:
    """Refuse two paths that fall together by NFC or full case folding, folders on the way included."""
    seen: dict[str, str] = {}
    for name in names:
        parts = name.split("/")
        for end in range(1, len(parts) + 1):
            path = "/".join(parts[:end])
            folded = unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())
            if seen.setdefault(folded, path) != path:
                raise _refused(
                    "names-collide", path, f"differs from {show_name(seen[folded])} by case or form alone"
                )


def _refused(reason: str, name: str, detail: str) -> MalformedError:
    return MalformedError(f"{show_name(name)} {detail}", reason=reason, remedy="rename, replace or remove it")


def _detect(root: Path, files: Mapping[str, Path], *, mapped: bool) -> Layout:
    if mapped:
        return Layout.SPEAKER_FOLDER
    if (root / "metadata.csv").is_file() and (root / "wavs").is_dir():
        return Layout.LJSPEECH
    if (root / "SPEAKERS.TXT").is_file() or all(_LIBRISPEECH.fullmatch(name) for name in files):
        return Layout.LIBRISPEECH
    if all(name.startswith("wavs/") for name in files):
        raise MalformedError(
            "recordings lie in 'wavs', but there is no metadata.csv beside it",
            reason="metadata-missing",
            remedy="restore metadata.csv, or name another layout",
        )
    return Layout.SPEAKER_FOLDER if any("/" in name for name in files) else Layout.BARE


def _assemble(
    root: Path,
    layout: Layout,
    files: Mapping[str, Path],
    speakers: Mapping[str, str | None],
    problems: Sequence[Problem],
) -> Recordings:
    items = tuple(Recording(name, path, speakers[name]) for name, path in files.items())
    return Recordings(root, layout, items, tuple(problems))


def _ljspeech(root: Path, files: Mapping[str, Path], speaker: str) -> Recordings:
    table = root / "metadata.csv"
    rows = read_ljspeech(table)
    found: dict[str, str] = {}
    for name in files:
        row = name.removeprefix("wavs/").rpartition(".")[0]
        if row in found:
            raise _refused(
                "names-collide", name, f"and {show_name(found[row])} are both for one row of metadata.csv"
            )
        found[row] = name
    problems = [
        Problem(
            "file-missing",
            row,
            f"'metadata.csv' line {line}: there is no recording {show_name(row)} in 'wavs'",
        )
        for row, line in rows.items()
        if row not in found
    ]
    problems += [
        Problem("row-missing", name, f"{show_name(name)} has no row in 'metadata.csv'")
        for row, name in found.items()
        if row not in rows
    ]
    return _assemble(root, Layout.LJSPEECH, files, dict.fromkeys(files, speaker), problems)


def _librispeech(root: Path, files: Mapping[str, Path]) -> Recordings:
    table = root / "SPEAKERS.TXT"
    listed = read_librispeech_speakers(table) if table.is_file() else None
    speakers: dict[str, str | None] = {}
    problems = []
    for name in files:
        match = _LIBRISPEECH.fullmatch(name)
        speakers[name] = speaker = match[1] if match else None
        if speaker is None:
            problems.append(
                Problem(
                    "no-speaker",
                    name,
                    f"{show_name(name)} is not named SPEAKER/CHAPTER/SPEAKER-CHAPTER-NUMBER",
                )
            )
        elif listed is not None and speaker not in listed:
            problems.append(
                Problem("speaker-unlisted", name, f"{show_name(name)}: no reader {speaker} in 'SPEAKERS.TXT'")
            )
    return _assemble(root, Layout.LIBRISPEECH, files, speakers, problems)


def _speaker_folders(root: Path, files: Mapping[str, Path], table: Mapping[str, str] | None) -> Recordings:
    speakers: dict[str, str | None] = {}
    problems = []
    folders = set()
    for name in files:
        folder, inside, _ = name.partition("/")
        folders.add(folder if inside else "")
        speakers[name] = None if not inside else folder if table is None else table.get(folder)
        if speakers[name] is None:
            why = (
                f"folder {show_name(folder)} is not in the table of speakers"
                if inside
                else "lies in no speaker's folder"
            )
            problems.append(Problem("no-speaker", name, f"{show_name(name)}: {why}"))
    problems += [
        Problem(
            "folder-missing",
            folder,
            f"the table of speakers names {show_name(folder)}, which holds no recording",
        )
        for folder in (table or {})
        if folder not in folders
    ]
    return _assemble(root, Layout.SPEAKER_FOLDER, files, speakers, problems)
