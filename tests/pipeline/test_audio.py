"""Every kind of recording that is accepted, sample by sample, against plain arithmetic or another library."""

from __future__ import annotations

import io
import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import scipy.io.wavfile
import soundfile

from pipeline.audio import Limits, decode
from tests.pipeline.wavefiles import chunk, container, fmt, integers, pcm16, rf64, tone, wave

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

RATES = (1, 4000, 8000, 11025, 16000, 22050, 44100, 48000, 96000, 192000, 384000, 10_000_000)
FRAMES = 50


def product(*choices: Iterable[Any]) -> list[tuple[Any, ...]]:
    return list(itertools.product(*choices))


def whole_numbers(bits: int, channels: int) -> np.ndarray:
    """Values of the whole range, the extremes among them, few enough at full scale to be no clipping."""
    rng = np.random.default_rng(bits * 100 + channels)
    top = (1 << (bits - 1)) - 1
    values = np.array(
        [[int(top * x) for x in row] for row in rng.uniform(-0.9, 0.9, (FRAMES, channels))], dtype=object
    )
    values[0, 0], values[1, 0], values[2, 0], values[3, 0] = 0, 1, -1, -top // 2
    return values


def expected(values: np.ndarray, bits: int) -> np.ndarray:
    return np.array([[float(value) / 2.0 ** (bits - 1) for value in row] for row in values])


@pytest.mark.parametrize(("width", "order", "channels"), product(range(1, 9), "<>", (1, 2, 3, 6)), ids=str)
def test_integers_of_every_width(width: int, order: str, channels: int) -> None:
    values = whole_numbers(8 * width, channels)
    audio = decode(wave(integers(values, width, order), order=order, bits=8 * width, channels=channels))
    assert audio.samples.dtype == np.float64
    assert np.array_equal(audio.samples, expected(values, 8 * width))
    assert (audio.rate, audio.subtype, audio.clipped) == (16000, f"PCM_{8 * width}", 0)
    assert audio.container == ("RIFX" if order == ">" else "RIFF")


@pytest.mark.parametrize(("width", "order"), product((4, 8), "<>"))
@pytest.mark.parametrize("extensible", [False, True])
def test_floats(width: int, order: str, extensible: bool) -> None:
    values = np.random.default_rng(width).uniform(-1.5, 1.5, (200, 2)).astype(f"{order}f{width}")
    values[np.abs(values) >= 1.0] *= 0.1
    values[0, 0] = 1.25  # floats may go beyond full scale
    body = values.tobytes()
    audio = decode(wave(body, order=order, codec=3, bits=8 * width, channels=2, extensible=extensible))
    assert np.array_equal(audio.samples, values.astype(np.float64))
    assert (audio.subtype, audio.clipped) == (f"FLOAT_{8 * width}", 1)


@pytest.mark.parametrize(("width", "order"), product((1, 2, 3, 4, 8), "<>"))
def test_extensible_headers(width: int, order: str) -> None:
    values = whole_numbers(8 * width, 2)
    body = integers(values, width, order)
    audio = decode(wave(body, order=order, bits=8 * width, channels=2, extensible=True))
    assert np.array_equal(audio.samples, expected(values, 8 * width))


def test_fewer_valid_bits_stand_high_in_their_container() -> None:
    values = whole_numbers(20, 1)
    audio = decode(wave(integers(values * 16, 3), bits=24, extensible=True, valid=20))
    assert np.array_equal(audio.samples, expected(values, 20))
    assert audio.subtype == "PCM_20"


