"""Loading: the shards of a sealed run, each with what it must be, proved before any of them is read.

The set is proved once, against chain and batch files, by the same checks as an audit at level ``chain``;
the bytes of a shard are checked each time it is opened first, and what is decoded are exactly the bytes
that were checked (`PartCheck`). It fails closed: one complaint about the run, and nothing opens.
"""

from __future__ import annotations

import hashlib
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from provenance.core.completeness import is_sink
from provenance.core.digests import TreeEntry, tree1
from provenance.core.kinds import Partition
from provenance.errors import ConfigError, MismatchError, PendingError, VerificationError
from provenance.services.audit.findings import Findings, Severity
from provenance.services.audit.ledger import AuditPorts, Ledger
from provenance.services.audit.runs import RunCheck, count_partitions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from typing import Any

    from provenance.core.kinds import SealedStage, Stage
    from provenance.core.records import Subject
    from provenance.ports import BatchStore, ChainReader

    Progress = Callable[[str, int | None], AbstractContextManager[Callable[[int], Any]]]

__all__ = ["Shard", "ShardSet", "check_part", "prove_shards"]


@dataclass(frozen=True, slots=True)
class Shard:
    """One counted partition of a sink: number, record id, key token, rows, parts, anchoring transaction."""

    number: int
    record: bytes
    key: str | None
    rows: int
    parts: tuple[Subject, ...]
    transaction: bytes


@dataclass(frozen=True, slots=True)
class ShardSet:
    """The shards of one sink of one sealed run, ascending by number; a rejected partition holds none."""

    run: bytes
    stage: bytes
    name: str
    shards: tuple[Shard, ...]


@contextmanager
def _silent(_label: str, _total: int | None) -> Iterator[Callable[[int], Any]]:
    yield lambda _step: None


def prove_shards(
    *,
    chain: ChainReader,
    store: BatchStore,
    keys: Mapping[str, bytes],
    run: str | None = None,
    stage: str | None = None,
    progress: Progress = _silent,
) -> ShardSet:
    """Prove a run's seal, completeness and records, and return the shards of its sink.

    Args:
        chain: reads the anchors.
        store: the batch files.
        keys: trusted record-signing keys, key id → raw public key.
        run: the beginning of a run's id; the last sealed run if None.
        stage: the sink's name; needed where a run has several.
        progress: as an audit's.

    Raises:
        PendingError: the run or its seal is not anchored yet.
        VerificationError: something about the run does not hold; the message is the worst finding's.
        ConfigError: no such run or sink, or several.
    """
    findings = Findings()
    ledger = Ledger(AuditPorts(chain=chain, store=store, keys=keys), findings, progress)
    catalogue = ledger.take_stock()
    chosen = _choose_run(catalogue.sealed_runs(), catalogue.find_run(run) if run else None, run)
    counted = count_partitions(ledger, catalogue, [chosen], store, findings)
    check = RunCheck(chosen, catalogue, counted, findings, pending=False)
    check.check_records()
    if check.seal is None:
        raise PendingError(
            f"run {chosen.hex()[:12]}: its seal is not anchored",
            reason="no-seal",
            remedy="Seal the run, then `provenance batch`.",
        )
    sink = _choose_sink(check.sealed, check.stages, stage)
    shards: list[Shard] = []
    for record, position in ledger.partitions([chosen], "proving shards"):
        partition = Partition.from_statement(record.statement)
        is_complete = check.check_partition(record.id, partition, position)
        if is_complete and partition.stage == sink.stage and record.id in counted[sink.stage]:
            anchor = ledger.survey.batches[position.batch].anchor
            shards.append(
                Shard(
                    partition.number,
                    record.id,
                    partition.key,
                    partition.rows,
                    partition.subjects,
                    anchor.transaction,
                )
            )
    check.finish()
    _refuse(findings)
    unique = {shard.number: shard for shard in reversed(shards)}
    return ShardSet(
        chosen,
        sink.stage,
        sink.name,
        tuple(unique[number] for number in sorted(unique) if unique[number].parts),
    )


def _choose_run(sealed: list[bytes], found: bytes | None, text: str | None) -> bytes:
    if found is not None:
        return found
    if text is not None:
        raise PendingError(
            f"run {text}: no anchored record names it",
            reason="unknown-run",
            remedy="Anchor what the log holds: `provenance batch`.",
        )
    if not sealed:
        raise PendingError(
            "no sealed run is anchored",
            reason="no-sealed-run",
            remedy="Anchor what the log holds: `provenance batch`.",
        )
    return sealed[-1]


def _choose_sink(
    sealed: Mapping[bytes, SealedStage], stages: Mapping[bytes, Stage], name: str | None
) -> SealedStage:
    sinks = [entry for entry in sealed.values() if entry.stage in stages and is_sink(stages[entry.stage])]
    named = [entry for entry in sinks if name in {None, entry.name}]
    if len(named) == 1:
        return named[0]
    known = ", ".join(repr(entry.name) for entry in sinks) or "none"
    wanted = "a sink" if name is None else f"sink {name!r}"
    raise ConfigError(
        f"{wanted}: expected one, found {len(named)}; the run's sinks: {known}",
        reason="sink",
        remedy="Name the stage that stored the shards: VerifiedShards(stage=…).",
    )


def _refuse(findings: Findings) -> None:
    if findings.worst() < Severity.UNREACHABLE:
        return
    first = next(iter(findings))
    expected = f": expected {first.expected}, found {first.actual}" if first.expected else ""
    raise VerificationError(first.message + expected, reason=first.code, remedy=first.next_step)


def check_part(shard_set: ShardSet, shard: Shard, part: Subject, files: Mapping[str, bytes]) -> None:
    """Check the bytes of one stored part, all of them in memory, against the anchored record.

    Args:
        shard_set: where the shard belongs.
        shard: the shard.
        part: one of its parts.
        files: path below the part → bytes; of a part that is one file, the only key is ``""``.

    Raises:
        MismatchError: names shard, part, stage and transaction, expected and actual digest.
    """
    if "tree1-sha256" in part.digest:
        kind = "tree1-sha256"
        actual = tree1(
            TreeEntry(path, len(data), hashlib.sha256(data).digest()) for path, data in files.items()
        ).hex
    else:
        kind, actual = "sha256", hashlib.sha256(files.get("", b"")).hexdigest()
    expected = part.digest.get(kind)
    if expected != actual:
        raise MismatchError(
            f"shard {shard.number} ({part.name}) of stage {shard_set.name!r}, run {shard_set.run.hex()[:12]},"
            f" anchored in transaction {shard.transaction.hex()[:16]}…: {kind}",
            expected=expected or "no such digest in its record",
            actual=actual,
            reason="shard-differs",
            remedy="Do not train on it. `provenance audit --level replay` names the block that changed;"
            " restore the shard from a copy, or write it again.",
        )
