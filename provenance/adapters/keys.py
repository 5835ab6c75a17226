"""Development keys: one file each, mode 0600, marked as for development, no passphrase.

They serve the embedded set-up on one machine. A file is JSON, ``{"development": true, "kind": …,
"secret": …, "version": 1}`` with the secret in hex; it is made once and never overwritten, and refused when
others may read it. Beside the record-signing key lies its public half, ``KEYID.pub``: the folder's public
halves are the keys that it trusts, so records stay verifiable after a key is replaced.

A secret is read when it is first used, never shown, and does not leave its process.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from provenance import files
from provenance.core.records import key_id
from provenance.errors import ConfigError, MalformedError, MismatchError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "CHAIN_KEYS",
    "RECORD_KEY",
    "ChainKey",
    "FileSigner",
    "create_chain_key",
    "create_record_key",
    "load_chain_key",
    "load_trusted_keys",
]

RECORD_KEY = "record.ed25519"
CHAIN_KEYS = ("governance", "publisher")  # the roles of an organisation (`spec/anchoring.md`, "Contract")
_SECRET_BYTES = 32
_LIMIT = 4096
_FIELDS = {"development", "kind", "secret", "version"}
_NAME = re.compile(r"[a-z][a-z0-9-]{0,63}")
_PUBLIC = re.compile(rb"[0-9a-f]{64}\n")
_PUBLIC_NAME = re.compile(r"[0-9a-f]{64}\.pub")
_MAX_TRUSTED = 1024


class FileSigner:
    """A `RecordSigner` whose Ed25519 key is in a file, read when it is first used."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._key: Ed25519PrivateKey | None = None

    def public_key(self) -> bytes:
        """The raw 32-byte public key."""
        return self._load().public_key().public_bytes_raw()

    def sign(self, message: bytes) -> bytes:
        """The 64-byte signature of the message (RFC 8032, pure Ed25519)."""
        return self._load().sign(message)

    def _load(self) -> Ed25519PrivateKey:
        if self._key is None:
            self._key = Ed25519PrivateKey.from_private_bytes(_read_secret(self._path, "ed25519"))
        return self._key

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self._path)!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a signing key does not leave its process")


@dataclass(frozen=True, slots=True)
class ChainKey:
    """A secp256k1 key of one of an organisation's roles; ``secret`` is 32 bytes, big-endian."""

    name: str
    secret: bytes = field(repr=False)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a signing key does not leave its process")


def create_record_key(folder: Path) -> bool:
    """Make the record-signing key and its public half, unless there is one; whether it was made."""
    files.make_folder(folder, private=True)
    path = folder / RECORD_KEY
    made = False
    if not path.exists():
        secret = Ed25519PrivateKey.generate().private_bytes_raw()
        made = _create(path, "ed25519", secret)
    public = FileSigner(path).public_key()  # of the file that is there, whoever made it
    files.create_file(folder / f"{key_id(public)}.pub", f"{public.hex()}\n".encode())
    return made


def create_chain_key(folder: Path, name: str) -> bool:
    """Make the key of one role unless there is one; whether it was made."""
    path = _chain_path(folder, name)
    files.make_folder(folder, private=True)
    if path.exists():
        return False
    number = ec.generate_private_key(ec.SECP256K1()).private_numbers().private_value
    return _create(path, "secp256k1", number.to_bytes(_SECRET_BYTES, "big"))


def load_chain_key(folder: Path, name: str) -> ChainKey:
    """The key of one role.

    Raises:
        ConfigError: there is none, or others may read it.
        MalformedError: the file is not what this module writes.
    """
    path = _chain_path(folder, name)
    secret = _read_secret(path, "secp256k1")
    try:
        ec.derive_private_key(int.from_bytes(secret, "big"), ec.SECP256K1())
    except ValueError:
        raise MalformedError(f"{path}: no secret key of secp256k1", reason="key-range") from None
    return ChainKey(name, secret)


def load_trusted_keys(folder: Path) -> dict[str, bytes]:
    """The public keys that this folder trusts: key id → raw 32-byte Ed25519 key."""
    try:
        names = sorted(path.name for path in folder.iterdir() if _PUBLIC_NAME.fullmatch(path.name))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise files.refused(error, folder, "list") from error
    if len(names) > _MAX_TRUSTED:
        raise ConfigError(f"{folder}: {len(names)} public keys, expected at most {_MAX_TRUSTED}")
    return {name.removesuffix(".pub"): _read_public(folder / name) for name in names}


def _chain_path(folder: Path, name: str) -> Path:
    if not _NAME.fullmatch(name):
        raise ConfigError(f"key {name!r:.80}: expected lower-case letters, digits and '-'", reason="key-name")
    return folder / f"{name}.json"


def _create(path: Path, kind: str, secret: bytes) -> bool:
    content = {"development": True, "kind": kind, "secret": secret.hex(), "version": 1}
    return files.create_file(path, json.dumps(content, indent=2).encode() + b"\n", private=True)


def _read_secret(path: Path, kind: str) -> bytes:
    data = files.read_file(path, _LIMIT, private=True)
    if data is None:
        raise ConfigError(f"{path}: there is no such key", reason="no-key", remedy="Run: provenance init")
    try:
        content = json.loads(data)
        known = set(content) == _FIELDS and content["version"] == 1 and content["development"] is True
        secret = bytes.fromhex(content["secret"]) if known and content["kind"] == kind else b""
    except (ValueError, TypeError, KeyError, RecursionError):
        secret = b""
    if len(secret) != _SECRET_BYTES:
        # From None, and without the text: an exception's chain ends in logs.
        raise MalformedError(
            f"{path}: expected a development key of kind {kind}, version 1",
            reason="key-file",
            remedy="Restore it from a copy, or move it away and run: provenance init",
        ) from None
    return secret


def _read_public(path: Path) -> bytes:
    data = files.read_file(path, _LIMIT) or b""
    if not _PUBLIC.fullmatch(data):
        raise MalformedError(f"{path}: expected 64 hex digits and a newline", reason="public-key")
    public = bytes.fromhex(data[:64].decode())
    if hashlib.sha256(public).hexdigest() != path.stem:
        raise MismatchError(
            f"{path}: SHA-256 of the key",
            expected=path.stem,
            actual=hashlib.sha256(public).hexdigest(),
            reason="key-id",
            remedy="Restore it from a copy: somebody changed which key this folder trusts.",
        )
    return public
