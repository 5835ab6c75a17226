"""Records, kinds and lists: what the vectors in ``statements-1.json`` do not reach."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
from pathlib import Path

import jsonschema
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from provenance.core import canonical, kinds, lists, merkle, records, schemas
from provenance.core.records import Statement, Subject
from provenance.errors import MalformedError, MismatchError, VerificationError
from scripts import generate_schemas
from tests.vectors import make_more

VECTORS = Path(make_more.__file__).parent
MADE = make_more.statements()


@pytest.fixture
def signer():
    return make_more.Signer(1)


def encode(statement, signer):
    if statement.kind == "partition":
        return records.encode_record(statement)
    return records.sign_record(statement, signer)


@pytest.mark.parametrize("name", MADE)
def test_a_kind_comes_back_from_its_record(name, signer):
    made = MADE[name]
    record = records.decode_record(encode(made.statement(), signer))
    assert type(made).from_statement(record.statement) == made
    assert record.id == merkle.leaf_hash(record.data)
    assert record.kind == name.removesuffix("-roots")


@pytest.mark.parametrize("name", MADE)
def test_the_same_work_gives_the_same_bytes(name, signer):
    assert encode(MADE[name].statement(), signer) == encode(MADE[name].statement(), signer)


@pytest.mark.parametrize(
    "kind", [kinds.Dataset, kinds.Run, kinds.Stage, kinds.Partition, kinds.Seal, kinds.Consumption]
)
def test_a_kind_is_not_made_from_another(kind):
    others = [made.statement() for made in MADE.values() if type(made) is not kind]
    for statement in others:
        with pytest.raises(MalformedError) as caught:
            kind.from_statement(statement)
        assert caught.value.reason == "other-kind"


def test_release_and_run_are_told_apart(signer):
    of_release = dataclasses.replace(MADE["consumption"], is_release=True)
    record = records.decode_record(records.sign_record(of_release.statement(), signer))
    assert kinds.Consumption.from_statement(record.statement) == of_release
    assert set(of_release.statement().predicate) ^ set(MADE["consumption"].statement().predicate) == {
        "run",
        "release",
    }


def test_a_consumption_names_one_source(signer):
    predicate = MADE["consumption"].statement().predicate
    both = {**predicate, "release": predicate["run"]}
    with pytest.raises(MalformedError) as caught:
        records.sign_record(Statement("consumption", MADE["consumption"].statement().subjects, both), signer)
    assert caught.value.reason == "schema"


def test_a_seal_has_its_stages_roots_as_subjects(signer):
    statement = MADE["seal"].statement()
    other = dataclasses.replace(statement, subjects=(Subject("clean", {"rfc6962-sha256": "00" * 32}),))
    with pytest.raises(MalformedError) as caught:
        kinds.Seal.from_statement(other)
    assert caught.value.reason == "seal-subjects"


def test_a_record_lists_at_most_200_parts_and_64_inputs():
    part, entry = Subject("a", {"sha256": "00" * 32}), kinds.Input(bytes(32), "a", {"sha256": "00" * 32})
    base = MADE["partition"]
    dataclasses.replace(base, subjects=(part,) * 200, inputs=(entry,) * 64).statement()
    for change, reason in (({"subjects": (part,) * 201}, "subjects"), ({"inputs": (entry,) * 65}, "inputs")):
        with pytest.raises(MalformedError) as caught:
            dataclasses.replace(base, **change).statement()
        assert caught.value.reason == reason


def test_a_partition_is_not_signed_and_the_others_are(signer):
    with pytest.raises(MalformedError) as caught:
        records.sign_record(MADE["partition"].statement(), signer)
    assert caught.value.reason == "signed"
    with pytest.raises(MalformedError) as caught:
        records.encode_record(MADE["seal"].statement())
    assert caught.value.reason == "not-signed"


def test_the_envelope_is_dsse_with_ed25519(signer):
    envelope = json.loads(records.sign_record(MADE["run"].statement(), signer))
    payload = base64.b64decode(envelope["payload"])
    (entry,) = envelope["signatures"]
    assert entry["keyid"] == hashlib.sha256(signer.public_key()).hexdigest()
    # The encoding as the DSSE specification writes it, spelled out here and not by our own function.
    signed = b"DSSEv1 28 application/vnd.in-toto+json " + str(len(payload)).encode() + b" " + payload
    key = Ed25519PrivateKey.from_private_bytes(bytes([1]) * 32).public_key()
    key.verify(base64.b64decode(entry["sig"]), signed)


def test_a_signature_is_checked_against_trusted_keys_only(signer):
    record = records.decode_record(records.sign_record(MADE["run"].statement(), signer))
    records.check_signature(record, {records.key_id(signer.public_key()): signer.public_key()})
    other = make_more.Signer(2).public_key()
    for keys, reason in (
        ({}, "unknown-key"),
        ({records.key_id(other): other}, "unknown-key"),
        ({record.key_id: other}, "signature"),
        ({record.key_id: b"short"}, "signature"),
    ):
        with pytest.raises(VerificationError) as caught:
            records.check_signature(record, keys)
        assert caught.value.reason == reason


def test_a_partition_has_no_signature_to_check():
    record = records.decode_record(records.encode_record(MADE["partition"].statement()))
    with pytest.raises(VerificationError) as caught:
        records.check_signature(record, {})
    assert caught.value.reason == "unknown-key"


@pytest.mark.parametrize("kind", schemas.KINDS)
def test_a_schema_is_closed_and_agrees_with_another_validator(kind):
    schema = schemas.statement_schema(kind)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    for name, made in MADE.items():
        fits = made.statement().kind == kind
        assert validator.is_valid(made.statement().as_json()) == fits, name


def test_another_validator_refuses_the_same_cases():
    validators = {
        kind: jsonschema.Draft202012Validator(schemas.statement_schema(kind)) for kind in schemas.KINDS
    }
    seen = 0
    for case in json.loads((VECTORS / "statements-1.json").read_text()):
        if case.get("reason") != "schema":
            continue
        value = json.loads(bytes.fromhex(case["hex"]))
        if "payload" in value:
            value = json.loads(base64.b64decode(value["payload"]))
        kind = value["predicateType"].split(":")[2]
        assert not validators[kind].is_valid(value), case["name"]
        seen += 1
    assert seen > 200


def test_a_list_comes_back_only_as_it_was():
    ids = [bytes([at]) * 32 for at in (3, 1, 2, 1)]
    head, data = lists.ListHead.over(ids), lists.encode_list(ids)
    assert head.count == 3
    assert lists.decode_list(data, head) == sorted(set(ids))
    assert lists.ListHead.from_json(head.as_json()) == head
    assert lists.list_name(head) == f"lists/{head.root.hex()}.ids"
    assert lists.ListHead.over([]) == lists.EMPTY_LIST
    assert lists.decode_list(b"", lists.EMPTY_LIST) == []
    swapped = data[32:64] + data[:32] + data[64:]
    for broken, reason in (
        (data[:-1], "list-length"),
        (data + data[:32], "list-length"),
        (swapped, "list-order"),
    ):
        with pytest.raises(MalformedError) as caught:
            lists.decode_list(broken, head)
        assert caught.value.reason == reason
    with pytest.raises(MalformedError) as caught:
        lists.decode_list(data[:32] * 3, head)
    assert caught.value.reason == "list-order"
    with pytest.raises(MismatchError):
        lists.decode_list(data[:-1] + b"\x04", head)


def test_an_absent_field_is_left_out_never_null():
    statement = dataclasses.replace(MADE["run"], commit=None, lockfile=None).statement()
    assert {"commit", "lockfile"}.isdisjoint(statement.predicate)
    assert b"null" not in canonical.encode(statement.as_json())


def test_the_published_schemas_are_those_of_the_core():
    published = {
        path.name: path.read_text(encoding="utf-8") for path in generate_schemas.TARGET.glob("*.json")
    }
    assert published == generate_schemas.render()
