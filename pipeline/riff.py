"""The header of a WAV file, read strictly.

Audio libraries are lenient: a file whose second half is missing decodes without a word, and so does one whose
header contradicts itself. For evidence that is wrong: the recording would be hashed, anchored and learnt from
as if it were whole. So the header is read here, every length in it is held against the file, and only then is
anything decoded.

Sources: Microsoft and IBM, "Multimedia Programming Interface and Data Specifications 1.0" (1991) for RIFF
    and RIFX; Microsoft, "Multiple channel audio data and WAVE files" (2007) for WAVE_FORMAT_EXTENSIBLE; EBU
    Tech 3306 (2009) and ITU-R BS.2088 for RF64 and BW64.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from pipeline.unusable import Reason, UnusableAudioError

__all__ = ["ALAW", "FLOAT", "MULAW", "PCM", "WaveHeader", "is_wave", "parse_header"]

PCM = 0x0001
FLOAT = 0x0003
ALAW = 0x0006
MULAW = 0x0007
_EXTENSIBLE = 0xFFFE

# A SubFormat GUID is the format tag as a u32, then this; its second and third field follow the byte order.
_GUID_TAILS = {
    "<": bytes.fromhex("000010008000 00aa00389b71"),
    ">": bytes.fromhex("000000108000 00aa00389b71"),
}
_MAGICS = (b"RIFF", b"RIFX", b"RF64", b"BW64")
_UNKNOWN = 0xFFFFFFFF
_MAX_RATE = 16_000_000  # beyond any converter; resampling from there takes time without end
_FIXED_WIDTHS = (PCM, FLOAT, ALAW, MULAW)


@dataclass(frozen=True, slots=True)
class WaveHeader:
    """What a WAV file says of itself, once every length in it has been found to hold.

    ``codec`` is the format tag, an EXTENSIBLE one resolved. ``bits`` are those that count in a sample of
    ``width`` bytes; both are as the header says and mean nothing for compressed codecs. ``start`` and
    ``size`` are the sample data's place in the file, in bytes.
    """

    container: str
    codec: int
    channels: int
    rate: int
    frame_bytes: int
    bits: int
    start: int
    size: int

    @property
    def order(self) -> str:
        """``>`` in RIFX files, ``<`` in all others."""
        return ">" if self.container == "RIFX" else "<"

    @property
    def width(self) -> int:
        """Bytes of one sample of one channel."""
        return self.frame_bytes // self.channels


@dataclass(frozen=True, slots=True)
class _Format:
    codec: int
    channels: int
    rate: int
    frame_bytes: int
    bits: int


def is_wave(data: bytes) -> bool:
    """Whether the bytes begin like one of the WAV containers."""
    return data[:4] in _MAGICS


def parse_header(data: bytes) -> WaveHeader:
    """Read the header of a whole WAV file and hold every length in it against the file.

    Raises:
        UnusableAudioError: ``not-audio`` (another kind of RIFF file), ``truncated`` (the file ends before the
            header says so),
            ``inconsistent-header`` (two statements of the header exclude each other).
    """
    if len(data) < 12:
        raise UnusableAudioError(
            Reason.TRUNCATED, f"a WAV header takes at least 12 bytes, the file has {len(data)}"
        )
    container = data[:4].decode("ascii")
    if data[8:12] != b"WAVE":
        raise UnusableAudioError(
            Reason.NOT_AUDIO, f"a {container} file of the form {data[8:12]!r} where b'WAVE' is expected"
        )
    order = ">" if container == "RIFX" else "<"
    fmt: _Format | None = None
    sizes: tuple[int, int] | None = None
    position = 12
    while position + 8 <= len(data):
        name, size = data[position : position + 4], _u32(order, data, position + 4)
        body = position + 8
        if name == b"data":
            return _finish(data, container, fmt, sizes, body=body, size=size)
        if body + size > len(data):
            raise UnusableAudioError(
                Reason.TRUNCATED, f"chunk {name!r} says {size} bytes, the file ends after {len(data) - body}"
            )
        if name == b"fmt ":
            fmt = _parse_format(order, data[body : body + size])
        elif name == b"ds64" and container in ("RF64", "BW64"):
            sizes = _parse_sizes(data[body : body + size])
        position = body + size + size % 2
    raise UnusableAudioError(Reason.TRUNCATED, f"the file ends after {len(data)} bytes without sample data")


def _u32(order: str, data: bytes, at: int) -> int:
    value: int = struct.unpack_from(order + "I", data, at)[0]
    return value


def _parse_format(order: str, chunk: bytes) -> _Format:
    """The ``fmt`` chunk; an EXTENSIBLE one is resolved to the codec that it wraps."""
    if len(chunk) < 16:
        raise _inconsistent(f"the format chunk has {len(chunk)} bytes where at least 16 are expected")
    codec, channels, rate, byte_rate, frame_bytes, bits = struct.unpack_from(order + "HHIIHH", chunk)
    if rate > _MAX_RATE:
        raise _inconsistent(f"{rate} frames a second; the limit is {_MAX_RATE}")
    if not channels or not rate or not frame_bytes:
        raise _inconsistent(
            f"{channels} channels, {rate} frames a second, {frame_bytes} bytes a frame; none may be 0"
        )
    container_bits = bits
    if codec == _EXTENSIBLE:
        codec, bits = _parse_extension(order, chunk, bits)
    if codec in _FIXED_WIDTHS:
        _check_width(codec, channels, frame_bytes, container_bits)
        if byte_rate != rate * frame_bytes % (1 << 32):
            raise _inconsistent(
                f"{rate} frames of {frame_bytes} bytes make {rate * frame_bytes} a second, not {byte_rate}"
            )
    return _Format(codec, channels, rate, frame_bytes, bits)


def _parse_extension(order: str, chunk: bytes, bits: int) -> tuple[int, int]:
    if len(chunk) < 40:
        raise _inconsistent(f"an extensible format chunk has 40 bytes, this one {len(chunk)}")
    valid = struct.unpack_from(order + "H", chunk, 18)[0] or bits
    if valid > bits:
        raise _inconsistent(f"{valid} valid bits in samples of {bits}")
    codec: int = struct.unpack_from(order + "I", chunk, 24)[0]
    if chunk[28:40] != _GUID_TAILS[order]:
        raise UnusableAudioError(Reason.UNSUPPORTED_CODEC, f"sub-format {chunk[24:40].hex()}")
    return codec, valid


def _check_width(codec: int, channels: int, frame_bytes: int, bits: int) -> None:
    """A frame is one sample of ceil(bits / 8) bytes per channel.

    PCM has 1 to 64 bits, floats 32 or 64, the G.711 laws 8.
    """
    if frame_bytes != channels * -(-bits // 8):
        raise _inconsistent(f"{channels} channels of {bits} bits do not fill frames of {frame_bytes} bytes")
    allowed = {FLOAT: (32, 64), ALAW: (8,), MULAW: (8,)}.get(codec, range(1, 65))
    if bits not in allowed:
        raise UnusableAudioError(Reason.UNSUPPORTED_CODEC, f"samples of {bits} bits in format 0x{codec:04x}")


def _parse_sizes(chunk: bytes) -> tuple[int, int]:
    """The 64-bit lengths of the whole file and of its data chunk (EBU Tech 3306, section 3)."""
    if len(chunk) < 16:
        raise _inconsistent(f"the ds64 chunk has {len(chunk)} bytes where at least 16 are expected")
    whole, samples = struct.unpack_from("<QQ", chunk)
    return whole, samples


def _finish(
    data: bytes, container: str, fmt: _Format | None, sizes: tuple[int, int] | None, *, body: int, size: int
) -> WaveHeader:
    if fmt is None:
        raise _inconsistent("the sample data come before the format chunk")
    whole = _u32(">" if container == "RIFX" else "<", data, 4)
    if container in ("RF64", "BW64"):
        if sizes is None:
            raise _inconsistent(f"a {container} file without a ds64 chunk")
        whole = sizes[0] if whole == _UNKNOWN else whole
        size = sizes[1] if size == _UNKNOWN else size
    _check_lengths(len(data), whole=whole, body=body, size=size)
    if fmt.codec in _FIXED_WIDTHS and size % fmt.frame_bytes:
        raise _inconsistent(
            f"{size} bytes of samples are no whole number of frames of {fmt.frame_bytes} bytes"
        )
    return WaveHeader(container, fmt.codec, fmt.channels, fmt.rate, fmt.frame_bytes, fmt.bits, body, size)


def _check_lengths(found: int, *, whole: int, body: int, size: int) -> None:
    """The file's own length, the container's and the data chunk's must agree.

    Bytes behind the container (tags) do no harm.
    """
    if _UNKNOWN in (whole, size) or not whole:
        raise _inconsistent("its length was never filled in: it was stopped early or written to a pipe")
    if body + size > found:
        raise UnusableAudioError(
            Reason.TRUNCATED, f"the header says {size} bytes of samples, the file holds {found - body}"
        )
    if body + size > 8 + whole:
        raise _inconsistent(f"{size} bytes of samples do not fit into a container of {whole}")
    if 8 + whole > found + 1:  # many writers forget the pad byte behind an odd last chunk
        raise UnusableAudioError(Reason.TRUNCATED, f"the header says {8 + whole} bytes, the file has {found}")


def _inconsistent(detail: str) -> UnusableAudioError:
    return UnusableAudioError(Reason.INCONSISTENT_HEADER, f"inconsistent header: {detail}")
