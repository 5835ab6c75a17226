"""Folders as trees: which entries count, which are refused, and that names are looked at first."""

from __future__ import annotations

import os
import socket
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from provenance.adapters.formats import files, folder_entries, folder_paths, folders
from provenance.bootstrap import digest
from provenance.errors import ConfigError, MalformedError, ProvenanceError, UnavailableError
from tests.core.digests import reference

if TYPE_CHECKING:
    from pathlib import Path


def grow(root: Path, tree: dict[str, bytes]) -> Path:
    for path, data in tree.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
    return root


def refused(root: Path) -> ProvenanceError:
    with pytest.raises(ProvenanceError) as caught:
        digest(root)
    return caught.value


TREE = {"a.txt": b"a", "sub/b": b"bb", "sub/deep/c": b"", ".hidden": b"h", "sub.d": b"d", "雪": b"s"}


@pytest.mark.parametrize("threads", [1, 3])
def test_every_regular_file_counts(threads: int, tmp_path: Path) -> None:
    root = grow(tmp_path, TREE)
    found = digest(root, threads=threads)
    assert str(found) == f"tree1-sha256:{reference.tree1(TREE)}"
    assert [entry.path for entry in found.entries] == [
        ".hidden",
        "a.txt",
        "sub.d",
        "sub/b",
        "sub/deep/c",
        "雪",
    ]
    assert found.nbytes == sum(map(len, TREE.values()))


def test_empty_folders_leave_no_trace(tmp_path: Path) -> None:
    root = grow(tmp_path / "one", TREE)
    (root / "empty" / "emptier").mkdir(parents=True)
    assert digest(root).hex == reference.tree1(TREE)
    (tmp_path / "none").mkdir()
    assert digest(tmp_path / "none").hex == reference.tree1({})


def test_where_the_folder_lies_does_not_count(tmp_path: Path, monkeypatch: Any) -> None:
    one, other = grow(tmp_path / "one", TREE), grow(tmp_path / "other" / "place", TREE)
    assert digest(one) == digest(other)
    (tmp_path / "link").symlink_to("one")
    assert digest(tmp_path / "link") == digest(one)
    monkeypatch.chdir(one)
    assert digest(".") == digest(one)
    assert digest(f"{one}/") == digest(one)


def test_links_to_files_below_count_as_the_files(tmp_path: Path) -> None:
    root = grow(tmp_path / "root", {"data/x": b"x", "y": b"y"})
    (root / "near").symlink_to("y")
    (root / "data" / "far").symlink_to("../y")
    (root / "absolute").symlink_to(root / "data" / "x")
    (root / "twice").symlink_to("near")
    expected = {"data/x": b"x", "y": b"y", "near": b"y", "data/far": b"y", "absolute": b"x", "twice": b"y"}
    assert digest(root).hex == reference.tree1(expected)
    places = dict(folder_paths(root))
    assert places["twice"] == str(root / "y")


def test_a_link_that_passes_outside_and_comes_back_counts(tmp_path: Path) -> None:
    root = grow(tmp_path / "root", {"x": b"x"})
    (tmp_path / "outside").symlink_to(root / "x")
    (root / "link").symlink_to("../outside")
    assert digest(root).hex == reference.tree1({"x": b"x", "link": b"x"})


@pytest.mark.parametrize(
    "target", ["../outside", "..", ".", "sub", "gone", "link", "/dev/null", "../root-not/x", "sub/pipe"]
)
def test_other_links_are_refused_by_name(target: str, tmp_path: Path) -> None:
    root = grow(tmp_path / "root", {"sub/x": b"x"})
    grow(tmp_path, {"outside": b"secret", "root-not/x": b"secret"})
    os.mkfifo(root / "sub" / "pipe")
    (root / "link").symlink_to(target)
    if target != "sub/pipe":
        (root / "sub" / "pipe").unlink()
    with pytest.raises(MalformedError) as caught:
        list(folder_paths(root))
    assert caught.value.reason in ({"tree-link", "tree-special"} if target == "sub/pipe" else {"tree-link"})
    assert caught.value.reason == "tree-special" or "link" in caught.value.message
    assert caught.value.remedy


