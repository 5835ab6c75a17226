"""Making proof files: the records that one needs, with their paths, from batches checked on the way.

A finished proof is checked once against this folder's own trust before it is given away, so that whatever it
was made from, it verifies.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from provenance.core import merkle
from provenance.core.batches import encode_manifest
from provenance.core.evidence import BlockEvidence
from provenance.core.kinds import InputRoot, Partition
from provenance.core.proof_check import Checked, check_proof
from provenance.core.proofs import Anchored, Proof, ProofBatch, ProofSeal, encode_proof, prove_anchored
from provenance.core.records import decode_record
from provenance.core.trust import Member, Trust
from provenance.errors import PendingError
from provenance.services.audit import silent
from provenance.services.audit.findings import Findings
from provenance.services.audit.ledger import Ledger
from provenance.services.lookup import Lookup, Wanted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from provenance.core.counting import Counted
    from provenance.ports import ChainIdentity
    from provenance.services.audit.catalogue import Catalogue
    from provenance.services.audit.ledger import AuditPorts, Progress

__all__ = ["Proved", "local_trust", "prove"]

_TREES = 4  # batches and stages whose trees are kept

_Entry = tuple[bytes, int]  # a stage's id, and a position among its counted records


@dataclass(frozen=True, slots=True)
class Proved:
    """A proof file's bytes, what checking it said, and the trust that it was checked with."""

    data: bytes
    checked: Checked
    trust: Trust


def prove(
    ports: AuditPorts,
    thing: str,
    *,
    run: str | None = None,
    ancestors: bool = False,
    progress: Progress = silent,
) -> Proved:
    """Prove a stored file, a shard, a record, or all that a run stored.

    Args:
        ports: as for an audit; the log helps where a batch file is damaged, the index is not asked.
        thing: a path; ``STAGE/NUMBER``, perhaps after ``RUN/``; 8 or more hex digits of a record's or
            run's id.
        run: the run in which to look for a stage; the latest sealed one if None.
        ancestors: carry the records that the shards descend from, up to raw.
        progress: as `provenance.cli._frame.progress`.

    Raises:
        ConfigError: nothing, or more than one thing, is named so; or it would be more than a verifier reads.
        PendingError: it is known, and not anchored or not sealed yet.
        UnavailableError: the chain or a batch file that is needed is not to be had.
    """
    ledger = Ledger(ports, Findings(), progress)
    catalogue = ledger.take_stock(signed_only=True)
    lookup = Lookup(ports, ledger, catalogue)
    wanted = lookup.find(thing, run)
    proof = _Builder(ledger, catalogue, lookup.counted).build(wanted, ancestors=ancestors)
    orgs = [stream.opening.org for stream in ledger.survey.streams]
    trust = local_trust(ledger.survey.identity, ports.keys, orgs)
    return Proved(encode_proof(proof), check_proof(proof, trust), trust)


def local_trust(identity: ChainIdentity, keys: Mapping[str, bytes], orgs: Iterable[int] = ()) -> Trust:
    """What this folder itself trusts, as a trust file: its chain's contract, its record keys.

    For the embedded chain, which has no seals, and for trying things out. An auditor takes chain, contract
    and keys from somewhere else than whoever made the proof.
    """
    if identity.contract is None:
        raise PendingError(
            "the ledger contract is not deployed yet", reason="no-contract", remedy="Run `provenance up`."
        )
    org = min(orgs, default=1)
    members = tuple(Member(org, "this folder's record key", key) for key in keys.values())
    return Trust(identity.chain_id, "none", identity.contract, code_hash=identity.code_hash, members=members)


class _Builder:
    """Puts a proof together: entries, the batches that they need, the paths to the seal's roots."""

    def __init__(self, ledger: Ledger, catalogue: Catalogue, counted: Mapping[bytes, Counted]) -> None:
        self._ledger, self._catalogue, self._counted = ledger, catalogue, counted
        self._ordinals: dict[int, int] = {}
        self._trees: OrderedDict[tuple[str, bytes | int], merkle.Tree] = OrderedDict()

    def build(self, wanted: Wanted, *, ancestors: bool) -> Proof:
        """The proof of what is wanted."""
        if wanted.seal is None:
            signed = [entry.position for entry in wanted.signed]
            entries = tuple(self._anchored(position.batch, position.leaf) for position in signed)
            return Proof(entries, self._batches())
        shards = {entry: self._partition(entry) for entry in wanted.partitions}
        above = self._ancestors(shards) if ancestors else {}
        seal = self._anchored(wanted.seal.position.batch, wanted.seal.position.leaf)
        own = {stage.stage for stage in wanted.seal.value.stages}
        paths = tuple(self._stage_path(entry) if entry[0] in own else () for entry in (*shards, *above))
        return Proof(
            shards=tuple(shards.values()),
            batches=self._batches(),
            seal=ProofSeal(seal, paths),
            ancestors=tuple(above.values()),
        )

    def _ancestors(self, shards: Mapping[_Entry, Anchored]) -> dict[_Entry, Anchored]:
        """Everything that the shards descend from and that can be told, each once, nearest first."""
        above: dict[_Entry, Anchored] = {}
        waiting = list(shards.values())
        for anchored in waiting:  # grows as it goes
            partition = Partition.from_statement(decode_record(anchored.record).statement)
            for entry in self._parents(partition):
                if entry not in above and entry not in shards:
                    above[entry] = self._partition(entry)
                    waiting.append(above[entry])
        return above

    def _parents(self, partition: Partition) -> Iterator[_Entry]:
        parents = self._catalogue.stages[partition.stage].value.parents
        for used in partition.inputs:
            if isinstance(used, InputRoot):
                counted = self._counted.get(used.stage)
                if counted is not None and len(counted) == used.count:
                    yield from ((used.stage, at) for at in range(used.count))
                continue
            for parent in parents:
                at = self._counted[parent].position_of(used.record) if parent in self._counted else None
                if at is not None:
                    yield parent, at

    def _partition(self, entry: _Entry) -> Anchored:
        place = self._counted[entry[0]].place_at(entry[1])
        return self._anchored(place.batch, place.leaf)

    def _anchored(self, ordinal: int, leaf: int) -> Anchored:
        batch = self._ledger.batch_at(ordinal)
        tree = self._tree(("batch", ordinal), lambda: batch.ids)
        at = self._ordinals.setdefault(ordinal, len(self._ordinals))
        return prove_anchored(batch.leaves[leaf].value, tree, leaf, ordinal=at)

    def _stage_path(self, entry: _Entry) -> tuple[bytes, ...]:
        stage, at = entry
        counted = self._counted[stage]
        tree = self._tree(("stage", stage), lambda: [counted.id_at(one) for one in range(len(counted))])
        return tuple(tree.prove_inclusion(at))

    def _tree(self, key: tuple[str, bytes | int], ids: Callable[[], list[bytes]]) -> merkle.Tree:
        if key not in self._trees:
            self._trees[key] = merkle.Tree(ids())
            if len(self._trees) > _TREES:
                self._trees.popitem(last=False)
        return self._trees[key]

    def _batches(self) -> tuple[ProofBatch, ...]:
        return tuple(self._batch(ordinal) for ordinal in self._ordinals)

    def _batch(self, ordinal: int) -> ProofBatch:
        batch = self._ledger.survey.batches[ordinal]
        anchor = batch.anchor
        evidence = BlockEvidence(anchor.block_number, anchor.block_hash, anchor.transaction, anchor.log_index)
        manifest = encode_manifest(self._ledger.batch_at(ordinal).manifest)
        return ProofBatch(manifest, batch.opening, anchor.acc, evidence)
