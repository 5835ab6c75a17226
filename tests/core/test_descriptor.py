"""dataset.toml: what is read, and what is refused with the key, the expected and the actual."""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provenance.core.descriptor import MAX_BYTES, Consent, Descriptor, RightsHolder, Source, decode_descriptor
from provenance.core.kinds import Dataset
from provenance.core.records import decode_record, sign_record
from provenance.errors import MalformedError
from provenance.testing.fakes import FakeSigner

HEAD = """
name = "voices"
version = "1"
title = "Voices of Example"
licence = "CC-BY-SA-3.0"
names_are_personal = true
"""
FULL = (
    HEAD
    + f"""
description = "Prompts,\\nread aloud."

[[rights_holders]]
name = "Example Ltd"
role = "producer"
address = "https://Example.org/contact"
licence = "CC-BY-SA-3.0"

[[rights_holders]]
name = "Zoë"

[[sources]]
title = "Studio"
address = "https://example.org/prompts"
licence = "CC-BY-SA-3.0"
collection = "read from a script"
collected_from = 2020-01-31
collected_until = 2020-01-31
opt_outs = "none seen"

[[consent]]
document = "{"ab" * 32}"
scope = "recordings"
purpose = "training"
territory = "EU"
granted = 2020-01-01
expires = 2030-01-01
"""
)


def decode(text: str) -> Descriptor:
    return decode_descriptor(text.encode())


def test_everything_is_read() -> None:
    found = decode(FULL)
    assert (found.name, found.version, found.title) == ("voices", "1", "Voices of Example")
    assert (found.licence, found.names_are_personal) == ("CC-BY-SA-3.0", True)
    assert found.description == "Prompts,\nread aloud."
    assert found.rights_holders == (
        RightsHolder("Example Ltd", "producer", "https://Example.org/contact", "CC-BY-SA-3.0"),
        RightsHolder("Zoë"),
    )
    day = dt.date(2020, 1, 31)
    assert found.sources == (
        Source(
            title="Studio",
            address="https://example.org/prompts",
            licence="CC-BY-SA-3.0",
            collection="read from a script",
            collected_from=day,
            collected_until=day,
            opt_outs="none seen",
        ),
    )
    assert found.consent == (
        Consent("ab" * 32, "recordings", "training", "EU", dt.date(2020, 1, 1), dt.date(2030, 1, 1)),
    )


def test_the_rest_may_be_absent() -> None:
    found = decode(HEAD)
    assert (found.description, found.rights_holders, found.sources, found.consent) == ("", (), (), ())


def test_its_digest_is_of_the_bytes_as_they_came() -> None:
    assert decode(HEAD).sha256 == hashlib.sha256(HEAD.encode()).digest()
    assert decode(HEAD + "# a word\n").sha256 != decode(HEAD).sha256


def test_it_gives_the_dataset_record() -> None:
    found = decode(HEAD)
    assert found.dataset() == Dataset("voices", "1", "CC-BY-SA-3.0", True, found.sha256)
    record = decode_record(sign_record(found.dataset().statement(), FakeSigner()))
    assert Dataset.from_statement(record.statement) == found.dataset()


