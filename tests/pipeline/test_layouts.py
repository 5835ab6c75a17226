"""Folders of recordings: who speaks in which layout, what is refused, and what is only noted."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from pipeline.layouts import Layout, discover
from provenance.errors import ConfigError, MalformedError

if TYPE_CHECKING:
    from pathlib import Path


def make(root: Path, *names: str, **tables: str | bytes) -> Path:
    """A folder of empty recordings; what a recording holds is no business of layouts."""
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    for name, text in tables.items():
        path = root / name.replace("_", ".")
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return root


def refused(root: Path, **how: object) -> MalformedError:
    with pytest.raises(MalformedError) as caught:
        discover(root, **how)  # type: ignore[arg-type]
    assert caught.value.remedy
    assert "\n" not in str(caught.value)
    return caught.value


# ------------------------------------------------------------------------------------------------- LJSpeech


def test_ljspeech(tmp_path: Path) -> None:
    text = '\ufeffLJ-1|In "quotes, alone|in quotes\r\nLJ-2|a\u2028b|c\n\n'
    found = discover(make(tmp_path / "LJSpeech-1.1", "wavs/LJ-1.wav", "wavs/LJ-2.flac", metadata_csv=text))
    assert found.layout is Layout.LJSPEECH
    assert [item.name for item in found.items] == ["wavs/LJ-1.wav", "wavs/LJ-2.flac"]
    assert found.speakers() == ("LJSpeech-1.1",)
    assert found.problems == ()
    found.check_complete()


def test_ljspeech_under_another_name(tmp_path: Path) -> None:
    root = make(tmp_path, "wavs/1.wav", metadata_csv="1|a")
    assert discover(root, dataset="Linda").speakers() == ("Linda",)


@pytest.mark.parametrize(
    ("text", "reason", "says"),
    [
        ("1|a|b\n2|c\n", "ragged-row", "line 2: expected 3 fields, found 2"),
        ("1|a\n2|c|d\n", "ragged-row", "line 2: expected 2 fields, found 3"),
        ("1\n", "ragged-row", "line 1: expected 2 fields, found 1"),
        ("1|a\n\n2|b\n1|c\n", "duplicate-row", "line 4: '1' stands in line 1 already"),
        ("|a\n", "empty-field", "line 1"),
        ("1|\n", "empty-field", "line 1"),
        (b"1|a\n2|\xff\n", "not-utf-8", "line 2: byte 0xff"),
        ("../1|a\n", "bad-id", "line 1: the id '../1'"),
        ("..|a\n", "bad-id", "line 1: the id '..'"),
        ("a\0b|a\n", "bad-id", "'a\\x00b'"),
    ],
)
def test_a_wrong_table_is_an_error_that_names_the_line(
    tmp_path: Path, text: str | bytes, reason: str, says: str
) -> None:
    error = refused(make(tmp_path, "wavs/1.wav", metadata_csv=text))
    assert error.reason == reason
    assert says in str(error)
    assert "'metadata.csv'" in str(error)


def test_rows_without_files_and_files_without_rows_are_noted(tmp_path: Path) -> None:
    found = discover(make(tmp_path, "wavs/1.wav", "wavs/3.wav", metadata_csv="1|a\n2|b\n"))
    assert [(problem.reason, problem.name) for problem in found.problems] == [
        ("file-missing", "2"),
        ("row-missing", "wavs/3.wav"),
    ]
    assert "line 2" in found.problems[0].message
    assert len(found.items) == 2  # nothing is dropped
    with pytest.raises(MalformedError, match=r"line 2.*2 problems in all") as caught:
        found.check_complete()
    assert caught.value.reason == "file-missing"


def test_two_files_for_one_row(tmp_path: Path) -> None:
    error = refused(make(tmp_path, "wavs/1.wav", "wavs/1.flac", metadata_csv="1|a\n"))
    assert error.reason == "names-collide"


def test_an_unreadable_table(tmp_path: Path) -> None:
    (make(tmp_path, "wavs/1.wav") / "metadata.csv").mkdir()
    assert refused(tmp_path, layout=Layout.LJSPEECH).reason == "unreadable"


def test_wavs_without_a_table(tmp_path: Path) -> None:
    assert refused(make(tmp_path, "wavs/1.wav")).reason == "metadata-missing"
    assert discover(tmp_path, layout=Layout.BARE).layout is Layout.BARE


# ---------------------------------------------------------------------------------------------- LibriSpeech


READERS = """\
; a comment
;ID|SEX
84 | F | dev-clean | 8.02 | Christie Nowak
60 | M | x | 20.1 | |CBW|Simon
"""


def test_librispeech(tmp_path: Path) -> None:
    names = ("dev-clean/84/121123/84-121123-0000.flac", "x/60/7/60-7-0001.flac")
    found = discover(make(tmp_path, *names, SPEAKERS_TXT=READERS))
    assert found.layout is Layout.LIBRISPEECH
    assert [(item.name, item.speaker) for item in found.items] == [(names[0], "84"), (names[1], "60")]
    assert found.problems == ()


def test_librispeech_by_its_names_alone(tmp_path: Path) -> None:
    found = discover(make(tmp_path, "84/121123/84-121123-0000.flac", "7/1/7-1-0.wav"))
    assert (found.layout, found.speakers()) == (Layout.LIBRISPEECH, ("7", "84"))


def test_what_does_not_fit_librispeech_is_noted(tmp_path: Path) -> None:
    root = make(tmp_path, "a/84/1/84-1-0.flac", "a/9/1/9-1-0.flac", "a/84/1/other.flac", SPEAKERS_TXT=READERS)
    assert [(problem.reason, problem.name) for problem in discover(root).problems] == [
        ("no-speaker", "a/84/1/other.flac"),
        ("speaker-unlisted", "a/9/1/9-1-0.flac"),
    ]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("84 | F | dev\n", "ragged-row"),
        (READERS + "84 | F | a | 1 | b\n", "duplicate-row"),
        ("|F|a|1|b", "empty-field"),
    ],
)
def test_a_wrong_table_of_readers(tmp_path: Path, text: str, reason: str) -> None:
    error = refused(make(tmp_path, "84/1/84-1-0.flac", SPEAKERS_TXT=text))
    assert error.reason == reason
    assert "'SPEAKERS.TXT' line" in str(error)


# ------------------------------------------------------------------------------------- folders of speakers


def test_a_folder_for_each_speaker(tmp_path: Path) -> None:
    root = make(tmp_path, "Ann/1.wav", "Ann/sub/2.WAV", "Боб/1.flac", "Ann/notes.txt")
    found = discover(root)
    assert found.layout is Layout.SPEAKER_FOLDER
    assert [(item.name, item.speaker) for item in found.items] == [
        ("Ann/1.wav", "Ann"),
        ("Ann/sub/2.WAV", "Ann"),
        ("Боб/1.flac", "Боб"),
    ]


def test_one_person_may_have_several_folders(tmp_path: Path) -> None:
    names = ("en_US_f_Allison/a.wav", "es_MX_f_Allison/a.wav", "fr_CA_f_June/a.wav")
    rows = (
        "folder,speaker",
        "en_US_f_Allison,Allison",
        "es_MX_f_Allison,Allison",
        '"fr_CA_f_June","June, W."',
    )
    table = "\r\n".join(rows)
    found = discover(make(tmp_path, *names, speakers_csv=table))
    assert [item.speaker for item in found.items] == ["Allison", "Allison", "June, W."]
    assert found.problems == ()


def test_the_table_may_lie_elsewhere_or_be_a_mapping(tmp_path: Path) -> None:
    root = make(tmp_path / "sounds", "a/1.wav", "b/1.wav")
    make(tmp_path, who_csv="folder,speaker\na,X\nb,X\n")
    assert discover(root, speakers=tmp_path / "who.csv").speakers() == ("X",)
    assert discover(root, speakers={"a": "Y", "b": "Z"}).speakers() == ("Y", "Z")


def test_where_table_and_folders_disagree_it_is_noted(tmp_path: Path) -> None:
    found = discover(make(tmp_path, "a/1.wav", "b/1.wav", "loose.wav"), speakers={"a": "A", "c": "C"})
    assert [(item.name, item.speaker) for item in found.items] == [
        ("a/1.wav", "A"),
        ("b/1.wav", None),
        ("loose.wav", None),
    ]
    assert [(problem.reason, problem.name) for problem in found.problems] == [
        ("no-speaker", "b/1.wav"),
        ("no-speaker", "loose.wav"),
        ("folder-missing", "c"),
    ]


@pytest.mark.parametrize(
    ("text", "reason", "line"),
    [
        ("", "bad-header", 1),
        ("speaker,folder\na,A\n", "bad-header", 1),
        ("a,A\n", "bad-header", 1),
        ("folder,speaker\na,A,extra\n", "ragged-row", 2),
        ("folder,speaker\na\n", "ragged-row", 2),
        ("folder,speaker\na,A\n\na,B\n", "duplicate-row", 4),
        ("folder,speaker\na,\n", "empty-field", 2),
        ('folder,speaker\n"a"b,A\n', "bad-quoting", 2),
        ('folder,speaker\na,"A\n', "bad-quoting", 2),
        (b"folder,speaker\na,\xc3(\n", "not-utf-8", 2),
    ],
)
def test_a_wrong_table_of_speakers(tmp_path: Path, text: str | bytes, reason: str, line: int) -> None:
    error = refused(make(tmp_path, "a/1.wav", speakers_csv=text))
    assert error.reason == reason
    assert f"'speakers.csv' line {line}: " in str(error)


# -------------------------------------------------------------------------------------------- bare and none


def test_a_bare_folder_has_no_speaker(tmp_path: Path) -> None:
    found = discover(make(tmp_path, "b.wav", "a.wave", "c.txt"))
    assert found.layout is Layout.BARE
    assert [(item.name, item.speaker) for item in found.items] == [("a.wave", None), ("b.wav", None)]
    assert found.speakers() == ()


@pytest.mark.parametrize("names", [(), ("a.mp3", "b/c.txt")])
def test_a_folder_without_recordings(tmp_path: Path, names: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError, match="no recording"):
        discover(make(tmp_path, *names))


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is no folder"):
        discover(tmp_path / "gone")


# ------------------------------------------------------------------------------------------ names and links


@pytest.mark.parametrize(
    "name", ["with space.wav", 'it\'s "so".wav', "two\nlines.wav", "夜 ночь.wav", "%41.wav", "-rf.wav"]
)
def test_any_name_in_utf_8_will_do(tmp_path: Path, name: str) -> None:
    assert [item.name for item in discover(make(tmp_path, f"who/{name}")).items] == [f"who/{name}"]


@pytest.mark.parametrize("name", [b"bad\xff.wav", b"bad\xff/a.wav"])
def test_a_name_that_is_not_utf_8_is_refused_by_name(tmp_path: Path, name: bytes) -> None:
    error = refused(make(tmp_path, os.fsdecode(name)))
    assert error.reason == "name-not-utf-8"
    assert "bad\\xff" in str(error)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a/x.wav", "A/y.wav"),
        ("a/x.wav", "a/X.wav"),
        ("e\u0301.wav", "\u00e9.wav"),
        ("stra\u00dfe.wav", "STRASSE.wav"),
    ],
)
def test_names_that_fall_together_are_refused(tmp_path: Path, one: str, other: str) -> None:
    assert refused(make(tmp_path, one, other)).reason == "names-collide"


def test_a_link_to_a_file_below_the_root_counts_as_that_file(tmp_path: Path) -> None:
    root = make(tmp_path / "root", "a/1.wav")
    (root / "a" / "2.wav").symlink_to("1.wav")
    assert [item.name for item in discover(root).items] == ["a/1.wav", "a/2.wav"]


@pytest.mark.parametrize(
    ("link", "target", "reason"),
    [
        ("2.wav", "../outside.wav", "link-escapes"),
        ("2.wav", "gone.wav", "link-broken"),
        ("2.wav", "2.wav", "link-broken"),
        ("2.wav", ".", "link-to-folder"),
        ("folder", "a", "link-to-folder"),
        ("folder", "..", "link-escapes"),
        ("notes.txt", "../outside.wav", ""),
        ("notes", "notes", ""),
    ],
)
def test_other_links(tmp_path: Path, link: str, target: str, reason: str) -> None:
    make(tmp_path, "outside.wav")
    root = make(tmp_path / "root", "a/1.wav")
    (root / link).symlink_to(target)
    if reason:
        error = refused(root)
        assert error.reason == reason
        assert repr(link) in str(error)
    else:
        assert len(discover(root).items) == 1


def test_what_is_neither_file_nor_folder_is_refused(tmp_path: Path) -> None:
    os.mkfifo(make(tmp_path, "a.wav") / "b.wav")
    assert refused(tmp_path).reason == "not-a-file"


def test_a_folder_that_goes_on_for_ever_is_refused(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*["d"] * 70)
    deep.mkdir(parents=True)
    assert refused(make(tmp_path, "a.wav")).reason == "too-deep"


# ------------------------------------------------------------------------------------------------- sampling


def test_a_sample_is_the_same_each_time_and_keeps_the_shares(tmp_path: Path) -> None:
    names = [f"a/{i}.wav" for i in range(200)] + [f"b/{i}.wav" for i in range(100)]
    found = discover(make(tmp_path, *names))
    some = found.sample(60)
    assert some == found.sample(60)
    assert set(some.items) < set(found.items)
    assert len(some.items) == 60
    assert some.items != found.sample(60, seed=1).items
    assert 25 < sum(item.speaker == "a" for item in some.items) < 55
    assert found.sample(1000).items == found.items


def test_a_sample_is_divided_like_the_whole(tmp_path: Path) -> None:
    model = pytest.importorskip("pipeline.speaker_model", exc_type=ImportError)
    some = discover(make(tmp_path, *[f"{i}.wav" for i in range(1200)])).sample(400)
    assert 70 < sum(model.is_held_out(item.name) for item in some.items) < 130
