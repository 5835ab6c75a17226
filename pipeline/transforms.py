"""The signal processing of the voice pipeline: plain functions from arrays to arrays.

They are written to be replayed. A recording that is transformed again, on another machine and years later,
has to give the same float32 values, so all arithmetic is float64, sums run in a fixed order, and nothing here
calls BLAS (whose kernels, chosen by processor and thread count, add in different orders). What is left is the
last bit of NumPy's logarithm and FFT between processors and versions, some 1e-16, which rounding to float32
all but always hides.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import soxr

from pipeline.unusable import Reason, UnusableAudioError
from provenance.errors import ConfigError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["RATE", "mel", "mel_bank", "mix", "remove_silence", "resample"]

RATE = 16_000
"""Frames per second of everything behind `resample`."""

_FFT = 512
_FRAME_MS = 25
_HOP_MS = 10
_BLOCK = (
    4096  # frames of features computed at a time: 17 MB of windowed samples, whatever the recording's length
)
_QUIETEST = 1e-10


def mix(samples: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean of all channels: ``[frames, channels]`` to ``[frames]``, channels added in their order."""
    total = samples[:, 0].copy()
    for channel in range(1, samples.shape[1]):
        total += samples[:, channel]
    mean: NDArray[np.float64] = total / samples.shape[1]
    return mean


def resample(samples: NDArray[np.float64], rate: int, *, to: int = RATE) -> NDArray[np.float32]:
    """One channel at another rate, by soxr at quality HQ (20 bits), stored as float32.

    Args:
        samples: float64, shape ``[frames]``.
        rate: frames per second of ``samples``.
        to: frames per second of the result, whose length is ``frames * to / rate``, rounded.
    """
    if rate != to:
        samples = soxr.resample(samples, rate, to, quality="HQ")
    return samples.astype(np.float32)


