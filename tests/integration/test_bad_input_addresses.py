"""Addresses with a password or a signature, wherever a path can be written: they get nowhere."""

from __future__ import annotations

import os

import numpy as np
import pytest

import provenance
from provenance import errors
from tests.pipeline.wavefiles import pcm16, tone
from tests.users import call

SECRET = "hunter2-secret"
ADDRESSES = (
    f"https://user:{SECRET}@example.org/a.wav",
    f"s3://bucket/a.zarr?X-Amz-Signature={SECRET}",
    f"GS://bucket/{SECRET}/a.zarr#{SECRET}",
)
COMMANDS = (
    ("pipeline.voice", "--source", "ADDRESS"),
    ("pipeline.voice", "--source", "voices", "--out", "ADDRESS"),
    ("pipeline.voice", "--source", "voices", "--dataset", "ADDRESS"),
    ("pipeline.voice", "--source", "voices", "--speakers", "ADDRESS"),
    ("pipeline.voice", "--source", "voices", "--folder", "ADDRESS"),
    ("pipeline.train", "--checkpoint", "ADDRESS"),
    ("provenance", "init", "--folder", "ADDRESS"),
    ("provenance", "status", "--folder", "ADDRESS"),
    ("provenance", "digest", "ADDRESS"),
    ("provenance", "digest", "--check", "ADDRESS"),
    ("provenance", "verify", "ADDRESS", "--trust", "dataset.toml"),
    ("provenance", "prove", "abcdef0123", "--out", "ADDRESS"),
    ("provenance", "report", "--out", "ADDRESS"),
    ("provenance", "audit", "--code", "ADDRESS"),
)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "voices").mkdir()
    (tmp_path / "voices" / "1.wav").write_bytes(pcm16(tone(1.0)))
    assert call(tmp_path, "provenance", "init").returncode == 0
    return tmp_path


def holding(folder):
    """What below a folder holds the secret, in its name or its bytes."""
    needle = SECRET.encode()
    return [
        path
        for path in folder.rglob("*")
        if needle in os.fsencode(path) or (path.is_file() and needle in path.read_bytes())
    ]


def content(file):
    return np.frombuffer(file.data, np.uint8)


@pytest.mark.slow
@pytest.mark.parametrize("address", ADDRESSES, ids=["password", "signature", "fragment"])
def test_no_command_takes_one_for_a_path_or_repeats_it(here, address):
    for module, *arguments in COMMANDS:
        given = [address if argument == "ADDRESS" else argument for argument in arguments]
        done = call(here, module, *given)
        assert done.returncode == 2, (module, arguments, done.stdout, done.stderr)
        assert done.stderr.count("error: ") == 1, (arguments, done.stderr)
        assert "next: " in done.stderr
        assert "address" in done.stderr
        assert SECRET not in done.stdout + done.stderr, arguments
    done = call(here, "provenance", "status", PROVENANCE_FOLDER=address)
    assert done.returncode == 2
    assert SECRET not in done.stdout + done.stderr
    assert holding(here) == []


@pytest.mark.parametrize("address", ADDRESSES, ids=["password", "signature", "fragment"])
@pytest.mark.parametrize("personal", [True, False], ids=["tokens", "plain names"])
def test_no_run_takes_one_for_a_file_or_a_place(here, address, personal):
    """Where names are not personal they stand in records, so an address among paths would too."""
    descriptor = here / "dataset.toml"
    text = descriptor.read_text()
    assert "names_are_personal = true" in text
    descriptor.write_text(text.replace("= true", f"= {str(personal).lower()}", 1))

    def refused(use):
        with pytest.raises(errors.ConfigError) as caught, provenance.run("r", client="sync") as run:
            use(run)
        assert caught.value.reason == "address"
        assert SECRET not in f"{caught.value}{caught.value.remedy}{caught.value.context}"
        assert caught.value.remedy

    for method in ("files", "csv", "parquet"):
        refused(lambda run, method=method: getattr(run, method)(address))
        refused(lambda run, method=method: getattr(run, method)(["voices/1.wav", address]))
        refused(lambda run, method=method: getattr(run, method)("voices", root=address))
    refused(lambda run: run.files("voices").stage("read", content).write(address))
    refused(lambda run: provenance.record(np.zeros(3), inputs=[address], stage="by-hand") and run)
    for how in ({"dataset": address}, {"folder": address}):
        with pytest.raises(errors.ConfigError) as caught:
            provenance.run("r", client="sync", **how)
        assert SECRET not in str(caught.value)
    with pytest.raises(errors.ConfigError, match="client") as caught:
        provenance.run("r", client=address)
    assert SECRET not in str(caught.value)
    assert holding(here) == []
    with provenance.run("r", client="sync") as run:
        run.files("voices").stage("read", content).write("out.zarr")
    assert provenance.rejected(run.id) == {}
