"""WAV and FLAC as arrays of what they store."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from provenance.adapters.formats import audio
from provenance.bootstrap import digest
from provenance.core.digests import array1
from provenance.errors import MalformedError

if TYPE_CHECKING:
    from pathlib import Path

soundfile = pytest.importorskip("soundfile")

MONO = (np.arange(-500, 500) * 60).astype("i2")
STEREO = np.stack([MONO, MONO[::-1]], axis=1)
WIDE = (np.arange(-500, 500) * 4_000_000).astype("i4")
FLOATS = np.linspace(-2, 2, 1000)


def chunk(name: bytes, data: bytes, length: int | None = None, order: str = "<") -> bytes:
    size = len(data) if length is None else length
    return name + struct.pack(f"{order}I", size) + data + b"\0" * (len(data) % 2)


def wav(*chunks: bytes, form: bytes = b"RIFF", order: str = "<") -> bytes:
    body = b"WAVE" + b"".join(chunks)
    return form + struct.pack(f"{order}I", len(body)) + body


def fmt(channels: int = 1, bits: int = 16, order: str = "<", tag: int = 1) -> bytes:
    align = channels * bits // 8
    return chunk(
        b"fmt ", struct.pack(f"{order}HHIIHH", tag, channels, 8000, 8000 * align, align, bits), order=order
    )


def found(path: Path, data: bytes) -> Any:
    path.write_bytes(data)
    return digest(path)


def reason(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    with pytest.raises(MalformedError) as caught:
        digest(path)
    assert str(path) in caught.value.message
    assert caught.value.remedy
    return caught.value.reason


@pytest.mark.parametrize(
    ("subtype", "data", "expected"),
    [
        ("PCM_16", MONO, MONO[:, None]),
        ("PCM_16", STEREO, STEREO),
        ("PCM_24", WIDE, (WIDE >> 8 << 8)[:, None]),
        ("PCM_32", WIDE, WIDE[:, None]),
        ("PCM_U8", MONO, (MONO >> 8 << 8)[:, None]),
        ("FLOAT", FLOATS, FLOATS.astype("f4")[:, None]),
        ("DOUBLE", FLOATS, FLOATS[:, None]),
    ],
)
@pytest.mark.parametrize("form", ["WAV", "RF64"])
def test_wav_of_every_width(subtype: str, data: Any, expected: Any, form: str, tmp_path: Path) -> None:
    path = tmp_path / "x.wav"
    soundfile.write(path, data, 8000, format=form, subtype=subtype)
    assert digest(path) == array1(expected)
    assert digest(path).shape == expected.shape


@pytest.mark.parametrize("subtype", ["ULAW", "ALAW"])
def test_the_laws_decode_to_16_bits(subtype: str, tmp_path: Path) -> None:
    path = tmp_path / "x.wav"
    soundfile.write(path, MONO, 8000, subtype=subtype)
    assert digest(path).type == "i16"
    assert digest(path) == array1(soundfile.read(path, dtype="int16", always_2d=True)[0])


@pytest.mark.parametrize(
    ("subtype", "data", "expected"),
    [
        ("PCM_16", STEREO, STEREO),
        ("PCM_24", WIDE, (WIDE >> 8 << 8)[:, None]),
        ("PCM_S8", MONO, (MONO >> 8 << 8)[:, None]),
    ],
)
def test_flac_of_every_width(subtype: str, data: Any, expected: Any, tmp_path: Path) -> None:
    path = tmp_path / "x.flac"
    soundfile.write(path, data, 8000, subtype=subtype)
    assert digest(path) == array1(expected)


def test_one_recording_has_one_digest_in_either_format(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "x.wav", STEREO, 8000)
    soundfile.write(tmp_path / "x.flac", STEREO, 16_000)
    assert digest(tmp_path / "x.wav") == digest(tmp_path / "x.flac") == array1(STEREO)


def test_chunks_around_the_samples_do_not_count(tmp_path: Path) -> None:
    path = tmp_path / "x.wav"
    samples = chunk(b"data", MONO.tobytes())
    expected = array1(MONO[:, None])
    assert found(path, wav(fmt(), samples)) == expected
    assert (
        found(path, wav(chunk(b"LIST", b"odd"), fmt(), chunk(b"junk", b""), samples, chunk(b"LIST", b"x")))
        == expected
    )
    big = wav(
        fmt(order=">"), chunk(b"data", MONO.astype(">i2").tobytes(), order=">"), form=b"RIFX", order=">"
    )
    assert found(path, big) == expected


def test_no_frames_at_all(tmp_path: Path) -> None:
    assert found(tmp_path / "x.wav", wav(fmt(2), chunk(b"data", b""))).shape == (0, 2)


DS64 = struct.pack("<QQQI", 0, 2000, 1000, 0)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (wav(fmt(), chunk(b"data", MONO.tobytes()[:-2], length=2000)), "truncated"),
        (wav(fmt(), chunk(b"data", MONO.tobytes(), length=0xFFFFFFFF)), "truncated"),
        (wav(fmt(), chunk(b"data", MONO.tobytes(), length=2001)), "truncated"),
        (wav(fmt(), chunk(b"data", MONO.tobytes()))[:-1], "truncated"),
        (
            wav(chunk(b"ds64", DS64), fmt(), chunk(b"data", b"\0" * 1998, length=0xFFFFFFFF), form=b"RF64"),
            "truncated",
        ),
        (wav(fmt(), chunk(b"data", MONO.tobytes()[:-1], length=1999)), "audio-header"),
        (wav(fmt(2), chunk(b"data", MONO.tobytes()[:-2])), "audio-header"),
        (wav(fmt()), "audio-header"),
        (wav(), "audio-header"),
        (b"RIFF\x04\0\0\0WAVE", "audio-header"),
        (wav(fmt(), b"dat"), "audio-header"),
        (wav(*[chunk(b"junk", b"")] * 10_001, fmt(), chunk(b"data", b"")), "audio-header"),
        (wav(chunk(b"junk", b"", length=0xFFFFFFF0), fmt(), chunk(b"data", b"")), "audio-header"),
        (wav(chunk(b"data", MONO.tobytes())), "damaged"),
        (wav(fmt(channels=0), chunk(b"data", MONO.tobytes())), "damaged"),
        (wav(fmt(bits=64), chunk(b"data", MONO.tobytes())), "damaged"),
        (wav(chunk(b"fmt ", b"\1\0"), chunk(b"data", MONO.tobytes())), "damaged"),
        (b"RF64\xff\xff\xff\xffWAVEds64\x1c\0\0\0", "damaged"),
    ],
)
def test_bad_wav_is_told(data: bytes, expected: str, tmp_path: Path) -> None:
    assert reason(tmp_path / "x.wav", data) == expected


def test_a_whole_rf64_is_read(tmp_path: Path) -> None:
    data = wav(chunk(b"ds64", DS64), fmt(), chunk(b"data", MONO.tobytes(), length=0xFFFFFFFF), form=b"RF64")
    assert found(tmp_path / "x", data) == array1(MONO[:, None])


def test_lossy_codings_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.wav"
    for subtype in ("IMA_ADPCM", "GSM610"):
        soundfile.write(path, MONO, 8000, subtype=subtype)
        assert reason(path, path.read_bytes()) == "audio-coding"


@pytest.mark.parametrize("place", [0.02, 0.3, 0.5, 0.9, 0.999])
def test_damaged_flac_is_told(place: float, tmp_path: Path) -> None:
    path = tmp_path / "x.flac"
    noise = np.random.default_rng(1).integers(-9000, 9000, 30_000).astype("i2")
    soundfile.write(path, noise, 8000)
    data = bytearray(path.read_bytes())
    data[int(len(data) * place)] ^= 0x5A
    assert reason(path, bytes(data)) == "damaged"


@pytest.mark.parametrize("keep", [4, 20, 60, 0.5, 0.99])
def test_truncated_flac_is_told(keep: float, tmp_path: Path) -> None:
    path = tmp_path / "x.flac"
    soundfile.write(path, MONO, 8000)
    data = path.read_bytes()
    assert reason(path, data[: int(keep if keep > 1 else keep * len(data))]) == "damaged"


def test_every_width_of_wav_is_known() -> None:
    assert set(audio._WIDTHS) <= set(audio._DTYPES)
    assert set(audio._DTYPES) - set(audio._WIDTHS) == {"PCM_S8"}  # FLAC's alone
