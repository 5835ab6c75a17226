"""What is known of a transaction between its signing and its end.

These are plain values that the batcher's rules (`provenance.core.batcher`) and the ports share; a node, a key
and a journal stand behind the ports.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

__all__ = ["JournalEntry", "SignedTransaction", "TxState"]


class TxState(enum.Enum):
    """What a node says of a transaction hash."""

    UNKNOWN = "unknown"
    PENDING = "pending"
    MINED = "mined"
    FINAL = "final"
    REVERTED = "reverted"


@dataclass(frozen=True, slots=True)
class SignedTransaction:
    """A transaction that has been signed and not necessarily sent: the sender's nonce, its hash.

    And the bytes to send.
    """

    nonce: int
    hash: bytes
    raw: bytes


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """A signed transaction with what it anchors.

    ``purpose`` is ``"anchor"``, or for the governance account ``"open"``.
    """

    transaction: SignedTransaction
    purpose: str
    stream: bytes
    seq: int
