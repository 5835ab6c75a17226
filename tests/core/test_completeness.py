"""What complete means, check by check; attacks on whole runs are in tests/services/test_audit_chain.py."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest

from provenance.core import merkle
from provenance.core.completeness import (
    check_inputs,
    check_stage,
    check_stage_records,
    is_sink,
    needed_stages,
)
from provenance.core.counting import Place, StageIds
from provenance.core.kinds import Input, InputRoot, Partition, Seal, SealedStage, Stage, Transform
from provenance.core.records import Subject

RUN, OTHER_RUN = b"r" * 32, b"q" * 32
RAW, CLEAN, STORE = (name.encode().ljust(32, b".") for name in ("raw", "clean", "store"))


def stage(name, *parents, function="voice:clean", run=RUN, partitions=None):
    transform = Transform(function, bytes(32), bytes(32), bytes(32), "voice 1")
    return Stage(run, name, parents, transform, partitions=partitions)


STAGES = {
    RAW: stage("raw", function="provenance:files"),
    CLEAN: stage("clean", RAW),
    STORE: stage("store", CLEAN, function="provenance:write_zarr"),
}


def record(stage_id, number):
    return hashlib.sha256(stage_id + bytes([number])).digest()


def partition(stage_id, number, inputs=(), rows=1):
    part = Subject(f"p{number}", {"sha256": record(stage_id, number).hex()})
    return Partition(RUN, stage_id, number, rows, 10, (part,), tuple(inputs))


def counted(stage_id, numbers, sealed=None):
    ids = StageIds()
    for number in numbers:
        ids.add(record(stage_id, number), partition(stage_id, number), Place(0, number))
    return ids.settle(sealed or seal_of(stage_id, numbers))


def seal_of(stage_id, numbers, **changes):
    root = merkle.root(record(stage_id, number) for number in numbers)
    count = len(numbers)
    return replace(SealedStage(stage_id, STAGES[stage_id].name, count, count, 10 * count, root), **changes)


def seal(*stages):
    return Seal(
        RUN, "complete", "2026-01-01T00:00:00Z", stages or tuple(seal_of(one, [0, 1]) for one in STAGES)
    )


def codes(problems):
    return [problem.code for problem in problems]


# ----------------------------------------------------------------------------------------------------- stages


def test_sinks_are_the_built_in_writers():
    assert [is_sink(one) for one in STAGES.values()] == [False, False, True]
    assert not is_sink(stage("x", function="voice:write_zarr"))


def test_what_a_sink_descends_from_is_needed():
    side = b"side".ljust(32, b".")
    assert needed_stages({**STAGES, side: stage("side", RAW)}) == frozenset(STAGES)
    assert needed_stages({STORE: STAGES[STORE]}) == {STORE, CLEAN}, "a parent elsewhere is needed too"


def test_where_nothing_is_stored_everything_is_needed():
    without = {RAW: STAGES[RAW], CLEAN: STAGES[CLEAN]}
    assert needed_stages(without) == frozenset(without)
    assert needed_stages({}) == frozenset()


def test_a_diamond_is_walked_once():
    left, right = b"left".ljust(32, b"."), b"right".ljust(32, b".")
    stages = {
        RAW: STAGES[RAW],
        left: stage("left", RAW),
        right: stage("right", RAW),
        STORE: stage("store", left, right, function="provenance:write_parquet"),
    }
    assert needed_stages(stages) == frozenset(stages)


@pytest.mark.parametrize(
    ("stages", "code"),
    [
        (STAGES, None),
        ({RAW: STAGES[RAW], CLEAN: STAGES[CLEAN]}, "stage-record-missing"),
        ({**STAGES, STORE: replace(STAGES[STORE], name="other")}, "stage-differs"),
        ({**STAGES, STORE: replace(STAGES[STORE], run=OTHER_RUN)}, "stage-differs"),
        ({**STAGES, RAW: replace(STAGES[RAW], parents=(b"?" * 32,))}, "parent-missing"),
        ({**STAGES, b"+" * 32: stage("more", RAW)}, "stage-not-sealed"),
        ({**STAGES, b"+" * 32: stage("of another run", run=OTHER_RUN)}, None),
    ],
)
def test_stage_records(stages, code):
    assert codes(check_stage_records(seal(), stages)) == ([code] if code else [])


# ----------------------------------------------------------------------------------------------------- counts


def checked(numbers, sealed, *, needed=True, declared=None):
    one = replace(STAGES[STORE], partitions=declared)
    return list(check_stage(sealed, one, counted(STORE, numbers, sealed), needed=needed))


def test_a_whole_stage():
    assert checked([0, 1, 2], seal_of(STORE, [0, 1, 2]), declared=3) == []


def test_numbers_may_leave_gaps():
    assert checked([3, 7], seal_of(STORE, [3, 7])) == []


@pytest.mark.parametrize(
    ("numbers", "sealed", "expected"),
    [
        ([0, 2], [0, 1, 2], ["partition-missing"]),
        ([], [0, 1, 2], ["partition-missing"] * 3),
        ([], list(range(25)), ["partition-missing"] * 20 + ["partitions-missing"]),
        ([3], [3, 7], ["partitions-missing"]),
        ([0, 1, 2], [0, 1], ["not-counted"]),
    ],
)
def test_missing_and_surplus_partitions(numbers, sealed, expected):
    assert codes(checked(numbers, seal_of(STORE, sealed))) == expected


def test_a_missing_partition_has_its_number():
    (problem,) = checked([0, 2], seal_of(STORE, [0, 1, 2]))
    assert (problem.number, problem.stage) == (1, STORE)
    assert "'store', partition 1" in problem.message


def test_what_no_sink_needs_may_be_missing_and_not_be_more():
    assert checked([0], seal_of(STORE, [0, 1, 2]), needed=False) == []
    assert codes(checked([0, 1, 2], seal_of(STORE, [0]), needed=False)) == ["not-counted"] * 2


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"root": bytes(32)}, "seal-root-differs"),
        ({"rows": 9}, "rows-differ"),
        ({"bytes": 9}, "bytes-differ"),
    ],
)
def test_totals(change, code):
    (problem,) = checked([0, 1], seal_of(STORE, [0, 1], **change))
    assert problem.code == code
    assert problem.expected != problem.actual


def test_a_sink_is_to_store_all_that_it_was_made_for():
    assert codes(checked([0, 1], seal_of(STORE, [0, 1]), declared=3)) == ["sink-short"]
    clean = counted(CLEAN, [0, 1])
    one = replace(STAGES[CLEAN], partitions=3)
    assert list(check_stage(seal_of(CLEAN, [0, 1]), one, clean)) == []


# ----------------------------------------------------------------------------------------------------- inputs


def parent_input(number, stage_id=CLEAN, **changes):
    digest = {"sha256": record(stage_id, number).hex()}
    return replace(Input(record(stage_id, number), f"p{number}", digest), **changes)


def inputs_of(*inputs, rows=1):
    all_counted = {RAW: counted(RAW, [0, 1]), CLEAN: counted(CLEAN, [0, 1, 2])}
    one = partition(STORE, 0, inputs, rows)
    return list(check_inputs(record(STORE, 0), one, STAGES[STORE], all_counted))


def test_inputs_of_a_parent():
    assert inputs_of(parent_input(0), parent_input(2)) == []


def test_an_empty_partition_needs_no_input():
    assert inputs_of(rows=0) == []
    assert codes(inputs_of()) == ["no-inputs"]
    assert list(check_inputs(bytes(32), partition(RAW, 0), STAGES[RAW], {})) == []


@pytest.mark.parametrize(
    ("entry", "code"),
    [
        (parent_input(0, record=bytes(32)), "input-not-counted"),
        (parent_input(9), "input-not-counted"),
        (parent_input(0, RAW), "input-not-counted"),
        (parent_input(0, name="p1"), "input-digest-differs"),
        (parent_input(0, digest={"sha256": "0" * 64}), "input-digest-differs"),
        (parent_input(0, record=record(CLEAN, 1)), "input-digest-differs"),
        (parent_input(0, digest={**parent_input(0).digest, "blake3": "0" * 64}), "input-digest-differs"),
    ],
)
def test_an_input_that_is_not_what_it_says(entry, code):
    (problem,) = inputs_of(parent_input(1), entry)
    assert (problem.code, problem.stage, problem.number) == (code, STORE, 0)


WHOLE = merkle.root(record(CLEAN, number) for number in range(3))


@pytest.mark.parametrize(
    ("entry", "code"),
    [
        (InputRoot(CLEAN, 3, WHOLE), None),
        (InputRoot(CLEAN, 1, record(CLEAN, 2)), None),
        (InputRoot(CLEAN, 3, bytes(32)), "input-root-differs"),
        (InputRoot(CLEAN, 2, bytes(32)), "input-root-partial"),
        (InputRoot(CLEAN, 1, bytes(32)), "input-not-counted"),
        (InputRoot(CLEAN, 4, WHOLE), "input-not-counted"),
        (InputRoot(RAW, 2, WHOLE), "input-not-counted"),
        (InputRoot(bytes(32), 2, WHOLE), "input-not-counted"),
    ],
)
def test_inputs_by_their_root(entry, code):
    assert codes(inputs_of(entry)) == ([code] if code else [])


def test_the_only_partition_of_a_parent_by_its_root():
    one = partition(CLEAN, 0, [InputRoot(RAW, 1, record(RAW, 0))])
    assert list(check_inputs(bytes(32), one, STAGES[CLEAN], {RAW: counted(RAW, [0])})) == []
