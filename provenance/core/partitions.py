"""What the data of a partition may be, and the digests of each of its parts.

============================ ============================ =================================
data                         subjects                     digest
============================ ============================ =================================
pandas frame, Arrow table    one                          ``table1``
NumPy array                  one                          ``array1``
bag (a list of plain values) one                          ``table1`` of its one column
list of `File`               one for each file            by what the file's data is
dict of named parts          one for each part            by what the part is
============================ ============================ =================================

Nothing here reads, stores or changes data: it is looked at and measured.
"""

from __future__ import annotations

import hashlib
import re
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from provenance.core import digests
from provenance.core.records import Subject
from provenance.core.schemas import MAX_SUBJECTS
from provenance.errors import ConfigError, MalformedError, Rejected

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["File", "Measured", "is_table", "measure", "partition_name", "rejection"]

_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_NOTHING = hashlib.sha256(b"").hexdigest()
_REMEDY = (
    "Return a pandas DataFrame, a pyarrow Table, a NumPy array, a list, or a dict of named arrays and tables."
)


@dataclass(frozen=True, slots=True)
class File:
    """One item of a partition of files, through all stages.

    Attributes:
        name: what stands in records for its path below the source's root: a token, or the path itself where
            the dataset says that names are not personal.
        data: the file's bytes as they were hashed; behind a stage, whatever that stage made of them (bytes,
            an array or a table). None if it was rejected.
        key: the token of what it is grouped by, e.g. its speaker.
        suffix: of its path, in lower case: ``".wav"``.
        rejected: why it cannot be used; empty if it can.
    """

    name: str
    data: Any
    key: str | None = None
    suffix: str = ""
    rejected: str = ""

    def with_data(self, data: object) -> File:
        """The same item with other data."""
        return replace(self, data=data)

    def reject(self, why: Rejected) -> File:
        """The same item, set aside."""
        return replace(self, data=None, rejected=why.reason)

    def __repr__(self) -> str:
        """Never the data: Dask writes arguments into its logs."""
        return f"<file {self.name[:16]}…>"


@dataclass(frozen=True, slots=True)
class Measured:
    """A partition's parts with all their digests, its rows, and the bytes that were hashed."""

    subjects: tuple[Subject, ...]
    rows: int
    bytes: int
    digests: tuple[digests.Digest, ...] = ()


def partition_name(number: int) -> str:
    """The name of a partition's only part, and of its folder in a store: ``p00007``."""
    return f"p{number:05d}"


def is_table(data: object) -> bool:
    """Whether the data is a pandas frame or an Arrow table; neither library is imported to find out."""
    arrow, pandas = sys.modules.get("pyarrow"), sys.modules.get("pandas")
    return bool(
        (arrow and isinstance(data, arrow.Table | arrow.RecordBatch))
        or (pandas and isinstance(data, pandas.DataFrame | pandas.Series))
    )


def rejection(data: object) -> str | None:
    """The reason code of a partition of which no file can be used: the files' own, or ``several``."""
    if not isinstance(data, list) or not data or not all(isinstance(item, File) for item in data):
        return None
    reasons = {item.rejected for item in data}
    if "" in reasons:
        return None
    return reasons.pop() if len(reasons) == 1 else "several"


def measure(
    data: object, number: int, *, schema: pa.Schema | None = None, stage: str = "", algorithm: str = "sha256"
) -> Measured:
    """The parts of a partition and their digests.

    Args:
        data: see the table above.
        number: the partition's number.
        schema: the stage's declared schema, which tables are conformed to first.
        stage: the stage's name, for messages.
        algorithm: ``"sha256"`` or ``"blake3"``.

    Raises:
        ConfigError: ``partition-type``, the data is none of these.
        MalformedError: a part has no digest, or too many parts, or two of one name; the message names stage
            and partition.
    """
    try:
        if isinstance(data, list) and data and all(isinstance(item, File) for item in data):
            return _measure_files(data, number, schema, algorithm)
        if isinstance(data, dict):
            return _measure_parts(data, number, schema, algorithm)
        digest = _digest(data, number, schema, algorithm)
    except MalformedError as error:
        raise MalformedError(
            f"stage {stage!r}, partition {number}: {error.message}", reason=error.reason, remedy=error.remedy
        ) from error
    except ConfigError as error:
        raise ConfigError(
            f"stage {stage!r}, partition {number}: {error.message}", reason=error.reason, remedy=error.remedy
        ) from error
    return _measured([(partition_name(number), digest)], _rows(digest))


