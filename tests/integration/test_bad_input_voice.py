"""What the voice pipeline's command says of bad recordings, tables and folders, and of odd ones."""

from __future__ import annotations

import io
import json
import os

import numpy as np
import pytest
import soundfile
import soxr

import provenance
from pipeline import synthetic
from tests.pipeline.wavefiles import fmt, integers, rf64, wave
from tests.users import call, says

STEERING = "a\nb\x1b[31m.wav"


@pytest.fixture(scope="module")
def voice(tmp_path_factory):
    """Speech as samples at any rate: a function."""
    root = synthetic.write(tmp_path_factory.mktemp("made") / "set", speakers=2, utterances=3)
    read = [soundfile.read(path) for path in sorted(root.rglob("*.wav"))]
    samples, made = max(read, key=lambda found: float(np.square(found[0]).sum()))
    return lambda rate=16000: np.clip(soxr.resample(samples, made, rate), -0.9, 0.9)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert call(tmp_path, "provenance", "init").returncode == 0
    return tmp_path


def record(folder, *arguments, **how):
    """The voice pipeline over ``voices``, computed in the process itself."""
    return call(folder, "pipeline.voice", "--scheduler", "sync", "--source", "voices", *arguments, **how)


def pcm(samples, bits=16, **how):
    top = 2 ** (bits - 1) - 1
    values = np.array([int(value * top) for value in samples.reshape(-1)], dtype=object)
    return wave(integers(values, bits // 8, how.get("order", "<")), bits=bits, **how)


def written(samples, rate, container, subtype):
    buffer = io.BytesIO()
    soundfile.write(buffer, samples, rate, format=container, subtype=subtype)
    return buffer.getvalue()


def lay(folder, recordings):
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in recordings.items():
        (folder / name).write_bytes(data)


# ------------------------------------------------------------------------------------------------ what works


def test_odd_recordings_with_odd_names_are_all_used(here, voice):
    s = voice()
    stereo = np.stack([voice(44100)] * 2, axis=1)
    whole = {
        f"{order}{bits}.wav": pcm(s, bits, order=order) for bits in (8, 16, 24, 32, 64) for order in "<>"
    }
    rates = {f"{rate}.wav": pcm(voice(rate), rate=rate) for rate in (4000, 8000, 22050, 48000, 192000)}
    others = {
        "float's 32.wav": wave(s.astype("<f4").tobytes(), codec=3, bits=32),
        'float "64".wav': wave(s.astype("<f8").tobytes(), codec=3, bits=64),
        STEERING: pcm(s),
        "Голос 声 🎤.wav": written(s, 16000, "WAV", "ULAW"),
        "-law.wav": written(s, 16000, "WAV", "ALAW"),
        "LOUD.WAV": written(s, 16000, "WAV", "IMA_ADPCM"),
        "long.rf64": rf64(fmt(), integers((s * 32767).astype(np.int64), 2)),
        "eight.wav": pcm(np.repeat(s[:, None], 8, axis=1), channels=8),
        "16.flac": written(stereo, 44100, "FLAC", "PCM_16"),
        "24.flac": written(stereo, 44100, "FLAC", "PCM_24"),
    }
    lay(here / "voices" / "some body", {**whole, **rates, **others})
    done = record(here, "--json")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    result = json.loads(done.stdout)
    assert result["rejected"] == {}
    assert result["files"] == len(whole) + len(rates) + len(others)


# ---------------------------------------------------------------------------------------- what is set aside


@pytest.mark.slow
def test_each_recording_that_is_set_aside_is_named_with_the_next_step(here, voice):
    good = pcm(voice())
    lay(here / "voices" / "a", {"good.wav": good, STEERING: good[:40], "half.wav": good[: len(good) // 2]})
    lay(here / "voices" / "b", {"empty.wav": b"", **{f"{n}.wav": b"nothing" for n in range(7)}})
    done = record(here)
    assert done.returncode == 0, done.stderr
    assert "rejected: 10 (1 empty-file, 7 not-audio, 2 truncated)" in done.stdout
    warnings = [line for line in done.stderr.splitlines() if line.startswith("warning: ")]
    assert warnings == [
        "warning: set aside as empty-file: 'b/empty.wav'",
        "warning: set aside as not-audio: 'b/0.wav', 'b/1.wav', 'b/2.wav', 'b/3.wav', 'b/4.wav' and 2 more",
        r"warning: set aside as truncated: 'a/a\nb\x1b[31m.wav', 'a/half.wav'",
    ]
    assert done.stderr.count("  next: ") == 3
    run = done.stdout.split()[1]
    named = provenance.rejected(run, plain=True)
    assert named[f"a/{STEERING}"] == "truncated"
    assert len(named) == 10
    assert not set(named) & set(provenance.rejected(run))
    (here / "voices" / "b" / "empty.wav").unlink()
    assert record(here, "--out", "again.zarr").returncode == 0


@pytest.mark.slow
def test_stop_names_the_file_and_leaves_the_place_free(here, voice):
    lay(here / "voices" / "a", {"good.wav": pcm(voice()), STEERING: b"RIFF"})
    stopped = record(here, "--on-bad-input", "stop")
    says(stopped, 2, r"a/a\nb\x1b[31m.wav: it cannot be used: truncated")
    assert "\x1b" not in stopped.stderr
    assert not list(here.glob("*.zarr")) + list(here.glob(".*.partial"))
    (here / "voices" / "a" / STEERING).unlink()
    assert record(here, "--on-bad-input", "stop").returncode == 0


@pytest.mark.slow
def test_what_may_not_be_read_is_set_aside_or_refused_and_named(here, voice):
    lay(here / "voices" / "a", {"good.wav": pcm(voice()), "shut.wav": pcm(voice())})
    lay(here / "voices" / "b", {"good.wav": pcm(voice())})
    shut = here / "voices" / "a" / "shut.wav"
    shut.chmod(0)
    done = record(here, unprivileged=True)
    assert done.returncode == 0, done.stderr
    assert "set aside as unreadable: 'a/shut.wav'\n  next: mend the permissions" in done.stderr
    digested = call(here, "provenance", "digest", shut, "voices/b/good.wav", unprivileged=True)
    says(digested, 3, "shut.wav: cannot read it: Permission denied")
    assert digested.stdout.endswith("  voices/b/good.wav\n")
    (here / "voices" / "b").chmod(0)
    says(
        record(here, "--out", "2.zarr", unprivileged=True), 3, "voices/b' cannot be listed: Permission denied"
    )
    (here / "voices" / "b").chmod(0o755)
    shut.chmod(0o644)
    again = record(here, "--out", "2.zarr", unprivileged=True)
    assert "rejected: 0" in again.stdout, again.stderr


@pytest.mark.parametrize(
    ("make", "part"),
    [
        (os.mkfifo, "'a/odd.wav' is neither a file nor a folder"),
        (lambda path: path.symlink_to("/nowhere/at/all"), "'a/odd.wav' is a link that leads nowhere"),
        (lambda path: path.symlink_to(path.name), "'a/odd.wav' is a link that leads nowhere"),
        (lambda path: path.symlink_to("../b"), "'a/odd.wav' is a link to something that is no file"),
    ],
    ids=["a pipe", "a broken link", "a link to itself", "a link to a folder"],
)
def test_what_is_no_file_is_refused_and_named(here, voice, make, part):
    lay(here / "voices" / "a", {"good.wav": pcm(voice())})
    lay(here / "voices" / "b", {"good.wav": pcm(voice())})
    make(here / "voices" / "a" / "odd.wav")
    says(record(here), 2, part)
    (here / "voices" / "a" / "odd.wav").unlink()
    (here / "voices" / "a" / "odd.wav").mkdir()  # a folder may have any name
    assert "2 recordings of 2 speakers" in record(here).stdout


# ------------------------------------------------------------------------------------------ tables and places


@pytest.mark.slow
def test_rows_without_recordings_and_recordings_without_rows(here, voice):
    lay(here / "voices" / "wavs", {f"{number:02}.wav": pcm(voice()) for number in range(9)})
    table = here / "voices" / "metadata.csv"
    table.write_text("00|one|one\n77|none|none\n")
    done = record(here)
    assert done.returncode == 0, done.stderr
    assert "'metadata.csv' line 2: there is no recording '77' in 'wavs'" in done.stderr
    assert "'wavs/01.wav' has no row in 'metadata.csv'" in done.stderr
    assert "and 3 more of that kind (row-missing)\n  next: mend the table" in done.stderr
    assert "9 recordings of 1 speakers" in done.stdout
    assert "rejected: 0" in done.stdout
    says(record(here, "--on-bad-input", "stop", "--out", "2.zarr"), 2, "'77'", "(9 problems in all)")
    for text, part in (
        ("00|a\n00|b\n", "line 2: '00' stands in line 1"),
        ("00|a\n01\n", "line 2: expected 2"),
    ):
        table.write_text(text)
        says(record(here, "--out", "2.zarr"), 2, f"'metadata.csv' {part}")
    table.write_text("".join(f"{number:02}|a|a\n" for number in range(9)))
    assert record(here, "--out", "2.zarr").stderr == ""


@pytest.mark.slow
def test_a_wrong_place_is_named_before_anything_is_computed(here, voice):
    lay(here / "voices" / "a", {"good.wav": pcm(voice())})
    says(record(here, "--out", "features.tar"), 2, "'features.tar': expected a name that ends in .zarr")
    says(record(here, "--dataset", "none.toml"), 2, "none.toml: there is no such dataset descriptor")
    says(record(here, "--speakers", "none.csv"), 2, "'none.csv' cannot be read", "check that it is there")
    says(record(here, "--mels", "many"), 2, "'many'", "--help")
    there = here / os.fsdecode(b"\xff.zarr")
    there.mkdir()
    says(record(here, "--out", there), 2, r"\xff.zarr: there is something at this place already")
    assert record(here).returncode == 0


def test_the_digest_of_the_others_is_printed_beside_each_bad_file(here, voice):
    lay(
        here / "in",
        {"good.wav": pcm(voice()), "cut.wav": pcm(voice())[:300], "no.parquet": b"", "e.csv": b""},
    )
    lay(here / "in", {"ragged.csv": b"a,b\n1,2\n3\n", "t\next.npy": b"text"})
    os.mkfifo(here / "in" / "pipe")
    (here / "in" / "broken").symlink_to("/nowhere/at/all")
    names = sorted(path.name for path in (here / "in").iterdir())
    done = call(here / "in", "provenance", "digest", *names, os.fsdecode(b"gone\xff"))
    assert done.returncode == 2
    assert done.stdout.endswith("  good.wav\n")
    assert done.stdout.count("\n") == 1
    said = done.stderr.splitlines()
    assert [line.split(":")[1].strip() for line in said if line.startswith("error: ")] == [
        "broken",
        "cut.wav",
        "e.csv",
        "no.parquet",
        "pipe",
        "ragged.csv",
        r"t\next.npy",
        r"gone\xff",
    ]
    assert sum(line.startswith("  next: ") for line in said) == 8
