"""Every way in which a recording is unusable, by its reason code; random bytes must give one too."""

from __future__ import annotations

import io
import pickle
import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from pipeline.audio import Audio, Limits, decode
from pipeline.unusable import Reason, UnusableAudioError, show_name
from tests.pipeline.wavefiles import SENTINEL, chunk, container, fmt, pcm16, rf64, tone, wave

if TYPE_CHECKING:
    from pathlib import Path

BODY = np.rint(tone(0.1) * 32767).astype("<i2").tobytes()
GOOD = wave(BODY)


def flac(samples: np.ndarray | None = None, subtype: str = "PCM_16") -> bytes:
    buffer = io.BytesIO()
    noise = np.random.default_rng(1).uniform(-0.5, 0.5, 20_000)
    soundfile.write(buffer, noise if samples is None else samples, 16000, format="FLAC", subtype=subtype)
    return buffer.getvalue()


def patched(data: bytes, at: int, new: bytes) -> bytes:
    return data[:at] + new + data[at + len(new) :]


def floats(*values: float, width: int = 4) -> bytes:
    body = np.concatenate([tone(0.1), values]).astype(f"<f{width}").tobytes()
    return wave(body, codec=3, bits=8 * width)


def of_parts(*parts: bytes, **how: Any) -> bytes:
    return container(*parts, **how)


DATA = chunk(b"data", BODY)
FLAC = flac()
SIGNALLING_NAN = struct.pack("<I", 0x7F800001)

