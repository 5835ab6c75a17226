"""Settings come from the file and the environment, and what means nothing there is refused."""

from __future__ import annotations

import dataclasses
import json
import pickle
import runpy
from pathlib import Path

import pytest

from provenance import config
from provenance.config import Settings
from provenance.errors import ConfigError


@pytest.fixture(autouse=True)
def nothing_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(config.FOLDER_VARIABLE, raising=False)
    for name, _, _ in config.describe():
        monkeypatch.delenv(f"PROVENANCE_{name.upper()}", raising=False)


def load(tmp_path: Path, text: str) -> Settings:
    folder = tmp_path / ".provenance"
    folder.mkdir(exist_ok=True)
    (folder / "provenance.toml").write_text(text)
    return config.load(folder)


def test_without_a_file_all_is_default(tmp_path: Path) -> None:
    assert config.load(tmp_path / "x") == Settings(tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_the_file_is_read_in_the_folder_or_beside_it(tmp_path: Path) -> None:
    assert load(tmp_path, "[batch]\nmax_records = 7\n").batch_max_records == 7
    (tmp_path / ".provenance" / "provenance.toml").rename(tmp_path / "provenance.toml")
    assert config.load(tmp_path / ".provenance").batch_max_records == 7


def test_two_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "provenance.toml").write_text("")
    with pytest.raises(ConfigError, match="two files of settings"):
        load(tmp_path, "")


def test_the_environment_goes_before_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROVENANCE_BATCH_MAX_RECORDS", "9")
    monkeypatch.setenv("PROVENANCE_BATCH_MAX_AGE", "0.5")
    monkeypatch.setenv("PROVENANCE_DIGEST_ALGORITHM", "blake3")
    found = load(
        tmp_path, '[batch]\nmax_records = 7\n[log]\nread_limit = 3\n[digest]\nalgorithm = "sha256"\n'
    )
    assert (found.batch_max_records, found.batch_max_age, found.log_read_limit) == (9, 0.5, 3)
    assert found.digest_algorithm == "blake3"


def test_every_default_is_within_its_limits(tmp_path: Path) -> None:
    settings = Settings(tmp_path)
    sections: dict[str, list[str]] = {}
    for name, default, _ in config.describe():
        section, _, key = name.partition("_")
        sections.setdefault(section, [f"[{section}]"]).append(f"{key} = {json.dumps(default)}")
    text = "\n".join(line for lines in sections.values() for line in lines)
    assert dataclasses.replace(load(tmp_path, text), folder=tmp_path) == settings


def test_every_setting_says_what_it_is_and_in_which_unit() -> None:
    names = {field.name for field in dataclasses.fields(Settings)} - {"folder"}
    assert {name for name, _, _ in config.describe()} == names
    for _, default, setting in config.describe():
        assert setting.says.endswith(".")
        assert setting.unit or setting.choices
        assert setting.low < setting.high or setting.choices or setting.pattern
        assert isinstance(default, str | int | float)


REFUSED = {
    "not TOML": "x = ",
    "nested too deep": "x = " + "[" * 10_000,
    "a value outside a section": "max_records = 1",
    "an unknown section": "[bach]\nmax_records = 1",
    "an unknown key": "[batch]\nmax_record = 1",
    "a key of another section": "[log]\nmax_records = 1",
    "below the least": "[batch]\nmax_records = 0",
    "above the most": "[batch]\nmax_records = 65_537",
    "no number": "[batch]\nmax_age = nan",
    "infinite": "[batch]\nmax_age = inf",
    "a decimal for a whole number": "[batch]\nmax_records = 1.0",
    "text for a number": '[batch]\nmax_records = "1"',
    "true for a number": "[batch]\nmax_records = true",
    "a number for text": "[digest]\nalgorithm = 1",
    "another choice": '[digest]\nalgorithm = "md5"',
    "a list": "[batch]\nmax_records = [1]",
    "another scheme": '[chain]\nurl = "ftp://example.org"',
    "a user in an address": '[chain]\nurl = "https://ann:hunter2@example.org"',
    "a query in an address": '[chain]\nurl = "https://example.org/?key=hunter2"',
    "no contract": '[chain]\ncontract = "0x12"',
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_file_is_refused_with(tmp_path: Path, case: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, REFUSED[case])
    assert "provenance.toml" in caught.value.message
    assert caught.value.reason
    assert "hunter2" not in caught.value.message + caught.value.remedy


@pytest.mark.parametrize(
    ("text", "nearest"),
    [
        ("[batch]\nmax_record = 1", "max_records"),
        ("[batch]\nmaxbytes = 1", "max_bytes"),
        ("[bach]\nmax_bytes = 1", "batch"),
        ("digest = 1", "digest"),
    ],
)
def test_the_nearest_name_is_given(tmp_path: Path, text: str, nearest: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    assert caught.value.remedy == f"The nearest one is {nearest}."


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("PROVENANCE_BATCH_MAX_RECORD", "1"),
        ("PROVENANCE_CHAIN_ADDRESS", "x"),
        ("PROVENANCE_BATCH_MAX_RECORDS", "many"),
        ("PROVENANCE_BATCH_MAX_RECORDS", "1.5"),
        ("PROVENANCE_BATCH_MAX_RECORDS", "0"),
        ("PROVENANCE_BATCH_MAX_AGE", "soon"),
        ("PROVENANCE_BATCH_MAX_AGE", "nan"),
        ("PROVENANCE_LOADING_POLICY", "off"),
        ("PROVENANCE_CHAIN_URL", "https://u:p@example.org"),
    ],
)
def test_the_environment_is_refused_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(ConfigError, match=variable):
        config.load(tmp_path)


def test_other_variables_are_none_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("PROVENANCE_DEBUG", "PROVENANCE", "PROVENANCE_X_Y", "BATCH_MAX_RECORDS"):
        monkeypatch.setenv(variable, "1")
    assert config.load(tmp_path) == Settings(tmp_path)


def test_a_file_too_long_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="expected at most 65536"):
        load(tmp_path, "#" * 65_537)


def test_the_folder_is_that_of_the_environment_then_the_nearest_then_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    assert config.load().folder == below / ".provenance"
    (tmp_path / "a" / ".provenance").mkdir()
    assert config.load().folder == tmp_path / "a" / ".provenance"
    assert config.find_folder(tmp_path) == tmp_path / ".provenance"
    (below / ".provenance").touch()
    assert config.find_folder(below) == tmp_path / "a" / ".provenance"
    monkeypatch.setenv(config.FOLDER_VARIABLE, "elsewhere")
    assert config.load().folder == below / "elsewhere"


def test_a_folder_given_is_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert config.load(Path("x")).folder == tmp_path / "x"


def test_places_lie_in_the_folder_and_settings_travel(tmp_path: Path) -> None:
    settings = Settings(tmp_path)
    names = ("log", "store", "index", "journal", "keys", "names", "chain")
    places = [getattr(settings, f"{name}_path") for name in names]
    assert len(set(places)) == len(names)
    assert {place.parent for place in places} == {tmp_path}
    assert pickle.loads(pickle.dumps(settings)) == settings


def test_the_page_is_what_the_program_says() -> None:
    root = Path(__file__).parent.parent
    render = runpy.run_path(str(root / "scripts" / "generate_configuration_reference.py"))["render"]
    written = (root / "docs" / "reference" / "configuration.md").read_text(encoding="utf-8")
    assert render() == written, "docs/reference/configuration.md is behind the program: run `make docs`"
