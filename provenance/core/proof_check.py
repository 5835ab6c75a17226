"""Checking a proof file against a trust file: every step computed anew, and the first wrong one named.

The order is from trust inwards: the chain and contract are the trusted ones, they and the opening give the
stream's name, the manifest gives the accumulator, the record is a leaf under the manifest's root, the seal is
signed by a trusted key, and the record is under the root that the seal gives for its stage. Sizes, roots and
algorithms come from what was checked before, never from the proof (`spec/anchoring.md`, "Proof file").

What a proof file cannot show, or this version cannot check, is named in `Checked.unchecked`, always.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from provenance.core import merkle
from provenance.core.batches import decode_manifest
from provenance.core.evidence import Evidence, check_evidence
from provenance.core.kinds import InputRoot, Partition, Seal
from provenance.core.records import check_signature, decode_record
from provenance.core.streams import binding_of, stream_of
from provenance.errors import MalformedError, MismatchError, VerificationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from provenance.core.batches import Manifest
    from provenance.core.kinds import SealedStage
    from provenance.core.proofs import Anchored, Proof, ProofBatch
    from provenance.core.records import Record, Subject
    from provenance.core.trust import Member, Trust

__all__ = ["Checked", "CheckedRecord", "CheckedSeal", "check_files", "check_proof", "offset_of"]

PHYSICAL = ("sha256", "tree1-sha256")
_SEARCHED = 65_536  # positions tried in a stage whose partition numbers leave gaps


@dataclass(frozen=True, slots=True)
class CheckedRecord:
    """A record that was checked: where it is anchored, and for a partition its stage's name in the seal."""

    record: Record
    stream: bytes
    seq: int
    index: int
    offset: int
    block_number: int
    stage: str = ""
    partition: Partition | None = None


@dataclass(frozen=True, slots=True)
class CheckedSeal:
    """The seal, where it is anchored, and the member whose key signed it."""

    anchored: CheckedRecord
    seal: Seal
    signer: Member


@dataclass(frozen=True, slots=True)
class Checked:
    """What a proof file shows, what it rests on, and what was not checked, in sentences."""

    chain_id: int
    contract: bytes
    evidence: Evidence
    shards: tuple[CheckedRecord, ...]
    ancestors: tuple[CheckedRecord, ...]
    seal: CheckedSeal | None
    unchecked: tuple[str, ...]


def offset_of(manifest: Manifest, index: int) -> int:
    """The log offset of leaf ``index``: the offsets of the batch without the skipped ones, counted."""
    offset = manifest.first_offset + index
    for start, until in manifest.skipped:
        if offset < start:
            break
        offset += until - start
    return offset


def check_proof(proof: Proof, trust: Trust) -> Checked:
    """Check everything that a proof file shows; raise at the first thing that does not hold.

    Raises:
        VerificationError: or `MismatchError`; the entry is named, ``reason`` says what is wrong with it.
        MalformedError: a record or manifest in it does not follow its format.
    """
    if not proof.shards:
        raise VerificationError("proof: it proves nothing, for it has no shard", reason="no-shard")
    if trust.endorsements_needed:
        raise VerificationError(
            f"proof: the trust file asks for {trust.endorsements_needed} endorsements, none can be checked",
            reason="endorsements",
            remedy="Verify it with a version of this program that knows endorsements.",
        )
    manifests = []
    for at, batch in enumerate(proof.batches):
        with _within(f"batches[{at}]"):
            manifests.append(_check_batch(batch, trust))
    checker = _Checker(proof, trust, manifests)
    seal = checker.seal()
    entries = [checker.entry(at, seal) for at in range(len(proof.entries))]
    shards, ancestors = tuple(entries[: len(proof.shards)]), tuple(entries[len(proof.shards) :])
    return Checked(
        chain_id=trust.chain_id,
        contract=trust.contract,
        evidence=Evidence.NODES_WORD,  # all that `check_evidence` lets through without seals
        shards=shards,
        ancestors=ancestors,
        seal=seal,
        unchecked=(*_unchecked(proof, trust, seal), *_check_lineage(shards, ancestors)),
    )


@contextlib.contextmanager
def _within(where: str) -> Iterator[None]:
    """Say which entry of the file an error is about."""
    try:
        yield
    except MismatchError as error:
        raise MismatchError(
            f"{where}: {error.what}",
            expected=error.expected,
            actual=error.actual,
            reason=error.reason,
            remedy=error.remedy,
        ) from error
    except (MalformedError, VerificationError) as error:
        kind = MalformedError if isinstance(error, MalformedError) else VerificationError
        raise kind(f"{where}: {error.message}", reason=error.reason, remedy=error.remedy) from error


def _require_equal(what: str, *, expected: bytes, actual: bytes, reason: str) -> None:
    if expected != actual:
        raise MismatchError(what, expected=expected.hex(), actual=actual.hex(), reason=reason)


