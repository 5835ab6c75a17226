"""The folder behind the batch store: several writers, full disks, links, foreign files."""

from __future__ import annotations

import errno
import os
from functools import partial
from typing import TYPE_CHECKING

import pytest

from provenance.adapters.folder_store import FolderStore
from provenance.errors import MalformedError, MismatchError, UnavailableError
from tests.together import run_together

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    return FolderStore(tmp_path / "batches", limit=1000)


@pytest.mark.parametrize(("values", "winners"), [(["same"] * 4, 4), (["a", "b", "c", "d"], 1)])
def test_of_several_writers_at_once_those_with_the_first_bytes_succeed(
    tmp_path: Path, values: list[str], winners: int
) -> None:
    printed = run_together(
        """
        from pathlib import Path
        from provenance.adapters.folder_store import FolderStore
        from provenance.errors import MismatchError
        import os
        """,
        """
        values = sys.argv[2].split()
        data = (values[os.getpid() % 4] if len(set(values)) == 1 else str(os.getpid())).encode()
        try:
            FolderStore(Path(sys.argv[1])).put("a/b", data)
            print("put", data.decode())
        except MismatchError:
            print("refused", data.decode())
        """,
        tmp_path / "batches",
        " ".join(values),
    )
    put = [line.split()[1] for line in printed if line.startswith("put")]
    assert len(put) == winners
    assert (tmp_path / "batches" / "a" / "b").read_text() == put[0]
    assert [path.name for path in (tmp_path / "batches" / "a").iterdir()] == ["b"]


def test_a_full_disk_puts_nothing(
    store: FolderStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    store.put("a/kept", b"kept")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(UnavailableError) as caught:
            store.put("a/new", b"new")
    assert "a/new" in caught.value.message
    assert "Free some space" in caught.value.remedy
    assert list(store.names("")) == ["a/kept"]
    assert [path.name for path in (tmp_path / "batches" / "a").iterdir()] == ["kept"]
    store.put("a/new", b"new")
    assert store.get("a/new") == b"new"


def test_foreign_files_are_passed_by(store: FolderStore, tmp_path: Path) -> None:
    store.put("a/b", b"")
    folder = tmp_path / "batches"
    for name in (".b.0123.tmp", "Thumbs.db", "with space", "README", ".DS_Store"):
        (folder / "a" / name).write_bytes(b"")
    (folder / "Folder").mkdir()
    (folder / "Folder" / "c").write_bytes(b"")
    os.mkfifo(folder / "pipe")
    assert list(store.names("")) == ["a/b"]


def test_links_lead_nowhere(store: FolderStore, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"secret")
    store.put("a/b", b"")
    (tmp_path / "batches" / "link").symlink_to(outside)
    (tmp_path / "batches" / "a" / "file").symlink_to(outside / "secret")
    for call in (store.get, store.delete, partial(store.put, data=b"")):
        with pytest.raises(MalformedError) as caught:
            call("link/secret")
        assert caught.value.reason == "symbolic-link"
    with pytest.raises(UnavailableError):
        store.get("a/file")
    assert list(store.names("")) == ["a/b"]
    store.delete("a/file")
    assert [path.name for path in outside.iterdir()] == ["secret"]


def test_the_root_itself_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "batches").symlink_to(tmp_path / "disk")
    store = FolderStore(tmp_path / "batches")
    store.put("a/b", b"one")
    assert store.get("a/b") == b"one"
    assert list(store.names("a/")) == ["a/b"]


def test_an_object_that_grew_beyond_the_limit_is_refused(store: FolderStore, tmp_path: Path) -> None:
    store.put("a", b"one")
    (tmp_path / "batches" / "a").write_bytes(bytes(1001))
    with pytest.raises(MalformedError, match="1001 bytes, expected at most 1000"):
        store.get("a")


def test_a_changed_object_is_not_put_right_silently(store: FolderStore, tmp_path: Path) -> None:
    store.put("a", b"one")
    (tmp_path / "batches" / "a").write_bytes(b"two")
    with pytest.raises(MismatchError, match="object a") as caught:
        store.put("a", b"one")
    assert caught.value.reason == "object-differs"
    assert store.get("a") == b"two"


def test_a_folder_is_no_object(store: FolderStore) -> None:
    store.put("a/b", b"")
    assert store.get("a") is None
    store.delete("a")
    with pytest.raises(MalformedError):
        store.put("a", b"")
    assert store.get("a/b") == b""


def test_a_file_in_the_place_of_the_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "batches").write_bytes(b"")
    store = FolderStore(tmp_path / "batches")
    with pytest.raises(UnavailableError, match="batches"):
        store.put("a/b", b"")
    assert store.get("a/b") is None
    assert list(store.names("")) == []


@pytest.mark.parametrize("name", ["a" * 513, "a/" + "b" * 201, "a/" * 256 + "a"])
def test_a_name_too_long_is_refused(store: FolderStore, name: str) -> None:
    with pytest.raises(MalformedError):
        store.put(name, b"")


def test_refusals_of_the_system_are_named(
    store: FolderStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    store.put("a/b", b"")

    def denied(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(os, "scandir", denied)
    with pytest.raises(UnavailableError, match="cannot list it"):
        list(store.names(""))
    monkeypatch.setattr(type(tmp_path), "unlink", denied)
    with pytest.raises(UnavailableError, match="cannot remove it"):
        store.delete("a/b")
