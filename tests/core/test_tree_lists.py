"""Lists of a store's files: they prove themselves by the tree's digest."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provenance.core.digests import TreeEntry, tree1
from provenance.core.tree_lists import decode_tree_list, encode_tree_list, tree_list_name
from provenance.errors import MalformedError, MismatchError

ENTRIES = tree1([TreeEntry("c/0/0", 7, b"\x01" * 32), TreeEntry("é.json", 0, b"\x02" * 32)])
entries = st.dictionaries(
    st.text("abc", min_size=1, max_size=5),
    st.tuples(st.integers(0, 2**63), st.binary(min_size=32, max_size=32)),
)


@given(entries)
def test_what_is_written_is_read(files):
    tree = tree1(TreeEntry(path, size, digest) for path, (size, digest) in files.items())
    assert decode_tree_list(encode_tree_list(tree.entries), tree.value) == tree.entries


def test_the_name_is_that_of_the_tree():
    assert tree_list_name(b"\xab" * 32) == f"trees/{'ab' * 32}.tree"


def test_no_byte_can_change():
    data = encode_tree_list(ENTRIES.entries)
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 0x80
        with pytest.raises((MalformedError, MismatchError)):
            decode_tree_list(bytes(changed), ENTRIES.value)


@pytest.mark.parametrize("cut", [1, 3, 31, 40, 43])
def test_it_cannot_end_early(cut):
    data = encode_tree_list(ENTRIES.entries)
    with pytest.raises(MalformedError) as raised:
        decode_tree_list(data[:-cut], ENTRIES.value)
    assert raised.value.reason == "tree-list"


@pytest.mark.parametrize("more", [b"\x00", b"\x00\x00\x00", b"\xff" * 4])
def test_nothing_can_follow(more):
    with pytest.raises(MalformedError):
        decode_tree_list(encode_tree_list(ENTRIES.entries) + more, ENTRIES.value)


def test_a_list_of_another_tree():
    with pytest.raises(MismatchError) as raised:
        decode_tree_list(encode_tree_list(ENTRIES.entries[1:]), ENTRIES.value)
    assert raised.value.reason == "tree-differs"
