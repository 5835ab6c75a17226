"""The independent checker finds nothing in what is right, and each kind of tampering by its name."""

from __future__ import annotations

import hashlib
import json
import struct
from dataclasses import replace

import pytest

from provenance.core.batches import Leaf, Position, build_batch, encode_batch, file_name
from provenance.core.streams import NO_PREDECESSOR, LogIdentity, Opening, binding_of, continues_of, stream_of
from provenance.ports import Anchor, Head
from provenance.services.batch_files import anchor_call
from provenance.testing.checker import Acknowledged, check_ledger
from provenance.testing.fakes import FakeStore

LOG = LogIdentity("cluster", "records", "0a" * 16, 0)
VALUES = {0: b"a", 1: b"", 3: b"c", 4: b"d", 7: b"e"}
BATCHES = ((0, 1), (3,), (4, 7))


class Ledger:
    """Openings and anchors as a `ChainReader` gives them, and everything else that may be tampered with."""

    def __init__(self) -> None:
        self.store = FakeStore()
        self.rows: list[tuple[bytes, Opening, int]] = []
        self.found: dict[bytes, list[Anchor]] = {}
        self.heads: dict[bytes, Head] = {}
        self.acknowledged = [Acknowledged(LOG, offset, value) for offset, value in VALUES.items()]
        self.held = dict(VALUES)
        self.stream = self.open(0, 1, NO_PREDECESSOR)
        for offsets in BATCHES:
            self.anchor(self.stream, {offset: VALUES[offset] for offset in offsets})

    def open(self, start: int, generation: int, continues: bytes, log: LogIdentity = LOG) -> bytes:
        opening = Opening(31_337, b"c" * 20, 1, generation, start, binding_of(log), continues)
        stream = stream_of(opening)
        self.rows.append((stream, opening, 1))
        self.found[stream] = []
        self.heads[stream] = Head(stream, 0, start, stream, 1, 0, closed=False)
        return stream

    def anchor(self, stream: bytes, values: dict[int, bytes], log: LogIdentity = LOG) -> str:
        head = self.heads[stream]
        generation = next(opening.generation for name, opening, _ in self.rows if name == stream)
        position = Position(stream, generation, head.seq, head.next_offset, head.acc)
        leaves = [Leaf(offset, value) for offset, value in values.items()]
        batch = build_batch(position, log, leaves, last_leader_epoch=0)
        self.store.put(file_name(batch.manifest), encode_batch(batch))
        call, block = anchor_call(batch.manifest), head.last_block + 5
        fields = {name: getattr(call, name) for name in ("seq", "leaf_count", "root", "manifest_hash")}
        self.found[stream].append(
            Anchor(
                stream=stream,
                publisher=b"p" * 20,
                first_offset=call.first_offset,
                next_offset=call.next_offset,
                acc=batch.manifest.acc,
                prev_block=head.last_block,
                block_number=block,
                block_hash=b"b" * 32,
                transaction=b"t" * 32,
                log_index=0,
                gas_used=1,
                block_time=1,
                **fields,
            )
        )
        self.heads[stream] = replace(
            head, seq=call.seq, next_offset=call.next_offset, acc=batch.manifest.acc, last_block=block
        )
        return file_name(batch.manifest)

    # The ChainReader.

    def identity(self):
        raise NotImplementedError

    def openings(self, binding=None):
        return tuple(self.rows)

    def head(self, stream):
        return self.heads.get(stream)

    def anchors(self, stream, from_seq=1):
        return iter(self.found[stream][from_seq - 1 :])

    # What tampering needs.

    def name(self, seq: int) -> str:
        acc = self.found[self.stream][seq - 1].acc
        return f"{self.stream.hex()}/{seq:016d}-{acc.hex()}.batch"

    def change(self, seq: int, **fields) -> None:
        anchors = self.found[self.stream]
        anchors[seq - 1] = replace(anchors[seq - 1], **fields)

    def rewrite(self, seq: int, change) -> None:
        """Another file under the same name, or under the name that its own manifest gives."""
        self.store.objects[self.name(seq)] = change(self.store.objects[self.name(seq)])

    def rules(self) -> set[str]:
        found = check_ledger(self, self.store, self.acknowledged, held={LOG: self.held})
        assert all(str(violation).startswith(violation.rule) for violation in found)
        return {violation.rule for violation in found}


def forge(ledger: Ledger, seq: int, change) -> None:
    """A batch whose manifest was changed by whoever made it: hash, acc and name agree with each other."""
    data = ledger.store.objects.pop(ledger.name(seq))
    (length,) = struct.unpack(">I", data[8:12])
    manifest = json.loads(data[12 : 12 + length])
    rows = data[12 + length :]
    change(manifest)
    text = json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode()
    anchor = ledger.found[ledger.stream][seq - 1]
    digest = hashlib.sha256(text).digest()
    numbers = struct.pack(">QQQI", seq, anchor.first_offset, anchor.next_offset, anchor.leaf_count)
    before = ledger.found[ledger.stream][seq - 2].acc if seq > 1 else ledger.stream
    acc = hashlib.sha256(b"\x02" + before + numbers + anchor.root + digest).digest()
    ledger.change(seq, manifest_hash=digest, acc=acc)
    ledger.heads[ledger.stream] = replace(ledger.heads[ledger.stream], acc=acc)
    ledger.store.objects[ledger.name(seq)] = b"PLBATCH1" + struct.pack(">I", len(text)) + text + rows


def test_a_ledger_that_is_right_has_no_violation() -> None:
    assert Ledger().rules() == set()