CASES: dict[str, tuple[bytes, Reason]] = {
    "an empty file": (b"", Reason.EMPTY_FILE),
    "text": (b"hello, this is no sound\n" * 100, Reason.NOT_AUDIO),
    "one byte": (b"R", Reason.NOT_AUDIO),
    "an MP3 file": (b"ID3\x04" + bytes(1000), Reason.NOT_AUDIO),
    "an Ogg file": (b"OggS" + bytes(1000), Reason.NOT_AUDIO),
    "zeros": (bytes(4096), Reason.NOT_AUDIO),
    "a RIFF file of another form": (of_parts(fmt(), DATA, form=b"AVI "), Reason.NOT_AUDIO),
    "only a magic": (b"RIFF", Reason.TRUNCATED),
    "half of a first header": (GOOD[:10], Reason.TRUNCATED),
    "no chunk at all": (GOOD[:12], Reason.TRUNCATED),
    "half of a format chunk": (GOOD[:30], Reason.TRUNCATED),
    "a format chunk and no more": (GOOD[:36], Reason.TRUNCATED),
    "half of a data chunk's header": (GOOD[:42], Reason.TRUNCATED),
    "a header without its samples": (GOOD[:44], Reason.TRUNCATED),
    "half of the samples": (GOOD[: len(GOOD) // 2], Reason.TRUNCATED),
    "all but the last sample": (GOOD[:-2], Reason.TRUNCATED),
    "all but the last byte": (GOOD[:-1], Reason.TRUNCATED),
    "a last chunk cut off": (of_parts(fmt(), DATA, chunk(b"LIST", bytes(40)))[:-20], Reason.TRUNCATED),
    "a 64-bit file cut in half": (rf64(fmt(), BODY)[:-1000], Reason.TRUNCATED),
    "a FLAC magic": (b"fLaC", Reason.TRUNCATED),
    "half of a FLAC header": (FLAC[:30], Reason.TRUNCATED),
    "half of a FLAC file": (FLAC[: len(FLAC) // 2], Reason.CORRUPT),
    "a FLAC file with a flipped bit": (
        patched(FLAC, len(FLAC) // 2, bytes([FLAC[len(FLAC) // 2] ^ 64])),
        Reason.CORRUPT,
    ),
    "a FLAC file with a hole": (patched(FLAC, 9000, bytes(4000)), Reason.CORRUPT),
    "a FLAC file that was never finished": (
        patched(FLAC, 21, bytes([FLAC[21] & 0xF0, 0, 0, 0, 0])),
        Reason.INCONSISTENT_HEADER,
    ),
    "a FLAC file that claims 2^36 frames": (
        patched(FLAC, 21, bytes([FLAC[21] | 0x0F]) + b"\xff" * 4),
        Reason.TOO_LONG,
    ),
    "no samples": (wave(b""), Reason.NO_FRAMES),
    "no samples in a 64-bit file": (rf64(fmt(), b""), Reason.NO_FRAMES),
    "no channels": (of_parts(fmt(channels=0, frame_bytes=2), DATA), Reason.INCONSISTENT_HEADER),
    "no rate": (of_parts(fmt(rate=0), DATA), Reason.INCONSISTENT_HEADER),
    "a rate beyond any converter": (of_parts(fmt(rate=4_000_000_000), DATA), Reason.INCONSISTENT_HEADER),
    "frames of no bytes": (of_parts(fmt(frame_bytes=0), DATA), Reason.INCONSISTENT_HEADER),
    "frames too short": (of_parts(fmt(channels=2, frame_bytes=2), DATA), Reason.INCONSISTENT_HEADER),
    "frames too long": (of_parts(fmt(frame_bytes=4), DATA), Reason.INCONSISTENT_HEADER),
    "another byte rate": (of_parts(fmt(byte_rate=12345), DATA), Reason.INCONSISTENT_HEADER),
    "the byte rate of another rate": (
        of_parts(fmt(rate=8000, byte_rate=32000), DATA),
        Reason.INCONSISTENT_HEADER,
    ),
    "a format chunk too short": (
        of_parts(chunk(b"fmt ", fmt()[8:20]), DATA),
        Reason.INCONSISTENT_HEADER,
    ),
    "no format chunk": (of_parts(DATA), Reason.INCONSISTENT_HEADER),
    "the format after the samples": (of_parts(DATA, fmt()), Reason.INCONSISTENT_HEADER),
    "half a frame too much": (of_parts(fmt(), chunk(b"data", BODY + b"\0")), Reason.INCONSISTENT_HEADER),
    "a container shorter than its samples": (of_parts(fmt(), DATA, size=100), Reason.INCONSISTENT_HEADER),
    "a container whose length was never filled in": (
        of_parts(fmt(), DATA, size=0),
        Reason.INCONSISTENT_HEADER,
    ),
    "a container written to a pipe": (of_parts(fmt(), DATA, size=SENTINEL), Reason.INCONSISTENT_HEADER),
    "samples written to a pipe": (wave(BODY, size=SENTINEL), Reason.INCONSISTENT_HEADER),
    "a 64-bit file without its lengths": (rf64(fmt(), BODY, ds64=b""), Reason.INCONSISTENT_HEADER),
    "64-bit lengths cut short": (
        rf64(fmt(), BODY, ds64=chunk(b"ds64", bytes(8))),
        Reason.INCONSISTENT_HEADER,
    ),
    "64-bit lengths of another file": (
        rf64(fmt(), BODY, ds64=chunk(b"ds64", struct.pack("<QQQI", 1 << 40, 1 << 39, 0, 0))),
        Reason.TRUNCATED,
    ),
    "more valid bits than bits": (
        of_parts(fmt(extensible=True, valid=24), DATA),
        Reason.INCONSISTENT_HEADER,
    ),
    "an extensible header without its extension": (
        of_parts(chunk(b"fmt ", fmt(extensible=True)[8:26]), DATA),
        Reason.INCONSISTENT_HEADER,
    ),
    "a sub-format of somebody else's": (
        of_parts(fmt(extensible=True, tail=bytes(range(12))), DATA),
        Reason.UNSUPPORTED_CODEC,
    ),
    "PCM of 72 bits": (of_parts(fmt(bits=72), chunk(b"data", bytes(90))), Reason.UNSUPPORTED_CODEC),
    "PCM of no bits": (of_parts(fmt(bits=0, frame_bytes=2), DATA), Reason.INCONSISTENT_HEADER),
    "floats of 16 bits": (of_parts(fmt(3, bits=16), DATA), Reason.UNSUPPORTED_CODEC),
    "µ-law of 16 bits": (of_parts(fmt(7, bits=16), DATA), Reason.UNSUPPORTED_CODEC),
    "a codec that nobody knows": (of_parts(fmt(0x7777), DATA), Reason.UNSUPPORTED_CODEC),
    "big-endian samples under a little-endian magic": (
        of_parts(fmt(order=">"), chunk(b"data", BODY, ">"), order=">"),
        Reason.TRUNCATED,
    ),
    "a NaN": (floats(float("nan")), Reason.NOT_A_NUMBER),
    "a NaN of 64 bits": (floats(float("nan"), width=8), Reason.NOT_A_NUMBER),
    "a signalling NaN": (wave(BODY + SIGNALLING_NAN, codec=3, bits=32), Reason.NOT_A_NUMBER),
    "an infinity": (floats(float("-inf")), Reason.NOT_A_NUMBER),
    "a float of 1e30": (floats(1e30), Reason.OUT_OF_RANGE),
    "a float of 1e300": (floats(1e300, width=8), Reason.OUT_OF_RANGE),
    "clipped 16-bit": (pcm16(np.clip(tone(level=3.0), -1, 1)), Reason.CLIPPED),
    "clipped floats": (wave(tone(level=1.5).astype("<f4").tobytes(), codec=3, bits=32), Reason.CLIPPED),
    "clipped 8-bit": (wave(bytes([0, 255] * 500), bits=8), Reason.CLIPPED),
    "clipped µ-law": (wave(bytes([0x00, 0x80] * 500), codec=7, bits=8), Reason.CLIPPED),
    "clipped FLAC": (flac(np.clip(tone(level=3.0), -1, 1)), Reason.CLIPPED),
}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_it_is_refused_for_its_reason(case: str) -> None:
    data, reason = CASES[case]
    with pytest.raises(UnusableAudioError) as caught:
        decode(data, name="a recording.wav")
    assert caught.value.reason == reason
    assert "'a recording.wav': " in str(caught.value)
    assert caught.value.remedy
    assert caught.value.exit_code == 2


def test_the_good_ones_beside_them_are_good() -> None:
    assert len(decode(GOOD).samples) == len(BODY) // 2
    assert len(decode(FLAC).samples) == 20_000
    assert len(decode(rf64(fmt(), BODY)).samples) == len(BODY) // 2


@pytest.mark.parametrize("end", range(0, 60, 7))
def test_no_shorter_file_is_taken_for_whole(end: int) -> None:
    with pytest.raises(UnusableAudioError):
        decode(GOOD[:end])


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (Limits(seconds=0.05), Reason.TOO_LONG),
        (Limits(samples=100), Reason.TOO_LONG),
        (Limits(file_bytes=100), Reason.TOO_LARGE),
    ],
)
@pytest.mark.parametrize("kind", ["wave", "law", "flac"])
def test_limits(limits: Limits, reason: Reason, kind: str) -> None:
    data = {"wave": GOOD, "law": wave(bytes(range(50, 100)) * 50, codec=7, bits=8), "flac": FLAC}[kind]
    with pytest.raises(UnusableAudioError) as caught:
        decode(data, limits=limits)
    assert caught.value.reason == reason


def test_more_clipping_can_be_allowed() -> None:
    data, _ = CASES["clipped 16-bit"]
    assert decode(data, limits=Limits(max_clipped=1.0)).clipped > 1000


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UnusableAudioError) as caught:
        decode(tmp_path / "gone.wav")
    assert caught.value.reason == Reason.UNREADABLE
    assert "gone.wav" in str(caught.value)


def test_a_folder_is_unreadable(tmp_path: Path) -> None:
    with pytest.raises(UnusableAudioError) as caught:
        decode(tmp_path)
    assert caught.value.reason == Reason.UNREADABLE


def test_a_long_file_is_not_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "long.wav"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(UnusableAudioError) as caught:
        decode(path, limits=Limits(file_bytes=1000))
    assert caught.value.reason == Reason.TOO_LARGE


def test_the_error_survives_a_process_boundary() -> None:
    error = UnusableAudioError(Reason.CORRUPT, "broken", name="x\ny.wav")
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.reason, again.remedy) == (
        UnusableAudioError,
        "'x\\ny.wav': broken",
        "corrupt",
        error.remedy,
    )


def test_every_reason_has_a_remedy() -> None:
    assert all(UnusableAudioError(reason, "found").remedy for reason in Reason)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("plain.wav", "'plain.wav'"),
        ("two\nlines", "'two\\nlines'"),
        ("\x1b[31mred", "'\\x1b[31mred'"),
        ("ночь 夜", "'ночь 夜'"),
        ("bad\udcff", "'bad\\xff'"),
        ("\u202egnp.wav", "'\\u202egnp.wav'"),
        ("n" * 1000, "'" + "n" * 200 + "…'"),
    ],
)
def test_a_name_is_shown_on_one_line(name: str, shown: str) -> None:
    assert show_name(name) == shown


