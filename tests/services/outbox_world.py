"""A log, an outbox, and a chain of which only the word is there: which bytes are final at which place."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import Any

from provenance.core.outbox import Finality, Place
from provenance.errors import UnavailableError
from provenance.services.outbox import Outgoing
from provenance.testing.fakes import FakeClock, FakeLog, FakeOutbox, FakeStore
from provenance.testing.faults import Fault, Faults, faulty


class Word:
    """What is final, in place of `FinalRecords`."""

    def __init__(self) -> None:
        self.values: dict[Place, bytes] = {}
        self.is_known = True

    def look(self, place: Place, value: bytes) -> Finality:
        if not self.is_known:
            return Finality.UNKNOWN
        return Finality.FINAL if self.values.get(place) == value else Finality.NOT_FINAL


def down(world: OutboxWorld, times: int = 1) -> None:
    """The next appends fail."""
    world.faults.on("log.append", Fault.FAILED, times=times)


@dataclass
class OutboxWorld:
    partitions: int = 1
    log: FakeLog = field(init=False)
    outbox: FakeOutbox = field(default_factory=FakeOutbox)
    store: FakeStore = field(default_factory=FakeStore)
    clock: FakeClock = field(default_factory=FakeClock)
    faults: Faults = field(default_factory=Faults)
    word: Word = field(default_factory=Word)
    is_locked: bool = False

    def __post_init__(self) -> None:
        self.log = FakeLog(self.partitions)

    @property
    def faulty_log(self) -> FakeLog:
        return faulty(self.log, "log", self.faults)

    def outgoing(self, **options: Any) -> Outgoing:
        """What one process has; a new one each time."""
        given: dict[str, Any] = {"alone": self._alone, "jitter": lambda: 0.0, "background": False}
        return Outgoing(
            faulty(self.outbox, "outbox", self.faults),
            faulty(self.store, "store", self.faults),
            self.clock,
            **{**given, **options},
        )

    @contextlib.contextmanager
    def _alone(self):
        if self.is_locked:
            raise UnavailableError("another one works", reason="locked")
        yield

    def finalise(self, partition: int = 0) -> None:
        """All that the partition holds becomes final where it stands."""
        identity = self.log.identities()[partition]
        bounds = self.log.bounds(partition)
        for message in self.log.read(partition, bounds.start, 1_000_000):
            self.word.values[Place.at(identity, message.offset)] = message.value

    def on_log(self, partition: int = 0) -> list[bytes]:
        return [message.value for message in self.log.read(partition, 0, 1_000_000)]

    def waiting(self) -> list[bytes]:
        return [row.value for row in self.outbox.rows(0, 1_000_000)]
