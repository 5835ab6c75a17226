"""Batches: building, names, places on disk; the format's failing cases are vectors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provenance.core import batches, merkle
from provenance.core.batches import Leaf, Position
from provenance.core.streams import LogIdentity
from provenance.errors import MalformedError, ProvenanceError

LOG = LogIdentity("cluster", "records", "0a" * 16, 0)
START = Position(bytes(32), 1, 0, 0, bytes(32))


def build(leaves, position=START):
    return batches.build_batch(position, LOG, leaves, last_leader_epoch=0)


@st.composite
def leaf_lists(draw):
    steps = draw(st.lists(st.integers(1, 4), min_size=1, max_size=12))
    offsets = [sum(steps[: at + 1]) - 1 for at in range(len(steps))]
    return [Leaf(offset, draw(st.binary(max_size=20))) for offset in offsets]


@given(leaf_lists())
def test_a_batch_comes_back_from_its_file(leaves):
    batch = build(leaves)
    assert batches.decode_batch(batches.encode_batch(batch)) == batch
    manifest = batch.manifest
    assert manifest.root == merkle.root(batch.ids)
    assert (
        manifest.leaf_count + sum(until - start for start, until in manifest.skipped) == manifest.next_offset
    )


@given(leaf_lists(), st.data())
def test_no_changed_byte_keeps_the_accumulator(leaves, data):
    batch = build(leaves)
    text = bytearray(batches.encode_batch(batch))
    at = data.draw(st.integers(0, len(text) - 1))
    text[at] ^= data.draw(st.integers(1, 255))
    try:
        changed = batches.decode_batch(bytes(text))
    except ProvenanceError:
        return
    assert changed.manifest.acc != batch.manifest.acc


def test_the_next_batch_continues():
    first = build([Leaf(0, b"a"), Leaf(2, b"b")])
    position = Position(bytes(32), 1, 1, first.manifest.next_offset, first.manifest.acc)
    second = build([Leaf(5, b"c")], position).manifest
    assert (second.seq, second.first_offset, second.next_offset, second.skipped) == (2, 3, 6, ((3, 5),))
    assert second.prev_acc == first.manifest.acc


def test_an_empty_batch_is_never_built():
    with pytest.raises(MalformedError) as caught:
        build([])
    assert caught.value.reason == "no-leaf"


def test_a_file_is_named_by_stream_seq_and_acc():
    manifest = build([Leaf(0, b"a")]).manifest
    name = batches.file_name(manifest)
    assert name == f"{'00' * 32}/0000000000000001-{manifest.acc.hex()}.batch"
    assert batches.parse_file_name(name) == (bytes(32), 1, manifest.acc)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "x",
        f"{'00' * 32}/1-{'00' * 32}.batch",
        f"{'AA' * 32}/0000000000000001-{'00' * 32}.batch",
        f"/{'00' * 32}/0000000000000001-{'00' * 32}.batch",
        f"{'00' * 32}/0000000000000001-{'00' * 32}.batch\n",
        f"{'00' * 32}/0000000000000001-{'00' * 32}.batch.tmp",
    ],
)
def test_no_other_name_is_a_batch_file(name):
    with pytest.raises(MalformedError) as caught:
        batches.parse_file_name(name)
    assert caught.value.reason == "file-name"


def test_a_leaf_is_found_in_its_file():
    leaves = [Leaf(0, b"first"), Leaf(3, b""), Leaf(4, b"third")]
    data = batches.encode_batch(build(leaves))
    for index, leaf in enumerate(leaves):
        at = batches.leaf_location(data, index)
        assert data[at : at + len(leaf.value)] == leaf.value
    manifest, rows = batches.split_batch(data)
    assert (manifest.leaf_count, batches.leaf_location(data, 0)) == (3, rows + 12)


def test_equal_bytes_at_other_offsets_have_other_accumulators():
    one, other = build([Leaf(0, b"same")]).manifest, build([Leaf(1, b"same")]).manifest
    assert one.root == other.root
    assert one.acc != other.acc
