"""Sending through the outbox: no record is lost where the log does not answer, and none waits for ever.

`Outgoing.send` is what recording calls: the record is on the log, or in the outbox, when it returns. What is
in the outbox goes to the log in the background of the process that kept it or of the next one that records
here, when a run starts and before it is sealed, and whenever `provenance batch` works; only the last sees the
chain, and can tell what is final.

===================================== ===================================================================
a crash after                         means
===================================== ===================================================================
the mark in the batch store           a mark without a record; the seal waits until the task ran again
the record is in the outbox           nothing: the task may run again, and the same bytes are one row
it is on the log, unanswered          it is sent again: a repeat counts once
it is on the log, its place unnoted   the same
===================================== ===================================================================

The marks (``runs/RUN/outbox/ID``) are how a seal knows of outboxes on other machines.
"""

from __future__ import annotations

import contextlib
import logging
import random
import threading
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from provenance.core.merkle import leaf_hash
from provenance.core.outbox import CALM, Fate, Finality, Holding, Place, fate, goes_to_outbox, held_at
from provenance.core.runs import outbox_mark, run_of
from provenance.errors import MalformedError, ProvenanceError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from provenance.core.outbox import OutboxDepth, OutboxRow
    from provenance.core.streams import LogIdentity
    from provenance.ports import BatchStore, Clock, EventLog, Outbox
    from provenance.services.finality import FinalRecords

__all__ = ["Drained", "Outgoing", "drain"]

PAGE = 500
"""Rows that are looked at, and records that are sent, at once, at most."""
ATTEMPTS = 6

_log = logging.getLogger("provenance.outbox")


@dataclass(frozen=True, slots=True)
class Drained:
    """What came of a look at an outbox: records sent, of which some again, and those that were final."""

    sent: int = 0
    again: int = 0
    forgotten: int = 0

    def __add__(self, other: Drained) -> Drained:
        return Drained(self.sent + other.sent, self.again + other.again, self.forgotten + other.forgotten)


