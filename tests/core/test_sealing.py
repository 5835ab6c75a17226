"""What a seal counts: one record a partition, the right one where attempts diverged, the others set aside."""

from __future__ import annotations

import random
from itertools import permutations

import pytest

from provenance.core import merkle
from provenance.core.kinds import Input, InputRoot, Partition, Stage, StoreTree, Transform
from provenance.core.lists import ListHead
from provenance.core.records import Subject
from provenance.core.sealing import MAX_NUMBER, RunTally, Sealable

RUN = b"r" * 32
RAW, CLEAN, SINK = b"1" * 32, b"2" * 32, b"3" * 32
Record = tuple[bytes, Partition]


def stage(name: str, *parents: bytes, partitions: int | None = 4, transform: str = "m:f") -> Stage:
    return Stage(RUN, name, parents, Transform(transform, RUN, RUN, RUN, ""), partitions=partitions)


STAGES = {
    RAW: stage("raw"),
    CLEAN: stage("clean", RAW),
    SINK: stage("clean.zarr", CLEAN, transform="provenance:write_zarr"),
}


def record(which: bytes, number: int, *parents: Record, variant: str = "", rows: int = 2) -> Record:
    name = merkle.leaf_hash(which + f"{number}/{variant}".encode() + b"".join(p[0] for p in parents))
    inputs = tuple(Input(parent[0], "p", {"sha256": "0" * 64}) for parent in parents)
    subject = Subject(f"p{number:05d}{variant}", {"sha256": "0" * 64})
    return name, Partition(RUN, which, number, rows, 10 * rows, (subject,), inputs)


def chain(number: int, variant: str = "") -> list[Record]:
    raw = record(RAW, number)
    clean = record(CLEAN, number, raw, variant=variant)
    return [raw, clean, record(SINK, number, clean, variant=variant)]


def settle(records: list[Record], *, stored: str = "", stages: dict[bytes, Stage] | None = None) -> Sealable:
    tally = RunTally(stages or STAGES)
    for entry in records:
        tally.add(*entry)
    if tally.divergent:
        for entry in records:
            tally.review(*entry)
    return tally.settle(lambda partition: partition.subjects[0].name.endswith(stored), {})


def test_all_in_order() -> None:
    records = [entry for number in range(4) for entry in chain(number)]
    found = settle(records)
    assert [(one.name, one.partitions, one.rows, one.bytes) for one in found.stages] == [
        ("raw", 4, 8, 80),
        ("clean", 4, 8, 80),
        ("clean.zarr", 4, 8, 80),
    ]
    assert found.stages[0].root == merkle.root([record(RAW, number)[0] for number in range(4)])
    assert found.missing == ()
    assert not any(found.set_aside.values())


def test_order_and_repeats_do_not_matter() -> None:
    records = [entry for number in range(4) for entry in chain(number)]
    mixed = records + records[3:8]
    random.Random(5).shuffle(mixed)
    assert settle(mixed) == settle(records)


@pytest.mark.parametrize("stored", ["", "b"])
@pytest.mark.parametrize("order", list(permutations(range(3)))[:4])
def test_of_divergent_attempts_the_stored_one_counts_and_what_it_was_made_from(
    stored: str, order: tuple[int, ...]
) -> None:
    others = [entry for number in (0, 1, 3) for entry in chain(number)]
    attempts = [chain(2), chain(2, "b"), []]
    records = [*others, *(entry for at in order for entry in attempts[at])]
    found = settle(records, stored=f"00002{stored}")
    counted, lost = (chain(2, stored), chain(2, "b" if not stored else ""))
    assert found.stages[2].root == merkle.root(
        [chain(n)[2][0] if n != 2 else counted[2][0] for n in range(4)]
    )
    assert found.stages[1].root == merkle.root(
        [chain(n)[1][0] if n != 2 else counted[1][0] for n in range(4)]
    )
    assert found.set_aside == {RAW: frozenset(), CLEAN: {lost[1][0]}, SINK: {lost[2][0]}}
    assert found.stages[1].set_aside == ListHead.over([lost[1][0]])


def test_rows_are_those_of_the_counted_attempt() -> None:
    one, other = record(RAW, 0, rows=1), record(RAW, 0, variant="b", rows=7)
    clean = record(CLEAN, 0, other)
    records = [one, other, clean, record(SINK, 0, clean)]
    assert settle(records).stages[0].rows == 7


def test_a_child_that_was_set_aside_has_no_vote() -> None:
    one, other = record(RAW, 0), record(RAW, 0, variant="b")
    counted, lost = record(CLEAN, 0, one), record(CLEAN, 0, other, variant="x")
    records = [one, other, counted, lost, record(SINK, 0, counted)]
    found = settle(records)
    assert found.set_aside[CLEAN] == {lost[0]}
    assert found.set_aside[RAW] == {other[0]}


