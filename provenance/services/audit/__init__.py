"""The audit: does what is anchored hold, is it whole, are the bytes still those, and do they come out again.

Three levels, each including the one before. **chain**: every batch file against its anchor, every leaf, every
signature, every run against its seal. **data**: every stored byte of sources and sinks. **replay**:
everything computed again from raw. The order of trust is that of the design: the chain is believed about
position, batch files about content, the index about nothing.

::

    ledger      the passes over the batches; complaints about files  →  locate
    catalogue   the signed records, by what they are
    runs        one run against its seal                             →  provenance.core.completeness
    data        stored bytes                                         →  stores
    replay      everything once more, through the `Replayer` port
    findings, model    what comes out

On a chain without seals everything here is on a node's word, and is never called proved.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from provenance.core.kinds import Partition
from provenance.errors import ConfigError, PendingError
from provenance.services.audit.data import DataCheck
from provenance.services.audit.findings import LEVELS, Finding, Findings, Severity
from provenance.services.audit.ledger import AuditPorts, Ledger
from provenance.services.audit.model import AuditReport, RunAudit, StageAudit, StageReplay
from provenance.services.audit.replay import ReplayCheck
from provenance.services.audit.runs import RunCheck, count_partitions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from provenance.core.counting import Counted
    from provenance.services.audit.catalogue import Catalogue
    from provenance.services.audit.ledger import Pending, Progress

__all__ = [
    "LEVELS",
    "AuditPorts",
    "AuditReport",
    "Finding",
    "Outcome",
    "RunAudit",
    "Severity",
    "StageAudit",
    "StageReplay",
    "audit",
    "examine",
    "silent",
]


@contextlib.contextmanager
def silent(label: str, total: int | None) -> Iterator[Callable[[int], None]]:  # noqa: ARG001 - as the real one
    """Progress that nobody sees."""
    yield lambda _: None


@dataclass(frozen=True, slots=True)
class Outcome:
    """An audit's report, with what it stands on: signed records, and settled partitions by stage."""

    report: AuditReport
    catalogue: Catalogue
    counted: dict[bytes, Counted]


def audit(
    ports: AuditPorts,
    run: str | None = None,
    *,
    level: str = "data",
    every_run: bool = False,
    progress: Progress = silent,
) -> AuditReport:
    """Audit one run, or every sealed one.

    Args:
        ports: what to look at.
        run: the beginning of a run's id, 4 hex digits or more; the latest sealed run if None.
        level: ``chain``, ``data`` or ``replay``.
        every_run: all sealed runs.
        progress: as `provenance.cli._frame.progress`.

    Raises:
        ConfigError: no such run, several, or a level that cannot be had here.
        PendingError: the run is in the log and nothing of it is anchored yet.
        UnavailableError: the node, the log or the store cannot be reached.
    """
    return examine(ports, run, level=level, every_run=every_run, progress=progress).report


def examine(
    ports: AuditPorts,
    run: str | None = None,
    *,
    level: str = "data",
    every_run: bool = False,
    progress: Progress = silent,
) -> Outcome:
    """As `audit`, for those who need the records too."""
    if level not in LEVELS:
        raise ConfigError(f"level {level!r:.40}: expected one of {', '.join(LEVELS)}", reason="level")
    if level == "replay" and ports.replayer is None:
        raise ConfigError(
            "level replay: nothing here can compute a run again",
            reason="no-replayer",
            remedy="Install provenance-ledger[dask].",
        )
    findings = Findings()
    ledger = Ledger(ports, findings, progress)
    catalogue = ledger.take_stock()
    pending = ledger.pending()
    try:
        runs = _choose(catalogue, pending, run, every_run=every_run)
    except ConfigError as error:
        if error.reason != "no-such-run" or findings.worst() < Severity.UNREACHABLE:
            raise
        runs = []  # it may be in what was lost, which is found already
    _note_pending(findings, pending, runs)
    counted = count_partitions(ledger, catalogue, runs, ports.store, findings)
    examination = _Examination(ports, findings, ledger, catalogue, pending, counted, progress)
    audits = examination.examine(runs, level)
    report = AuditReport(
        level=level,
        chain=ledger.facts(),
        streams=ledger.streams(),
        counts=ledger.counts,
        runs=audits,
        findings=tuple(findings),
        omitted=findings.omitted,
        severities={one: findings.worst([one]) for one in LEVELS[: LEVELS.index(level) + 1]},
    )
    return Outcome(report, catalogue, counted)


def _choose(catalogue: Catalogue, pending: Pending, text: str | None, *, every_run: bool) -> list[bytes]:
    sealed = catalogue.sealed_runs()
    if every_run:
        return sealed
    if text is None:
        return sealed[-1:]
    found = catalogue.find_run(text)
    if found is not None:
        return [found]
    if any(run.hex().startswith(text.lower()) for run in pending.runs):
        raise PendingError(
            f"run {text}: its records wait in the log, none is anchored yet",
            reason="run-pending",
            remedy="Anchor them: `provenance batch`.",
        )
    raise ConfigError(
        f"run {text}: no run is anchored under that id",
        reason="no-such-run",
        remedy="`provenance status` lists the runs.",
    )


def _note_pending(findings: Findings, pending: Pending, runs: list[bytes]) -> None:
    if not runs:
        findings.add(
            Severity.PENDING, "chain", "no-sealed-run", "no sealed run is anchored: there is nothing to audit"
        )
    for run in runs:
        if run in pending.runs:
            findings.add(
                Severity.PENDING,
                "chain",
                "records-pending",
                "records of the run wait in the log and are not anchored yet",
                run=run.hex(),
            )


@dataclass(frozen=True, slots=True)
class _Examination:
    """What all runs of one audit share."""

    ports: AuditPorts
    findings: Findings
    ledger: Ledger
    catalogue: Catalogue
    pending: Pending
    counted: dict[bytes, Counted]
    progress: Progress

    def examine(self, runs: list[bytes], level: str) -> tuple[RunAudit, ...]:
        checks = {run: self._check(run) for run in runs}
        data = {run: self._data(check) for run, check in checks.items()} if level != "chain" else {}
        label = "reading data" if data else "following inputs"
        for record, position in self.ledger.partitions(checks.keys(), label):
            partition = Partition.from_statement(record.statement)
            check = checks[partition.run]
            if check.check_partition(record.id, partition, position) and partition.run in data:
                data[partition.run].visit(partition)
        for run, check in checks.items():
            if run in data:
                data[run].finish()
            if level == "replay" and self.ports.replayer is not None and check.seal is not None:
                replay = ReplayCheck(
                    check,
                    counted=self.counted,
                    ledger=self.ledger,
                    replayer=self.ports.replayer,
                    findings=self.findings,
                )
                replay.check(data[run].changed, self.progress)
        return tuple(check.finish(self.ledger.survey.batches) for check in checks.values())

    def _check(self, run: bytes) -> RunCheck:
        pending = run in self.pending.runs
        check = RunCheck(run, self.catalogue, self.counted, self.findings, pending=pending)
        check.check_records()
        return check

    def _data(self, check: RunCheck) -> DataCheck:
        return DataCheck(
            check,
            names=self.ports.names,
            files=self.ports.files,
            store=self.ports.store,
            findings=self.findings,
        )
