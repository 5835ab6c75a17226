"""Inputs of a record: listed and sorted up to 64, above that as roots."""

from __future__ import annotations

import random

import pytest

from provenance.core import merkle
from provenance.core.kinds import Input, InputRoot, Partition
from provenance.core.lineage import Ref, inputs_of, name_cost
from provenance.core.records import Subject, encode_record

RUN = b"r" * 32


def ref(stage: int, number: int, *names: str, rejected: str | None = None) -> Ref:
    record = merkle.leaf_hash(f"{stage}/{number}".encode())
    subjects = tuple(Subject(name, {"sha256": f"{number:064x}"}) for name in names)
    return Ref(bytes([stage]) * 32, number, record, subjects, 1, 1, rejected=rejected)


def encoded(*refs: Ref) -> bytes:
    subject = Subject("p00000", {"sha256": "0" * 64})
    return encode_record(Partition(RUN, RUN, 0, 1, 1, (subject,), inputs_of(refs)).statement())


def test_sorted_by_stage_partition_and_name_whatever_the_order_they_come_in() -> None:
    refs = [ref(2, 0, "b", "a"), ref(1, 10, "z"), ref(1, 2, "y")]
    found = inputs_of(refs)
    assert [entry.name for entry in found if isinstance(entry, Input)] == ["y", "z", "a", "b"]
    random.Random(1).shuffle(refs)
    assert inputs_of(refs) == found


def test_one_that_was_read_twice_stands_once() -> None:
    assert len(inputs_of([ref(1, 0, "a"), ref(1, 0, "a")])) == 1


def test_no_inputs() -> None:
    assert inputs_of([]) == ()


@pytest.mark.parametrize(("count", "kind"), [(64, Input), (65, InputRoot)])
def test_the_limit_of_a_list(count: int, kind: type) -> None:
    found = inputs_of([ref(1, number, "a") for number in range(count)])
    assert {type(entry) for entry in found} == {kind}


def test_a_root_covers_the_records_that_were_read_by_number() -> None:
    read = [ref(1, number, "a", "b") for number in (7, 3, 40)] + [ref(2, n, "a") for n in range(65)]
    first, second = inputs_of(read)
    assert first == InputRoot(b"\x01" * 32, 3, merkle.root([ref(1, n).record for n in (3, 7, 40)]))
    assert isinstance(second, InputRoot)
    assert second.count == 65


def test_long_names_make_a_root_before_the_record_is_too_long() -> None:
    short = [ref(1, number, "a" * 200) for number in range(64)]
    long = [ref(1, number, '"' * 500) for number in range(64)]
    assert isinstance(inputs_of(short)[0], Input)
    assert isinstance(inputs_of(long)[0], InputRoot)
    assert len(encoded(*short)) < 65_536
    assert len(encoded(*long)) < 65_536


def test_a_rejected_parent_is_left_out_beside_others_and_a_root_alone() -> None:
    rejected, whole = ref(1, 0, rejected="silence"), ref(1, 1, "a")
    assert [entry.name for entry in inputs_of([rejected, whole]) if isinstance(entry, Input)] == ["a"]
    assert inputs_of([rejected]) == (InputRoot(b"\x01" * 32, 1, rejected.record),)


@pytest.mark.parametrize(("name", "cost"), [("a", 3), ('"', 4), ("é", 4), ("\n", 4), ("\x01", 8)])
def test_the_cost_of_a_name_counts_escapes(name: str, cost: int) -> None:
    assert name_cost(name) == cost
