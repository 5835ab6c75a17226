"""Where a stream's machine can stand, and what it asks for there.

The docstring of a place names its step of `spec/anchoring.md`, "The batcher's steps", and what a crash there
means; the function below it goes there. What an answer leads to is in `checking`, `making` and `anchoring`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from provenance.core.batcher import messages as m
from provenance.core.batcher.checks import batch_name
from provenance.core.batcher.pile import Pile, empty_pile
from provenance.core.batches import encode_batch, file_name

if TYPE_CHECKING:
    from provenance.core.batcher.checks import Last, Tail
    from provenance.core.batcher.pile import Limits
    from provenance.core.batches import Batch, Position
    from provenance.core.transactions import JournalEntry, SignedTransaction
    from provenance.errors import ProvenanceError

SHORTEST_WAIT = 0.02

_E = TypeVar("_E")


def expect(event: m.Event, kind: type[_E]) -> _E:
    """The event as the kind that answers what was asked; another one is a bug of whoever performs."""
    if not isinstance(event, kind):
        raise TypeError(f"expected {kind.__name__}, got {type(event).__name__}")
    return event


@dataclass(frozen=True, slots=True)
class State:
    """A stream's machine between two events.

    Args:
        source: the stream.
        limits: when batches close.
        until: a drain ends when everything below this offset is final; None to go on for ever.
        place: where it stands.
        asks: the instruction that it waits for; None when it is done.
        floor: the highest position seen final; the chain may not fall behind it.
        tail: the last anchored message that was checked, so that a head's file is read once only.
        refused: how often in a row the contract refused a batch, and upon which accumulator.
        vanished: the position at which a file was gone when it was read back; the second time is an error.
        pending: further entries of the stream in the journal, to be settled before step 1.
        failures: how often in a row the present instruction failed.
        backing_off: whether it waits before it asks again.
    """

    source: m.Source
    limits: Limits
    until: int | None
    place: Place
    asks: m.Instruction | None = None
    floor: Position | None = None
    tail: Tail | None = None
    refused: tuple[int, bytes] = (0, b"")
    vanished: bytes = b""
    pending: tuple[JournalEntry, ...] = ()
    failures: int = 0
    backing_off: bool = False

    @property
    def error(self) -> ProvenanceError | None:
        """Why the machine stopped for good, if it did."""
        return self.place.error if isinstance(self.place, Stopped) else None

    @property
    def is_done(self) -> bool:
        """Whether there is nothing left to do: drained or stopped."""
        return isinstance(self.place, Drained | Stopped)

    def ask(self, place: Place, instruction: m.Instruction | None) -> State:
        """The same machine at a place, with what it asks for."""
        return replace(self, place=place, asks=instruction)


# --------------------------------------------------------------------------------------- steps 1 and 2: check


@dataclass(frozen=True, slots=True)
class Head:
    """Step 1: read the stream's head. A crash here means nothing.

    A head behind what was final, or none, comes from a node that lags, from a reorganisation, or from a chain
    that was set back: it is asked again a few times, ``behind`` counts them.
    """

    behind: int = 0


def to_head(state: State) -> State:
    """Read the head."""
    return state.ask(Head(), m.ReadHead(state.source))


@dataclass(frozen=True, slots=True)
class CheckFile:
    """Step 2: the head's file is there and is the anchored one. A crash here means nothing."""

    position: Position
    name: str


def to_check_file(state: State, position: Position) -> State:
    """Read the head's file."""
    name = batch_name(position.stream, position.seq, position.acc)
    return state.ask(CheckFile(position, name), m.ReadFile(name))


@dataclass(frozen=True, slots=True)
class Locate:
    """Step 2: the head's file is missing; which offsets did it hold? A crash here means nothing."""

    position: Position


def to_locate(state: State, position: Position) -> State:
    """Find the head's anchor."""
    return state.ask(Locate(position), m.FindAnchor(state.source, position.seq))


@dataclass(frozen=True, slots=True)
class Reread:
    """Step 2: read the head's messages again and make its file from them. A crash here means nothing."""

    before: Position
    position: Position
    pile: Pile


def to_reread(state: State, place: Reread) -> State:
    """Read the next of the head's messages."""
    start = place.pile.next_offset
    limit = min(place.position.next_offset - start, state.limits.read_size)
    return state.ask(place, m.ReadLog(state.source, start, limit))


# ---------------------------------------------------------------------------------------- steps 3 and 4: make


@dataclass(frozen=True, slots=True)
class Gather:
    """Steps 2 and 3: read from the head on, and close by count, bytes or age.

    Every read begins with the message before, ``last``: the last anchored one at first, then the last that
    was read. So the log is compared with what is anchored in the very read that brings new messages, and no
    change of it goes in between. A crash here: other boundaries next time, harmless.
    """

    position: Position
    pile: Pile
    last: Last | None


def to_gather(state: State, position: Position) -> State:
    """Read the first messages behind the head."""
    pile = empty_pile(state.source.log, position.next_offset)
    last = state.tail.last if position.seq and state.tail is not None else None
    return to_gather_more(state, Gather(position, pile, last))


def to_gather_more(state: State, place: Gather) -> State:
    """Read the next messages."""
    overlap = place.pile.next_offset - place.last.offset if place.last else 0
    start, limit = place.pile.next_offset - overlap, state.limits.read_size + overlap
    return state.ask(place, m.ReadLog(state.source, start, limit, overlap=overlap > 0))


