"""Lineage inside a record: which partitions one was made from, written the same for the same work.

A `Ref` travels with a partition's data from task to task, so that the record of a partition can name its
parents without anybody asking a scheduler. Up to 64 inputs are listed one by one, each with all digests of
its subject; above that, one root per parent stage over the ids of the records that were really read
(`spec/records.md`, "Fields of the predicate").
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from provenance.core import merkle
from provenance.core.kinds import Input, InputRoot
from provenance.core.schemas import MAX_INPUTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from provenance.core.records import Subject

__all__ = ["Ref", "inputs_of", "name_cost"]

_MAX_NAME_COST = 16_000
"""Bytes that the names of listed inputs may take; with 64 of them the record stays within its limit."""


@dataclass(frozen=True, slots=True)
class Ref:
    """What is known of a partition that has been recorded; small, and it travels with the data.

    ``stage`` and ``record`` are raw ids, ``key`` a token, ``rejected`` a reason code.
    """

    stage: bytes
    number: int
    record: bytes
    subjects: tuple[Subject, ...]
    rows: int
    bytes: int
    key: str | None = None
    rejected: str | None = None


def inputs_of(read: Iterable[Ref]) -> tuple[Input, ...] | tuple[InputRoot, ...]:
    """The inputs of a partition that was made from these.

    Listed by (stage, partition, name) while there are at most 64 subjects in total and their names fit into a
    record; else as one root per parent stage. A rejected parent has nothing that could be read; only where
    all are rejected do they stand as a root, so that the record is not without parents.
    """
    refs = sorted({ref.record: ref for ref in read}.values(), key=lambda ref: (ref.stage, ref.number))
    refs = [ref for ref in refs if ref.subjects] or refs
    count = sum(len(ref.subjects) for ref in refs)
    cost = sum(name_cost(subject.name) for ref in refs for subject in ref.subjects)
    if count <= MAX_INPUTS and cost <= _MAX_NAME_COST and all(ref.subjects for ref in refs):
        return tuple(
            Input(ref.record, subject.name, subject.digest)
            for ref in refs
            for subject in sorted(ref.subjects, key=lambda subject: subject.name)
        )
    return _roots(refs)


def _roots(refs: Sequence[Ref]) -> tuple[InputRoot, ...]:
    by_stage: dict[bytes, list[bytes]] = {}
    for ref in refs:
        by_stage.setdefault(ref.stage, []).append(ref.record)
    return tuple(InputRoot(stage, len(ids), merkle.root(ids)) for stage, ids in by_stage.items())


def name_cost(name: str) -> int:
    """How many bytes a subject's name takes in a record, quotes and escapes included."""
    return len(json.dumps(name, ensure_ascii=False).encode("utf-8", "surrogatepass"))
