"""A transform's parameters as JSON, and back: typed, for a replay calls the function with the same values.

A record's numbers are integers only, so what JSON has no exact form for is an object with one key that begins
with ``$``: ``{"$float": "1.5"}``. A dictionary whose own keys could be mistaken for that, or are not ASCII
text, is written as pairs. Whatever has no such form is refused by name: an array, a model or an open file
is data or code, and belongs into a file or a stage.
"""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import math
from typing import TYPE_CHECKING, Any

from provenance.core.canonical import MAX_INTEGER
from provenance.errors import ConfigError, MalformedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from provenance.core.canonical import JSONObject, JSONValue

__all__ = ["decode_parameters", "encode_parameters"]

_MAX_DEPTH = 32
_MAX_DIGITS = 4000  # of an integer; above, Python itself refuses to convert text
_REMEDY = (
    "Give plain values (numbers, text, bytes, dates, lists, dictionaries), and pass data as files or stages."
)


def encode_parameters(values: Mapping[str, object]) -> JSONObject:
    """Keyword arguments as they stand in a stage record.

    Raises:
        ConfigError: ``parameter-type``, ``parameter-depth`` or ``parameter-name``, naming the parameter.
    """
    for name in values:
        if not (name.isidentifier() and name.isascii()):
            raise ConfigError(f"parameter {name!r}: expected an ASCII identifier", reason="parameter-name")
    return {name: _encode(value, name, 0) for name, value in values.items()}


def decode_parameters(values: JSONObject) -> dict[str, Any]:
    """The keyword arguments that `encode_parameters` wrote.

    Raises:
        MalformedError: ``parameter-text`` for what it never writes.
    """
    return {name: _decode(value) for name, value in values.items()}


def _encode(value: Any, name: str, depth: int) -> JSONValue:
    if depth > _MAX_DEPTH:
        raise ConfigError(f"parameter {name!r}: nested more than {_MAX_DEPTH} deep", reason="parameter-depth")
    if value is None or isinstance(value, bool):
        return value
    if type(value) is str:
        return _encode_text(value, name)
    for kind, write in _SCALARS:
        if type(value) is kind and not _is_local(value):
            return write(value)
    if isinstance(value, float):  # numpy.float64 is one
        return {"$float": _float_text(float(value))}
    if type(value) in {list, tuple}:
        items = [_encode(item, name, depth + 1) for item in value]
        return items if type(value) is list else {"$tuple": items}
    if type(value) is dict:
        return _encode_dictionary(value, name, depth)
    raise ConfigError(
        f"parameter {name!r} is a {type(value).__module__}.{type(value).__qualname__}, which no record holds",
        reason="parameter-type",
        remedy=_REMEDY,
    )


def _encode_text(value: str, name: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ConfigError(f"parameter {name!r}: not valid Unicode text", reason="parameter-type") from error
    return value


def _encode_dictionary(value: dict[Any, Any], name: str, depth: int) -> JSONObject:
    if all(type(key) is str and key.isascii() and not key.startswith("$") for key in value):
        return {key: _encode(item, name, depth + 1) for key, item in value.items()}
    pairs = [[_encode(key, name, depth + 1), _encode(item, name, depth + 1)] for key, item in value.items()]
    return {"$dict": pairs}


def _float_text(value: float) -> str:
    if math.isfinite(value):
        return repr(value)  # the shortest text that reads back as the same double
    return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"


def _is_local(value: Any) -> bool:
    """Whether a time means something only with a table of time zones, which changes."""
    if not isinstance(value, dt.datetime):
        return False
    return bool(value.fold) or not (value.tzinfo is None or isinstance(value.tzinfo, dt.timezone))


def _encode_integer(value: int) -> JSONValue:
    return value if abs(value) <= MAX_INTEGER else {"$int": str(value)}


_SCALARS: tuple[tuple[type, Callable[[Any], JSONValue]], ...] = (
    (int, _encode_integer),
    (bytes, lambda value: {"$bytes": base64.b64encode(value).decode()}),
    (complex, lambda value: {"$complex": [_float_text(value.real), _float_text(value.imag)]}),
    (decimal.Decimal, lambda value: {"$decimal": str(value)}),
    (dt.datetime, lambda value: {"$datetime": value.isoformat()}),
    (dt.date, lambda value: {"$date": value.isoformat()}),
    (dt.timedelta, lambda value: {"$timedelta": [value.days, value.seconds, value.microseconds]}),
)


def _decode(value: JSONValue) -> Any:
    if isinstance(value, list):
        return [_decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    mark = next(iter(value), "")
    if not mark.startswith("$"):
        return {key: _decode(item) for key, item in value.items()}
    read = _READERS.get(mark)
    try:
        if read is None or len(value) != 1:
            raise ValueError(mark)  # noqa: TRY301 - one place says what is wrong
        return read(value[mark])
    except (ValueError, TypeError, AttributeError, LookupError, decimal.InvalidOperation) as error:
        raise MalformedError(
            f"parameter of the form {mark!r}: it cannot be read", reason="parameter-text"
        ) from error


def _read_integer(text: str) -> int:
    if len(text) > _MAX_DIGITS:
        raise ValueError(text)
    return int(text)


_READERS: dict[str, Callable[[Any], Any]] = {
    "$float": float,
    "$int": _read_integer,
    "$bytes": lambda text: base64.b64decode(text, validate=True),
    "$complex": lambda parts: complex(float(parts[0]), float(parts[1])),
    "$decimal": decimal.Decimal,
    "$datetime": dt.datetime.fromisoformat,
    "$date": dt.date.fromisoformat,
    "$timedelta": lambda parts: dt.timedelta(*parts),
    "$tuple": lambda items: tuple(_decode(item) for item in items),
    "$dict": lambda pairs: {_decode(key): _decode(item) for key, item in pairs},
}
