"""The sources of a run: files as they are, CSV, Parquet, a Dask collection, what the run stored before."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dask

from provenance import files as local_files
from provenance.adapters.dask import sources, tables
from provenance.adapters.dask.building import Builder
from provenance.adapters.dask.checks import schema_of
from provenance.adapters.dask.collections import partitions_of
from provenance.adapters.dask.stored import stored_node
from provenance.errors import ConfigError, MalformedError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from provenance.adapters.dask.execution import Limits, Session
    from provenance.adapters.dask.handles import Handle, Node

__all__ = ["Reading"]


def _read(path: str, limit: int) -> bytes:
    """A file's bytes to take types from; what cannot be read is as good as empty."""
    try:
        return local_files.read_file(Path(path), limit) or b""
    except (MalformedError, UnavailableError):
        return b""


class Reading:
    """What a `Run` can read."""

    def __init__(self, session: Session, limits: Limits) -> None:
        self._session = session
        self._limits = limits
        self._builder = Builder(session.run, session.version, session.recorder.draft)

    def _handle(self, node: Node) -> Handle:
        raise NotImplementedError

    def files(
        self,
        where: str | Path | Iterable[str | Path],
        *,
        root: str | Path | None = None,
        key: Callable[[str], str | int | None] | Mapping[str, str | int] | None = None,
        name: str = "raw",
        group_bytes: int | None = None,
        group_files: int = 200,
    ) -> Handle:
        """Files as they are found: a partition is a list of `File`, a few small ones or a large one.

        Args:
            where: a folder, a pattern (``recordings/**/*.wav``) or paths.
            root: what names are relative to; by default the folder, or the part before the first wildcard.
            key: what a file belongs to, e.g. its speaker, from its path below the root: a function or a
                mapping. A partition holds one key only.
            name: the stage's name.
            group_bytes: size up to which files share a partition.
            group_files: how many may share one, at most 200.

        Raises:
            ConfigError: nothing matches.
            MalformedError: a name or a link that cannot be recorded, naming the file.
        """
        return self._handle(self._files(where, root, key, name, group_bytes, group_files))

    def csv(
        self,
        where: str | Path | Iterable[str | Path],
        *,
        root: str | Path | None = None,
        name: str = "csv",
        types: dict[str, str] | None = None,
        delimiter: str = ",",
        arrow: bool = False,
    ) -> Handle:
        """CSV files, one a partition: a source stage ``NAME.files``, and the rows behind it.

        Args:
            where: as `files`.
            root: as `files`.
            name: the stage's name.
            types: type strings (``f64``, ``utf8``) of columns; the others are worked out from the first file.
            delimiter: between values.
            arrow: partitions are pyarrow Tables instead of pandas DataFrames.

        Raises:
            ConfigError: as `files`; the first file's types cannot be worked out; ``delimiter``.
        """
        tables.check_delimiter(delimiter)
        return self._tables(where, root, name, tables.CsvFormat(delimiter), types, arrow)

    def parquet(
        self,
        where: str | Path | Iterable[str | Path],
        *,
        root: str | Path | None = None,
        name: str = "parquet",
        arrow: bool = False,
    ) -> Handle:
        """Parquet files, one a partition: a source stage ``NAME.files``, and the rows behind it.

        Args:
            where: as `files`.
            root: as `files`.
            name: the stage's name.
            arrow: partitions are pyarrow Tables instead of pandas DataFrames.

        Raises:
            ConfigError: as `files`; the first file cannot be read.
        """
        return self._tables(where, root, name, tables.ParquetFormat(), None, arrow)

    def collection(self, collection: Any, *, name: str = "collection", schema: Any = None) -> Handle:
        """The partitions of a Dask DataFrame, Series, Bag or Array, frozen as they are now.

        What is upstream of it is not recorded, and a replay cannot run it again.

        Args:
            collection: the collection.
            name: the stage's name.
            schema: as `Handle.stage`; by default what the collection says of itself.
        """
        return self._handle(partitions_of(self._builder, name, collection, schema_of(schema)))

    def stored(self, name: str) -> Handle:
        """What an earlier cell, script or task of this run wrote, to go on from; checked when it is read.

        Partitions are arrays or dicts of them (Zarr), or DataFrames (Parquet).

        Args:
            name: of the sink's stage, e.g. ``"clean.zarr"``.

        Raises:
            ConfigError: the run has no such store.
            PendingError: it is not finished.
        """
        names, stages = self._session.names, self._session.stages()
        places = {record: place for record in stages if (place := names.plain(record.hex())) is not None}
        return self._handle(stored_node(name, stages, self._session.records(), places))

    def _files(
        self,
        where: str | Path | Iterable[str | Path],
        root: str | Path | None,
        key: Callable[[str], str | int | None] | Mapping[str, str | int] | None,
        name: str,
        group_bytes: int | None,
        most: int,
    ) -> Node:
        if dask.is_dask_collection(where):
            raise ConfigError(
                f"a {type(where).__qualname__} is no place of files",
                reason="not-a-handle",
                remedy="Give it to run.collection(…).",
            )
        base, found = sources.find_files(where, root=root)
        if key is not None:
            found = sources.with_keys(found, key if callable(key) else key.get)
        named = list(
            sources.tokens_of(found, self._session.names.secret(), personal=self._session.names_are_personal)
        )
        return self._builder.files(
            name,
            base,
            named,
            limit=self._limits.file_bytes,
            target_bytes=self._limits.group_bytes if group_bytes is None else group_bytes,
            most=most,
        )

    def _tables(
        self,
        where: str | Path | Iterable[str | Path],
        root: str | Path | None,
        name: str,
        format_: tables.TableFormat,
        types: dict[str, str] | None,
        arrow: bool,
    ) -> Handle:
        parent = self._files(where, root, None, f"{name}.files", 0, 1)
        samples = (partial(_read, group.entries[0][1], self._limits.file_bytes) for group in parent.payloads)
        schema = tables.declared(format_, samples, types, pandas=not arrow)
        return self._handle(self._builder.tables(name, parent, format_, schema, pandas=not arrow))
