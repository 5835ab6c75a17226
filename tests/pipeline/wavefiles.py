"""WAV files written byte by byte, right ones and wrong ones, by no library that is under test."""

from __future__ import annotations

import struct

import numpy as np

GUID_TAIL = {"<": bytes.fromhex("00001000800000aa00389b71"), ">": bytes.fromhex("00000010800000aa00389b71")}
SENTINEL = 0xFFFFFFFF


def chunk(name: bytes, body: bytes, order: str = "<", size: int | None = None) -> bytes:
    return (
        name + struct.pack(order + "I", len(body) if size is None else size) + body + b"\0" * (len(body) % 2)
    )


def fmt(
    codec: int = 1,
    channels: int = 1,
    rate: int = 16000,
    bits: int = 16,
    *,
    order: str = "<",
    frame_bytes: int | None = None,
    byte_rate: int | None = None,
    extensible: bool = False,
    valid: int | None = None,
    tail: bytes | None = None,
) -> bytes:
    frame_bytes = channels * -(-bits // 8) if frame_bytes is None else frame_bytes
    byte_rate = rate * frame_bytes % (1 << 32) if byte_rate is None else byte_rate
    tag = 0xFFFE if extensible else codec
    body = struct.pack(order + "HHIIHH", tag, channels, rate, byte_rate, frame_bytes, bits)
    if extensible:
        body += struct.pack(order + "HHII", 22, bits if valid is None else valid, 0, codec)
        body += GUID_TAIL[order] if tail is None else tail
    return chunk(b"fmt ", body, order)


def container(
    *chunks: bytes, magic: bytes = b"RIFF", form: bytes = b"WAVE", size: int | None = None, order: str = "<"
) -> bytes:
    body = form + b"".join(chunks)
    return magic + struct.pack(order + "I", len(body) if size is None else size) + body


def rf64(format_chunk: bytes, body: bytes, *, magic: bytes = b"RF64", ds64: bytes | None = None) -> bytes:
    data = chunk(b"data", body, size=SENTINEL)
    whole = 4 + 36 + len(format_chunk) + len(data)
    sizes = chunk(b"ds64", struct.pack("<QQQI", whole, len(body), 0, 0)) if ds64 is None else ds64
    return container(sizes, format_chunk, data, magic=magic, size=SENTINEL)


def integers(values: np.ndarray, width: int, order: str = "<") -> bytes:
    """Whole numbers as PCM of ``width`` bytes: one by one, with Python's own conversion."""
    if width == 1:
        return bytes(int(value) + 128 for value in values.reshape(-1))
    name = "little" if order == "<" else "big"
    return b"".join(int(value).to_bytes(width, name, signed=True) for value in values.reshape(-1))


def wave(body: bytes, *, order: str = "<", size: int | None = None, **how: object) -> bytes:
    magic = b"RIFX" if order == ">" else b"RIFF"
    return container(fmt(order=order, **how), chunk(b"data", body, order, size), magic=magic, order=order)


def tone(seconds: float = 0.5, rate: int = 16000, *, level: float = 0.3, hertz: float = 220.0) -> np.ndarray:
    return level * np.sin(2 * np.pi * hertz * np.arange(int(seconds * rate)) / rate)


def pcm16(samples: np.ndarray, rate: int = 16000) -> bytes:
    return wave(np.rint(samples * 32767).astype("<i2").tobytes(), rate=rate)
