"""CSV and Parquet: what a worker makes of the bytes of such files, with the types that the stage declares.

The raw files are partitions of a source of their own; these functions are the stage behind it. A reader
that works types out by itself finds other ones in every partition, so they are worked out once, from the
first file, or given, and stand in the stage's record.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from provenance.adapters.dask.steps import Made
from provenance.errors import ConfigError, Rejected

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import pyarrow as pa

    from provenance.adapters.dask.steps import Work

__all__ = ["CsvFormat", "ParquetFormat", "ReadTables", "TableFormat", "check_delimiter", "declared"]

_TRIED = 20  # files at the beginning that may be unreadable
_SAMPLE = 1 << 20  # bytes of the first file from which the types of a CSV are worked out


@dataclass(frozen=True, slots=True)
class CsvFormat:
    """Comma-separated text, UTF-8, with a header row."""

    delimiter: str = ","

    name = "read_csv"

    def read(self, data: bytes, schema: pa.Schema | None) -> pa.Table:
        """The rows; types as declared, else as found in the text.

        Raises:
            Rejected: ``empty-file``, ``not-utf-8``, ``ragged-rows``, ``wrong-type``, ``not-csv``.
        """
        import pyarrow as pa
        from pyarrow import csv

        if not data.strip():
            raise Rejected("empty-file", "no header row")
        convert = csv.ConvertOptions(
            column_types={} if schema is None else {field.name: field.type for field in schema},
            include_columns=None if schema is None else schema.names,
        )
        parse = csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True)
        try:
            return csv.read_csv(
                pa.BufferReader(data),
                read_options=csv.ReadOptions(use_threads=False),
                parse_options=parse,
                convert_options=convert,
            )
        except (pa.ArrowException, KeyError) as error:
            raise Rejected(_csv_reason(str(error)), str(error)) from error

    def sample(self, data: bytes) -> pa.Table:
        """The first rows of a file."""
        if len(data) > _SAMPLE:
            data = data[: data.rfind(b"\n", 0, _SAMPLE) + 1 or len(data)]
        return self.read(data, None)


def _csv_reason(message: str) -> str:
    if "columns, got" in message or "Expected" in message:
        return "ragged-rows"
    if "UTF8" in message or "UTF-8" in message:
        return "not-utf-8"
    if "conversion error" in message or "Conversion" in message:
        return "wrong-type"
    return "not-csv"


@dataclass(frozen=True, slots=True)
class ParquetFormat:
    """One Parquet file."""

    name = "read_parquet"

    def read(self, data: bytes, schema: pa.Schema | None) -> pa.Table:
        """The rows; page checksums are checked where the file has them.

        Raises:
            Rejected: ``empty-file``, ``encrypted``, ``corrupt``, ``missing-column``.
        """
        import pyarrow as pa
        from pyarrow import parquet

        if not data:
            raise Rejected("empty-file")
        if data[:4] == b"PARE" or data[-4:] == b"PARE":
            raise Rejected("encrypted", "its footer is encrypted")
        columns = None if schema is None else schema.names
        try:
            with parquet.ParquetFile(pa.BufferReader(data), page_checksum_verification=True) as file:
                if columns is not None and not set(columns) <= set(file.schema_arrow.names):
                    raise Rejected("missing-column", "it lacks a column that the stage declares")
                return file.read(columns=columns, use_threads=False)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            hidden = "encrypt" in str(error).lower() or "decrypt" in str(error).lower()
            raise Rejected("encrypted" if hidden else "corrupt", str(error)) from error

    def sample(self, data: bytes) -> pa.Table:
        """The file itself: its types are in its footer."""
        return self.read(data, None)


TableFormat = CsvFormat | ParquetFormat


def check_delimiter(delimiter: str) -> None:
    """One ASCII character that stands for nothing else in a CSV."""
    if len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n\0':
        raise ConfigError(
            f"delimiter {delimiter!r:.80}: expected one character",
            reason="delimiter",
            remedy='Give what stands between the values: ",", ";", "\\t" or the like.',
        )


@dataclass(frozen=True, slots=True)
class ReadTables:
    """Decodes the one file of a partition; a file that does not decode is set aside with the reason."""

    format: TableFormat
    pandas: bool = True

    def apply(self, work: Work) -> Made:
        """The file's rows, with the types of the stage's schema."""
        parent = work.parents[0]
        (item,) = parent.data
        try:
            data = self._decode(item.data, work.schema)
        except Rejected as why:
            return Made(None, (parent.ref,), parent.ref.key, why.reason)
        return Made(data, (parent.ref,), parent.ref.key)

    def _decode(self, data: bytes, schema: pa.Schema | None) -> Any:
        table = self.format.read(data, schema)
        return table.to_pandas() if self.pandas else table


def declared(
    format_: TableFormat,
    samples: Iterable[Callable[[], bytes]],
    types: dict[str, str] | None,
    *,
    pandas: bool,
) -> pa.Schema:
    """The schema that the stage declares: what the first readable file holds, with the types that were given.

    Args:
        format_: of the files.
        samples: read the files, in order.
        types: type strings of columns.
        pandas: whether partitions are pandas frames, which have their own idea of some types.

    Raises:
        ConfigError: ``no-schema``, none of the first files can be read; ``types``, a column is not there.
        MalformedError: a type text means nothing.
    """
    from provenance.core.digests import declare_schema, decode_type

    chosen = {name: decode_type(text) for name, text in (types or {}).items()}
    table = _first_readable(format_, samples)
    missing = set(chosen) - set(table.schema.names)
    if missing:
        raise ConfigError(f"types: there is no column {min(missing)!r}", reason="types")
    for name, kind in chosen.items():
        empty = table.column(name).slice(0, 0).cast(kind)
        table = table.slice(0, 0).set_column(table.schema.names.index(name), name, empty)
    return declare_schema(table.slice(0, 0).to_pandas() if pandas else table.slice(0, 0))


def _first_readable(format_: TableFormat, samples: Iterable[Callable[[], bytes]]) -> pa.Table:
    reasons = []
    for sample in itertools.islice(samples, _TRIED):
        try:
            return format_.sample(sample())
        except Rejected as why:  # what it says may quote the data
            reasons.append(why.reason)
    raise ConfigError(
        f"none of the first {len(reasons)} files can be read: {', '.join(dict.fromkeys(reasons))}",
        reason="no-schema",
        remedy="Mend or remove them: the columns and their types are taken from the first readable file.",
    )
