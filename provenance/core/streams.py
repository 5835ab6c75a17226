"""Streams: one log partition as the contract names it, and the accumulator that chains its batches.

A stream's name binds chain, contract, organisation, generation, first offset, log partition and predecessor,
so that it can be taken by no one else
and nothing goes on silently after a log was made anew. ``acc(n)`` binds everything anchored up to batch n
(`spec/anchoring.md`, "Stream").
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from provenance.core import canonical
from provenance.errors import MalformedError

__all__ = [
    "MAX_GENERATION",
    "MAX_OFFSET",
    "MAX_ORG",
    "NO_PREDECESSOR",
    "LogIdentity",
    "Opening",
    "binding_of",
    "continues_of",
    "next_acc",
    "stream_of",
]

MAX_OFFSET = 2**53 - 1
MAX_ORG = 183
MAX_GENERATION = 2**32 - 1
NO_PREDECESSOR = bytes(32)

_PREFIX = b"provenance-ledger:stream:1"
_TOPIC_ID = re.compile(r"[0-9a-f]{32}")
_MAX_NAME = 249  # Kafka's own limit for topics; cluster ids are shorter


@dataclass(frozen=True, slots=True, order=True)
class LogIdentity:
    """One partition of one log. ``topic_id`` is 32 lower-case hex digits, ``partition`` a 31-bit number."""

    cluster_id: str
    topic: str
    topic_id: str
    partition: int

    def __post_init__(self) -> None:
        for what, text in (("cluster id", self.cluster_id), ("topic", self.topic)):
            if not 0 < len(text) <= _MAX_NAME:
                raise MalformedError(
                    f"{what}: {len(text)} characters, expected 1 to {_MAX_NAME}", reason="name-length"
                )
        if not _TOPIC_ID.fullmatch(self.topic_id):
            raise MalformedError(
                f"topic id {self.topic_id!r:.60}: expected 32 lower-case hex digits", reason="topic-id"
            )
        _require("partition", self.partition, 0, 2**31 - 1)


@dataclass(frozen=True, slots=True)
class Opening:
    """What a stream was opened with: the fields that its name covers.

    ``contract`` is 20 bytes, ``binding`` and ``continues`` 32.
    """

    chain_id: int
    contract: bytes
    org: int
    generation: int
    start_offset: int
    binding: bytes
    continues: bytes = NO_PREDECESSOR

    def __post_init__(self) -> None:
        _require("chain id", self.chain_id, 0, 2**256 - 1)
        _require("organisation", self.org, 1, MAX_ORG)
        _require("generation", self.generation, 1, MAX_GENERATION)
        _require("start offset", self.start_offset, 0, MAX_OFFSET)
        for what, value, length in (
            ("contract", self.contract, 20),
            ("binding", self.binding, 32),
            ("continues", self.continues, 32),
        ):
            _require_length(what, value, length)


def binding_of(log: LogIdentity) -> bytes:
    """``SHA-256(canonical JSON {cluster_id, partition, topic_id})``: the partition that a stream covers."""
    text = canonical.encode(
        {"cluster_id": log.cluster_id, "partition": log.partition, "topic_id": log.topic_id}
    )
    return hashlib.sha256(text).digest()


def stream_of(opening: Opening) -> bytes:
    """The stream's name as the contract computes it; also ``acc(0)``."""
    return hashlib.sha256(
        _PREFIX
        + opening.chain_id.to_bytes(32, "big")
        + opening.contract
        + opening.org.to_bytes(1, "big")
        + opening.generation.to_bytes(4, "big")
        + opening.start_offset.to_bytes(8, "big")
        + opening.binding
        + opening.continues
    ).digest()


def next_acc(
    prev_acc: bytes,
    seq: int,
    *,
    first_offset: int,
    next_offset: int,
    leaf_count: int,
    root: bytes,
    manifest_hash: bytes,
) -> bytes:
    """``acc(seq)`` from ``acc(seq-1)`` and what batch ``seq`` anchors."""
    _require("seq", seq, 1, MAX_OFFSET)
    _require("first offset", first_offset, 0, MAX_OFFSET)
    _require("next offset", next_offset, first_offset + 1, MAX_OFFSET)
    _require("leaf count", leaf_count, 1, 2**32 - 1)
    for what, value in (("prev acc", prev_acc), ("root", root), ("manifest hash", manifest_hash)):
        _require_length(what, value, 32)
    return hashlib.sha256(
        b"\x02"
        + prev_acc
        + seq.to_bytes(8, "big")
        + first_offset.to_bytes(8, "big")
        + next_offset.to_bytes(8, "big")
        + leaf_count.to_bytes(4, "big")
        + root
        + manifest_hash
    ).digest()


def continues_of(opening: Opening, seq: int, acc: bytes) -> bytes:
    """What a successor's opening carries: the last good position ``(seq.

    Acc)`` of the stream opened with ``opening``.
    """
    _require("seq", seq, 0, MAX_OFFSET)
    _require_length("acc", acc, 32)
    return hashlib.sha256(
        opening.chain_id.to_bytes(32, "big")
        + opening.contract
        + stream_of(opening)
        + seq.to_bytes(8, "big")
        + acc
    ).digest()


def _require(what: str, value: int, low: int, high: int) -> None:
    if isinstance(value, bool) or not low <= value <= high:
        raise MalformedError(
            f"{what} {value}: expected {low} to {high}", reason=f"{what.replace(' ', '-')}-out-of-range"
        )


def _require_length(what: str, value: bytes, length: int) -> None:
    if len(value) != length:
        raise MalformedError(
            f"{what}: {len(value)} bytes, expected {length}", reason=f"{what.replace(' ', '-')}-length"
        )
