"""What every `Outbox` does."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import TypeAlias

import pytest

from provenance.core.outbox import OutboxDepth, OutboxRow, Place
from provenance.errors import MalformedError, ProvenanceError, UnavailableError
from provenance.ports import Outbox
from provenance.ports.outbox import MAX_OUTBOX_KEY_BYTES, MAX_OUTBOX_VALUE_BYTES

__all__ = ["OutboxConformance"]

Open: TypeAlias = Callable[[], Outbox]

SINCE = dt.datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=dt.UTC)
LATER = SINCE + dt.timedelta(days=400)
PLACE = Place("cluster", "ab" * 16, 3, 2**53 - 1)
VALUES = [b"", b"\x00", b"{}", bytes(range(256)), "naïve\n".encode(), b"\xff\xfe not text"]


def every_row(outbox: Outbox) -> list[OutboxRow]:
    """All rows, in pages of two."""
    found: list[OutboxRow] = []
    while page := outbox.rows(found[-1].number if found else 0, 2):
        found += page
    return found


def pairs(outbox: Outbox) -> list[tuple[bytes, bytes]]:
    """All records, in order."""
    return [(row.key, row.value) for row in every_row(outbox)]


class OutboxConformance:
    """Fill in ``open_outbox``, with these limits."""

    max_bytes = 3 << 20
    max_records = 12

    @pytest.fixture
    def open_outbox(self) -> Open:
        raise NotImplementedError

    def test_an_empty_one_has_no_rows_and_no_depth(self, open_outbox: Open) -> None:
        outbox = open_outbox()
        assert list(outbox.rows(0, 10)) == []
        assert outbox.depth() == OutboxDepth()
        outbox.settle({1: PLACE}, [2])
        outbox.keep([], SINCE)
        assert outbox.depth() == OutboxDepth()

    def test_records_come_back_as_they_came_and_in_order(self, open_outbox: Open) -> None:
        given = [(bytes([n]) * n, value) for n, value in enumerate(VALUES)]
        open_outbox().keep(given[:3], SINCE)
        open_outbox().keep(given[3:], LATER)
        rows = every_row(open_outbox())
        assert [(row.key, row.value) for row in rows] == given
        assert [row.since for row in rows] == [SINCE] * 3 + [LATER] * 3
        assert {row.place for row in rows} == {None}
        numbers = [row.number for row in rows]
        assert numbers == sorted(set(numbers))
        assert numbers[0] > 0

    def test_depth_counts_records_bytes_and_those_never_sent(self, open_outbox: Open) -> None:
        outbox = open_outbox()
        outbox.keep([(b"k", b"one"), (b"k", b"two2")], SINCE)
        outbox.keep([(b"key", b"three")], LATER)
        assert open_outbox().depth() == OutboxDepth(3, 4 + 5 + 8, 3, SINCE)
        first, second, third = every_row(outbox)
        outbox.settle({second.number: PLACE}, [first.number])
        assert open_outbox().depth() == OutboxDepth(2, 5 + 8, 1, SINCE)
        assert open_outbox().depth().not_final == 1
        outbox.settle({}, [second.number])
        assert open_outbox().depth() == OutboxDepth(1, 8, 1, LATER)
        outbox.settle({}, [third.number])
        assert open_outbox().depth() == OutboxDepth()

    def test_a_place_is_noted_and_replaced(self, open_outbox: Open) -> None:
        open_outbox().keep([(b"k", b"a"), (b"k", b"b")], SINCE)
        first, second = every_row(open_outbox())
        open_outbox().settle({first.number: PLACE}, [])
        assert [row.place for row in every_row(open_outbox())] == [PLACE, None]
        assert list(open_outbox().rows(0, 10, only_unsent=True)) == [second]
        moved = Place("other", "cd" * 16, 0, 0)
        open_outbox().settle({first.number: moved}, [])
        assert [row.place for row in every_row(open_outbox())] == [moved, None]

    def test_what_is_forgotten_is_gone_and_its_number_with_it(self, open_outbox: Open) -> None:
        outbox = open_outbox()
        outbox.keep([(b"k", b"a"), (b"k", b"b")], SINCE)
        last = every_row(outbox)[-1]
        outbox.settle({}, [last.number])
        assert pairs(open_outbox()) == [(b"k", b"a")]
        outbox.keep([(b"k", b"c")], SINCE)
        assert every_row(open_outbox())[-1].number > last.number
        outbox.settle({last.number: PLACE}, [last.number])
        assert pairs(open_outbox()) == [(b"k", b"a"), (b"k", b"c")]

    def test_a_record_that_is_there_is_to_be_sent_again(self, open_outbox: Open) -> None:
        outbox = open_outbox()
        outbox.keep([(b"k", b"same"), (b"k", b"same"), (b"k", b"other")], SINCE)
        first, other = every_row(outbox)
        outbox.settle({first.number: PLACE, other.number: PLACE}, [])
        open_outbox().keep([(b"k", b"same")], LATER)
        assert every_row(open_outbox()) == [first, OutboxRow(other.number, b"k", b"other", SINCE, PLACE)]
        open_outbox().keep([(b"ks", b"ame")], LATER)  # the same bytes under another key are another record
        assert pairs(open_outbox()) == [(b"k", b"same"), (b"k", b"other"), (b"ks", b"ame")]

    def test_rows_begin_behind_a_number_and_are_limited(self, open_outbox: Open) -> None:
        outbox = open_outbox()
        outbox.keep([(b"k", b"%d" % n) for n in range(5)], SINCE)
        numbers = [row.number for row in every_row(outbox)]
        assert [row.value for row in outbox.rows(numbers[1], 2)] == [b"2", b"3"]
        assert list(outbox.rows(numbers[-1], 2)) == []
        with pytest.raises(ProvenanceError):
            outbox.rows(0, 0)

    def test_too_many_records_are_refused_with_all_of_their_call(self, open_outbox: Open) -> None:
        outbox = open_outbox()
        outbox.keep([(b"k", b"%d" % n) for n in range(self.max_records - 1)], SINCE)
        with pytest.raises(UnavailableError) as caught:
            outbox.keep([(b"k", b"one more"), (b"k", b"and one")], SINCE)
        assert caught.value.reason == "outbox-full"
        assert caught.value.remedy
        assert open_outbox().depth().records == self.max_records - 1
        outbox.keep([(b"k", b"one more")], SINCE)
        outbox.keep([(b"k", b"one more")], SINCE)  # it is there
        outbox.settle({}, [every_row(outbox)[0].number])
        outbox.keep([(b"k", b"and one")], SINCE)
        assert open_outbox().depth().records == self.max_records

    def test_too_many_bytes_are_refused_with_all_of_their_call(self, open_outbox: Open) -> None:
        outbox = open_outbox()
        large = MAX_OUTBOX_VALUE_BYTES
        outbox.keep([(b"1", b"x" * large), (b"2", b"x" * large)], SINCE)
        with pytest.raises(UnavailableError) as caught:
            outbox.keep([(b"k", b"small"), (b"3", b"x" * large), (b"4", b"x" * 20_000)], SINCE)
        assert caught.value.reason == "outbox-full"
        assert [key for key, _ in pairs(open_outbox())] == [b"1", b"2"]
        outbox.keep([(b"k", b"small")], SINCE)

    @pytest.mark.parametrize(
        ("key", "value"),
        [(b"k" * (MAX_OUTBOX_KEY_BYTES + 1), b""), (b"k", b"x" * (MAX_OUTBOX_VALUE_BYTES + 1))],
        ids=["key", "value"],
    )
    def test_what_no_log_takes_is_refused_with_all_of_its_call(
        self, open_outbox: Open, key: bytes, value: bytes
    ) -> None:
        with pytest.raises(MalformedError):
            open_outbox().keep([(b"k", b"before"), (key, value)], SINCE)
        assert pairs(open_outbox()) == []
