"""What every `Index` does."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import pytest

from provenance.errors import MalformedError
from provenance.ports import Index, IndexedRecord

__all__ = ["IndexConformance"]

Open: TypeAlias = Callable[[], Index]

# Indexed in this order, found in that of their bytes.
LATER, EARLIER = b"\xff" * 32, b"\x01" * 32
RUN, STAGE, OTHER = b"r" * 32, b"s" * 32, b"o" * 32


def record(seq: int, index: int, *, stream: bytes = LATER, kind: str = "partition") -> IndexedRecord:
    """A record whose id and subject come of its position."""
    position = hashlib.sha256(stream + b"%d/%d" % (seq, index)).digest()
    return IndexedRecord(
        id=position,
        stream=stream,
        seq=seq,
        index=index,
        offset=100 * seq + index,
        kind=kind,
        run=RUN,
        stage=STAGE,
        number=index,
        subjects=(position[::-1],),
    )


class IndexConformance:
    """Fill in ``open_index``."""

    @pytest.fixture
    def open_index(self) -> Open:
        raise NotImplementedError

    def test_an_empty_index_knows_nothing(self, open_index: Open) -> None:
        index = open_index()
        assert list(index.find()) == []
        assert list(index.find(run=RUN, kind="seal", subject=OTHER)) == []
        assert index.indexed(LATER) == 0
        index.clear()

    def test_a_record_is_found_by_every_field_whole(self, open_index: Open) -> None:
        wanted = replace(record(1, 1), subjects=(b"1" * 32, b"2" * 32, b"1" * 32), number=-1)
        open_index().add(LATER, 1, [record(1, 0), wanted, record(1, 2)])
        index = open_index()
        assert list(index.find(record_id=wanted.id)) == [wanted]
        assert list(index.find(subject=b"1" * 32)) == [wanted]
        assert list(index.find(subject=b"2" * 32, run=RUN, stage=STAGE, kind="partition")) == [wanted]
        assert list(index.find(subject=b"2" * 32, kind="seal")) == []
        assert list(index.find(record_id=wanted.id, run=OTHER)) == []

    def test_absent_fields_stay_absent(self, open_index: Open) -> None:
        malformed = replace(
            record(1, 0, kind="rejected"), run=None, stage=None, subjects=(), reason="not-json"
        )
        index = open_index()
        index.add(LATER, 1, [malformed])
        assert list(index.find(kind="rejected")) == [malformed]
        assert list(index.find(run=RUN)) == []
        assert list(index.find(stage=STAGE)) == []

    def test_records_come_by_position(self, open_index: Open) -> None:
        index = open_index()
        everything = []
        for stream in (LATER, EARLIER):
            for seq in (2, 1, 10):
                batch = [record(seq, n, stream=stream) for n in range(3)]
                index.add(stream, seq, batch[::-1])
                everything += batch
        everything.sort(key=lambda item: (item.stream, item.seq, item.index))
        assert list(index.find()) == everything
        assert list(index.find(run=RUN)) == everything
        assert list(index.find(stage=STAGE, kind="partition")) == everything

    def test_more_records_than_fit_in_one_answer_all_come(self, open_index: Open) -> None:
        index = open_index()
        batch = [replace(record(1, n), subjects=(OTHER,)) for n in range(2500)]
        index.add(LATER, 1, batch)
        for found in (index.find(), index.find(run=RUN), index.find(subject=OTHER, kind="partition")):
            assert list(found) == batch

    def test_a_batch_added_again_stands_once(self, open_index: Open) -> None:
        index = open_index()
        for _ in range(2):
            index.add(LATER, 1, [record(1, 0), record(1, 1)])
        index.add(LATER, 1, [record(1, 0)])
        assert list(index.find()) == [record(1, 0)]
        assert list(index.find(subject=record(1, 1).subjects[0])) == []

    def test_indexed_is_the_highest_seq_without_a_gap(self, open_index: Open) -> None:
        index = open_index()
        reached = []
        for seq in (2, 1, 4, 5, 3):
            index.add(LATER, seq, [record(seq, 0)])
            reached.append(index.indexed(LATER))
        assert reached == [0, 2, 2, 2, 5]
        assert index.indexed(EARLIER) == 0

    def test_a_batch_without_records_counts(self, open_index: Open) -> None:
        index = open_index()
        index.add(LATER, 1, [])
        assert index.indexed(LATER) == 1

    def test_a_cleared_index_is_empty_and_may_be_filled_anew(self, open_index: Open) -> None:
        index = open_index()
        index.add(LATER, 1, [record(1, 0)])
        index.clear()
        assert list(index.find()) == []
        assert index.indexed(LATER) == 0
        index.add(LATER, 1, [record(1, 0)])
        assert list(open_index().find(run=RUN)) == [record(1, 0)]

    def test_it_may_be_changed_while_it_is_read(self, open_index: Open) -> None:
        index = open_index()
        index.add(LATER, 1, [record(1, n) for n in range(3)])
        found = index.find()
        first = next(found)
        index.add(LATER, 2, [record(2, 0)])
        assert first == record(1, 0)
        assert record(1, 2) in list(found)

    @pytest.mark.parametrize("wrong", [record(2, 0), record(1, 0, stream=EARLIER)])
    def test_a_record_of_another_batch_is_refused_with_all_of_it(
        self, open_index: Open, wrong: IndexedRecord
    ) -> None:
        index = open_index()
        with pytest.raises(MalformedError):
            index.add(LATER, 1, [record(1, 1), wrong])
        assert list(index.find()) == []
        assert index.indexed(LATER) == 0
