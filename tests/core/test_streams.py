"""Limits of stream names and accumulators; the values are held by the vectors."""

from __future__ import annotations

import dataclasses

import pytest

from provenance.core import streams
from provenance.core.streams import LogIdentity, Opening
from provenance.errors import MalformedError

H = bytes(32)
LOG = LogIdentity("c", "t", "0" * 32, 0)
OPENING = Opening(1, bytes(20), 1, 1, 0, H)
BATCH = {"first_offset": 0, "next_offset": 1, "leaf_count": 1, "root": H, "manifest_hash": H}


def test_the_largest_of_everything_is_taken():
    LogIdentity("c" * 249, "t" * 249, "f" * 32, 2**31 - 1)
    opening = Opening(2**256 - 1, b"\xff" * 20, 183, 2**32 - 1, 2**53 - 1, H, H)
    assert len(streams.stream_of(opening)) == 32
    edge = {**BATCH, "first_offset": 2**53 - 2, "next_offset": 2**53 - 1, "leaf_count": 2**32 - 1}
    assert len(streams.next_acc(H, 2**53 - 1, **edge)) == 32
    assert len(streams.continues_of(opening, 0, H)) == len(streams.continues_of(opening, 2**53 - 1, H)) == 32


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"cluster_id": ""}, "name-length"),
        ({"cluster_id": "c" * 250}, "name-length"),
        ({"topic": ""}, "name-length"),
        ({"topic": "t" * 250}, "name-length"),
        ({"topic_id": "0" * 31}, "topic-id"),
        ({"topic_id": "0" * 33}, "topic-id"),
        ({"topic_id": "A" * 32}, "topic-id"),
        ({"partition": -1}, "partition-out-of-range"),
        ({"partition": 2**31}, "partition-out-of-range"),
        ({"partition": True}, "partition-out-of-range"),
    ],
)
def test_a_log_has_limits(change, reason):
    with pytest.raises(MalformedError) as caught:
        dataclasses.replace(LOG, **change)
    assert caught.value.reason == reason


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"chain_id": -1}, "chain-id-out-of-range"),
        ({"chain_id": 2**256}, "chain-id-out-of-range"),
        ({"org": 0}, "organisation-out-of-range"),
        ({"org": 184}, "organisation-out-of-range"),
        ({"generation": 0}, "generation-out-of-range"),
        ({"generation": 2**32}, "generation-out-of-range"),
        ({"start_offset": -1}, "start-offset-out-of-range"),
        ({"start_offset": 2**53}, "start-offset-out-of-range"),
        ({"contract": bytes(19)}, "contract-length"),
        ({"contract": bytes(21)}, "contract-length"),
        ({"binding": bytes(31)}, "binding-length"),
        ({"continues": bytes(33)}, "continues-length"),
    ],
)
def test_an_opening_has_limits(change, reason):
    with pytest.raises(MalformedError) as caught:
        dataclasses.replace(OPENING, **change)
    assert caught.value.reason == reason


@pytest.mark.parametrize(
    ("seq", "change", "reason"),
    [
        (0, {}, "seq-out-of-range"),
        (2**53, {}, "seq-out-of-range"),
        (True, {}, "seq-out-of-range"),
        (1, {"first_offset": -1}, "first-offset-out-of-range"),
        (1, {"first_offset": 2**53}, "first-offset-out-of-range"),
        (1, {"next_offset": 0}, "next-offset-out-of-range"),
        (1, {"next_offset": 2**53}, "next-offset-out-of-range"),
        (1, {"leaf_count": 0}, "leaf-count-out-of-range"),
        (1, {"leaf_count": 2**32}, "leaf-count-out-of-range"),
        (1, {"root": bytes(31)}, "root-length"),
        (1, {"manifest_hash": bytes(33)}, "manifest-hash-length"),
    ],
)
def test_an_accumulator_has_limits(seq, change, reason):
    with pytest.raises(MalformedError) as caught:
        streams.next_acc(H, seq, **{**BATCH, **change})
    assert caught.value.reason == reason


def test_a_previous_accumulator_has_32_bytes():
    with pytest.raises(MalformedError) as caught:
        streams.next_acc(bytes(31), 1, **BATCH)
    assert caught.value.reason == "prev-acc-length"


@pytest.mark.parametrize(
    ("seq", "acc", "reason"),
    [(-1, H, "seq-out-of-range"), (2**53, H, "seq-out-of-range"), (1, b"", "acc-length")],
)
def test_a_continuation_has_limits(seq, acc, reason):
    with pytest.raises(MalformedError) as caught:
        streams.continues_of(OPENING, seq, acc)
    assert caught.value.reason == reason


def test_every_field_changes_the_name():
    changes = {
        "chain_id": 2,
        "contract": b"\x01" * 20,
        "org": 2,
        "generation": 2,
        "start_offset": 1,
        "binding": b"\x01" * 32,
        "continues": b"\x01" * 32,
    }
    names = {
        streams.stream_of(dataclasses.replace(OPENING, **{field: value})) for field, value in changes.items()
    }
    assert len(names | {streams.stream_of(OPENING)}) == len(changes) + 1


def test_the_topic_name_is_no_part_of_the_binding():
    assert streams.binding_of(LOG) == streams.binding_of(dataclasses.replace(LOG, topic="renamed"))
    assert streams.binding_of(LOG) != streams.binding_of(dataclasses.replace(LOG, partition=1))
