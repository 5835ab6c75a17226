"""Completeness: whether what is anchored of a run is what its seal counts, and nothing else.

*Complete* means: the run has one valid seal; every counted partition is anchored at least once, with the id
under the seal's root; the roots recompute; every input is the counted output of a parent stage; every other
anchored record of the run is in ``set_aside``. Only what a sink descends from must be complete
(`spec/records.md`, "Attempts and completeness").

Records come in any order and more often than once, so the ids of a stage are collected first, settled against
the seal (`provenance.core.counting`), and only then can inputs be followed. Functions yield `Problem` objects
and raise nothing: an audit wants all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from provenance.core.kinds import Input, InputRoot

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from provenance.core.counting import Counted
    from provenance.core.kinds import Partition, Seal, SealedStage, Stage

__all__ = [
    "SINK_PREFIX",
    "Problem",
    "check_inputs",
    "check_stage",
    "check_stage_records",
    "is_sink",
    "needed_stages",
]

SINK_PREFIX = "provenance:write_"
_NAMED = 20  # so many missing partitions are named; beyond that their count says enough


@dataclass(frozen=True, slots=True)
class Problem:
    """One way in which a run is not complete. ``code`` is stable; ``record`` is the id of the one meant."""

    code: str
    message: str
    stage: bytes | None = None
    number: int | None = None
    record: bytes | None = None
    expected: str = ""
    actual: str = ""


# ------------------------------------------------------------------------------------------------ a run's
# graph


def is_sink(stage: Stage) -> bool:
    """Whether the stage stores what it computes: its transform is a built-in writer."""
    return stage.transform.name.startswith(SINK_PREFIX)


def needed_stages(stages: Mapping[bytes, Stage]) -> frozenset[bytes]:
    """The stages that must be complete: the sinks and what they descend from; all where nothing is stored."""
    waiting = [stage_id for stage_id, stage in stages.items() if is_sink(stage)]
    needed: set[bytes] = set()
    while waiting:
        stage_id = waiting.pop()
        if stage_id not in needed:
            needed.add(stage_id)
            waiting += stages[stage_id].parents if stage_id in stages else ()
    return frozenset(needed) if needed else frozenset(stages)


def check_stage_records(seal: Seal, stages: Mapping[bytes, Stage]) -> Iterator[Problem]:
    """That the seal's stages are the run's anchored stages: each there, of this run, by its name.

    ``stages`` holds every validly signed and anchored stage record of the run, and of the runs it builds on.
    """
    for sealed in seal.stages:
        stage = stages.get(sealed.stage)
        if stage is None:
            yield Problem(
                "stage-record-missing",
                f"the seal counts stage {sealed.name!r}, whose record is not anchored",
                sealed.stage,
            )
            continue
        if (stage.run, stage.name) != (seal.run, sealed.name):
            yield Problem(
                "stage-differs",
                f"the seal's entry for stage {sealed.name!r} names a record of another run or name",
                sealed.stage,
                expected=f"{sealed.name} of {seal.run.hex()}",
                actual=f"{stage.name} of {stage.run.hex()}",
            )
        for parent in stage.parents:
            if parent not in stages:
                yield Problem(
                    "parent-missing",
                    f"stage {stage.name!r} descends from a stage whose record is not anchored",
                    sealed.stage,
                    record=parent,
                )
    counted = {sealed.stage for sealed in seal.stages}
    for stage_id, stage in stages.items():
        if stage.run == seal.run and stage_id not in counted:
            yield Problem(
                "stage-not-sealed",
                f"stage {stage.name!r} is anchored, and the seal does not count it",
                stage_id,
            )


def check_stage(
    sealed: SealedStage, stage: Stage, counted: Counted, *, needed: bool = True
) -> Iterator[Problem]:
    """That a stage's anchored records are exactly those that the seal counts.

    ``needed`` is whether a sink descends from the stage: only then must every counted partition be there.
    What is there and must not be is a problem everywhere.
    """
    for number, record in counted.spare:
        yield Problem(
            "not-counted",
            f"stage {sealed.name!r}, partition {number}: an anchored record that the seal neither counts nor "
            "sets aside",
            sealed.stage,
            number,
            record,
        )
    if not needed:
        return
    missing = _missing(sealed, counted)
    for number in missing[:_NAMED]:
        yield Problem(
            "partition-missing",
            f"stage {sealed.name!r}, partition {number}: counted by the seal, and anchored nowhere",
            sealed.stage,
            number,
        )
    if len(counted) < sealed.partitions and not 0 < len(missing) <= _NAMED:
        yield Problem(
            "partitions-missing",
            f"stage {sealed.name!r}: not all counted partitions are anchored",
            sealed.stage,
            expected=str(sealed.partitions),
            actual=str(len(counted)),
        )
    if len(counted) == sealed.partitions:
        yield from _check_totals(sealed, counted)
    if is_sink(stage) and stage.partitions is not None and stage.partitions != sealed.partitions:
        yield Problem(
            "sink-short",
            f"stage {sealed.name!r}: the seal counts fewer partitions than the stage was to write",
            sealed.stage,
            expected=str(stage.partitions),
            actual=str(sealed.partitions),
        )


def _missing(sealed: SealedStage, counted: Counted) -> list[int]:
    """The missing numbers, where they can be known: partition numbers start at 0 and seldom leave gaps."""
    if len(counted) >= sealed.partitions or (len(counted) and counted.numbers[-1] >= sealed.partitions):
        return []
    present = set(counted.numbers)
    return [number for number in range(sealed.partitions) if number not in present]


def _check_totals(sealed: SealedStage, counted: Counted) -> Iterator[Problem]:
    for code, what, expected, actual in (
        ("seal-root-differs", "root over its counted records", sealed.root.hex(), counted.root.hex()),
        ("rows-differ", "rows", str(sealed.rows), str(counted.rows)),
        ("bytes-differ", "bytes", str(sealed.bytes), str(counted.bytes)),
    ):
        if expected != actual:
            yield Problem(
                code, f"stage {sealed.name!r}: {what}", sealed.stage, expected=expected, actual=actual
            )


# ----------------------------------------------------------------------------------------------------- inputs


def check_inputs(
    record: bytes, partition: Partition, stage: Stage, counted: Mapping[bytes, Counted]
) -> Iterator[Problem]:
    """That each input of a counted record is a counted output of a parent stage, with its digests there.

    ``counted`` holds the settled ids of every stage by stage id. ``input-root-partial`` is no fault: above 64
    inputs a record may name some of a parent's records by their root alone, and only a replay tells which.
    """
    parents = [counted[parent] for parent in stage.parents if parent in counted]
    where = f"stage {stage.name!r}, partition {partition.number}"
    if stage.parents and not partition.inputs and partition.rows:
        yield Problem(
            "no-inputs", f"{where}: rows that come from nowhere", partition.stage, partition.number, record
        )
    for entry in partition.inputs:
        found = (
            _check_root(entry, stage, counted)
            if isinstance(entry, InputRoot)
            else _check_input(entry, parents)
        )
        if found is not None:
            code, text, expected, actual = found
            yield Problem(
                code, f"{where}: {text}", partition.stage, partition.number, record, expected, actual
            )


def _check_input(entry: Input, parents: Iterable[Counted]) -> tuple[str, str, str, str] | None:
    holder = next((parent for parent in parents if entry.record in parent), None)
    if holder is None:
        return (
            "input-not-counted",
            "an input that is no counted output of a parent stage",
            "a counted record of a parent",
            entry.record.hex(),
        )
    if not holder.has_output(entry.record, entry.name, entry.digest):
        return (
            "input-digest-differs",
            f"input {entry.name!r} is not a part of the record that it names, or has other digests there",
            f"a part of record {entry.record.hex()}",
            ", ".join(f"{kind}:{value}" for kind, value in sorted(entry.digest.items())),
        )
    return None


def _check_root(
    entry: InputRoot, stage: Stage, counted: Mapping[bytes, Counted]
) -> tuple[str, str, str, str] | None:
    parent = counted.get(entry.stage) if entry.stage in stage.parents else None
    if parent is None or entry.count > len(parent):
        return (
            "input-not-counted",
            "inputs by their root, of a stage that is no parent or has fewer partitions",
            "a parent stage",
            f"{entry.count} records of stage {entry.stage.hex()}",
        )
    if entry.count == 1 and len(parent) > 1:
        if entry.root in parent:  # the root over one id is the id
            return None
        text = "an input that is no counted output of its parent"
        return ("input-not-counted", text, "a counted record", entry.root.hex())
    if entry.count < len(parent):
        text = f"{entry.count} of {len(parent)} records of a parent by their root alone"
        return ("input-root-partial", text, "", entry.root.hex())
    if entry.root != parent.root:
        text = "root over all records of a parent"
        return ("input-root-differs", text, parent.root.hex(), entry.root.hex())
    return None
