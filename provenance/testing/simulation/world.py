"""The world of one run: log, chain, store, producers and batchers, and all that befalls them."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from provenance.core.streams import binding_of
from provenance.ports import OpenCall, SetKeyCall
from provenance.testing.fake_chain import FakeChain
from provenance.testing.simulation.judge import Judge
from provenance.testing.simulation.log import SimulatedLog
from provenance.testing.simulation.ports import SimulatedStore
from provenance.testing.simulation.processes import GOVERNANCE, Batcher
from provenance.testing.simulation.producers import Outbox
from provenance.testing.simulation.scenario import random_of
from provenance.testing.simulation.scheduler import Scheduler

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from provenance.testing.simulation.scenario import Scenario

__all__ = ["World"]

BLOCK_TIME = 0.7
MOST_STEPS = 40_000
CALM = 200.0
"""Seconds after the last misfortune within which all must be final."""


class World:
    """One run of a scenario.

    Args:
        scenario: what is to happen.
    """

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.scheduler = Scheduler(self._random("turns"), most_steps=MOST_STEPS)
        self.trace: list[tuple[float, str]] = []
        self.calls: list[tuple[float, str, str]] = []
        self.is_calm = False
        self.is_ending = False
        self.lost: list[str] = []
        """What was lost so far, of `LOSSES`."""
        self.losses = 0
        """How often the log changed thereby."""
        self.log = SimulatedLog(scenario.partitions, short_reads=scenario.short_reads)
        self.chain = self._make_chain()
        self.store = SimulatedStore(torn_put=scenario.torn_put)
        self._rng = self._random("world")
        self._losses = list(scenario.losses)
        self._next_loss = self._losses[0][0] if self._losses else -1
        self._mine_until = 0
        self.judge = Judge(self)
        self.outbox = Outbox(
            scenario, self.scheduler, self.log, self._random("outbox"), self.judge.is_final_at, self.note
        )
        self.batchers = [Batcher(self, number) for number in range(scenario.batchers)]
        self._enrol()
        if scenario.divided and not scenario.embedded:
            self._open_streams()
        self._arrange()

    def run(self) -> None:
        """Let everything happen, and be judged."""
        for batcher in self.batchers:
            self.scheduler.spawn(batcher.name, batcher.main)
        try:
            self.scheduler.run(self.scenario.chaos + 2 * CALM)
        finally:
            self.scheduler.close()
        if self.scheduler.error is not None:
            self.judge.accuse("bug", "", repr(self.scheduler.error))
        else:
            self.judge.check_end()

    def note(self, line: str) -> None:
        """A line of the trace."""
        self.trace.append((round(self.scheduler.now, 6), line))

    def read_log_line(self, level: int, line: str) -> None:
        """An operator reads what the batchers log: a stream that stopped calls for a look and a new start."""
        for batcher in self.batchers:
            if batcher.name == self.scheduler.current and level >= logging.ERROR:
                self.note(f"{batcher.name}: logged {line}")
                batcher.restart_soon()

    def store_of(self, number: int) -> SimulatedStore:  # noqa: ARG002 - a mutation gives each its own
        """The store that a batcher uses: all share one."""
        return self.store

    @property
    def code_hash(self) -> bytes:
        """The contract's."""
        return _CODE_HASH

    def before_call(self, name: str, operation: str) -> None:
        """A process is about to call a port."""
        self.scheduler.step()
        self.calls.append((self.scheduler.now, name, operation))
        if len(self.calls) == self._next_loss:
            _, kind, share = self._losses.pop(0)
            self._next_loss = self._losses[0][0] if self._losses else -1
            if not self.is_calm:
                self._lose(kind, share)

    # ------------------------------------------------------------------------------------------- the making

    def _random(self, name: str) -> random.Random:
        return random_of(self.scenario.seed, name)

    def _make_chain(self) -> FakeChain:
        chain = FakeChain(depth=self.scenario.depth)
        if not self.scenario.embedded:
            chain = FakeChain.with_contract(GOVERNANCE, b"unused".ljust(20), depth=self.scenario.depth)
        chain.automine = self.scenario.instant and not self.scenario.depth
        return chain

    def _enrol(self) -> None:
        if not self.scenario.embedded:
            for batcher in self.batchers:
                self._govern(SetKeyCall(batcher.address, 2))

    def _open_streams(self) -> None:
        for number in range(self.scenario.partitions):
            self._govern(OpenCall(binding_of(self.log.identity(number)), 0, bytes(32)))

    def _govern(self, call: SetKeyCall | OpenCall) -> None:
        """What an operator does on the chain, final at once."""
        owner = self.chain.account(GOVERNANCE)
        owner.send(owner.sign(call, owner.nonce()).raw)
        for _ in range(self.scenario.depth + 1):
            self.chain.mine()

    def _arrange(self) -> None:
        scenario = self.scenario
        self.scheduler.at(scenario.chaos, self._calm_down)
        if not scenario.instant or scenario.depth:
            self.scheduler.at(BLOCK_TIME, self._mine)
        self._now_and_then(scenario.reorganisations, self._reorganise)
        self._now_and_then(scenario.lost_transactions, self._lose_transactions)
        self._now_and_then(2.0 if scenario.lag else 0.0, self._fall_behind)
        self._now_and_then(scenario.outages, self._fail)
        self._now_and_then(scenario.elections, self._elect)
        self._now_and_then(4.0 if scenario.clock_jumps else 0.0, self._jump)

    def _now_and_then(self, mean: float, happen: Callable[[], None]) -> None:
        def again() -> None:
            if not self.is_calm:
                happen()
                self.scheduler.at(self._rng.expovariate(1 / mean), again)

        if mean:
            self.scheduler.at(self._rng.expovariate(1 / mean), again)

    # ---------------------------------------------------------------------------------------- what happens

    def _mine(self) -> None:
        # Empty blocks count only where something waits to become final.
        if self.chain.has_pending:
            self._mine_until = self.chain.height + 1 + self.scenario.depth
        if self.chain.height < self._mine_until:
            self.chain.mine()
        self.scheduler.at(BLOCK_TIME, self._mine)

    def _reorganise(self) -> None:
        drop = self._rng.random() < 0.5
        if self.scenario.embedded:
            blocks = int(self._rng.random() ** 2 * (self.chain.height + 1))
            self.note(f"chain: set back by {blocks} of {self.chain.height} blocks")
            self.chain.reorganise(blocks, drop=True)
            return
        if not self.scenario.depth:
            return
        blocks = self._rng.randint(1, self.scenario.depth)
        self.note(f"chain: {blocks} blocks are replaced" + (", their transactions lost" if drop else ""))
        self.chain.reorganise(blocks, drop=drop)
        for _ in range(blocks + 1):
            self.chain.mine()
        self._mine_until = self.chain.height + self.scenario.depth

    def _lose_transactions(self) -> None:
        self.note("chain: all that waits for a block is lost")
        self.chain.forget_pending()

    def _fall_behind(self) -> None:
        batcher = self._rng.choice(self.batchers)
        batcher.node.behind = self._rng.randint(1, self.scenario.lag)
        self.note(f"{batcher.name}: its node is {batcher.node.behind} blocks behind")
        # Less than five looks at the head, after which a batcher no longer takes it for lag.
        self.scheduler.at(self._rng.random() * 0.8, lambda: setattr(batcher.node, "behind", 0))

    def _fail(self) -> None:
        seconds = self._rng.random() * 3
        if self._rng.random() < 0.3:
            self.note(f"store: full for {seconds:.1f} s")
            self.store.full = True
            self.scheduler.at(seconds, lambda: setattr(self.store, "full", False))
            return
        batcher = self._rng.choice(self.batchers)
        self.note(f"{batcher.name}: its node is down for {seconds:.1f} s")
        batcher.node.down = True
        self.scheduler.at(seconds, lambda: setattr(batcher.node, "down", False))

    def _elect(self) -> None:
        partition = self._rng.randrange(self.scenario.partitions)
        self.note(f"log {partition}: another leader, nothing lost")
        self.log.elect(partition)

    def _jump(self) -> None:
        batcher = self._rng.choice(self.batchers)
        batcher.clock.jumped += 10 ** self._rng.uniform(0, 4)
        self.note(f"{batcher.name}: its clock jumps to {batcher.clock.jumped:.0f} s")

    def _lose(self, kind: str, share: float) -> None:
        partition = self._rng.randrange(self.scenario.partitions)
        start, end = self.log.ends(partition)
        offset = start + round(share * (end - start))
        self.lost.append(kind)
        self.losses += 1
        if kind == "truncate":
            self.note(f"log {partition}: unclean election, offsets {offset} to {end} are lost")
            self.log.truncate(partition, offset)
        elif kind == "retention":
            self.note(f"log {partition}: retention removes all below {offset}")
            self.log.trim(partition, offset)
        else:
            self.note("log: the topic is deleted")
            self.log.delete()
            if share < 0.5:
                self._recreate()
            else:
                self.scheduler.at(share * 2, self._recreate)

    def _recreate(self) -> None:
        if self.log.identities():
            return
        self.losses += 1
        self.log.create()
        self.note(f"log: the topic is made anew, id {self.log.topic_id}")
        if self.scenario.divided and not self.scenario.embedded and not self.judge.conflicts():
            self._open_streams()

    # ---------------------------------------------------------------------------------------------- the end

    def _calm_down(self) -> None:
        self.note("calm: nothing fails any more")
        self._recreate()
        self.is_calm = self.outbox.is_calm = True
        for partition in range(self.scenario.partitions):
            self.log.show(partition)
        self.store.full = False
        for batcher in self.batchers:
            batcher.node.behind, batcher.node.down = 0, False
        self._wait_for_end(0)

    def _wait_for_end(self, count: int) -> None:
        if count < CALM and not (self.judge.is_settled() and count > 3):
            self.scheduler.at(1.0, partial(self._wait_for_end, count + 1))
            return
        self.note("the end: processes are told to stop")
        self.is_ending = True


_CODE_HASH = FakeChain.with_contract(GOVERNANCE, GOVERNANCE).identity().code_hash or b""
