"""A world for the batcher: fakes that misbehave, and a checker that shares no code with it but SHA-256.

What survives a crash (log, chain, store, journals, index) lives here; a batcher is made anew after each.
"""

from __future__ import annotations

import hashlib
import json
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from provenance.core.batcher import Limits
from provenance.errors import UnavailableError
from provenance.ports import SetKeyCall
from provenance.services.batching import Components, run_once
from provenance.services.chain_setup import Founding
from provenance.services.sending import Sender
from provenance.testing.fakes import FakeChain, FakeClock, FakeIndex, FakeJournal, FakeLog, FakeStore
from provenance.testing.faults import Crash, Fault, Faults, faulty

if TYPE_CHECKING:
    import random

GOVERNANCE, PUBLISHER, SECOND = b"g" * 20, b"p" * 20, b"q" * 20
CODE_HASH = FakeChain.with_contract(GOVERNANCE, PUBLISHER).identity().code_hash
LIMITS = Limits(max_records=5, max_bytes=200, max_age=2.0, read_size=3, poll=0.5)


class Chaos(Faults):
    """Lets each call meet a random fault, with a probability."""

    def __init__(self, rng: random.Random, rate: float) -> None:
        super().__init__()
        self.rng, self.rate = rng, rate

    def call(self, operation, function, *args, **kwargs):
        if self.rng.random() < self.rate:
            self.on(operation, self.rng.choice(list(Fault)))
        return super().call(operation, function, *args, **kwargs)


class WorldClock(FakeClock):
    """Time in which things happen: each sleep lets the world move."""

    def __init__(self, moves) -> None:
        super().__init__()
        self.moves = moves

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        self.moves()


@dataclass
class World:
    partitions: int = 1
    depth: int = 0
    automine: bool = True
    embedded: bool = False
    log: FakeLog = field(init=False)
    chain: FakeChain = field(init=False)
    written: dict[int, dict[int, bytes]] = field(default_factory=dict)
    moves: list = field(default_factory=list)

    def __post_init__(self) -> None:
        self.log = FakeLog(self.partitions)
        self.chain = (
            FakeChain() if self.embedded else FakeChain.with_contract(GOVERNANCE, PUBLISHER, depth=self.depth)
        )
        self.chain.automine = self.automine
        self.store, self.index = FakeStore(), FakeIndex()
        self.journals = {PUBLISHER: FakeJournal(), SECOND: FakeJournal()}
        self.clock = WorldClock(self._move)
        self.final_accs: dict[tuple[bytes, int], bytes] = {}

    def _move(self) -> None:
        if self.depth or not self.automine:
            self.chain.mine()
        for move in self.moves:
            move()

    def write(self, *values: bytes, skip: int = 0) -> None:
        for value in values:
            ((partition, offset),) = self.log.append([(value, value)])
            self.written.setdefault(partition, {})[offset] = value
            if skip:
                self.log.skip(partition, skip)

    def reorganise(self, blocks: int, *, drop: bool) -> None:
        """Another fork wins, which is longer: what had its depth keeps it."""
        self.chain.reorganise(blocks, drop=drop)
        for _ in range(blocks + 1):
            self.chain.mine()

    def enrol_second_publisher(self) -> None:
        owner = self.chain.account(GOVERNANCE)
        owner.send(owner.sign(SetKeyCall(SECOND, 2), owner.nonce()).raw)
        for _ in range(self.depth + 1):
            self.chain.mine()

    def components(self, faults: Faults | None = None, account: bytes = PUBLISHER) -> Components:
        """What one process works with; a new one each time."""
        faults = faults or Faults()
        journal = faulty(self.journals[account], "journal", faults)
        patience = 0.0 if self.embedded else 60.0

        def sender(address: bytes, purpose: str) -> Sender:
            transactor = faulty(self.chain.account(address), "account", faults)
            return Sender(transactor, journal, self.clock, purpose=purpose, patience=patience)

        return Components(
            log=faulty(self.log, "log", faults),
            reader=faulty(self.chain, "chain", faults),
            store=faulty(self.store, "store", faults),
            index=faulty(self.index, "index", faults),
            publisher=sender(account, "anchor"),
            clock=self.clock,
            code_hash=CODE_HASH,
            governance=sender(GOVERNANCE, "open"),
            founding=Founding("org", GOVERNANCE, PUBLISHER, b"r" * 32) if self.embedded else None,
        )

    def run(self, faults: Faults | None = None, account: bytes = PUBLISHER, limits: Limits = LIMITS):
        return run_once(self.components(faults, account), limits, jitter=lambda: 0.5)

    def run_until_done(self, faults: Faults | None = None, account: bytes = PUBLISHER, tries: int = 200):
        """As an operator does: whatever ends the process, start it again."""
        for _ in range(tries):
            try:
                return self.run(faults, account)
            except (Crash, UnavailableError):
                continue
        raise AssertionError(f"not done after {tries} starts")

    # ------------------------------------------------------------------------------------------ the checker

    def check(self) -> None:
        """Every message anchored exactly once, in order, without a gap, as the files and the chain say."""
        for number, messages in self.written.items():
            check_anchored(
                self.chain, self.store.objects.__getitem__, self.log.identities()[number], messages
            )

    def check_final_kept(self) -> None:
        """What was final once stays; called again and again."""
        for stream, _, _ in self.chain.openings():
            for anchor in self.chain.anchors(stream):
                final = self.chain.state_of(anchor.transaction).value == "final"
                if final:
                    known = self.final_accs.setdefault((stream, anchor.seq), anchor.acc)
                    assert known == anchor.acc

    def orphans(self) -> set[str]:
        anchored = {
            f"{anchor.stream.hex()}/{anchor.seq:016d}-{anchor.acc.hex()}.batch"
            for stream, _, _ in self.chain.openings()
            for anchor in self.chain.anchors(stream)
        }
        return set(self.store.objects) - anchored


