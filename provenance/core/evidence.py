"""What a figure rests on, in words that are never mixed up, and the chain's side of it.

``proved`` needs validators' seals. A chain without any (anvil, Hardhat, Ganache) can at best be taken at the
word of the node that was asked: its evidence stops at the block's hash (`spec/chain.md`, "Others";
`spec/records.md`, "Names of evidence").
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

from provenance.errors import MalformedError, MismatchError, VerificationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from provenance.core.canonical import JSONObject
    from provenance.core.trust import Trust

__all__ = ["BlockEvidence", "Evidence", "check_evidence", "decode_evidence", "encode_evidence"]

_KEYS = frozenset(["block_number", "block_hash", "transaction", "log_index"])


class Evidence(enum.Enum):
    """The five words; every figure carries one."""

    PROVED = "proved"
    NODES_WORD = "on a node's word"
    COMPUTED = "computed"
    SAMPLED = "sampled"
    ASSERTED = "asserted"


@dataclass(frozen=True, slots=True)
class BlockEvidence:
    """Where a node says that an anchor stands: block, transaction, and the log's place in the block."""

    block_number: int
    block_hash: bytes
    transaction: bytes
    log_index: int


def encode_evidence(evidence: BlockEvidence) -> JSONObject:
    """As it stands in a proof file; hashes as hex, for no decoder needs their bytes."""
    return {
        "block_number": evidence.block_number,
        "block_hash": evidence.block_hash.hex(),
        "transaction": evidence.transaction.hex(),
        "log_index": evidence.log_index,
    }


def decode_evidence(value: object) -> BlockEvidence:
    """From a proof file.

    Raises:
        MalformedError: ``evidence``; what a later version may add (headers with seals) is not taken for this.
    """
    if not isinstance(value, dict) or set(value) != _KEYS:
        raise MalformedError(
            "chain evidence: not of the form that this version knows", reason="evidence", remedy=_UPDATE
        )
    return BlockEvidence(
        _count(value, "block_number"),
        _hash(value, "block_hash"),
        _hash(value, "transaction"),
        _count(value, "log_index"),
    )


_UPDATE = "Verify it with a version of this program that knows this kind of evidence."


def _count(value: Mapping[str, object], key: str) -> int:
    number = value[key]
    if type(number) is not int or not 0 <= number < 2**63:
        raise MalformedError(f"chain evidence: {key} is no count", reason="evidence")
    return number


def _hash(value: Mapping[str, object], key: str) -> bytes:
    text = value[key]
    if type(text) is not str or len(text) != 64 or text.strip("0123456789abcdef"):
        raise MalformedError(f"chain evidence: {key} is not 64 lower-case hex digits", reason="evidence")
    return bytes.fromhex(text)


def check_evidence(evidence: BlockEvidence, trust: Trust) -> Evidence:
    """What an anchor with this evidence rests on; raises where it contradicts the trust file.

    Raises:
        VerificationError: ``no-seals``: the trusted chain has validators who seal its blocks, and the
            evidence shows no seal. It would be worth no more than a node's word, and more can be had.
        MismatchError: ``pin``: the block's hash is not the one pinned for its number.
    """
    if trust.consensus != "none":
        raise VerificationError(
            f"block {evidence.block_number}: a {trust.consensus} chain seals blocks, but no seal is shown",
            reason="no-seals",
            remedy="Ask for a proof that carries the sealed block header.",
        )
    pins = {pin.number: pin.hash for pin in trust.pins}
    pinned = pins.get(evidence.block_number)
    if pinned is not None and pinned != evidence.block_hash:
        raise MismatchError(
            f"hash of block {evidence.block_number}, which the trust file pins",
            expected=pinned.hex(),
            actual=evidence.block_hash.hex(),
            reason="pin",
        )
    return Evidence.NODES_WORD
