"""The two hash functions of digests, and the sink that sections are written to.

SHA-256 is the default and the only hash of trees and of the contract; BLAKE3 (256 bits) is there for users
who choose speed.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np
from blake3 import blake3

from provenance.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

__all__ = ["Algorithm", "Hasher", "Sink", "concat_hash", "new_hasher"]

Algorithm = Literal["sha256", "blake3"]


class Hasher(Protocol):
    """What `hashlib` objects and BLAKE3's have in common."""

    def update(self, data: bytes | memoryview, /) -> object:
        """Append bytes to the message."""
        ...

    def digest(self) -> bytes:
        """The 32-byte hash of the message so far."""
        ...


def new_hasher(algorithm: str) -> Hasher:
    """A fresh hasher by name, ``"sha256"`` or ``"blake3"``.

    Raises:
        ConfigError: for any other name.
    """
    if algorithm == "sha256":
        return hashlib.sha256()
    if algorithm == "blake3":
        return blake3()
    raise ConfigError(f"unknown hash {algorithm!r}", remedy="Use 'sha256' or 'blake3'.")


def concat_hash(algorithm: str, parts: Iterable[bytes]) -> bytes:
    """The hash of the parts, joined."""
    hasher = new_hasher(algorithm)
    hasher.update(b"".join(parts))
    return hasher.digest()


class Sink:
    """Hashes a prefix and what is written, and counts the bytes written."""

    __slots__ = ("_hasher", "nbytes")

    def __init__(self, algorithm: str, prefix: bytes) -> None:
        self._hasher = new_hasher(algorithm)
        self._hasher.update(prefix)
        self.nbytes = 0

    def write(self, values: NDArray[np.generic]) -> None:
        """Append the little-endian bytes of a C-contiguous array; copies only on a big-endian machine."""
        little = values.astype(values.dtype.newbyteorder("<"), copy=False)
        data = little.reshape(-1).view(np.uint8).data
        self._hasher.update(data)
        self.nbytes += len(data)

    def write_bits(self, parts: Sequence[NDArray[np.bool_]]) -> None:
        """Append the parts' values, joined, one bit each, least significant first, padding 0."""
        bits = parts[0] if len(parts) == 1 else np.concatenate(parts)
        self.write(np.packbits(bits, bitorder="little"))

    def digest(self) -> bytes:
        """The 32-byte hash of prefix and everything written."""
        return self._hasher.digest()