def test_special_files_are_refused_by_name_and_kind(tmp_path: Path, monkeypatch: Any) -> None:
    root = grow(tmp_path / "root", {"x": b"x"})
    os.mkfifo(root / "pipe")
    error = refused(root)
    assert error.reason == "tree-special"
    assert "pipe: it is a named pipe" in error.message
    (root / "pipe").unlink()
    monkeypatch.chdir(root)
    with socket.socket(socket.AF_UNIX) as door:
        door.bind("sock")
        error = refused(root)
    assert error.reason == "tree-special"
    assert "sock: it is a socket" in error.message
    assert "a character device" in kind_of(0o020000)
    assert "a block device" in kind_of(0o060000)
    assert "no regular file" in kind_of(0)


def kind_of(mode: int) -> str:
    with pytest.raises(MalformedError) as caught:
        folders._place("/top", "x", mode)
    return caught.value.message


@pytest.mark.parametrize("names", [("a", "A"), ("\u00e9", "e\u0301"), ("stra\u00dfe", "STRASSE")])
def test_names_that_fall_together_are_refused_before_a_byte_is_read(
    names: tuple[str, str], tmp_path: Path, monkeypatch: Any
) -> None:
    root = grow(tmp_path, dict.fromkeys(names, b""))
    if len(list(root.iterdir())) == 1:
        pytest.skip("this file system folds names itself")
    monkeypatch.setattr(files, "open_regular", None)
    error = refused(root)
    assert error.reason == "tree-collision"


def test_names_that_are_not_utf8_are_refused(tmp_path: Path, monkeypatch: Any) -> None:
    place = os.path.join(os.fsencode(tmp_path), b"caf\xe9")  # noqa: PTH118 - bytes
    with open(place, "wb"):  # noqa: PTH123 - bytes
        pass
    monkeypatch.setattr(files, "open_regular", None)
    error = refused(tmp_path)
    assert error.reason == "name-not-utf8"
    assert r"caf\xe9" in error.message


def test_names_count_in_nfc(tmp_path: Path) -> None:
    one, other = grow(tmp_path / "1", {"e\u0301": b"x"}), grow(tmp_path / "2", {"\u00e9": b"x"})
    assert digest(one) == digest(other)


def test_a_file_that_vanishes_meanwhile_is_told(tmp_path: Path, monkeypatch: Any) -> None:
    root = grow(tmp_path, TREE)
    real = folders.tree_order

    def and_then_it_is_gone(entries: Any) -> Any:
        (root / "a.txt").unlink(missing_ok=True)
        return real(entries)

    monkeypatch.setattr(folders, "tree_order", and_then_it_is_gone)
    error = refused(root)
    assert isinstance(error, ConfigError)
    assert "a.txt" in error.message


def test_a_folder_that_cannot_be_listed_is_told(tmp_path: Path, monkeypatch: Any) -> None:
    root = grow(tmp_path, TREE)
    real = os.scandir

    def denied(place: Any) -> Any:
        if str(place).endswith("deep/"):
            raise PermissionError(13, "Permission denied")
        return real(place)

    monkeypatch.setattr(folders.os, "scandir", denied)
    error = refused(root)
    assert isinstance(error, UnavailableError)
    assert "deep" in error.message


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "x").touch()
    with pytest.raises(ConfigError) as caught:
        folder_entries(tmp_path / "x")
    assert caught.value.reason == "not-a-folder"
    with pytest.raises(ConfigError) as caught:
        folder_entries(tmp_path / "gone")
    assert caught.value.reason == "no-such-file"


def test_a_deep_folder_needs_no_recursion(tmp_path: Path) -> None:
    path = "/".join(["d"] * 1200)
    place = os.open(tmp_path, os.O_RDONLY)
    for _ in range(1200):
        os.mkdir("d", dir_fd=place)
        below = os.open("d", os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = below
    os.close(os.open("x", os.O_CREAT | os.O_WRONLY, dir_fd=place))
    os.close(place)
    try:
        assert digest(tmp_path).hex == reference.tree1({f"{path}/x": b""})
    finally:  # too deep for the way in which pytest would clean up
        subprocess.run(["rm", "-rf", tmp_path / "d"], check=True)
