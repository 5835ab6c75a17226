"""What is checked of a stage before it is described: its name, schema, tolerances, parents and parameters."""

from __future__ import annotations

import warnings
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

import dask

from provenance.adapters.dask import functions
from provenance.adapters.dask.handles import Handle
from provenance.core import digests
from provenance.core.parameters import encode_parameters
from provenance.errors import ConfigError, ReplayWarning

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pyarrow as pa

    from provenance.adapters.dask.handles import Node
    from provenance.core.canonical import JSONObject

__all__ = [
    "check_aligned",
    "check_name",
    "check_own",
    "check_replay",
    "encode_arguments",
    "encode_pairs",
    "schema_of",
    "warn_unless_importable",
]

_PROFILES = ("exact", "logical", "tolerance")
_AS_HANDLE = (
    "Make it a handle first: handle = run.collection(it), then handle.stage(…); partitions that Dask may "
    "still merge or renumber cannot be recorded."
)


def schema_of(schema: Any) -> pa.Schema | None:
    """The Arrow schema that a user means.

    Args:
        schema: None, an Arrow schema, an empty frame or table, or ``{column: type string}``.

    Raises:
        ConfigError: ``schema``, it is none of these.
        MalformedError: a type string means nothing.
    """
    import pyarrow as pa

    from provenance.core.partitions import is_table

    if schema is None or isinstance(schema, pa.Schema):
        return schema
    if is_table(schema):
        return digests.declare_schema(schema)
    if isinstance(schema, dict):
        return digests.decode_schema([[name, kind] for name, kind in schema.items()])
    raise ConfigError(
        f"schema of type {type(schema).__qualname__}",
        reason="schema",
        remedy='Give an empty frame, a pyarrow schema, or {"column": "f64", …}.',
    )


def check_name(name: str) -> None:
    """A stage's name, as it stands in records and messages."""
    if not 1 <= len(name) <= 200 or not name.isprintable():
        raise ConfigError(
            f"stage name {name!r:.80}: expected 1 to 200 printable characters", reason="stage-name"
        )


def check_replay(profile: str, tolerances: Mapping[str, str]) -> dict[str, str]:
    """The tolerances as the record has them; they go with one profile only."""
    if profile not in _PROFILES:
        raise ConfigError(f"profile {profile!r}: expected one of {', '.join(_PROFILES)}", reason="profile")
    for part, text in tolerances.items():
        try:
            good = part.isascii() and Decimal(text) >= 0
        except InvalidOperation:
            good = False
        if not good:
            raise ConfigError(
                f"tolerance of part {part!r}: {text!r}",
                reason="tolerance",
                remedy='Write the largest absolute difference as decimal text: {"*": "0.000001"}.',
            )
    if (profile == "tolerance") != bool(tolerances):
        raise ConfigError("tolerances go with profile='tolerance', and it with them", reason="tolerance")
    return dict(tolerances)


def warn_unless_importable(name: str, fn: Callable[..., Any]) -> None:
    """Say now, and not in an audit years later, that a stage cannot be replayed."""
    if not functions.is_importable(fn):
        warnings.warn(
            f"stage {name!r}: {functions.transform_name(fn)} cannot be imported by name, so a replay "
            "cannot run it; define it at the top of a module",
            ReplayWarning,
            stacklevel=5,
        )


def check_own(name: str, run: bytes, others: Mapping[str, Node]) -> None:
    """Parents are stages of the same run: another run has a log of its own, and its own seal."""
    for parameter, other in others.items():
        if other.stage.run != run:
            raise ConfigError(
                f"stage {name!r}: parameter {parameter!r} is a stage of another run",
                reason="other-run",
                remedy="Make it in this run, or read what the other run wrote with run.files or run.parquet.",
            )


def check_aligned(name: str, parent: Node, others: Mapping[str, Node]) -> None:
    """Further parents must have as many partitions as the first one."""
    for parameter, other in others.items():
        if other.partitions != parent.partitions:
            raise ConfigError(
                f"stage {name!r}: {parameter} has {other.partitions} partitions, not {parent.partitions}",
                reason="not-aligned",
                remedy="Regroup both with .wide(…, by=…) first.",
            )


def encode_arguments(name: str, values: Mapping[str, Any]) -> JSONObject:
    """Parameters as the record has them; a collection among them is refused with the way to pass it."""
    for parameter, value in values.items():
        if isinstance(value, Handle) or dask.is_dask_collection(value):
            raise ConfigError(
                f"stage {name!r}: parameter {parameter!r} is a {type(value).__qualname__}",
                reason="not-a-handle",
                remedy=_AS_HANDLE,
            )
    return encode_parameters(values)


def encode_pairs(schema: pa.Schema | None) -> tuple[tuple[str, str], ...] | None:
    """A schema as a stage record has it."""
    return None if schema is None else tuple((column, kind) for column, kind in digests.encode_schema(schema))
