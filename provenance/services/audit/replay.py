"""The replay level: a run's transforms are run again from the raw files, and every partition is compared.

A partition computed again that gives the recorded id is bit-exact, and nothing else is looked at. Where ids
differ the recorded one is fetched and digests are compared; where those differ in a stored partition, values
are, which names the place and is held against the stage's tolerance. Changed code with equal output is a
verdict of its own: cosmetic changes alarm nobody.
"""

from __future__ import annotations

from array import array
from collections import Counter
from typing import TYPE_CHECKING

from provenance.core import merkle
from provenance.core.completeness import is_sink
from provenance.core.kinds import Partition
from provenance.core.records import encode_record
from provenance.core.replays import ReplayPlan, Verdict, compare_partition, judge_deviation
from provenance.errors import ConfigError, MalformedError, ProvenanceError, UnavailableError
from provenance.services.audit.findings import Severity
from provenance.services.audit.model import StageReplay

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from provenance.core.counting import Counted
    from provenance.core.kinds import Stage
    from provenance.core.replays import PartComparison
    from provenance.ports import Replayer
    from provenance.services.audit.findings import Findings
    from provenance.services.audit.ledger import Ledger, Progress
    from provenance.services.audit.runs import RunCheck

__all__ = ["ReplayCheck"]

_NARROWED = 20  # shards whose values are compared to name the place; each is computed once more for it


