"""The transforms as stages: one partition in, one out, and no recording lost on the way."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest

from pipeline.transforms import RATE, mel
from pipeline.unusable import UnusableAudioError
from pipeline.voice.stages import CLEAN, clean, features, features_schema, recordings, rejections
from tests.pipeline.wavefiles import pcm16, tone, wave


@dataclass(frozen=True)
class File:
    name: str
    key: str | None
    data: bytes


FILES = [
    File("a/1.wav", "Ann", pcm16(tone(0.3))),
    File("a/silence.wav", "Ann", pcm16(np.zeros(RATE))),
    File("b/1.wav", "Bob", pcm16(tone(0.5, 8000, hertz=150), 8000)),
    File("b/none.wav", "Bob", wave(b"")),
    File("loose.wav", None, pcm16(tone(0.2, 44100), 44100)),
    File("a/broken.wav", "Ann", pcm16(tone(0.3))[:-100]),
]


def test_every_recording_stays_a_row_in_its_place() -> None:
    made = features(clean(FILES))
    made.validate(full=True)
    assert made.schema == features_schema()
    assert made["recording"].to_pylist() == [file.name for file in FILES]
    assert made["speaker"].to_pylist() == [file.key for file in FILES]
    assert rejections(made) == [
        ("a/silence.wav", "silence"),
        ("b/none.wav", "no-frames"),
        ("a/broken.wav", "truncated"),
    ]
    assert [value is None for value in made["features"].to_pylist()] == [
        reason is not None for reason in made["rejected"].to_pylist()
    ]


def test_values_are_those_of_the_transforms() -> None:
    cleaned = clean(FILES[:1])
    samples = np.asarray(cleaned["samples"][0].as_py(), np.float32)
    assert np.array_equal(samples, (np.rint(tone(0.3) * 32767) / 32768).astype(np.float32))
    ((values, speaker, name),) = recordings(features(cleaned))
    assert np.array_equal(values, mel(samples))
    assert (speaker, name) == ("Ann", "a/1.wav")


def test_a_model_gets_what_is_usable_and_has_a_speaker() -> None:
    assert [(speaker, name) for _, speaker, name in recordings(features(clean(FILES)))] == [
        ("Ann", "a/1.wav"),
        ("Bob", "b/1.wav"),
    ]


@pytest.mark.parametrize(("start", "length"), [(0, 6), (1, 4), (2, 1), (3, 0), (5, 1)])
def test_a_slice_of_the_input_gives_that_slice_of_the_output(start: int, length: int) -> None:
    cleaned = clean(FILES)
    part = features(cleaned.slice(start, length))
    assert part.equals(features(cleaned).slice(start, length))
    assert part.equals(features(clean(FILES[start : start + length])))


def test_several_chunks_are_one_table() -> None:
    cleaned = clean(FILES)
    chunked = pa.concat_tables([cleaned.slice(0, 2), cleaned.slice(2)])
    assert features(chunked).equals(features(cleaned))


@pytest.mark.parametrize("files", [[], FILES[1:2]], ids=["nothing", "nothing usable"])
def test_a_partition_without_anything_usable(files: list[File]) -> None:
    cleaned = clean(files)
    assert cleaned.schema == CLEAN
    made = features(cleaned, n_mels=40)
    assert made.schema == features_schema(40)
    assert len(made) == len(files)
    assert list(recordings(made)) == []


def test_stop_raises_for_the_first_unusable_recording_and_names_it() -> None:
    with pytest.raises(UnusableAudioError, match=r"^'a/silence\.wav': nothing but silence") as caught:
        clean(FILES, on_bad_input="stop")
    assert caught.value.reason == "silence"
    assert len(clean(FILES[:1], on_bad_input="stop")) == 1


def test_parameters_reach_the_transforms() -> None:
    loud = File("loud.wav", "Ann", pcm16(np.clip(tone(0.3, level=2.0), -1, 1)))
    assert rejections(clean([loud])) == [("loud.wav", "clipped")]
    assert rejections(clean([loud], max_clipped=1.0)) == []
    assert rejections(clean(FILES[:1], floor_db=-1.0)) == [("a/1.wav", "silence")]
    assert features(clean(FILES[:1]), n_mels=20).schema == features_schema(20)