class Outgoing:
    """The way from this process to the log, with the outbox beside it. A `Dispatcher`.

    Threads share it. After a failure the log is left alone for a while (`Backoff`) and records go to the
    outbox at once, so that a broker's hour away costs each process a few timeouts and not one a record.

    Args:
        outbox: of this machine.
        store: takes the marks.
        clock: the time.
        keep: whether a record that is not acknowledged is kept, and the task goes on; else the error is the
            task's.
        alone: entered while what waits is sent, so that processes do not all send the same; raises
            ``UnavailableError`` with ``reason="locked"`` while another one does.
        jitter: a number in [0, 1) each time.
        background: whether a thread sends what this process kept, or one before it, as soon as the log
            answers.
    """

    def __init__(
        self,
        outbox: Outbox,
        store: BatchStore,
        clock: Clock,
        *,
        keep: bool = True,
        alone: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext,
        jitter: Callable[[], float] = random.random,
        background: bool = True,
    ) -> None:
        self._outbox = outbox
        self._store = store
        self._clock = clock
        self._keep = keep
        self._alone = alone
        self._jitter = jitter
        self._background = background
        self._lock = threading.Lock()
        self._backoff = CALM
        self._refusal = ""
        self._page = PAGE
        self._has_looked = not background
        self._sender: threading.Thread | None = None

    def send(self, records: Sequence[tuple[bytes, bytes]], log: Callable[[], EventLog]) -> None:
        """Append records to the log, or keep them; durable when it returns.

        Raises:
            UnavailableError: the log does not acknowledge, and the settings say that this ends the task
                (``log.on_ack_timeout``); or what is wrong is wrong with this machine's disk; or the outbox
                cannot take the records either.
        """
        refusal = self._refusal  # one read: empty, but for a while after a failure
        if not refusal or self._backoff.is_over(self._clock.monotonic()):
            try:
                log().append(records)
            except UnavailableError as error:
                if not (self._keep and goes_to_outbox(error.reason)):
                    raise
                self._failed(error)
                refusal = error.message
            else:
                self._answered(log)
                return
        self._put(records, refusal)
        self._send_later(log)

    def depth(self) -> OutboxDepth:
        """How much waits on this machine."""
        return self._outbox.depth()

    def flush(self, log: EventLog, *, attempts: int = ATTEMPTS) -> Drained:
        """Send what was never acknowledged; of what was, only `review` can tell whether it is still there.

        Args:
            log: the log.
            attempts: how often it may fail in a row before the last error is raised.
        """
        return self._drain(log, None, attempts)

    def review(self, log: EventLog, final: FinalRecords) -> Drained:
        """Send what was never acknowledged or is on the log no more, and forget what is final."""
        return self._drain(log, final, 1)

    def _drain(self, log: EventLog, final: FinalRecords | None, attempts: int) -> Drained:
        backoff = CALM
        while self._waits(final):
            try:
                with self._alone():
                    found = drain(self._outbox, log, final, page=self._page)
            except UnavailableError as error:
                if error.reason != "locked":  # fewer at once: those may be acknowledged in time
                    self._page = max(1, self._page // 2)
                pause = backoff.pause(self._jitter())
                backoff = backoff.after_failure(self._clock.monotonic(), 0.0)
                if backoff.failures >= attempts:
                    raise
                self._clock.sleep(pause)
            else:
                self._page = min(PAGE, 2 * self._page)
                return found
        return Drained()

    def _waits(self, final: FinalRecords | None) -> bool:
        depth = self._outbox.depth()
        return bool(depth.unsent if final is None else depth.records)

    # ------------------------------------------------------------------------------------------ keeping

    def _failed(self, error: UnavailableError) -> None:
        with self._lock:
            first = not self._refusal
            self._backoff = self._backoff.after_failure(self._clock.monotonic(), self._jitter())
            self._refusal = error.message
        if first:
            _log.warning("%s; records are kept in the outbox until it does", error.message)

    def _answered(self, log: Callable[[], EventLog]) -> None:
        if self._refusal:
            with self._lock:
                self._backoff, self._refusal = CALM, ""
            _log.info("the log acknowledges records again")
        if not self._has_looked:
            self._has_looked = True
            self._take_over(log)

    def _take_over(self, log: Callable[[], EventLog]) -> None:
        """Send what a process that is gone left behind; on a machine of workers nobody else would."""
        try:
            if self._outbox.depth().unsent:
                self._send_later(log)
        except ProvenanceError as error:
            _log.warning("%s; what is in the outbox waits", error.message)

    def _put(self, records: Sequence[tuple[bytes, bytes]], refusal: str) -> None:
        try:
            for _, value in records:
                run = run_of(value)
                if run is not None:
                    self._store.put(outbox_mark(run, leaf_hash(value)), b"")
            self._outbox.keep(records, self._clock.now())
        except ProvenanceError as error:
            error.add_note(f"  the records went to the outbox because: {refusal}")
            raise

    def _send_later(self, log: Callable[[], EventLog]) -> None:
        if not self._background:
            return
        with self._lock:
            if self._sender is None or not self._sender.is_alive():  # a fork leaves its parent's behind
                self._sender = threading.Thread(
                    target=self._send_waiting, args=(log,), name="provenance outbox", daemon=True
                )
                self._sender.start()

    def _send_waiting(self, log: Callable[[], EventLog]) -> None:
        """Until nothing unsent is left; the process may end at any point, and another one goes on."""
        backoff = CALM
        while True:
            self._clock.sleep(backoff.pause(self._jitter()))
            backoff = backoff.after_failure(self._clock.monotonic(), 0.0)
            try:
                self.flush(log(), attempts=1)
                with self._lock:  # what is kept from now on finds no sender, and starts one
                    if not self._outbox.depth().unsent:
                        self._sender = None
                        return
            except UnavailableError:
                continue
            except ProvenanceError as error:
                _log.warning("%s; what is in the outbox waits", error.message)
                return


# --------------------------------------------------------------------------------------------------- draining


def drain(outbox: Outbox, log: EventLog, final: FinalRecords | None = None, *, page: int = PAGE) -> Drained:
    """One look at every row: send, keep or forget it. Memory: one page of rows and one batch.

    Args:
        outbox: what waits.
        log: where to.
        final: what the chain says; without it only rows that were never acknowledged are looked at.
        page: how many rows are looked at, and records sent, at once.

    Raises:
        UnavailableError: the log does not answer; what was sent before is noted.
        MalformedError: the log refuses a record; all others were sent.
    """
    total = Drained()
    refusals: list[MalformedError] = []
    after = 0
    while rows := outbox.rows(after, page, only_unsent=final is None):
        after = rows[-1].number
        logs = log.identities()
        fates = dict(_fates(rows, logs, log, final))
        forgotten = [row.number for row in rows if fates[row.number] is Fate.FORGET]
        outbox.settle({}, forgotten)
        to_send = [row for row in rows if fates[row.number] is Fate.SEND]
        placed = _send(to_send, logs, log, refusals)
        outbox.settle(placed, ())
        again = sum(row.place is not None for row in to_send if row.number in placed)
        total += Drained(len(placed), again, len(forgotten))
    if refusals:
        raise refusals[0]
    return total


def _fates(
    rows: Sequence[OutboxRow], logs: Sequence[LogIdentity], log: EventLog, final: FinalRecords | None
) -> Iterator[tuple[int, Fate]]:
    """(number, fate) of every row; places are looked at in the order of their offsets."""
    placed: list[tuple[Place, OutboxRow]] = []
    for row in rows:
        if row.place is None or final is None:
            yield row.number, fate(row.place, Finality.UNKNOWN, Holding.UNKNOWN)
        else:
            placed.append((row.place, row))
    placed.sort(key=lambda pair: (pair[0], pair[1].number))
    rest = []
    for place, row in placed:
        finality = final.look(place, row.value) if final is not None else Finality.UNKNOWN
        if finality is Finality.NOT_FINAL:
            rest.append((place, row))
        else:
            yield row.number, fate(place, finality, Holding.UNKNOWN)
    for (_, _, partition), group in groupby(
        rest, key=lambda p: (p[0].cluster_id, p[0].topic_id, p[0].partition)
    ):
        of_one = list(group)
        found = {} if not of_one[0][0].is_in(logs) else _values(log, partition, [p.offset for p, _ in of_one])
        for place, row in of_one:
            holding = (
                Holding.UNKNOWN if found is None else held_at(place, row.value, logs, found.get(place.offset))
            )
            yield row.number, fate(place, Finality.NOT_FINAL, holding)


def _values(log: EventLog, partition: int, offsets: Sequence[int]) -> dict[int, bytes] | None:
    """The messages at some ascending offsets; None where the log cannot be read."""
    wanted = set(offsets)
    found: dict[int, bytes] = {}
    looked = -1
    for offset in offsets:
        if offset <= looked:
            continue
        try:
            messages = log.read(partition, offset, PAGE)
        except ProvenanceError:
            return None
        found |= {message.offset: message.value for message in messages if message.offset in wanted}
        looked = messages[-1].offset if messages else offsets[-1]
    return found


def _send(
    rows: Sequence[OutboxRow], logs: Sequence[LogIdentity], log: EventLog, refusals: list[MalformedError]
) -> dict[int, Place]:
    """Where the log acknowledged each row, but for those that it refuses."""
    if not rows:
        return {}
    try:
        places = log.append([(row.key, row.value) for row in rows])
    except MalformedError as error:
        if len(rows) == 1:
            refusals.append(error)
            return {}
        half = len(rows) // 2
        return _send(rows[:half], logs, log, refusals) | _send(rows[half:], logs, log, refusals)
    ids = {identity.partition: identity for identity in logs}
    return {
        row.number: Place.at(ids[partition], offset)
        for row, (partition, offset) in zip(rows, places, strict=True)
        if partition in ids  # a partition that was added meanwhile: sent again when it is known
    }
