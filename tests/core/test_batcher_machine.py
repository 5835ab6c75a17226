"""The machine of one stream, event by event: every step, every way out of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from provenance.core.batcher import Ending, Limits, begin, build_from_pile, empty_pile, step
from provenance.core.batcher import messages as m
from provenance.core.batcher.pile import add_messages
from provenance.core.batches import Position, encode_batch, file_name
from provenance.core.streams import LogIdentity
from provenance.core.transactions import JournalEntry, SignedTransaction
from provenance.errors import ConfigError, MalformedError, UnavailableError

LOG = LogIdentity("cluster", "records", "0a" * 16, 0)
STREAM = b"s" * 32
SOURCE = m.Source(STREAM, 1, 0, LOG)
START = Position(STREAM, 1, 0, 0, STREAM)
LIMITS = Limits(max_records=3, max_bytes=100, max_age=5.0, read_size=10, poll=1.0)
TX = SignedTransaction(4, b"h" * 32, b"raw")
DOWN = UnavailableError("down", reason="down")


@dataclass(frozen=True)
class Message:
    offset: int
    value: bytes
    leader_epoch: int = 0


def log_of(*values: bytes, start: int = 0) -> list[Message]:
    return [Message(start + at, value) for at, value in enumerate(values)]


def read(messages, *, start: int = 0, end: int | None = None, log=LOG, now: float = 0.0) -> m.LogRead:
    end = messages[-1].offset + 1 if end is None and messages else end or 0
    return m.LogRead(tuple(messages), start, end, log, now)


def batch_of(*values: bytes, position: Position = START):
    pile = add_messages(
        empty_pile(LOG, position.next_offset), log_of(*values, start=position.next_offset), LIMITS, 0.0
    )
    return build_from_pile(pile, position, LOG)


def after(batch) -> Position:
    manifest = batch.manifest
    return Position(STREAM, 1, manifest.seq, manifest.next_offset, manifest.acc)


FIRST = batch_of(b"a", b"b", b"c")
HEAD = after(FIRST)
NAME = file_name(FIRST.manifest)
ENTRY = JournalEntry(TX, "anchor", STREAM, 1)
AGAIN_FROM_2 = m.ReadLog(SOURCE, 2, 11, overlap=True)


def play(state, *events):
    """Feed events in turn; the last state and instruction."""
    asked = state.asks
    for event in events:
        state, asked = step(state, event)
    return state, asked


def new(**changes):
    return begin(SOURCE, LIMITS, **changes)[0]


def at_gather(*, until: int | None = None):
    """A machine that has read the head of seq 1 and its file, and now reads the log from offset 2 on."""
    state, asked = play(new(until=until), m.HeadRead(HEAD), m.FileRead(encode_batch(FIRST)))
    assert asked == AGAIN_FROM_2
    return state


def at_sign():
    """A machine that stored the first batch of an empty stream."""
    state, asked = play(new(), m.HeadRead(START), read(log_of(b"a", b"b", b"c")))
    assert asked == m.WriteFile(NAME, encode_batch(FIRST))
    state, asked = play(state, m.FileWritten())
    assert asked == m.ReadFile(NAME)
    state, asked = play(state, m.FileRead(encode_batch(FIRST)))
    assert asked == m.SignAnchor(FIRST.manifest)
    return state


def at_await():
    state, asked = play(at_sign(), m.Signed(TX))
    assert asked == m.Keep(ENTRY)  # journalled before it is sent
    state, asked = play(state, m.Kept())
    assert asked == m.Send(TX)
    state, asked = play(state, m.Sent())
    assert asked == m.Settle(ENTRY)
    return state


def stopped(state, reason: str):
    assert state.is_done
    assert state.asks is None
    assert state.error is not None
    assert state.error.reason == reason
    return state.error


# The whole way.


def test_a_batch_from_the_log_to_its_final_anchor() -> None:
    state, asked = play(at_await(), m.Settled(Ending.FINAL))
    assert asked == m.FindAnchor(SOURCE, 1)
    state, asked = play(state, m.AnchorFound(START, HEAD))
    assert asked == m.DropOthers(STREAM, 1, HEAD.acc)
    state, asked = play(state, m.Dropped())
    assert asked == m.Forget(TX)
    assert state.floor == HEAD
    state, asked = play(state, m.Forgotten())
    assert asked == m.ReadHead(SOURCE)
    state, asked = play(state, m.HeadRead(HEAD))
    assert asked == AGAIN_FROM_2, "its own file, just read back, is not read again"
    assert state.error is None


def test_a_start_without_a_journal_reads_the_head() -> None:
    assert begin(SOURCE, LIMITS)[1] == m.ReadHead(SOURCE)


def test_a_start_settles_every_entry_of_the_journal_first() -> None:
    other = JournalEntry(replace(TX, nonce=5, hash=b"i" * 32), "anchor", STREAM, 1)
    state, asked = begin(SOURCE, LIMITS, entries=[ENTRY, other])
    assert asked == m.Settle(ENTRY)
    state, asked = play(state, m.Settled(Ending.SPENT), m.Forgotten())
    assert asked == m.Settle(other)
    state, asked = play(state, m.Settled(Ending.GAP), m.Forgotten())
    assert asked == m.ReadHead(SOURCE)


# Step 1.


def unknown(state):
    """The machine after six looks at a chain that does not know its stream."""
    for _ in range(5):
        state, asked = play(state, m.HeadRead(None))
        assert asked == m.Wait(1.0)
        state, asked = play(state, m.Woke())
        assert asked == m.ReadHead(SOURCE)
    return play(state, m.HeadRead(None))[0]


def test_a_stream_that_stays_unknown_stops() -> None:
    stopped(unknown(new()), "stream-unknown")


def test_a_stream_that_is_unknown_although_a_batch_was_final_says_so() -> None:
    assert HEAD.acc.hex() in stopped(unknown(final_floor()), "chain-behind").message


def test_a_closed_stream_stops() -> None:
    state, _ = play(new(), m.HeadRead(HEAD, closed=True))
    assert isinstance(stopped(state, "stream-closed"), ConfigError)


def final_floor():
    """A machine whose first batch is final, at step 1."""
    ends = (m.Settled(Ending.FINAL), m.AnchorFound(START, HEAD), m.Dropped(), m.Forgotten())
    return play(at_await(), *ends)[0]


def test_a_lagging_node_is_asked_again() -> None:
    state, asked = play(final_floor(), m.HeadRead(START))
    assert asked == m.Wait(1.0)
    state, asked = play(state, m.Woke())
    assert asked == m.ReadHead(SOURCE)
    state, asked = play(state, m.HeadRead(HEAD))
    assert asked == AGAIN_FROM_2


def test_a_chain_that_stays_behind_what_was_final_stops() -> None:
    state = final_floor()
    for _ in range(5):
        state, asked = play(state, m.HeadRead(START), m.Woke())
        assert asked == m.ReadHead(SOURCE)
    state, _ = play(state, m.HeadRead(START))
    error = stopped(state, "chain-behind")
    assert START.acc.hex() in error.message
    assert HEAD.acc.hex() in error.message


def test_a_replaced_final_batch_stops() -> None:
    state, _ = play(final_floor(), m.HeadRead(replace(HEAD, acc=b"x" * 32)))
    stopped(state, "history-differs")


# Step 2: the head's file.


@pytest.mark.parametrize("damage", [b"", encode_batch(FIRST)[:-1], encode_batch(batch_of(b"x", b"y", b"z"))])
def test_a_head_file_that_is_not_the_anchored_one_stops(damage: bytes) -> None:
    state, _ = play(new(), m.HeadRead(HEAD), m.FileRead(damage))
    error = stopped(state, "batch-file")
    assert NAME in error.message
    assert error.remedy


def test_a_missing_head_file_is_made_again_byte_for_byte() -> None:
    state, asked = play(new(), m.HeadRead(HEAD), m.FileRead(None))
    assert asked == m.FindAnchor(SOURCE, 1)
    state, asked = play(state, m.AnchorFound(START, HEAD))
    assert asked == m.ReadLog(SOURCE, 0, 3)
    state, asked = play(state, read(log_of(b"a"), end=9))
    assert asked == m.ReadLog(SOURCE, 1, 2)
    state, asked = play(state, read(log_of(b"b", b"c", b"next", start=1)))
    assert asked == m.WriteFile(NAME, encode_batch(FIRST))
    state, asked = play(state, m.FileWritten(), m.FileRead(encode_batch(FIRST)))
    assert asked == AGAIN_FROM_2


@pytest.mark.parametrize(
    "found", [m.AnchorFound(None, None), m.AnchorFound(START, replace(HEAD, acc=b"x" * 32))]
)
def test_a_head_that_reorganised_meanwhile_is_read_again(found) -> None:
    _, asked = play(new(), m.HeadRead(HEAD), m.FileRead(None), found)
    assert asked == m.ReadHead(SOURCE)


@pytest.mark.parametrize("values", [[b"a", b"b", b"other"], [b"a", b"b"], []])
def test_a_missing_head_file_that_the_log_does_not_give_stops(values) -> None:
    state, asked = play(new(), m.HeadRead(HEAD), m.FileRead(None), m.AnchorFound(START, HEAD))
    while not state.is_done:
        found = [message for message in log_of(*values) if message.offset >= asked.start]
        state, asked = play(state, read(found, end=9))
    error = stopped(state, "log-rewritten")
    assert error.expected == HEAD.acc.hex()


# Step 2: the log.


@pytest.mark.parametrize(
    ("found", "reason", "words"),
    [
        (read([], end=2), "log-truncated", "ends at offset 2"),
        (read([], start=5, end=9), "log-retention", "2 offsets from 3 on"),
        (read(log_of(b"c", start=2), log=None), "log-made-anew", "the partition is gone"),
        (read(log_of(b"c", start=2), log=replace(LOG, topic_id="0b" * 16)), "log-made-anew", "0b" * 16),
        (read(log_of(b"c", start=2), log=replace(LOG, cluster_id="other")), "log-made-anew", "made anew"),
        (read([Message(2, b"x")]), "log-rewritten", "offset 2"),
        (read([Message(2, b"c", 1)]), "log-rewritten", "epoch 0, found 1"),
        (read([Message(3, b"d")], start=3), "log-rewritten", "no longer holds it"),
        (read([], end=3), "log-rewritten", "no longer holds it"),
    ],
)
def test_a_log_that_lost_what_is_anchored_stops(found, reason, words) -> None:
    state, _ = play(at_gather(), found)
    error = stopped(state, reason)
    assert words in error.message
    assert error.remedy


@pytest.mark.parametrize("log", [LOG, replace(LOG, topic="renamed")])
def test_an_unknown_epoch_and_a_topic_renamed_are_no_loss(log) -> None:
    state, asked = play(at_gather(), read([Message(2, b"c", -1), Message(3, b"d")], log=log))
    assert asked == replace(AGAIN_FROM_2, start=3)
    assert state.error is None


def test_a_log_rewritten_between_two_reads_of_a_batch_stops() -> None:
    state, asked = play(at_gather(), read([Message(2, b"c"), Message(3, b"d")]))
    assert asked == replace(AGAIN_FROM_2, start=3)
    state, _ = play(state, read([Message(3, b"other"), Message(4, b"e")]))
    stopped(state, "log-rewritten")


# Step 3.


def test_it_waits_for_more_until_the_batch_is_old_enough() -> None:
    state, asked = play(at_gather(), read(log_of(b"c", b"d", start=2), now=1.0))
    assert asked == replace(AGAIN_FROM_2, start=3)
    state, asked = play(state, read([Message(3, b"d")], now=1.5))
    assert asked == m.Wait(1.0)
    state, asked = play(state, m.Woke())
    assert asked == replace(AGAIN_FROM_2, start=3)
    state, asked = play(state, read([Message(3, b"d")], now=6.0))
    assert isinstance(asked, m.WriteFile)


def test_a_pause_is_not_longer_than_a_batch_may_wait() -> None:
    limits = replace(LIMITS, max_age=0.5)
    state = begin(SOURCE, limits)[0]
    state, asked = play(state, m.HeadRead(START), read([Message(0, b"a")]), read([Message(0, b"a")], now=0.1))
    assert asked == m.Wait(0.5)


def test_a_full_batch_does_not_wait() -> None:
    _, asked = play(new(), m.HeadRead(START), read(log_of(b"a", b"b", b"c", b"d")))
    assert asked == m.WriteFile(NAME, encode_batch(FIRST))


def test_a_quiet_log_is_looked_at_from_time_to_time() -> None:
    state, asked = play(at_gather(), read([Message(2, b"c")]))
    assert asked == m.Wait(1.0)
    state, asked = play(state, m.Woke())
    assert asked == m.ReadLog(SOURCE, 3, 1)
    state, asked = play(state, read([], end=3))
    assert asked == m.Wait(1.0)
    state, asked = play(state, m.Woke(), read([Message(3, b"d")]))
    assert asked == m.ReadHead(SOURCE), "another batcher may have anchored it"


def test_a_chain_is_looked_at_although_the_log_stays_quiet() -> None:
    state, asked = play(at_gather(), read([Message(2, b"c")]))
    looks = 0
    while asked != m.ReadHead(SOURCE):
        assert asked == m.Wait(1.0)
        state, asked = play(state, m.Woke(), read([], end=3))
        looks += 1
    assert looks == 10


def test_a_quiet_log_that_is_cut_stops() -> None:
    state, _ = play(at_gather(), read([Message(2, b"c")]), m.Woke(), read([], end=1))
    stopped(state, "log-truncated")


def test_a_message_that_cannot_be_anchored_stops_by_name() -> None:
    state, _ = play(new(), m.HeadRead(START), read([Message(0, bytes((1 << 20) + 1))]))
    assert isinstance(stopped(state, "leaf-length"), MalformedError)


def test_a_drain_does_not_wait_for_age() -> None:
    _, asked = play(new(until=2), m.HeadRead(START), read(log_of(b"a", b"b")))
    assert isinstance(asked, m.WriteFile)


def test_a_drain_ends_at_its_goal_although_the_log_goes_on() -> None:
    state, asked = play(at_gather(until=3), read(log_of(b"c", b"later", start=2)))
    assert state.is_done
    assert (asked, state.error, state.place.position) == (None, None, HEAD)


def test_a_drain_ends_at_the_log_s_end() -> None:
    state, _ = play(at_gather(until=9), read([Message(2, b"c")], end=9))  # only markers stand behind
    assert state.is_done
    state, asked = play(
        new(until=9), m.HeadRead(START), read([Message(0, b"a")]), read([Message(0, b"a")], end=9)
    )
    assert isinstance(asked, m.WriteFile)


# Step 4.


WRITTEN = (read(log_of(b"a", b"b", b"c")), m.FileWritten())


def test_a_file_that_is_gone_when_it_is_read_back_leads_to_the_head() -> None:
    state, asked = play(new(), m.HeadRead(START), *WRITTEN, m.FileRead(None))
    assert asked == m.ReadHead(SOURCE), "another batcher may have anchored the seq, and dropped the file"
    _, asked = play(state, m.HeadRead(HEAD))
    assert asked == m.ReadFile(NAME)
    state, _ = play(state, m.HeadRead(START), *WRITTEN, m.FileRead(None))
    stopped(state, "read-back")


@pytest.mark.parametrize("back", [b"", encode_batch(FIRST) + b"x"])
def test_a_file_that_does_not_come_back_stops_before_anything_is_signed(back) -> None:
    written = (m.HeadRead(START), read(log_of(b"a", b"b", b"c")), m.FileWritten(), m.FileRead(back))
    state, _ = play(new(), *written)
    stopped(state, "read-back")


# Steps 5 to 8.


def test_a_lost_reply_of_send_is_looked_up_and_not_sent_again() -> None:
    state, asked = play(at_sign(), m.Signed(TX), m.Kept(), m.Failed(DOWN))
    assert isinstance(asked, m.Wait)
    _, asked = play(state, m.Woke())
    assert asked == m.Settle(ENTRY)


def test_a_refusal_of_send_that_no_repetition_mends_stops() -> None:
    state, _ = play(at_sign(), m.Signed(TX), m.Kept(), m.Failed(ConfigError("no gas", reason="funds")))
    stopped(state, "funds")


def test_looks_at_a_transaction_get_rarer_up_to_the_polling_interval() -> None:
    state, pauses = at_await(), []
    for _ in range(9):
        state, asked = play(state, m.Settled(None))
        pauses.append(asked.seconds)
        state, asked = play(state, m.Woke())
        assert asked == m.Settle(ENTRY)
    assert pauses == sorted(pauses)
    assert pauses[0] < 0.1
    assert pauses[-1] == 1.0


def test_a_refused_batch_makes_way_for_the_one_that_is_final() -> None:
    other = replace(HEAD, acc=b"x" * 32)
    state, asked = play(at_await(), m.Settled(Ending.REVERTED))
    assert asked == m.FindAnchor(SOURCE, 1)
    _, asked = play(state, m.AnchorFound(START, other))
    assert asked == m.Forget(TX), "a reorganisation may still make ours the one"
    state, asked = play(state, m.AnchorFound(START, other, final=True))
    assert asked == m.DropOthers(STREAM, 1, other.acc)
    state, asked = play(state, m.Dropped())
    assert asked == m.Forget(TX)
    state, asked = play(state, m.Forgotten())
    assert asked == m.ReadHead(SOURCE)
    assert (state.floor, state.refused) == (None, (1, STREAM))


@pytest.mark.parametrize("ending", [Ending.SPENT, Ending.GAP])
def test_what_did_not_become_final_is_forgotten_and_the_head_read(ending) -> None:
    state, asked = play(at_await(), m.Settled(ending))
    assert asked == m.Forget(TX)
    state, asked = play(state, m.Forgotten())
    assert asked == m.ReadHead(SOURCE)
    assert state.floor is None


def refuse(state, times: int):
    for _ in range(times):
        made = (m.HeadRead(START), read(log_of(b"a", b"b", b"c")), m.FileWritten())
        sent = (m.FileRead(encode_batch(FIRST)), m.Signed(TX), m.Kept(), m.Sent())
        state, _ = play(state, *made, *sent, m.Settled(Ending.REVERTED))
        state, _ = play(state, m.AnchorFound(START, None), m.Forgotten())
    return state


def test_a_contract_that_refuses_again_and_again_stops() -> None:
    state, _ = play(refuse(new(), 3), m.HeadRead(START))
    stopped(state, "refused")


def test_a_refusal_because_the_head_had_moved_is_none() -> None:
    state, asked = play(refuse(new(), 3), m.HeadRead(HEAD))
    assert asked == AGAIN_FROM_2  # the file that it stored itself is the head's now
    assert state.refused == (0, HEAD.acc)


def test_an_anchor_that_vanished_after_it_was_final_leaves_no_floor() -> None:
    state, asked = play(at_await(), m.Settled(Ending.FINAL), m.AnchorFound(None, None))
    assert asked == m.Forget(TX)
    assert state.floor is None


# Failures.


def test_a_component_that_is_down_is_asked_again_ever_more_rarely() -> None:
    state, pauses = new(), []
    for _ in range(12):
        state, asked = play(state, m.Failed(DOWN))
        pauses.append(asked.seconds)
        state, asked = play(state, m.Woke())
        assert asked == m.ReadHead(SOURCE)
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (0.2, 30.0)
    assert state.failures == 12
    state, _ = play(state, m.HeadRead(START))
    assert state.failures == 0


def test_what_no_repetition_mends_stops() -> None:
    state, _ = play(new(), m.Failed(MalformedError("odd", reason="odd")))
    stopped(state, "odd")


@pytest.mark.parametrize("event", [m.Sent(), m.FileRead(None), m.Settled(None)])
def test_an_answer_to_another_question_is_a_bug(event) -> None:
    with pytest.raises(TypeError, match="expected HeadRead"):
        step(new(), event)


def test_a_machine_that_is_done_takes_no_event() -> None:
    state, _ = play(new(), m.HeadRead(HEAD, closed=True))
    with pytest.raises(TypeError, match="done"):
        step(state, m.Woke())


def test_a_machine_that_backs_off_takes_nothing_but_waking() -> None:
    state, _ = play(new(), m.Failed(DOWN))
    with pytest.raises(TypeError, match="expected Woke"):
        step(state, m.HeadRead(START))