def sound_or_reason(data: bytes) -> Audio | Reason:
    """What any bytes must give: finite samples, or a reason code; never another exception."""
    try:
        audio = decode(data, limits=Limits(file_bytes=1 << 20, samples=1 << 20))
    except UnusableAudioError as error:
        return Reason(error.reason)
    assert audio.samples.ndim == 2
    assert audio.samples.size
    assert np.isfinite(audio.samples).all()
    return audio


@given(
    st.binary(max_size=200), st.sampled_from([b"RIFF\x10\x00\x00\x00WAVE", b"RIFX", b"RF64", b"fLaC", b""])
)
def test_bytes_at_random(tail: bytes, head: bytes) -> None:
    sound_or_reason(head + tail)


@given(
    st.sampled_from([GOOD[:200], rf64(fmt(), BODY[:200]), FLAC[:3000], wave(BODY[:200], codec=7, bits=8)]),
    st.lists(st.tuples(st.integers(0, 120), st.integers(0, 255)), min_size=1, max_size=4),
)
def test_headers_with_bytes_changed_at_random(data: bytes, changes: list[tuple[int, int]]) -> None:
    changed = bytearray(data)
    for place, value in changes:
        changed[place] = value
    sound_or_reason(bytes(changed))


@given(st.integers(0, len(FLAC) - 1), st.integers(1, 255))
def test_flac_with_one_byte_changed(place: int, by: int) -> None:
    found = sound_or_reason(patched(FLAC, place, bytes([FLAC[place] ^ by])))
    assert isinstance(found, Reason) or np.array_equal(found.samples, decode(FLAC).samples)
