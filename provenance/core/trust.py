"""The trust file: what a verifier believes before it looks at any evidence.

TOML, written by nobody but the verifier, or taken from someone the verifier trusts: never from whoever made
the proof (`spec/anchoring.md`, "Proof file"). It names the chain and the contract, who seals blocks, and
whose keys sign records.

::

    [chain]       id, consensus = "none" | "qbft" | "clique", depth
    [contract]    address (40 hex digits), code_hash (64 hex digits, optional)
    [[members]]   org, name, ed25519 (64 hex digits); an organisation with several keys stands several times
    [[validators]] from, organisation, addresses, contract_mode (optional)
    [endorsement] need
    [[pins]]      number, hash
"""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from provenance.core.records import key_id
from provenance.core.streams import MAX_OFFSET, MAX_ORG
from provenance.errors import MalformedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["CONSENSUS", "Member", "Pin", "Trust", "Validators", "decode_trust", "encode_trust"]

CONSENSUS = ("none", "qbft", "clique")
MAX_BYTES = 1 << 20
_MAX_ENTRIES = 4096
_HEX = re.compile(r"(?:0x)?((?:[0-9a-f]{2})*)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Member:
    """One Ed25519 key (raw, 32 bytes) that signs records for an organisation."""

    org: int
    name: str
    ed25519: bytes


@dataclass(frozen=True, slots=True)
class Validators:
    """Who seals blocks from a height on, and which organisation runs them; ``addresses`` of 20 bytes."""

    from_block: int
    organisation: int
    addresses: tuple[bytes, ...]
    contract_mode: bool = False


@dataclass(frozen=True, slots=True)
class Pin:
    """A block hash that the verifier knows from elsewhere."""

    number: int
    hash: bytes


@dataclass(frozen=True, slots=True)
class Trust:
    """A decoded trust file. ``contract`` is 20 bytes, ``depth`` the blocks after which one is final."""

    chain_id: int
    consensus: str
    contract: bytes
    depth: int = 0
    code_hash: bytes | None = None
    members: tuple[Member, ...] = ()
    validators: tuple[Validators, ...] = ()
    endorsements_needed: int = 0
    pins: tuple[Pin, ...] = ()

    @property
    def keys(self) -> dict[str, bytes]:
        """Public keys by key id, as `check_signature` takes them."""
        return {key_id(member.ed25519): member.ed25519 for member in self.members}

    def member_of(self, keyid: str) -> Member:
        """Whose key a trusted one is; ``KeyError`` for any other."""
        return {key_id(member.ed25519): member for member in self.members}[keyid]


# ---------------------------------------------------------------------------------------------------- writing


def encode_trust(trust: Trust) -> str:
    """The file's text."""
    contract: dict[str, object] = {"address": "0x" + trust.contract.hex()}
    if trust.code_hash is not None:
        contract["code_hash"] = trust.code_hash.hex()
    sections: list[tuple[str, Mapping[str, object]]] = [
        ("[chain]", {"id": trust.chain_id, "consensus": trust.consensus, "depth": trust.depth}),
        ("[contract]", contract),
        *(
            ("[[members]]", {"org": member.org, "name": member.name, "ed25519": member.ed25519.hex()})
            for member in trust.members
        ),
        *(("[[validators]]", _validators_json(entry)) for entry in trust.validators),
        ("[endorsement]", {"need": trust.endorsements_needed}),
        *(("[[pins]]", {"number": pin.number, "hash": pin.hash.hex()}) for pin in trust.pins),
    ]
    return "\n".join(_section(title, fields) for title, fields in sections)


def _validators_json(entry: Validators) -> dict[str, object]:
    return {
        "from": entry.from_block,
        "organisation": entry.organisation,
        "addresses": ["0x" + address.hex() for address in entry.addresses],
        "contract_mode": entry.contract_mode,
    }


def _section(title: str, fields: Mapping[str, object]) -> str:
    # JSON's texts, integers, booleans and lists of them are TOML's, but for one character.
    lines = (
        f"{key} = {json.dumps(value, ensure_ascii=False)}".replace("\x7f", "\\u007f")
        for key, value in fields.items()
    )
    return "\n".join([title, *lines, ""])


# ---------------------------------------------------------------------------------------------------- reading


def decode_trust(text: str) -> Trust:
    """A trust file from its text; closed: an unknown key is an error, for it may be a misspelt safeguard.

    Raises:
        MalformedError: ``trust-size``, ``trust-toml``, ``trust-keys`` or ``trust-value``; the key is named.
    """
    if len(text) > MAX_BYTES:
        raise MalformedError(f"trust file: more than {MAX_BYTES} characters", reason="trust-size")
    try:
        value = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise MalformedError(f"trust file: not TOML: {error!s:.200}", reason="trust-toml") from error
    top = _Table("", value)
    top.only(required=("chain", "contract"), optional=("members", "validators", "endorsement", "pins"))
    chain, contract, endorsement = top.table("chain"), top.table("contract"), top.table("endorsement")
    chain.only(required=("id", "consensus"), optional=("depth",))
    contract.only(required=("address",), optional=("code_hash",))
    endorsement.only(optional=("need",))
    return Trust(
        chain_id=chain.integer("id", 0, 2**256 - 1),
        consensus=chain.choice("consensus", CONSENSUS),
        depth=chain.integer("depth", 0, MAX_OFFSET, default=0),
        contract=contract.hex("address", 20),
        code_hash=contract.hex("code_hash", 32) if "code_hash" in contract.value else None,
        members=tuple(_member(entry) for entry in top.tables("members")),
        validators=tuple(_validators(entry) for entry in top.tables("validators")),
        endorsements_needed=endorsement.integer("need", 0, MAX_ORG, default=0),
        pins=tuple(_pin(entry) for entry in top.tables("pins")),
    )


def _member(entry: _Table) -> Member:
    entry.only(required=("org", "name", "ed25519"))
    return Member(entry.integer("org", 1, MAX_ORG), entry.text("name"), entry.hex("ed25519", 32))


def _validators(entry: _Table) -> Validators:
    entry.only(required=("from", "organisation", "addresses"), optional=("contract_mode",))
    return Validators(
        entry.integer("from", 0, MAX_OFFSET),
        entry.integer("organisation", 1, MAX_ORG),
        entry.hexes("addresses", 20),
        entry.flag("contract_mode"),
    )


def _pin(entry: _Table) -> Pin:
    entry.only(required=("number", "hash"))
    return Pin(entry.integer("number", 0, MAX_OFFSET), entry.hex("hash", 32))


@dataclass(frozen=True, slots=True)
class _Table:
    """A TOML table that is read strictly; ``name`` says where it stands."""

    name: str
    value: dict[str, Any]

    def only(self, required: Iterable[str] = (), optional: Iterable[str] = ()) -> None:
        required = tuple(required)
        missing = [key for key in required if key not in self.value]
        unknown = sorted(set(self.value).difference(required, optional))
        for what, keys in (("missing", missing), ("unknown", unknown)):
            if keys:
                raise MalformedError(
                    f"trust file: {what} key {self.name}{keys[0]!s:.60}", reason="trust-keys"
                )

    def table(self, key: str) -> _Table:
        return self._as_table(f"{key}.", self.value.get(key, {}))

    def tables(self, key: str) -> list[_Table]:
        entries = self._list(key, self.value.get(key, []))
        return [self._as_table(f"{key}[{at}].", entry) for at, entry in enumerate(entries)]

    def integer(self, key: str, low: int, high: int, default: int | None = None) -> int:
        number = self.value.get(key, default)
        if type(number) is not int or not low <= number <= high:
            raise self._refusal(key, f"an integer from {low} to {high}")
        return number

    def text(self, key: str) -> str:
        text = self.value[key]
        if type(text) is not str or not 0 < len(text) <= 256:
            raise self._refusal(key, "a text of 1 to 256 characters")
        return text

    def choice(self, key: str, choices: tuple[str, ...]) -> str:
        text = self.value[key]
        if text not in choices:
            raise self._refusal(key, "one of " + ", ".join(choices))
        return str(text)

    def flag(self, key: str) -> bool:
        flag = self.value.get(key, False)
        if type(flag) is not bool:
            raise self._refusal(key, "true or false")
        return flag

    def hex(self, key: str, size: int) -> bytes:
        return self._bytes(key, self.value[key], size)

    def hexes(self, key: str, size: int) -> tuple[bytes, ...]:
        return tuple(self._bytes(key, text, size) for text in self._list(key, self.value[key]))

    def _bytes(self, key: str, text: object, size: int) -> bytes:
        match = _HEX.fullmatch(text) if isinstance(text, str) else None
        if match is None or len(match[1]) != 2 * size:
            raise self._refusal(key, f"{2 * size} hex digits")
        return bytes.fromhex(match[1])

    def _list(self, key: str, value: object) -> list[Any]:
        if type(value) is not list or len(value) > _MAX_ENTRIES:
            raise self._refusal(key, f"a list of at most {_MAX_ENTRIES}")
        return value

    def _as_table(self, name: str, value: object) -> _Table:
        if type(value) is not dict:
            raise MalformedError(f"trust file: {name.rstrip('.')} is no table", reason="trust-value")
        return _Table(name, value)

    def _refusal(self, key: str, expected: str) -> MalformedError:
        return MalformedError(f"trust file: {self.name}{key}: expected {expected}", reason="trust-value")