def _check_batch(batch: ProofBatch, trust: Trust) -> Manifest:
    """That the batch's accumulator is that of a stream of the trusted chain and contract."""
    opening = batch.opening
    if opening.chain_id != trust.chain_id:
        raise MismatchError("chain id", expected=trust.chain_id, actual=opening.chain_id, reason="chain-id")
    _require_equal("contract", expected=trust.contract, actual=opening.contract, reason="contract")
    manifest = decode_manifest(batch.manifest)
    _require_equal(
        "stream's name by its opening", expected=stream_of(opening), actual=manifest.stream, reason="stream"
    )
    binding = binding_of(manifest.log)
    _require_equal("binding to the log", expected=binding, actual=opening.binding, reason="binding")
    if manifest.generation != opening.generation:
        raise MismatchError(
            "generation", expected=opening.generation, actual=manifest.generation, reason="generation"
        )
    _require_equal("accumulator", expected=manifest.acc, actual=batch.acc, reason="acc")
    check_evidence(batch.evidence, trust)
    return manifest


@dataclass(frozen=True, slots=True)
class _Checker:
    proof: Proof
    trust: Trust
    manifests: Sequence[Manifest]

    def seal(self) -> CheckedSeal | None:
        """The seal, under its batch's root and signed by a trusted key."""
        if self.proof.seal is None:
            return None
        with _within("seal"):
            anchored, record = self._anchored(self.proof.seal.anchored)
            seal = Seal.from_statement(record.statement)
            check_signature(record, self.trust.keys)
            paths, entries = len(self.proof.seal.stage_paths), len(self.proof.entries)
            if paths != entries:
                raise VerificationError(
                    f"{paths} stage paths for {entries} records", reason="stage-path-count"
                )
        return CheckedSeal(anchored, seal, self.trust.member_of(record.key_id or ""))

    def entry(self, at: int, seal: CheckedSeal | None) -> CheckedRecord:
        """A shard or ancestor: under its batch's root, and vouched for by the seal or its own signature."""
        shards = len(self.proof.shards)
        where = f"shards[{at}]" if at < shards else f"ancestors[{at - shards}]"
        with _within(where):
            anchored, record = self._anchored(self.proof.entries[at])
            if record.kind != "partition":
                check_signature(record, self.trust.keys)
                return anchored
            partition = Partition.from_statement(record.statement)
            return self._sealed(anchored, partition, at, seal)

    def _anchored(self, entry: Anchored) -> tuple[CheckedRecord, Record]:
        if entry.batch >= len(self.manifests):
            raise VerificationError(
                f"it names batch {entry.batch} of {len(self.manifests)}", reason="no-such-batch"
            )
        manifest = self.manifests[entry.batch]
        leaf = merkle.leaf_hash(entry.record)
        merkle.check_inclusion(leaf, entry.index, manifest.leaf_count, entry.path, root=manifest.root)
        record = decode_record(entry.record)
        checked = CheckedRecord(
            record=record,
            stream=manifest.stream,
            seq=manifest.seq,
            index=entry.index,
            offset=offset_of(manifest, entry.index),
            block_number=self.proof.batches[entry.batch].evidence.block_number,
        )
        return checked, record

    def _sealed(
        self, anchored: CheckedRecord, partition: Partition, at: int, seal: CheckedSeal | None
    ) -> CheckedRecord:
        if seal is None or self.proof.seal is None:
            raise VerificationError("a partition record, and no seal that counts it", reason="no-seal")
        stage = next((entry for entry in seal.seal.stages if entry.stage == partition.stage), None)
        path = self.proof.seal.stage_paths[at]
        if stage is None or partition.run != seal.seal.run:
            if at >= len(self.proof.shards) and not path:
                return replace(anchored, partition=partition)  # of another run: named as unchecked
            raise VerificationError(
                f"partition {partition.number} is of a stage that the seal does not count",
                reason="not-sealed",
            )
        _check_counted(anchored.record.id, partition, stage, path)
        return replace(anchored, partition=partition, stage=stage.name)


def _check_counted(record: bytes, partition: Partition, stage: SealedStage, path: Sequence[bytes]) -> None:
    """That the record is one of those under the seal's root for its stage.

    Its position there is its partition number, unless the stage counts only some: then it is one below, and
    which one is found by trying. What the proof says does not matter.
    """
    what = f"stage {stage.name!r}, partition {partition.number}"
    last = min(partition.number, stage.partitions - 1)
    if last < 0:
        raise VerificationError(f"{what}: the seal counts no partition of it", reason="not-sealed")
    found = b""
    for index in range(last, max(last - _SEARCHED, -1), -1):
        try:
            found = merkle.inclusion_root(record, index, stage.partitions, path)
        except VerificationError:
            continue  # a path of this length belongs to another position
        if found == stage.root:
            return
    raise MismatchError(
        f"{what}: root of the stage in the seal",
        expected=stage.root.hex(),
        actual=found.hex() or "a path of a length that no position has",
        reason="not-sealed",
    )


