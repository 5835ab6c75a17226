"""Loading: the shards of a sealed run, each with what it must be, proved before any of them is read.

::

    prove_shards   the set, once: chain, batch files, seal, completeness, as an audit at level ``chain``
    read_part      one stored part, each time it is opened: where it lies, whole, into memory
    check_part     those bytes against the anchored record; what is decoded afterwards are the same bytes

It fails closed: one complaint about the run, and nothing opens. Every message says which shard, part, stage
and transaction it is about, what was expected and found, and what to do next.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from provenance.core.completeness import is_sink
from provenance.core.digests import TreeEntry, tree1
from provenance.core.kinds import Partition
from provenance.errors import (
    ConfigError,
    MalformedError,
    MismatchError,
    PendingError,
    ProvenanceError,
    UnavailableError,
    VerificationError,
)
from provenance.services.audit import silent
from provenance.services.audit.findings import NEXT_STEPS, Findings, Severity
from provenance.services.audit.ledger import Ledger
from provenance.services.audit.runs import REJECTED, RunCheck, count_partitions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Set

    from provenance.core.kinds import SealedStage, Stage
    from provenance.core.records import Subject
    from provenance.services.anchored import AnchoredBatch
    from provenance.services.audit.catalogue import Catalogue
    from provenance.services.audit.findings import Finding
    from provenance.services.audit.ledger import AuditPorts, Progress

__all__ = ["Shard", "ShardSet", "check_part", "place_of", "prove_shards", "read_part"]

_BATCH = "Anchor what the log holds: `provenance batch`."
_RESTORE = "Restore it from a copy of the store, or write the store again with the same pipeline."
_CHANGED = (
    "Do not train on it. `provenance audit --level replay` names the block that changed; restore the shard"
    " from a copy of the store, or write the store again with the same pipeline."
)


@dataclass(frozen=True, slots=True)
class Shard:
    """One counted partition of a sink: number, record id, key token, rows, parts, anchoring transaction.

    ``size`` is the bytes stored of it, as its record states them: no part is larger.
    """

    number: int
    record: bytes
    key: str | None
    rows: int
    size: int
    parts: tuple[Subject, ...]
    transaction: bytes


@dataclass(frozen=True, slots=True)
class ShardSet:
    """The shards of one sink of one sealed run, ascending by number; one of which nothing is stored is none.

    ``complaint`` is what does not hold about the run, for a loader that only observes: none of the shards
    is verified then.
    """

    run: bytes
    stage: bytes
    name: str
    shards: tuple[Shard, ...]
    complaint: ProvenanceError | None = None


# ------------------------------------------------------------------------------------------------ the set


def prove_shards(
    ports: AuditPorts,
    *,
    run: str | None = None,
    stage: str | None = None,
    enforce: bool = True,
    progress: Progress = silent,
) -> ShardSet:
    """Prove a run's seal, completeness and records, and return the shards of its sink.

    Args:
        ports: what an audit stands on. The log, if it is given, tells what waits there, and where a batch
            file was changed.
        run: the beginning of a run's id; the last sealed run if None.
        stage: the sink's name; needed where a run has several.
        enforce: raise what does not hold about the run; else it becomes the set's ``complaint``, as long as
            a seal that holds says what its shards are.
        progress: as an audit's.

    Raises:
        PendingError: the run or its seal is not anchored yet.
        VerificationError: something about the run does not hold; the message is the worst finding's.
        ConfigError: no such run or sink, or several.
        UnavailableError: chain, log or batch store cannot be reached.
    """
    findings = Findings()
    ledger = Ledger(ports, findings, progress)
    catalogue, waiting = ledger.take_stock(), ledger.pending().runs
    _stop_at_complaint(findings, ledger, enforce=enforce)
    try:
        chosen = _choose_run(catalogue, waiting, run)
    except (ConfigError, PendingError):
        _stop_at_complaint(findings, ledger, enforce=True)  # what is asked for may be in what was lost
        raise
    counted = count_partitions(ledger, catalogue, [chosen], ports.store, findings)
    check = RunCheck(chosen, catalogue, counted, findings, pending=chosen in waiting)
    check.check_records()
    _stop_at_complaint(findings, ledger, enforce=enforce or check.seal is None)
    sink = _choose_sink(check.sealed, check.stages, stage)
    shards = sorted(_shards(ledger, check, sink.stage), key=lambda shard: shard.number)
    _stop_at_complaint(findings, ledger, enforce=enforce)
    return ShardSet(chosen, sink.stage, sink.name, tuple(shards), _complaint(findings, ledger))


def _choose_run(catalogue: Catalogue, waiting: Set[bytes], text: str | None) -> bytes:
    if text is None:
        sealed = catalogue.sealed_runs()
        if not sealed:
            raise PendingError("no sealed run is anchored", reason="no-sealed-run", remedy=_BATCH)
        return sealed[-1]
    found = catalogue.find_run(text)
    if found is not None:
        return found
    prefix = text.lower()
    for refused in catalogue.refused:
        if refused.run is not None and refused.run.hex().startswith(prefix):
            raise VerificationError(
                f"run {text}: {refused.message}",
                reason=refused.reason,
                remedy=NEXT_STEPS.get(refused.reason, NEXT_STEPS["signature"]),
            )
    if any(one.hex().startswith(prefix) for one in waiting):
        raise PendingError(
            f"run {text}: its records wait in the log, none is anchored yet",
            reason="run-pending",
            remedy=_BATCH,
        )
    raise ConfigError(
        f"run {text}: no run is anchored under that id",
        reason="no-such-run",
        remedy="`provenance status` lists the runs.",
    )


def _choose_sink(
    sealed: Mapping[bytes, SealedStage], stages: Mapping[bytes, Stage], name: str | None
) -> SealedStage:
    sinks = [entry for entry in sealed.values() if entry.stage in stages and is_sink(stages[entry.stage])]
    named = [entry for entry in sinks if name in {None, entry.name}]
    if len(named) == 1:
        return named[0]
    known = ", ".join(repr(entry.name) for entry in sinks) or "none"
    wanted = "a sink" if name is None else f"sink {name!r:.100}"
    raise ConfigError(
        f"{wanted}: expected one, found {len(named)}; the run's sinks: {known}",
        reason="sink",
        remedy="Name the stage that stored the shards: VerifiedShards(stage=…).",
    )


def _shards(ledger: Ledger, check: RunCheck, sink: bytes) -> Iterator[Shard]:
    """Check every partition record of the run, and give the counted ones of the sink that store something."""
    for record, position in ledger.partitions([check.run], "proving shards"):
        partition = Partition.from_statement(record.statement)
        is_counted = check.check_partition(record.id, partition, position)
        parts = tuple(part for part in partition.subjects if REJECTED not in part.name)
        if is_counted and partition.stage == sink and parts:
            yield Shard(
                number=partition.number,
                record=record.id,
                key=partition.key,
                rows=partition.rows,
                size=partition.bytes,
                parts=parts,
                transaction=ledger.survey.batches[position.batch].anchor.transaction,
            )


# --------------------------------------------------------------------------------------------- complaints


def _stop_at_complaint(findings: Findings, ledger: Ledger, *, enforce: bool) -> None:
    complaint = _complaint(findings, ledger)
    if enforce and complaint is not None:
        raise complaint


def _complaint(findings: Findings, ledger: Ledger) -> ProvenanceError | None:
    """The error to raise for what was found: the worst of it, with its place and the next step."""
    serious = [one for one in findings if _calls_for(one) is not None]
    if not serious:
        return None
    worst = min(serious, key=lambda one: _GRAVEST_FIRST.index(_calls_for(one)))
    kind = _calls_for(worst) or VerificationError
    message = f"{worst.message} ({', '.join(_place(worst, ledger.survey.batches)) or 'the ledger'})"
    if len(serious) > 1:
        message += f"; {len(serious) - 1} more findings"
    remedy = worst.next_step or "`provenance audit --level chain` lists everything that was found."
    if kind is VerificationError and (worst.expected or worst.actual):
        expected, actual = worst.expected or "nothing", worst.actual or "nothing"
        return MismatchError(message, expected=expected, actual=actual, reason=worst.code, remedy=remedy)
    return kind(message, reason=worst.code, remedy=remedy)


_GRAVEST_FIRST: tuple[type[ProvenanceError] | None, ...] = (VerificationError, UnavailableError, PendingError)


def _calls_for(finding: Finding) -> type[ProvenanceError] | None:
    """The kind of error that a finding calls for; None if it stops nothing.

    Batches of others that are on their way stop nothing. A seal that is not there may come: one that is
    forged has a finding of its own.
    """
    if finding.severity == Severity.ERROR:
        return PendingError if finding.code == "no-seal" else VerificationError
    if finding.severity == Severity.UNREACHABLE:
        return UnavailableError
    return PendingError if finding.severity == Severity.PENDING and finding.run else None


def _place(finding: Finding, batches: tuple[AnchoredBatch, ...]) -> Iterator[str]:
    if finding.run:
        yield f"run {finding.run[:12]}"
    if finding.stage:
        yield f"stage {finding.stage!r}"
    if finding.shard is not None:
        yield f"shard {finding.shard}"
    if finding.stream:
        yield f"stream {finding.stream[:12]}"
    for name in ("seq", "offset", "byte"):
        value = getattr(finding, name)
        if value is not None:
            yield f"{name} {value}"
    for batch in batches:
        if (batch.anchor.stream.hex(), batch.anchor.seq) == (finding.stream, finding.seq):
            yield f"transaction 0x{batch.anchor.transaction.hex()}"


# --------------------------------------------------------------------------------------------------- one part


def place_of(shard_set: ShardSet, shard: Shard, part: Subject) -> str:
    """Which shard and part, of which stage and run, anchored where: so begins every message about one."""
    return (
        f"shard {shard.number}, part {part.name!r:.200} of stage {shard_set.name!r}, run"
        f" {shard_set.run.hex()[:12]}, anchored in transaction 0x{shard.transaction.hex()}"
    )


def read_part(
    shard_set: ShardSet,
    shard: Shard,
    part: Subject,
    read: Callable[[str, int], Mapping[str, bytes]],
    *,
    limit: int,
) -> Mapping[str, bytes]:
    """The bytes of one stored part, by path below it; ``""`` for a part that is one file.

    Args:
        shard_set: where the shard belongs.
        shard: the shard.
        part: one of its parts.
        read: reads a part by its name, at most so many bytes; nothing if it is not there.
        limit: the most bytes that are taken into memory.

    Raises:
        MismatchError: ``object-missing``; or what lies there cannot be what was recorded: it is a link, or
            larger than the record says.
        ConfigError: ``too-long``: it was recorded larger than the limit.
        UnavailableError: it cannot be read.
    """
    where, expected = place_of(shard_set, shard, part), _expected(part)
    try:
        files = read(part.name, limit)
    except MalformedError as error:
        if error.reason == "too-long" and shard.size > limit:
            raise ConfigError(
                f"{where}: the shard has {shard.size} bytes, and a part may have {limit}",
                reason="too-long",
                remedy="Raise part_limit in [loading] of provenance.toml, or store smaller partitions.",
            ) from error
        raise MismatchError(
            where, expected=expected, actual=error.message, reason=error.reason, remedy=_CHANGED
        ) from error
    except UnavailableError as error:
        raise UnavailableError(
            f"{where}: {error.message}", reason=error.reason, remedy=error.remedy or _RESTORE
        ) from error
    if not files:
        raise MismatchError(
            where, expected=expected, actual="nothing there", reason="object-missing", remedy=_RESTORE
        )
    return files


def check_part(shard_set: ShardSet, shard: Shard, part: Subject, files: Mapping[str, bytes]) -> None:
    """Check the bytes of one stored part, all of them in memory, against the anchored record.

    Args:
        shard_set: where the shard belongs.
        shard: the shard.
        part: one of its parts.
        files: as `read_part` gives them.

    Raises:
        MismatchError: names shard, part, stage and transaction, expected and actual digest.
    """
    expected, actual = _expected(part), _actual(part, files)
    if actual != expected:
        raise MismatchError(
            place_of(shard_set, shard, part),
            expected=expected,
            actual=actual,
            reason="shard-differs",
            remedy=_CHANGED,
        )


def _kind(part: Subject) -> str:
    return next((kind for kind in ("tree1-sha256", "sha256") if kind in part.digest), "")


def _expected(part: Subject) -> str:
    kind = _kind(part)
    return f"{kind}:{part.digest[kind]}" if kind else "a digest of stored bytes in its record"


def _actual(part: Subject, files: Mapping[str, bytes]) -> str:
    kind = _kind(part)
    if not kind:
        return f"only {', '.join(sorted(part.digest))}"
    if (kind == "sha256") != ("" in files):
        return "a file where a folder was stored" if "" in files else "a folder where a file was stored"
    if kind == "sha256":
        return f"sha256:{hashlib.sha256(files['']).hexdigest()}"
    entries = [TreeEntry(path, len(data), hashlib.sha256(data).digest()) for path, data in files.items()]
    try:
        return f"tree1-sha256:{tree1(entries).hex}"
    except MalformedError as error:  # names that no tree may have: whatever was recorded, it was not this
        return error.message
