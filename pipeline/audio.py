"""Recordings in, samples out: WAV in all its forms and FLAC, strictly.

Linear PCM and floats are not decoded but viewed, so this module does it itself, for every width from 8 to 64
bits and both byte orders; libsndfile does the coded ones (µ-law, A-law, ADPCM, FLAC). Integers become ``value
/ 2**(bits - 1)``, exactly up to 53 bits.

What makes a recording unusable is a closed list (`pipeline.unusable.Reason`). Two kinds of damage leave it
usable: a few samples at full scale are only counted, and bytes behind the container are ignored.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import soundfile

from pipeline import riff
from pipeline.unusable import Reason, UnusableAudioError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["SUFFIXES", "Audio", "Limits", "decode"]

SUFFIXES = frozenset({".wav", ".wave", ".rf64", ".bw64", ".flac"})
"""The suffixes of recordings, in lower case."""

_BLOCK = 1 << 16
# A float file may go beyond ±1; this far beyond, it holds something else than sound, and its squares would
# overflow in time.
_RANGE = 32768.0
# The loudest value of each law, out of 32768 (ITU-T G.711, tables 1 and 2).
_LOUDEST = {riff.MULAW: 32124 / 32768, riff.ALAW: 32256 / 32768}
_NAMES = {riff.MULAW: "ULAW", riff.ALAW: "ALAW"}


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one recording may be.

    Attributes:
        file_bytes: length of the file.
        seconds: duration.
        samples: frames times channels; each takes 8 bytes once decoded.
        max_clipped: share of the samples, 0 to 1, that may stand at full scale.
    """

    file_bytes: int = 1 << 30
    seconds: float = 3600.0
    samples: int = 1 << 28
    max_clipped: float = 0.01


@dataclass(frozen=True, slots=True)
class Audio:
    """A decoded recording.

    Attributes:
        samples: float64, shape ``[frames, channels]``, -1 to 1 (floats may go beyond).
        rate: frames per second.
        container: ``RIFF``, ``RIFX``, ``RF64``, ``BW64`` or ``FLAC``.
        subtype: the coding of a sample: ``PCM_16``, ``FLOAT_32``, ``ULAW`` …
        clipped: how many samples stand at full scale.
    """

    samples: NDArray[np.float64]
    rate: int
    container: str
    subtype: str
    clipped: int

    @property
    def seconds(self) -> float:
        """Duration."""
        return len(self.samples) / self.rate


def decode(source: bytes | Path, *, name: str = "", limits: Limits | None = None) -> Audio:
    """Decode one whole recording.

    Args:
        source: the file's bytes, or its path.
        name: what messages call it; a path's own name if absent.
        limits: how much is accepted; `Limits` by default.

    Raises:
        UnusableAudioError: with one of the reason codes; never anything else for any bytes.
    """
    limits = limits or Limits()
    name = name or (source.name if isinstance(source, Path) else "")
    try:
        data = source if isinstance(source, bytes) else _read(source, limits)
        audio = _decode(data, limits)
        _check_samples(audio, limits)
    except UnusableAudioError as unusable:
        raise unusable.named(name) from None
    return audio


def _read(path: Path, limits: Limits) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(limits.file_bytes + 1)
    except OSError as error:
        raise UnusableAudioError(Reason.UNREADABLE, f"cannot be read: {error.strerror}") from error


def _decode(data: bytes, limits: Limits) -> Audio:
    if not data:
        raise UnusableAudioError(Reason.EMPTY_FILE, "the file is empty")
    if len(data) > limits.file_bytes:
        raise UnusableAudioError(
            Reason.TOO_LARGE, f"the file is longer than the limit of {limits.file_bytes} bytes"
        )
    if riff.is_wave(data):
        return _decode_wave(data, limits)
    if data[:4] == b"fLaC":
        _check_total(data)
        return _decode_coded(data, "FLAC", limits)
    raise UnusableAudioError(Reason.NOT_AUDIO, f"neither WAV nor FLAC: the file begins with {data[:4]!r}")


def _decode_wave(data: bytes, limits: Limits) -> Audio:
    header = riff.parse_header(data)
    if not header.size:
        raise UnusableAudioError(Reason.NO_FRAMES, "a header without any samples")
    if header.codec not in (riff.PCM, riff.FLOAT):
        return _decode_coded(data, header.container, limits, header)
    frames = header.size // header.frame_bytes
    _check_size(frames, header.channels, header.rate, limits)
    raw = np.frombuffer(data, np.uint8, header.size, header.start)
    if header.codec == riff.FLOAT:
        with np.errstate(invalid="ignore"):  # a signalling NaN; it is counted below
            samples = raw.view(f"{header.order}f{header.width}").astype(np.float64)
        full_scale, subtype = 1.0, f"FLOAT_{header.bits}"
    else:
        samples = _integers(raw, header.width, header.order)
        full_scale, subtype = 1.0 - 2.0 ** (1 - header.bits), f"PCM_{header.bits}"
    samples = samples.reshape(frames, header.channels)
    return Audio(samples, header.rate, header.container, subtype, _count_clipped(samples, full_scale))