TAMPERINGS = {
    "a file is missing": ("file-missing", lambda one: one.store.delete(one.name(2))),
    "a leaf was changed": ("root", lambda one: one.rewrite(2, lambda data: data[:-1] + b"x")),
    "bytes stand behind the end": ("file-format", lambda one: one.rewrite(2, lambda data: data + b"x")),
    "a file ends early": ("file-format", lambda one: one.rewrite(3, lambda data: data[:-1])),
    "another magic": ("file-format", lambda one: one.rewrite(1, lambda data: b"X" + data[1:])),
    "a leaf is missing": ("leaf-count", lambda one: one.rewrite(2, lambda data: data[:-13])),
    "leaves changed places": (
        "order",
        lambda one: one.rewrite(1, lambda data: data[:-25] + data[-12:] + data[-25:-12]),
    ),
    "the manifest is another's": (
        "manifest-hash",
        lambda one: one.rewrite(2, lambda data: data.replace(b'"seq":2', b'"seq":3')),
    ),
    "the manifest says another seq": (
        "manifest-differs",
        lambda one: forge(one, 3, lambda m: m.update(seq=4)),
    ),
    "the manifest says another root": (
        "manifest-differs",
        lambda one: forge(one, 3, lambda m: m.update(root="0" * 64)),
    ),
    "the manifest has a key more": ("manifest", lambda one: forge(one, 3, lambda m: m.update(more=1))),
    "the manifest names another topic": (
        "binding",
        lambda one: forge(one, 3, lambda m: m.update(topic_id="0b" * 16)),
    ),
    "a skipped range is not told": ("skipped", lambda one: forge(one, 3, lambda m: m.update(skipped=[]))),
    "an event tells another acc": ("acc", lambda one: one.change(3, acc=b"x" * 32)),
    "an event tells another root": ("acc", lambda one: one.change(2, root=b"x" * 32)),
    "an event is left out": ("seq", lambda one: one.found[one.stream].pop(1)),
    "events leave a gap": ("gap", lambda one: one.change(2, first_offset=3)),
    "events are chained otherwise": ("prev-block", lambda one: one.change(2, prev_block=4)),
    "the head is elsewhere": (
        "head",
        lambda one: one.heads.update({one.stream: replace(one.heads[one.stream], seq=9)}),
    ),
    "the stream is called otherwise": (
        "stream-name",
        lambda one: one.rows.__setitem__(0, (one.stream, replace(one.rows[0][1], org=2), 1)),
    ),
    "an orphan of a final seq": (
        "orphan",
        lambda one: one.store.put(f"{one.stream.hex()}/{2:016d}-{'0' * 64}.batch", b"x"),
    ),
    "a file of a stream that is unknown": (
        "orphan",
        lambda one: one.store.put(f"{'0' * 64}/{1:016d}-{'0' * 64}.batch", b"x"),
    ),
    "a record behind the head is not anchored": (
        "lost",
        lambda one: one.acknowledged.append(Acknowledged(LOG, 8, b"f")),
    ),
    "a record was passed over": (
        "passed-over",
        lambda one: one.acknowledged.append(Acknowledged(LOG, 2, b"x")),
    ),
    "a record was acknowledged with other bytes": (
        "altered",
        lambda one: one.acknowledged.append(Acknowledged(LOG, 3, b"x")),
    ),
    "a message of the log is not anchored": ("lost", lambda one: one.held.update({8: b"f"})),
    "a message of the log is skipped": ("passed-over", lambda one: one.held.update({5: b"f"})),
    "the log holds other bytes": ("altered", lambda one: one.held.update({4: b"f"})),
    "the log never held it": ("invented", lambda one: one.held.pop(4)),
    "a second generation that continues nothing": (
        "continues",
        lambda one: one.open(8, 2, b"x" * 32),
    ),
    "a generation is left out": (
        "generation",
        lambda one: one.open(8, 3, continues_of(one.rows[0][1], 3, one.heads[one.stream].acc)),
    ),
}


@pytest.mark.parametrize(("rule", "tamper"), TAMPERINGS.values(), ids=TAMPERINGS)
def test_tampering_is_found(rule, tamper) -> None:
    ledger = Ledger()
    tamper(ledger)
    assert rule in ledger.rules()


def test_a_successor_replaces_what_its_predecessor_anchored_behind() -> None:
    ledger = Ledger()
    seq, acc = 2, ledger.found[ledger.stream][1].acc
    successor = ledger.open(4, 2, continues_of(ledger.rows[0][1], seq, acc))
    ledger.anchor(successor, {4: b"new", 5: b"newer"})
    ledger.held = {0: b"a", 1: b"", 3: b"c", 4: b"new", 5: b"newer"}
    assert ledger.rules() == set(), "records that only the former log held stay anchored"
    ledger.held[4] = b"d"
    assert ledger.rules() == {"altered"}


def test_a_successor_that_tells_what_was_told_is_found() -> None:
    ledger = Ledger()
    last = ledger.heads[ledger.stream]
    successor = ledger.open(4, 2, continues_of(ledger.rows[0][1], last.seq, last.acc))
    ledger.anchor(successor, {4: b"d"})
    assert ledger.rules() & {"twice", "continues"}


def test_an_orphan_above_what_is_final_is_none() -> None:
    ledger = Ledger()
    ledger.store.put(f"{ledger.stream.hex()}/{3:016d}-{'0' * 64}.batch", b"x")
    assert check_ledger(ledger, ledger.store, (), final={ledger.stream: 2}) == []
    assert [found.rule for found in check_ledger(ledger, ledger.store, ())] == ["orphan"]
