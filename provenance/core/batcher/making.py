"""From the log to a batch file that was read back (the end of step 2, steps 3 and 4)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from provenance.core.batcher import checks, places
from provenance.core.batcher import messages as m
from provenance.core.batcher.pile import add_messages, build_from_pile, is_closed
from provenance.core.merkle import leaf_hash
from provenance.errors import VerificationError

if TYPE_CHECKING:
    from provenance.core.batcher.pile import Pile
    from provenance.core.batcher.places import Gather, Idle, State, Store


MAX_LOOKS = 10
"""At a quiet log, before the chain is looked at again."""


def after_gather(state: State, place: Gather, event: m.Event) -> State:
    """On, or to step 4; with nothing to anchor, to the end of a drain or to waiting."""
    if isinstance(event, m.Woke):
        return places.to_gather_more(state, place)
    read = places.expect(event, m.LogRead)
    # Before the messages count: where retention went over us, what is gone would look like a skipped range.
    checks.check_log(state.source, place.pile.next_offset, read)
    messages = read.messages
    if place.last is not None:
        checks.check_last(state.source, place.last, read)
        messages = messages[1:]
    if state.until is not None and place.position.next_offset >= state.until:
        # Also where the log goes on: a drain ends at its goal, or it might never end.
        return state.ask(places.Drained(place.position), None)
    pile = add_messages(place.pile, messages, state.limits, read.now)
    return _go_on(
        state, replace(place, pile=pile, last=_last_of(pile) or place.last), read.now, bool(messages)
    )


def _last_of(pile: Pile) -> checks.Last | None:
    if not pile.chunks:
        return None
    leaf = pile.chunks[-1][-1]
    return checks.Last(leaf.offset, leaf_hash(leaf.value), pile.epoch)


def _go_on(state: State, place: Gather, now: float, progress: bool) -> State:
    pile = place.pile
    drained = state.until is not None and (not progress or pile.next_offset >= state.until)
    if pile.count == 0:
        if drained:
            return state.ask(places.Drained(place.position), None)
        return places.to_idle(state, place.position)
    if drained or is_closed(pile, state.limits, now):
        return places.to_store(state, build_from_pile(pile, place.position, state.source.log))
    return places.to_gather_more(state, place) if progress else places.to_gather_later(state, place)


def after_idle(state: State, place: Idle, event: m.Event) -> State:
    """To step 1 if there is something; a log that was cut or made anew is found at once."""
    if isinstance(event, m.Woke):
        return places.to_peek(state, place)
    read = places.expect(event, m.LogRead)
    checks.check_log(state.source, place.position.next_offset, read)
    if read.messages or place.looks >= MAX_LOOKS:
        return places.to_head(state)
    return places.to_idle(state, place.position, place.looks)


def after_store(state: State, place: Store, event: m.Event) -> State:
    """To signing; back to step 2 with the head's file that was missing; to step 1 if the file is gone."""
    if isinstance(event, m.FileWritten):
        return places.to_read_back(state, place)
    data = places.expect(event, m.FileRead).data
    if data is None and state.vanished != place.batch.manifest.prev_acc:
        # Another batcher took it for an orphan, when the seq was final with another acc: look at the head.
        return places.to_head(replace(state, vanished=place.batch.manifest.prev_acc))
    if data != place.data:
        raise VerificationError(
            f"batch file {place.name}: it was written, and what is read back differs",
            reason="read-back",
            remedy="Check the disk or the object store; nothing was anchored.",
        )
    tail = checks.tail_of(place.batch)
    state = replace(state, tail=tail)
    return places.to_gather(state, tail.position) if place.of_head else places.to_sign(state, place.batch)
