"""From a batch to its final anchor (steps 5 to 8, and step 0 after a start)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from provenance.core.batcher import messages as m
from provenance.core.batcher import places
from provenance.core.batcher.account import Ending
from provenance.core.transactions import JournalEntry

if TYPE_CHECKING:
    from provenance.core.batcher.places import Await, Erase, Record, Sign, State, Tidy, Transmit


def after_sign(state: State, place: Sign, event: m.Event) -> State:
    """To the journal."""
    manifest = place.batch.manifest
    transaction = places.expect(event, m.Signed).transaction
    return places.to_record(state, JournalEntry(transaction, "anchor", manifest.stream, manifest.seq))


def after_record(state: State, place: Record, event: m.Event) -> State:
    """To sending."""
    places.expect(event, m.Kept)
    return places.to_transmit(state, place.entry)


def after_transmit(state: State, place: Transmit, event: m.Event) -> State:
    """To step 7."""
    places.expect(event, m.Sent)
    return places.to_await(state, place.entry)


def after_await(state: State, place: Await, event: m.Event) -> State:
    """Its end leads to step 8, or back to step 1: the file stays, and may serve yet."""
    if isinstance(event, m.Woke):
        return places.to_await(state, place.entry, place.looks)
    ending = places.expect(event, m.Settled).ending
    if ending is None:
        return places.to_await_later(state, place)
    if ending in (Ending.FINAL, Ending.REVERTED):
        return places.to_tidy(state, place.entry, refused=ending is Ending.REVERTED)
    return places.to_erase(state, place.entry.transaction)


def after_tidy(state: State, place: Tidy, event: m.Event) -> State:
    """To forgetting the entry; what is final is the floor below which the chain may not fall."""
    if place.position is not None:
        places.expect(event, m.Dropped)
        state = state if place.refused else replace(state, floor=place.position)
        return places.to_erase(state, place.entry.transaction, refused=place.refused)
    found = places.expect(event, m.AnchorFound)
    if found.after is None or (place.refused and not found.final):
        # A chain that lost what was final; step 1 sees to it. Or we were refused, and the seq is still open.
        return places.to_erase(state, place.entry.transaction, refused=place.refused)
    return places.to_drop_others(state, place, found.after)


def after_erase(state: State, place: Erase, event: m.Event) -> State:
    """Back to step 1, or to the next entry of the journal."""
    places.expect(event, m.Forgotten)
    count, acc = state.refused
    return places.to_next_entry(replace(state, refused=(count + 1 if place.refused else 0, acc)))
