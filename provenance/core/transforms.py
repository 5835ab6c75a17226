"""The identity of a transform: what its source says, apart from how it is laid out, and what it has captured.

Two digests stand in a stage record (`spec/records.md`, kind ``stage``). ``syntax`` is that of the
normalised syntax
tree: comments, white space and docstrings do not change it, so a cell of a notebook that is run again is
the same transform. ``captured`` covers the values that the function takes from elsewhere (closures,
defaults, globals, the functions that it calls): a changed constant is another transform.

The tree is written by our own rules and not by `ast.dump`, whose text changes between versions of Python.
Reading source and looking into functions belongs to an adapter; here are only texts and values.
"""

from __future__ import annotations

import ast
import datetime as dt
import decimal
import enum
import hashlib
import math
import re
import struct
from typing import TYPE_CHECKING, Any

from provenance.core import digests
from provenance.core.partitions import is_table
from provenance.errors import ConfigError, MalformedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["named_digest", "syntax_digest", "value_digest"]

_MAX_DEPTH = 64
# Where a name is read or written, u"" against "", comments about types: nothing that runs.
_IGNORED_FIELDS = frozenset({"ctx", "kind", "type_comment", "type_ignores"})
_DOCUMENTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)


def named_digest(kind: str, *parts: str | bytes) -> bytes:
    """The hash of some parts under a name; lengths are written, so that no two lists of parts share one."""
    hasher = hashlib.sha256()
    for part in (kind, *parts):
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        hasher.update(struct.pack("<Q", len(data)))
        hasher.update(data)
    return hasher.digest()


def syntax_digest(source: str) -> bytes:
    """The digest of source text without what does not run: comments, layout, docstrings.

    Raises:
        MalformedError: ``source-text``, it is no Python.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise MalformedError(
            f"the transform's source is not Python: {error}", reason="source-text"
        ) from error
    return _node_digest(tree)


def _node_digest(node: ast.AST) -> bytes:
    fields: list[str | bytes] = []
    for name, value in ast.iter_fields(node):
        # A field that is absent or empty says nothing, and which there are differs between versions of
        # Python.
        says = _without_docstring(value) if name == "body" and isinstance(node, _DOCUMENTED) else value
        if name not in _IGNORED_FIELDS and says is not None and says != []:
            fields += [name, _field_digest(says)]
    return named_digest(type(node).__name__, *fields)


def _field_digest(value: Any) -> bytes:
    if isinstance(value, ast.AST):
        return _node_digest(value)
    if isinstance(value, list):
        return named_digest("list", *(_field_digest(item) for item in value))
    return value_digest(value)


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    first = body[0] if body else None
    documented = (
        isinstance(first, ast.Expr)
        and isinstance(first.value, ast.Constant)
        and isinstance(first.value.value, str)
    )
    return body[1:] if documented else body


# -------------------------------------------------------------------------------------------- captured values


def _unknown(value: object) -> bytes:
    raise ConfigError(
        f"a {type(value).__module__}.{type(value).__qualname__} has no digest",
        reason="captured-value",
        remedy="Pass plain values as parameters, and make objects like it inside the transform.",
    )


def value_digest(value: Any, other: Callable[[Any], bytes] = _unknown, _depth: int = 0) -> bytes:
    """The digest of a captured value: equal for equal values of one type, whatever process they live in.

    Args:
        value: numbers, text, bytes, dates, containers of these, NumPy arrays, tables, patterns, enum members.
        other: gives the digest of anything else, such as a function, or raises.

    Raises:
        ConfigError: ``captured-value``: it has no digest; ``captured-depth``: it is nested too deeply, or in
            itself.
    """
    if _depth > _MAX_DEPTH:
        raise ConfigError(
            f"a captured value is nested more than {_MAX_DEPTH} deep, or in itself", reason="captured-depth"
        )
    plain = _plain_digest(value)
    if plain is not None:
        return plain

    def inner(item: Any) -> bytes:
        return value_digest(item, other, _depth + 1)

    kind = type(value)
    if kind in {list, tuple}:
        return named_digest(kind.__name__, *map(inner, value))
    if kind in {set, frozenset}:
        return named_digest(kind.__name__, *sorted(map(inner, value)))
    if kind is dict:
        pairs = sorted(inner(key) + inner(item) for key, item in value.items())
        return named_digest("dict", *pairs)
    if isinstance(value, enum.Enum):
        return named_digest("enum", kind.__module__, kind.__qualname__, value.name, inner(value.value))
    return other(value)


def _plain_digest(value: Any) -> bytes | None:
    kind = type(value)
    if value is None or value is ...:
        return named_digest(repr(value))
    if kind in {float, complex}:
        return named_digest(kind.__name__, _double(value.real) + _double(value.imag))
    for exact, write in _WRITERS:
        if kind is exact:
            return named_digest(kind.__name__, write(value))
    return _data_digest(value)


def _data_digest(value: Any) -> bytes | None:
    import numpy as np

    if isinstance(value, np.ndarray | np.generic):
        if value.dtype.kind in "US":  # text has no array-1; its items have digests of their own
            items = (value_digest(item) for item in value.ravel().tolist())
            return named_digest("text-array", str(value.shape), *items)
        return named_digest("array", digests.array1(np.asarray(value)).value)
    if isinstance(value, np.dtype):
        return named_digest("dtype", value.str)
    if is_table(value):
        return named_digest("table", digests.table1(value).value)
    return None


def _double(value: float) -> bytes:
    return struct.pack("<d", math.nan if math.isnan(value) else value)


_WRITERS: Iterable[tuple[type, Callable[[Any], str | bytes]]] = (
    (bool, str),
    (int, hex),
    (str, str),
    (bytes, bytes),
    (bytearray, bytes),
    (decimal.Decimal, str),
    (dt.datetime, dt.datetime.isoformat),
    (dt.date, dt.date.isoformat),
    (dt.time, dt.time.isoformat),
    (dt.timedelta, str),
    (range, repr),
    (slice, repr),
    (re.Pattern, lambda value: f"{value.flags}:{value.pattern!r}"),
)
