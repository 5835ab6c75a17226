"""What happens in a worker: a task computes a partition, hashes it, puts its record on the log, returns it.

Consecutive stages that nothing else reads run in one task, a `Chain`: each makes its record, all are appended
together before the task returns, and a sink moves its file into place after that. So whatever dies when, a
partition that exists for anybody else has its records on the log; a repeat writes the same bytes again, or a
divergent record that the seal sets aside.

Nothing but the data decides what a record says: no clock, host, worker or attempt.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import cloudpickle
import dask

from provenance.adapters.dask.carried import Carried, Done
from provenance.core.kinds import Partition
from provenance.core.lineage import Ref, inputs_of
from provenance.core.merkle import leaf_hash
from provenance.core.partitions import File, Measured, measure, rejection
from provenance.core.records import encode_record
from provenance.core.runs import message_key
from provenance.errors import ConfigError, MalformedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    from provenance.adapters.dask.emission import Outlet
    from provenance.core.digests import TreeEntry

__all__ = [
    "BadInputError",
    "Chain",
    "Made",
    "Operation",
    "Step",
    "Work",
    "record_made",
    "run_chain",
    "take_records",
]

_LONGEST = 8000  # characters of an error's message; from 10,000 on Dask cuts it, and drops the notes


class BadInputError(MalformedError):
    """An item cannot be used, and the run was told to stop at that.

    ``subject`` is the item's name as records have it: the driver puts the plain name in its place.
    """

    def __init__(self, stage: str, number: int, subject: str, reason: str) -> None:
        super().__init__(f"stage {stage!r}, partition {number}: rejected: {reason}", reason=reason)
        self.stage = stage
        self.number = number
        self.subject = subject


@dataclass(frozen=True, slots=True)
class Work:
    """What an operation gets: the partition's number, its own part of the graph, the parents' partitions."""

    stage: str
    number: int
    payload: Any
    parents: tuple[Carried, ...]
    schema: pa.Schema | None = None


@dataclass(frozen=True, slots=True)
class Made:
    """What an operation gives back.

    Attributes:
        data: the output partition; None for a sink.
        read: references of the partitions that it was really made from.
        key: the token of what the partition holds, if it is one thing's.
        rejected: why there is nothing.
        measured: parts and digests, where the operation knows them; else the data is measured.
        commit: moves what was written into place, once the record is on the log; gives the files there.
    """

    data: Any
    read: tuple[Ref, ...]
    key: str | None = None
    rejected: str | None = None
    measured: Measured | None = None
    commit: Callable[[], Sequence[TreeEntry]] | None = None


class Operation(Protocol):
    """One stage's work on one partition. Picklable; the same work gives the same result."""

    def apply(self, work: Work) -> Made:
        """Compute one partition."""
        ...


@dataclass(frozen=True, slots=True)
class Step:
    """A stage as a worker needs it."""

    run: bytes
    stage: bytes
    name: str
    operation: Operation
    schema: pa.Schema | None = field(default=None, compare=False)
    algorithm: str = "sha256"
    stop_on_bad_input: bool = False
    is_sink: bool = False

    def __repr__(self) -> str:
        """Without the operation, which may hold paths and values: Dask writes arguments into its logs."""
        return f"<stage {self.name}>"


@dataclass(frozen=True, slots=True)
class Chain:
    """Stages that run in one task, and where their records go; without an outlet nothing is emitted."""

    steps: tuple[Step, ...]
    outlet: Outlet | None

    def __repr__(self) -> str:
        """As `Step`."""
        return f"<{' → '.join(step.name for step in self.steps)}>"