REFUSED = {
    "not TOML": ("name = ", "not-toml"),
    "a key twice": (HEAD + 'name = "b"', "not-toml"),
    "nested too deep": ("a = " + "[" * 100_000, "not-toml"),
    "a number of very many digits": (HEAD + "x = " + "9" * 5000, "not-toml"),
    "no name": (HEAD.replace('name = "voices"', "", 1), "missing-key"),
    "no version": (HEAD.replace('version = "1"', ""), "missing-key"),
    "no title": (HEAD.replace('title = "Voices of Example"', ""), "missing-key"),
    "no licence": (HEAD.replace('licence = "CC-BY-SA-3.0"', ""), "missing-key"),
    "nothing about names": (HEAD.replace("names_are_personal = true", ""), "missing-key"),
    "an empty name": (HEAD.replace('"voices"', '""'), "length"),
    "a blank licence": (HEAD.replace('"CC-BY-SA-3.0"', '"  "'), "length"),
    "a name too long": (HEAD.replace("voices", "v" * 513), "length"),
    "a description too long": (HEAD + f'description = "{"d" * 4097}"', "length"),
    "a number as version": (HEAD.replace('"1"', "1"), "type"),
    "text for true": (HEAD.replace("= true", '= "true"'), "type"),
    "a number for true": (HEAD.replace("= true", "= 1"), "type"),
    "a control character": (HEAD.replace("voices", "voi\\u001bces"), "control-character"),
    "a newline in a name": (HEAD.replace("voices", "voi\\nces"), "control-character"),
    "an unknown key": (HEAD + "licens = 1", "unknown-key"),
    "an unknown table": (HEAD + "[source]\ntitle = 'a'", "unknown-key"),
    "an unknown key in a table": (HEAD + "[[sources]]\ntitle = 'a'\nurl = 'b'", "unknown-key"),
    "a table where several belong": (HEAD + "[sources]\ntitle = 'a'", "type"),
    "texts where tables belong": (HEAD + "sources = ['a']", "type"),
    "too many tables": (HEAD + "[[sources]]\ntitle = 'a'\n" * 1025, "length"),
    "a source without title": (HEAD + "[[sources]]\naddress = 'https://example.org'", "missing-key"),
    "a password": (HEAD + "[[sources]]\ntitle='a'\naddress='https://u:hunter2@example.org'", "address"),
    "a user": (HEAD + "[[sources]]\ntitle='a'\naddress='https://u@example.org'", "address"),
    "a signed query": (HEAD + "[[sources]]\ntitle='a'\naddress='https://e.org/x?sig=hunter2'", "address"),
    "a fragment": (HEAD + "[[rights_holders]]\nname='a'\naddress='https://e.org/#hunter2'", "address"),
    "no address": (HEAD + "[[sources]]\ntitle='a'\naddress='https://[e.org/hunter2'", "address"),
    "a day as text": (HEAD + "[[sources]]\ntitle='a'\ncollected_from='2020-01-01'", "type"),
    "a time for a day": (HEAD + "[[sources]]\ntitle='a'\ncollected_from=2020-01-01T00:00:00Z", "type"),
    "a period that ends before it begins": (
        HEAD + "[[sources]]\ntitle='a'\ncollected_from=2020-01-02\ncollected_until=2020-01-01",
        "period",
    ),
    "consent that ends before it begins": (
        FULL.replace("expires = 2030-01-01", "expires = 2019-12-31"),
        "period",
    ),
    "a document that is no digest": (FULL.replace("ab" * 32, "ab" * 31), "digest"),
    "a document in capitals": (FULL.replace("ab" * 32, "AB" * 32), "digest"),
    "consent without a territory": (FULL.replace('territory = "EU"', ""), "missing-key"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_it_refuses(case: str) -> None:
    text, reason = REFUSED[case]
    with pytest.raises(MalformedError) as caught:
        decode(text)
    assert caught.value.reason == reason
    assert "dataset.toml" in caught.value.message
    assert "hunter2" not in caught.value.message + caught.value.remedy


def test_it_names_key_expected_actual_and_the_nearest_key() -> None:
    with pytest.raises(MalformedError, match=r"version: expected text, found int 1"):
        decode(HEAD.replace('"1"', "1"))
    with pytest.raises(MalformedError) as caught:
        decode(HEAD + "[[sources]]\ntitle='a'\n[[sources]]\ntitle='b'\ncollected='c'")
    assert "sources[2].collected" in caught.value.message
    assert "nearest key is collect" in caught.value.remedy


def test_too_long_or_no_text_is_refused() -> None:
    with pytest.raises(MalformedError) as caught:
        decode(HEAD + "#" * MAX_BYTES)
    assert caught.value.reason == "too-long"
    with pytest.raises(MalformedError) as caught:
        decode_descriptor(HEAD.encode() + b"\xff")
    assert caught.value.reason == "not-utf-8"


@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda text: (HEAD + text).encode()))
def test_nothing_but_malformed_comes_out(data: bytes) -> None:
    with contextlib.suppress(MalformedError):
        decode_descriptor(data)


def test_the_example_in_the_reference_is_valid() -> None:
    page = Path(__file__).parents[2] / "docs" / "reference" / "dataset.md"
    example = page.read_text(encoding="utf-8").split("```toml\n")[1].split("```")[0]
    assert decode(example).name == "voices"