def _measured(parts: list[tuple[str, digests.Digest]], rows: int, also: tuple[Subject, ...] = ()) -> Measured:
    subjects = tuple(Subject(name, {digest.kind: digest.hex}) for name, digest in parts)
    return Measured(
        (*subjects, *also), rows, sum(digest.nbytes for _, digest in parts), tuple(d for _, d in parts)
    )


def _measure_files(items: list[File], number: int, schema: pa.Schema | None, algorithm: str) -> Measured:
    if len(items) > MAX_SUBJECTS:
        raise MalformedError(f"{len(items)} files, expected at most {MAX_SUBJECTS}", reason="subjects")
    if len({item.name for item in items}) != len(items):
        raise MalformedError("two files of one name", reason="duplicate-name")
    usable = [item for item in items if not item.rejected]
    rejected = tuple(
        Subject(f"{item.name}#rejected:{item.rejected}", {"sha256": _NOTHING})
        for item in items
        if item.rejected
    )
    parts = [(item.name, _digest(item.data, number, schema, algorithm)) for item in usable]
    return _measured(parts, len(usable), rejected)


def _measure_parts(parts: dict[Any, Any], number: int, schema: pa.Schema | None, algorithm: str) -> Measured:
    for name in parts:
        if not (isinstance(name, str) and _PART.fullmatch(name)):
            raise ConfigError(
                f"part {name!r:.80}: expected a name of letters, digits, '.', '_' and '-'", reason="part-name"
            )
    found = [
        (f"{partition_name(number)}/{name}", _digest(parts[name], number, schema, algorithm))
        for name in sorted(parts)
    ]
    if len(found) > MAX_SUBJECTS:
        raise MalformedError(f"{len(found)} parts, expected at most {MAX_SUBJECTS}", reason="subjects")
    return _measured(found, max((_rows(digest) for _, digest in found), default=0))


def _digest(data: Any, number: int, schema: pa.Schema | None, algorithm: str) -> digests.Digest:
    import numpy as np

    if isinstance(data, bytes):
        return digests.bytes1([data], algorithm=algorithm)
    if isinstance(data, np.ndarray | np.generic):
        return digests.array1(np.asarray(data), algorithm=algorithm)
    if is_table(data):
        return digests.table1(conformed(data, number, schema), algorithm=algorithm)
    if isinstance(data, list) and not any(isinstance(item, File) for item in data):
        return digests.table1(conformed(digests.bag_table(data), number, schema), algorithm=algorithm)
    raise ConfigError(
        f"a {type(data).__module__}.{type(data).__qualname__} is no partition",
        reason="partition-type",
        remedy=_REMEDY,
    )


def conformed(data: Any, number: int, schema: pa.Schema | None) -> pa.Table:
    """The table as it is hashed, conformed to the declared schema (`spec/digests.md`, "A stage's schema").

    Undeclared, a column without a type is text.
    """
    table = digests.as_table(data)
    declared = digests.declare_schema(table.slice(0, 0)) if schema is None else schema
    return digests.conform(table, declared, partition=number)


def _rows(digest: digests.Digest) -> int:
    if digest.rows is not None:
        return digest.rows
    if digest.shape is not None:
        return digest.shape[0] if digest.shape else 1
    return 1
