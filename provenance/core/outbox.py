"""What becomes of the records in an outbox, decided from what is known of log and chain.

A record goes into the outbox when the log did not acknowledge it in time, and stays there until it is
*final*: below a final head of its stream, and the anchored batch holds these bytes at its offset. An
acknowledgement is no end: a log may lose what it acknowledged (an unclean election, a topic made anew), and
then nobody else has the record any more.

=============== ================ ========================= ==============================================
acknowledged    final            the log at its place      what is done
=============== ================ ========================= ==============================================
no                                                         sent
yes             yes                                        forgotten
yes             no               holds other bytes, or     sent again: a repeat of the same bytes counts
                                 none, or is another log   once, wherever it stands
yes             no               holds these bytes         kept
yes             not known        or cannot be read         kept
=============== ================ ========================= ==============================================
"""

from __future__ import annotations

import enum
import errno
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Collection

    from provenance.core.streams import LogIdentity

__all__ = [
    "CALM",
    "LONGEST_PAUSE",
    "Backoff",
    "Fate",
    "Finality",
    "Holding",
    "OutboxDepth",
    "OutboxRow",
    "Place",
    "fate",
    "goes_to_outbox",
    "held_at",
]

LONGEST_PAUSE = 30.0
"""Seconds between two attempts, at most."""
_FIRST_PAUSE = 0.5


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where a log acknowledged a record: the log's ids, the partition's number, the offset."""

    cluster_id: str
    topic_id: str
    partition: int
    offset: int

    @classmethod
    def at(cls, log: LogIdentity, offset: int) -> Place:
        """An offset of a partition."""
        return cls(log.cluster_id, log.topic_id, log.partition, offset)

    def is_in(self, logs: Collection[LogIdentity]) -> bool:
        """Whether one of these partitions is the place's, of the same cluster and topic."""
        mine = (self.cluster_id, self.topic_id, self.partition)
        return any((log.cluster_id, log.topic_id, log.partition) == mine for log in logs)


@dataclass(frozen=True, slots=True)
class OutboxRow:
    """A record that waits: its key and bytes, since when (UTC), and where it was acknowledged last.

    ``number`` ascends in the order in which records came, and is never given out twice.
    """

    number: int
    key: bytes
    value: bytes
    since: dt.datetime
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class OutboxDepth:
    """How much waits: records, their bytes, how many no log acknowledged yet, and the oldest's time."""

    records: int = 0
    size: int = 0
    unsent: int = 0
    oldest: dt.datetime | None = None

    @property
    def not_final(self) -> int:
        """Records that were acknowledged and are not known to be final."""
        return self.records - self.unsent


class Finality(enum.Enum):
    """Whether the batches that are final hold a record's bytes at its offset."""

    FINAL = "final"
    NOT_FINAL = "not final"
    UNKNOWN = "unknown"


class Holding(enum.Enum):
    """Whether the log holds a record's bytes at its place now."""

    HELD = "held"
    LOST = "lost"
    UNKNOWN = "unknown"


class Fate(enum.Enum):
    """What is to be done with a record."""

    SEND = "send"
    KEEP = "keep"
    FORGET = "forget"


def fate(place: Place | None, finality: Finality, holding: Holding) -> Fate:
    """What is to be done with a record that was acknowledged at ``place``; the table above.

    What is not known keeps the record where it is. Where the log has no message at the place any more, only
    the chain tells whether the record is final and was removed knowingly: both must be known to send again.
    """
    if place is None:
        return Fate.SEND
    if finality is Finality.FINAL:
        return Fate.FORGET
    if finality is Finality.NOT_FINAL and holding is Holding.LOST:
        return Fate.SEND
    return Fate.KEEP


def goes_to_outbox(reason: str) -> bool:
    """Whether a log that failed for this reason may answer later, so that records are kept until it does.

    What ails a file or disk of this machine ails the outbox too, and only a person can change it: that ends
    the task at once.
    """
    is_of_the_system = reason.upper() in errno.errorcode.values()
    return not (is_of_the_system or reason.startswith("sqlite-") or reason == "file-replaced")


def held_at(place: Place, value: bytes, logs: Collection[LogIdentity], found: bytes | None) -> Holding:
    """Whether a log holds the value at the place.

    Args:
        place: where it was acknowledged.
        value: its bytes.
        logs: the log's partitions now.
        found: the message at the place's partition and offset now; None if there is none.
    """
    if not place.is_in(logs):
        return Holding.LOST
    return Holding.HELD if found == value else Holding.LOST


@dataclass(frozen=True, slots=True)
class Backoff:
    """How often in a row the log did not answer, and from when on it is asked again (monotonic seconds)."""

    failures: int = 0
    until: float = 0.0

    def after_failure(self, now: float, jitter: float) -> Backoff:
        """One more failure: twice the pause, up to `LONGEST_PAUSE`.

        ``jitter`` in [0, 1] takes off up to half.
        """
        return Backoff(self.failures + 1, now + self.pause(jitter))

    def pause(self, jitter: float) -> float:
        """How long to wait after the next failure, in seconds."""
        longest = min(LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(self.failures, 16))
        return longest * (1.0 - 0.5 * jitter)

    def is_over(self, now: float) -> bool:
        """Whether the log is to be asked."""
        return now >= self.until


CALM = Backoff()
"""The log answers."""