def _integers(raw: NDArray[np.uint8], width: int, order: str) -> NDArray[np.float64]:
    """Integers of any width, as fractions of full scale.

    8-bit samples are unsigned (offset 128), all wider ones two's complement. Odd widths are moved to the
    high end of 64 bits, so that one division serves them all.
    """
    if width == 1:
        return (raw.astype(np.float64) - 128.0) / 128.0
    if width in (2, 4, 8):
        return raw.view(f"{order}i{width}").astype(np.float64) / 2.0 ** (8 * width - 1)
    wide = np.zeros((len(raw) // width, 8), np.uint8)
    if order == ">":
        wide[:, :width] = raw.reshape(-1, width)
    else:
        wide[:, 8 - width :] = raw.reshape(-1, width)
    return wide.view(f"{order}i8")[:, 0].astype(np.float64) / 2.0**63


def _decode_coded(
    data: bytes, container: str, limits: Limits, header: riff.WaveHeader | None = None
) -> Audio:
    """What libsndfile decodes.

    It is asked block by block: the frame count of a header is a claim, and memory is not given to claims.
    """
    try:
        with soundfile.SoundFile(io.BytesIO(data)) as file:
            if header and (file.channels, file.samplerate) != (header.channels, header.rate):
                raise UnusableAudioError(
                    Reason.INCONSISTENT_HEADER, "the decoder reads the header differently"
                )
            claimed = int(file.frames)
            _check_size(claimed, file.channels, file.samplerate, limits)
            samples = _read_blocks(file, limits)
            rate, subtype = int(file.samplerate), str(file.subtype)
    except soundfile.LibsndfileError as error:
        raise UnusableAudioError(_reason(data, container), f"libsndfile: {error}") from error
    if len(samples) < claimed:
        raise UnusableAudioError(
            Reason.TRUNCATED, f"the header says {claimed} frames, the file holds {len(samples)}"
        )
    codec = header.codec if header else 0
    clipped = _count_clipped(samples, _LOUDEST.get(codec, 1.0 - 2.0 ** (1 - _coded_bits(subtype))))
    return Audio(samples, rate, container, _NAMES.get(codec, subtype), clipped)


def _check_total(data: bytes) -> None:
    """A FLAC file must say how long it is: without that nobody can tell whether its end is missing.

    The total is the low 36 bits of bytes 21 to 25, and 0 for unknown (RFC 9639, section 8.2).
    """
    if len(data) >= 26 and not int.from_bytes(data[21:26], "big") & 0xF_FFFF_FFFF:
        raise UnusableAudioError(
            Reason.INCONSISTENT_HEADER,
            "its length was never filled in: it was stopped early or written to a pipe",
        )


def _reason(data: bytes, container: str) -> Reason:
    if container != "FLAC":
        return Reason.UNSUPPORTED_CODEC
    return Reason.TRUNCATED if len(data) < 42 else Reason.CORRUPT


def _read_blocks(file: soundfile.SoundFile, limits: Limits) -> NDArray[np.float64]:
    blocks: list[NDArray[np.float64]] = []
    frames = 0
    while len(block := file.read(_BLOCK, dtype="float64", always_2d=True)):
        blocks.append(block)
        frames += len(block)
        _check_size(frames, file.channels, file.samplerate, limits)
    return np.concatenate(blocks) if blocks else np.zeros((0, file.channels))


def _coded_bits(subtype: str) -> int:
    return {"PCM_S8": 8, "PCM_24": 24}.get(subtype, 16)


def _check_size(frames: int, channels: int, rate: int, limits: Limits) -> None:
    if frames > limits.seconds * rate:
        raise UnusableAudioError(
            Reason.TOO_LONG, f"{frames / rate:.0f} s, the limit is {limits.seconds:.0f} s"
        )
    if frames * channels > limits.samples:
        raise UnusableAudioError(
            Reason.TOO_LONG, f"{frames * channels} samples, the limit is {limits.samples}"
        )


def _count_clipped(samples: NDArray[np.float64], full_scale: float) -> int:
    return int(np.count_nonzero(np.abs(samples) >= full_scale))


def _check_samples(audio: Audio, limits: Limits) -> None:
    samples = audio.samples
    if not samples.size:
        raise UnusableAudioError(Reason.NO_FRAMES, "a header without any samples")
    if bad := samples.size - int(np.count_nonzero(np.isfinite(samples))):
        raise UnusableAudioError(Reason.NOT_A_NUMBER, f"{bad} of {samples.size} samples are NaN or infinite")
    if (peak := float(np.max(np.abs(samples)))) > _RANGE:
        raise UnusableAudioError(Reason.OUT_OF_RANGE, f"a sample of {peak:.3g}, where full scale is 1")
    if audio.clipped > limits.max_clipped * samples.size:
        share = 100 * audio.clipped / samples.size
        raise UnusableAudioError(
            Reason.CLIPPED,
            f"{share:.2g} % of the samples stand at full scale, the limit is {100 * limits.max_clipped:g} %",
        )
