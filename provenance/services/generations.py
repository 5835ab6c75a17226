"""The streams of an organisation as generations: which continues which, for which partition, fit for what.

A stream says on the chain to which log it is bound, as a hash. Which topic and partition that is, its batch
files say, or the log itself where it is the present one; a stream without a file is where the one is that it
continues.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from provenance.core.batcher import checks
from provenance.core.batcher import messages as m
from provenance.core.batches import Position
from provenance.core.streams import NO_PREDECESSOR, LogIdentity, binding_of, continues_of
from provenance.errors import ConfigError, ProvenanceError, UnavailableError, VerificationError
from provenance.services.batch_files import first_manifest

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from provenance.core.streams import Opening
    from provenance.ports import Anchor, BatchStore, ChainReader, EventLog, Head

__all__ = [
    "Generation",
    "Listed",
    "Place",
    "diagnose",
    "find_generations",
    "find_places",
    "list_streams",
    "made_anew",
]


@dataclass(eq=False)
class Generation:
    """A stream of ours: opening, head, the log that it is bound to if that is known, what it continues.

    ``at`` is topic and partition, as far as known; ``continued`` the predecessor's position, on this chain;
    ``foreign`` says that it continues a stream which this chain does not know.
    """

    name: bytes
    opening: Opening
    head: Head
    reader: ChainReader = field(repr=False)
    log: LogIdentity | None = None
    at: tuple[str, int] | None = None
    predecessor: Generation | None = None
    continued: Position | None = None
    foreign: bool = False
    successors: list[Generation] = field(default_factory=list, repr=False)

    @cached_property
    def anchors(self) -> list[Anchor]:
        """Its anchors up to the head that was read."""
        if not self.head.seq:
            return []
        return [anchor for anchor in self.reader.anchors(self.name) if anchor.seq <= self.head.seq]

    @property
    def positions(self) -> list[Position]:
        """The position behind each batch; the opening is the first."""
        number, start = self.opening.generation, self.opening.start_offset
        behind = [Position(self.name, number, a.seq, a.next_offset, a.acc) for a in self.anchors]
        return [Position(self.name, number, 0, start, self.name), *behind]

    @property
    def start_offset(self) -> int:
        """The offset of its first leaf."""
        return self.opening.start_offset

    @property
    def former(self) -> Generation | None:
        """The predecessor, where it covers the same topic's same partition."""
        before = self.predecessor
        if before is None:
            return None
        same = before.opening.binding == self.opening.binding or _same_topic(before.log, self.log)
        return before if same else None

    @property
    def title(self) -> str:
        """What messages call it."""
        place = "" if self.at is None else f" ({self.at[0]}/{self.at[1]})"
        return f"stream {self.name.hex()[:16]}{place}"

    def source(self, log: LogIdentity) -> m.Source:
        """The stream as the batcher's rules take it."""
        return m.Source(self.name, self.opening.generation, self.opening.start_offset, log)


@dataclass(frozen=True, slots=True)
class Place:
    """A partition of the log, and the last of our streams for it, which may be bound to a former log."""

    log: LogIdentity
    last: Generation | None

    @property
    def title(self) -> str:
        """What messages call it."""
        return f"{self.log.topic}/{self.log.partition}"

    @property
    def is_bound(self) -> bool:
        """Whether the last stream is bound to this very log."""
        return self.last is not None and self.last.opening.binding == binding_of(self.log)


def find_generations(
    reader: ChainReader, store: BatchStore, logs: Iterable[LogIdentity], *, org: int
) -> list[Generation]:
    """Every stream of ours, oldest first.

    Args:
        reader: the chain.
        store: the batch files.
        logs: the partitions of the present log.
        org: our organisation's number.
    """
    known = {binding_of(identity): identity for identity in logs}
    found: list[Generation] = []
    for name, opening, _ in reader.openings():
        head = reader.head(name) if opening.org == org else None
        if head is None:
            continue
        generation = Generation(name, opening, head, reader, known.get(opening.binding))
        if generation.log is None and (manifest := first_manifest(store, name)) is not None:
            generation.log = manifest.log
        _link(generation, found)
        if generation.log is not None:
            generation.at = _at(generation.log)
        elif generation.predecessor is not None:
            generation.at = generation.predecessor.at
        found.append(generation)
    return found


def _same_topic(one: LogIdentity | None, other: LogIdentity | None) -> bool:
    """Whether two identities are one partition of one topic, whichever cluster holds it."""
    if one is None or other is None:
        return False
    return (one.topic_id, one.partition) == (other.topic_id, other.partition)


