"""Voices that nobody has: always the same, told apart by pitch, in a folder that is whole or not there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from pipeline import synthetic
from pipeline.audio import decode
from pipeline.layouts import Layout, discover
from pipeline.unusable import UnusableAudioError
from provenance.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_set(tmp_path: Path) -> None:
    root = synthetic.write(tmp_path / "new" / synthetic.NAME, speakers=3, utterances=2)
    found = discover(root)
    assert found.layout is Layout.SPEAKER_FOLDER
    assert found.speakers() == ("speaker-1", "speaker-2", "speaker-3")
    assert len(found.items) == 2 * 2 + 2 + 2 + 2
    reasons = []
    for item in found.items:
        try:
            assert 0.8 < decode(item.path).seconds < 4
        except UnusableAudioError as error:
            reasons.append((item.name, error.reason))
    assert reasons == [("speaker-2/no-frames.wav", "no-frames")]
    assert not decode(root / "speaker-1" / "silence.wav").samples.any()
    assert "Nobody speaks" in (root / "README.txt").read_text()


def test_the_same_arguments_give_the_same_bytes(tmp_path: Path) -> None:
    one = contents(synthetic.write(tmp_path / "1", speakers=2, utterances=1))
    assert one == contents(synthetic.write(tmp_path / "2", speakers=2, utterances=1))
    other = contents(synthetic.write(tmp_path / "3", speakers=2, utterances=1, seed=1))
    assert other["speaker-1/0001.wav"] != one["speaker-1/0001.wav"]


def test_no_two_utterances_are_alike() -> None:
    voices = [synthetic.speak(speaker, number).tobytes() for speaker in range(3) for number in range(3)]
    assert len(set(voices)) == 9


def test_speakers_differ_in_pitch() -> None:
    def pitch(speaker: int) -> float:
        samples = np.concatenate([synthetic.speak(speaker, number) for number in range(3)])
        likeness = [float(samples[lag:] @ samples[:-lag]) for lag in range(50, 250)]
        return 16_000 / (50 + int(np.argmax(likeness)))

    pitches = [pitch(speaker) for speaker in range(4)]
    assert pitches == sorted(pitches)
    assert pitches[0] < 120
    assert pitches[3] > 190


@pytest.mark.parametrize(
    "how", [{"speakers": 1}, {"speakers": 65}, {"utterances": 0}, {"utterances": 10_001}]
)
def test_arguments_out_of_range(tmp_path: Path, how: dict[str, int]) -> None:
    with pytest.raises(ConfigError):
        synthetic.write(tmp_path / "x", **how)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="exists"):
        synthetic.write(tmp_path)


def test_a_failure_in_the_middle_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(synthetic, "speak", full)
    with pytest.raises(OSError, match="No space"):
        synthetic.write(tmp_path / "x")
    assert list(tmp_path.iterdir()) == []
