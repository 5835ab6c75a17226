"""The small text tables that lie beside recordings, read strictly.

A table that is wrong in one line is not trusted in the others: a duplicate, a ragged row or a byte that is
not UTF-8 is an error that names file and line. Whether rows and files agree with each other is the business
of `layouts`.
"""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from pipeline.unusable import show_name
from provenance.errors import MalformedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

__all__ = ["read_librispeech_speakers", "read_ljspeech", "read_speaker_map"]

_MAX_BYTES = 64 << 20


def read_ljspeech(path: Path) -> dict[str, int]:
    """The ids in LJSpeech's ``metadata.csv`` and the line of each.

    Lines are ``id|text|normalised text``, without quoting and without a header.

    Raises:
        MalformedError: ``unreadable``, ``too-large``, ``not-utf-8``, ``ragged-row``, ``empty-field``,
            ``bad-id``,
            ``duplicate-row``.
    """
    rows = ((line, text.split("|")) for line, text in _lines(path) if text)
    ids = _unique(path, rows)
    for name, line in ids.items():
        if "/" in name or "\0" in name or name in (".", ".."):
            raise _wrong(path, line, "bad-id", f"the id {show_name(name)} is no file name")
    return ids


def read_speaker_map(path: Path) -> dict[str, str]:
    """The person behind each folder: a CSV file (RFC 4180) with the header ``folder,speaker``.

    Several folders may name one speaker.

    Raises:
        MalformedError: ``unreadable``, ``too-large``, ``not-utf-8``, ``bad-header``, ``bad-quoting``,
            ``ragged-row``,
            ``empty-field``, ``duplicate-row``.
    """
    rows = _csv_rows(path)
    if not rows or rows[0][1] != ["folder", "speaker"]:
        raise _wrong(path, 1, "bad-header", "expected the header folder,speaker")
    _unique(path, iter(rows[1:]), fields=2)
    return {folder: speaker for _, (folder, speaker) in rows[1:]}


def read_librispeech_speakers(path: Path) -> dict[str, int]:
    """The reader ids in LibriSpeech's ``SPEAKERS.TXT`` and the line of each.

    Lines are ``id | sex | subset | minutes | name``; a name may hold ``|``; lines that begin with ``;`` are
    comments.

    Raises:
        MalformedError: ``unreadable``, ``too-large``, ``not-utf-8``, ``ragged-row``, ``empty-field``,
            ``duplicate-row``.
    """
    rows = (
        (line, [field.strip() for field in text.split("|", 4)])
        for line, text in _lines(path)
        if text.strip() and not text.startswith(";")
    )
    return _unique(path, rows, fields=5)


def _unique(path: Path, rows: Iterator[tuple[int, list[str]]], *, fields: int = 0) -> dict[str, int]:
    """Each row's first field and its line.

    ``fields`` is what every row must have, by default what the first one has.
    """
    seen: dict[str, int] = {}
    for line, row in rows:
        fields = fields or len(row)
        if len(row) != fields or fields < 2:
            raise _wrong(path, line, "ragged-row", f"expected {max(fields, 2)} fields, found {len(row)}")
        if not row[0] or not row[1]:
            raise _wrong(path, line, "empty-field", "the first two fields may not be empty")
        if row[0] in seen:
            raise _wrong(
                path, line, "duplicate-row", f"{show_name(row[0])} stands in line {seen[row[0]]} already"
            )
        seen[row[0]] = line
    return seen


def _lines(path: Path) -> list[tuple[int, str]]:
    """Numbered lines.

    Only line feeds end one, since texts may hold other characters that Python takes for ends.
    """
    return [(number, line.removesuffix("\r")) for number, line in enumerate(_read(path).split("\n"), 1)]


def _csv_rows(path: Path) -> Sequence[tuple[int, list[str]]]:
    reader = csv.reader(io.StringIO(_read(path), newline=""), strict=True)
    try:
        return [(reader.line_num, row) for row in reader if row]
    except csv.Error as error:
        raise _wrong(path, reader.line_num, "bad-quoting", str(error)) from error


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise MalformedError(
            f"{show_name(path.name)} cannot be read: {error.strerror}",
            reason="unreadable",
            remedy="check that it is there and may be read, then run again",
        ) from error
    if len(data) > _MAX_BYTES:
        raise _wrong(path, 1, "too-large", f"the table is longer than {_MAX_BYTES} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise _wrong(path, line, "not-utf-8", f"byte 0x{data[error.start]:02x} is not UTF-8") from error


def _wrong(path: Path, line: int, reason: str, detail: str) -> MalformedError:
    return MalformedError(
        f"{show_name(path.name)} line {line}: {detail}",
        reason=reason,
        remedy="mend that line, then run again",
    )
