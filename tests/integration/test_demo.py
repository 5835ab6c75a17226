"""The whole job as `make demo` shows it, on a small synthetic set: recorded, audited, tampered with."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from pipeline import synthetic

pytestmark = [pytest.mark.service, pytest.mark.slow]


def demo(folder, source, **environment):
    command = [sys.executable, "-m", "pipeline.demo", "--folder", str(folder), "--source", str(source)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=500, check=False, env={**os.environ, **environment}
    )


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    root = tmp_path_factory.mktemp("demo")
    source = root / "recordings"
    synthetic.write(source, speakers=4, utterances=40)
    done = demo(root / "demo", source)
    assert done.returncode == 0, done.stdout + done.stderr
    return root / "demo", done.stdout


def test_everything_is_anchored_and_audited(shown):
    folder, _ = shown
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["audit"] == {"chain": "passed", "data": "passed", "replay": "passed"}
    assert summary["source"] == "folder"
    assert summary["records"] > 10
    assert summary["batches"] >= 2
    assert summary["gas"] > 100_000


def test_the_model_learns_voices_and_nothing_from_shuffled_labels(shown):
    folder, _ = shown
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["accuracy"] >= summary["accuracy_majority"] + 0.3
    assert summary["accuracy_shuffled"] <= summary["accuracy_majority"] + 0.15


def test_both_changed_bytes_are_named_and_put_right(shown):
    folder, text = shown
    shard, batch = json.loads((folder / "summary.json").read_text())["tamper"]
    assert (shard["target"], shard["exit_code"]) == ("shard", 1)
    assert (shard["named"]["stage"], shard["named"]["shard"]) == ("shards", 0)
    assert {"object", "chunk"} <= set(shard["named"])
    assert (batch["target"], batch["exit_code"]) == ("batch", 1)
    assert {"stream", "seq", "offset", "byte"} <= set(batch["named"])
    assert "the loader refuses it" in text
    assert not (folder / "refused.pt").exists()


def test_a_folder_that_no_demo_made_is_left_alone(tmp_path):
    (tmp_path / "precious").write_text("x")
    done = demo(tmp_path, tmp_path)
    assert done.returncode == 2
    assert "no demo made it" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]
