"""What a rotation would do, and what is lost: decided from a final head, the batch files and the log.

Nothing is written here. `provenance.services.rotating` carries a plan out, and makes it anew once the old
stream is closed and its head cannot move any more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from provenance.core.batcher.rotation import choose_start, first_difference, last_good, start_after
from provenance.core.streams import binding_of, continues_of
from provenance.errors import (
    ConfigError,
    MismatchError,
    PendingError,
    ProvenanceError,
    VerificationError,
)
from provenance.services.batch_files import list_batches, read_batch
from provenance.services.generations import Generation, Place, diagnose, find_generations, find_places

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from provenance.core.batches import Position
    from provenance.core.streams import LogIdentity
    from provenance.ports import Anchor, BatchStore, ChainReader, EventLog, LogMessage

__all__ = ["Plan", "Rotatable", "make_plan", "survey_places"]

_READ = 4096
_CUT = {"log-truncated", "log-rewritten", "log-made-anew"}


@dataclass(frozen=True, slots=True)
class Rotatable:
    """What a plan is made from.

    ``confirming`` is a second endpoint of the chain, None if only one is configured; ``is_final`` says
    whether a transaction is final.
    """

    log: EventLog
    reader: ChainReader
    store: BatchStore
    is_final: Callable[[bytes], bool]
    org: int = 1
    confirming: ChainReader | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """One stream's rotation: what happens to it, and what its successor is opened with.

    Args:
        log: the partition that the successor covers.
        old: the stream that ends here.
        why: why it cannot go on; None if it could.
        continued: the last good position of a predecessor.
        continues: that position as the contract takes it.
        start: the successor's first offset.
        generation: the successor's number.
        replaced: anchored offsets which the log does not hold any more as they were; the batch files do.
        lost: offsets that the log gave out and deleted before they were anchored.
        behind: at this offset and behind messages may have stood that were never anchored; None if none did.
        missing: seqs of the old stream whose batch file is not in the store.
        endpoints: how many endpoints of the chain agree on the head.
    """

    log: LogIdentity
    old: Generation
    why: ProvenanceError | None
    continued: Position
    continues: bytes
    start: int
    generation: int
    replaced: tuple[int, int] | None
    lost: tuple[int, int] | None
    behind: int | None
    missing: tuple[int, ...]
    endpoints: int

    @property
    def needs_close(self) -> bool:
        """Whether the old stream is still open."""
        return not self.old.head.closed

    @property
    def opening(self) -> tuple[bytes, int, bytes]:
        """What the successor is opened with: binding, start offset, continues."""
        return binding_of(self.log), self.start, self.continues


def survey_places(parts: Rotatable) -> tuple[list[Generation], list[Place]]:
    """Every stream of ours, and every partition of the log with its last stream."""
    generations = find_generations(parts.reader, parts.store, parts.log.identities(), org=parts.org)
    return generations, find_places(parts.log, generations)


def make_plan(
    parts: Rotatable, place: Place, generations: Sequence[Generation], *, on_read: Callable[[int], None]
) -> Plan:
    """What rotating a place's last stream does.

    Args:
        parts: log, chain and batch files.
        place: the partition, and its last stream.
        generations: every stream of ours.
        on_read: called with the number of offsets compared since the last call.

    Raises:
        PendingError: the head is not final, or a second endpoint does not have it yet.
        MismatchError: the second endpoint says otherwise (``reason="endpoints-differ"``).
        ConfigError: there is no stream to rotate (``reason="no-stream"``).
    """
    old = place.last
    if old is None:
        raise ConfigError(
            f"{place.title}: no stream of ours covers it or covered it",
            reason="no-stream",
            remedy="Nothing has to be continued: `provenance batch` opens its first stream, where it may.",
        )
    _check_final(old, parts)
    why = diagnose(place, parts.log, parts.store)
    bounds = parts.log.bounds(place.log.partition)
    head = old.head.next_offset
    if not _covers(old, place):  # a new topic starts at its own beginning, and nothing there is anchored
        start, continued = bounds.start, old.positions[-1]
        replaced = (old.start_offset, head) if head > old.start_offset else None
        lost = (0, start) if start else None
        behind: int | None = head
    else:
        candidates = list(_candidates(old, place, parts, on_read))
        chosen, start = choose_start(candidates)
        continued = last_good(chosen, start)
        (_, held), *_ = candidates
        replaced = (held, head) if held < head else None
        lost = (head, start) if start > head and bounds.start == start else None
        cut = why is not None and why.reason in _CUT
        behind = head if replaced is not None or cut else None
    opened = next(one for one in generations if one.name == continued.stream)
    return Plan(
        log=place.log,
        old=old,
        why=why,
        continued=continued,
        continues=continues_of(opened.opening, continued.seq, continued.acc),
        start=start,
        generation=1 + sum(one.opening.binding == binding_of(place.log) for one in generations),
        replaced=replaced,
        lost=lost,
        behind=behind,
        missing=_missing(old, parts.store),
        endpoints=1 if parts.confirming is None else 2,
    )


def _covers(old: Generation, place: Place) -> bool:
    """Whether a stream covers the place's topic: bound to it, or to the same topic of another cluster."""
    same = old.log is not None and old.log.topic_id == place.log.topic_id
    return place.is_bound or same


