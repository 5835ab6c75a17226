"""What a digest is, says and equals; and the plain digests of bytes."""

from __future__ import annotations

import hashlib
import pickle

import blake3
import pytest

from provenance.core.digests import KINDS, Digest, bytes1, parse_digest
from provenance.errors import ConfigError, MalformedError

VALUE = bytes(range(32))


@pytest.mark.parametrize("kind", KINDS)
def test_text_and_back(kind: str) -> None:
    digest = Digest(kind, VALUE)
    assert str(digest) == f"{kind}:{VALUE.hex()}"
    assert parse_digest(str(digest)) == digest
    assert digest.hex == VALUE.hex()


def test_equal_by_name_and_value_alone() -> None:
    assert Digest("sha256", VALUE, nbytes=1, rows=2, blocks=(b"x",)) == Digest("sha256", VALUE)
    assert hash(Digest("sha256", VALUE, nbytes=1)) == hash(Digest("sha256", VALUE))
    assert Digest("sha256", VALUE) != Digest("blake3", VALUE)
    assert Digest("sha256", VALUE) != Digest("sha256", bytes(32))
    assert pickle.loads(pickle.dumps(Digest("sha256", VALUE, rows=3))).rows == 3


HEX = VALUE.hex()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "digest-text"),
        (HEX, "digest-text"),
        (f":{HEX}", "digest-text"),
        (f"sha256:{HEX[:-1]}", "digest-text"),
        (f"sha256:{HEX}0", "digest-text"),
        (f"sha256:{HEX.upper()}", "digest-text"),
        (f"sha256: {HEX}", "digest-text"),
        (f" sha256:{HEX}", "digest-text"),
        (f"sha256:{HEX}\n", "digest-text"),
        (f"SHA256:{HEX}", "digest-text"),
        (f"a-very-long-name-of-it:{HEX}", "digest-text"),
        (f"sha512:{HEX}", "digest-kind"),
        (f"tree1-blake3:{HEX}", "digest-kind"),
        (f"table1:{HEX}", "digest-kind"),
        (f"table2-sha256:{HEX}", "digest-kind"),
    ],
)
def test_other_texts_are_refused(text: str, reason: str) -> None:
    with pytest.raises(MalformedError) as caught:
        parse_digest(text)
    assert caught.value.reason == reason


def test_bytes_in_any_chunks() -> None:
    digest = bytes1([b"ab", b"", memoryview(b"c")])
    assert str(digest) == "sha256:" + hashlib.sha256(b"abc").hexdigest()
    assert digest.nbytes == 3
    assert str(bytes1(iter([b"abc"]), algorithm="blake3")) == "blake3:" + blake3.blake3(b"abc").hexdigest()
    assert bytes1([]).value == hashlib.sha256(b"").digest()
    with pytest.raises(ConfigError):
        bytes1([], algorithm="md5")