def run_chain(chain: Chain, number: int, payload: Any, parents: Sequence[Carried]) -> Carried | Done:
    """Compute, record and return one partition of the chain's last stage. This is the body of every task."""
    records: list[tuple[bytes, bytes]] = []
    carried, made = tuple(parents), None
    for step in chain.steps:
        work = Work(step.name, number, payload, carried, step.schema)
        made = _apply(step, work)
        ref, record = record_made(step, work, made)
        records.append((message_key(step.run, step.stage, number), record))
        carried, payload = (Carried(made.data, ref),), None
    (last,) = carried
    kept: tuple[bytes, ...] = ()
    if chain.outlet is None:
        kept = tuple(record for _, record in records)
    else:
        chain.outlet.emit(records)
    if chain.steps[-1].is_sink:
        return Done(last.ref, tuple(made.commit()) if made is not None and made.commit else (), kept)
    return Carried(last.data, last.ref, kept)


def take_records(carried: Carried | Done) -> tuple[bytes, ...]:
    """The records of a partition whose data stays where it is; for replays."""
    return carried.records


def _apply(step: Step, work: Work) -> Made:
    first = work.parents[0].ref if work.parents else None
    if first is not None and first.rejected and len(work.parents) == 1:
        parent = work.parents[0]
        return Made(parent.data, (parent.ref,), first.key, first.rejected)
    try:
        made = step.operation.apply(work)
    except Exception as error:
        error.add_note(f"in stage {step.name!r}, partition {work.number}")
        told = _told(error)
        if told is error:
            raise
    else:
        return _computed(step, made)
    raise told  # here, not above: it must not take the other along as its context


def _computed(step: Step, made: Made) -> Made:
    """What was made, unless it is a promise."""
    if dask.is_dask_collection(made.data):
        raise ConfigError(
            f"stage {step.name!r}: its function returned a Dask {type(made.data).__qualname__}, which is not "
            "computed yet",
            reason="not-a-handle",
            remedy="Work on the partition with pandas or NumPy, or make a source of it: run.collection(…).",
        )
    return made


def _told(error: Exception) -> Exception:
    """The error, or its words where it could not travel to the driver: Dask would drop the notes with it."""
    text = str(error)
    with contextlib.suppress(Exception):  # whatever a stranger's exception does when it is copied
        cloudpickle.loads(cloudpickle.dumps(error))
        if len(text) <= _LONGEST:
            return error
    told = RuntimeError(f"{type(error).__qualname__}: {text[:_LONGEST]}").with_traceback(error.__traceback__)
    for note in error.__notes__:
        told.add_note(note)
    return told


def record_made(step: Step, work: Work, made: Made) -> tuple[Ref, bytes]:
    """The reference and the record of what was made; nothing is emitted."""
    rejected = made.rejected or rejection(made.data)
    if step.stop_on_bad_input:
        _check_usable(step, work, made, rejected)
    measured = made.measured or _measure(step, work, made, rejected)
    partition = Partition(
        run=step.run,
        stage=step.stage,
        number=work.number,
        rows=measured.rows,
        bytes=measured.bytes,
        subjects=measured.subjects,
        inputs=inputs_of(made.read),
        key=made.key,
        rejected=rejected,
    )
    data = encode_record(partition.statement())
    ref = Ref(
        stage=step.stage,
        number=work.number,
        record=leaf_hash(data),
        subjects=measured.subjects,
        rows=measured.rows,
        bytes=measured.bytes,
        key=made.key,
        rejected=rejected,
    )
    return ref, data


def _measure(step: Step, work: Work, made: Made, rejected: str | None) -> Measured:
    # A file that cannot be used stays on record by its name and its reason, in every stage up to a sink's.
    # What is no list of files is simply not there.
    listed = isinstance(made.data, list) and not step.is_sink
    if rejected is not None and not listed:
        return Measured((), 0, 0)
    return measure(made.data, work.number, schema=step.schema, stage=step.name, algorithm=step.algorithm)


def _check_usable(step: Step, work: Work, made: Made, rejected: str | None) -> None:
    items = made.data if isinstance(made.data, list) else []
    for item in items:
        if isinstance(item, File) and item.rejected:
            raise BadInputError(step.name, work.number, item.name, item.rejected)
    if rejected is not None:
        read = [subject.name for parent in work.parents for subject in parent.ref.subjects]
        raise BadInputError(step.name, work.number, read[0] if len(read) == 1 else "", rejected)
