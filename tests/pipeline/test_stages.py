"""The transforms as stages: one recording in, one out, an unusable one by its reason."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

import provenance
from pipeline.transforms import RATE, mel
from pipeline.voice.stages import clean, features, gather, recordings
from tests.pipeline.wavefiles import pcm16, tone, wave


def item(data: object, name: str = "a.wav") -> provenance.File:
    return provenance.File(name, data, key="0" * 64, suffix=".wav")


def test_values_are_those_of_the_transforms() -> None:
    samples = clean(item(pcm16(tone(0.3))))
    assert samples.dtype == np.float32
    assert np.array_equal(samples, (np.rint(tone(0.3) * 32767) / 32768).astype(np.float32))
    assert np.array_equal(features(item(samples)), mel(samples))
    assert features(item(samples), n_mels=40).shape[1] == 40


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (pcm16(np.zeros(RATE)), "silence"),
        (wave(b""), "no-frames"),
        (pcm16(tone(0.3))[:-100], "truncated"),
        (b"", "empty-file"),
        (b"not audio at all", "not-audio"),
    ],
)
def test_what_cannot_be_used_is_rejected_with_its_reason(data: bytes, reason: str) -> None:
    with pytest.raises(provenance.Rejected) as caught:
        clean(item(data))
    assert caught.value.reason == reason
    assert "a.wav" not in str(caught.value), "a name may be personal"


def test_recordings_of_a_speaker_are_put_end_to_end_and_come_apart_again() -> None:
    token = hashlib.sha256(b"x").hexdigest()
    made = [np.full((length, 3), length, np.float32) for length in (2, 1, 4)]
    parts = gather([item(made[0], token), item(made[1], "plain.wav"), item(made[2], "other.wav")])
    assert {name: (str(part.dtype), part.shape) for name, part in parts.items()} == {
        "features": ("float32", (7, 3)),
        "offsets": ("int64", (4,)),
        "recordings": ("uint8", (3, 32)),
    }
    apart = list(recordings(parts, "speaker"))
    assert [speaker for _, speaker, _ in apart] == ["speaker"] * 3
    assert all(np.array_equal(values, wanted) for (values, _, _), wanted in zip(apart, made, strict=True))
    assert [name for _, _, name in apart] == [
        token,
        hashlib.sha256(b"plain.wav").hexdigest(),
        hashlib.sha256(b"other.wav").hexdigest(),
    ]