def _missing(old: Generation, store: BatchStore) -> tuple[int, ...]:
    held = {(seq, acc) for _, seq, acc in list_batches(store, f"{old.name.hex()}/")}
    return tuple(anchor.seq for anchor in old.anchors if (anchor.seq, anchor.acc) not in held)


# ---------------------------------------------------------------------------------------- log against anchors


def _candidates(
    old: Generation, place: Place, parts: Rotatable, on_read: Callable[[int], None]
) -> Iterator[tuple[Generation, int]]:
    """The stream and, while the log agrees with all below its start, what it continues; each with a start.

    Below the start of the later one two views are the same, so each offset is compared once a stream.
    """
    partition = place.log.partition
    bounds = parts.log.bounds(partition)
    view, floor = old, bounds.start
    while True:
        found = _match_end(view, floor, parts, partition, on_read)
        yield view, start_after(found, bounds.start, bounds.end)
        if view.former is None or found < view.start_offset:
            return
        view, floor = view.former, max(floor, view.start_offset)


def _match_end(
    view: Generation, floor: int, parts: Rotatable, partition: int, on_read: Callable[[int], None]
) -> int:
    """The first offset from ``floor`` on where the log holds other messages than a view; its end if none."""
    for first, until, anchor in _segments(view, view.head.next_offset):
        if until <= floor:
            continue
        first = max(first, floor)  # noqa: PLW2901 - below it the log has nothing, or it was compared
        leaves = _leaves(parts.store, anchor, first, until)
        if leaves is None:
            return first  # nobody can tell: what the log holds there is anchored once more
        different = first_difference(leaves, _read(parts.log, partition, first, until))
        if different is not None:
            return different
        on_read(until - first)
    return view.head.next_offset


def _segments(view: Generation, end: int) -> Iterator[tuple[int, int, Anchor | None]]:
    """``(first, until, anchor)`` of a view below ``end``, ascending; no anchor where nothing was anchored."""
    start = view.start_offset
    if view.former is not None:
        yield from _segments(view.former, min(start, end))
        if view.former.head.next_offset < start:
            yield view.former.head.next_offset, start, None
    for anchor in view.anchors:
        until = min(anchor.next_offset, end)
        if anchor.first_offset < until:
            yield anchor.first_offset, until, anchor


def _leaves(store: BatchStore, anchor: Anchor | None, first: int, until: int) -> dict[int, bytes] | None:
    if anchor is None:
        return {}
    try:
        batch = read_batch(store, anchor.stream, anchor.seq, anchor.acc)
    except VerificationError:
        return None
    return {leaf.offset: leaf.value for leaf in batch.leaves if first <= leaf.offset < until}


def _read(log: EventLog, partition: int, first: int, until: int) -> Iterator[LogMessage]:
    while first < until:
        messages = log.read(partition, first, min(_READ, until - first))
        yield from (message for message in messages if message.offset < until)
        if not messages:
            return
        first = messages[-1].offset + 1


# ------------------------------------------------------------------------------------------- the chain's word


def _check_final(old: Generation, parts: Rotatable) -> None:
    last = old.anchors[-1] if old.anchors else None
    if last is not None and not parts.is_final(last.transaction):
        raise PendingError(
            f"{old.title}: its head, seq {last.seq}, is not final yet",
            reason="head-not-final",
            remedy="Call the same command again when it is.",
        )
    if parts.confirming is not None:
        _confirm(old, last, parts.reader, parts.confirming)


def _confirm(old: Generation, last: Anchor | None, reader: ChainReader, second: ChainReader) -> None:
    """That another endpoint serves the same chain and contract, and the same head in the same block."""
    ours, other = reader.identity(), second.identity()
    _agree(
        "chain and contract",
        (ours.chain_id, ours.genesis, ours.contract, ours.code_hash),
        (other.chain_id, other.genesis, other.contract, other.code_hash),
    )
    head = second.head(old.name)
    if head is None or head.seq < old.head.seq or (old.head.closed and not head.closed):
        raise PendingError(
            f"{old.title}: the second endpoint of the chain does not have its head, seq {old.head.seq}, yet",
            reason="endpoint-behind",
            remedy="Call the same command again; if it stays so, ask whoever runs that node.",
        )
    _agree(
        f"{old.title}: its head",
        (old.head.seq, old.head.next_offset, old.head.acc),
        (head.seq, head.next_offset, head.acc),
    )
    if last is not None:
        found = next(iter(second.anchors(old.name, last.seq)), None)
        actual = None if found is None else (found.block_number, found.block_hash)
        _agree(f"{old.title}: the block of seq {last.seq}", (last.block_number, last.block_hash), actual)


def _agree(what: str, expected: Sequence[object], actual: Sequence[object] | None) -> None:
    if actual is None or tuple(expected) != tuple(actual):
        raise MismatchError(
            f"{what}, by the second endpoint of the chain",
            expected=_shown(expected),
            actual="nothing" if actual is None else _shown(actual),
            reason="endpoints-differ",
            remedy="Find out which of the two nodes is right; nothing is decided before that.",
        )


def _shown(values: Sequence[object]) -> str:
    return ", ".join(value.hex() if isinstance(value, bytes) else str(value) for value in values)
