r"""Lists of digests, as `sha256sum` writes and checks them: ``DIGEST  PATH``, one a line.

A name with a backslash, newline or carriage return is written with ``\\``, ``\n``, ``\r``, and its line
begins with a backslash (GNU coreutils, "cksum output modes"). Lines are bytes, since names on disk are.
"""

from __future__ import annotations

import re

from provenance.core.digests.model import Digest, parse_digest
from provenance.errors import MalformedError

__all__ = ["MAX_LINE_BYTES", "decode_line", "encode_line", "escape_name"]

MAX_LINE_BYTES = 65_536

_LINE = re.compile(rb"(\\?)((?:[a-z0-9-]+:)?[0-9a-fA-F]{64}) [ *](.+)", re.DOTALL)
_ESCAPES = {b"\\": b"\\\\", b"\n": b"\\n", b"\r": b"\\r"}
_UNESCAPES = {escaped: plain for plain, escaped in _ESCAPES.items()}


def escape_name(name: bytes) -> tuple[bytes, bytes]:
    r"""The mark of its line, empty or a backslash, and the name as it is written."""
    written = re.sub(rb"[\\\n\r]", lambda match: _ESCAPES[match[0]], name)
    return (b"" if written == name else b"\\", written)


def encode_line(digest: Digest, name: bytes) -> bytes:
    """The line, without its newline."""
    mark, written = escape_name(name)
    return mark + str(digest).encode() + b"  " + written


def decode_line(line: bytes) -> tuple[Digest, bytes]:
    """Digest and name of a line, without its newline; a bare hash, as `sha256sum` writes it, is ``sha256``.

    Raises:
        MalformedError: ``list-line``, ``digest-kind``.
    """
    match = _LINE.fullmatch(line) if len(line) <= MAX_LINE_BYTES else None
    if match is None:
        raise _not_a_line(line)
    text = match[2].decode()
    kind, _, value = text.rpartition(":")
    digest = parse_digest(f"{kind or 'sha256'}:{value.lower()}")
    name = match[3]
    if match[1]:
        if re.fullmatch(rb"(?:[^\\]|\\[\\nr])+", name) is None:
            raise _not_a_line(line)
        name = re.sub(rb"\\.", lambda escape: _UNESCAPES[escape[0]], name)
    return digest, name


def _not_a_line(line: bytes) -> MalformedError:
    return MalformedError(
        f"not a line of a digest list, expected DIGEST  PATH: {line[:100]!r}", reason="list-line"
    )
