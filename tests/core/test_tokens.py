"""Tokens and addresses."""

from __future__ import annotations

import hashlib
import hmac

import pytest

from provenance.core import tokens
from provenance.errors import MalformedError

SECRET = bytes(range(32))


def test_a_token_is_an_hmac_with_its_domain():
    assert (
        tokens.key_token(SECRET, "José") == hmac.new(SECRET, b"key\0Jos\xc3\xa9", hashlib.sha256).hexdigest()
    )
    assert (
        tokens.name_token(SECRET, "a/b.wav") == hmac.new(SECRET, b"name\0a/b.wav", hashlib.sha256).hexdigest()
    )
    assert tokens.key_token(SECRET, "a") != tokens.name_token(SECRET, "a")
    assert tokens.key_token(SECRET, "a") != tokens.key_token(bytes(32), "a")


def test_equal_text_gives_equal_tokens():
    assert tokens.key_token(SECRET, "Jose\u0301") == tokens.key_token(SECRET, "José")
    assert tokens.key_token(SECRET, 17) == tokens.key_token(SECRET, "17")


@pytest.mark.parametrize("value", [True, None, 1.0, b"x", ["a"]])
def test_other_types_are_refused(value):
    with pytest.raises(MalformedError) as caught:
        tokens.key_token(SECRET, value)
    assert caught.value.reason == "key-type"


@pytest.mark.parametrize("value", ["\udcff", 10**5000], ids=["surrogate", "5000 digits"])
def test_what_is_no_text_is_refused(value):
    with pytest.raises(MalformedError) as caught:
        tokens.key_token(SECRET, value)
    assert caught.value.reason == "key-not-utf-8"


@pytest.mark.parametrize("length", [0, 31, 33])
def test_a_secret_has_32_bytes(length):
    with pytest.raises(MalformedError) as caught:
        tokens.name_token(bytes(length), "a")
    assert caught.value.reason == "secret-length"


@pytest.mark.parametrize(
    ("address", "stripped"),
    [
        ("s3://key:secret@bucket/a/b.parquet", "s3://bucket/a/b.parquet"),
        ("https://h.example:9000/a?X-Amz-Signature=abc#part", "https://h.example:9000/a"),
        ("https://user@h.example/a", "https://h.example/a"),
        ("http://u:p@[::1]:80/x", "http://[::1]:80/x"),
        ("file:///data/a", "file:///data/a"),
        ("/data/a b", "/data/a b"),
    ],
)
def test_secrets_are_stripped_from_addresses(address, stripped):
    assert tokens.strip_address(address) == stripped


@pytest.mark.parametrize("address", ["http://[::1/a", "http://h:port/a"])
def test_an_address_that_cannot_be_parsed_is_refused(address):
    with pytest.raises(MalformedError) as caught:
        tokens.strip_address(address)
    assert caught.value.reason == "address"
    assert address not in str(caught.value)
