"""A small ledger for audits and proofs: one run over real files, on the fakes, anchored in batches.

Stages: ``raw`` (files by token), ``feature`` (values, not stored), ``store`` (a folder of objects per
    partition). Whatever is to go wrong is done to the log before it is anchored, or to chain, batch store and
    disk afterwards.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from provenance.core import merkle
from provenance.core.batcher import Limits
from provenance.core.digests import TreeEntry, array1, tree1
from provenance.core.kinds import (
    Consumption,
    Dataset,
    Input,
    Partition,
    Run,
    Seal,
    SealedStage,
    Stage,
    StoreTree,
    Transform,
)
from provenance.core.lists import EMPTY_LIST, ListHead, encode_list, list_name
from provenance.core.records import Subject, encode_record, key_id, sign_record
from provenance.core.tokens import name_token
from provenance.core.trust import Member, Trust
from provenance.services.audit import AuditPorts, audit
from provenance.services.batching import Components, run_once
from provenance.services.chain_setup import Founding
from provenance.services.sending import Sender
from provenance.testing.fakes import (
    FakeChain,
    FakeClock,
    FakeIndex,
    FakeJournal,
    FakeLog,
    FakeNames,
    FakeSigner,
    FakeStore,
)

if TYPE_CHECKING:
    from pathlib import Path

    from provenance.services.audit import AuditReport

GOVERNANCE, PUBLISHER = b"g" * 20, b"p" * 20
STARTED, ENDED = "2026-01-01T00:00:00Z", "2026-01-01T00:10:00Z"
SOME = hashlib.sha256(b"some").digest()
COUNT = 7


def transform(name: str) -> Transform:
    return Transform(name, SOME, SOME, SOME, "voice 1.0")


@dataclass
class World:
    """``folder`` holds ``raw/`` and ``store/``; everything else is in memory."""

    folder: Path
    partitions: int = 1
    batch_records: int = 5
    signer: FakeSigner = field(default_factory=FakeSigner)

    def __post_init__(self) -> None:
        self.log = FakeLog(self.partitions)
        self.chain = FakeChain()
        self.store, self.index, self.names = FakeStore(), FakeIndex(), FakeNames()
        self.journal, self.clock = FakeJournal(), FakeClock()
        self.keys = {key_id(self.signer.public_key()): self.signer.public_key()}
        self.dataset = Dataset("voices", "1", "CC-BY-SA-3.0", True, SOME)
        self.raw: list[Partition] = []
        self.feature: list[Partition] = []
        self.stored: list[Partition] = []

    # -------------------------------------------------------------------------------------------- recording

    def append(self, value: bytes) -> bytes:
        self.log.append([(hashlib.sha256(value).digest(), value)])
        return merkle.leaf_hash(value)

    def sign(self, thing: object, signer: FakeSigner | None = None) -> bytes:
        return self.append(sign_record(thing.statement(), signer or self.signer))

    def put(self, partition: Partition) -> bytes:
        return self.append(encode_record(partition.statement()))

    def id_of(self, partition: Partition) -> bytes:
        return merkle.leaf_hash(encode_record(partition.statement()))

    def start(self, *, nonce: bytes = bytes(16)) -> None:
        """Dataset, run and stage records."""
        self.dataset_id = self.sign(self.dataset)
        self.run = Run(
            "voice", nonce, (self.dataset_id,), SOME, False, EMPTY_LIST, {}, STARTED, ("provenance", "0.1.0")
        )
        self.run_id = self.sign(self.run)
        self.stages = {}
        self.raw_id = self._stage("raw", "provenance:files", ())
        self.feature_id = self._stage("feature", "voice:mel", (self.raw_id,))
        self.store_id = self._stage("store", "provenance:write_zarr", (self.feature_id,))
        self.names.remember(
            [
                ("location", self.raw_id.hex(), str(self.folder / "raw")),
                ("location", self.store_id.hex(), str(self.folder / "store")),
            ]
        )

    def _stage(self, name: str, function: str, parents: tuple[bytes, ...]) -> bytes:
        stage = Stage(self.run_id, name, parents, transform(function), partitions=COUNT)
        stage_id = self.sign(stage)
        self.stages[stage_id] = stage
        return stage_id

    def compute(self, count: int = COUNT) -> None:
        """Make files, and the partitions of all stages; nothing is emitted yet."""
        (self.folder / "raw").mkdir(parents=True, exist_ok=True)
        for number in range(count):
            self.raw.append(self._raw(number))
            self.feature.append(self._feature(number))
            self.stored.append(self._stored(number))
        (self.folder / "store" / "zarr.json").write_bytes(b'{"zarr_format":3}')

    def _raw(self, number: int) -> Partition:
        data = b"RIFF" + bytes([number]) * 40
        name = f"speaker {number % 2}/{number}.wav"
        path = self.folder / "raw" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
        token = name_token(self.names.secret(), name)
        self.names.remember([("name", token, name)])
        subject = Subject(token, {"sha256": hashlib.sha256(data).hexdigest()})
        return Partition(self.run_id, self.raw_id, number, 1, len(data), (subject,), ())

    def values(self, number: int) -> np.ndarray:
        return np.arange(16, dtype="<f4") + number

    def _feature(self, number: int) -> Partition:
        digest = array1(self.values(number))
        subject = Subject(f"p{number:05d}", {digest.kind: digest.hex})
        source = self.raw[number]
        used = Input(self.id_of(source), source.subjects[0].name, source.subjects[0].digest)
        return Partition(self.run_id, self.feature_id, number, 16, 64, (subject,), (used,))

    def _stored(self, number: int) -> Partition:
        name = f"p{number:05d}/mel"
        for path, data in (("zarr.json", b"{}"), ("c/0", self.values(number).tobytes())):
            place = self.folder / "store" / name / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
        feature = self.feature[number]
        digests = {"tree1-sha256": self.tree(name).hex, **feature.subjects[0].digest}
        used = Input(self.id_of(feature), feature.subjects[0].name, feature.subjects[0].digest)
        subject = Subject(name, digests)
        return Partition(self.run_id, self.store_id, number, 16, 64, (subject,), (used,))

    def tree(self, name: str = ""):
        base = self.folder / "store" / name
        return tree1(
            TreeEntry(path.relative_to(base).as_posix(), path.stat().st_size, _sha256(path))
            for path in sorted(base.rglob("*"))
            if path.is_file()
        )

    def emit(self) -> None:
        for partitions in zip(self.raw, self.feature, self.stored, strict=True):
            for partition in partitions:
                self.put(partition)

    def seal(
        self, *, status: str = "complete", aside: dict[bytes, list[bytes]] | None = None, **changes
    ) -> bytes:
        """Sign the seal over what `raw`, `feature` and `stored` hold now.

        ``changes`` replace fields of it.
        """
        self.aside = aside or {}
        tree = self.tree()
        self.store_tree = StoreTree(tree.value, len(tree.entries))
        sealed = [
            self._sealed(self.raw_id, self.raw),
            self._sealed(self.feature_id, self.feature),
            self._sealed(self.store_id, self.stored, self.store_tree),
        ]
        seal = replace(Seal(self.run_id, status, ENDED, tuple(sealed)), **changes)
        for ids in self.aside.values():
            self.store.put(list_name(ListHead.over(ids)), encode_list(ids))
        return self.sign(seal)

    def _sealed(
        self, stage_id: bytes, partitions: list[Partition], store: StoreTree | None = None
    ) -> SealedStage:
        return SealedStage(
            stage=stage_id,
            name=self.stages[stage_id].name,
            partitions=len(partitions),
            rows=sum(one.rows for one in partitions),
            bytes=sum(one.bytes for one in partitions),
            root=merkle.root(map(self.id_of, partitions)),
            store=store,
            set_aside=ListHead.over(self.aside.get(stage_id, [])),
        )

    def train(self) -> bytes:
        head = ListHead.over(map(self.id_of, self.stored))
        eaten = Consumption(self.run_id, self.store_id, SOME, head, 1, 2, 1, "float32", COUNT, 0, SOME, SOME)
        return self.sign(eaten)

    # ------------------------------------------------------------------------------------------- the ledger

    def anchor(self) -> None:
        """Run the real batcher until the log is anchored."""

        def sender(address: bytes, purpose: str) -> Sender:
            return Sender(
                self.chain.account(address), self.journal, self.clock, purpose=purpose, patience=0.0
            )

        components = Components(
            log=self.log,
            reader=self.chain,
            store=self.store,
            index=self.index,
            publisher=sender(PUBLISHER, "anchor"),
            clock=self.clock,
            code_hash=FakeChain.with_contract(GOVERNANCE, PUBLISHER).identity().code_hash,
            governance=sender(GOVERNANCE, "open"),
            founding=Founding("org", GOVERNANCE, PUBLISHER, self.signer.public_key()),
        )
        limits = Limits(
            max_records=self.batch_records, max_bytes=1 << 20, max_age=0.0, read_size=100, poll=0.1
        )
        run_once(components, limits, jitter=lambda: 0.5)

    def complete(self) -> World:
        """A whole run, anchored."""
        self.start()
        self.compute()
        self.emit()
        self.seal()
        self.anchor()
        return self

    @property
    def trust(self) -> Trust:
        identity = self.chain.identity()
        return Trust(
            identity.chain_id,
            "none",
            identity.contract,
            code_hash=identity.code_hash,
            members=(Member(1, "org", self.signer.public_key()),),
        )

    def batch_names(self) -> list[str]:
        return [name for name in self.store.names("") if name.endswith(".batch")]

    def flip(self, name: str, at: int, mask: int = 1) -> None:
        data = bytearray(self.store.objects[name])
        data[at] ^= mask
        self.store.objects[name] = bytes(data)

    def ports(self, **changes) -> AuditPorts:
        from provenance.adapters.stored_files import LocalFiles

        given = {
            "chain": self.chain,
            "store": self.store,
            "keys": self.keys,
            "log": self.log,
            "index": self.index,
            "names": self.names,
            "files": LocalFiles(),
        }
        return AuditPorts(**{**given, **changes})

    def audit(
        self, run: str | None = None, *, level: str = "data", every_run: bool = False, **changes
    ) -> AuditReport:
        return audit(self.ports(**changes), run, level=level, every_run=every_run)


def _sha256(path: Path) -> bytes:
    return hashlib.sha256(path.read_bytes()).digest()


def codes(report: AuditReport, *, errors_only: bool = True) -> list[str]:
    return sorted({one.code for one in report.findings if one.severity.word == "error" or not errors_only})
