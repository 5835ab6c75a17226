"""The proof file's form: what is written is read, and nothing else is."""

from __future__ import annotations

import base64
import json
import re

import pytest

from provenance.core import proofs
from provenance.core.proofs import Proof, decode_proof, encode_proof
from provenance.errors import ConfigError, MalformedError
from tests.core.proof_world import ProofWorld


@pytest.fixture(scope="module")
def proof() -> Proof:
    return ProofWorld().proof(0, 2, ancestors=True)


@pytest.fixture
def value(proof):
    return json.loads(encode_proof(proof))


def read(value) -> Proof:
    return decode_proof(json.dumps(value).encode())


def test_what_is_written_is_read(proof):
    assert decode_proof(encode_proof(proof)) == proof
    bare = Proof(proof.shards, proof.batches)
    assert decode_proof(encode_proof(bare)) == bare
    assert {"seal", "ancestors"}.isdisjoint(json.loads(encode_proof(bare)))


def test_the_form_is_that_of_the_specification(value):
    assert set(value) == {"version", "shards", "ancestors", "batches", "seal", "endorsements", "stamps"}
    assert set(value["shards"][0]) == {"record", "batch", "index", "path"}
    assert set(value["seal"]) == {"record", "batch", "index", "path", "stage_path"}
    assert set(value["batches"][0]) == {"manifest", "opening", "acc", "evidence"}
    assert value["batches"][0]["opening"]["chain_id"] == "31337"
    assert len(value["seal"]["stage_path"]) == len(value["shards"]) + len(value["ancestors"])


def places(value, where=()):
    """Every place in the JSON, depth first."""
    yield where
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, (*where, key))


def at(value, where):
    for key in where:
        value = value[key]
    return value


def put(value, where, new):
    at(value, where[:-1])[where[-1]] = new


WRONG = [None, True, -1, 1.5, "!", "AA", [], {}, 2**60]


def test_no_value_can_be_of_another_type(proof):
    original = json.loads(encode_proof(proof))
    tried = 0
    for where in places(original):
        if not where or where[0] in {"endorsements", "stamps"}:
            continue
        for wrong in WRONG:
            was = at(original, where)
            if type(wrong) is type(was) and not (isinstance(was, str | int) and wrong in {"!", -1, 2**60}):
                continue
            value = json.loads(encode_proof(proof))
            put(value, where, wrong)
            with pytest.raises(MalformedError) as raised:
                read(value)
            assert raised.value.reason in {"proof", "proof-json", "proof-version", "evidence"}, where
            tried += 1
    assert tried > 600


def test_every_key_is_needed_and_no_other_is_known(proof):
    original = json.loads(encode_proof(proof))
    for where in list(places(original)):
        if not isinstance(at(original, where), dict):
            continue
        for key in at(original, where):
            value = json.loads(encode_proof(proof))
            del at(value, where)[key]
            if where == () and key in {"seal", "ancestors"}:
                read(value)
                continue
            with pytest.raises(MalformedError):
                read(value)
        value = json.loads(encode_proof(proof))
        at(value, where)["algorithm"] = "none"
        with pytest.raises(MalformedError):
            read(value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "proof-json"),
        (b"\xff", "proof-json"),
        (b"[]", "proof-json"),
        (b"{", "proof-json"),
        (b'{"version":1,"version":1}', "proof-json"),
        (b'{"version":1.0}', "proof-json"),
        (b'{"version":NaN}', "proof-json"),
        (b'{"version":' + b"9" * 30 + b"}", "proof-json"),
        (b"[" * 100_000, "proof-json"),
        (b'{"version":2}', "proof-version"),
        (b'{"version":true}', "proof-version"),
        (b"{}", "proof-version"),
    ],
)
def test_other_texts(text, reason):
    with pytest.raises(MalformedError) as raised:
        decode_proof(text)
    assert raised.value.reason == reason


def test_base64_has_one_form(value):
    record = value["shards"][0]["record"]
    for wrong in (record[:-1], record + "\n", record.replace("=", ""), "é" * 4, record + "===="):
        if wrong != record:
            value["shards"][0]["record"] = wrong
            with pytest.raises(MalformedError):
                read(value)
    # A bit after the last byte: another text of the same bytes.
    value["shards"][0]["record"] = "QUE="
    assert read(value).shards[0].record == b"AA"
    value["shards"][0]["record"] = "QUF="
    with pytest.raises(MalformedError):
        read(value)


@pytest.mark.parametrize("size", [31, 33])
def test_hashes_have_their_length(value, size):
    for where in (("batches", 0, "acc"), ("batches", 0, "opening", "binding"), ("shards", 0, "path", 0)):
        put(value, where, base64.b64encode(bytes(size)).decode())
        with pytest.raises(MalformedError, match="of 32 bytes"):
            read(value)


@pytest.mark.parametrize("text", ["", "-1", "1e3", "٣", "9" * 79, " 1", "0x1"])
def test_the_chain_id_is_a_decimal_text(value, text):
    value["batches"][0]["opening"]["chain_id"] = text
    with pytest.raises(MalformedError, match="chain_id"):
        read(value)


def test_bounds(proof, value, monkeypatch):
    data = encode_proof(proof)
    monkeypatch.setattr(proofs, "MAX_BYTES", len(data) - 1)
    with pytest.raises(MalformedError, match="at most"):
        decode_proof(data)
    with pytest.raises(ConfigError, match="more than a verifier reads"):
        encode_proof(proof)
    monkeypatch.setattr(proofs, "MAX_BYTES", 1 << 20)
    monkeypatch.setattr(proofs, "MAX_RECORDS", 1)
    with pytest.raises(MalformedError, match="a list of at most 1"):
        decode_proof(data)
    with pytest.raises(ConfigError, match=re.escape("4 records, 2 batches")):
        encode_proof(proof)
    monkeypatch.setattr(proofs, "MAX_RECORDS", 4)
    value["shards"][0]["path"] = [base64.b64encode(bytes(32)).decode()] * 54
    with pytest.raises(MalformedError, match="a list of at most 53"):
        read(value)
    value["shards"][0]["path"] = []
    value["shards"][0]["record"] = "A" * 90_000
    with pytest.raises(MalformedError, match="65,535"):
        read(value)


def test_what_a_later_version_adds_is_counted(value):
    value["endorsements"] = [{}]
    value["stamps"] = [1, 2]
    read_again = read(value)
    assert (read_again.endorsements, read_again.stamps) == (1, 2)
