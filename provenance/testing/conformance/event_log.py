"""What every `EventLog` does."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pytest

from provenance.core.batches import MAX_LEAF_BYTES
from provenance.errors import MalformedError, ProvenanceError
from provenance.ports import Bounds, EventLog, LogMessage

__all__ = ["EventLogConformance"]

Open: TypeAlias = Callable[[], EventLog]

VALUES = [b"", b"\x00", b"{}", bytes(range(256)), "naïve\n".encode(), b"\xff\xfe not text"]


def read_all(log: EventLog, partition: int) -> list[LogMessage]:
    """Everything in a partition, in pages of two."""
    found: list[LogMessage] = []
    while page := log.read(partition, found[-1].offset + 1 if found else 0, 2):
        found += page
    return found


class EventLogConformance:
    """Fill in ``open_log``; ``largest`` is the size of the largest value that the log takes."""

    largest = MAX_LEAF_BYTES

    @pytest.fixture
    def open_log(self) -> Open:
        raise NotImplementedError

    def test_an_empty_log_has_its_bounds_and_no_message(self, open_log: Open) -> None:
        log = open_log()
        for identity in log.identities():
            bounds = log.bounds(identity.partition)
            assert bounds.start == bounds.end
            assert list(log.read(identity.partition, 0, 10)) == []

    def test_partitions_are_numbered_and_share_cluster_and_topic(self, open_log: Open) -> None:
        identities = open_log().identities()
        assert [identity.partition for identity in identities] == list(range(len(identities)))
        assert len({(i.cluster_id, i.topic, i.topic_id) for i in identities}) == 1

    def test_another_handle_sees_the_same_log(self, open_log: Open) -> None:
        first, second = open_log(), open_log()
        assert list(first.identities()) == list(second.identities())
        ((partition, offset),) = first.append([(b"key", b"value")])
        assert [message.offset for message in second.read(partition, offset, 1)] == [offset]

    def test_values_come_back_as_they_came(self, open_log: Open) -> None:
        log = open_log()
        places = log.append([(b"one key", value) for value in VALUES])
        (partition,) = {partition for partition, _ in places}
        found = {message.offset: message.value for message in read_all(log, partition)}
        assert [found[offset] for _, offset in places] == VALUES

    def test_pairs_of_one_key_stay_in_order_within_and_between_calls(self, open_log: Open) -> None:
        log = open_log()
        places = [place for n in range(5) for place in log.append([(b"k", b"%d" % n), (b"k", b"%d'" % n)])]
        assert len({partition for partition, _ in places}) == 1
        offsets = [offset for _, offset in places]
        assert offsets == sorted(set(offsets))

    def test_an_append_of_nothing_gives_nothing(self, open_log: Open) -> None:
        assert list(open_log().append([])) == []

    def test_bounds_follow_appends(self, open_log: Open) -> None:
        log = open_log()
        ((partition, offset), (_, last)) = log.append([(b"k", b"a"), (b"k", b"b")])
        assert log.bounds(partition) == Bounds(offset, last + 1)

    def test_a_read_begins_where_it_is_told_and_is_limited(self, open_log: Open) -> None:
        log = open_log()
        places = log.append([(b"k", b"%d" % n) for n in range(5)])
        partition, second = places[1]
        assert [message.value for message in log.read(partition, second, 2)] == [b"1", b"2"]
        assert list(log.read(partition, places[-1][1] + 1, 10)) == []
        assert list(log.read(partition, 2**53 - 1, 10)) == []

    def test_the_same_bytes_twice_are_two_messages(self, open_log: Open) -> None:
        log = open_log()
        ((partition, first),) = log.append([(b"k", b"same")])
        ((_, second),) = log.append([(b"k", b"same")])
        assert first < second
        assert [message.value for message in read_all(log, partition)] == [b"same", b"same"]

    def test_a_message_of_the_largest_size_passes(self, open_log: Open) -> None:
        log = open_log()
        value = b"x" * self.largest
        ((partition, offset),) = log.append([(b"k", value)])
        assert [message.value for message in log.read(partition, offset, 1)] == [value]

    def test_a_larger_message_is_refused_with_all_of_its_call(self, open_log: Open) -> None:
        log = open_log()
        with pytest.raises(MalformedError):
            log.append([(b"k", b"before"), (b"k", b"x" * (self.largest + 1))])
        assert [
            message for identity in log.identities() for message in read_all(log, identity.partition)
        ] == []

    @pytest.mark.parametrize("partition", [-1, 1_000_000])
    def test_an_unknown_partition_is_refused(self, open_log: Open, partition: int) -> None:
        log = open_log()
        with pytest.raises(ProvenanceError):
            log.bounds(partition)
        with pytest.raises(ProvenanceError):
            log.read(partition, 0, 1)

    @pytest.mark.parametrize(("start", "limit"), [(0, 0), (0, -1), (-1, 1)])
    def test_a_read_of_nothing_or_before_the_start_is_refused(
        self, open_log: Open, start: int, limit: int
    ) -> None:
        with pytest.raises(ProvenanceError):
            open_log().read(0, start, limit)
