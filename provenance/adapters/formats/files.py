"""Files as bytes: opened once, regular ones only, read by the mebibyte; and foreign exceptions made ours."""

from __future__ import annotations

import contextlib
import os
import stat
import struct
import tokenize
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import pyarrow as pa

from provenance.core.digests import Digest, FileBytes, bytes1
from provenance.errors import ConfigError, MalformedError, ProvenanceError, UnavailableError
from provenance.files import refuse_address, refused

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["BUFFER_BYTES", "decoding", "file_bytes", "open_regular", "reaching", "sha256_file", "shown"]

BUFFER_BYTES = 1 << 20

_FOREIGN = (
    pa.ArrowException,
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    struct.error,
    tokenize.TokenError,
)
"""What decoders raise at bytes that they were not made for; damaged files reach most of their code."""


def shown(path: Path | str) -> str:
    r"""A path for people and for JSON: bytes that are not UTF-8 are written ``\xff``."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


@contextlib.contextmanager
def reaching(path: Path | str) -> Iterator[None]:
    """Turn what the system says about a path into our errors.

    Raises:
        ConfigError: ``no-such-file``: it is not there, or its name can be none.
        UnavailableError: it is there and cannot be read.
    """
    try:
        yield
    except (FileNotFoundError, NotADirectoryError) as error:
        refuse_address(path)
        raise ConfigError(
            f"{shown(path)}: there is no such file or folder", reason="no-such-file", remedy="Check the path."
        ) from error
    except OSError as error:
        raise _refused(error, path) from error
    except ValueError as error:  # a NUL in the name
        raise ConfigError(f"{path!r}: no file can have this name", reason="no-such-file") from error


def _refused(error: OSError, path: Path | str) -> UnavailableError:
    told = refused(error, Path(path), "read")
    return UnavailableError(
        f"{shown(path)}: cannot read it: {error.strerror or error}", reason=told.reason, remedy=told.remedy
    )


@contextlib.contextmanager
def open_regular(path: Path | str) -> Iterator[BinaryIO]:
    """The open file, if it is a regular one; a pipe or device in its place does not block.

    Raises:
        MalformedError: ``not-a-file``.
        ConfigError, UnavailableError: as `reaching`.
    """
    with reaching(path):
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise MalformedError(
                f"{shown(path)}: expected a regular file, found a pipe, socket or device",
                reason="not-a-file",
                remedy="Copy what comes out of it into a file, and give that.",
            )
        yield file


def file_bytes(path: Path | str) -> FileBytes:
    """The file, to be read when its digest is taken."""
    return FileBytes(_chunks(path))


def _chunks(path: Path | str) -> Iterator[memoryview]:
    with open_regular(path) as file:
        buffer = memoryview(bytearray(BUFFER_BYTES))
        while True:
            with reaching(path):
                count = file.readinto(buffer)  # type: ignore[attr-defined]
            if not count:
                return
            yield buffer[:count]


def sha256_file(path: Path | str, algorithm: str = "sha256") -> Digest:
    """The digest of a file's bytes, in memory that does not grow with it: ``sha256``, or ``blake3``.

    Raises:
        MalformedError, ConfigError, UnavailableError: as `open_regular`.
    """
    return bytes1(_chunks(path), algorithm=algorithm)


@contextlib.contextmanager
def decoding(path: Path | str, form: str) -> Iterator[None]:
    """Turn what a decoder raises into our errors.

    Raises:
        MalformedError: ``damaged``: the file does not hold what ``form`` says.
        UnavailableError: the system cannot read it, or memory does not suffice.
    """
    try:
        yield
    except ProvenanceError:
        raise
    except MemoryError as error:
        raise UnavailableError(
            f"{shown(path)}: what it decodes to needs more memory than there is",
            reason="memory",
            remedy="Digest its bytes instead: --kind sha256",
        ) from error
    except _FOREIGN as error:
        if isinstance(error, OSError) and error.errno and not isinstance(error, pa.ArrowException):
            raise _refused(error, path) from error
        text = " ".join(str(error).split())[:300] or type(error).__name__
        raise MalformedError(
            f"{shown(path)}: damaged or incomplete, it cannot be read as {form}: {text}",
            reason="damaged",
            remedy="Get the file again from where it came from; --kind sha256 digests its bytes as they are.",
        ) from error
