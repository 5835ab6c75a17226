"""What every `ChainReader` and `Transactor` do over one contract."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from provenance.core.streams import NO_PREDECESSOR, continues_of, next_acc, stream_of
from provenance.ports import AnchorCall, Call, ChainReader, CloseCall, Head, OpenCall, Transactor, TxState

__all__ = ["ChainConformance", "ChainUnderTest"]


@dataclass(frozen=True, slots=True)
class ChainUnderTest:
    """A chain on which the contract stands with one organisation.

    ``settle`` makes what was sent final (mines, or waits). ``binding`` is 32 bytes that no stream has yet.
    """

    reader: ChainReader
    governance: Transactor
    publisher: Transactor
    settle: Callable[[], None]
    binding: bytes

    def act(self, account: Transactor, call: Call) -> TxState:
        """Sign, send, settle; what became of it."""
        transaction = account.sign(call, account.nonce())
        account.send(transaction.raw)
        self.settle()
        return account.state(transaction.hash)

    def open(self, start_offset: int = 0) -> bytes:
        """Open a stream and return its name."""
        call = OpenCall(self.binding, start_offset, NO_PREDECESSOR)
        assert self.act(self.governance, call) is TxState.FINAL
        ((stream, _, _),) = self.reader.openings(self.binding)
        return stream

    def head(self, stream: bytes) -> Head:
        """The head of a stream that is known."""
        head = self.reader.head(stream)
        assert head is not None
        return head

    def next_call(self, stream: bytes, leaves: int = 3) -> AnchorCall:
        """What continues the stream's head."""
        head = self.head(stream)
        return AnchorCall(
            stream=stream,
            seq=head.seq + 1,
            prev_acc=head.acc,
            first_offset=head.next_offset,
            next_offset=head.next_offset + leaves + 1,  # one offset holds no message
            leaf_count=leaves,
            root=bytes([head.seq + 1]) * 32,
            manifest_hash=b"m" * 32,
        )


def acc_of(call: AnchorCall) -> bytes:
    """The accumulator that a call gives."""
    return next_acc(
        call.prev_acc,
        call.seq,
        first_offset=call.first_offset,
        next_offset=call.next_offset,
        leaf_count=call.leaf_count,
        root=call.root,
        manifest_hash=call.manifest_hash,
    )


