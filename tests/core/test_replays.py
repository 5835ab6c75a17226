"""Verdicts: what digests allow, and what a tolerance does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from provenance.core.kinds import Partition, Stage, Transform
from provenance.core.records import Subject
from provenance.core.replays import PartComparison, Verdict, compare_partition, judge_deviation, worst

A, B = "a" * 64, "b" * 64
PART = Subject("p0/mel", {"tree1-sha256": A, "array1-sha256": A})
RECORDED = Partition(bytes(32), bytes(32), 0, 5, 10, (PART, Subject("p0/raw", {"sha256": A})), (), key=A)


def with_digests(*digests):
    parts = tuple(
        replace(part, digest=digest) for part, digest in zip(RECORDED.subjects, digests, strict=True)
    )
    return replace(RECORDED, subjects=parts)


@pytest.mark.parametrize(
    ("computed", "verdict"),
    [
        (RECORDED, Verdict.BIT_EXACT),
        (replace(RECORDED, subjects=RECORDED.subjects[::-1]), Verdict.BIT_EXACT),
        (replace(RECORDED, bytes=11), Verdict.BIT_EXACT),
        (with_digests({"tree1-sha256": B, "array1-sha256": A}, {"sha256": A}), Verdict.LOGICALLY_EQUAL),
        (with_digests({"array1-sha256": A}, {"sha256": A}), Verdict.LOGICALLY_EQUAL),
        (with_digests({"tree1-sha256": A, "array1-sha256": B}, {"sha256": A}), Verdict.FAILED),
        (with_digests({"tree1-sha256": A}, {"sha256": A}), Verdict.FAILED),
        (with_digests(PART.digest, {"sha256": B}), Verdict.FAILED),
        (with_digests(PART.digest, {"blake3": A}), Verdict.FAILED),
        (replace(RECORDED, rows=6), Verdict.FAILED),
        (replace(RECORDED, key=None), Verdict.FAILED),
        (replace(RECORDED, rejected="too-short"), Verdict.FAILED),
        (replace(RECORDED, subjects=RECORDED.subjects[:1]), Verdict.FAILED),
        (replace(RECORDED, subjects=(PART, replace(RECORDED.subjects[1], name="x"))), Verdict.FAILED),
    ],
)
def test_verdicts_of_digests(computed, verdict):
    assert compare_partition(RECORDED, computed) is verdict


def test_the_worst_counts():
    assert worst([]) is Verdict.BIT_EXACT
    assert worst([Verdict.LOGICALLY_EQUAL, Verdict.FAILED, Verdict.BIT_EXACT]) is Verdict.FAILED


def test_their_words():
    assert [verdict.words for verdict in Verdict] == [
        "bit-exact",
        "logically equal",
        "within tolerance",
        "failed",
    ]


TRANSFORM = Transform("voice:mel", bytes(32), bytes(32), bytes(32), "voice 1")
STAGE = Stage(
    bytes(32), "store", (), TRANSFORM, profile="tolerance", tolerances={"mel": "1e-6", "*": "0.5", "odd": "x"}
)


def part(name, deviation, **changes):
    return replace(PartComparison(name, ("array block 0",), (), deviation), **changes)


@pytest.mark.parametrize(
    ("parts", "within"),
    [
        ([part("p0/mel", "0.000001")], True),
        ([part("mel", "1E-6")], True),
        ([part("p0/energy", "0.5")], True),
        ([part("p0/mel", "0"), PartComparison("p0/energy")], True),
        ([part("p0/mel", "0.0000011")], False),
        ([part("p0/energy", "0.51")], False),
        ([part("p0/mel", None)], False),
        ([part("p0/mel", "NaN")], False),
        ([part("p0/mel", "Infinity")], False),
        ([part("p0/mel", "much")], False),
        ([part("p0/odd", "0")], False),
        ([part("p0/mel", "0", problem="it does not decode")], False),
        ([part("p0/mel", "0"), part("p0/energy", "9")], False),
        ([PartComparison("p0/mel")], False),
        ([], False),
    ],
)
def test_tolerances(parts, within):
    assert judge_deviation(STAGE, parts) is (Verdict.WITHIN_TOLERANCE if within else Verdict.FAILED)
    assert judge_deviation(replace(STAGE, profile="logical"), parts) is Verdict.FAILED


def test_a_part_without_a_tolerance():
    only_mel = replace(STAGE, tolerances={"mel": "1"})
    assert judge_deviation(only_mel, [part("p0/energy", "0")]) is Verdict.FAILED
