"""Files as a source: found, named, grouped and read; what cannot be recorded is refused by name."""

from __future__ import annotations

import os
import socket
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provenance.adapters.dask.sources import (
    FileGroup,
    Found,
    ReadFiles,
    find_files,
    group_files,
    show,
    tokens_of,
    with_keys,
)
from provenance.adapters.dask.steps import Work
from provenance.core.tokens import key_token, name_token
from provenance.errors import ConfigError, MalformedError
from tests.adapters.dask.graphs import a_file

SECRET = b"s" * 32


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a/1.wav", "a/2.wav", "b/deep/3.wav", "b/notes.txt", "top.wav"):
        place = tmp_path / "in" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(name.encode())
    return tmp_path


def names(found):
    return [file.path for file in found]


def refused(kind, reason):
    return pytest.raises(kind, check=lambda error: error.reason == reason and error.remedy)


# ------------------------------------------------------------------------------------------------------ found


@pytest.mark.parametrize(
    ("where", "root", "expected"),
    [
        ("in", "in", ["a/1.wav", "a/2.wav", "b/deep/3.wav", "b/notes.txt", "top.wav"]),
        ("in/", "in", ["a/1.wav", "a/2.wav", "b/deep/3.wav", "b/notes.txt", "top.wav"]),
        ("in/**/*.wav", "in", ["a/1.wav", "a/2.wav", "b/deep/3.wav", "top.wav"]),
        ("in/*.wav", "in", ["top.wav"]),
        ("in/?/[12].wav", "in", ["a/1.wav", "a/2.wav"]),
        ("in/top.wav", "in", ["top.wav"]),
        ("./in/../in/a/*", "in/a", ["1.wav", "2.wav"]),
        (["in/a/1.wav", "in/b/notes.txt"], "in", ["a/1.wav", "b/notes.txt"]),
        (["in/a/2.wav", Path("in/a/1.wav")], "in/a", ["1.wav", "2.wav"]),
    ],
)
def test_what_a_place_means(here, where, root, expected):
    base, found = find_files(where)
    assert base == (here / root).resolve()
    assert names(found) == expected
    assert all(Path(file.real).read_bytes().endswith(Path(file.path).name.encode()) for file in found)


def test_an_address_of_a_local_file_is_its_path(here):
    assert names(find_files(f"file://{here}/in")[1]) == names(find_files("in")[1])


def test_names_are_below_the_root_that_is_given(here):
    assert names(find_files("in/a/*.wav", root="in")[1]) == ["a/1.wav", "a/2.wav"]
    with refused(MalformedError, "outside"):
        find_files("in/a/*.wav", root="in/b")
    with refused(ConfigError, "no-root"):
        find_files("in/a/*.wav", root="nowhere")


def test_a_folder_that_has_a_wildcard_in_its_name(here):
    odd = here / "take [1]"
    odd.mkdir()
    (odd / "x.wav").write_bytes(b"x")
    assert names(find_files("take [1]")[1]) == ["x.wav"]
    assert names(find_files("take [1]/x.wav")[1]) == ["x.wav"]


@pytest.mark.parametrize("where", ["in/*.flac", "gone.wav", "in/gone", [], ["gone/x.wav"]])
def test_where_nothing_is(here, where):
    (here / "empty").mkdir()
    for place in (where, "empty"):
        with pytest.raises(ConfigError) as caught:
            find_files(place)
        assert caught.value.reason in {"no-files", "no-root"}
        assert caught.value.remedy


@pytest.mark.parametrize("where", ["https://example.org/a.wav", "s3://bucket/x", "gs://b/*.wav"])
def test_an_address_is_not_repeated(where):
    with refused(ConfigError, "address") as caught:
        find_files(where)
    assert where not in str(caught.value)


def test_a_pattern_that_finds_nothing_or_means_nothing(here):
    with pytest.raises(ConfigError) as caught:
        find_files("in/x**y")
    assert caught.value.reason in {"pattern", "no-files"}  # Python 3.13 takes it for x*y


# ---------------------------------------------------------------------------------------------------- refused


def test_names_that_are_no_text(here):
    Path(os.fsdecode(b"in/bad\xff.wav")).write_bytes(b"x")
    with refused(MalformedError, "name-not-utf8") as caught:
        find_files("in")
    assert r"bad\xff.wav" in str(caught.value)


def test_links_count_as_what_they_lead_to_below_the_root_only(here):
    (here / "in/link.wav").symlink_to("a/1.wav")
    found = {file.path: file for file in find_files("in")[1]}
    assert found["link.wav"].real == found["a/1.wav"].real
    (here / "in/out.wav").symlink_to("/etc/hostname")
    with refused(MalformedError, "link-escapes"):
        find_files("in")
    (here / "in/out.wav").unlink()
    (here / "in/out.wav").symlink_to("nowhere")
    with refused(MalformedError, "link-broken") as caught:
        find_files("in")
    assert "'out.wav'" in str(caught.value)


def test_a_link_in_a_circle(here):
    (here / "in/self.wav").symlink_to("self.wav")
    with refused(MalformedError, "link-broken"):
        find_files("in")


