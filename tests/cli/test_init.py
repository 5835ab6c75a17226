"""provenance init: what it makes, what it keeps, what it refuses."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from provenance import bootstrap, config, files
from provenance.cli import main
from provenance.core.descriptor import decode_descriptor

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "voices"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.delenv(config.FOLDER_VARIABLE, raising=False)
    return folder


def init_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["init", "--json", *arguments]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def snapshot(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path.relative_to(folder)): (path.stat().st_mode, path.read_bytes())
        for path in folder.rglob("*")
        if path.is_file() and not path.name.startswith("log.sqlite")
    }


def test_it_makes_folder_keys_and_descriptor(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = init_json(capsys)
    assert found["made"] == ["keys/record.ed25519", "keys/governance", "keys/publisher", "dataset.toml"]
    assert found["dataset"] == "voices"
    descriptor = decode_descriptor((place / "dataset.toml").read_bytes())
    assert (descriptor.name, descriptor.version, descriptor.licence) == ("voices", "1", "NOASSERTION")
    assert descriptor.names_are_personal
    settings = config.load(place / ".provenance")
    (public,) = bootstrap.trusted_keys(settings).values()
    assert bootstrap.record_signer(settings).public_key() == public
    assert (place / ".provenance" / ".gitignore").read_text() == "*\n"
    assert settings.keys_path.stat().st_mode & 0o777 == 0o700
    for path in settings.keys_path.iterdir():
        assert path.suffix == ".pub" or path.stat().st_mode & 0o777 == 0o600


def test_the_options_are_in_the_descriptor(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = 'a "b" \\ ü 日'
    init_json(
        capsys, "--name", name, "--version", "2", "--title", "T", "--licence", "MIT", "--names-are-public"
    )
    found = decode_descriptor((place / "dataset.toml").read_bytes())
    assert (found.name, found.version, found.title, found.licence) == (name, "2", "T", "MIT")
    assert not found.names_are_personal


def test_every_commented_example_in_it_is_valid(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    init_json(capsys)
    text = (place / "dataset.toml").read_text()
    start = text.index("# [[rights_holders]]")
    everything = text[:start] + text[start:].replace("\n# ", "\n").removeprefix("# ")
    found = decode_descriptor(everything.encode())
    assert len(found.rights_holders) == len(found.sources) == len(found.consent) == 1


def test_a_second_time_changes_nothing_and_says_so(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    init_json(capsys)
    before = snapshot(place)
    assert init_json(capsys)["made"] == []
    assert main(["init"]) == 0
    assert "nothing to do" in capsys.readouterr().out
    assert snapshot(place) == before


def test_what_is_missing_is_made_and_the_rest_kept(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    init_json(capsys)
    before = snapshot(place)
    (place / ".provenance" / "keys" / "publisher.json").unlink()
    assert init_json(capsys)["made"] == ["keys/publisher"]
    after = snapshot(place)
    assert {name for name in before if before[name] != after[name]} == {".provenance/keys/publisher.json"}


def test_from_below_it_finds_the_folder_above(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    init_json(capsys)
    (place / "below").mkdir()
    monkeypatch.chdir(place / "below")
    assert init_json(capsys)["made"] == []
    assert list((place / "below").iterdir()) == []


def test_people_are_told_what_to_do(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init"]) == 0
    out = capsys.readouterr().out
    assert "fill it in" in out
    assert "licence is not given" in out
    (place / ".provenance" / "keys" / "publisher.json").unlink()
    assert main(["init"]) == 0
    assert "dataset.toml: kept" in capsys.readouterr().out


def test_options_do_not_write_over_a_descriptor(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    init_json(capsys)
    before = snapshot(place)
    assert main(["init", "--name", "other"]) == 2
    assert "not written over" in capsys.readouterr().err
    assert snapshot(place) == before


@pytest.mark.parametrize(
    "options", [["--name", ""], ["--licence", " "], ["--title", "a\x1bb"], ["--name", "\udcff"]]
)
def test_a_wrong_option_makes_nothing(
    place: Path, capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    assert main(["init", *options]) == 2
    assert list(place.iterdir()) == []


def test_a_descriptor_that_is_wrong_is_named_and_nothing_made(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "dataset.toml").write_text("name = 1\n")
    assert main(["init"]) == 2
    assert "name: expected text" in capsys.readouterr().err
    assert [path.name for path in place.iterdir()] == ["dataset.toml"]


def test_a_directory_without_a_printable_name_gives_a_plain_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "bad\nname"
    folder.mkdir()
    monkeypatch.chdir(folder)
    assert init_json(capsys)["dataset"] == "dataset"


def test_a_network_file_system_is_refused_before_anything_is_made(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "network_filesystem", lambda path, mounts: "nfs4")
    assert main(["init"]) == 2
    error = capsys.readouterr().err
    assert "network file system (nfs4)" in error
    assert "local disk" in error
    assert list(place.iterdir()) == []
