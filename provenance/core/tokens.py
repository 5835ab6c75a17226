"""Tokens: what stands in a record in place of a person's key or a file's name.

``HMAC-SHA256(dataset secret, domain || 0x00 || value)`` (`spec/records.md`, "Personal data never stand in a
record"): equal values give equal tokens within
a dataset, and nobody without the secret can tell whose they are.
"""

from __future__ import annotations

import hashlib
import hmac
import unicodedata
from urllib.parse import urlsplit, urlunsplit

from provenance.errors import MalformedError

__all__ = ["SECRET_BYTES", "key_token", "name_token", "plain_value", "strip_address"]

SECRET_BYTES = 32


def plain_value(value: str | int) -> str:
    """The text that a token is taken of: NFC, integers in decimal; anything else is refused."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise MalformedError(
            f"key of type {type(value).__name__}: expected text or an integer", reason="key-type"
        )
    try:
        text = unicodedata.normalize("NFC", str(value))
        text.encode()
    except (UnicodeEncodeError, ValueError) as error:  # ValueError: an integer of thousands of digits
        raise MalformedError("key: not valid Unicode text", reason="key-not-utf-8") from error
    return text


def key_token(secret: bytes, value: str | int) -> str:
    """The token of a key, e.g. a speaker: 64 lower-case hex digits."""
    return _token(secret, b"key", plain_value(value))


def name_token(secret: bytes, path: str) -> str:
    """The token of a source file's name: its ``/`` path below the dataset's root."""
    return _token(secret, b"name", plain_value(path))


def _token(secret: bytes, domain: bytes, text: str) -> str:
    if len(secret) != SECRET_BYTES:
        raise MalformedError(
            f"dataset secret: {len(secret)} bytes, expected {SECRET_BYTES}", reason="secret-length"
        )
    return hmac.new(secret, domain + b"\x00" + text.encode(), hashlib.sha256).hexdigest()


def strip_address(address: str) -> str:
    """An address without user, password, query and fragment: those would stay in the record for ever."""
    try:
        parts = urlsplit(address)
        host = parts.hostname or ""
        port = f":{parts.port}" if parts.port is not None else ""
    except ValueError as error:
        raise MalformedError(
            "address: it cannot be parsed, so its secrets could not be removed", reason="address"
        ) from error
    if ":" in host:
        host = f"[{host}]"
    return urlunsplit((parts.scheme, host + port, parts.path, "", ""))
