"""From the head to the point where reading may begin (step 1, and of step 2 the file)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from provenance.core.batcher import checks, places
from provenance.core.batcher import messages as m
from provenance.core.batcher.pile import (
    MAX_BYTES,
    MAX_RECORDS,
    Limits,
    add_messages,
    build_from_pile,
    empty_pile,
)
from provenance.errors import ConfigError, MismatchError, VerificationError

if TYPE_CHECKING:
    from provenance.core.batcher.places import CheckFile, Head, Locate, Reread, State
    from provenance.core.batches import Position

MAX_REFUSALS = 3
MAX_BEHIND = 5
_WHOLE = Limits(max_records=MAX_RECORDS, max_bytes=MAX_BYTES)


def after_head(state: State, place: Head, event: m.Event) -> State:
    """To the head's file; to the log where nothing is anchored, or where the file was just checked."""
    if isinstance(event, m.Woke):
        return state.ask(place, m.ReadHead(state.source))
    head = places.expect(event, m.HeadRead)
    position, floor = head.position, state.floor
    if position is None or (floor is not None and position.seq < floor.seq):
        if place.behind >= MAX_BEHIND:
            raise _set_back(state.source, position, floor)
        return state.ask(replace(place, behind=place.behind + 1), m.Wait(state.limits.poll))
    if head.closed:
        raise _closed(state.source, position)
    checks.check_continues(state.source, position, floor)
    state = _count_refusals(state, position)
    if position.seq == 0 or (state.tail is not None and state.tail.position == position):
        return places.to_gather(state, position)
    return places.to_check_file(state, position)


def _closed(source: m.Source, position: Position) -> ConfigError:
    return ConfigError(
        f"{source.name}: it was closed at seq {position.seq}, offset {position.next_offset}",
        reason="stream-closed",
        remedy="Open its successor, which continues it.",
    )


def _set_back(source: m.Source, position: Position | None, floor: Position | None) -> VerificationError:
    if floor is None:
        return VerificationError(
            f"{source.name}: the contract does not know it",
            reason="stream-unknown",
            remedy="Check which chain is asked: another one, or this one made anew.",
        )
    found = "the stream is unknown" if position is None else f"seq {position.seq} (acc {position.acc.hex()})"
    return VerificationError(
        f"{source.name}: the chain was set back: its head is {found}, but seq {floor.seq} (acc"
        f" {floor.acc.hex()}) was final",
        reason="chain-behind",
        remedy="Ask whoever runs the node; nothing is anchored on a chain that lost final blocks.",
    )


def _count_refusals(state: State, position: Position) -> State:
    """A contract that refuses again and again what continues its head will not change its mind by itself."""
    count, acc = state.refused
    if acc != position.acc:
        return replace(state, refused=(0, position.acc))
    if count >= MAX_REFUSALS:
        raise ConfigError(
            f"{state.source.name}: the contract refused batch {position.seq + 1} {count} times although it"
            " continues the head",
            reason="refused",
            remedy="See whether the publisher's key was revoked, or the organisation paused its anchors.",
        )
    return state


def after_check_file(state: State, place: CheckFile, event: m.Event) -> State:
    """To the log, or if there is no file, to making it again."""
    data = places.expect(event, m.FileRead).data
    if data is None:
        return places.to_locate(state, place.position)
    batch = checks.decode_named_batch(place.name, data)
    return places.to_gather(replace(state, tail=checks.tail_of(batch)), place.position)


def after_locate(state: State, place: Locate, event: m.Event) -> State:
    """To reading the messages again; to step 1 if the chain reorganised meanwhile."""
    found = places.expect(event, m.AnchorFound)
    if found.before is None or found.after != place.position:
        return places.to_head(state)
    pile = empty_pile(state.source.log, found.before.next_offset)
    return places.to_reread(state, places.Reread(found.before, place.position, pile))


def after_reread(state: State, place: Reread, event: m.Event) -> State:
    """To storing the file, when it is whole and gives the anchored accumulator."""
    read = places.expect(event, m.LogRead)
    checks.check_log(state.source, place.pile.next_offset, read)
    end = place.position.next_offset
    messages = [message for message in read.messages if message.offset < end]
    pile = add_messages(place.pile, messages, _WHOLE, read.now)
    if messages and pile.next_offset < end and not pile.full:
        return places.to_reread(state, replace(place, pile=pile))
    batch = build_from_pile(pile, place.before, state.source.log) if pile.count else None
    if batch is None or batch.manifest.acc != place.position.acc:
        raise MismatchError(
            f"{state.source.name}: batch {place.position.seq}, made again from the log at offsets"
            f" [{place.before.next_offset}, {end}), has another accumulator",
            expected=place.position.acc.hex(),
            actual="no message" if batch is None else batch.manifest.acc.hex(),
            reason="log-rewritten",
            remedy=checks.RESTORE,
        )
    return places.to_store(state, batch, of_head=True)
