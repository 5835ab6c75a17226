"""What an audit returns: counts for each level, what it says of each run and stage, and the findings."""

from __future__ import annotations

import dataclasses
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from provenance.core.evidence import Evidence
from provenance.core.replays import Verdict, worst
from provenance.services.audit.findings import LEVELS, Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "AnchorFacts",
    "AuditReport",
    "ChainCounts",
    "ChainFacts",
    "DataCounts",
    "RunAudit",
    "StageAudit",
    "StageReplay",
    "StreamFacts",
]

EXIT_CODES = {
    Severity.NOTE: 0,
    Severity.WARNING: 0,
    Severity.ERROR: 1,
    Severity.UNREACHABLE: 3,
    Severity.PENDING: 4,
}
_WORDS = {
    Severity.NOTE: "passed",
    Severity.WARNING: "passed",
    Severity.PENDING: "pending",
    Severity.UNREACHABLE: "not all could be reached",
    Severity.ERROR: "failed",
}


@dataclass(frozen=True, slots=True)
class ChainFacts:
    """The chain and contract that were asked; hashes in hex."""

    kind: str
    chain_id: int
    contract: str
    code_hash: str


@dataclass(frozen=True, slots=True)
class StreamFacts:
    """A stream as the chain has it. ``gas`` is what its anchors used."""

    stream: str
    org: int
    generation: int
    batches: int
    records: int
    next_offset: int
    gas: int
    closed: bool


@dataclass(slots=True)
class ChainCounts:
    """What the chain level looked at."""

    streams: int = 0
    batches: int = 0
    records: int = 0
    rejected: int = 0
    signatures: int = 0
    bytes: int = 0
    gas: int = 0
    pending: int = 0


@dataclass(slots=True)
class DataCounts:
    """What the data level read: raw files, stored parts, the objects that they are made of, bytes."""

    raw_files: int = 0
    stored_parts: int = 0
    objects: int = 0
    bytes: int = 0

    def add(self, other: DataCounts) -> None:
        """Take another's counts in."""
        for entry in dataclasses.fields(self):
            setattr(self, entry.name, getattr(self, entry.name) + getattr(other, entry.name))


@dataclass(slots=True)
class StageReplay:
    """The replay of one stage.

    How many partitions got which verdict, and whether its code has changed since.
    """

    verdicts: dict[Verdict, int] = field(default_factory=dict)
    code_changed: bool = False

    @property
    def verdict(self) -> Verdict:
        """The worst one."""
        return worst(verdict for verdict, count in self.verdicts.items() if count)

    @property
    def words(self) -> str:
        """The verdict as it is written; changed code with equal output is a verdict of its own."""
        if not any(self.verdicts.values()):
            return "not replayed"
        if self.code_changed and self.verdict < Verdict.FAILED:
            return f"code changed, output equal ({self.verdict.words})"
        return self.verdict.words + (", code changed" if self.code_changed else "")


@dataclass(frozen=True, slots=True)
class AnchorFacts:
    """A batch that holds records of a run, and where a node says that it is anchored.

    ``time`` is the block's.
    """

    stream: str
    seq: int
    records: int
    gas: int
    block: int
    time: int
    transaction: str


@dataclass(slots=True)
class StageAudit:
    """What is known of one stage of a run.

    ``rejections`` holds (name or token, reason) of files that it could not use, the first ones; ``rejected``
    counts them all.
    """

    id: str
    name: str
    transform: str
    parents: tuple[str, ...]
    partitions: int
    rows: int
    bytes: int
    is_sink: bool
    set_aside: int = 0
    rejected: int = 0
    rejections: list[tuple[str, str]] = field(default_factory=list)
    data: DataCounts = field(default_factory=DataCounts)
    replay: StageReplay | None = None


@dataclass(slots=True)
class RunAudit:
    """What is known of one run. ``complete`` is the spec's word, and true only if nothing contradicts it."""

    id: str
    name: str
    started: str
    status: str
    ended: str
    seal: str
    complete: bool
    stages: tuple[StageAudit, ...] = ()
    anchors: tuple[AnchorFacts, ...] = ()
    consumptions: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditReport:
    """The whole result. ``level`` is the highest one that ran; what did not run has no verdict."""

    level: str
    chain: ChainFacts
    streams: tuple[StreamFacts, ...]
    counts: ChainCounts
    runs: tuple[RunAudit, ...]
    findings: tuple[Finding, ...]
    omitted: Mapping[str, int]
    severities: Mapping[str, Severity]
    evidence: Evidence = Evidence.NODES_WORD

    @property
    def levels(self) -> tuple[str, ...]:
        """The levels that ran, in order: each includes those before it."""
        return LEVELS[: LEVELS.index(self.level) + 1]

    @property
    def worst(self) -> Severity:
        """The worst of all."""
        return max(self.severities.values(), default=Severity.NOTE)

    @property
    def exit_code(self) -> int:
        """0 passed, 1 findings, 3 something is unreachable, 4 anchors are pending."""
        return EXIT_CODES[self.worst]

    def verdict(self, level: str) -> str:
        """What a level came to, in a word."""
        return _WORDS[self.severities[level]] if level in self.severities else "not run"

    @property
    def data(self) -> DataCounts:
        """The data level's counts over all runs."""
        total = DataCounts()
        for run in self.runs:
            for stage in run.stages:
                total.add(stage.data)
        return total

    def as_json(self) -> dict[str, Any]:
        """As ``--json`` shows it."""
        return {
            "level": self.level,
            "passed": self.exit_code == 0,
            "exit_code": self.exit_code,
            "evidence": self.evidence.value,
            "verdicts": {level: self.verdict(level) for level in LEVELS},
            "chain": dataclasses.asdict(self.chain),
            "streams": [dataclasses.asdict(stream) for stream in self.streams],
            "counts": {"chain": dataclasses.asdict(self.counts), "data": dataclasses.asdict(self.data)},
            "runs": [_run_json(run) for run in self.runs],
            "findings": [finding.as_json() for finding in self.findings],
            "omitted": dict(self.omitted),
        }


def _run_json(run: RunAudit) -> dict[str, Any]:
    value = {entry.name: getattr(run, entry.name) for entry in dataclasses.fields(run)}
    stages = [_stage_json(stage) for stage in run.stages]
    return {**value, "stages": stages, "anchors": [dataclasses.asdict(anchor) for anchor in run.anchors]}


def _stage_json(stage: StageAudit) -> dict[str, Any]:
    value = {entry.name: getattr(stage, entry.name) for entry in dataclasses.fields(stage)}
    value |= {"parents": list(stage.parents), "rejections": dict(Counter(why for _, why in stage.rejections))}
    value |= {"data": dataclasses.asdict(stage.data), "replay": None}
    if stage.replay is not None:
        value["replay"] = {
            "verdict": stage.replay.words,
            "code_changed": stage.replay.code_changed,
            "partitions": {verdict.words: count for verdict, count in stage.replay.verdicts.items()},
        }
    return value
