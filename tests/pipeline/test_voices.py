"""Obtaining recordings: Debian's, with programs that stand in for apt and dpkg, and what replaces them."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from pipeline import synthetic, voices
from pipeline.layouts import discover
from pipeline.voices import DEBIAN_VOICES, credits_text, obtain
from provenance.errors import ConfigError, UnavailableError

if TYPE_CHECKING:
    from pathlib import Path

APT = """
import os, pathlib, sys
log = pathlib.Path(os.environ["FAKE_LOG"])
with log.open("a") as file:
    print(*sys.argv[1:], file=file)
mode, own = os.environ["FAKE_MODE"], any("Dir::State" in a for a in sys.argv)
if mode == "offline" or (mode == "no-lists" and not own):
    print("W: a warning\\nE: Unable to fetch http://user:secret@mirror.example/x.deb now", file=sys.stderr)
    sys.exit(100)
if "download" in sys.argv:
    for name in sys.argv[sys.argv.index("download") + 1:]:
        pathlib.Path(name + "_1_all.deb").write_text(name)
"""
DPKG = """
import os, pathlib, sys
name, target = pathlib.Path(sys.argv[2]).read_text(), pathlib.Path(sys.argv[3])
language = name.split("-")[3]
if os.environ["FAKE_MODE"] == "broken" and language == "it":
    sys.exit(2)
for folder in os.environ["FAKE_FOLDERS"].split():
    if folder.startswith(language):
        sounds = target / "usr/share/asterisk/sounds" / folder
        sounds.mkdir(parents=True)
        (sounds / "hello.wav").touch()
document = target / "usr/share/doc" / name
document.mkdir(parents=True)
(document / "copyright").write_text("the licences")
"""


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


FOLDERS = " ".join(voice.folder for voice in DEBIAN_VOICES)


@pytest.fixture(autouse=True)
def small_synthetic_set(monkeypatch: pytest.MonkeyPatch) -> None:
    real = synthetic.write
    monkeypatch.setattr(synthetic, "write", lambda folder: real(folder, speakers=2, utterances=1))


@pytest.fixture
def debian(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """apt-get and dpkg-deb on the path; the log of how apt-get was called."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in (("apt-get", APT), ("dpkg-deb", DPKG)):
        program = programs / name
        program.write_text(f"#!{sys.executable}\n{text}")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("FAKE_MODE", "works")
    monkeypatch.setenv("FAKE_FOLDERS", FOLDERS)
    monkeypatch.setenv("FAKE_LOG", str(tmp_path / "log"))
    return tmp_path / "log"


def test_debians_voices(tmp_path: Path, debian: Path) -> None:
    source = obtain(tmp_path / "cache")
    assert (source.kind, source.synthetic) == ("debian", False)
    assert source.licence == "CC-BY-3.0 AND CC-BY-SA-3.0"
    assert source.credits == (source.root / "CREDITS").read_text() == credits_text()
    assert (source.root / "COPYRIGHT").read_text() == "the licences"
    found = discover(source.root)
    assert {item.name.split("/")[0]: item.speaker for item in found.items} == {
        "en_US_f_Allison": "Allison Smith",
        "es_MX_f_Allison": "Allison Smith",
        "fr_CA_f_June": "June Wallack",
        "it_IT_m_Carlo": "Carlo Flora",
        "ru_RU_f_IvrvoiceRU": "IvrvoiceRU",
    }
    assert found.problems == ()
    assert names(tmp_path / "cache") == ["debian-voices"]


def test_what_was_fetched_is_used_again(
    tmp_path: Path, debian: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = obtain(tmp_path / "cache")
    calls = debian.read_text()
    monkeypatch.setenv("FAKE_MODE", "offline")
    assert obtain(tmp_path / "cache") == obtain(tmp_path / "cache", offline=True) == first
    assert debian.read_text() == calls


def test_without_package_lists_own_ones_are_fetched(
    tmp_path: Path, debian: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_MODE", "no-lists")
    assert obtain(tmp_path / "cache").kind == "debian"
    verbs = [
        next(word for word in line.split() if word in ("download", "update"))
        for line in debian.read_text().splitlines()
    ]
    assert verbs == ["download", "update", "download"]


@pytest.mark.parametrize(
    ("mode", "folders", "says"),
    [
        ("offline", FOLDERS, "apt-get: Unable to fetch (address) now"),
        ("broken", FOLDERS, "dpkg-deb: exit code 2"),
        ("works", FOLDERS.replace("it_IT_m_Carlo", "it_IT_f_Maria"), "no folder it_IT_m_Carlo"),
    ],
)
def test_what_cannot_be_fetched_is_synthesised(
    tmp_path: Path, debian: Path, monkeypatch: pytest.MonkeyPatch, mode: str, folders: str, says: str
) -> None:
    monkeypatch.setenv("FAKE_MODE", mode)
    monkeypatch.setenv("FAKE_FOLDERS", folders)
    source = obtain(tmp_path / "cache")
    assert (source.kind, source.synthetic) == ("synthetic", True)
    assert says in source.message
    assert "nobody speaks" in source.message
    assert "secret" not in source.message
    assert names(tmp_path / "cache") == [synthetic.NAME]
    monkeypatch.setenv("FAKE_MODE", "works")
    monkeypatch.setenv("FAKE_FOLDERS", FOLDERS)
    assert obtain(tmp_path / "cache").kind == "debian"  # the next time it may work


def test_a_machine_without_apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    source = obtain(tmp_path / "cache")
    assert source.synthetic
    assert "there is no apt-get here" in source.message


def test_offline(tmp_path: Path, debian: Path) -> None:
    source = obtain(tmp_path / "cache", offline=True)
    assert source.synthetic
    assert not debian.exists()
    assert obtain(tmp_path / "cache", offline=True) == source


def test_a_program_that_does_not_end(tmp_path: Path, debian: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(command: list[str], **_: object) -> None:
        raise subprocess.TimeoutExpired(command, 90)

    monkeypatch.setattr(subprocess, "run", endless)
    assert "did not end within 90 s" in obtain(tmp_path / "cache").message


def test_a_folder_given_by_hand(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    source = obtain(tmp_path / "cache", folder=tmp_path / "mine")
    assert (source.kind, source.root, source.synthetic) == ("folder", tmp_path / "mine", False)
    assert not (tmp_path / "cache").exists()
    with pytest.raises(ConfigError, match="is no folder"):
        obtain(tmp_path / "cache", folder=tmp_path / "gone")


@pytest.mark.parametrize("offline", [False, True])
def test_a_place_that_cannot_be_written(tmp_path: Path, offline: bool) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UnavailableError, match="cannot be written"):
        obtain(tmp_path / "file" / "cache", offline=offline)


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(folder: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(synthetic, "write", full)
    with pytest.raises(UnavailableError, match="No space left"):
        obtain(tmp_path / "cache", offline=True)


def test_everyone_is_credited() -> None:
    text = credits_text()
    for voice in DEBIAN_VOICES:
        assert voice.folder in text
        assert voice.credit in text
        assert voice.licence in text
    assert voices.DEBIAN_VOICES[0].speaker == voices.DEBIAN_VOICES[1].speaker
