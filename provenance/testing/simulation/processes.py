"""A batcher as an operator runs it: whatever ends it, it is started again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from provenance.errors import PendingError, ProvenanceError, UnavailableError
from provenance.services.batching import Components, run_forever, run_once
from provenance.services.chain_setup import Founding
from provenance.services.sending import Sender
from provenance.testing.fakes import FakeIndex, FakeJournal
from provenance.testing.faults import Crash, Fault
from provenance.testing.simulation.log import PartitionsOf
from provenance.testing.simulation.node import Node
from provenance.testing.simulation.ports import ProcessClock, watched
from provenance.testing.simulation.scenario import random_of

if TYPE_CHECKING:
    from provenance.testing.simulation.world import World

__all__ = ["GOVERNANCE", "Batcher"]

GOVERNANCE = b"g" * 20
_FAULTS = tuple(Fault)
_PATIENCE = 5.0


class Batcher:
    """One process with its account, journal, index, node and clock; the world is shared."""

    def __init__(self, world: World, number: int) -> None:
        self.name = f"batcher {number}"
        self.address = b"p%d" % number + bytes(18)
        self.node = Node(world.chain)
        self.clock = ProcessClock(world.scheduler)
        self.journal = FakeJournal()
        self.stops: list[tuple[float, ProvenanceError]] = []
        """When and why it stopped for good, so that somebody had to look."""
        self._world = world
        self._number = number
        self._rng = random_of(world.scenario.seed, f"batcher {number}")
        self._index = FakeIndex()
        self._until = 0.0
        self._losses = 0
        self._odd = False

    def main(self) -> None:
        """Start again and again, until the world ends."""
        world, rng = self._world, self._rng
        while not world.is_ending:
            seconds = rng.random() * 2
            try:
                self._run()
            except Crash:
                world.scheduler.step()  # raises if it is the world's end
                world.note(f"{self.name}: killed")
                if rng.random() < world.scenario.lost_journals and not world.is_calm:
                    world.note(f"{self.name}: its journal is lost")
                    self.journal = FakeJournal()
            except (UnavailableError, PendingError):
                seconds = 0.5 + rng.random()
            except ProvenanceError as error:
                world.note(f"{self.name}: stopped ({error.reason}): {error.message}")
                self.stops.append((world.scheduler.now, error))
                world.judge.check_stop(
                    self.name, error, is_known=self._losses == world.losses and not self._odd
                )
            world.scheduler.step()
            world.scheduler.sleep(seconds)
        if not world.judge.conflicts():  # once more, which has nothing to do but to sweep
            self.assigned = set(range(world.scenario.partitions))
            self._drain()

    def restart_soon(self) -> None:
        """Somebody stops it, and starts it again."""
        self._until = min(self._until, self._world.scheduler.now + 1.0)

    def partitions(self) -> set[int]:
        """Those that it works on now."""
        count, batchers = self._world.scenario.partitions, self._world.scenario.batchers
        if not self._world.scenario.divided:
            return set(range(count))
        if self._world.is_calm:
            return {number for number in range(count) if number % batchers == self._number % count}
        return {number for number in range(count) if self._rng.random() < 0.6} or {0}

    def _run(self) -> None:
        world, rng = self._world, self._rng
        self.assigned, self._losses = self.partitions(), world.losses
        self._odd = world.is_calm and bool(world.judge.conflicts())
        self._until = world.scheduler.now + (1 + rng.random() * 5 if rng.random() < 0.3 else 1e9)
        world.note(f"{self.name}: started, for partitions {sorted(self.assigned)}")
        if rng.random() < 0.3:
            self._drain()
            return
        run_forever(
            self._components(),
            world.scenario.limits,
            stop=self._is_to_stop,
            on_final=world.judge.on_final,
            jitter=rng.random,
        )

    def _drain(self) -> None:
        judge, limits = self._world.judge, self._world.scenario.limits
        run_once(self._components(), limits, on_final=judge.on_final, jitter=self._rng.random)

    def _is_to_stop(self) -> bool:
        world = self._world
        moved = world.scenario.divided and world.is_calm and self.assigned != self.partitions()
        return world.is_ending or world.scheduler.now >= self._until or moved

    def _components(self) -> Components:
        world, scenario = self._world, self._world.scenario
        journal = watched(self.journal, "journal", self._announce)
        opens = self._number == 0 and (scenario.embedded or not scenario.divided)
        founding = Founding("org", GOVERNANCE, self.address, b"r" * 32) if scenario.embedded else None

        def sender(address: bytes, purpose: str) -> Sender:
            account = watched(self.node.account(address), purpose, self._announce)
            patience = 0.0 if scenario.embedded else _PATIENCE
            return Sender(account, journal, self.clock, purpose=purpose, patience=patience)

        return Components(
            log=PartitionsOf(watched(world.log, "log", self._announce), self.assigned),
            reader=watched(self.node, "chain", self._announce),
            store=watched(world.store_of(self._number), "store", self._announce),
            index=watched(self._index, "index", self._announce),
            publisher=sender(self.address, "anchor"),
            clock=self.clock,
            code_hash=world.code_hash,
            governance=sender(GOVERNANCE, "open") if opens else None,
            founding=founding,
        )

    def _announce(self, operation: str) -> Fault | None:
        world = self._world
        world.before_call(self.name, operation)
        if world.is_calm:
            return None
        drawn = self._rng.random()
        scenario = world.scenario
        if drawn < scenario.faults:
            fault = _FAULTS[int(self._rng.random() * len(_FAULTS))]
            world.note(f"{self.name}: {operation}: {fault.value}")
            return fault
        if drawn < scenario.faults + scenario.slowness:
            # Others go on meanwhile; a few requests take long.
            world.scheduler.sleep(self._rng.random() ** 4 * 3)
        return None
