"""``dataset.toml``: what a dataset is and what may be done with it, as its owner writes it.

The file is kept verbatim and named by its SHA-256; a dataset record carries the few fields that everything
else goes by (`spec/records.md`, kind ``dataset``). What the other tables of the file must hold is the
business of whoever reports on them.
"""

from __future__ import annotations

import hashlib
import tomllib
from typing import TYPE_CHECKING

from provenance.core.kinds import Dataset
from provenance.errors import MalformedError

if TYPE_CHECKING:
    from typing import Any

__all__ = ["MAX_DESCRIPTOR_BYTES", "descriptor_name", "parse_descriptor"]

MAX_DESCRIPTOR_BYTES = 1 << 20
_MAX_TEXT = 512


def descriptor_name(dataset: Dataset) -> str:
    """The descriptor's name in the batch store."""
    return f"datasets/{dataset.descriptor.hex()}.toml"


def parse_descriptor(data: bytes) -> Dataset:
    """The dataset that a descriptor describes.

    ``names_are_personal`` is true unless the file says otherwise: what stands in a record stays there.

    Raises:
        MalformedError: ``descriptor-length``, ``descriptor-text`` (no TOML), ``descriptor-field`` (a field is
            missing or of another type), each naming what.
    """
    if len(data) > MAX_DESCRIPTOR_BYTES:
        raise MalformedError(
            f"dataset.toml: {len(data)} bytes, expected at most {MAX_DESCRIPTOR_BYTES}",
            reason="descriptor-length",
        )
    try:
        table = tomllib.loads(data.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise MalformedError(f"dataset.toml: not TOML: {error}", reason="descriptor-text") from error
    personal = table.get("names_are_personal", True)
    if not isinstance(personal, bool):
        raise _wrong("names_are_personal", "true or false", personal)
    return Dataset(
        name=_text(table, "name"),
        version=_text(table, "version"),
        licence=_text(table, "licence"),
        names_are_personal=personal,
        descriptor=hashlib.sha256(data).digest(),
    )


def _text(table: dict[str, Any], field: str) -> str:
    value = table.get(field)
    if not isinstance(value, str) or not 1 <= len(value) <= _MAX_TEXT:
        raise _wrong(field, f"text of 1 to {_MAX_TEXT} characters", value)
    return value


def _wrong(field: str, expected: str, found: object) -> MalformedError:
    shown = "nothing" if found is None else f"{found!r:.60}"
    return MalformedError(
        f"dataset.toml: {field}: expected {expected}, found {shown}",
        reason="descriptor-field",
        remedy="Write the field at the top of the file, e.g. " + f'{field} = "…"',
    )
