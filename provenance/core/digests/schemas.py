"""A stage's declared schema: made from an empty frame, put into its record, laid on every partition.

Types that pandas works out per partition differ between partitions of one dataset: a column of objects is
``null`` where all are missing, a decimal is as narrow as its values. Within a stage they are conformed to
what the stage declares, so that a digest speaks of the data and not of the luck of the partition
(spec/digests.md, "A stage's schema").
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from provenance.core.digests.frames import as_table
from provenance.core.digests.typenames import decode_type, is_list, type_string
from provenance.errors import MalformedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pandas as pd

__all__ = ["conform", "declare_schema", "decode_schema", "encode_schema"]


def declare_schema(
    meta: pa.Table | pd.DataFrame | pd.Series, types: Mapping[str, pa.DataType] | None = None
) -> pa.Schema:
    """The schema that a stage declares: the columns of a frame, usually one without rows.

    Args:
        meta: a frame of the stage's columns.
        types: the types of columns that pandas calls ``object`` or ``category``; a column that has no type
            by itself and none here is ``utf8``.

    Raises:
        MalformedError: ``missing-column`` when ``types`` names a column that ``meta`` lacks; as `as_table`.
    """
    chosen = dict(types or {})
    fields = []
    for field in as_table(meta).schema:
        own = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        kind = chosen.pop(field.name, pa.string() if pa.types.is_null(own) else field.type)
        fields.append(pa.field(field.name, kind))
    if chosen:
        raise MalformedError(
            f"there is no column {min(chosen)!r} to declare a type for", reason="missing-column"
        )
    return pa.schema(fields)


def encode_schema(schema: pa.Schema) -> list[list[str]]:
    """The schema as it stands in a stage record: ``[name, type string]`` of every column, in order.

    Raises:
        MalformedError: a type has no type string, or one that cannot be read back (``type-text``: an odd
            time zone).
    """
    pairs = [[field.name, type_string(field.type)] for field in schema]
    decode_schema(pairs)
    return pairs


def decode_schema(pairs: object) -> pa.Schema:
    """The inverse of `encode_schema`, up to how Arrow encodes a type.

    Raises:
        MalformedError: ``schema-text``, ``type-text``, ``too-deep``, ``duplicate-column``.
    """
    if not isinstance(pairs, list):
        raise _not_a_schema(pairs)
    fields: dict[str, pa.Field] = {}
    for pair in pairs:
        if not (isinstance(pair, list) and len(pair) == 2 and all(isinstance(text, str) for text in pair)):
            raise _not_a_schema(pair)
        name, kind = pair
        if name in fields:
            raise MalformedError(f"two columns are named {name!r}", reason="duplicate-column")
        try:
            fields[name] = pa.field(name, decode_type(kind))
        except UnicodeEncodeError as error:
            raise _not_a_schema(pair) from error
    return pa.schema(list(fields.values()))


def _not_a_schema(found: object) -> MalformedError:
    return MalformedError(
        f"not a schema, expected a list of [name, type]: {str(found)[:200]}", reason="schema-text"
    )


# ------------------------------------------------------------------------------------------------ conforming


def conform(
    table: pa.Table, declared: pa.Schema, *, stage: str = "", partition: int | None = None
) -> pa.Table:
    """The table with the declared types where its own say less; nothing else is changed, and no value is.

    A column without any value that is ``null`` or a dictionary (an object or category column) takes the
    declared type, and so do a ``null`` inside a nested type and a narrower decimal.

    Args:
        table: as `as_table` or `bag_table` makes it.
        declared: the stage's schema.
        stage: the stage's name, for messages.
        partition: the partition's number, for messages.

    Raises:
        MalformedError: ``missing-column``, ``undeclared-column``, ``column-order``, ``type-differs``; the
            message names stage, partition and column.
    """
    where = _where(stage, partition)
    _check_names(table.schema.names, declared.names, where)
    columns = [_fit(table.column(number), field, where) for number, field in enumerate(declared)]
    if not columns:
        return table
    return pa.table(
        columns,
        schema=pa.schema(
            [pa.field(field.name, column.type) for field, column in zip(declared, columns, strict=True)]
        ),
    )


def _where(stage: str, partition: int | None) -> str:
    parts = [f"stage {stage!r}"] if stage else []
    if partition is not None:
        parts.append(f"partition {partition}")
    return ", ".join([*parts, "column "])


def _check_names(found: list[str], declared: list[str], where: str) -> None:
    if found == declared:
        return
    for name in declared:
        if name not in found:
            raise MalformedError(f"{where}{name!r}: declared, but not there", reason="missing-column")
    for number, name in enumerate(found):
        if name not in declared:
            raise MalformedError(
                f"{where}{name!r}: not declared",
                reason="undeclared-column",
                remedy="Declare it in the stage's meta.",
            )
        if name in found[:number]:
            raise MalformedError(
                f"{where}{name!r}: there twice", reason="duplicate-column", remedy="Rename one of them."
            )
    name = next(name for name, other in zip(found, declared, strict=True) if name != other)
    raise MalformedError(
        f"{where}{name!r}: out of order, expected {', '.join(declared)}, found {', '.join(found)}",
        reason="column-order",
        remedy="Return the columns in the order of the stage's meta.",
    )


def _fit(column: pa.ChunkedArray, field: pa.Field, where: str) -> pa.ChunkedArray:
    try:
        have, want = type_string(column.type), type_string(field.type)
    except MalformedError as error:
        raise MalformedError(
            f"{where}{field.name!r}: {error.message}", reason=error.reason, remedy=error.remedy
        ) from error
    if have == want:
        return column
    if pa.types.is_dictionary(column.type):
        column = pa.chunked_array(
            [chunk.dictionary_decode() for chunk in column.chunks], type=column.type.value_type
        )
        empty = column.null_count == len(column)
    else:
        empty = pa.types.is_null(column.type)
    if empty:
        return pa.chunked_array([pa.nulls(len(column), field.type)])
    try:
        target = _widened(column.type, field.type)
        if target is not None:
            return column.cast(target)
    except pa.ArrowException as error:
        raise _differs(where, field.name, want, have) from error
    raise _differs(where, field.name, want, have)


def _differs(where: str, name: str, want: str, have: str) -> MalformedError:
    return MalformedError(
        f"{where}{name!r}: expected {want}, found {have}",
        reason="type-differs",
        remedy="Cast the column in the transform, or declare the type that it has.",
    )


def _widened(have: pa.DataType, want: pa.DataType) -> pa.DataType | None:
    """``have`` with what says less than ``want`` replaced by it; None when they differ in anything else."""
    if type_string(have) == type_string(want):
        return have
    if pa.types.is_dictionary(want):
        return _widened(have, want.value_type)
    if pa.types.is_dictionary(have):
        return _widened(have.value_type, want)
    if pa.types.is_null(have):
        return want
    if pa.types.is_decimal(have) and pa.types.is_decimal(want):
        return want if _is_narrower(have, want) else None
    return _widened_nested(have, want)


def _is_narrower(have: pa.DataType, want: pa.DataType) -> bool:
    """Whether every decimal of ``have`` is one of ``want``: as many places after the point, and before it."""
    before = have.precision - have.scale <= want.precision - want.scale
    return bool(before and have.scale <= want.scale)


def _widened_nested(have: pa.DataType, want: pa.DataType) -> pa.DataType | None:
    if is_list(have) and is_list(want):
        return _rebuilt(have, want, pa.large_list)
    if (
        pa.types.is_fixed_size_list(have)
        and pa.types.is_fixed_size_list(want)
        and have.list_size == want.list_size
    ):
        return _rebuilt(have, want, lambda item: pa.list_(item, have.list_size))
    if pa.types.is_map(have) and pa.types.is_map(want):
        key, item = _widened(have.key_type, want.key_type), _widened(have.item_type, want.item_type)
        return None if key is None or item is None else pa.map_(key, item)
    if pa.types.is_struct(have) and pa.types.is_struct(want):
        return _widened_struct(have, want)
    return None


def _rebuilt(
    have: pa.DataType, want: pa.DataType, build: Callable[[pa.DataType], pa.DataType]
) -> pa.DataType | None:
    item = _widened(have.value_type, want.value_type)
    return None if item is None else build(item)


def _widened_struct(have: pa.DataType, want: pa.DataType) -> pa.DataType | None:
    ours, theirs = list(have), list(want)
    if [field.name for field in ours] != [field.name for field in theirs]:
        return None
    kinds = [_widened(our.type, their.type) for our, their in zip(ours, theirs, strict=True)]
    if None in kinds:
        return None
    return pa.struct([pa.field(field.name, kind) for field, kind in zip(ours, kinds, strict=True)])