def _link(generation: Generation, older: Sequence[Generation]) -> None:
    """Find what a stream continues; the newest streams are looked at first."""
    wanted = generation.opening.continues
    if wanted == NO_PREDECESSOR:
        return
    for before in reversed(older):
        for position in reversed(before.positions):
            if continues_of(before.opening, position.seq, position.acc) == wanted:
                generation.predecessor, generation.continued = before, position
                before.successors.append(generation)
                return
    generation.foreign = True


def find_places(log: EventLog, generations: Sequence[Generation]) -> list[Place]:
    """Every partition of the log with the last of these streams for it, by binding or else by its place."""
    found = []
    for identity in log.identities():
        bound = [one for one in generations if one.opening.binding == binding_of(identity)]
        former = [one for one in generations if one.at == _at(identity)]
        last = bound or former
        found.append(Place(identity, last[-1] if last else None))
    return found


def _at(log: LogIdentity) -> tuple[str, int]:
    return log.topic, log.partition


def diagnose(place: Place, log: EventLog, store: BatchStore) -> ProvenanceError | None:
    """Why nothing can be anchored in a place's last stream, as the batcher would say; None if all is well.

    Raises:
        UnavailableError: the log or the batch store cannot be read.
    """
    last = place.last
    if last is None:
        return None
    source = last.source(last.log if last.log is not None else place.log)
    try:
        if not place.is_bound:
            raise made_anew(place.log, last)
        _check_log(last, source, log, store)
        if last.head.closed:
            raise ConfigError(
                f"{last.title}: it was closed at seq {last.head.seq}, offset {last.head.next_offset}",
                reason="stream-closed",
                remedy=f"Open its successor, which continues it: {checks.ROTATE}",
            )
    except UnavailableError:
        raise
    except ProvenanceError as error:
        return error
    return None


def made_anew(log: LogIdentity, former: Generation) -> VerificationError:
    """That a stream of ours is bound to a former log of this place."""
    bound = "a former log" if former.log is None else f"topic id {former.log.topic_id}"
    return VerificationError(
        f"{log.topic}/{log.partition}: the log was deleted or made anew: stream {former.name.hex()[:16]} is"
        f" bound to {bound}, found {log.topic_id}; what stood in the former log at offset"
        f" {former.head.next_offset} and behind was never anchored",
        reason="log-made-anew",
        remedy=checks.RESTORE,
    )


def _check_log(last: Generation, source: m.Source, log: EventLog, store: BatchStore) -> None:
    """As step 2: bounds, then the last anchored message once more, if its file says what it was."""
    partition, next_offset = source.log.partition, last.head.next_offset
    data = store.get(checks.batch_name(last.name, last.head.seq, last.head.acc)) if last.head.seq else None
    name = checks.batch_name(last.name, last.head.seq, last.head.acc)
    tail = None if data is None else checks.tail_of(checks.decode_named_batch(name, data)).last
    messages = () if tail is None else tuple(log.read(partition, tail.offset, 1))
    bounds = log.bounds(partition)
    read = m.LogRead(messages, bounds.start, bounds.end, source.log, 0.0)
    checks.check_log(source, next_offset, read)
    if tail is not None:
        checks.check_last(source, tail, read)


@dataclass(frozen=True, slots=True)
class Listed:
    """A row of the list of streams.

    ``state`` is ``usable``, ``not usable`` (``why`` says why), ``succeeded`` where another stream continues
    it, ``closed``, ``no log`` where this log has no such partition, or ``none`` where a partition has no
    stream.
    """

    generation: Generation | None
    at: tuple[str, int] | None
    log: LogIdentity | None
    state: str
    why: ProvenanceError | None = None


def list_streams(log: EventLog, reader: ChainReader, store: BatchStore, *, org: int) -> list[Listed]:
    """Every stream of ours, oldest first, then the partitions that have none."""
    generations = find_generations(reader, store, log.identities(), org=org)
    places = find_places(log, generations)
    last = {place.last.name: place for place in places if place.last is not None}
    found = []
    for one in generations:
        why = diagnose(last[one.name], log, store) if one.name in last else None
        if one.name in last:
            state = "usable" if why is None else "not usable"
        else:
            state = "succeeded" if one.successors else "closed" if one.head.closed else "no log"
        found.append(Listed(one, one.at, one.log, state, why))
    empty = [place.log for place in places if place.last is None]
    return found + [Listed(None, _at(identity), identity, "none") for identity in empty]