class ReplayCheck:
    """Runs one run again.

    Args:
        run: the run, checked before.
        counted: its settled records by stage.
        ledger: fetches recorded partitions.
        replayer: computes.
        findings: takes every complaint.
    """

    def __init__(
        self,
        run: RunCheck,
        *,
        counted: Mapping[bytes, Counted],
        ledger: Ledger,
        replayer: Replayer,
        findings: Findings,
    ) -> None:
        self._run, self._counted, self._ledger = run, counted, ledger
        self._replayer, self._findings = replayer, findings
        self._stages = _parents_first(
            {
                stage: run.stages[stage]
                for stage in run.sealed
                if stage in run.stages and stage in run.by_stage
            }
        )
        self._seen = {stage: bytearray(len(counted[stage])) for stage in self._stages}
        self._counts = {stage: Counter[Verdict]() for stage in self._stages}
        self._failed = {stage: array("Q") for stage in self._stages}
        self._renamed: set[bytes] = set()
        self._other_inputs: list[tuple[bytes, int]] = []
        self._plan = ReplayPlan(
            run.run, self._stages, {stage: run.sealed[stage].partitions for stage in self._stages}
        )

    def check(self, changed: Sequence[tuple[bytes, int]], progress: Progress) -> None:
        """Replay, judge, and narrow what the data level found changed.

        (stage, number) of stored partitions.
        """
        code_changed = self._compare_code()
        if code_changed is None:
            return
        total = sum(map(len, self._seen.values()))
        try:
            with progress("replaying", total) as advance:
                for partition in self._replayer.replay(self._plan):
                    self._take(partition)
                    advance(1)
            self._judge_failed()
            self._narrow(changed)
        except (ConfigError, MalformedError, UnavailableError) as error:
            self._say(
                Severity.UNREACHABLE,
                "replay-stopped",
                f"the replay stopped: {error.message}",
                next_step=error.remedy,
            )
        for stage_id, counts in self._counts.items():
            replay = StageReplay(dict(+counts), code_changed[stage_id])  # without the zeros
            self._run.by_stage[stage_id].replay = replay
            self._summarise(stage_id, replay)

    # --------------------------------------------------------------------------------------------------- code

    def _compare_code(self) -> dict[bytes, bool] | None:
        """Whether each stage's code is another one now; None if some of it is not there."""
        changed, missing = {}, False
        for stage_id, stage in self._stages.items():
            try:
                now, then = self._replayer.transform(stage), stage.transform
            except ProvenanceError as error:
                missing = True
                message = f"stage {stage.name!r}: {stage.transform.name} cannot be run here ({error.reason})"
                self._say(Severity.UNREACHABLE, "transform-missing", message, stage_id, detail=error.message)
                continue
            changed[stage_id] = (now.syntax, now.captured, now.package) != (
                then.syntax,
                then.captured,
                then.package,
            )
        return None if missing else changed

    # ---------------------------------------------------------------------------------------------- comparing

    def _take(self, computed: Partition) -> None:
        counted = self._counted.get(computed.stage)
        at = None if counted is None else counted.find(computed.number)
        if counted is None or at is None or computed.stage not in self._seen:
            return  # not counted by the seal: nothing to compare it with
        self._seen[computed.stage][at] = 1
        if merkle.leaf_hash(encode_record(computed.statement())) == counted.id_at(at):
            self._counts[computed.stage][Verdict.BIT_EXACT] += 1
            return
        recorded = Partition.from_statement(self._ledger.record_at(counted.place_at(at)).statement)
        verdict = compare_partition(recorded, computed)
        self._renamed.add(computed.stage)
        if recorded.inputs != computed.inputs and len(self._other_inputs) < _NARROWED:
            self._other_inputs.append((computed.stage, computed.number))
        if verdict is Verdict.FAILED:
            self._failed[computed.stage].append(computed.number)
        else:
            self._counts[computed.stage][verdict] += 1

    # ------------------------------------------------------------------------------------------------ judging

    def _judge_failed(self) -> None:
        self._report_lineage()
        sinks = [stage for stage in self._stages if is_sink(self._stages[stage])]
        for stage_id in sinks:
            self._judge_sink(stage_id)
        stored_hold = bool(sinks) and not any(self._counts[stage][Verdict.FAILED] for stage in sinks)
        for stage_id, stage in self._stages.items():
            if stage_id in sinks:
                continue
            # Values of a stage that stores nothing cannot be compared: what is stored of its children can.
            held = stored_hold and stage.profile == "tolerance"
            verdict = Verdict.WITHIN_TOLERANCE if held else Verdict.FAILED
            self._counts[stage_id][verdict] += len(self._failed[stage_id])
            for number in () if held else self._failed[stage_id]:
                self._fail(stage_id, number)
        for stage_id, seen in self._seen.items():
            for at in (at for at, was_seen in enumerate(seen) if not was_seen):
                number = self._counted[stage_id].numbers[at]
                self._say(
                    Severity.ERROR, "not-replayed", "the replay did not give this partition", stage_id, number
                )

    def _judge_sink(self, stage_id: bytes) -> None:
        stage = self._stages[stage_id]
        for at, number in enumerate(self._failed[stage_id]):
            compared: Sequence[PartComparison] = ()
            if stage.profile == "tolerance" or at < _NARROWED:
                compared = self._replayer.compare(self._plan, stage_id, number)
            verdict = judge_deviation(stage, compared)
            self._counts[stage_id][verdict] += 1
            if verdict is Verdict.FAILED:
                self._fail(stage_id, number, compared)

    def _report_lineage(self) -> None:
        """Records whose inputs are not those that the replay read, though the parents came out the same."""
        for stage_id, number in self._other_inputs:
            if self._renamed.isdisjoint(self._stages[stage_id].parents):
                message = "it names other inputs than the replay read"
                self._say(Severity.ERROR, "lineage-differs", message, stage_id, number)

    def _fail(self, stage_id: bytes, number: int, compared: Iterable[PartComparison] = ()) -> None:
        places = [place for part in compared for place in (part.problem, *part.places) if place]
        message = "computed again from raw it gives other values"
        if places:
            message += f": {'; '.join(places[:4])}"
        self._say(Severity.ERROR, "replay-failed", message, stage_id, number)

    def _narrow(self, changed: Sequence[tuple[bytes, int]]) -> None:
        """Name the block and the chunk in which a stored partition differs from the same computed again."""
        for stage_id, number in changed[:_NARROWED]:
            if stage_id not in self._stages:
                continue
            for part in self._replayer.compare(self._plan, stage_id, number):
                if not (part.places or part.problem):
                    continue
                where = "; ".join((part.problem, *part.places)[not part.problem :])
                message = f"what is stored differs from the replay: {where}"
                chunk = "; ".join(part.chunks)
                self._say(
                    Severity.ERROR, "stored-differs", message, stage_id, number, object=part.name, chunk=chunk
                )

    # ------------------------------------------------------------------------------------------------- saying

    def _summarise(self, stage_id: bytes, replay: StageReplay) -> None:
        stage = self._stages[stage_id]
        if replay.code_changed:
            equal = replay.verdict < Verdict.FAILED
            code, what = ("code-changed", "equal") if equal else ("code-and-output-changed", "not equal")
            message = f"stage {stage.name!r}: its code is another one now, its output is {what}"
            self._say(Severity.WARNING, code, message, stage_id)
        count = replay.verdicts.get(Verdict.LOGICALLY_EQUAL, 0)
        if stage.profile == "exact" and count:
            message = f"stage {stage.name!r}: {count} partitions are logically equal, not bit-exact"
            self._say(Severity.WARNING, "not-bit-exact", message, stage_id)

    def _say(
        self,
        severity: Severity,
        code: str,
        message: str,
        stage_id: bytes | None = None,
        number: int | None = None,
        **place: Any,
    ) -> None:
        stage = "" if stage_id is None else self._stages[stage_id].name
        if number is not None:
            message = f"stage {stage!r}, shard {number}: {message}"
        run = self._run.run.hex()
        self._findings.add(severity, "replay", code, message, run=run, stage=stage, shard=number, **place)


def _parents_first(stages: Mapping[bytes, Stage]) -> dict[bytes, Stage]:
    ordered: dict[bytes, Stage] = {}
    waiting = dict(stages)
    while waiting:
        ready = [
            stage for stage, one in waiting.items() if not any(parent in waiting for parent in one.parents)
        ]
        if not ready:  # a stage names its parents by their hashes: a ring cannot be made
            break
        ordered |= {stage: waiting.pop(stage) for stage in ready}
    return ordered