# ------------------------------------------------------------------------------------------------------
# lineage


def _check_lineage(shards: Sequence[CheckedRecord], ancestors: Sequence[CheckedRecord]) -> Iterator[str]:
    """Follow every input up to raw; yield what cannot be followed, raise where a digest differs."""
    known = {entry.record.id: entry for entry in (*shards, *ancestors)}
    waiting = [entry.record.id for entry in shards]
    seen: set[bytes] = set()
    gaps = _Gaps()
    while waiting:
        record_id = waiting.pop()
        if record_id in seen:
            continue
        seen.add(record_id)
        entry = known[record_id]
        if entry.partition is not None:
            waiting += _follow(entry, entry.partition, known, gaps)
    strangers = [at for at, entry in enumerate(ancestors) if entry.record.id not in seen]
    if strangers:
        raise VerificationError(
            f"ancestors[{strangers[0]}]: no shard of the proof descends from it", reason="no-ancestor"
        )
    yield from gaps.sentences(len(ancestors))
    others = sum(1 for entry in ancestors if entry.partition is not None and not entry.stage)
    if others:
        yield f"the seals of the other runs that ancestors are of: {others}"


@dataclass(slots=True)
class _Gaps:
    absent: int = 0
    roots: int = 0

    def sentences(self, ancestors: int) -> Iterator[str]:
        if self.absent and not ancestors:
            yield "the lineage up to raw, for the file carries no ancestors"
        elif self.absent:
            yield f"inputs whose records the file does not carry: {self.absent}"
        if self.roots:
            yield f"lists of inputs that are given by their root alone: {self.roots}"


def _follow(
    entry: CheckedRecord, partition: Partition, known: Mapping[bytes, CheckedRecord], gaps: _Gaps
) -> Iterator[bytes]:
    for used in partition.inputs:
        if isinstance(used, InputRoot):
            ids = _records_of(used.stage, known)
            if len(ids) == used.count and merkle.root(ids) == used.root:
                yield from ids
            else:
                gaps.roots += 1
            continue
        source = known.get(used.record)
        if source is None:
            gaps.absent += 1
            continue
        parts = {subject.name: dict(subject.digest) for subject in source.record.statement.subjects}
        if parts.get(used.name) != dict(used.digest):
            raise MismatchError(
                f"record {entry.record.id.hex()}: digests of its input {used.name!r}",
                expected=parts.get(used.name, "a part of the record that it names"),
                actual=dict(used.digest),
                reason="input-digest",
            )
        yield used.record


def _records_of(stage: bytes, known: Mapping[bytes, CheckedRecord]) -> list[bytes]:
    numbered = (
        (entry.partition.number, record)
        for record, entry in known.items()
        if entry.partition is not None and entry.partition.stage == stage
    )
    return [record for _, record in sorted(numbered)]


# -------------------------------------------------------------------------------------------- bytes and the
# rest


def check_files(checked: Checked, files: Iterable[tuple[str, str, str]]) -> tuple[str, ...]:
    """Compare files at hand with the shards: (name, digest kind, hex) of each; kinds are the physical ones.

    Returns:
        What stays unchecked: the stored parts of which no file was given.

    Raises:
        MismatchError: ``file``: a file that is no part of any shard of the proof, whatever else it is.
    """
    parts = [subject for entry in checked.shards for subject in entry.record.statement.subjects]
    matched: set[int] = set()
    for name, kind, value in files:
        hits = [at for at, part in enumerate(parts) if part.digest.get(kind) == value]
        if not hits:
            raise MismatchError(
                f"{name}: {kind}",
                expected=_expected(parts, kind),
                actual=value,
                reason="file",
                remedy="The bytes are not those of the proved shard: do not use them.",
            )
        matched.update(hits)
    left = [part for at, part in enumerate(parts) if at not in matched and _physical(part)]
    return (f"the bytes of stored parts that were not given: {len(left)}",) if left else ()


def _physical(part: Subject) -> bool:
    return any(kind in part.digest for kind in PHYSICAL)


def _expected(parts: Sequence[Subject], kind: str) -> str:
    values = sorted({part.digest[kind] for part in parts if kind in part.digest})
    if not values:
        return f"nothing, for no part of a shard has a {kind}"
    return values[0] if len(values) == 1 else f"one of {len(values)} parts of the shards"


def _unchecked(proof: Proof, trust: Trust, seal: CheckedSeal | None) -> Iterator[str]:
    yield "the blocks: this chain has no seals, so that they hold the anchors is a node's word"
    if trust.code_hash is not None:
        yield "the contract's code, for the evidence has no account proof"
    if seal is not None:
        yield "that the run has no second seal, and that its other partitions are there: an audit does"
    for what, count in (("endorsements", proof.endorsements), ("stamps", proof.stamps)):
        if count:
            yield f"{what}, which this version does not know: {count}"
