"""The signal processing against slow references, and its bits under other kernels and thread counts."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import scipy.signal
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.transforms import RATE, mel, mel_bank, mix, remove_silence, resample
from pipeline.unusable import UnusableAudioError
from provenance.errors import ConfigError
from tests.pipeline.bits import digest_of_everything
from tests.pipeline.wavefiles import tone

ROOT = Path(__file__).resolve().parents[2]


def noise(count: int, seed: int = 0, level: float = 0.1) -> np.ndarray:
    return (level * np.random.default_rng(seed).standard_normal(count)).astype(np.float32)


# ---------------------------------------------------------------------------------------------- one channel


@pytest.mark.parametrize("channels", [1, 2, 3, 7])
def test_mix_is_the_mean(channels: int) -> None:
    samples = np.random.default_rng(channels).uniform(-1, 1, (100, channels))
    assert mix(samples) == pytest.approx([sum(row) / channels for row in samples.tolist()])
    assert samples.shape == (100, channels)


def test_mix_leaves_its_input_alone() -> None:
    samples = np.ones((5, 2))
    mix(samples)[0] = 7
    assert (samples == 1).all()


# ----------------------------------------------------------------------------------------------- resampling


@pytest.mark.parametrize("rate", [8000, 11025, 22050, 44100, 48000, 96000])
def test_resampling_keeps_a_tone(rate: int) -> None:
    samples = resample(tone(1.0, rate, hertz=440.0), rate)
    assert samples.dtype == np.float32
    assert len(samples) == RATE
    inner = slice(1000, -1000)  # the filter rings at the ends
    assert np.max(np.abs(samples[inner] - tone(1.0, hertz=440.0)[inner])) < 1e-5


@pytest.mark.parametrize("rate", [8000, 32000, 48000])
def test_resampling_agrees_with_scipy(rate: int) -> None:
    smooth = scipy.signal.firwin(101, 3000, fs=rate)
    samples = np.convolve(np.random.default_rng(1).standard_normal(rate), smooth, "same")
    theirs = scipy.signal.resample_poly(samples, 2, 2 * rate // RATE)
    assert np.max(np.abs(resample(samples, rate)[500:-500] - theirs[500:-500])) < 1e-2


def test_nothing_is_resampled_at_the_same_rate() -> None:
    samples = np.random.default_rng(0).uniform(-1, 1, 1000)
    assert np.array_equal(resample(samples, RATE), samples.astype(np.float32))


@pytest.mark.parametrize("count", [1, 2, 10])
def test_very_short_recordings(count: int) -> None:
    assert len(resample(np.ones(count), 8000)) == 2 * count


# -------------------------------------------------------------------------------------------------- silence


def slow_remove_silence(
    samples: np.ndarray, threshold_db: float, floor_db: float, hangover_ms: int
) -> list[float]:
    """Frame by frame and sample by sample, as the documentation says it."""
    hop = RATE // 100
    hops = max(2, -(-len(samples) // hop))
    values = [float(x) for x in samples] + [0.0] * (hops * hop - len(samples))
    powers = [sum(x * x for x in values[i * hop : (i + 2) * hop]) / (2 * hop) for i in range(hops - 1)]
    limit = max(max(powers) * 10 ** (threshold_db / 10), 10 ** (floor_db / 10))
    active = [i for i, power in enumerate(powers) if power >= limit]
    frames = {j for i in active for j in range(i - hangover_ms // 10, i + hangover_ms // 10 + 1)}
    frames &= set(range(len(powers)))
    kept = frames | {frame + 1 for frame in frames}
    return [float(x) for place, x in enumerate(samples) if place // hop in kept]


@given(
    st.lists(st.tuples(st.integers(1, 900), st.sampled_from([0.0, 1e-4, 1e-2, 0.3])), min_size=1, max_size=8),
    st.sampled_from([-20.0, -40.0, -70.0]),
    st.sampled_from([0, 10, 50, 100]),
)
@settings(max_examples=60)
def test_silence_as_the_slow_reference_sees_it(
    parts: list[tuple[int, float]], threshold_db: float, hangover_ms: int
) -> None:
    samples = np.concatenate([noise(count, seed, level) for seed, (count, level) in enumerate(parts)])
    how = {"threshold_db": threshold_db, "floor_db": -60.0, "hangover_ms": hangover_ms}
    expected = slow_remove_silence(samples, **how)
    if expected:
        assert remove_silence(samples, **how).tolist() == expected
    else:
        with pytest.raises(UnusableAudioError):
            remove_silence(samples, **how)


def test_pauses_go_and_words_stay() -> None:
    word, pause = tone(0.5).astype(np.float32), noise(RATE, level=1e-4)
    kept = remove_silence(np.concatenate([pause, word, pause, word, pause]))
    assert len(kept) == pytest.approx(
        2 * 8000 + 4 * 1600, abs=4 * 320
    )  # each word with 100 ms on either side
    assert np.array_equal(remove_silence(word), word)


def test_a_lower_threshold_keeps_more() -> None:
    samples = np.concatenate([tone(0.3), tone(0.3, level=0.01), np.zeros(8000)]).astype(np.float32)
    lengths = [len(remove_silence(samples, threshold_db=db, hangover_ms=0)) for db in (-10, -20, -40)]
    assert lengths[0] == lengths[1] < lengths[2] < len(samples)


@pytest.mark.parametrize(
    "samples",
    [
        np.zeros(0),
        np.zeros(1),
        np.zeros(RATE),
        6e-5 * np.ones(RATE),
        noise(RATE, level=2e-4),
        0.01 * np.eye(1, RATE)[0],
    ],
    ids=["none", "one", "zeros", "dither", "hiss", "a click"],
)
def test_silence_is_refused(samples: np.ndarray) -> None:
    with pytest.raises(UnusableAudioError) as caught:
        remove_silence(samples.astype(np.float32))
    assert caught.value.reason == "silence"


def test_a_very_short_sound_stays() -> None:
    assert len(remove_silence(np.full(5, 0.5, np.float32))) == 5


@pytest.mark.parametrize("how", [{"threshold_db": 1.0}, {"floor_db": 0.5}, {"hangover_ms": -10}])
def test_levels_out_of_range(how: dict[str, float]) -> None:
    with pytest.raises(ConfigError):
        remove_silence(noise(1000), **how)  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------------------- features


def slow_mel(samples: np.ndarray, n_mels: int) -> np.ndarray:
    """The definition, with a matrix for the Fourier transform and a loop for each filter."""
    size, hop, points = 400, 160, 512
    values = np.concatenate([samples.astype(np.float64), np.zeros(max(0, size - len(samples)))])
    window = scipy.signal.get_window("hann", size)
    fourier = np.exp(-2j * np.pi * np.outer(np.arange(points // 2 + 1), np.arange(size)) / points)

    def hertz(mels: float) -> float:
        return mels * 200 / 3 if mels < 15 else 1000 * 6.4 ** ((mels - 15) / 27)

    top = 15 + 27 * np.log(8) / np.log(6.4)
    edges = [hertz(top * i / (n_mels + 1)) for i in range(n_mels + 2)]
    rows = []
    for start in range(0, len(values) - size + 1, hop):
        power = np.abs(fourier @ (values[start : start + size] * window)) ** 2
        row = []
        for low, middle, high in zip(edges, edges[1:], edges[2:], strict=False):
            total = 0.0
            for place, value in enumerate(power):
                frequency = place * RATE / points
                if low < frequency < high:
                    slope = (
                        (frequency - low) / (middle - low)
                        if frequency <= middle
                        else (high - frequency) / (high - middle)
                    )
                    total += value * slope * 2 / (high - low)
            row.append(np.log(max(total, 1e-10)))
        rows.append(row)
    return np.array(rows)


@pytest.mark.parametrize(
    ("count", "n_mels"), [(1, 80), (399, 80), (400, 40), (559, 80), (560, 80), (4000, 23)]
)
def test_mel_as_the_slow_reference_computes_it(count: int, n_mels: int) -> None:
    samples = noise(count, count)
    features = mel(samples, n_mels=n_mels)
    assert features.dtype == np.float32
    assert features.shape == (1 + max(0, count - 400) // 160, n_mels)
    assert features == pytest.approx(slow_mel(samples, n_mels), rel=1e-6, abs=1e-6)


def test_a_long_recording_is_computed_in_blocks_that_do_not_show() -> None:
    samples = noise(RATE * 25)
    features = mel(samples)
    assert len(features) > 2048
    assert np.array_equal(features[1000:1100], mel(samples[1000 * 160 : 1099 * 160 + 400]))


def test_silence_has_the_lowest_value_and_no_other() -> None:
    assert np.all(mel(np.zeros(1000, np.float32)) == np.float32(np.log(1e-10)))


def test_a_tone_lights_its_own_band() -> None:
    bank = mel_bank(RATE, 80)
    for hertz in (300.0, 1000.0, 3000.0):
        loudest = mel(tone(0.2, hertz=hertz).astype(np.float32)).mean(axis=0).argmax()
        assert bank[loudest, round(hertz / RATE * 512)] > 0


def test_every_band_holds_a_bin_and_the_bank_is_read_only() -> None:
    bank = mel_bank(RATE, 80)
    assert bank.shape == (80, 257)
    assert (bank.sum(axis=1) > 0).all()
    with pytest.raises(ValueError, match="read-only"):
        bank[0, 0] = 1.0


@pytest.mark.parametrize(("rate", "n_mels"), [(RATE, 0), (RATE, 300), (44_100, 80), (100, 20)])
def test_features_that_cannot_be(rate: int, n_mels: int) -> None:
    with pytest.raises(ConfigError):
        mel(noise(1000), rate=rate, n_mels=n_mels)


# ----------------------------------------------------------------------------------------------------- bits


def test_the_same_bits_on_several_threads_at_once() -> None:
    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(digest_of_everything, [0] * 8)) == {digest_of_everything()}


def test_another_input_has_another_digest() -> None:
    assert digest_of_everything(0) != digest_of_everything(1)


@pytest.mark.slow
def test_the_same_bits_under_every_kernel_and_thread_count() -> None:
    """OpenBLAS and NumPy choose kernels by processor; these settings make them choose as others would."""
    extras = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
    settings_tried = [
        {"OPENBLAS_CORETYPE": core, "OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads}
        for core, threads in [("Prescott", "1"), ("Haswell", "2"), ("SkylakeX", "1"), ("Zen", "4")]
    ]
    settings_tried += [{"NPY_DISABLE_CPU_FEATURES": " ".join(extras)}] if extras else []
    script = "from tests.pipeline.bits import digest_of_everything as d; print(d())"
    found = {
        subprocess.run(
            [sys.executable, "-c", script],
            cwd=ROOT,
            env={**os.environ, **tried},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for tried in settings_tried
    }
    assert found == {digest_of_everything() + "\n"}