def check_anchored(reader, load, log, messages: dict[int, bytes]) -> None:
    """As `World.check`, of one partition: ``load`` gives the batch file of a name."""
    opened = [(name, opening) for name, opening, _ in reader.openings() if opening.binding == _binding(log)]
    ((stream, opening),) = opened
    found, acc, end = {}, stream, opening.start_offset
    for seq, anchor in enumerate(reader.anchors(stream), start=1):
        manifest, leaves, text = parse(load(f"{stream.hex()}/{seq:016d}-{anchor.acc.hex()}.batch"))
        assert (anchor.seq, anchor.first_offset) == (seq, end)
        _check_manifest(manifest, leaves, anchor, acc)
        acc = _next_acc(acc, anchor, text)
        assert acc == anchor.acc
        end = anchor.next_offset
        assert not set(found) & set(leaves), "a message was anchored twice"
        found.update(leaves)
        assert list(found) == sorted(found)
    assert found == messages, f"{log}: anchored {sorted(found)}, of {sorted(messages)}"
    assert reader.head(stream).acc == acc


def _binding(log) -> bytes:
    text = '{"cluster_id":"%s","partition":%d,"topic_id":"%s"}' % (  # noqa: UP031 - beside the specification
        log.cluster_id,
        log.partition,
        log.topic_id,
    )
    return hashlib.sha256(text.encode()).digest()


def parse(data: bytes):
    assert data[:8] == b"PLBATCH1"
    (length,) = struct.unpack(">I", data[8:12])
    text, rest = data[12 : 12 + length], data[12 + length :]
    leaves = {}
    while rest:
        offset, size = struct.unpack(">QI", rest[:12])
        leaves[offset] = rest[12 : 12 + size]
        rest = rest[12 + size :]
    return json.loads(text), leaves, text


def _root(hashes):
    if len(hashes) == 1:
        return hashes[0]
    split = 1 << ((len(hashes) - 1).bit_length() - 1)
    return hashlib.sha256(b"\x01" + _root(hashes[:split]) + _root(hashes[split:])).digest()


def _check_manifest(manifest, leaves, anchor, prev_acc) -> None:
    root = _root([hashlib.sha256(b"\x00" + value).digest() for value in leaves.values()])
    assert manifest["root"] == root.hex() == anchor.root.hex()
    assert manifest["prev_acc"] == prev_acc.hex()
    assert (manifest["first_offset"], manifest["next_offset"]) == (anchor.first_offset, anchor.next_offset)
    assert manifest["leaf_count"] == len(leaves) == anchor.leaf_count
    skipped = {offset for start, until in manifest["skipped"] for offset in range(start, until)}
    assert skipped.isdisjoint(leaves)
    assert skipped | set(leaves) == set(range(anchor.first_offset, anchor.next_offset))


def _next_acc(acc: bytes, anchor, text: bytes) -> bytes:
    assert hashlib.sha256(text).digest() == anchor.manifest_hash
    numbers = struct.pack(">QQQI", anchor.seq, anchor.first_offset, anchor.next_offset, anchor.leaf_count)
    return hashlib.sha256(b"\x02" + acc + numbers + anchor.root + anchor.manifest_hash).digest()
