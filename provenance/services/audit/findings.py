"""Findings: what an audit has to say, each with a stable code, a place and a next step.

A finding names where it is as narrowly as it is known: stage and shard, object and chunk for stored data;
stream, seq, offset and byte for batch files. ``detail`` is the only field that may hold a plain name or a
path: it is shown to those who have the private store, and goes into no report.
"""

from __future__ import annotations

import enum
from collections import Counter
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["LEVELS", "NEXT_STEPS", "Finding", "Findings", "Severity"]

LEVELS = ("chain", "data", "replay")
_MOST_OF_A_KIND = 200  # findings kept of one code and stage; the rest are counted


class Severity(enum.IntEnum):
    """What a finding means for the verdict; a higher value is worse."""

    NOTE = 0
    WARNING = 1
    PENDING = 2
    UNREACHABLE = 3
    ERROR = 4

    @property
    def word(self) -> str:
        """In lower case, as it is printed."""
        return self.name.lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that an audit found. Ids and digests are hex here; ``shard`` is a partition number."""

    severity: Severity
    level: str
    code: str
    message: str
    run: str = ""
    stage: str = ""
    shard: int | None = None
    record: str = ""
    object: str = ""
    chunk: str = ""
    stream: str = ""
    seq: int | None = None
    offset: int | None = None
    byte: int | None = None
    expected: str = ""
    actual: str = ""
    detail: str = ""
    next_step: str = ""

    def as_json(self) -> dict[str, Any]:
        """The fields that say something."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        values["severity"] = self.severity.word
        return {name: value for name, value in values.items() if value not in ("", None)}


class Findings:
    """Collects findings; of very many alike it keeps the first ones and counts the rest."""

    def __init__(self) -> None:
        self._kept: list[Finding] = []
        self._counts: Counter[tuple[str, str]] = Counter()
        self._worst: dict[str, Severity] = {}

    def add(self, severity: Severity, level: str, code: str, message: str, **place: Any) -> None:
        """Take a finding; its next step is that of its code unless one is given."""
        place.setdefault("next_step", NEXT_STEPS.get(code, ""))
        finding = Finding(severity=severity, level=level, code=code, message=message, **place)
        self._worst[level] = max(severity, self._worst.get(level, Severity.NOTE))
        kind = (code, finding.stage)
        self._counts[kind] += 1
        if self._counts[kind] <= _MOST_OF_A_KIND:
            self._kept.append(finding)

    def __iter__(self) -> Iterator[Finding]:
        """Worst first; within that as they were found."""
        return iter(sorted(self._kept, key=lambda finding: -finding.severity))

    def worst(self, levels: Iterable[str] = LEVELS) -> Severity:
        """The worst severity in these levels; NOTE if there is nothing."""
        return max((self._worst.get(level, Severity.NOTE) for level in levels), default=Severity.NOTE)

    @property
    def omitted(self) -> dict[str, int]:
        """How many findings of each code were counted and not kept."""
        left: Counter[str] = Counter()
        for (code, _), count in self._counts.items():
            left[code] += max(0, count - _MOST_OF_A_KIND)
        return {code: count for code, count in left.items() if count}


_RESTORE = (
    "Restore the file from a copy of the batch store, or let `provenance batch` make it again from the log."
)
_LOOK = "Find out who changed it before anything is trained on it."
NEXT_STEPS = {
    "missing-file": _RESTORE,
    "batch-changed": _RESTORE,
    "other-acc": _RESTORE,
    "orphan-file": "Nothing is wrong: a batch that was put and not anchored. It may be removed.",
    "extra-file": "Remove it, if nobody knows what it is for.",
    "chain-behind": "Anchor it: `provenance up`, then `provenance batch`.",
    "records-pending": "Anchor them: `provenance batch`.",
    "no-sealed-run": "Seal a run and anchor it: `provenance batch`.",
    "unknown-key": "If it is the organisation's key, add it to the trusted ones; else find out who wrote it.",
    "signature": "Nobody with a trusted key wrote this record: find out who did.",
    "no-seal": "Seal the run (`run.seal()`), then `provenance batch`.",
    "second-seal": "Treat the run as not sealed until it is known who wrote the other seal.",
    "run-aborted": "Run it again; an aborted run is never complete.",
    "partition-missing": "Look for the record in the log; without it the shard cannot be proved.",
    "not-counted": _LOOK,
    "set-aside": "Make the transform deterministic, or give its stage a tolerance.",
    "list-missing": "Restore the list from a copy of the batch store.",
    "location-unknown": "Run the audit where the .provenance folder of the run is.",
    "raw-missing": "Restore the raw file; without it the run cannot be replayed.",
    "raw-changed": "Restore the raw file from a copy: what was recorded is its SHA-256.",
    "object-missing": "Restore the store from a copy, or write it again with the same pipeline.",
    "object-changed": "Restore the object from a copy; a loader refuses the shard as it is.",
    "object-extra": "Remove it, if nobody knows what it is for.",
    "store-changed": "Restore the store from a copy, or write it again with the same pipeline.",
    "unreadable": "Make it readable for this user, then audit again.",
    "transform-missing": "Install the code that the stage names, in the recorded version, then audit again.",
    "replay-failed": "Compare code, packages and raw files with those that the run recorded.",
    "code-changed": "Nothing is wrong with the data: the outputs are equal.",
}