def test_without_anything_to_go_by_the_smallest_id_counts() -> None:
    attempts = [record(SINK, 0, variant=variant) for variant in "abc"]
    found = settle(attempts, stored="nowhere")
    assert found.set_aside[SINK] == {entry[0] for entry in attempts} - {min(entry[0] for entry in attempts)}


def wide(*read: Record) -> Record:
    root = InputRoot(RAW, len(read), merkle.root([entry[0] for entry in read]))
    name = merkle.leaf_hash(b"wide" + root.root)
    return name, Partition(RUN, CLEAN, 0, 1, 1, (), (root,))


WIDE = {RAW: stage("raw"), CLEAN: stage("wide", RAW, partitions=1)}


def test_a_root_over_all_tells_which_attempts_were_read() -> None:
    whole = [record(RAW, number) for number in range(4)]
    other = record(RAW, 2, variant="b")
    for read, lost in ((whole, other), ([*whole[:2], other, whole[3]], whole[2])):
        found = settle([*whole, other, wide(*read)], stages=WIDE)
        assert found.set_aside[RAW] == {lost[0]}


def test_a_root_that_no_attempts_explain_says_nothing() -> None:
    whole = [record(RAW, number) for number in range(4)]
    other, third = record(RAW, 2, variant="b"), record(RAW, 2, variant="c")
    found = settle([*whole, other, wide(*whole[:2], third, whole[3])], stages=WIDE)
    assert found.set_aside[RAW] == {max(whole[2][0], other[0])}


def test_a_root_of_a_record_that_does_not_count_says_nothing() -> None:
    whole = [record(RAW, number) for number in range(2)]
    other = record(RAW, 1, variant="b")
    stages = {**WIDE, SINK: stage("sink", CLEAN, partitions=1, transform="provenance:write_zarr")}
    first, second = wide(whole[0], whole[1]), wide(whole[0], other)
    for counted, lost in ((first, other), (second, whole[1])):
        sink = record(SINK, 0, counted)
        assert settle([*whole, other, first, second, sink], stages=stages).set_aside[RAW] == {lost[0]}


def test_a_root_over_one_is_its_id() -> None:
    one, other = record(RAW, 0), record(RAW, 0, variant="b")
    for read, lost in ((one, other), (other, one)):
        assert settle([one, other, wide(read)], stages=WIDE).set_aside[RAW] == {lost[0]}


def test_a_root_over_some_says_nothing() -> None:
    whole = [record(RAW, number) for number in range(4)]
    other = record(RAW, 2, variant="b")
    found = settle([*whole, other, wide(*whole[1:3])], stages=WIDE)
    assert len(found.set_aside[RAW]) == 1


def test_too_many_ways_are_not_tried() -> None:
    stages = {RAW: stage("raw", partitions=20), CLEAN: stage("wide", RAW, partitions=1)}
    attempts = [record(RAW, number, variant=variant) for number in range(20) for variant in "ab"]
    found = settle([*attempts, wide(*attempts[::2])], stages=stages)
    assert len(found.set_aside[RAW]) == 20


def test_what_is_missing_is_named() -> None:
    records = [entry for number in (0, 3) for entry in chain(number)]
    assert settle(records).missing == ((RAW, (1, 2)), (CLEAN, (1, 2)), (SINK, (1, 2)))


def test_only_what_a_sink_descends_from_must_be_there() -> None:
    records = [entry for number in range(4) for entry in chain(number)]
    stages = {**STAGES, b"4" * 32: stage("branch", RAW)}
    assert settle(records, stages=stages).missing == ()


def test_a_stage_without_a_count_misses_what_lies_between() -> None:
    stages = {RAW: stage("raw", partitions=None)}
    assert settle([record(RAW, 0), record(RAW, 3)], stages=stages).missing == ((RAW, (1, 2)),)


@pytest.mark.parametrize(("partitions", "number"), [(4, 4), (None, MAX_NUMBER), (None, 2**53 - 1)])
def test_a_number_that_cannot_be_is_set_aside(partitions: int | None, number: int) -> None:
    stages = {RAW: stage("raw", partitions=partitions)}
    stray = record(RAW, number)
    found = settle([record(RAW, 0), stray, record(RAW, 0, variant="b")], stages=stages)
    assert stray[0] in found.set_aside[RAW]
    assert found.stages[0].partitions == 1


def test_a_record_of_no_stage_of_the_run_is_passed_by() -> None:
    odd, divergent = record(b"9" * 32, 0), [record(RAW, 0), record(RAW, 0, variant="b")]
    assert settle([*divergent, odd]).stages[0].partitions == 1


def test_a_store_stands_with_its_stage() -> None:
    tally = RunTally(STAGES)
    store = StoreTree(b"t" * 32, 3)
    sealed = tally.settle(lambda _: False, {SINK: store}).stages
    assert [one.store for one in sealed] == [None, None, store]
