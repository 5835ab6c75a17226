"""What every `BatchStore` does."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pytest

from provenance.errors import MalformedError, MismatchError
from provenance.ports import BatchStore

__all__ = ["BatchStoreConformance"]

Open: TypeAlias = Callable[[], BatchStore]

NAME = f"{'ab' * 32}/{7:016d}-{'cd' * 32}.batch"
REFUSED = [
    "",
    "/",
    "/etc/passwd",
    "a//b",
    "a/",
    "..",
    "../a",
    "a/../b",
    "a/./b",
    ".hidden",
    "a/.hidden",
    "Upper",
    "a b",
    "a\\b",
    "a\nb",
    "a\x00b",
    "a:b",
    "~",
    "é",
]


class BatchStoreConformance:
    """Fill in ``open_store``, with a limit of ``limit`` bytes."""

    limit = 1 << 20

    @pytest.fixture
    def open_store(self) -> Open:
        raise NotImplementedError

    @pytest.mark.parametrize("data", [b"", b"PLBATCH1", bytes(range(256)) * 300])
    def test_an_object_comes_back_as_it_was_put(self, open_store: Open, data: bytes) -> None:
        open_store().put(NAME, data)
        assert open_store().get(NAME) == data

    def test_an_absent_object_is_none(self, open_store: Open) -> None:
        store = open_store()
        assert store.get(NAME) is None
        store.put("a/b", b"")
        assert store.get("a") is None or store.get("a/b") == b""
        assert store.get("a/c") is None
        assert store.get("a/b/c") is None

    def test_equal_bytes_may_be_put_again(self, open_store: Open) -> None:
        open_store().put(NAME, b"one")
        open_store().put(NAME, b"one")
        assert open_store().get(NAME) == b"one"

    @pytest.mark.parametrize("other", [b"", b"ONE", b"one ", b"on"])
    def test_other_bytes_are_refused_and_change_nothing(self, open_store: Open, other: bytes) -> None:
        store = open_store()
        store.put(NAME, b"one")
        with pytest.raises(MismatchError) as caught:
            store.put(NAME, other)
        assert NAME in str(caught.value)
        assert store.get(NAME) == b"one"

    def test_names_are_those_of_the_prefix_ascending(self, open_store: Open) -> None:
        store = open_store()
        names = ["a/2.x", "a/10.x", "a-b/1", "a.b", "ab", "b/c/d", "b/c0", "lists/0.ids"]
        for name in names:
            store.put(name, name.encode())
        assert list(store.names("")) == sorted(names)
        for prefix in ("a", "a/", "a/1", "b/c", "b/c/", "z", "lists/0.ids", "a.b/"):
            assert list(store.names(prefix)) == sorted(name for name in names if name.startswith(prefix)), (
                prefix
            )

    def test_an_empty_store_has_no_names(self, open_store: Open) -> None:
        assert list(open_store().names("")) == []

    def test_a_deleted_object_is_gone_and_may_be_put_anew(self, open_store: Open) -> None:
        store = open_store()
        store.put(NAME, b"one")
        store.delete(NAME)
        assert store.get(NAME) is None
        assert list(store.names("")) == []
        store.put(NAME, b"other")
        assert store.get(NAME) == b"other"

    def test_deleting_what_is_absent_is_no_error(self, open_store: Open) -> None:
        store = open_store()
        store.delete(NAME)
        store.put("a", b"")
        store.delete("a/b")
        assert store.get("a") == b""

    @pytest.mark.parametrize("name", REFUSED)
    def test_what_is_no_name_is_refused(self, open_store: Open, name: str) -> None:
        store = open_store()
        with pytest.raises(MalformedError):
            store.put(name, b"")
        with pytest.raises(MalformedError):
            store.get(name)
        with pytest.raises(MalformedError):
            store.delete(name)
        assert list(store.names("")) == []

    def test_a_larger_object_than_the_limit_is_refused(self, open_store: Open) -> None:
        store = open_store()
        store.put("largest", bytes(self.limit))
        assert store.get("largest") == bytes(self.limit)
        with pytest.raises(MalformedError):
            store.put("larger", bytes(self.limit + 1))
        assert store.get("larger") is None
