"""The report of a run: every figure with what it rests on, as plain data that any renderer can show.

It makes no claim of its own. Figures come from an audit that is run for it, descriptions from signed records,
and each carries one of the five words (`provenance.core.evidence`). Names stand in it as records have them,
as tokens: plain names and paths stay in the private store.
"""

from __future__ import annotations

import dataclasses
import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from provenance.core.canonical import decode
from provenance.core.descriptor import decode_descriptor
from provenance.core.evidence import Evidence
from provenance.core.lists import decode_list, list_name
from provenance.core.merkle import leaf_hash
from provenance.core.runs import environment_name
from provenance.errors import ConfigError, ProvenanceError
from provenance.services.audit import examine, silent

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Mapping

    from provenance.core.descriptor import Descriptor
    from provenance.core.kinds import Consumption, Dataset, Run
    from provenance.core.lists import ListHead
    from provenance.ports import BatchStore
    from provenance.services.audit import AuditReport, Finding, Outcome, RunAudit
    from provenance.services.audit.catalogue import Catalogue, Signed
    from provenance.services.audit.ledger import AuditPorts, Progress

__all__ = ["DatasetReport", "EnvironmentReport", "Figure", "RunReport", "TrainingReport", "build_report"]

_MOST_ENVIRONMENTS = 32


@dataclass(frozen=True, slots=True)
class Figure:
    """A number or text, what it says, and what it rests on."""

    label: str
    value: str
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class DatasetReport:
    """A dataset record; ``descriptor`` is the file that it names, if the batch store has it."""

    record: str
    dataset: Dataset
    signer: str
    descriptor: Descriptor | None