@pytest.mark.parametrize("bits", [9, 12, 20, 33, 63])
def test_widths_that_are_no_whole_bytes(bits: int) -> None:
    width = -(-bits // 8)
    values = whole_numbers(bits, 1)
    audio = decode(wave(integers(values * (1 << (8 * width - bits)), width), bits=bits))
    assert np.array_equal(audio.samples, expected(values, bits))


@pytest.mark.parametrize("magic", [b"RF64", b"BW64"])
@pytest.mark.parametrize("width", [2, 3, 8])
def test_64_bit_containers(magic: bytes, width: int) -> None:
    values = whole_numbers(8 * width, 2)
    audio = decode(rf64(fmt(bits=8 * width, channels=2), integers(values, width), magic=magic))
    assert np.array_equal(audio.samples, expected(values, 8 * width))
    assert audio.container == magic.decode()


@pytest.mark.parametrize(("codec", "subtype", "top"), [(7, "ULAW", 32124), (6, "ALAW", 32256)])
@pytest.mark.parametrize(("order", "extensible"), [("<", False), ("<", True), (">", False)])
def test_the_laws_of_g711(codec: int, subtype: str, top: int, order: str, extensible: bool) -> None:
    body = bytes(range(256))
    how = {"codec": codec, "bits": 8, "order": order, "extensible": extensible}
    audio = decode(wave(body, **how), limits=Limits(max_clipped=0.05))
    values = audio.samples[:, 0] * 32768
    assert np.array_equal(values, np.rint(values))
    assert (values.max(), values.min()) == (top, -top)
    assert (audio.subtype, audio.clipped) == (subtype, 2)
    # G.711: the sign is the highest bit, set for positive values in both laws.
    assert (values[128:] >= 0).all()
    assert (values[:128] <= 0).all()


def test_the_laws_of_g711_value_by_value() -> None:
    audio = decode(wave(bytes(range(256)), codec=7, bits=8), limits=Limits(max_clipped=0.05))

    def slow(byte: int) -> int:
        byte = ~byte & 0xFF
        magnitude = ((((byte & 15) << 3) + 0x84) << ((byte >> 4) & 7)) - 0x84
        return -magnitude if byte & 0x80 else magnitude

    assert list(audio.samples[:, 0] * 32768) == [slow(byte) for byte in range(256)]


@pytest.mark.parametrize("subtype", ["PCM_S8", "PCM_16", "PCM_24"])
@pytest.mark.parametrize("channels", [1, 2, 8])
def test_flac(subtype: str, channels: int) -> None:
    samples = np.random.default_rng(channels).uniform(-0.5, 0.5, (1000, channels))
    buffer = io.BytesIO()
    soundfile.write(buffer, samples, 22050, format="FLAC", subtype=subtype)
    audio = decode(buffer.getvalue())
    step = {"PCM_S8": 2**-7, "PCM_16": 2**-15, "PCM_24": 2**-23}[subtype]
    assert audio.samples.shape == samples.shape
    assert np.max(np.abs(audio.samples - samples)) <= step
    assert (audio.container, audio.rate, audio.subtype) == ("FLAC", 22050, subtype)


@pytest.mark.parametrize("rate", RATES)
def test_any_rate(rate: int) -> None:
    audio = decode(wave(integers(whole_numbers(16, 1), 2), rate=rate))
    assert (audio.rate, audio.seconds) == (rate, FRAMES / rate)


@pytest.mark.parametrize("channels", [1, 255, 65535])
def test_any_number_of_channels(channels: int) -> None:
    values = (np.arange(2 * channels) % 200 + 20).astype(np.uint8)
    audio = decode(wave(values.tobytes(), bits=8, channels=channels))
    assert audio.samples.shape == (2, channels)


@pytest.mark.parametrize(
    ("subtype", "endian"),
    product(("PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE", "ULAW", "ALAW"), ("LITTLE", "BIG")),
)
def test_the_same_as_libsndfile(subtype: str, endian: str) -> None:
    samples = np.random.default_rng(7).uniform(-0.9, 0.9, (500, 2))
    buffer = io.BytesIO()
    soundfile.write(buffer, samples, 44100, format="WAV", subtype=subtype, endian=endian)
    theirs, _ = soundfile.read(io.BytesIO(buffer.getvalue()), always_2d=True)
    assert np.array_equal(decode(buffer.getvalue()).samples, theirs)


@pytest.mark.parametrize("dtype", ["u1", "<i2", "<i4", "<i8", "<f4", "<f8"])
def test_what_scipy_writes(dtype: str) -> None:
    scale = 100 if dtype == "u1" else 1.0 if "f" in dtype else 2.0 ** (8 * int(dtype[-1]) - 2)
    values = (tone(0.1) * scale + (128 if dtype == "u1" else 0)).astype(dtype)
    buffer = io.BytesIO()
    scipy.io.wavfile.write(buffer, 16000, values)
    assert decode(buffer.getvalue()).samples.shape == (1600, 1)


@pytest.mark.parametrize("subtype", ["IMA_ADPCM", "MS_ADPCM", "GSM610"])
def test_other_codecs_of_wav(subtype: str) -> None:
    samples = tone(0.5, 8000)
    buffer = io.BytesIO()
    soundfile.write(buffer, samples, 8000, format="WAV", subtype=subtype)
    audio = decode(buffer.getvalue())
    assert len(audio.samples) >= len(samples)
    assert np.max(np.abs(audio.samples[500:3500, 0] - samples[500:3500])) < 0.1


def test_chunks_before_and_behind_and_tags_after_the_end_do_no_harm() -> None:
    body = np.rint(tone() * 32767).astype("<i2").tobytes()
    plain = decode(wave(body)).samples
    data = container(
        chunk(b"JUNK", b"odd"),
        fmt(),
        chunk(b"fact", bytes(4)),
        chunk(b"data", body),
        chunk(b"LIST", b"INFOabcd"),
    )
    assert np.array_equal(decode(data).samples, plain)
    assert np.array_equal(decode(data + b"TAG" + bytes(125)).samples, plain)


def test_a_forgotten_pad_byte_does_no_harm() -> None:
    data = wave(bytes([128, 140, 120] * 33), bits=8)
    assert len(decode(data[:-1]).samples) == 99


def test_a_path_is_as_good_as_bytes(tmp_path: Path) -> None:
    data = pcm16(tone())
    path = tmp_path / "a b'\n\"ж.wav"
    path.write_bytes(data)
    assert np.array_equal(decode(path).samples, decode(data).samples)


def test_a_few_samples_at_full_scale_are_counted() -> None:
    samples = np.rint(tone() * 32767).astype("<i2")
    samples[[10, 20, 30]] = 32767, -32768, -32767
    assert decode(wave(samples.tobytes())).clipped == 3
