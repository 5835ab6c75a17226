"""Lists of digests, as `sha256sum` writes and reads them."""

from __future__ import annotations

import hashlib
import subprocess
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provenance.core.digests import MAX_LINE_BYTES, Digest, decode_line, encode_line, escape_name
from provenance.errors import MalformedError

if TYPE_CHECKING:
    from pathlib import Path

DIGEST = Digest("table1-sha256", bytes(range(32)))
HEX = DIGEST.hex.encode()
NAMES = st.binary(min_size=1, max_size=30).filter(lambda name: b"\0" not in name)


@given(NAMES)
def test_any_name_comes_back(name: bytes) -> None:
    line = encode_line(DIGEST, name)
    assert b"\n" not in line
    assert decode_line(line) == (DIGEST, name)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        (b"a.parquet", b"table1-sha256:%s  a.parquet"),
        (b" two  spaces ", b"table1-sha256:%s   two  spaces "),
        (b"a\nb", b"\\table1-sha256:%s  a\\nb"),
        (b"a\\nb", b"\\table1-sha256:%s  a\\\\nb"),
        (b"a\rb\\", b"\\table1-sha256:%s  a\\rb\\\\"),
        (b"\xff", b"table1-sha256:%s  \xff"),
    ],
)
def test_lines_by_hand(name: bytes, line: bytes) -> None:
    assert encode_line(DIGEST, name) == line % HEX
    mark, written = escape_name(name)
    assert line == mark + b"table1-sha256:%s  " + written


def test_what_sha256sum_writes_is_read(tmp_path: Path) -> None:
    names = ["plain", "with space", "new\nline", "back\\slash", "*star"]
    for name in names:
        (tmp_path / name).write_text(name)
    for mode in ("--text", "--binary"):
        command = ["sha256sum", mode, "--", *names]
        output = subprocess.run(command, cwd=tmp_path, capture_output=True, check=True).stdout
        found = [decode_line(line) for line in output.splitlines()]
        expected = [Digest("sha256", hashlib.sha256(name.encode()).digest()) for name in names]
        assert found == list(zip(expected, [name.encode() for name in names], strict=True))


def test_upper_case_is_read() -> None:
    assert decode_line(b"sha256:" + HEX.upper() + b"  x")[0] == Digest("sha256", DIGEST.value)
    assert decode_line(HEX.upper() + b" *x") == (Digest("sha256", DIGEST.value), b"x")


def test_the_longest_line() -> None:
    room = MAX_LINE_BYTES - len(HEX) - 2
    assert decode_line(HEX + b"  " + b"x" * room)[1] == b"x" * room
    with pytest.raises(MalformedError):
        decode_line(HEX + b"  " + b"x" * (room + 1))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"", "list-line"),
        (b"%s", "list-line"),
        (b"%s x", "list-line"),
        (b"%s  ", "list-line"),
        (b" %s  x", "list-line"),
        (b"%s\tx", "list-line"),
        (b"%s**x", "list-line"),
        (b"0%s  x", "list-line"),
        (b"sha256:%s0  x", "list-line"),
        (b"Sha256:%s  x", "list-line"),
        (b"sha256 %s  x", "list-line"),
        (b":%s  x", "list-line"),
        (b"\\\\%s  x", "list-line"),
        (b"\\%s  a\\tb", "list-line"),
        (b"\\%s  a\\", "list-line"),
        (b"\\%s  \\\\\\", "list-line"),
        (b"SHA256 (x) = %s", "list-line"),
        (b"md5:%s  x", "digest-kind"),
        (b"tree1-blake3:%s  x", "digest-kind"),
    ],
)
def test_other_lines_are_refused(line: bytes, reason: str) -> None:
    with pytest.raises(MalformedError) as caught:
        decode_line(line.replace(b"%s", HEX))
    assert caught.value.reason == reason
