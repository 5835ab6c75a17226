"""Closing batches: by count, bytes, age, manifest and leader; and what is no log."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provenance.core.batcher import Limits, add_messages, build_from_pile, empty_pile
from provenance.core.batcher.pile import is_closed
from provenance.core.batches import Leaf, Position, decode_batch, encode_batch, encode_manifest
from provenance.core.canonical import MAX_BYTES
from provenance.core.streams import LogIdentity
from provenance.errors import ConfigError, MalformedError

LOG = LogIdentity("cluster", "records", "0a" * 16, 0)
START = Position(b"s" * 32, 1, 0, 10, b"s" * 32)


@dataclass(frozen=True)
class Message:
    offset: int
    value: bytes = b"12345"
    leader_epoch: int = 4


def messages(count: int, start: int = 10, **changes) -> list[Message]:
    return [Message(offset, **changes) for offset in range(start, start + count)]


def pile_of(found, limits=None, now=0.0):
    return add_messages(empty_pile(LOG, 10), found, limits or Limits(), now)


def test_an_empty_pile_is_no_batch() -> None:
    pile = empty_pile(LOG, 10)
    assert (pile.count, pile.first_offset, pile.next_offset) == (0, 10, 10)
    assert not is_closed(pile, Limits(max_age=0), now=1e9)


def test_chunks_make_one_batch() -> None:
    pile = add_messages(pile_of(messages(3)), [Message(15, b"later", 4)], Limits(), 1.0)
    manifest = build_from_pile(pile, START, LOG).manifest
    assert (manifest.first_offset, manifest.next_offset, manifest.leaf_count) == (10, 16, 4)
    assert (manifest.skipped, manifest.last_leader_epoch, manifest.seq) == (((13, 15),), 4, 1)


def test_it_closes_by_count_and_takes_no_more() -> None:
    limits = Limits(max_records=3)
    assert not pile_of(messages(2), limits).full
    pile = pile_of(messages(5), limits)
    assert (pile.count, pile.next_offset, pile.full) == (3, 13, True)
    assert add_messages(pile, messages(2, start=13), limits, 0.0) == pile


def test_it_closes_by_bytes_before_they_are_exceeded() -> None:
    limits = Limits(max_bytes=14)
    assert pile_of(messages(3), limits).count == 2
    assert pile_of(messages(2), Limits(max_bytes=10)).full
    assert not pile_of(messages(2), Limits(max_bytes=11)).full


def test_one_large_message_is_a_batch_alone() -> None:
    limits = Limits(max_bytes=4)
    pile = pile_of(messages(2), limits)
    assert (pile.count, pile.full) == (1, True)


def test_it_closes_by_the_age_of_its_first_message() -> None:
    limits = Limits(max_age=10.0)
    pile = add_messages(pile_of(messages(1), now=5.0), messages(1, start=11), limits, 9.0)
    assert not is_closed(pile, limits, now=14.9)
    assert is_closed(pile, limits, now=15.0)


def test_it_closes_where_another_leader_begins() -> None:
    found = [*messages(2), Message(12, leader_epoch=5)]
    pile = pile_of(found)
    assert (pile.count, pile.full, pile.epoch) == (2, True, 4)
    assert pile_of(found[2:], Limits()).count == 1  # a new leader's first message begins a batch


def test_it_closes_before_its_manifest_is_too_long() -> None:
    every_other = [Message(10**12 + 2 * number, b"") for number in range(4000)]
    pile = add_messages(empty_pile(LOG, 10), every_other, Limits(), 0.0)
    assert pile.full
    assert 1 < pile.count < 4000
    batch = build_from_pile(pile, START, LOG)
    assert MAX_BYTES - 200 < len(encode_manifest(batch.manifest)) <= MAX_BYTES
    assert decode_batch(encode_batch(batch)) == batch


@given(st.lists(st.tuples(st.integers(1, 3), st.binary(max_size=9)), min_size=1, max_size=30), st.data())
def test_no_message_is_lost_between_piles(steps, data) -> None:
    offset, found = 9, []
    for step, value in steps:
        offset += step
        found.append(Message(offset, value))
    limits = Limits(max_records=data.draw(st.integers(1, 9)), max_bytes=data.draw(st.integers(1, 40)))
    taken, at = [], 0
    while at < len(found):
        pile = empty_pile(LOG, found[at - 1].offset + 1 if at else 10)
        while at < len(found) and not pile.full:
            size = data.draw(st.integers(1, 7))
            before = pile.count
            pile = add_messages(pile, found[at : at + size], limits, 0.0)
            at += pile.count - before
        taken += [leaf for chunk in pile.chunks for leaf in chunk]
    assert taken == [Leaf(message.offset, message.value) for message in found]


@pytest.mark.parametrize(
    "found", [messages(1, start=9), [Message(10), Message(10)], [Message(11), Message(10)]]
)
def test_offsets_that_do_not_ascend_are_no_log(found) -> None:
    with pytest.raises(MalformedError) as caught:
        pile_of(found)
    assert caught.value.reason == "offset-order"


def test_a_message_above_a_mebibyte_is_refused_by_its_offset() -> None:
    assert pile_of([Message(10, bytes(1 << 20))]).count == 1
    with pytest.raises(MalformedError, match="offset 10 has 1048577 bytes") as caught:
        pile_of([Message(10, bytes((1 << 20) + 1))])
    assert caught.value.reason == "leaf-length"


@pytest.mark.parametrize(
    "changes",
    [
        {"max_records": 0},
        {"max_records": 65_537},
        {"max_bytes": 0},
        {"max_bytes": (64 << 20) + 1},
        {"max_age": -1},
        {"max_age": 86_401},
        {"max_age": math.nan},
        {"read_size": 0},
        {"read_size": 65_537},
        {"poll": 0},
        {"poll": 3601},
        {"poll": math.inf},
    ],
)
def test_limits_have_limits(changes) -> None:
    with pytest.raises(ConfigError) as caught:
        Limits(**changes)
    assert caught.value.reason == "limit"
