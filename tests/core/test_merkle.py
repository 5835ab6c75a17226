"""The tree against a slow reference that is written as RFC 6962 defines it."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provenance.core import merkle
from provenance.errors import MalformedError, ProvenanceError, VerificationError


def leaves(size):
    return [merkle.leaf_hash(b"%d" % at) for at in range(size)]


def reference_root(hashes):
    """MTH of RFC 6962 §2.1, by its own recursion."""
    if not hashes:
        return hashlib.sha256(b"").digest()
    if len(hashes) == 1:
        return hashes[0]
    split = 1
    while split * 2 < len(hashes):
        split *= 2
    return hashlib.sha256(b"\x01" + reference_root(hashes[:split]) + reference_root(hashes[split:])).digest()


def reference_path(index, hashes):
    """PATH of RFC 6962 §2.1.1."""
    if len(hashes) == 1:
        return []
    split = 1
    while split * 2 < len(hashes):
        split *= 2
    if index < split:
        return [*reference_path(index, hashes[:split]), reference_root(hashes[split:])]
    return [*reference_path(index - split, hashes[split:]), reference_root(hashes[:split])]


def reference_proof(old, hashes, whole=True):
    """SUBPROOF of RFC 6962 §2.1.2."""
    if old == len(hashes):
        return [] if whole else [reference_root(hashes)]
    split = 1
    while split * 2 < len(hashes):
        split *= 2
    if old <= split:
        return [*reference_proof(old, hashes[:split], whole), reference_root(hashes[split:])]
    return [*reference_proof(old - split, hashes[split:], False), reference_root(hashes[:split])]


@pytest.mark.parametrize("size", range(1, 40))
def test_agrees_with_the_reference(size):
    hashes = leaves(size)
    tree = merkle.Tree(hashes)
    assert tree.size == size
    assert tree.root == merkle.root(iter(hashes)) == reference_root(hashes)
    for index in range(size):
        path = tree.prove_inclusion(index)
        assert path == reference_path(index, hashes)
        assert merkle.inclusion_root(hashes[index], index, size, path) == tree.root
        merkle.check_inclusion(hashes[index], index, size, path, root=tree.root)
    for old in range(1, size + 1):
        proof = tree.prove_consistency(old)
        assert proof == reference_proof(old, hashes)
        merkle.check_consistency(old, size, proof, old_root=reference_root(hashes[:old]), root=tree.root)


def test_the_empty_tree():
    assert merkle.root([]) == merkle.Tree([]).root == merkle.EMPTY_ROOT == hashlib.sha256(b"").digest()
    assert merkle.Tree([]).size == 0


def test_an_odd_leaf_is_not_doubled():
    three = leaves(3)
    assert merkle.root(three) != merkle.root([*three, three[2]])


def test_a_leaf_is_not_a_node():
    left, right = leaves(2)
    assert merkle.leaf_hash(left + right) != merkle.node_hash(left, right)


@pytest.mark.parametrize(("size", "index"), [(0, 0), (3, 3), (3, -1)])
def test_only_leaves_of_the_tree_are_proved(size, index):
    with pytest.raises(MalformedError) as caught:
        merkle.Tree(leaves(size)).prove_inclusion(index)
    assert caught.value.reason == "index-out-of-range"


@pytest.mark.parametrize("old", [0, -1, 4])
def test_only_earlier_trees_are_proved(old):
    with pytest.raises(MalformedError) as caught:
        merkle.Tree(leaves(3)).prove_consistency(old)
    assert caught.value.reason == "old-size-out-of-range"


@pytest.mark.parametrize("make", [merkle.root, merkle.Tree])
@pytest.mark.parametrize("length", [0, 31, 33])
def test_hashes_have_32_bytes(make, length):
    with pytest.raises(MalformedError) as caught:
        make([bytes(32), bytes(length)])
    assert caught.value.reason == "hash-length"


def test_the_largest_size_is_taken_and_the_next_refused():
    path = [bytes(32)] * 53
    assert len(merkle.inclusion_root(bytes(32), 0, merkle.MAX_SIZE, path)) == 32
    with pytest.raises(VerificationError) as caught:
        merkle.inclusion_root(bytes(32), 0, merkle.MAX_SIZE + 1, path)
    assert caught.value.reason == "size-out-of-range"


def test_equal_sizes_need_equal_roots():
    first, second = leaves(2)
    merkle.check_consistency(1, 1, [], old_root=first, root=first)
    with pytest.raises(VerificationError) as caught:
        merkle.check_consistency(1, 1, [], old_root=first, root=second)
    assert caught.value.reason == "root-differs"


sizes = st.integers(1, 300)


@given(sizes, st.data())
def test_no_path_serves_another_leaf(size, data):
    index, other = data.draw(st.integers(0, size - 1)), data.draw(st.integers(0, size - 1))
    hashes = leaves(size)
    tree = merkle.Tree(hashes)
    path = tree.prove_inclusion(index)
    if index == other:
        return
    with pytest.raises(ProvenanceError):
        merkle.check_inclusion(hashes[other], index, size, path, root=tree.root)
    with pytest.raises(ProvenanceError):
        merkle.check_inclusion(hashes[index], other, size, path, root=tree.root)


@given(sizes, st.data())
def test_no_change_of_a_consistency_proof_passes(size, data):
    old = data.draw(st.integers(1, size))
    hashes = leaves(size)
    tree = merkle.Tree(hashes)
    proof = tree.prove_consistency(old)
    old_root = merkle.root(hashes[:old])
    if not proof:
        return
    at, byte = data.draw(st.integers(0, len(proof) - 1)), data.draw(st.integers(0, 31))
    node = bytearray(proof[at])
    node[byte] ^= data.draw(st.integers(1, 255))
    changed = [*proof[:at], bytes(node), *proof[at + 1 :]]
    with pytest.raises(VerificationError):
        merkle.check_consistency(old, size, changed, old_root=old_root, root=tree.root)
