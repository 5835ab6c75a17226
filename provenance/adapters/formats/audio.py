"""Recordings: WAV and FLAC, as arrays of the samples that the file stores.

==================================  =============  ========================================
stored                              array          value
==================================  =============  ========================================
16-bit integers, µ-law, A-law       ``i16``        as stored, or as the law says
8-bit integers                      ``i16``        times 256, as libsndfile widens them
24-bit integers                     ``i32``        times 256, as libsndfile widens them
32-bit integers                     ``i32``        as stored
32-bit, 64-bit floats               ``f32, f64``   as stored, not clipped
==================================  =============  ========================================

The shape is (frames, channels), also of one channel. The sample rate is no sample and does not count: it is
in the file's bytes. Codings that lose something (ADPCM, GSM, MP3) are refused, since decoders differ.

libsndfile takes a WAV file that is cut short for a shorter recording, so its chunks are looked at first.
"""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING, Any, BinaryIO

from provenance.adapters.formats.files import decoding, open_regular, shown
from provenance.errors import ConfigError, MalformedError

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["read_audio"]

_DTYPES = {
    "PCM_S8": "int16",
    "PCM_U8": "int16",
    "PCM_16": "int16",
    "PCM_24": "int32",
    "PCM_32": "int32",
    "FLOAT": "float32",
    "DOUBLE": "float64",
    "ULAW": "int16",
    "ALAW": "int16",
}
_WIDTHS = {"PCM_U8": 1, "PCM_16": 2, "PCM_24": 3, "PCM_32": 4, "FLOAT": 4, "DOUBLE": 8, "ULAW": 1, "ALAW": 1}
"""Bytes of a sample in a WAV file."""

_MAX_CHUNKS = 10_000


def read_audio(path: Path | str) -> NDArray[Any]:
    """The samples of a WAV or FLAC file, shape (frames, channels).

    Raises:
        ConfigError: soundfile is not installed.
        MalformedError: ``audio-coding``, ``truncated``, ``audio-header``, ``damaged``.
    """
    try:
        import soundfile
    except (ImportError, OSError) as error:  # OSError: the package is there, libsndfile is not
        raise ConfigError(
            f"{shown(path)}: reading audio needs the package soundfile",
            reason="extra-missing",
            remedy="Run: pip install 'provenance-ledger[audio]'",
        ) from error
    with open_regular(path) as file, decoding(path, "audio"):
        stored = _wav_bytes(path, file)
        file.seek(0)
        with soundfile.SoundFile(file) as sound:
            dtype = _DTYPES.get(sound.subtype)
            if dtype is None:
                raise MalformedError(
                    f"{shown(path)}: {sound.subtype_info} loses something, and decoders differ",
                    reason="audio-coding",
                    remedy="Digest its bytes instead: --kind sha256",
                )
            samples: NDArray[Any] = sound.read(dtype=dtype, always_2d=True)
            if stored is not None:
                _check_frames(path, stored, samples.size * _WIDTHS[sound.subtype])
            return samples


def _check_frames(path: Path | str, stored: int, decoded: int) -> None:
    if stored != decoded:
        raise MalformedError(
            f"{shown(path)}: {stored} bytes of samples, of which {decoded} make whole frames",
            reason="audio-header",
            remedy="Write the file again with a header that is right.",
        )


def _wav_bytes(path: Path | str, file: BinaryIO) -> int | None:
    """The length of a WAV file's samples, all of which are there; None if it is no WAV file."""
    form = file.read(12)
    if form[:4] not in {b"RIFF", b"RIFX", b"RF64", b"BW64"}:
        return None
    size = os.fstat(file.fileno()).st_size
    order = ">" if form[:4] == b"RIFX" else "<"
    long_size: int | None = None
    for _ in range(_MAX_CHUNKS):
        head = file.read(8)
        if len(head) < 8:
            break
        name, length = head[:4], struct.unpack(f"{order}I", head[4:])[0]
        if name == b"ds64":  # EBU Tech 3306: lengths beyond 32 bits
            long_size = struct.unpack("<8xQ", file.read(16))[0]
            length -= 16
        elif name == b"data":
            return _checked(
                path,
                long_size if length == 0xFFFFFFFF and long_size is not None else length,
                size - file.tell(),
            )
        file.seek(length + length % 2, os.SEEK_CUR)
    raise MalformedError(
        f"{shown(path)}: the WAV file has no samples: no data chunk",
        reason="audio-header",
        remedy="Get the file again.",
    )


def _checked(path: Path | str, declared: int, found: int) -> int:
    if declared > found:
        raise MalformedError(
            f"{shown(path)}: {found} bytes of samples, expected {declared}",
            reason="truncated",
            remedy="Get the file again, or write it with a header that is right.",
        )
    return declared
