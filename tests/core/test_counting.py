"""Which records count: any order, repeats, divergent attempts, and a slow reference that agrees."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provenance.core import counting, merkle
from provenance.core.counting import Place, StageIds, output_id
from provenance.core.kinds import Partition, SealedStage
from provenance.core.records import Subject

STAGE = b"s" * 32


def partition(number: int, attempt: int = 0) -> tuple[bytes, Partition]:
    record = hashlib.sha256(f"{number} {attempt}".encode()).digest()
    part = Subject(f"p{number}", {"sha256": record.hex()})
    return record, Partition(bytes(32), STAGE, number, number + 1, 10, (part,), ())


def collected(*entries: tuple[int, int]) -> StageIds:
    ids = StageIds()
    for at, (number, attempt) in enumerate(entries):
        ids.add(*partition(number, attempt), Place(at // 3, at % 3))
    return ids


def sealed(*entries: tuple[int, int]) -> SealedStage:
    records = [partition(number, attempt)[0] for number, attempt in entries]
    return SealedStage(STAGE, "store", len(records), 0, 0, merkle.root(records))


def test_one_record_a_number():
    seal = sealed((0, 0), (1, 0), (2, 0))
    counted = collected((2, 0), (0, 0), (1, 0)).settle(seal)
    assert list(counted.numbers) == [0, 1, 2]
    assert counted.root == seal.root
    assert (counted.rows, counted.bytes, counted.repeats, len(counted)) == (6, 30, 0, 3)
    assert (counted.spare, counted.set_aside) == ((), ())
    assert [counted.place_at(at) for at in range(3)] == [Place(0, 1), Place(0, 2), Place(0, 0)]


def test_look_ups():
    counted = collected((3, 0), (5, 0), (9, 0)).settle(sealed((3, 0), (5, 0), (9, 0)))
    assert [counted.find(number) for number in (3, 5, 9)] == [0, 1, 2]
    assert [counted.find(number) for number in (0, 4, 10)] == [None] * 3
    for at, number in enumerate((3, 5, 9)):
        record, one = partition(number)
        assert record in counted
        assert counted.position_of(record) == at
        assert counted.id_at(at) == record
        assert counted.has_output(record, one.subjects[0].name, one.subjects[0].digest)
        assert not counted.has_output(record, "other", one.subjects[0].digest)
        assert not counted.has_output(record, one.subjects[0].name, {"sha256": "0" * 64})
    assert partition(4)[0] not in counted
    assert counted.position_of(partition(4)[0]) is None


def test_an_id_is_not_found_across_two_others():
    ids = StageIds()
    one, two = b"\x00" * 16 + b"\x01" * 16, b"\x02" * 16 + b"\x03" * 16
    across = b"\x01" * 16 + b"\x02" * 16
    for number, record in enumerate((one, two, across)):
        ids.add(record, partition(number)[1], Place(0, number))
    counted = ids.settle(SealedStage(STAGE, "store", 2, 0, 0, merkle.root([one, two])))
    assert counted.position_of(across) is None
    counted = ids.settle(SealedStage(STAGE, "store", 3, 0, 0, merkle.root([one, two, across])))
    assert counted.position_of(across) == 2


def test_ids_that_end_in_zeros_are_told_apart():
    ids = StageIds()
    records = [b"\x07" + bytes(31), b"\x07\x00\x01" + bytes(29), bytes(32)]
    for number, record in enumerate(records):
        ids.add(record, partition(number)[1], Place(0, number))
    counted = ids.settle(SealedStage(STAGE, "store", 3, 0, 0, merkle.root(records)))
    assert all(record in counted for record in records)
    assert b"\x07\x01" + bytes(30) not in counted
    assert counted.root == merkle.root(records)


def test_a_repeat_counts_once_where_it_stands_first():
    counted = collected((0, 0), (1, 0), (0, 0), (0, 0)).settle(sealed((0, 0), (1, 0)))
    assert (counted.repeats, len(counted)) == (2, 2)
    assert counted.place_at(0) == Place(0, 0)


def test_what_is_set_aside_is_known_by_number():
    other = partition(1, 7)[0]
    counted = collected((1, 7), (0, 0), (1, 0)).settle(sealed((0, 0), (1, 0)), [other])
    assert counted.set_aside == ((1, other),)
    assert counted.spare == ()
    assert counted.root == sealed((0, 0), (1, 0)).root


@pytest.mark.parametrize("order", [((1, 0), (1, 7)), ((1, 7), (1, 0))])
def test_the_seals_root_tells_which_attempt_counts(order):
    counted = collected((0, 0), *order).settle(sealed((0, 0), (1, 0)))
    assert counted.root == sealed((0, 0), (1, 0)).root
    assert counted.spare == ((1, partition(1, 7)[0]),)


def test_else_the_first_counts():
    counted = collected((1, 7), (1, 0), (0, 0)).settle(sealed((0, 3), (1, 3)))
    assert counted.id_at(1) == partition(1, 7)[0]
    assert counted.spare == ((1, partition(1, 0)[0]),)


def test_not_more_is_spent_than_can_be_afforded(monkeypatch):
    monkeypatch.setattr(counting, "_MOST_HASHES", 3)
    counted = collected((1, 7), (1, 0), (0, 0)).settle(sealed((0, 0), (1, 0)))
    assert counted.id_at(1) == partition(1, 7)[0], "two ways of two hashes are four"


def test_numbers_beyond_those_counted_are_spare():
    counted = collected((0, 0), (1, 0), (2, 0), (3, 0), (3, 1)).settle(sealed((0, 0), (1, 0)))
    assert list(counted.numbers) == [0, 1]
    assert [number for number, _ in counted.spare] == [2, 3, 3]
    assert counted.root == sealed((0, 0), (1, 0)).root


def test_nothing_collected():
    counted = StageIds().settle(sealed((0, 0)))
    assert (len(counted), counted.root, counted.find(0)) == (0, merkle.EMPTY_ROOT, None)
    assert bytes(32) not in counted


def test_an_output_is_a_record_a_name_and_all_its_digests():
    base = output_id(bytes(32), "a", {"sha256": "0" * 64})
    assert base != output_id(b"\x01" * 32, "a", {"sha256": "0" * 64})
    assert base != output_id(bytes(32), "b", {"sha256": "0" * 64})
    assert base != output_id(bytes(32), "a", {"sha256": "0" * 64, "tree1-sha256": "0" * 64})
    assert output_id(bytes(32), "a", {"x": "1", "y": "2"}) == output_id(bytes(32), "a", {"y": "2", "x": "1"})


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 2)), max_size=20), st.sets(st.integers(0, 2)))
def test_a_slow_reference_agrees(entries, aside_attempts):
    """Attempt 0 is sealed where it is there; some of the others are set aside."""
    there = sorted({number for number, attempt in entries if attempt == 0})
    aside = {partition(n, a)[0] for n, a in entries if a in aside_attempts - {0}}
    counted = collected(*entries).settle(sealed(*((number, 0) for number in there)), aside)
    expected_aside = {(n, partition(n, a)[0]) for n, a in entries if partition(n, a)[0] in aside}
    assert set(counted.set_aside) == expected_aside
    known = {(n, partition(n, a)[0]) for n, a in entries}
    chosen = {(number, counted.id_at(at)) for at, number in enumerate(counted.numbers)}
    assert chosen | set(counted.spare) | expected_aside == known
    assert len(counted) == min(len({n for n, r in known - expected_aside}), len(there))
    if {n for n, r in known - expected_aside} == set(there):
        assert counted.root == merkle.root(partition(number)[0] for number in there)
    assert counted.repeats == len(entries) - len(set(entries))


def test_rows_are_those_of_the_counted():
    ids = StageIds()
    record, one = partition(0)
    ids.add(record, replace(one, rows=5, bytes=6), Place(0, 0))
    counted = ids.settle(sealed((0, 0)))
    assert (counted.rows, counted.bytes) == (5, 6)
