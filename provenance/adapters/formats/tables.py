"""Tables: Parquet, Arrow files and streams, CSV.

A table is read whole. Arrow data are validated in full before anything looks at their buffers: offsets and
indices in a file are whatever its writer put there.

**CSV** has no types: they are those that pyarrow infers (integers, floats, booleans, dates, times,
timestamps, else text, else binary where it is not UTF-8; empty cells and ``NA``, ``null``, ``NaN`` and the
like are null, but in text). The first row names the columns. Another reader may infer otherwise, so the
digest of a CSV file's bytes (``--kind sha256``) is the one to exchange.
"""

from __future__ import annotations

import contextlib
import csv
import os
import re
from typing import TYPE_CHECKING, BinaryIO

import pyarrow as pa
import pyarrow.csv as arrow_csv
from pyarrow import parquet

from provenance.adapters.formats.files import decoding, open_regular, shown
from provenance.errors import MalformedError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["is_arrow_stream", "read_arrow_file", "read_arrow_stream", "read_csv", "read_parquet"]

_END_OF_STREAM = b"\xff\xff\xff\xff\0\0\0\0"  # Arrow columnar format, "IPC Streaming Format"
_MAX_SCHEMA_BYTES = 1 << 26
_CSV_BLOCK_BYTES = 16 << 20
"""No row can be longer: pyarrow reads so much at a time."""

_RAGGED = re.compile(r"Expected (\d+) columns, got (\d+)")
_ENCRYPTED_FOOTER = b"PARE"  # Parquet modular encryption, "Encrypted Footer Mode"


def read_parquet(path: Path | str) -> pa.Table:
    """The table in a Parquet file. Page checksums are verified where the writer left some.

    Columns that the path spells (``year=2020/``) do not count, index columns that pandas stored do.

    Raises:
        MalformedError: ``encrypted``, ``damaged``.
    """
    with open_regular(path) as file, decoding(path, "Parquet"):
        if file.read(4) == _ENCRYPTED_FOOTER:
            raise _encrypted(path)
        file.seek(0)
        try:
            return parquet.ParquetFile(file, page_checksum_verification=True).read()
        except (OSError, pa.ArrowException) as error:
            if "decrypt" in str(error).lower() or "encrypt" in str(error).lower():
                raise _encrypted(path) from error
            raise


def _encrypted(path: Path | str) -> MalformedError:
    return MalformedError(
        f"{shown(path)}: this Parquet file is encrypted",
        reason="encrypted",
        remedy="Decrypt it first, or digest its bytes: --kind sha256",
    )


def read_arrow_file(path: Path | str) -> pa.Table:
    """The table in an Arrow file (also called Feather, version 2).

    Raises:
        MalformedError: ``damaged``.
    """
    with open_regular(path) as file, decoding(path, "an Arrow file"):
        table = pa.ipc.open_file(pa.BufferReader(file.read())).read_all()
        table.validate(full=True)
        return table


def read_arrow_stream(path: Path | str) -> pa.Table:
    """The table in an Arrow stream whose end is marked: without the mark, one cut short would still be one.

    Raises:
        MalformedError: ``damaged``, ``truncated``, ``trailing-bytes``.
    """
    with open_regular(path) as file, decoding(path, "an Arrow stream"):
        data = file.read()
        source = pa.BufferReader(data)
        table = pa.ipc.open_stream(source).read_all()
        table.validate(full=True)
        end = source.tell()
    if end != len(data):
        raise MalformedError(
            f"{shown(path)}: bytes follow the end of the Arrow stream",
            reason="trailing-bytes",
            remedy="Write one stream into one file.",
        )
    if not data.endswith(_END_OF_STREAM):
        raise MalformedError(
            f"{shown(path)}: the Arrow stream has no end mark, so it may be cut short",
            reason="truncated",
            remedy="Write it again and close the writer; --kind sha256 digests its bytes as they are.",
        )
    return table


def is_arrow_stream(file: BinaryIO) -> bool:
    """Whether the file begins with a schema message, as a stream does. Moves the file's position."""
    head = file.read(8)
    length = int.from_bytes(head[4:], "little")
    if not head.startswith(b"\xff\xff\xff\xff") or length > _MAX_SCHEMA_BYTES:
        return False
    try:
        pa.ipc.read_schema(pa.BufferReader(head + file.read(length)))
    except (pa.ArrowException, OSError, ValueError):
        return False
    return True


def read_csv(path: Path | str, *, delimiter: str = ",") -> pa.Table:
    """The table in a CSV file: UTF-8, a header, RFC 4180 quoting, newlines in quotes allowed.

    Raises:
        MalformedError: ``ragged-row`` with the number of its line, ``empty``, ``damaged``.
    """
    blocks = arrow_csv.ReadOptions(block_size=_CSV_BLOCK_BYTES)
    options = arrow_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)
    with open_regular(path) as file, decoding(path, "CSV"):
        try:
            return arrow_csv.read_csv(file, blocks, options)
        except pa.ArrowInvalid as error:
            # By its words: a handler for such rows is not called where one of them is not UTF-8.
            ragged = _RAGGED.search(str(error))
            if ragged:
                raise _ragged(path, file, delimiter, expected=ragged[1], actual=ragged[2]) from error
            if "Empty CSV file" in str(error):
                raise _no_rows(path) from error
            raise


def _no_rows(path: Path | str) -> MalformedError:
    return MalformedError(
        f"{shown(path)}: an empty file is no CSV, expected a line of column names",
        reason="empty",
        remedy="Write the column names; --kind sha256 digests an empty file as it is.",
    )


def _ragged(
    path: Path | str, file: BinaryIO, delimiter: str, *, expected: str, actual: str
) -> MalformedError:
    line = _ragged_line(file, delimiter)
    place = f"line {line}" if line else "a row"
    return MalformedError(
        f"{shown(path)}: {place} has {actual} columns, expected {expected}",
        reason="ragged-row",
        remedy="Mend the line: perhaps a value that holds the delimiter lacks its quotes.",
    )


def _ragged_line(file: BinaryIO, delimiter: str) -> int:
    """The line on which the first row begins that is not as long as the header; 0 if Python sees none.

    Arrow counts rows, which are not lines where a value holds a newline, and counts them on one thread only.
    """
    file.seek(0)
    again = os.dup(file.fileno())
    width, before = 0, 0
    with open(again, encoding="utf-8-sig", errors="replace", newline="") as text:  # noqa: PTH123 - a descriptor
        rows = csv.reader(text, delimiter=delimiter)
        with contextlib.suppress(csv.Error):  # a value longer than Python takes
            for row in rows:
                width = width or len(row)
                if row and len(row) != width:
                    return before + 1
                before = rows.line_num
    return 0