def remove_silence(
    samples: NDArray[np.float32],
    *,
    rate: int = RATE,
    threshold_db: float = -40.0,
    floor_db: float = -60.0,
    hangover_ms: int = 100,
) -> NDArray[np.float32]:
    """Keep the stretches that hold sound, joined; an energy detector.

    The level of a frame (20 ms, one each 10 ms) is the mean square of its samples in dB of full scale. A
    frame is active if it reaches ``threshold_db`` below the loudest frame and ``floor_db`` itself; what lies
    within ``hangover_ms`` of an active frame is kept with it, so that soft beginnings and ends of words stay.

    Args:
        samples: float32, shape ``[frames]``.
        rate: frames per second.
        threshold_db: level relative to the loudest frame, at most 0.
        floor_db: level relative to full scale below which everything is silence, at most 0.
        hangover_ms: what is kept on either side of an active frame.

    Raises:
        UnusableAudioError: ``silence``, if no frame is active.
        ConfigError: a level above 0 or a negative hangover.
    """
    if threshold_db > 0 or floor_db > 0 or hangover_ms < 0:
        raise ConfigError(
            f"threshold_db {threshold_db}, floor_db {floor_db}, hangover_ms {hangover_ms}: "
            "levels are at most 0, the hangover at least 0",
            remedy="give levels in dB below the loudest frame and below full scale",
        )
    hop = max(1, rate * _HOP_MS // 1000)
    power = _frame_power(samples, hop)
    loudest = float(power.max(initial=0.0))
    active = power >= max(loudest * 10.0 ** (threshold_db / 10.0), 10.0 ** (floor_db / 10.0))
    if not active.any():
        level = 10.0 * np.log10(max(loudest, _QUIETEST))
        raise UnusableAudioError(
            Reason.SILENCE,
            f"nothing but silence: the loudest frame has {level:.0f} dB, the floor is {floor_db:g} dB",
        )
    frames = _widen(active, hangover_ms // _HOP_MS)
    hops = np.append(frames, False) | np.append(False, frames)  # frame i covers hops i and i + 1
    kept: NDArray[np.float32] = samples[np.repeat(hops, hop)[: len(samples)]]
    return kept


def _frame_power(samples: NDArray[np.float32], hop: int) -> NDArray[np.float64]:
    """Mean square of frames of two hops, one for each hop but the last; the end is filled up with zeros."""
    hops = max(2, -(-len(samples) // hop))
    padded = np.zeros(hops * hop)
    padded[: len(samples)] = samples
    energy = np.square(padded).reshape(hops, hop).sum(axis=1)
    power: NDArray[np.float64] = (energy[:-1] + energy[1:]) / (2 * hop)
    return power


def _widen(active: NDArray[np.bool_], by: int) -> NDArray[np.bool_]:
    """True wherever a True stands within ``by`` places."""
    edges = np.zeros(len(active) + 2 * by + 1, np.int64)
    where = np.flatnonzero(active)
    np.add.at(edges, where, 1)
    np.add.at(edges, where + 2 * by + 1, -1)
    return np.cumsum(edges)[by : by + len(active)] > 0


def mel(samples: NDArray[np.float32], *, rate: int = RATE, n_mels: int = 80) -> NDArray[np.float32]:
    """Log-mel features: the natural logarithm of the power in ``n_mels`` bands, 25 ms frames, one each 10 ms.

    Frames are whole (no padding at the ends; a recording shorter than one frame is filled up with zeros),
    Hann windowed (periodic) and transformed with 512 points; powers below 1e-10 count as 1e-10.

    Args:
        samples: float32, shape ``[frames]``.
        rate: frames per second, at most 20,480.
        n_mels: number of bands.

    Returns:
        float32, shape ``[1 + (frames - 0.025 rate) // (0.01 rate), n_mels]``, computed in float64.
    """
    size, hop = rate * _FRAME_MS // 1000, rate * _HOP_MS // 1000
    bank = mel_bank(rate, n_mels)
    window = 0.5 - 0.5 * np.cos(2.0 * np.pi * np.arange(size) / size)
    wide = np.zeros(max(size, len(samples)))
    wide[: len(samples)] = samples
    frames = np.lib.stride_tricks.sliding_window_view(wide, size)[::hop]
    features = np.empty((len(frames), n_mels), np.float32)
    for start in range(0, len(frames), _BLOCK):
        spectrum = np.fft.rfft(frames[start : start + _BLOCK] * window, _FFT, axis=1)
        power = np.ascontiguousarray((np.square(spectrum.real) + np.square(spectrum.imag)).T)
        features[start : start + _BLOCK] = np.log(np.maximum(_apply(bank, power), _QUIETEST)).T
    return features


def _apply(bank: NDArray[np.float64], power: NDArray[np.float64]) -> NDArray[np.float64]:
    """``bank @ power`` without BLAS: each band adds its bins one by one, ascending, on every machine.

    Args:
        bank: shape ``[n_mels, bins]``; the few values of a row that are not zero are neighbours.
        power: shape ``[bins, frames]``.
    """
    first = (bank > 0.0).argmax(axis=1)
    bands = np.zeros((len(bank), power.shape[1]))
    rows = np.arange(len(bank))
    for step in range(int(np.count_nonzero(bank, axis=1).max())):
        place = np.minimum(first + step, bank.shape[1] - 1)
        weight = np.where(first + step < bank.shape[1], bank[rows, place], 0.0)
        bands += weight[:, None] * power[place]
    return bands


@lru_cache(maxsize=8)
def mel_bank(rate: int, n_mels: int) -> NDArray[np.float64]:
    """Triangular filters, evenly spaced on the mel scale from 0 to ``rate / 2``, each of area 1 per Hz.

    The scale is Slaney's ("Auditory Toolbox", 1998): linear to 1,000 Hz (15 mel), logarithmic above (27 mel
    for a factor of 6.4).

    Returns:
        float64, shape ``[n_mels, 257]``, read-only.

    Raises:
        ConfigError: the bands are narrower than the bins of the transform, or the frame is longer than it.
    """
    if rate * _FRAME_MS // 1000 > _FFT or rate < 2000 // _HOP_MS or n_mels < 1:
        raise ConfigError(
            f"features of {n_mels} bands at {rate} frames a second", remedy=f"resample to {RATE} first"
        )
    edges = _to_hertz(np.linspace(0.0, float(_to_mel(rate / 2)), n_mels + 2))
    bins = np.arange(_FFT // 2 + 1) * (rate / _FFT)
    low, middle, high = (edges[i : n_mels + i, None] for i in range(3))
    rising = (bins - low) / (middle - low)
    falling = (high - bins) / (high - middle)
    bank: NDArray[np.float64] = np.maximum(0.0, np.minimum(rising, falling)) * 2.0 / (high - low)
    if not bank.any(axis=1).all():
        raise ConfigError(f"{n_mels} bands: some hold no bin of the transform", remedy="ask for 80 or fewer")
    bank.flags.writeable = False
    return bank


def _to_mel(hertz: float) -> float:
    return (
        hertz * 3.0 / 200.0 if hertz < 1000.0 else 15.0 + 27.0 * float(np.log(hertz / 1000.0) / np.log(6.4))
    )


def _to_hertz(mels: NDArray[np.float64]) -> NDArray[np.float64]:
    high = 1000.0 * np.exp(np.maximum(mels - 15.0, 0.0) * (np.log(6.4) / 27.0))
    return np.where(mels < 15.0, mels * 200.0 / 3.0, high)