@dataclass(frozen=True, slots=True)
class EnvironmentReport:
    """A worker's environment: its id, and what it says, flattened to texts."""

    id: str
    facts: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TrainingReport:
    """A consumption record.

    ``shards_hold`` is whether each shard that it lists is a counted one of the run.
    """

    record: str
    signer: str
    consumption: Consumption
    stage: str
    shards_hold: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """Everything on the page. ``made`` is when, ``version`` of this program."""

    made: dt.datetime
    version: str
    audit: AuditReport
    run: RunAudit
    record: Run | None
    signer: str
    figures: tuple[Figure, ...]
    datasets: tuple[DatasetReport, ...]
    environments: tuple[EnvironmentReport, ...]
    trainings: tuple[TrainingReport, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The audit's, without plain names and paths."""
        return tuple(dataclasses.replace(finding, detail="") for finding in self.audit.findings)

    @property
    def rejections(self) -> tuple[tuple[str, str, str], ...]:
        """(name or token, stage, reason) of each rejected file, once, at the first stage that rejected it."""
        first: dict[str, tuple[str, str, str]] = {}
        for stage in self.run.stages:
            for name, reason in stage.rejections:
                first.setdefault(name, (name, stage.name, reason))
        return tuple(first.values())


def build_report(
    ports: AuditPorts,
    run: str | None,
    *,
    level: str,
    now: dt.datetime,
    version: str,
    progress: Progress = silent,
) -> RunReport:
    """Audit a run and put its report together.

    Args:
        ports: as for an audit.
        run: the beginning of its id; the latest sealed run if None.
        level: of the audit.
        now: the time that the report bears.
        version: of this program.
        progress: as an audit's.

    Raises:
        ConfigError: there is no run to report on, or as `examine`.
        PendingError, UnavailableError: as `examine`.
    """
    outcome = examine(ports, run, level=level, progress=progress)
    if not outcome.report.runs:
        raise ConfigError(
            "no sealed run is anchored that could be reported on",
            reason="no-sealed-run",
            remedy="Seal a run, then `provenance batch`; `provenance audit` says what is wrong otherwise.",
        )
    (found,) = outcome.report.runs
    run_id = bytes.fromhex(found.id)
    record = outcome.catalogue.runs.get(run_id)
    return RunReport(
        made=now,
        version=version,
        audit=outcome.report,
        run=found,
        record=None if record is None else record.value,
        signer="" if record is None else record.key_id,
        figures=_figures(outcome.report, found),
        datasets=_datasets(outcome.catalogue, record, ports.store),
        environments=_environments(record, ports.store),
        trainings=_trainings(outcome, run_id, ports.store),
    )


def _figures(report: AuditReport, run: RunAudit) -> tuple[Figure, ...]:
    """The few numbers that a reader looks for first."""
    word, data = report.evidence, report.data
    sources = [stage for stage in run.stages if not stage.parents]
    sinks = [stage for stage in run.stages if stage.is_sink]
    rejected = len({name for stage in run.stages for name, _ in stage.rejections})
    named = all(stage.rejected == len(stage.rejections) for stage in run.stages)
    figures = [
        ("partitions of raw data", sum(stage.partitions for stage in sources), word),
        ("stored partitions", sum(stage.partitions for stage in sinks), word),
        ("rejected files" if named else "rejected files, or more", rejected, word),
        ("batches", len(run.anchors), word),
        ("gas of these batches", sum(anchor.gas for anchor in run.anchors), word),
    ]
    if "data" in report.levels:
        figures += [
            ("raw files read again", data.raw_files, Evidence.COMPUTED),
            ("stored objects read again", data.objects, Evidence.COMPUTED),
            ("bytes read again", data.bytes, Evidence.COMPUTED),
        ]
    return tuple(Figure(label, f"{value:,}", evidence) for label, value, evidence in figures)


def _datasets(catalogue: Catalogue, run: Signed[Run] | None, store: BatchStore) -> tuple[DatasetReport, ...]:
    found = []
    for dataset_id in () if run is None else run.value.datasets:
        dataset = catalogue.datasets.get(dataset_id)
        if dataset is not None:
            descriptor = _descriptor(dataset.value, store)
            found.append(DatasetReport(dataset_id.hex(), dataset.value, dataset.key_id, descriptor))
    return tuple(found)


def _descriptor(dataset: Dataset, store: BatchStore) -> Descriptor | None:
    """The file that a dataset record names; None if the store's is missing or another one."""
    try:
        data = store.get(f"datasets/{dataset.descriptor.hex()}.toml")
        # Compared first: whoever owns the store could give a parser work for hours.
        if data is None or hashlib.sha256(data).digest() != dataset.descriptor:
            return None
        return decode_descriptor(data)
    except ProvenanceError:
        return None


def _environments(run: Signed[Run] | None, store: BatchStore) -> tuple[EnvironmentReport, ...]:
    found = []
    ids = [] if run is None else _ids(run.value.environments, store) or []
    for environment in ids[:_MOST_ENVIRONMENTS]:
        try:
            data = store.get(environment_name(environment))
            if data is not None and leaf_hash(data) == environment:
                found.append(EnvironmentReport(environment.hex(), dict(_flat(decode(data)))))
        except ProvenanceError:
            continue  # what cannot be read is not shown; the run record says how many there are
    return tuple(found)


def _ids(head: ListHead, store: BatchStore) -> list[bytes] | None:
    try:
        data = store.get(list_name(head))
        return None if data is None else decode_list(data, head)
    except ProvenanceError:
        return None


def _flat(value: Any, prefix: str = "") -> list[tuple[str, str]]:
    if isinstance(value, dict):
        return [row for key, inner in value.items() for row in _flat(inner, f"{prefix}{key} ")]
    if isinstance(value, list):
        return [(prefix.strip(), ", ".join(str(item) for item in value))]
    return [(prefix.strip(), str(value))]


def _trainings(outcome: Outcome, run: bytes, store: BatchStore) -> tuple[TrainingReport, ...]:
    names = {bytes.fromhex(stage.id): stage.name for one in outcome.report.runs for stage in one.stages}
    found = []
    for record in outcome.catalogue.consumptions.get(run, {}).values():
        eaten = record.value
        ids, counted = _ids(eaten.shards, store), outcome.counted.get(eaten.stage)
        holds = None if ids is None else counted is not None and all(one in counted for one in ids)
        stage = names.get(eaten.stage, eaten.stage.hex())
        found.append(TrainingReport(record.id.hex(), record.key_id, eaten, stage, holds))
    return tuple(found)
