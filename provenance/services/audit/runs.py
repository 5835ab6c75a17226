"""One run against its seal: whether it is complete (`spec/records.md`, "Attempts and completeness").

The checks themselves are pure (`provenance.core.completeness`); here they get their records, and their
problems become findings. Records of other runs take part where a stage descends from them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from provenance.core.completeness import (
    check_inputs,
    check_stage,
    check_stage_records,
    is_sink,
    needed_stages,
)
from provenance.core.counting import Place, StageIds
from provenance.core.kinds import Input, Partition
from provenance.core.lists import ListHead, decode_list, list_name
from provenance.errors import ProvenanceError
from provenance.services.audit.findings import Severity
from provenance.services.audit.model import AnchorFacts, RunAudit, StageAudit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from provenance.core.completeness import Problem
    from provenance.core.counting import Counted
    from provenance.core.kinds import Seal, SealedStage, Stage
    from provenance.ports import BatchStore
    from provenance.services.anchored import AnchoredBatch
    from provenance.services.audit.catalogue import Catalogue, Position, Signed
    from provenance.services.audit.findings import Findings
    from provenance.services.audit.ledger import Ledger

__all__ = ["REJECTED", "RunCheck", "count_partitions"]

REJECTED = "#rejected:"
_NAMED = 10_000  # rejected files of a stage that are kept by name; all are counted
_NOTES = frozenset({"input-root-partial"})
# What may only not be there yet, while records of the run wait in the log.
_MAY_COME = frozenset(
    {
        "no-seal",
        "run-record-missing",
        "stage-record-missing",
        "partition-missing",
        "partitions-missing",
        "parent-missing",
        "parent-not-sealed",
        "input-not-counted",
    }
)


def count_partitions(
    ledger: Ledger, catalogue: Catalogue, runs: Iterable[bytes], store: BatchStore, findings: Findings
) -> dict[bytes, Counted]:
    """The settled records of every sealed stage of these runs and of their ancestors, by stage id."""
    related = catalogue.related(runs)
    sealed: dict[bytes, SealedStage] = {}
    for run in related:
        seal = catalogue.seal_of(run)
        sealed |= {} if seal is None else {stage.stage: stage for stage in seal.value.stages}
    collected = {stage: StageIds() for stage in sealed}
    for record, position in ledger.partitions(related, "collecting records"):
        partition = Partition.from_statement(record.statement)
        if partition.stage in collected:
            collected[partition.stage].add(record.id, partition, Place(position.batch, position.leaf))
    counted = {}
    for stage in list(collected):
        ids = collected.pop(stage)  # given back stage by stage: the arrays are most of the memory
        counted[stage] = _settle(ids, sealed[stage], store, findings)
    return counted


def _settle(ids: StageIds, sealed: SealedStage, store: BatchStore, findings: Findings) -> Counted:
    head = sealed.set_aside
    if not head.count:
        return ids.settle(sealed)
    try:
        data = store.get(list_name(head))
        if data is not None:
            return ids.settle(sealed, decode_list(data, head))
        message = (
            f"stage {sealed.name!r}: the list of {head.count} records set aside is not in the batch store"
        )
    except ProvenanceError as error:
        message = f"stage {sealed.name!r}: the list of records set aside cannot be used: {error.message}"
    # All attempts that the seal does not count may be exactly those: then nothing is missing but the list.
    counted = ids.settle(sealed)
    spare = [record for _, record in counted.spare]
    same = ListHead.over(spare) == head
    findings.add(
        Severity.WARNING if same else Severity.ERROR, "chain", "list-missing", message, stage=sealed.name
    )
    return ids.settle(sealed, spare) if same else counted


class RunCheck:
    """Checks one run, first its signed records and counts, then each counted partition as it is read.

    Args:
        run: the run's id.
        catalogue: all signed records.
        counted: from `count_partitions`.
        findings: takes every complaint.
        pending: whether records of the run wait in the log; what is missing may then be among them.
    """

    def __init__(
        self,
        run: bytes,
        catalogue: Catalogue,
        counted: Mapping[bytes, Counted],
        findings: Findings,
        *,
        pending: bool,
    ) -> None:
        self.run, self._catalogue, self._counted, self._findings = run, catalogue, counted, findings
        self._complete, self._pending = True, pending
        self._batches = _batches_of(run, catalogue)
        own = catalogue.stages_of(run)
        self.seal: Signed[Seal] | None = catalogue.seal_of(run)
        self.stages: dict[bytes, Stage] = {**own}
        for stage in own.values():
            for parent in stage.parents:
                if parent in catalogue.stages:
                    self.stages[parent] = catalogue.stages[parent].value
        self.sealed: dict[bytes, SealedStage] = {}
        if self.seal is not None:
            self.sealed = {stage.stage: stage for stage in self.seal.value.stages}
        self.result = self._facts()
        self.by_stage = {bytes.fromhex(stage.id): stage for stage in self.result.stages}

    # ------------------------------------------------------------------------------------------ signed
    # records

    def check_records(self) -> None:
        """The run's signed records, its seal, and the counts of each stage."""
        self._check_trust()
        if self.run not in self._catalogue.runs:
            self._fail(
                "run-record-missing", "the run's own record is not anchored, or not signed by a trusted key"
            )
        else:
            for dataset in self._catalogue.runs[self.run].value.datasets:
                if dataset not in self._catalogue.datasets:
                    self._fail(
                        "dataset-missing",
                        "a dataset that the run names is not anchored",
                        record=dataset.hex(),
                    )
        if self.seal is None:
            self._check_seals()
            return
        if self.seal.value.status != "complete":
            self._fail("run-aborted", f"the seal says that the run was {self.seal.value.status}")
        own = {**self.stages}
        self._take(check_stage_records(self.seal.value, own))
        needed = needed_stages({stage: own[stage] for stage in self.sealed if stage in own})
        for stage_id, sealed in self.sealed.items():
            if stage_id in own:
                counted = self._counted[stage_id]
                self._take(check_stage(sealed, own[stage_id], counted, needed=stage_id in needed))
                self._note_set_aside(sealed, counted)
        for stage_id, stage in own.items():
            if stage.run != self.run and stage_id not in self._counted:
                self._fail(
                    "parent-not-sealed",
                    "a parent stage of another run, which has no valid seal",
                    stage=stage.name,
                )

    def _check_trust(self) -> None:
        """What claims to be a signed record of this run and is not.

        Beside a valid seal it counts for nothing: whoever may write to the log could take every run away.
        """
        for refused in self._catalogue.refused:
            if refused.run == self.run:
                code = refused.reason if refused.reason in {"unknown-key", "signature"} else "refused-record"
                forged = "forged-seal" if refused.kind == "seal" else code
                place = {"record": refused.id.hex(), **refused.position.place}
                if self.seal is None:
                    self._fail(forged, refused.message, **place)
                else:
                    run = self.run.hex()
                    self._findings.add(Severity.WARNING, "chain", forged, refused.message, run=run, **place)

    def _check_seals(self) -> None:
        seals = self._catalogue.seals.get(self.run, {})
        if not seals:
            self._fail("no-seal", "the run has no valid seal")
            return
        for seal in list(seals.values())[1:]:
            self._fail(
                "second-seal",
                "the run has more than one valid seal",
                record=seal.id.hex(),
                **seal.position.place,
            )

    def _note_set_aside(self, sealed: SealedStage, counted: Counted) -> None:
        self.by_stage[sealed.stage].set_aside = len(counted.set_aside)
        for number, record in counted.set_aside:
            self._findings.add(
                Severity.WARNING,
                "chain",
                "set-aside",
                f"stage {sealed.name!r}, partition {number}: another attempt, which the seal sets aside",
                run=self.run.hex(),
                stage=sealed.name,
                shard=number,
                record=record.hex(),
            )

    # -------------------------------------------------------------------------------------------- partitions

    def check_partition(self, record: bytes, partition: Partition, position: Position) -> bool:
        """Check one anchored partition record of the run; True if it is a counted one, at its first place."""
        self._batches.add(position.batch)
        if self.seal is None:
            return False  # nothing is counted, and that has been said
        stage, counted = self.stages.get(partition.stage), self._counted.get(partition.stage)
        if stage is None or stage.run != self.run or counted is None:
            self._fail(
                "unknown-stage",
                f"a record of partition {partition.number} of a stage that the seal does not count",
                record=record.hex(),
                shard=partition.number,
                **position.place,
            )
            return False
        at = counted.find(partition.number)
        first = at is not None and counted.place_at(at) == Place(position.batch, position.leaf)
        if at is None or not first or counted.id_at(at) != record:
            return False
        self._take(check_inputs(record, partition, stage, self._counted), position)
        self._note_rejected(partition)
        return True

    def _note_rejected(self, partition: Partition) -> None:
        """Files that the stage could not use.

        Marked ones, or all that a rejected partition was to be made of.
        """
        audit = self.by_stage[partition.stage]
        found = [part.name.split(REJECTED, 1) for part in partition.subjects if REJECTED in part.name]
        if partition.rejected is not None and not found:
            inputs = [entry for entry in partition.inputs if isinstance(entry, Input)]
            names = [entry.name.split(REJECTED, 1) for entry in inputs] or [[f"partition {partition.number}"]]
            found = [[name[0], name[1] if len(name) > 1 else partition.rejected] for name in names]
        audit.rejected += len(found)
        audit.rejections += [(name, reason) for name, reason in found][: _NAMED - len(audit.rejections)]

    def finish(self, batches: Sequence[AnchoredBatch] = ()) -> RunAudit:
        """The run as it turned out; ``batches`` are all anchored ones, of which it names its own."""
        self.result.complete = self._complete and self.seal is not None
        self.result.anchors = tuple(
            AnchorFacts(
                stream=anchor.stream.hex(),
                seq=anchor.seq,
                records=anchor.leaf_count,
                gas=anchor.gas_used,
                block=anchor.block_number,
                time=anchor.block_time,
                transaction=anchor.transaction.hex(),
            )
            for anchor in (batch.anchor for batch in batches if batch.ordinal in self._batches)
        )
        return self.result

    # ------------------------------------------------------------------------------------------------- shared

    def _take(self, problems: Iterable[Problem], position: Position | None = None) -> None:
        for problem in problems:
            stage = self.stages.get(problem.stage or b"")
            place = {} if position is None else dict(position.place)
            if problem.code in _NOTES:
                self._findings.add(
                    Severity.NOTE, "chain", problem.code, problem.message, run=self.run.hex(), **place
                )
                continue
            self._fail(
                problem.code,
                problem.message,
                stage="" if stage is None else stage.name,
                shard=problem.number,
                record="" if problem.record is None else problem.record.hex(),
                expected=problem.expected,
                actual=problem.actual,
                **place,
            )

    def _fail(self, code: str, message: str, **place: object) -> None:
        self._complete = False
        severity = Severity.PENDING if self._pending and code in _MAY_COME else Severity.ERROR
        self._findings.add(severity, "chain", code, message, run=self.run.hex(), **place)

    def _facts(self) -> RunAudit:
        record = self._catalogue.runs.get(self.run)
        seal = None if self.seal is None else self.seal.value
        return RunAudit(
            id=self.run.hex(),
            name="" if record is None else record.value.name,
            started="" if record is None else record.value.started,
            status="not sealed" if seal is None else seal.status,
            ended="" if seal is None else seal.ended,
            seal="" if self.seal is None else self.seal.id.hex(),
            complete=False,
            stages=tuple(_stage_facts(entry, self.stages.get(entry.stage)) for entry in self.sealed.values()),
            consumptions=len(self._catalogue.consumptions.get(self.run, {})),
        )


def _batches_of(run: bytes, catalogue: Catalogue) -> set[int]:
    """Ordinals of the batches that hold the run's signed records."""
    signed: list[Signed[Any]] = [entry for entry in catalogue.stages.values() if entry.value.run == run]
    signed += [catalogue.runs[run]] if run in catalogue.runs else []
    signed += [*catalogue.seals.get(run, {}).values(), *catalogue.consumptions.get(run, {}).values()]
    return {entry.position.batch for entry in signed}


def _stage_facts(sealed: SealedStage, stage: Stage | None) -> StageAudit:
    return StageAudit(
        id=sealed.stage.hex(),
        name=sealed.name,
        transform="" if stage is None else stage.transform.name,
        parents=() if stage is None else tuple(parent.hex() for parent in stage.parents),
        partitions=sealed.partitions,
        rows=sealed.rows,
        bytes=sealed.bytes,
        is_sink=stage is not None and is_sink(stage),
    )
