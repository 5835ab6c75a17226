"""Signing records, and time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import datetime as dt


__all__ = ["Clock", "RecordSigner"]


class RecordSigner(Protocol):
    """Signs records with Ed25519."""

    def public_key(self) -> bytes:
        """The raw 32-byte public key."""
        ...

    def sign(self, message: bytes) -> bytes:
        """The 64-byte signature of the message (RFC 8032, pure Ed25519)."""
        ...


class Clock(Protocol):
    """Time, so that tests can own it."""

    def now(self) -> dt.datetime:
        """The present, in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait."""
        ...
