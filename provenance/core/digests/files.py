"""The digest of a file's bytes, as `sha256sum` prints it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from provenance.core.digests.hashes import new_hasher
from provenance.core.digests.model import Digest

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["bytes1"]


def bytes1(chunks: Iterable[bytes | memoryview], *, algorithm: str = "sha256") -> Digest:
    """The digest of the chunks, joined: ``sha256``, or ``blake3``.

    Raises:
        ConfigError: for an unknown algorithm.
    """
    hasher, size = new_hasher(algorithm), 0
    for chunk in chunks:
        hasher.update(chunk)
        size += len(chunk)
    return Digest(algorithm, hasher.digest(), nbytes=size)
