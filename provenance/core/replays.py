"""Replay: what is run again, what comes back, and what it is worth.

A replay runs a run's stages from the raw files and yields each partition as it was computed again. The
verdict on a partition comes from comparing digests alone; values are looked at only where digests differ, to
name the place and to hold the difference against the tolerance that was anchored beforehand
(`spec/records.md`, the stage's replay profile).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from provenance.core.kinds import Partition, Stage

__all__ = ["PartComparison", "ReplayPlan", "Verdict", "compare_partition", "judge_deviation", "worst"]

_LOGICAL = ("table1-", "array1-")


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """What is to be run again: the run's id, its stages by record id, parents first.

    ``partitions`` is the number of counted partitions of each stage, from the seal.
    """

    run: bytes
    stages: Mapping[bytes, Stage]
    partitions: Mapping[bytes, int]


@dataclass(frozen=True, slots=True)
class PartComparison:
    """One stored part of a partition against the same part computed again.

    Attributes:
        name: the subject's name in the partition record.
        places: where values differ, in words: ``array block 3``, ``column pitch, block 0``. Empty if equal.
        chunks: the stored objects, or chunks within one, that hold those values: ``c/0/0, chunk (2, 0)``.
        deviation: the largest absolute difference as a decimal text; None where values cannot be subtracted.
        problem: why the stored part could not be decoded; empty if it could.
    """

    name: str
    places: tuple[str, ...] = ()
    chunks: tuple[str, ...] = ()
    deviation: str | None = None
    problem: str = ""


class Verdict(enum.IntEnum):
    """What a replay says of a partition or a stage; a higher value is worse."""

    BIT_EXACT = 0
    LOGICALLY_EQUAL = 1
    WITHIN_TOLERANCE = 2
    FAILED = 3

    @property
    def words(self) -> str:
        """As reports write it."""
        return self.name.lower().replace("_", " ").replace("bit exact", "bit-exact")


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict on a whole; bit-exact of nothing."""
    return max(verdicts, default=Verdict.BIT_EXACT)


def compare_partition(recorded: Partition, computed: Partition) -> Verdict:
    """The verdict that digests alone allow: bit-exact, logically equal, or failed.

    Logically equal means: the same parts, rows, key and rejection, every logical digest recorded was computed
    again and is equal; a part that has a physical digest only must be equal in it.
    """
    if _facts(recorded) != _facts(computed):
        return Verdict.FAILED
    again = {subject.name: subject.digest for subject in computed.subjects}
    exact = True
    for subject in recorded.subjects:
        digest, other = subject.digest, again[subject.name]
        if dict(digest) == dict(other):
            continue
        exact = False
        decisive = [kind for kind in digest if kind.startswith(_LOGICAL)] or list(digest)
        if any(digest[kind] != other.get(kind) for kind in decisive):
            return Verdict.FAILED
    return Verdict.BIT_EXACT if exact else Verdict.LOGICALLY_EQUAL


def _facts(partition: Partition) -> tuple[object, ...]:
    names = sorted(subject.name for subject in partition.subjects)
    return (partition.rows, partition.key, partition.rejected, names)


def judge_deviation(stage: Stage, comparisons: Iterable[PartComparison]) -> Verdict:
    """Whether differing parts are within what the stage's record allowed beforehand.

    Tolerances are decimal texts, absolute, by the part's name; ``*`` stands for every other part. Where no
    value could be compared, nothing is within a tolerance.
    """
    parts = [part for part in comparisons if part.places or part.problem]
    within = stage.profile == "tolerance" and parts and all(_within(stage.tolerances, p) for p in parts)
    return Verdict.WITHIN_TOLERANCE if within else Verdict.FAILED


def _within(tolerances: Mapping[str, str], part: PartComparison) -> bool:
    # A part of a stored partition is named pNNNNN/part; a tolerance is given for the part.
    allowed = tolerances.get(part.name.rpartition("/")[2], tolerances.get("*"))
    if allowed is None or part.deviation is None or part.problem:
        return False
    try:
        deviation, limit = Decimal(part.deviation), Decimal(allowed)
    except InvalidOperation:
        return False
    return deviation.is_finite() and limit.is_finite() and deviation <= limit
