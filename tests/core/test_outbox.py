"""What becomes of a record in an outbox, by what is known of log and chain."""

from __future__ import annotations

import itertools

import pytest

from provenance.core.outbox import (
    CALM,
    LONGEST_PAUSE,
    Backoff,
    Fate,
    Finality,
    Holding,
    OutboxDepth,
    Place,
    fate,
    goes_to_outbox,
    held_at,
)
from provenance.core.streams import LogIdentity

EVERYTHING = list(itertools.product(Finality, Holding))
TOPIC, OTHER = "ab" * 16, "cd" * 16
PLACE = Place("cluster", TOPIC, 1, 7)
LOGS = tuple(LogIdentity("cluster", "records", TOPIC, number) for number in range(2))


@pytest.mark.parametrize(("finality", "holding"), EVERYTHING)
def test_what_was_never_acknowledged_is_sent_whatever_else_is_known(
    finality: Finality, holding: Holding
) -> None:
    assert fate(None, finality, holding) is Fate.SEND


@pytest.mark.parametrize(("finality", "holding"), EVERYTHING)
def test_only_what_is_final_is_forgotten_and_only_what_is_lost_is_sent_again(
    finality: Finality, holding: Holding
) -> None:
    found = fate(PLACE, finality, holding)
    assert (found is Fate.FORGET) == (finality is Finality.FINAL)
    assert (found is Fate.SEND) == (finality is Finality.NOT_FINAL and holding is Holding.LOST)


def test_a_log_holds_a_record_only_with_its_ids_and_bytes() -> None:
    assert held_at(PLACE, b"value", LOGS, b"value") is Holding.HELD
    assert held_at(PLACE, b"value", LOGS, b"other") is Holding.LOST
    assert held_at(PLACE, b"value", LOGS, None) is Holding.LOST
    assert held_at(PLACE, b"", LOGS, None) is Holding.LOST
    assert held_at(PLACE, b"", LOGS, b"") is Holding.HELD


@pytest.mark.parametrize(
    "place",
    [Place("another", TOPIC, 1, 7), Place("cluster", OTHER, 1, 7), Place("cluster", TOPIC, 2, 7)],
    ids=["cluster", "topic", "partition"],
)
def test_a_log_made_anew_holds_nothing_whatever_stands_there(place: Place) -> None:
    assert held_at(place, b"value", LOGS, b"value") is Holding.LOST
    assert not place.is_in(LOGS)


def test_a_place_is_made_of_a_partition_and_an_offset() -> None:
    assert Place.at(LOGS[1], 7) == PLACE
    assert PLACE.is_in(LOGS)
    assert not PLACE.is_in(LOGS[:1])


def test_pauses_double_up_to_a_bound_and_jitter_takes_off_up_to_half() -> None:
    now, backoff, pauses = 100.0, CALM, []
    assert backoff.is_over(now)
    for _ in range(100):
        assert backoff.pause(1.0) == pytest.approx(backoff.pause(0.0) / 2)
        pauses.append(backoff.pause(0.0))
        backoff = backoff.after_failure(now, 0.0)
        assert not backoff.is_over(now)
        assert backoff.is_over(now + pauses[-1])
        now = backoff.until
    assert pauses[:3] == [0.5, 1.0, 2.0]
    assert pauses == sorted(pauses)
    assert set(pauses[10:]) == {LONGEST_PAUSE}
    assert Backoff(10**9).pause(0.0) == LONGEST_PAUSE


def test_what_ails_the_disk_here_is_no_reason_to_use_it() -> None:
    for reason in ("not-acknowledged", "kafka-unreachable", "busy", "fault", ""):
        assert goes_to_outbox(reason)
    for reason in ("enospc", "eacces", "erofs", "sqlite-ioerr", "sqlite-readonly", "file-replaced"):
        assert not goes_to_outbox(reason)


def test_depth_tells_sent_from_unsent() -> None:
    assert OutboxDepth(5, 100, 2).not_final == 3
    assert OutboxDepth().oldest is None
