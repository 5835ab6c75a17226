"""The index is fed from files that are the anchored ones, and rebuilt from nothing else."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provenance.core.batches import Leaf, Position, build_batch
from provenance.core.kinds import Dataset, Run, Seal, Stage, Transform
from provenance.core.lists import EMPTY_LIST
from provenance.core.merkle import leaf_hash
from provenance.core.records import sign_record
from provenance.core.streams import LogIdentity
from provenance.errors import VerificationError
from provenance.services.indexing import Indexed, catch_up, indexed_records, rebuild_index
from provenance.testing.fakes import FakeIndex, FakeSigner
from tests.services.batcher_world import World

LOG = LogIdentity("cluster", "records", "0a" * 16, 0)


def rows_of(*values: bytes):
    leaves = [Leaf(offset, value) for offset, value in enumerate(values)]
    return indexed_records(
        build_batch(Position(bytes(32), 1, 0, 0, bytes(32)), LOG, leaves, last_leader_epoch=0)
    )


def anchored() -> tuple[World, bytes]:
    world = World()
    world.write(*(b"message %d" % number for number in range(12)))
    outcome = world.run()
    return world, next(iter(outcome.positions))


def rebuild(world: World, **changes) -> Indexed:
    return rebuild_index(
        changes.get("index", world.index),
        world.chain,
        world.store,
        is_final=changes.get("is_final", lambda _: True),
    )


def test_a_signed_record_is_indexed_by_its_fields() -> None:
    data = sign_record(
        Dataset("d", "1", "MIT", names_are_personal=True, descriptor=b"\xcd" * 32).statement(), FakeSigner()
    )
    (row,) = rows_of(data)
    assert (row.id, row.kind, row.run, row.stage, row.number) == (leaf_hash(data), "dataset", None, None, -1)
    assert (row.subjects, row.reason) == ((b"\xcd" * 32,), "")


RUN = Run(
    name="voice",
    nonce=bytes(16),
    datasets=(),
    source_tree=b"t" * 32,
    dirty=False,
    environments=EMPTY_LIST,
    seeds={},
    started="2026-01-01T00:00:00Z",
    producer=("provenance-ledger", "0"),
)
STAGE = Stage(
    run=b"r" * 32,
    name="clean",
    parents=(),
    transform=Transform("m:f", b"1" * 32, b"2" * 32, b"3" * 32, "m 1"),
)
SEAL = Seal(
    run=b"r" * 32, status="aborted", ended="2026-01-01T00:00:00Z", environments_added=EMPTY_LIST, stages=()
)


@pytest.mark.parametrize(
    ("record", "run", "stage"), [(RUN, "own", None), (STAGE, b"r" * 32, "own"), (SEAL, b"r" * 32, None)]
)
def test_a_run_and_a_stage_are_found_under_their_own_ids(record, run, stage) -> None:
    data = sign_record(record.statement(), FakeSigner())
    (row,) = rows_of(data)
    own = {"own": leaf_hash(data)}
    assert (row.run, row.stage) == (own.get(run, run), own.get(stage, stage))


@given(st.lists(st.binary(max_size=200), min_size=1, max_size=5))
def test_any_bytes_are_indexed_each_once(values) -> None:
    rows = rows_of(*values)
    assert [row.id for row in rows] == [leaf_hash(value) for value in values]
    assert [row.index for row in rows] == list(range(len(values)))
    assert all(row.reason for row in rows if row.kind == "rejected")


@pytest.mark.parametrize(
    "value", [b"[" * 10_000, b'{"payload":' + b"[" * 60_000, b'{"a":' * 9_000, bytes(1 << 20)]
)
def test_hostile_bytes_are_rejected_and_nothing_else(value: bytes) -> None:
    (row,) = rows_of(value)
    assert (row.kind, bool(row.reason)) == ("rejected", True)


def test_an_envelope_around_nothing_is_rejected() -> None:
    payload = base64.b64encode(b"{}").decode()
    data = json.dumps(
        {"payload": payload, "payloadType": "application/vnd.in-toto+json", "signatures": []},
        separators=(",", ":"),
    )
    (row,) = rows_of(data.encode())
    assert (row.kind, row.reason) == ("rejected", "envelope")


def test_rebuilding_gives_the_same_index() -> None:
    world, stream = anchored()
    before = list(world.index.find())
    world.index.add(stream, 9, [])
    assert rebuild(world) == Indexed(batches=3, records=12, rejected=12)
    assert list(world.index.find()) == before
    empty = FakeIndex()
    rebuild(world, index=empty)
    assert list(empty.find()) == before


def test_what_is_not_final_is_not_indexed() -> None:
    world, stream = anchored()
    second = [anchor.transaction for anchor in world.chain.anchors(stream)][1]
    assert rebuild(world, is_final=lambda found: found != second).batches == 1
    assert world.index.indexed(stream) == 1


@pytest.mark.parametrize("damage", ["missing", "flipped", "swapped"])
def test_a_file_that_is_not_the_anchored_one_is_named_and_not_indexed(damage: str) -> None:
    world, stream = anchored()
    first, second, _ = sorted(world.store.objects)
    data = world.store.objects.pop(second)
    if damage == "flipped":
        world.store.objects[second] = data[:-1] + bytes([data[-1] ^ 1])
    if damage == "swapped":
        world.store.objects[second] = world.store.objects[first]
    with pytest.raises(VerificationError, match=second) as caught:
        rebuild(world)
    assert caught.value.reason == ("batch-missing" if damage == "missing" else "batch-file")
    assert caught.value.remedy
    assert world.index.indexed(stream) == 1


def test_it_goes_on_where_it_stopped() -> None:
    world, stream = anchored()
    world.write(b"more")
    world.run()
    index, seen = FakeIndex(), []
    for limit in (1, 3, 9):
        count = iter(range(limit))
        catch_up(
            index,
            world.chain,
            world.store,
            stream,
            is_final=lambda _, count=count: next(count, None) is not None,
            on_batch=lambda anchor: seen.append(anchor.seq),
        )
    assert seen == [1, 2, 3, 4]
