"""Which format a path holds, and the reader for the digest that is wanted of it."""

from __future__ import annotations

import enum
import os
import stat
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from provenance.adapters.formats.arrays import read_npy, read_zarr
from provenance.adapters.formats.audio import read_audio
from provenance.adapters.formats.files import file_bytes, open_regular, reaching, shown
from provenance.adapters.formats.folders import folder_entries
from provenance.adapters.formats.tables import (
    is_arrow_stream,
    read_arrow_file,
    read_arrow_stream,
    read_csv,
    read_parquet,
)
from provenance.errors import ConfigError, MalformedError

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa
    from numpy.typing import NDArray

    from provenance.core.digests import FileBytes, TreeEntry

__all__ = ["Content", "read_path"]

Content: TypeAlias = "pa.Table | NDArray[Any] | tuple[TreeEntry, ...] | FileBytes"
"""What digests are taken of: ``table1``, ``array1``, ``tree1`` and ``sha256``, in this order."""


class Form(enum.Enum):
    """What a path holds, in the words of messages."""

    PARQUET = "a Parquet file"
    ARROW_FILE = "an Arrow file"
    ARROW_STREAM = "an Arrow stream"
    CSV = "a CSV file"
    TSV = "a CSV file with tabs"
    NPY = "a NumPy array"
    AUDIO = "a recording"
    ZARR = "a Zarr store"
    FOLDER = "a folder"
    OTHER = "a file of no format that is known here"


@dataclass(frozen=True, slots=True)
class _Reader:
    kind: str
    read: Callable[[Path], Content]


_READERS: dict[Form, _Reader] = {
    Form.PARQUET: _Reader("table1", read_parquet),
    Form.ARROW_FILE: _Reader("table1", read_arrow_file),
    Form.ARROW_STREAM: _Reader("table1", read_arrow_stream),
    Form.CSV: _Reader("table1", read_csv),
    Form.TSV: _Reader("table1", partial(read_csv, delimiter="\t")),
    Form.NPY: _Reader("array1", read_npy),
    Form.AUDIO: _Reader("array1", read_audio),
    Form.ZARR: _Reader("array1", read_zarr),
}

_SUFFIXES = {
    ".parquet": Form.PARQUET,
    ".pq": Form.PARQUET,
    ".arrow": Form.ARROW_FILE,
    ".ipc": Form.ARROW_FILE,
    ".arrows": Form.ARROW_STREAM,
    ".csv": Form.CSV,
    ".tsv": Form.TSV,
    ".npy": Form.NPY,
    ".wav": Form.AUDIO,
    ".wave": Form.AUDIO,
    ".flac": Form.AUDIO,
}
_MAGIC = (
    (b"PAR1", Form.PARQUET),
    (b"PARE", Form.PARQUET),
    (b"ARROW1", Form.ARROW_FILE),
    (b"\x93NUMPY", Form.NPY),
    (b"fLaC", Form.AUDIO),
)
_RIFF = (b"RIFF", b"RIFX", b"RF64", b"BW64")


def read_path(path: Path | str, kind: str | None = None, *, threads: int = 1) -> Content:
    """What is at the path, ready for the digest of its kind.

    Args:
        path: a file or folder; a symbolic link is followed.
        kind: ``"table1"``, ``"array1"``, ``"tree1"`` or ``"sha256"``; what fits the content if None.
        threads: how many files of a folder are hashed at once.

    Raises:
        ConfigError: there is nothing, it cannot be read in that kind, or an extra is not installed.
        MalformedError: it is damaged; `reason` says how, the message names the file.
        UnavailableError: the system cannot read it.
    """
    place = Path(path)
    with reaching(path):
        folder = stat.S_ISDIR(place.stat().st_mode)
    if folder and kind in {None, "tree1"}:
        return folder_entries(place, threads=threads)
    if kind == "sha256" and not folder:
        return file_bytes(place)
    form = _folder_form(place) if folder else _file_form(place)
    reader = _READERS.get(form)
    if kind is None and reader is None:
        return file_bytes(place)
    if reader is None or kind not in {None, reader.kind}:
        raise ConfigError(
            f"{shown(path)}: {form.value} has no {kind} digest",
            reason="digest-kind",
            remedy=f"Leave out the kind, or use {'tree1' if folder else 'sha256'}.",
        )
    return reader.read(place)


def _folder_form(path: Path) -> Form:
    with reaching(path):
        return Form.ZARR if (path / "zarr.json").exists() or (path / ".zarray").exists() else Form.FOLDER


def _file_form(path: Path) -> Form:
    """By content, else by suffix; but a format that begins in its own way is believed by that only."""
    with open_regular(path) as file, reaching(path):
        head = file.read(12)
        for magic, form in _MAGIC:
            if head.startswith(magic):
                return form
        if head[:4] in _RIFF and head[8:] == b"WAVE":
            return Form.AUDIO
        file.seek(0)
        if is_arrow_stream(file):
            return Form.ARROW_STREAM
        empty = os.fstat(file.fileno()).st_size == 0
    named = _SUFFIXES.get(path.suffix.lower(), Form.OTHER)
    if named in {Form.OTHER, Form.CSV, Form.TSV}:
        return named
    raise MalformedError(
        f"{shown(path)}: {'an empty file' if empty else 'its content'} is not {named.value}, as it is named",
        reason="empty" if empty else "not-what-it-is-named",
        remedy="Get the file again, or rename it; --kind sha256 digests its bytes as they are.",
    )
