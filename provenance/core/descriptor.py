"""``dataset.toml``: what a dataset is, whose it is, where it came from, and what its people consented to.

A person writes it; a dataset record names it by its SHA-256, and the batch store keeps its bytes. So it is
closed and bounded, and refuses what must not be kept for ever: addresses with a user, password, query or
fragment in them (`spec/records.md`, "Personal data never stand in a record").
"""

from __future__ import annotations

import datetime as dt
import difflib
import hashlib
import re
import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from provenance.core.kinds import Dataset
from provenance.core.tokens import strip_address
from provenance.errors import MalformedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["MAX_BYTES", "Consent", "Descriptor", "RightsHolder", "Source", "decode_descriptor"]

MAX_BYTES = 262_144
MAX_TEXT = 512  # of a name in a record
MAX_PROSE = 4096
MAX_ENTRIES = 1024
_HEX = re.compile(r"[0-9a-f]{64}")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class RightsHolder:
    """Who holds rights in the data; ``role`` says which (author, performer, producer …)."""

    name: str
    role: str = ""
    address: str = ""
    licence: str = ""


@dataclass(frozen=True, slots=True)
class Source:
    """Where data came from: how and when it was collected, and what opt-outs were observed.

    Both days of the period belong to it.
    """

    title: str
    address: str = ""
    licence: str = ""
    collection: str = ""
    collected_from: dt.date | None = None
    collected_until: dt.date | None = None
    opt_outs: str = ""


