"""Records: in-toto statements whose bytes never change after they are made.

A partition record is a bare statement, vouched for by the signed seal; every other kind is a DSSE envelope
with one Ed25519 signature. A record's id is the
RFC 6962 leaf hash of its bytes, and there is no other id (`spec/records.md`).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from provenance.core import canonical
from provenance.core.merkle import leaf_hash
from provenance.core.schemas import KINDS, PREDICATE_PREFIX, STATEMENT_TYPE, check_statement, predicate_type
from provenance.errors import MalformedError, VerificationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from provenance.core.canonical import JSONObject

__all__ = [
    "PAYLOAD_TYPE",
    "Record",
    "Statement",
    "Subject",
    "check_signature",
    "decode_record",
    "encode_record",
    "key_id",
    "pre_authentication_encoding",
    "sign_record",
]

PAYLOAD_TYPE = "application/vnd.in-toto+json"
_UNSIGNED = "partition"
_SIGNATURE_BYTES = 64


class _Signer(Protocol):
    def public_key(self) -> bytes: ...
    def sign(self, message: bytes) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Subject:
    """What a record is about: a name, and hex digests by what they cover (``{"sha256": "…"}``)."""

    name: str
    digest: Mapping[str, str]

    def as_json(self) -> JSONObject:
        """The in-toto ResourceDescriptor."""
        return {"name": self.name, "digest": dict(self.digest)}


@dataclass(frozen=True, slots=True)
class Statement:
    """One in-toto Statement v1 of one of our kinds."""

    kind: str
    subjects: tuple[Subject, ...]
    predicate: JSONObject

    def as_json(self) -> JSONObject:
        """The statement as JSON; checked against its schema by whoever encodes it."""
        return {
            "_type": STATEMENT_TYPE,
            "subject": [subject.as_json() for subject in self.subjects],
            "predicateType": predicate_type(self.kind),
            "predicate": self.predicate,
        }


@dataclass(frozen=True, slots=True)
class Record:
    """A decoded record: its bytes as they came, its id, its statement.

    And for a signed kind the key id and signature (not checked yet).
    """

    data: bytes
    id: bytes
    statement: Statement
    key_id: str | None = None
    signature: bytes = b""
    payload: bytes = b""

    @property
    def kind(self) -> str:
        """The statement's kind."""
        return self.statement.kind


def key_id(public_key: bytes) -> str:
    """SHA-256 of the raw Ed25519 public key, in hex."""
    return hashlib.sha256(public_key).hexdigest()


def pre_authentication_encoding(payload_type: str, payload: bytes) -> bytes:
    """What is signed: DSSE v1 PAE, ``"DSSEv1" SP len(type) SP type SP len(body) SP body``."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def encode_record(statement: Statement) -> bytes:
    """The bytes of a record that is not signed by itself: a partition."""
    if statement.kind != _UNSIGNED:
        raise MalformedError(f"{statement.kind} record: it must be signed", reason="not-signed")
    return _encode_statement(statement)


def sign_record(statement: Statement, signer: _Signer) -> bytes:
    """The bytes of a signed record: the canonical DSSE envelope of the canonical statement."""
    if statement.kind == _UNSIGNED:
        raise MalformedError(
            "partition record: it is not signed by itself, the seal vouches for it", reason="signed"
        )
    payload = _encode_statement(statement)
    signature = signer.sign(pre_authentication_encoding(PAYLOAD_TYPE, payload))
    return canonical.encode(
        {
            "payload": base64.b64encode(payload).decode(),
            "payloadType": PAYLOAD_TYPE,
            "signatures": [
                {"keyid": key_id(signer.public_key()), "sig": base64.b64encode(signature).decode()}
            ],
        }
    )


def decode_record(data: bytes) -> Record:
    """A record from its bytes, checked against its kind's schema.

    A signature is carried, not checked: that needs trusted keys.

    Raises:
        MalformedError: ``reason`` is one of `canonical.decode`'s, ``schema``, ``unknown-kind``,
            ``envelope``, ``not-signed``, ``signed``.
    """
    value = canonical.decode(data)
    if "payload" not in value:
        statement = _decode_statement(value)
        if statement.kind != _UNSIGNED:
            raise MalformedError(f"{statement.kind} record: it must be signed", reason="not-signed")
        return Record(data, leaf_hash(data), statement)
    payload, keyid, signature = _open_envelope(value)
    statement = _decode_statement(canonical.decode(payload))
    if statement.kind == _UNSIGNED:
        raise MalformedError(
            "partition record: it is not signed by itself, the seal vouches for it", reason="signed"
        )
    return Record(data, leaf_hash(data), statement, keyid, signature, payload)


def check_signature(record: Record, keys: Mapping[str, bytes]) -> None:
    """Raise ``VerificationError`` unless one of the trusted keys (key id → public key) signed the record."""
    public_key = keys.get(record.key_id or "")
    if public_key is None:
        raise VerificationError(
            f"{record.kind} record {record.id.hex()}: signed by key {record.key_id}, which is not trusted",
            reason="unknown-key",
            remedy="Add the organisation's key to the trust file if it is theirs.",
        )
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(
            record.signature, pre_authentication_encoding(PAYLOAD_TYPE, record.payload)
        )
    except (InvalidSignature, ValueError) as error:
        raise VerificationError(
            f"{record.kind} record {record.id.hex()}: its signature does not hold", reason="signature"
        ) from error


def _encode_statement(statement: Statement) -> bytes:
    value = statement.as_json()
    check_statement(statement.kind, value)
    return canonical.encode(value)


def _decode_statement(value: JSONObject) -> Statement:
    named = value.get("predicateType")
    kind = named.removeprefix(PREDICATE_PREFIX).removesuffix(":1") if isinstance(named, str) else ""
    if kind not in KINDS or named != predicate_type(kind):
        raise MalformedError(
            f"record: predicate type {named!r:.80} is not known to this version", reason="unknown-kind"
        )
    check_statement(kind, value)
    subjects = tuple(Subject(entry["name"], entry["digest"]) for entry in value["subject"])
    return Statement(kind, subjects, value["predicate"])


def _open_envelope(value: JSONObject) -> tuple[bytes, str, bytes]:
    try:
        (entry,) = value["signatures"]
        exact = set(value) == {"payload", "payloadType", "signatures"} and set(entry) == {"keyid", "sig"}
        payload, signature, keyid = _base64(value["payload"]), _base64(entry["sig"]), entry["keyid"]
    except (KeyError, TypeError, ValueError) as error:
        raise MalformedError("record: not a DSSE envelope with one signature", reason="envelope") from error
    if (
        not exact
        or value["payloadType"] != PAYLOAD_TYPE
        or type(keyid) is not str
        or len(signature) != _SIGNATURE_BYTES
    ):
        raise MalformedError("record: not a DSSE envelope with one Ed25519 signature", reason="envelope")
    return payload, keyid, signature


def _base64(text: str) -> bytes:
    try:
        data = base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise MalformedError("record: not padded standard base64", reason="envelope") from error
    if (
        base64.b64encode(data).decode() != text
    ):  # bits after the last byte would make two texts of one payload
        raise MalformedError("record: base64 not in its canonical form", reason="envelope")
    return data
