"""Bad input as a user meets it: one message, the next step, the right exit code; and the next run works."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe
import pytest

import provenance
from pipeline import synthetic
from provenance import errors
from tests.pipeline.wavefiles import tone, wave
from tests.users import call, says

SECRET = "hunter2-secret"


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def start(**how):
    return provenance.run("bad", dataset=None, client="sync", **how)


def same(frame):
    return frame


# --------------------------------------------------------------------------------------------------- audio


def spoil(folder):
    """Recordings of every unusable kind beside good ones; the reason of each."""
    body = np.rint(tone(1.0) * 32767).astype("<i2").tobytes()
    floats = tone(1.0).astype("<f4")
    floats[7] = np.nan
    clipped = np.clip(tone(1.0) * 8, -1, 1)
    bad = {
        "empty.wav": (b"", "empty-file"),
        "clipped.wav": (wave(np.rint(clipped * 32767).astype("<i2").tobytes()), "clipped"),
        "text.wav": (b"no sound at all, sorry " * 50, "not-audio"),
        "cut.wav": (wave(body)[:30], "truncated"),
        "half.wav": (wave(body)[: len(body) // 2], "truncated"),
        "no-frames.wav": (wave(b""), "no-frames"),
        "nan.wav": (wave(floats.tobytes(), codec=3, bits=32), "not-a-number"),
        "no-channels.wav": (wave(body, channels=0), "inconsistent-header"),
        "silent.wav": (wave(bytes(len(body))), "silence"),
        "cut.flac": (b"fLaC\x00", "truncated"),
    }
    for name, (data, _) in bad.items():
        (folder / f"bad-{name}").write_bytes(data)
    return {name: reason for name, (_, reason) in bad.items()}


@pytest.mark.service
@pytest.mark.slow
def test_unusable_recordings_are_counted_and_the_rest_goes_on(here):
    synthetic.write(here / "voices", speakers=2, utterances=5)
    speaker = here / "voices" / "speaker-2"
    good = sum(1 for _ in (here / "voices").rglob("*.wav"))
    reasons = spoil(speaker)
    call(here, "provenance", "init")
    stopped = call(here, "pipeline.voice", "--source", "voices", "--on-bad-input", "stop")
    says(stopped, 2, "it cannot be used: ", "on_bad_input='reject'")
    assert not (here / "features.zarr").exists()
    done = call(here, "pipeline.voice", "--source", "voices", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["files"] == good + len(reasons)
    expected = pd.Series([*reasons.values(), "silence", "no-frames"]).value_counts().to_dict()
    assert result["rejected"] == expected


@pytest.mark.parametrize(
    ("spoil_folder", "parts"),
    [
        (lambda root: (root / "a").rename(root / "a-\udcff"), ("not named in UTF-8", r"\xff")),
        (lambda root: (root / "a/link.wav").symlink_to("/nowhere/at/all"), ("a/link.wav", "leads nowhere")),
        (lambda root: (root / "a/out.wav").symlink_to("/etc/hostname"), ("a/out.wav", "out of the folder")),
        (lambda root: [path.unlink() for path in root.rglob("*.wav")], ("no recording",)),
    ],
    ids=["invalid UTF-8", "a broken link", "a link that escapes", "no recording"],
)
def test_a_folder_that_cannot_be_recorded_is_refused_before_anything_is(here, spoil_folder, parts):
    (here / "voices" / "a").mkdir(parents=True)
    (here / "voices" / "a" / "1.wav").write_bytes(wave(np.zeros(100, "<i2").tobytes()))
    call(here, "provenance", "init")
    spoil_folder(here / "voices")
    says(call(here, "pipeline.voice", "--source", "voices"), 2, *parts)


def test_odd_names_are_fine(here):
    (here / "in").mkdir()
    names = [
        "with space",
        "quo'te\"s",
        "new\nline",
        "Привет",
        "声",
        "🎤",
        "-dash",
        "a;b|c&d",
        "%41",
        ".hidden",
    ]
    for name in names:
        (here / "in" / name).write_bytes(name.encode())
    with start() as run:
        run.files("in").stage("read", content).write("out.zarr")
    assert provenance.rejected(run.id) == {}


def content(file):
    return np.frombuffer(file.data, np.uint8)


def test_ljspeech_rows_that_are_double_missing_or_ragged(here):
    from pipeline.layouts import discover

    (here / "set" / "wavs").mkdir(parents=True)
    for name in ("one", "two"):
        (here / "set" / "wavs" / f"{name}.wav").write_bytes(wave(np.zeros(100, "<i2").tobytes()))
    table = here / "set" / "metadata.csv"
    table.write_text("one|text|text\nthree|text|text\n")
    problems = {problem.reason for problem in discover(here / "set").problems}
    assert problems == {"file-missing", "row-missing"}
    table.write_text("one|text|text\none|other|other\n")
    with pytest.raises(errors.MalformedError, match=r"metadata\.csv.*line 2") as caught:
        discover(here / "set")
    assert caught.value.remedy


# --------------------------------------------------------------------------------------------------- tables


class Keys(pe.KmsClient):
    """Hides keys behind nothing; enough for a file that is encrypted."""

    def __init__(self, _configuration):
        pe.KmsClient.__init__(self)

    def wrap_key(self, key, _name):
        return key

    def unwrap_key(self, key, _name):
        return key


def encrypt(table, path):
    factory = pe.CryptoFactory(Keys)
    configuration = pe.EncryptionConfiguration(footer_key="f", column_keys={"c": table.column_names})
    properties = factory.file_encryption_properties(pe.KmsConnectionConfig(), configuration)
    with pq.ParquetWriter(path, table.schema, encryption_properties=properties) as writer:
        writer.write_table(table)


def test_tables_that_cannot_be_read_are_rejected_by_reason(here):
    table = pa.table({"a": np.arange(5000), "b": [f"row {n}" for n in range(5000)]})
    (here / "in").mkdir()
    for name in ("good", "corrupt", "cut"):
        pq.write_table(table, f"in/{name}.parquet", write_page_checksum=True)
    pq.write_table(table.slice(0, 0), "in/zero-rows.parquet")
    encrypt(table, "in/encrypted.parquet")
    damaged = bytearray(Path("in/corrupt.parquet").read_bytes())
    damaged[200:260] = bytes(byte ^ 0xFF for byte in damaged[200:260])
    Path("in/corrupt.parquet").write_bytes(damaged)
    Path("in/cut.parquet").write_bytes(Path("in/cut.parquet").read_bytes()[:400])
    Path("in/empty.parquet").write_bytes(b"")
    with start() as run:
        run.parquet(
            ["in/good.parquet", *map(str, sorted(Path("in").glob("[ce]*"))), "in/zero-rows.parquet"]
        ).stage("same", same).write("out")
    found = sorted(provenance.rejected(run.id).values())
    assert found == ["corrupt", "corrupt", "empty-file", "encrypted"]
    assert pq.read_table("out").num_rows == 5000


def test_csv_with_ragged_rows_or_another_encoding_is_rejected_by_reason(here):
    (here / "in").mkdir()
    Path("in/0.csv").write_text("a,b\n1,x\n2,y\n")
    Path("in/1.csv").write_text("a,b\n1,x\n2,y,z,w\n")
    Path("in/2.csv").write_bytes(b"a,b\n1,\xff\xfe\n")
    Path("in/3.csv").write_bytes(b"")
    with start() as run:
        run.csv("in/*.csv").stage("same", same).write("out")
    assert sorted(provenance.rejected(run.id).values()) == ["empty-file", "not-utf-8", "ragged-rows"]
    with (
        pytest.raises(errors.MalformedError, match=r"1\.csv: it cannot be used: ragged-rows"),
        start(on_bad_input="stop") as stopped,
    ):
        stopped.csv(["in/0.csv", "in/1.csv"]).stage("same", same).write("second")
    with start() as again:
        again.csv(["in/0.csv"]).stage("same", same).write("third")


# ------------------------------------------------------------------------------------------------- addresses


@pytest.mark.parametrize(
    "address",
    [
        f"https://user:{SECRET}@example.org/a.csv",
        f"s3://bucket/a.parquet?X-Amz-Signature={SECRET}",
        f"HTTPS://example.org/a.wav?sig={SECRET}",
    ],
)
def test_a_password_in_an_address_gets_nowhere(here, address):
    (here / ".provenance").mkdir()
    for method in ("files", "csv", "parquet"):
        with pytest.raises(errors.ConfigError) as caught, start() as run:
            getattr(run, method)(address)
        assert SECRET not in str(caught.value) + caught.value.remedy
    says(done := call(here, "provenance", "digest", address), 2, "address")
    says(voice := call(here, "pipeline.voice", "--source", address), 2)
    (here / "dataset.toml").write_text(
        f'name = "n"\nversion = "1"\ntitle = "t"\nlicence = "CC0-1.0"\nnames_are_personal = true\n'
        f'[[sources]]\ntitle = "s"\naddress = "{address}"\nlicence = "CC0-1.0"\n'
    )
    (here / "in").mkdir(exist_ok=True)
    (here / "in" / "a").write_bytes(b"a")
    with pytest.raises(errors.MalformedError, match=r"dataset\.toml: sources\[1\]\.address") as caught:
        provenance.run("n", client="sync")
    assert SECRET not in str(caught.value) + caught.value.remedy + done.stderr + done.stdout + voice.stdout
    held = [path for path in (here / ".provenance").rglob("*") if path.is_file()]
    assert held
    assert not any(SECRET.encode() in path.read_bytes() for path in held)
