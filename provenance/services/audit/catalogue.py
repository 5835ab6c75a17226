"""The signed records of a ledger, by what they are: what a run is made of, and who is not trusted.

They are few beside the partitions, and are kept decoded. A record whose signature does not hold, or whose key
is not trusted, is never used for anything; it is kept in ``refused``, so that whoever audits its run hears of
it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from provenance.core.kinds import Consumption, Dataset, Run, Seal, Stage
from provenance.core.records import check_signature
from provenance.errors import ConfigError, ProvenanceError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from provenance.core.records import Record

__all__ = ["Catalogue", "Position", "Refused", "Signed"]

_MIN_PREFIX = 4
_Kind = TypeVar("_Kind")


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """Where a leaf is anchored: ordinal of its batch in block order, index in it, and its name for people."""

    batch: int
    leaf: int
    stream: str
    seq: int
    offset: int

    @property
    def place(self) -> dict[str, str | int]:
        """As findings name it."""
        return {"stream": self.stream, "seq": self.seq, "offset": self.offset}


@dataclass(frozen=True, slots=True)
class Signed(Generic[_Kind]):
    """A signed record that was accepted.

    Its id, what it says, the key that signed it, where it stands first.
    """

    id: bytes
    value: _Kind
    key_id: str
    position: Position


@dataclass(frozen=True, slots=True)
class Refused:
    """A signed record that was not accepted, and why. ``run`` is the one that it names."""

    id: bytes
    kind: str
    run: bytes | None
    reason: str
    message: str
    position: Position


@dataclass(slots=True)
class Catalogue:
    """Accepted records by id.

    Seals and consumption records by run, in the order in which they are anchored.
    """

    keys: Mapping[str, bytes]
    datasets: dict[bytes, Signed[Dataset]] = field(default_factory=dict)
    runs: dict[bytes, Signed[Run]] = field(default_factory=dict)
    stages: dict[bytes, Signed[Stage]] = field(default_factory=dict)
    seals: dict[bytes, dict[bytes, Signed[Seal]]] = field(default_factory=dict)
    consumptions: dict[bytes, dict[bytes, Signed[Consumption]]] = field(default_factory=dict)
    refused: list[Refused] = field(default_factory=list)
    signatures: int = 0

    def add(self, record: Record, position: Position) -> None:
        """Take a signed record; a repeat of the same bytes counts once, where it stands first."""
        try:
            check_signature(record, self.keys)
            self._accept(record, position)
        except ProvenanceError as error:
            self.refused.append(
                Refused(record.id, record.kind, _run_of(record), error.reason, error.message, position)
            )
            return
        self.signatures += 1

    def _accept(self, record: Record, position: Position) -> None:
        statement, key = record.statement, record.key_id or ""
        if record.kind == "dataset":
            dataset = Dataset.from_statement(statement)
            self.datasets.setdefault(record.id, Signed(record.id, dataset, key, position))
        elif record.kind == "run":
            run = Run.from_statement(statement)
            self.runs.setdefault(record.id, Signed(record.id, run, key, position))
        elif record.kind == "stage":
            stage = Stage.from_statement(statement)
            self.stages.setdefault(record.id, Signed(record.id, stage, key, position))
        elif record.kind == "seal":
            seal = Seal.from_statement(statement)
            self.seals.setdefault(seal.run, {}).setdefault(record.id, Signed(record.id, seal, key, position))
        elif record.kind == "consumption":
            eaten = Consumption.from_statement(statement)
            self.consumptions.setdefault(eaten.source, {}).setdefault(
                record.id, Signed(record.id, eaten, key, position)
            )

    def sealed_runs(self) -> list[bytes]:
        """Runs with an accepted seal, in the order of their first one."""
        first = {run: min(entry.position for entry in seals.values()) for run, seals in self.seals.items()}
        return sorted(first, key=first.__getitem__)

    def seal_of(self, run: bytes) -> Signed[Seal] | None:
        """The run's seal: its only one. Two leave it without any."""
        seals = list(self.seals.get(run, {}).values())
        return seals[0] if len(seals) == 1 else None

    def stages_of(self, run: bytes) -> dict[bytes, Stage]:
        """Every accepted stage record of a run, in the order in which they are anchored."""
        own = [entry for entry in self.stages.values() if entry.value.run == run]
        return {entry.id: entry.value for entry in sorted(own, key=lambda entry: entry.position)}

    def related(self, runs: Iterable[bytes]) -> set[bytes]:
        """The runs themselves and every run that one of their stages descends from."""
        parents: dict[bytes, set[bytes]] = {}
        for entry in self.stages.values():
            found = {self.stages[one].value.run for one in entry.value.parents if one in self.stages}
            parents.setdefault(entry.value.run, set()).update(found)
        waiting, known = list(runs), set[bytes]()
        while waiting:
            run = waiting.pop()
            if run not in known:
                known.add(run)
                waiting += parents.get(run, ())
        return known

    def find_run(self, text: str) -> bytes | None:
        """The run whose id begins with these hex digits; None if there is none.

        Raises:
            ConfigError: ``run-prefix``: too few digits or none; ``run-ambiguous``: several runs begin so.
        """
        prefix = text.lower()
        if not _MIN_PREFIX <= len(prefix) <= 64 or prefix.strip("0123456789abcdef"):
            raise ConfigError(
                f"run {text!r:.80}: expected {_MIN_PREFIX} to 64 hex digits, the beginning of a run's id",
                reason="run-prefix",
                remedy="`provenance status` lists the runs.",
            )
        known = {*self.runs, *self.seals}
        hits = sorted(run for run in known if run.hex().startswith(prefix))
        if len(hits) > 1:
            raise ConfigError(
                f"run {text}: {len(hits)} runs begin so",
                reason="run-ambiguous",
                remedy=f"Give more digits: {', '.join(run.hex()[: len(prefix) + 4] for run in hits[:4])}.",
            )
        return hits[0] if hits else None


def _run_of(record: Record) -> bytes | None:
    if record.kind == "run":
        return record.id
    named = record.statement.predicate.get("run")
    return bytes.fromhex(named) if isinstance(named, str) else None
