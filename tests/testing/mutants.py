"""Batchers, contracts and outboxes with one rule left out; the simulation must find each."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from unittest.mock import patch

from provenance.core.batcher import account, checks, making, places
from provenance.core.batcher import messages as m
from provenance.core.transactions import TxState
from provenance.errors import MismatchError
from provenance.services import streams
from provenance.services.conducting import Conductor
from provenance.services.sending import Sender
from provenance.testing import fake_ledger
from provenance.testing.simulation.ports import SimulatedStore
from provenance.testing.simulation.producers import Outbox
from provenance.testing.simulation.world import World


def a_contract_that_does_not_ask_for_prev_acc():
    """What continues the head by seq and offset is taken, whatever it was made for."""
    real = fake_ledger._anchor

    def anchor(state, block, transaction, call, logs):
        head = state.heads.get(call.stream)
        if head and (call.seq, call.first_offset) == (head.seq + 1, head.next_offset):
            call = replace(call, prev_acc=head.acc)
        return real(state, block, transaction, call, logs)

    return patch.object(fake_ledger, "_anchor", anchor)


@contextmanager
def files_named_by_root():
    """``STREAM/SEQ-ROOT.batch``: batches of equal bytes get one name."""
    real_put, real_delete = SimulatedStore.put, SimulatedStore.delete

    def name_of(name: str, data: bytes) -> str:
        at = data.index(b'"root":"') + 8
        return name[:82] + data[at : at + 64].decode()

    def put(self, name, data):
        taken = {name_of(other, found): other for other, found in self.objects.items()}
        if taken.get(name_of(name, data), name) != name:
            raise MismatchError("object", expected="the same", actual="others", reason="object-differs")
        real_put(self, name, data)

    with patch.object(SimulatedStore, "put", put), patch.object(SimulatedStore, "delete", real_delete):
        yield


def no_last_message_read_again():
    """Step 2 without its comparison."""
    return patch.object(checks, "check_last", lambda *_: None)


def no_leader_epoch_compared():
    """Step 2 compares bytes alone."""
    real = checks.check_last
    return patch.object(
        checks, "check_last", lambda source, last, read: real(source, replace(last, epoch=-1), read)
    )


def no_topic_id_compared():
    """A topic that was made anew passes for the old one."""
    return patch.object(checks, "binding_of", lambda log: b"")


def topic_id_asked_before_reading():
    """The identity may be older than the messages."""

    def read_log(self, ask):
        log, partition = self._on.log, ask.source.log.partition
        identity = next((found for found in log.identities() if found.partition == partition), None)
        messages = log.read(partition, ask.start, ask.limit)
        if ask.overlap and len(messages) == 1:
            more = log.read(partition, messages[0].offset + 1, ask.limit - 1)
            messages = (*log.read(partition, ask.start, 1), *more) if more else messages
        bounds = log.bounds(partition)
        return m.LogRead(messages, bounds.start, bounds.end, identity, self._on.clock.monotonic())

    return patch.object(Conductor, "_read_log", read_log)


def a_former_topic_is_no_reason_to_stop():
    """A topic that was made anew gets a stream of its own, silently."""
    return patch.object(streams, "_refuse_former", lambda *_, **__: None)


def retention_is_taken_for_skipped_offsets():
    """What retention deleted before it was anchored is passed over."""
    real = checks.check_log
    return patch.object(
        checks, "check_log", lambda source, offset, read: real(source, offset, replace(read, start=0))
    )


def a_mined_transaction_counts_as_final():
    """The journal forgets early."""
    real = account._ending

    def ending(entry, state, nonces):
        return account.Ending.FINAL if state is TxState.MINED else real(entry, state, nonces)

    return patch.object(account, "_ending", ending)


def what_was_lost_is_not_sent_again():
    """A transaction that the chain forgot is waited for."""
    real = account.settle

    def settle(*args, **kwargs):
        remembered, settlement = real(*args, **kwargs)
        return remembered, replace(settlement, resend=())

    return patch("provenance.services.sending.settle", settle)


def an_outbox_that_forgets_what_is_acknowledged():
    """A row is not kept until its record is final."""

    def look(self):
        for row in self.rows:
            row.is_final = row.is_final or row.place is not None
        self._scheduler.at(2.0, self._look)

    return patch.object(Outbox, "_look", look)


def a_store_of_ones_own():
    """Batch files are not shared."""

    def store_of(self, number):
        if number == 0:
            return self.store
        stores = self.__dict__.setdefault("others", {})
        return stores.setdefault(number, SimulatedStore())

    return patch.object(World, "store_of", store_of)


def other_files_dropped_before_the_seq_is_final():
    """Each new file drives the others of its seq out."""
    real = Conductor._write_file

    def write(self, ask):
        written = real(self, ask)
        stream, seq, acc = checks.parse_file_name(ask.name)
        self._drop_others(m.DropOthers(stream, seq, acc))
        return written

    return patch.object(Conductor, "_write_file", write)


def no_file_is_read_back():
    """A file counts as stored because the store said so."""
    real = making.after_store

    def after_store(state, place, event):
        return real(state, place, m.FileRead(place.data) if isinstance(event, m.FileWritten) else event)

    return patch.dict("provenance.core.batcher.machine._AFTER", {places.Store: after_store})


def nonces_of_the_set_up_are_free():
    """A call takes the nonce with which the contract is deployed."""
    return patch.object(Sender, "above", lambda self, reserved: self)


def a_read_ends_where_it_ends():
    """A read that gives only the message before is taken for the log's end."""
    real = Conductor._read_log
    return patch.object(Conductor, "_read_log", lambda self, ask: real(self, replace(ask, overlap=False)))


def a_quiet_log_is_no_reason_to_look_at_the_chain():
    """What the chain lost is found out with the next record only."""
    return patch.object(making, "MAX_LOOKS", 10**9)


def a_stream_is_unknown_at_the_first_look():
    """A node that lags is believed at once."""
    return patch("provenance.core.batcher.checking.MAX_BEHIND", 0)


MUTANTS = [
    a_contract_that_does_not_ask_for_prev_acc,
    files_named_by_root,
    no_last_message_read_again,
    no_leader_epoch_compared,
    no_topic_id_compared,
    topic_id_asked_before_reading,
    a_former_topic_is_no_reason_to_stop,
    retention_is_taken_for_skipped_offsets,
    a_mined_transaction_counts_as_final,
    what_was_lost_is_not_sent_again,
    an_outbox_that_forgets_what_is_acknowledged,
    a_store_of_ones_own,
    other_files_dropped_before_the_seq_is_final,
    no_file_is_read_back,
    nonces_of_the_set_up_are_free,
    a_read_ends_where_it_ends,
    a_quiet_log_is_no_reason_to_look_at_the_chain,
    a_stream_is_unknown_at_the_first_look,
]
