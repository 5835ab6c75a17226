"""The transforms of the voice pipeline: one recording in, one out; then all recordings of a speaker together.

A recording that cannot be used is rejected with its reason and stays on record.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

import numpy as np

import provenance
from pipeline.audio import Limits, decode
from pipeline.transforms import RATE, mel, mix, remove_silence, resample
from pipeline.unusable import UnusableAudioError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from numpy.typing import NDArray

__all__ = ["clean", "features", "gather", "recordings"]

_TOKEN = re.compile(r"[0-9a-f]{64}")


def clean(
    file: provenance.File,
    *,
    threshold_db: float = -40.0,
    floor_db: float = -60.0,
    hangover_ms: int = 100,
    max_clipped: float = 0.01,
) -> NDArray[np.float32]:
    """Decode, mix to one channel, resample to 16 kHz and remove silence: float32 samples, shape ``[n]``.

    Args:
        file: the recording, ``data`` its bytes.
        threshold_db: see `pipeline.transforms.remove_silence`.
        floor_db: the same.
        hangover_ms: the same.
        max_clipped: share of the samples that may stand at full scale.

    Raises:
        provenance.Rejected: it cannot be used.
    """
    try:
        audio = decode(file.data, limits=Limits(max_clipped=max_clipped))
        samples = resample(mix(audio.samples), audio.rate)
        return remove_silence(samples, threshold_db=threshold_db, floor_db=floor_db, hangover_ms=hangover_ms)
    except UnusableAudioError as unusable:
        raise provenance.Rejected(str(unusable.reason), unusable.detail) from None


def features(file: provenance.File, *, n_mels: int = 80) -> NDArray[np.float32]:
    """Log-mel features of cleaned samples: float32, shape ``[frames, n_mels]``."""
    return mel(file.data, rate=RATE, n_mels=n_mels)


def gather(files: Sequence[provenance.File]) -> dict[str, NDArray[Any]]:
    """All recordings of one speaker, end to end.

    Returns:
        ``features``: float32 ``[frames, n_mels]``; ``offsets``: int64 ``[n + 1]``, where each recording
        begins and the last one ends; ``recordings``: uint8 ``[n, 32]``, the token of each.
    """
    lengths = [len(file.data) for file in files]
    return {
        "features": np.concatenate([file.data for file in files]),
        "offsets": np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        "recordings": np.frombuffer(b"".join(_token(file.name) for file in files), np.uint8).reshape(-1, 32),
    }


def _token(name: str) -> bytes:
    """A recording's name in 32 bytes: its token, or the SHA-256 of a name that is no secret."""
    return bytes.fromhex(name) if _TOKEN.fullmatch(name) else hashlib.sha256(name.encode()).digest()


def recordings(parts: Mapping[str, Any], speaker: str) -> Iterator[tuple[NDArray[np.float32], str, str]]:
    """What `gather` made as a model takes it: (features ``[frames, n_mels]``, speaker, recording id)."""
    values, offsets, names = (np.asarray(parts[part]) for part in ("features", "offsets", "recordings"))
    for start, end, name in zip(offsets[:-1], offsets[1:], names, strict=True):
        yield values[start:end], speaker, name.tobytes().hex()