class ChainConformance:
    """Fill in ``chain``."""

    @pytest.fixture
    def chain(self) -> ChainUnderTest:
        raise NotImplementedError

    def test_it_says_which_chain_and_contract_it_is(self, chain: ChainUnderTest) -> None:
        identity = chain.reader.identity()
        assert identity == chain.reader.identity()
        assert identity.chain_id > 0
        assert len(identity.genesis) == 32
        assert identity.contract is not None
        assert len(identity.contract) == 20
        assert identity.code_hash is not None
        assert len(identity.code_hash) == 32
        assert identity.kind

    def test_an_unknown_stream_has_no_head_and_no_anchors(self, chain: ChainUnderTest) -> None:
        assert chain.reader.head(b"?" * 32) is None
        assert list(chain.reader.anchors(b"?" * 32)) == []
        assert list(chain.reader.openings(chain.binding)) == []

    def test_an_opened_stream_has_the_name_that_its_opening_gives(self, chain: ChainUnderTest) -> None:
        stream = chain.open(start_offset=7)
        ((found, opening, block),) = chain.reader.openings(chain.binding)
        identity = chain.reader.identity()
        assert found == stream == stream_of(opening)
        assert (opening.chain_id, opening.contract) == (identity.chain_id, identity.contract)
        assert (opening.binding, opening.start_offset, opening.generation) == (chain.binding, 7, 1)
        assert block >= 1
        assert (stream, opening, block) in list(chain.reader.openings())
        assert chain.head(stream) == Head(stream, 0, 7, stream, opening.org, 0, closed=False)

    def test_opening_it_again_is_quiet_and_otherwise_is_refused(self, chain: ChainUnderTest) -> None:
        stream = chain.open()
        again = OpenCall(chain.binding, 0, NO_PREDECESSOR)
        assert chain.act(chain.governance, again) is TxState.FINAL
        assert chain.act(chain.governance, replace(again, start_offset=1)) is TxState.REVERTED
        assert chain.act(chain.governance, replace(again, continues=b"c" * 32)) is TxState.REVERTED
        assert [found for found, _, _ in chain.reader.openings(chain.binding)] == [stream]

    def test_only_governance_opens(self, chain: ChainUnderTest) -> None:
        call = OpenCall(chain.binding, 0, NO_PREDECESSOR)
        assert chain.act(chain.publisher, call) is TxState.REVERTED
        assert list(chain.reader.openings(chain.binding)) == []

    def test_only_a_publisher_anchors(self, chain: ChainUnderTest) -> None:
        stream = chain.open()
        assert chain.act(chain.governance, chain.next_call(stream)) is TxState.REVERTED
        assert chain.head(stream).seq == 0

    def test_anchors_move_the_head_and_can_be_read(self, chain: ChainUnderTest) -> None:
        stream = chain.open(start_offset=5)
        calls = []
        for leaves in (1, 4, 2):
            calls.append(chain.next_call(stream, leaves))
            assert chain.act(chain.publisher, calls[-1]) is TxState.FINAL
            head = chain.head(stream)
            assert (head.seq, head.next_offset, head.acc) == (
                calls[-1].seq,
                calls[-1].next_offset,
                acc_of(calls[-1]),
            )
        anchors = list(chain.reader.anchors(stream))
        assert [anchor.seq for anchor in anchors] == [1, 2, 3]
        for call, anchor in zip(calls, anchors, strict=True):
            fields = ("stream", "seq", "first_offset", "next_offset", "leaf_count", "root", "manifest_hash")
            assert [getattr(anchor, name) for name in fields] == [getattr(call, name) for name in fields]
            assert anchor.acc == acc_of(call)
            assert anchor.gas_used > 0
            assert anchor.block_time > 0
            assert len(anchor.block_hash) == len(anchor.transaction) == 32
        assert [anchor.prev_block for anchor in anchors] == [0, *(a.block_number for a in anchors[:-1])]
        assert chain.head(stream).last_block == anchors[-1].block_number
        assert list(chain.reader.anchors(stream, 3)) == anchors[2:]
        assert list(chain.reader.anchors(stream, 4)) == []

    @pytest.mark.parametrize(
        "change",
        [
            {"seq": 0},
            {"seq": 3},
            {"prev_acc": b"p" * 32},
            {"first_offset": 3, "next_offset": 9},
            {"first_offset": 5, "next_offset": 9},
            {"leaf_count": 0},
            {"leaf_count": 9},
            {"next_offset": 2**53},
        ],
    )
    def test_what_does_not_continue_the_head_is_refused(
        self, chain: ChainUnderTest, change: dict[str, int]
    ) -> None:
        stream = chain.open()
        assert chain.act(chain.publisher, chain.next_call(stream)) is TxState.FINAL
        before = chain.head(stream)
        call = replace(chain.next_call(stream), **change)  # type: ignore[arg-type]
        assert chain.act(chain.publisher, call) is TxState.REVERTED
        assert chain.head(stream) == before

    def test_an_exact_repeat_is_quiet_at_any_seq(self, chain: ChainUnderTest) -> None:
        stream = chain.open()
        first = chain.next_call(stream)
        assert chain.act(chain.publisher, first) is TxState.FINAL
        assert chain.act(chain.publisher, first) is TxState.FINAL
        assert chain.act(chain.publisher, chain.next_call(stream)) is TxState.FINAL
        assert chain.act(chain.publisher, first) is TxState.FINAL
        assert [anchor.seq for anchor in chain.reader.anchors(stream)] == [1, 2]

    def test_another_history_at_an_anchored_seq_is_refused(self, chain: ChainUnderTest) -> None:
        stream = chain.open()
        first = chain.next_call(stream)
        assert chain.act(chain.publisher, first) is TxState.FINAL
        assert chain.act(chain.publisher, replace(first, root=b"o" * 32)) is TxState.REVERTED
        assert [anchor.root for anchor in chain.reader.anchors(stream)] == [first.root]

    def test_an_unknown_stream_takes_no_anchor(self, chain: ChainUnderTest) -> None:
        call = replace(chain.next_call(chain.open()), stream=b"?" * 32)
        assert chain.act(chain.publisher, call) is TxState.REVERTED

    def test_a_closed_stream_takes_repeats_only_and_the_next_one_continues_it(
        self, chain: ChainUnderTest
    ) -> None:
        stream = chain.open()
        first = chain.next_call(stream)
        assert chain.act(chain.publisher, first) is TxState.FINAL
        assert chain.act(chain.publisher, CloseCall(stream)) is TxState.REVERTED
        for _ in range(2):
            assert chain.act(chain.governance, CloseCall(stream)) is TxState.FINAL
        assert chain.head(stream).closed
        assert chain.act(chain.publisher, chain.next_call(stream)) is TxState.REVERTED
        assert chain.act(chain.publisher, first) is TxState.FINAL
        ((_, opening, _),) = chain.reader.openings(chain.binding)
        continues = continues_of(opening, 1, acc_of(first))
        assert chain.act(chain.governance, OpenCall(chain.binding, 4, continues)) is TxState.FINAL
        (_, second) = chain.reader.openings(chain.binding)
        assert (second[1].generation, second[1].continues, second[1].start_offset) == (2, continues, 4)
        assert second[0] == stream_of(second[1])

    def test_signing_sends_nothing(self, chain: ChainUnderTest) -> None:
        stream = chain.open()
        nonce = chain.publisher.nonce()
        transaction = chain.publisher.sign(chain.next_call(stream), nonce)
        chain.settle()
        assert transaction.nonce == nonce
        assert len(transaction.hash) == 32
        assert chain.publisher.state(transaction.hash) is TxState.UNKNOWN
        assert chain.publisher.nonce() == chain.publisher.nonce(final=True) == nonce

    def test_bytes_sent_again_are_no_error_and_one_transaction(self, chain: ChainUnderTest) -> None:
        stream = chain.open()
        transaction = chain.publisher.sign(chain.next_call(stream), chain.publisher.nonce())
        chain.publisher.send(transaction.raw)
        chain.publisher.send(transaction.raw)
        chain.settle()
        chain.publisher.send(transaction.raw)
        chain.settle()
        assert chain.publisher.state(transaction.hash) is TxState.FINAL
        assert chain.publisher.nonce() == chain.publisher.nonce(final=True) == transaction.nonce + 1
        assert chain.head(stream).seq == 1

    def test_a_spent_nonce_is_no_error_and_its_transaction_unknown(self, chain: ChainUnderTest) -> None:
        stream = chain.open()
        nonce = chain.publisher.nonce()
        call = chain.next_call(stream)
        assert chain.act(chain.publisher, call) is TxState.FINAL
        late = chain.publisher.sign(replace(call, root=b"l" * 32), nonce)
        chain.publisher.send(late.raw)
        chain.settle()
        assert chain.publisher.state(late.hash) is TxState.UNKNOWN

    def test_a_transaction_waits_for_the_nonce_before_it(self, chain: ChainUnderTest) -> None:
        stream = chain.open()
        nonce = chain.publisher.nonce()
        first = chain.next_call(stream)
        second = replace(first, seq=2, prev_acc=acc_of(first), first_offset=first.next_offset, next_offset=99)
        signed = [chain.publisher.sign(call, nonce + n) for n, call in enumerate((first, second))]
        chain.publisher.send(signed[1].raw)
        assert chain.publisher.state(signed[1].hash) is TxState.PENDING
        assert chain.publisher.nonce() == nonce
        chain.publisher.send(signed[0].raw)
        chain.settle()
        assert [chain.publisher.state(item.hash) for item in signed] == [TxState.FINAL, TxState.FINAL]
        assert chain.head(stream).seq == 2