def to_gather_later(state: State, place: Gather) -> State:
    """Pause where the log has no more for now; not longer than a batch may wait."""
    seconds = min(state.limits.poll, max(state.limits.max_age, SHORTEST_WAIT))
    return state.ask(place, m.Wait(seconds))


@dataclass(frozen=True, slots=True)
class Idle:
    """Nothing to anchor: look at the log from time to time. A crash here means nothing.

    New messages lead back to step 1: another batcher may have anchored meanwhile. So do many looks, which
    ``looks`` counts: the chain may have lost what was final, and nobody would know before the next record.
    """

    position: Position
    looks: int = 0


def to_idle(state: State, position: Position, looks: int = 0) -> State:
    """Pause."""
    return state.ask(Idle(position, looks), m.Wait(state.limits.poll))


def to_peek(state: State, place: Idle) -> State:
    """See whether there is a message."""
    place = replace(place, looks=place.looks + 1)
    return state.ask(place, m.ReadLog(state.source, place.position.next_offset, 1))


@dataclass(frozen=True, slots=True)
class Store:
    """Step 4: put the file and read it back, before anything is signed.

    The log's identity was asked again behind the last read. A crash here: an orphan file, harmless; the next
    batch of this seq may have other boundaries, and so another name.
    """

    batch: Batch = field(repr=False)
    data: bytes = field(repr=False)
    name: str
    of_head: bool


def to_store(state: State, batch: Batch, *, of_head: bool = False) -> State:
    """Write the file; ``of_head`` if it is the one that was missing in step 2."""
    place = Store(batch, encode_batch(batch), file_name(batch.manifest), of_head)
    return state.ask(place, m.WriteFile(place.name, place.data))


def to_read_back(state: State, place: Store) -> State:
    """Read it back."""
    return state.ask(place, m.ReadFile(place.name))


# --------------------------------------------------------------------------------------- steps 5 to 8: anchor


@dataclass(frozen=True, slots=True)
class Sign:
    """Step 5: sign over prevAcc. A crash here: an orphan file, harmless."""

    batch: Batch = field(repr=False)


def to_sign(state: State, batch: Batch) -> State:
    """Sign."""
    return state.ask(Sign(batch), m.SignAnchor(batch.manifest))


@dataclass(frozen=True, slots=True)
class Record:
    """Step 5: journal the signed bytes, synced, before they are sent. A crash after it: step 0 sends."""

    entry: JournalEntry


def to_record(state: State, entry: JournalEntry) -> State:
    """Keep the entry."""
    return state.ask(Record(entry), m.Keep(entry))


@dataclass(frozen=True, slots=True)
class Transmit:
    """Step 6: send. A crash or a lost reply here: the hash is looked up, at step 0 or at once."""

    entry: JournalEntry


def to_transmit(state: State, entry: JournalEntry) -> State:
    """Send."""
    return state.ask(Transmit(entry), m.Send(entry.transaction))


@dataclass(frozen=True, slots=True)
class Await:
    """Steps 0 and 7: look the transaction up until it has ended; the same bytes again where it is unknown.

    A crash here: the next start finds the entry in the journal and stands here again.
    """

    entry: JournalEntry
    looks: int = 0


def to_await(state: State, entry: JournalEntry, looks: int = 0) -> State:
    """Look it up."""
    return state.ask(Await(entry, looks), m.Settle(entry))


def to_next_entry(state: State) -> State:
    """The next entry that a former process left, or the head."""
    if not state.pending:
        return to_head(state)
    return to_await(replace(state, pending=state.pending[1:]), state.pending[0])


def to_await_later(state: State, place: Await) -> State:
    """Pause between looks, ever longer up to the polling interval."""
    seconds = min(state.limits.poll, SHORTEST_WAIT * 2 ** min(place.looks, 16))
    return state.ask(replace(place, looks=place.looks + 1), m.Wait(seconds))


@dataclass(frozen=True, slots=True)
class Tidy:
    """Step 8: which accumulator became final, and away with files of this seq that have another.

    They are left by batchers that crashed between steps 4 and 5, or lost a race: ours too, where ``refused``
    says so. A crash here: repeated.
    """

    entry: JournalEntry
    refused: bool
    position: Position | None = None


def to_tidy(state: State, entry: JournalEntry, *, refused: bool) -> State:
    """Ask the chain what is anchored at the entry's seq."""
    return state.ask(Tidy(entry, refused), m.FindAnchor(state.source, entry.seq))


def to_drop_others(state: State, place: Tidy, position: Position) -> State:
    """Delete the orphans."""
    place = replace(place, position=position)
    return state.ask(place, m.DropOthers(position.stream, position.seq, position.acc))


@dataclass(frozen=True, slots=True)
class Erase:
    """Step 8: forget the journal entry. A crash here: repeated."""

    transaction: SignedTransaction
    refused: bool


def to_erase(state: State, transaction: SignedTransaction, *, refused: bool = False) -> State:
    """Forget it; ``refused`` if the contract refused the batch."""
    return state.ask(Erase(transaction, refused), m.Forget(transaction))


# --------------------------------------------------------------------------------------------------- the ends


@dataclass(frozen=True, slots=True)
class Drained:
    """A drain's end: everything that was in the log when it began is anchored and final."""

    position: Position


@dataclass(frozen=True, slots=True)
class Stopped:
    """Going on would hide a loss, or can only fail again. A person has to look."""

    error: ProvenanceError


Place: TypeAlias = (
    Head
    | CheckFile
    | Locate
    | Reread
    | Gather
    | Idle
    | Store
    | Sign
    | Record
    | Transmit
    | Await
    | Tidy
    | Erase
    | Drained
    | Stopped
)
