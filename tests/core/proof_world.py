"""A proof made by hand from core alone: two stages of three partitions, in two batches, and a seal."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from provenance.core import merkle
from provenance.core.batches import Batch, Leaf, Position, build_batch, encode_manifest
from provenance.core.evidence import BlockEvidence
from provenance.core.kinds import Input, Partition, Seal, SealedStage
from provenance.core.proofs import Proof, ProofBatch, ProofSeal, prove_anchored
from provenance.core.records import Subject, encode_record, sign_record
from provenance.core.streams import LogIdentity, Opening, binding_of, stream_of
from provenance.core.trust import Member, Trust

RUN, RAW, STORE = (hashlib.sha256(name).digest() for name in (b"run", b"raw", b"store"))
LOG = LogIdentity("cluster", "provenance.records", "0" * 31 + "a", 0)
OPENING = Opening(31_337, b"c" * 20, 1, 1, 0, binding_of(LOG))
COUNT = 3


class Key:
    def __init__(self, seed: bytes = bytes(32)) -> None:
        self.key = Ed25519PrivateKey.from_private_bytes(seed)

    def public_key(self) -> bytes:
        return self.key.public_key().public_bytes_raw()

    def sign(self, message: bytes) -> bytes:
        return self.key.sign(message)


def hex_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def record_of(partition: Partition) -> bytes:
    return encode_record(partition.statement())


def id_of(partition: Partition) -> bytes:
    return merkle.leaf_hash(record_of(partition))


def raw(number: int) -> Partition:
    return Partition(
        RUN, RAW, number, 1, 10, (Subject(f"{number}.wav", {"sha256": hex_of(f"raw {number}")}),), ()
    )


def stored(number: int) -> Partition:
    source = raw(number)
    used = Input(id_of(source), source.subjects[0].name, source.subjects[0].digest)
    parts = (
        Subject(
            f"p{number:05d}/mel", {"tree1-sha256": hex_of(f"tree {number}"), "array1-sha256": hex_of("a")}
        ),
        Subject(f"p{number:05d}/f0", {"sha256": hex_of(f"file {number}")}),
    )
    return Partition(RUN, STORE, number, 16, 64, parts, (used,))


def sealed(stage: bytes, name: str, partitions: list[Partition]) -> SealedStage:
    return SealedStage(stage, name, len(partitions), 0, 0, merkle.root(map(id_of, partitions)))


@dataclass
class ProofWorld:
    """Change what is in it, then `proof`."""

    raws: list[Partition] = field(default_factory=lambda: [raw(number) for number in range(COUNT)])
    stores: list[Partition] = field(default_factory=lambda: [stored(number) for number in range(COUNT)])
    key: Key = field(default_factory=Key)
    opening: Opening = OPENING
    log: LogIdentity = LOG
    changes: dict = field(default_factory=dict)

    @property
    def trust(self) -> Trust:
        return Trust(31_337, "none", b"c" * 20, members=(Member(1, "org", Key().public_key()),))

    def seal(self) -> bytes:
        stages = (sealed(RAW, "raw", self.raws), sealed(STORE, "store", self.stores))
        seal = replace(Seal(RUN, "complete", "2026-01-01T00:00:00Z", stages), **self.changes)
        return sign_record(seal.statement(), self.key)

    def batches(self) -> list[Batch]:
        position = Position(stream_of(self.opening), self.opening.generation, 0, 0, stream_of(self.opening))
        first = [Leaf(at, record_of(one)) for at, one in enumerate(self.raws)]
        made = [build_batch(position, self.log, first, last_leader_epoch=0)]
        manifest = made[0].manifest
        position = Position(manifest.stream, manifest.generation, 1, manifest.next_offset, manifest.acc)
        values = [*map(record_of, self.stores), self.seal()]
        # One offset is skipped before each: as Kafka's markers do.
        second = [Leaf(manifest.next_offset + 2 * at + 1, value) for at, value in enumerate(values)]
        return [*made, build_batch(position, self.log, second, last_leader_epoch=0)]

    def proof(self, *numbers: int, ancestors: bool = False) -> Proof:
        """Of the stored partitions of these numbers."""
        batches = self.batches()
        trees = [merkle.Tree(batch.ids) for batch in batches]

        def anchored(ordinal: int, index: int):
            return prove_anchored(
                batches[ordinal].leaves[index].value, trees[ordinal], index, ordinal=ordinal
            )

        paths = [merkle.Tree(map(id_of, self.stores)).prove_inclusion(number) for number in numbers]
        if ancestors:
            paths += [merkle.Tree(map(id_of, self.raws)).prove_inclusion(number) for number in numbers]
        return Proof(
            shards=tuple(anchored(1, number) for number in numbers),
            batches=tuple(
                ProofBatch(encode_manifest(batch.manifest), self.opening, batch.manifest.acc, _evidence(at))
                for at, batch in enumerate(batches)
            ),
            seal=ProofSeal(anchored(1, len(self.stores)), tuple(map(tuple, paths))),
            ancestors=tuple(anchored(0, number) for number in numbers) if ancestors else (),
        )


def _evidence(at: int) -> BlockEvidence:
    return BlockEvidence(10 + at, bytes([at]) * 32, b"t" * 32, 0)
