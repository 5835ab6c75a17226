"""The pipeline's own source as a run finds it: its Python files, the commit they belong to, its lock file.

Whose source that is follows from the program that runs: the package of a ``python -m`` program, the file of a
script. In a notebook there is none; its cells are known by the stages that they define.
"""

from __future__ import annotations

import contextlib
import hashlib
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from provenance.core.digests import TreeEntry

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["SourceFacts", "source_facts"]

_MAX_FILES = 10_000
_MAX_BYTES = 16 << 20  # of one file of source; beyond that it is data
_GIT_SECONDS = 20
_LOCKS = (
    "uv.lock",
    "pylock.toml",
    "poetry.lock",
    "pdm.lock",
    "Pipfile.lock",
    "requirements/lock.txt",
    "requirements.txt",
)


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """What a run record says of the source.

    Attributes:
        entries: the Python files.
        commit: in hex, if they lie in a git repository.
        dirty: whether something there differs from the commit, or there is none.
        lockfile: SHA-256 of the nearest lock file upwards.
        root: the folder of the source; empty without one.
    """

    entries: tuple[TreeEntry, ...] = ()
    commit: str | None = None
    dirty: bool = True
    lockfile: bytes | None = None
    root: str = ""


def source_facts(program: str | None = None) -> SourceFacts:
    """Read the facts.

    Args:
        program: the file of the program; that of the running main module if None.
    """
    path = program or getattr(sys.modules.get("__main__"), "__file__", None)
    if path is None or not Path(path).is_file():
        return SourceFacts()
    file = Path(path).resolve()
    root, files = _package(file)
    entries = tuple(_entries(root, files))
    commit, dirty = _commit(root)
    return SourceFacts(entries, commit, dirty, _lockfile(root), str(root))


def _package(file: Path) -> tuple[Path, list[Path]]:
    """(root, files): the topmost package that the file is in, or the file alone."""
    top = file.parent
    if not (top / "__init__.py").is_file():
        return top, [file]
    while (top.parent / "__init__.py").is_file():
        top = top.parent
    return top.parent, sorted(top.rglob("*.py"))[:_MAX_FILES]


def _entries(root: Path, files: list[Path]) -> Iterator[TreeEntry]:
    for file in files:
        with contextlib.suppress(OSError):  # gone meanwhile
            if file.stat().st_size <= _MAX_BYTES:
                data = file.read_bytes()
                yield TreeEntry(file.relative_to(root).as_posix(), len(data), hashlib.sha256(data).digest())


def _commit(root: Path) -> tuple[str | None, bool]:
    head = _git(root, "rev-parse", "--verify", "HEAD")
    if head is None:
        return None, True
    changed = _git(root, "status", "--porcelain", "--untracked-files=no")
    return head.strip(), changed is None or bool(changed.strip())


def _git(root: Path, *arguments: str) -> str | None:
    """What git says; None without git or without a repository."""
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=_GIT_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def _lockfile(root: Path) -> bytes | None:
    for folder in (root, *root.parents):
        for name in _LOCKS:
            with contextlib.suppress(OSError):
                if (folder / name).is_file():
                    return hashlib.sha256((folder / name).read_bytes()).digest()
        if (folder / ".git").exists() or (folder / "pyproject.toml").exists():
            return None
    return None