def test_sockets_and_pipes(here):
    os.mkfifo("in/pipe")
    with refused(MalformedError, "not-a-file"):
        find_files("in")
    Path("in/pipe").unlink()
    with socket.socket(socket.AF_UNIX) as one:
        one.bind("in/socket")
        with refused(MalformedError, "not-a-file"):
            find_files("in")


def test_a_folder_among_paths(here):
    with refused(MalformedError, "not-a-file"):
        find_files(["in/a", "in/top.wav"])


def test_names_that_differ_by_unicode_form_alone(here):
    for form in ("NFC", "NFD"):
        Path("in", unicodedata.normalize(form, "é.wav")).write_bytes(form.encode())
    with refused(MalformedError, "names-collide") as caught:
        find_files("in")
    assert "Unicode form" in str(caught.value)


def test_a_path_that_is_given_twice(here):
    with refused(MalformedError, "names-collide") as caught:
        find_files(["in/top.wav", "in/./top.wav"])
    assert "twice" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("plain", "'plain'"),
        ("two\nlines", r"'two\nlines'"),
        ("\x1b[31mred", r"'\x1b[31mred'"),
        ("bad\udcff", r"'bad\xff'"),
        ("x" * 300, "'" + "x" * 200 + "…'"),
    ],
)
def test_a_name_is_shown_on_one_line(name, shown):
    assert show(name) == shown


# ------------------------------------------------------------------------------------------ named and grouped


def test_personal_names_become_tokens_and_others_stay():
    found = [Found("anna/é.wav", "/x", 1, "anna")]
    ((file, name, key),) = tokens_of(found, SECRET, personal=True)
    assert (name, key) == (name_token(SECRET, file.path), key_token(SECRET, "anna"))
    decomposed = [Found(unicodedata.normalize("NFD", "é.wav"), "/x", 1)]
    assert [(name, key) for _, name, key in tokens_of(decomposed, SECRET, personal=False)] == [
        ("é.wav", None)
    ]
    with refused(MalformedError, "name-too-long"):
        list(tokens_of([Found("x" * 401, "/x", 1)], SECRET, personal=False))
    assert list(tokens_of([Found("x" * 401, "/x", 1)], SECRET, personal=True))


def test_keys_by_function_and_only_where_there_is_one():
    found = with_keys([Found("a/1", "/1", 1), Found("2", "/2", 1)], {"a/1": 7}.get)
    assert [file.key for file in found] == [7, None]


@given(
    st.lists(st.tuples(st.integers(0, 50), st.sampled_from([None, "k", "l"])), max_size=40),
    st.integers(0, 100),
    st.integers(1, 300),
)
def test_groups_hold_every_file_once_and_keep_their_limits(files, target, most):
    named = [
        (Found(f"{n:03}", f"/real/{n}", size, key), f"token {n}", key) for n, (size, key) in enumerate(files)
    ]
    groups = group_files(named, target_bytes=target, most=most)
    assert sorted((f.path for group in groups for f, _, _ in group)) == sorted(f.path for f, _, _ in named)
    for group in groups:
        assert len({key for _, _, key in group}) == 1
        assert len(group) <= min(most, 200)
        assert len(group) == 1 or sum(file.size for file, _, _ in group) <= target
        assert [f.path for f, _, _ in group] == sorted(f.path for f, _, _ in group)
    assert groups == group_files(list(reversed(named)), target_bytes=target, most=most)


def test_long_names_and_paths_close_a_group():
    names = [(Found(f"{n:03}", f"/{n}", 0), "n" * 399 + str(n % 10), None) for n in range(100)]
    assert max(len(group) for group in group_files(names, target_bytes=1 << 30)) < 40
    paths = [(Found(f"{n:03}", "/" + "p" * 4000 + str(n), 0), str(n), None) for n in range(20)]
    assert max(len(group) for group in group_files(paths, target_bytes=1 << 30)) < 9


# ------------------------------------------------------------------------------------------------------- read


def test_a_worker_reads_the_bytes_and_sets_aside_what_it_cannot(here):
    os.mkfifo("in/pipe")
    (here / "in/large.wav").write_bytes(bytes(100))
    (here / "in/link.wav").symlink_to(here / "in/top.wav")
    entries = tuple(
        (token, str(here / "in" / name), ".wav")
        for token, name in [
            ("t1", "top.wav"),
            ("t2", "gone.wav"),
            ("t3", "large.wav"),
            ("t4", "a"),
            ("t5", "pipe"),
            ("t6", "link.wav"),
        ]
    )
    made = ReadFiles(50).apply(Work("raw", 0, FileGroup(entries, "key"), ()))
    assert made.key == "key"
    assert made.data[0] == a_file("t1", b"top.wav", key="key", suffix=".wav")
    assert [item.rejected for item in made.data] == [
        "",
        "unreadable",
        "too-large",
        "unreadable",
        "unreadable",
        "unreadable",
    ]
    assert all(item.data is None for item in made.data[1:])
