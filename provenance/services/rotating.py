"""Carrying out a rotation: the old stream is closed, and its successor opened where the log still holds.

====  =============================================  =====================================================
step  what is done                                   a crash there means
====  =============================================  =====================================================
1     settle the journals                            repeated
2     plan, from a final head                        nothing
3     close the old stream, wait until it is final   batchers stop and name this command; it goes on here
4     plan again: the head cannot move any more      nothing
5     open the successor, wait until it is final     step 1 finds it, and nothing is left to do
====  =============================================  =====================================================

Both calls to the contract are quiet when they are repeated, so a step whose answer was lost is done again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from provenance.errors import ConfigError, PendingError
from provenance.ports import CloseCall, OpenCall
from provenance.services.chain_setup import SET_UP_NONCES, check_contract, set_up_chain
from provenance.services.reanchoring import anchor_again, check_heads
from provenance.services.rotation_plan import Plan, Rotatable, make_plan, survey_places

if TYPE_CHECKING:
    from collections.abc import Callable

    from provenance.ports import ChainReader
    from provenance.services.batching import Components
    from provenance.services.generations import Generation, Place
    from provenance.services.sending import Sender

__all__ = ["Rotation", "Rotator"]

_FEWEST_DIGITS = 8


@dataclass(frozen=True, slots=True)
class Rotation:
    """What was done: the plan, and the successor's name."""

    plan: Plan
    successor: bytes


class Rotator:
    """Plans rotations and carries them out.

    Args:
        components: what a batcher works with; no batcher may work with them meanwhile.
        governance: the account that governs our organisation.
        confirming: a second endpoint of the chain.
    """

    def __init__(
        self, components: Components, governance: Sender, *, confirming: ChainReader | None = None
    ) -> None:
        self._components = components
        embedded = components.founding is not None
        self._governance = governance.above(SET_UP_NONCES) if embedded else governance
        self._first = governance
        self._parts = Rotatable(
            components.log,
            components.reader,
            components.store,
            components.publisher.is_final,
            org=components.org,
            confirming=confirming,
        )

    def plans(
        self,
        wanted: str | None = None,
        *,
        anyway: bool = False,
        on_read: Callable[[int], None] = lambda _: None,
    ) -> list[Plan]:
        """One plan for each stream that cannot go on, or for the one that is wanted.

        Args:
            wanted: a partition's number, or the first 8 or more hex digits of a stream's name.
            anyway: plan also for a stream in which nothing is wrong, as after a stolen key.
            on_read: called with the number of offsets compared since the last call.

        Raises:
            ConfigError: there is nothing of that name.
            PendingError: a head is not final.
            VerificationError: the chain lost what was final, or two of its endpoints differ.
        """
        self._prepare()
        generations, places = survey_places(self._parts)
        chosen = places if wanted is None else [_choose(wanted, generations, places)]
        found = []
        for place in chosen:
            if place.last is None and wanted is None:
                continue
            plan = make_plan(self._parts, place, generations, on_read=on_read)
            if plan.why is not None or anyway:
                found.append(plan)
        return found

    def rotate(self, plan: Plan, *, on_read: Callable[[int], None] = lambda _: None) -> Rotation:
        """Close the plan's stream and open its successor; what was done already is not done again.

        Raises:
            PendingError: more was anchored since the plan was made, so another one is needed.
            ConfigError: the contract refuses: the key does not govern our organisation.
        """
        short = plan.old.name.hex()[:16]
        if plan.needs_close:
            self._governance.complete(CloseCall(plan.old.name), f"closing stream {short}")
        generations, places = survey_places(self._parts)
        place = next((one for one in places if one.log == plan.log), None)
        if place is None:
            raise _moved(plan)
        if self._opened(plan) is None:
            again = make_plan(self._parts, place, generations, on_read=on_read)
            if (again.opening, again.old.name) != (plan.opening, plan.old.name) or again.needs_close:
                raise _moved(plan)
            self._open(plan, short)
        successor = self._opened(plan)
        if successor is None:
            raise _moved(plan)
        return Rotation(plan, successor)

    def _open(self, plan: Plan, short: str) -> None:
        binding, start, continues = plan.opening
        try:
            self._governance.complete(
                OpenCall(binding, start, continues), f"opening the successor of stream {short}"
            )
        except ConfigError:
            if self._opened(plan) is None:  # else somebody was quicker
                raise

    def _opened(self, plan: Plan) -> bytes | None:
        """The plan's successor, if it is there."""
        binding, start, continues = plan.opening
        for stream, opening, _ in reversed(self._parts.reader.openings(binding)):
            if (opening.org, opening.start_offset, opening.continues) == (self._parts.org, start, continues):
                return stream
        return None

    def _prepare(self) -> None:
        """Settle what is under way, on a chain that lost nothing: as a batcher that starts."""
        c = self._components
        if c.founding is not None:
            setup = set_up_chain(c.reader, self._first, c.founding, code_hash=c.code_hash)
            anchor_again(c.reader, c.store, c.publisher, self._governance, identity=setup.identity)
        else:
            check_contract(c.reader.identity(), c.code_hash)
            bound = [stream for stream, opening, _ in c.reader.openings() if opening.org == c.org]
            check_heads(c.reader, c.index, bound)
        self._governance.settle_all()
        c.publisher.settle_all()


def _choose(wanted: str, generations: list[Generation], places: list[Place]) -> Place:
    if wanted.isdecimal() and len(wanted) < _FEWEST_DIGITS:
        found = [place for place in places if place.log.partition == int(wanted)]
    else:
        names = {one.at for one in generations if _is_named(one, wanted)}
        found = [place for place in places if (place.log.topic, place.log.partition) in names]
    if len(found) != 1:
        raise ConfigError(
            f"{wanted!r:.80}: {len(found) or 'no'} partitions of the log have a stream or a number like that",
            reason="stream-ambiguous" if found else "no-stream",
            remedy="See: provenance stream list",
        )
    return found[0]


def _is_named(generation: Generation, wanted: str) -> bool:
    return len(wanted) >= _FEWEST_DIGITS and generation.name.hex().startswith(wanted.lower())


def _moved(plan: Plan) -> PendingError:
    return PendingError(
        f"{plan.old.title}: log or chain moved on since the rotation was planned; the stream is closed, and"
        " no successor was opened",
        reason="plan-outdated",
        remedy="Call the same command again: it goes on from where things stand now.",
    )
