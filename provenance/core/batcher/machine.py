"""The machine of one stream: (state, event) → (state, instruction)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from provenance.core.batcher import anchoring, checking, making, places
from provenance.core.batcher import messages as m
from provenance.core.batcher.places import State
from provenance.errors import ProvenanceError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from provenance.core.batcher.pile import Limits
    from provenance.core.transactions import JournalEntry

__all__ = ["begin", "step"]

LONGEST_BACKOFF = 30.0
SHORTEST_BACKOFF = 0.1

_AFTER: dict[type, Callable[[State, Any, m.Event], State]] = {
    places.Head: checking.after_head,
    places.CheckFile: checking.after_check_file,
    places.Locate: checking.after_locate,
    places.Reread: checking.after_reread,
    places.Gather: making.after_gather,
    places.Idle: making.after_idle,
    places.Store: making.after_store,
    places.Sign: anchoring.after_sign,
    places.Record: anchoring.after_record,
    places.Transmit: anchoring.after_transmit,
    places.Await: anchoring.after_await,
    places.Tidy: anchoring.after_tidy,
    places.Erase: anchoring.after_erase,
}


def begin(
    source: m.Source, limits: Limits, *, entries: Sequence[JournalEntry] = (), until: int | None = None
) -> tuple[State, m.Instruction | None]:
    """A machine as it starts: at step 0 if the journal holds a transaction of its stream, else at step 1.

    Args:
        source: the stream.
        limits: when batches close.
        entries: the stream's journal entries; more than one only where a reply of the journal was lost.
        until: drain up to this offset; None to go on for ever.
    """
    state = places.to_next_entry(State(source, limits, until, places.Head(), pending=tuple(entries)))
    return state, state.asks


def step(state: State, event: m.Event) -> tuple[State, m.Instruction | None]:
    """Go on by one event. The instruction is None when the machine is done."""
    if isinstance(event, m.Failed):
        state = _fail(state, event.error)
    elif state.backing_off:
        places.expect(event, m.Woke)
        state = replace(state, backing_off=False)
    else:
        state = _go_on(state, event)
    if state.backing_off:
        return state, m.Wait(min(LONGEST_BACKOFF, SHORTEST_BACKOFF * 2 ** min(state.failures, 10)))
    return state, state.asks


def _go_on(state: State, event: m.Event) -> State:
    after = _AFTER.get(type(state.place))
    if after is None:
        raise TypeError("the machine is done and takes no event")
    try:
        return after(replace(state, failures=0) if state.failures else state, state.place, event)
    except ProvenanceError as error:  # a check failed, or the log makes no sense
        return _stop(state, error)


def _fail(state: State, error: ProvenanceError) -> State:
    """Ask again what a component could not do now; stop at what no repetition mends."""
    if not isinstance(error, UnavailableError):
        return _stop(state, error)
    if isinstance(state.place, places.Transmit):  # it may have arrived: from now on its hash is looked up
        state = places.to_await(state, state.place.entry)
    return replace(state, failures=state.failures + 1, backing_off=True)


def _stop(state: State, error: ProvenanceError) -> State:
    return replace(state.ask(places.Stopped(error), None), backing_off=False)
