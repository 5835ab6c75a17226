"""Performs what the batcher's machines ask for: several streams, one account, one thread.

Each turn asks one port once and feeds the answer back, so no stream waits for another one's transaction. A
port's error is an event like any other; the machine decides whether it is tried again. One line is logged
when a stream's state changes, none while it stays as it is.
"""

from __future__ import annotations

import logging
import random
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from provenance.core.batcher import Limits, State, begin, step
from provenance.core.batcher import messages as m
from provenance.core.batches import Position, parse_file_name
from provenance.errors import ProvenanceError
from provenance.services.batch_files import anchor_call

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from provenance.ports import Anchor, BatchStore, ChainReader, Clock, EventLog
    from provenance.services.sending import Sender

__all__ = ["Conductor", "Instruments"]

LONGEST_SLEEP = 0.5  # seconds; so a request to stop is seen soon

_log = logging.getLogger("provenance.batcher")
_log.addHandler(logging.NullHandler())  # who wants lines adds a handler; nothing is printed unasked


@dataclass(frozen=True, slots=True)
class Instruments:
    """What the machines' instructions are performed on; ``publisher`` is the account that anchors."""

    log: EventLog
    reader: ChainReader
    store: BatchStore
    publisher: Sender
    clock: Clock


@dataclass(slots=True)
class _Player:
    """One machine, its next instruction, and when its pause is over."""

    state: State
    instruction: m.Instruction | None
    due: float | None = None


