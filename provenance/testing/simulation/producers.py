"""Those who record: every record is kept in an outbox until it is final, and sent as often as it takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from provenance.testing.simulation.log import SimulatedLog
    from provenance.testing.simulation.scenario import Scenario
    from provenance.testing.simulation.scheduler import Scheduler

__all__ = ["Outbox", "Row"]

ACK_TIMEOUT = 1.0
LOOK = 2.0


@dataclass(slots=True, eq=False)
class Row:
    """A record in the outbox: its partition, its bytes, and where it was acknowledged last."""

    partition: int
    value: bytes
    place: tuple[str, int] | None = None
    """``(topic id, offset)``."""
    is_final: bool = False


class Outbox:
    """All producers' outboxes.

    An append may fail, be done without an answer, or be done later than its answer was waited for; each means
    a repeat. A row stays until its record is final: one whose place no longer holds it is sent again.

    Args:
        scenario: how much, and how.
        scheduler: the time.
        log: where to.
        rng: draws what becomes of a request.
        is_final: whether a record is final at its place.
        note: takes a line for the trace.
    """

    def __init__(
        self,
        scenario: Scenario,
        scheduler: Scheduler,
        log: SimulatedLog,
        rng: random.Random,
        is_final: Callable[[int, tuple[str, int], bytes], bool],
        note: Callable[[str], None],
    ) -> None:
        self.rows: list[Row] = []
        self.acknowledged: list[tuple[int, str, int, bytes]] = []
        """``(partition, topic id, offset, bytes)`` of everything that was ever acknowledged."""
        self.is_calm = False
        self._scenario = scenario
        self._scheduler = scheduler
        self._log = log
        self._rng = rng
        self._is_final = is_final
        self._note = note
        for _ in range(scenario.records):
            scheduler.at(rng.random() ** 2 * scenario.chaos, self._emit)
        scheduler.at(LOOK, self._look)

    def waits_for(self, partitions: set[int]) -> bool:
        """Whether a record of these partitions is not final yet, as far as the outbox knows."""
        emitted = len(self.rows) == self._scenario.records
        return not emitted or any(row.partition in partitions and not row.is_final for row in self.rows)

    def _emit(self) -> None:
        rng = self._rng
        value = b"record %d" % rng.randrange(self._scenario.values) if rng.random() < 0.9 else b""
        row = Row(rng.randrange(self._scenario.partitions), value)
        self.rows.append(row)
        self._send(row)

    def _send(self, row: Row) -> None:
        chance = 1.0 if self.is_calm else self._rng.random()
        if not self._log.identities():  # the topic is gone; nobody makes it but its owner
            chance = 0.0
        if chance < 0.06:
            pass
        elif chance < 0.12:
            self._scheduler.at(self._rng.random() * 3 * ACK_TIMEOUT, lambda: self._write(row, answer=False))
        else:
            self._write(row, answer=chance >= 0.24)
        if row.place is None:
            self._scheduler.at(ACK_TIMEOUT, lambda: self._repeat(row))

    def _repeat(self, row: Row) -> None:
        if row.place is None:
            self._send(row)

    def _write(self, row: Row, *, answer: bool) -> None:
        if not self._log.identities():
            return
        if self._scenario.skips and self._rng.random() < 0.3:
            self._log.skip(row.partition, self._rng.choice((1, 1, 3)))
        topic_id, offset = self._log.topic_id, self._log.write(row.partition, row.value)
        self._note(f"log {row.partition}: offset {offset} holds {row.value!r}")
        if self._scenario.unseen and not self.is_calm:
            delay = self._rng.random() * ACK_TIMEOUT
            self._scheduler.at(delay, lambda: self._show(row, topic_id, offset, answer=answer))
        else:
            self._show(row, topic_id, offset, answer=answer)

    def _show(self, row: Row, topic_id: str, offset: int, *, answer: bool) -> None:
        if not self._log.holds(topic_id, row.partition, offset, row.value):
            return
        self._log.show(row.partition)
        if answer and row.place is None:
            row.place = topic_id, offset
            self.acknowledged.append((row.partition, topic_id, offset, row.value))

    def _look(self) -> None:
        for row in self.rows:
            if row.is_final or row.place is None:
                continue
            if self._is_final(row.partition, row.place, row.value):
                row.is_final = True
            elif not self._log.holds(row.place[0], row.partition, row.place[1], row.value):
                self._note(f"outbox: offset {row.place[1]} of partition {row.partition} is lost; sent again")
                row.place = None
                self._send(row)
        self._scheduler.at(LOOK, self._look)
