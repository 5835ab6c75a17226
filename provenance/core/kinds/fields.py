"""What the kinds share: optional fields, hex and raw digests, and the check that a statement is of a kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from provenance.errors import MalformedError

if TYPE_CHECKING:
    from provenance.core.canonical import JSONObject
    from provenance.core.records import Statement

__all__ = ["expect", "hex_or_none", "optional", "raw_or_none"]


def optional(**fields: object) -> JSONObject:
    """The fields that are there; an absent one is left out, never null."""
    return {name: value for name, value in fields.items() if value is not None}


def hex_or_none(value: bytes | None) -> str | None:
    """A digest as hex digits."""
    return None if value is None else value.hex()


def raw_or_none(text: str | None) -> bytes | None:
    """Hex digits as a digest."""
    return None if text is None else bytes.fromhex(text)


def expect(statement: Statement, kind: str) -> JSONObject:
    """The predicate of a statement that is of this kind; ``MalformedError`` if it is of another."""
    if statement.kind != kind:
        raise MalformedError(f"{statement.kind} record: expected a {kind} record", reason="other-kind")
    return statement.predicate