class Conductor:
    """Runs one machine per stream.

    Args:
        instruments: the ports.
        sources: the streams.
        limits: when batches close.
        until: by partition, the offset up to which a stream is drained; None to follow the log for ever.
        attempts: how often in a row one request may fail before `run` gives up and raises its error; None
            to try for ever.
        on_final: called with each anchor that became final.
        jitter: a number in [0, 1); pauses last half of their length and this share of the other half.
    """

    def __init__(
        self,
        instruments: Instruments,
        sources: Iterable[m.Source],
        limits: Limits,
        *,
        until: Mapping[int, int] | None = None,
        attempts: int | None = None,
        on_final: Callable[[Anchor], None] = lambda _: None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._on = instruments
        self._attempts = attempts
        self._on_final = on_final
        self._jitter = jitter
        self._found: dict[tuple[bytes, int], Anchor] = {}
        self._performs: dict[type, Callable[[Any], m.Event]] = {
            m.ReadHead: self._read_head,
            m.ReadFile: self._read_file,
            m.WriteFile: self._write_file,
            m.DropOthers: self._drop_others,
            m.ReadLog: self._read_log,
            m.FindAnchor: self._find_anchor,
            m.SignAnchor: self._sign,
            m.Keep: self._keep,
            m.Send: self._send,
            m.Settle: self._settle,
            m.Forget: self._forget,
        }
        entries = instruments.publisher.entries()
        self._players = []
        for source in sources:
            state, instruction = begin(
                source,
                limits,
                entries=[entry for entry in entries if entry.stream == source.stream],
                until=None if until is None else until.get(source.log.partition, 0),
            )
            self._players.append(_Player(state, instruction))

    def run(self, stop: Callable[[], bool] = lambda: False) -> None:
        """Go on until every stream is drained or ``stop`` says so; it is asked between two requests.

        Stopping is a crash that was announced: nothing has to be finished first.

        Raises:
            ProvenanceError: why a stream had to stop, when the others are done; or a component could not be
                reached ``attempts`` times in a row.
        """
        while not stop():
            alive = [player for player in self._players if not player.state.is_done]
            if not alive:
                break
            now = self._on.clock.monotonic()
            ready = [player for player in alive if player.due is None or player.due <= now]
            for player in ready:
                self._turn(player)
            if not ready:
                first = min(player.due for player in alive if player.due is not None)
                self._on.clock.sleep(min(LONGEST_SLEEP, first - now))
        errors = [player.state.error for player in self._players if player.state.error is not None]
        if errors:
            raise errors[0]

    def _turn(self, player: _Player) -> None:
        if player.due is not None:
            player.due = None
            self._advance(player, m.Woke())
            return
        while player.instruction is not None:
            if isinstance(player.instruction, m.Wait):
                pause = player.instruction.seconds * (0.5 + 0.5 * self._jitter())
                player.due = self._on.clock.monotonic() + pause
                return
            self._advance(player, self._perform(player.instruction))
            # What was signed is journalled and sent before another stream signs: it has a nonce.
            if not isinstance(player.instruction, m.Keep | m.Send):
                return

    def _advance(self, player: _Player, event: m.Event) -> None:
        before = player.state
        player.state, player.instruction = step(before, event)
        _log_change(before, player.state, event)
        floor = player.state.floor
        if floor is not None and floor != before.floor:
            anchor = self._found.pop((floor.stream, floor.seq))
            _log.info("%s: batch %d is final", before.source.name, floor.seq)
            self._on_final(anchor)
        gave_up = self._attempts is not None and player.state.failures >= self._attempts
        if isinstance(event, m.Failed) and gave_up and not player.state.is_done:
            raise event.error

    # --------------------------------------------------------------------------------------- instructions

    def _perform(self, instruction: m.Instruction) -> m.Event:
        try:
            return self._performs[type(instruction)](instruction)
        except ProvenanceError as error:
            # The chain was made anew under us: the contract knows no stream, for there is none.
            if error.reason == "no-contract" and isinstance(instruction, m.ReadHead | m.FindAnchor):
                return m.HeadRead(None) if isinstance(instruction, m.ReadHead) else m.AnchorFound(None, None)
            return m.Failed(error)

    def _read_head(self, ask: m.ReadHead) -> m.Event:
        head = self._on.reader.head(ask.source.stream)
        if head is None:
            return m.HeadRead(None)
        position = Position(head.stream, ask.source.generation, head.seq, head.next_offset, head.acc)
        return m.HeadRead(position, head.closed)

    def _read_file(self, ask: m.ReadFile) -> m.Event:
        return m.FileRead(self._on.store.get(ask.name))

    def _write_file(self, ask: m.WriteFile) -> m.Event:
        self._on.store.put(ask.name, ask.data)
        return m.FileWritten()

    def _drop_others(self, ask: m.DropOthers) -> m.Event:
        for name in list(self._on.store.names(f"{ask.stream.hex()}/{ask.seq:016d}-")):
            if parse_file_name(name)[2] != ask.acc:
                self._on.store.delete(name)
        return m.Dropped()

    def _read_log(self, ask: m.ReadLog) -> m.Event:
        log, partition = self._on.log, ask.source.log.partition
        messages = log.read(partition, ask.start, ask.limit)
        if ask.overlap and len(messages) == 1:
            # A read may end behind one large message. What it is compared with is read last: see `Gather`.
            more = log.read(partition, messages[0].offset + 1, ask.limit - 1)
            messages = (*log.read(partition, ask.start, 1), *more) if more else messages
        identity = next((found for found in log.identities() if found.partition == partition), None)
        if identity is None:
            return m.LogRead((), 0, 0, None, self._on.clock.monotonic())
        bounds = log.bounds(partition)
        return m.LogRead(messages, bounds.start, bounds.end, identity, self._on.clock.monotonic())

    def _find_anchor(self, ask: m.FindAnchor) -> m.Event:
        source = ask.source
        origin = Position(source.stream, source.generation, 0, source.start_offset, source.stream)
        positions, final = {0: origin}, False
        for anchor in islice(self._on.reader.anchors(source.stream, max(1, ask.seq - 1)), 2):
            positions[anchor.seq] = Position(
                source.stream, source.generation, anchor.seq, anchor.next_offset, anchor.acc
            )
            if anchor.seq == ask.seq:
                self._found[source.stream, ask.seq] = anchor
                final = self._on.publisher.is_final(anchor.transaction)
        return m.AnchorFound(positions.get(ask.seq - 1), positions.get(ask.seq), final)

    def _sign(self, ask: m.SignAnchor) -> m.Event:
        return m.Signed(self._on.publisher.sign(anchor_call(ask.manifest)))

    def _keep(self, ask: m.Keep) -> m.Event:
        self._on.publisher.keep(ask.entry)
        return m.Kept()

    def _send(self, ask: m.Send) -> m.Event:
        self._on.publisher.send(ask.transaction)
        return m.Sent()

    def _settle(self, ask: m.Settle) -> m.Event:
        publisher = self._on.publisher
        endings = publisher.settle()
        ending = endings.get(ask.entry.transaction.hash)
        entries = publisher.entries()
        if ending is None and ask.entry not in entries:
            publisher.keep(ask.entry)  # somebody removed the journal
        ours = {player.state.source.stream for player in self._players}
        for entry in entries:  # of streams that another process has now, or that were closed
            if entry.stream not in ours and entry.transaction.hash in endings:
                publisher.forget(entry.transaction)
        return m.Settled(ending)

    def _forget(self, ask: m.Forget) -> m.Event:
        self._on.publisher.forget(ask.transaction)
        return m.Forgotten()


def _log_change(before: State, after: State, event: m.Event) -> None:
    name = after.source.name
    if after.error is not None:
        _log.error("stopped: %s", after.error.message)
    elif isinstance(event, m.Failed) and before.failures == 0:
        _log.warning("%s: %s; it is tried again", name, event.error.message)
    elif before.failures and not after.failures and not isinstance(event, m.Woke):
        _log.info("%s: goes on after %d failures", name, before.failures)