@dataclass(frozen=True, slots=True)
class Consent:
    """A consent document by its SHA-256 in hex: what it allows, to what end, where, from when to when.

    ``expires`` is the last day; None if it does not expire.
    """

    document: str
    scope: str
    purpose: str
    territory: str
    granted: dt.date | None = None
    expires: dt.date | None = None


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A dataset's descriptor. ``sha256`` is of the file's bytes, as they came."""

    sha256: bytes
    name: str
    version: str
    title: str
    licence: str
    names_are_personal: bool
    description: str = ""
    rights_holders: tuple[RightsHolder, ...] = ()
    sources: tuple[Source, ...] = ()
    consent: tuple[Consent, ...] = ()

    def dataset(self) -> Dataset:
        """What the dataset record says."""
        return Dataset(self.name, self.version, self.licence, self.names_are_personal, self.sha256)


def decode_descriptor(data: bytes) -> Descriptor:
    """A descriptor from the bytes of ``dataset.toml``.

    Raises:
        MalformedError: it names the key, what was expected there and what was found; ``reason`` is one of
            ``too-long``, ``not-utf-8``, ``not-toml``, ``unknown-key``, ``missing-key``, ``type``, ``length``,
            ``control-character``, ``digest``, ``address``, ``period``.
    """
    if len(data) > MAX_BYTES:
        raise MalformedError(
            f"dataset.toml: {len(data)} bytes, expected at most {MAX_BYTES}", reason="too-long"
        )
    table = _Table("", _parse(data))
    descriptor = Descriptor(
        sha256=hashlib.sha256(data).digest(),
        name=table.text("name"),
        version=table.text("version"),
        title=table.text("title"),
        licence=table.text("licence"),
        names_are_personal=table.boolean("names_are_personal"),
        description=table.prose("description"),
        rights_holders=table.each("rights_holders", _rights_holder),
        sources=table.each("sources", _source),
        consent=table.each("consent", _consent),
    )
    table.finish()
    return descriptor


def _rights_holder(table: _Table) -> RightsHolder:
    return RightsHolder(
        name=table.text("name"),
        role=table.text("role", ""),
        address=table.address("address"),
        licence=table.text("licence", ""),
    )


def _source(table: _Table) -> Source:
    source = Source(
        title=table.text("title"),
        address=table.address("address"),
        licence=table.text("licence", ""),
        collection=table.prose("collection"),
        collected_from=table.date("collected_from"),
        collected_until=table.date("collected_until"),
        opt_outs=table.prose("opt_outs"),
    )
    table.require_order("collected_from", "collected_until", source.collected_from, source.collected_until)
    return source


def _consent(table: _Table) -> Consent:
    consent = Consent(
        document=table.digest("document"),
        scope=table.text("scope"),
        purpose=table.text("purpose"),
        territory=table.text("territory"),
        granted=table.date("granted"),
        expires=table.date("expires"),
    )
    table.require_order("granted", "expires", consent.granted, consent.expires)
    return consent


def _parse(data: bytes) -> dict[str, Any]:
    try:
        return tomllib.loads(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise MalformedError(f"dataset.toml: not UTF-8 at byte {error.start}", reason="not-utf-8") from error
    except (ValueError, RecursionError) as error:  # ValueError: also a number of thousands of digits
        raise MalformedError(
            f"dataset.toml: not TOML: {error!s:.200}", reason="not-toml", remedy="Correct that line."
        ) from error


class _Table:
    """One table, whose keys are asked for one after the other; what nobody asked for is unknown."""

    def __init__(self, where: str, content: Mapping[str, Any]) -> None:
        self._where = where
        self._content = content
        self._known: list[str] = []

    def text(self, key: str, default: str | None = None, *, limit: int = MAX_TEXT) -> str:
        value = self._take(key, str, "text", default)
        if default is None and not value.strip():
            raise self._wrong(key, "text", "none", "length", remedy=f"Fill in {self._name(key)}.")
        if len(value) > limit:
            raise self._wrong(key, f"at most {limit} characters", str(len(value)), "length")
        # A record's text is shown on terminals and pages; prose may have its lines.
        allowed = "\n\t" if limit == MAX_PROSE else ""
        if any(not (char.isprintable() or char in allowed) for char in value):
            raise self._wrong(key, "text", "a control character", "control-character")
        return value

    def prose(self, key: str) -> str:
        return self.text(key, "", limit=MAX_PROSE)

    def boolean(self, key: str) -> bool:
        return self._take(key, bool, "true or false", None)

    def digest(self, key: str) -> str:
        value = self.text(key)
        if not _HEX.fullmatch(value):
            raise self._wrong(key, "a SHA-256 of 64 lower-case hex digits", repr(value[:80]), "digest")
        return value

    def date(self, key: str) -> dt.date | None:
        if key not in self._content:
            self._known.append(key)
            return None
        value = self._take(key, dt.date, "a date like 2026-01-31, without quotes", None)
        if isinstance(value, dt.datetime):
            raise self._wrong(key, "a date like 2026-01-31, without a time", str(value), "type")
        return value

    def address(self, key: str) -> str:
        value = self.text(key, "")
        try:
            same = not value or strip_address(value).casefold() == value.casefold()  # a host's case is free
        except MalformedError:
            same = False
        if not same:  # and is not shown: it may hold a password
            raise self._wrong(
                key,
                "an address without user, password, query and fragment",
                "another",
                "address",
                remedy="Take them out: this file is kept for ever, and shown to others.",
            )
        return value

    def each(self, key: str, make: Callable[[_Table], _T]) -> tuple[_T, ...]:
        entries = self._take(key, list, f"tables headed [[{key}]]", [])
        if not all(isinstance(entry, dict) for entry in entries):
            raise self._wrong(key, f"tables headed [[{key}]]", "other values", "type")
        if len(entries) > MAX_ENTRIES:
            raise self._wrong(key, f"at most {MAX_ENTRIES} entries", str(len(entries)), "length")
        made = []
        for number, entry in enumerate(entries, start=1):
            table = _Table(f"{key}[{number}].", entry)
            made.append(make(table))
            table.finish()
        return tuple(made)

    def require_order(self, first: str, second: str, start: dt.date | None, end: dt.date | None) -> None:
        if start is not None and end is not None and end < start:
            raise self._wrong(second, f"no day before {first} ({start})", str(end), "period")

    def finish(self) -> None:
        """Refuse what nobody asked for."""
        for key in self._content:
            if key not in self._known:
                (near,) = difflib.get_close_matches(key, self._known, n=1, cutoff=0)
                raise MalformedError(
                    f"dataset.toml: {self._name(key)!r:.200} means nothing here",
                    reason="unknown-key",
                    remedy=f"The nearest key is {near}; these are known: {', '.join(self._known)}.",
                )

    def _take(self, key: str, kind: type[_T], expected: str, default: _T | None) -> _T:
        self._known.append(key)
        if key not in self._content:
            if default is None:
                raise MalformedError(
                    f"dataset.toml: {self._name(key)} is missing, expected {expected}", reason="missing-key"
                )
            return default
        value = self._content[key]
        if not isinstance(value, kind):
            raise self._wrong(key, expected, f"{type(value).__name__} {value!r:.80}", "type")
        return value

    def _name(self, key: str) -> str:
        return f"{self._where}{key}"

    def _wrong(self, key: str, expected: str, found: str, reason: str, *, remedy: str = "") -> MalformedError:
        return MalformedError(
            f"dataset.toml: {self._name(key)}: expected {expected}, found {found}",
            reason=reason,
            remedy=remedy,
        )
