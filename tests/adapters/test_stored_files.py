"""Stored files as an audit finds them, in every odd shape that a disk can give them."""

from __future__ import annotations

import hashlib
import os

import pytest

from provenance.adapters.stored_files import LocalFiles
from provenance.core.digests import TreeEntry, tree1
from provenance.errors import MalformedError, UnavailableError

FILES = LocalFiles()


def put(folder, *names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())


def test_a_file(tmp_path):
    path = tmp_path / "a name with\nodd characters 音"
    path.write_bytes(b"x" * 3_000_000)
    found = FILES.file(str(path))
    assert found == TreeEntry(str(path), 3_000_000, hashlib.sha256(b"x" * 3_000_000).digest())


@pytest.mark.parametrize("name", ["nothing", "folder", "file/below"])
def test_what_is_no_file_is_none(tmp_path, name):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    assert FILES.file(str(tmp_path / name)) is None


def test_a_pipe_holds_nothing_up(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(MalformedError) as raised:
        FILES.file(str(tmp_path / "pipe"))
    assert raised.value.reason == "special-file"
    with pytest.raises(MalformedError):
        list(FILES.paths(str(tmp_path)))


def test_what_the_system_refuses_is_unavailable(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(UnavailableError) as raised:
        FILES.file(str(tmp_path / "loop"))
    assert raised.value.reason == "eloop"
    with pytest.raises(UnavailableError):
        list(FILES.paths(str(tmp_path / "loop")))
    with pytest.raises(UnavailableError):
        FILES.file(str(tmp_path / ("n" * 300)))


def test_an_unreadable_folder(tmp_path, monkeypatch):
    def refuse(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("provenance.adapters.stored_files.os.scandir", refuse)
    with pytest.raises(UnavailableError) as raised:
        list(FILES.paths(str(tmp_path)))
    assert raised.value.reason == "eacces"


def test_paths_ascend_by_their_bytes(tmp_path):
    put(tmp_path, "b", "a/x", "a-b", "a.c", "a/b/c", "C", "é", "z/.hidden")
    paths = list(FILES.paths(str(tmp_path)))
    assert paths == sorted(paths, key=str.encode)
    assert len(paths) == 8
    assert [entry.path for entry in tree1(TreeEntry(path, 0, bytes(32)) for path in paths).entries] == paths


def test_nothing_below_what_is_no_folder(tmp_path):
    put(tmp_path, "file")
    (tmp_path / "empty/er").mkdir(parents=True)
    for name in ("file", "nothing", "empty"):
        assert list(FILES.paths(str(tmp_path / name))) == []


def test_links(tmp_path):
    put(tmp_path, "root/a", "outside")
    (tmp_path / "root/good").symlink_to("a")
    (tmp_path / "linked").symlink_to(tmp_path / "root")
    assert list(FILES.paths(str(tmp_path / "linked"))) == ["a", "good"]
    assert FILES.file(str(tmp_path / "root/good")).size == 6
    for target in ("../outside", "nothing", ".", "../root"):
        link = tmp_path / "root/odd"
        link.symlink_to(target)
        with pytest.raises(MalformedError) as raised:
            list(FILES.paths(str(tmp_path / "root")))
        assert raised.value.reason == "link"
        link.unlink()


def test_a_name_that_is_not_utf_8(tmp_path):
    (tmp_path / os.fsdecode(b"caf\xe9")).touch()
    with pytest.raises(MalformedError) as raised:
        list(FILES.paths(str(tmp_path)))
    assert raised.value.reason == "name-not-utf8"
    assert "caf" in raised.value.message
