"""The batcher: anchors what is in the log, once or for ever.

The order of a start: on the embedded chain, set it up and anchor again what it lost, elsewhere refuse a chain
that lost anything; then bind each partition of the log to its stream; then let the machines run
(`provenance.core.batcher`), and feed the index with every batch that became final.

Recording never needs any of this: records wait in the log until a batcher comes.
"""

from __future__ import annotations

import logging
import random
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from provenance.errors import PendingError, ProvenanceError, UnavailableError, VerificationError
from provenance.services.chain_setup import SET_UP_NONCES, check_contract, set_up_chain
from provenance.services.conducting import Conductor, Instruments
from provenance.services.indexing import Indexed, catch_up
from provenance.services.reanchoring import anchor_again, check_heads
from provenance.services.streams import bind_streams, find_bindings
from provenance.services.tidying import drop_orphans

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from provenance.core.batcher import Limits
    from provenance.core.batcher.messages import Source
    from provenance.ports import Anchor, BatchStore, ChainReader, Clock, EventLog, Index
    from provenance.services.chain_setup import Founding
    from provenance.services.reanchoring import AnchoredAgain
    from provenance.services.sending import Sender

__all__ = ["Components", "Outcome", "run_forever", "run_once"]

# What a chain that was set back or made anew under a running batcher looks like to it.
SET_BACK = {"chain-behind", "stream-unknown", "history-differs"}
MAX_RECOVERIES = 3
MAX_LOOKS = 5
LONGEST_BACKOFF = 30.0

_log = logging.getLogger("provenance.batcher")


@dataclass(frozen=True, slots=True)
class Components:
    """What a batcher works with.

    ``code_hash`` is the released contract's, ``org`` our organisation's number. ``founding`` is given on the
    embedded chain only, where the chain may be set up and anchored again; ``governance`` where this process
    may open streams.
    """

    log: EventLog
    reader: ChainReader
    store: BatchStore
    index: Index
    publisher: Sender
    clock: Clock
    code_hash: bytes
    org: int = 1
    governance: Sender | None = None
    founding: Founding | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run did: what became final and the gas it took, the last anchor of each stream.

    ``again`` is what the embedded chain had lost, ``deployed`` whether it had not even the contract,
    ``indexed`` what the index learnt. ``index_error`` is why the index lags, if it does: a cache stops no
    batcher.
    """

    batches: int = 0
    records: int = 0
    gas: int = 0
    positions: Mapping[bytes, Anchor] = field(default_factory=dict)
    again: tuple[AnchoredAgain, ...] = ()
    deployed: bool = False
    indexed: Indexed = field(default_factory=Indexed)
    index_error: ProvenanceError | None = None

    def after(self, anchor: Anchor) -> Outcome:
        """With one more final anchor."""
        return replace(
            self,
            batches=self.batches + 1,
            records=self.records + anchor.leaf_count,
            gas=self.gas + anchor.gas_used,
            positions={**self.positions, anchor.stream: anchor},
        )


def run_once(
    components: Components,
    limits: Limits,
    *,
    attempts: int = 6,
    on_final: Callable[[Anchor], None] = lambda _: None,
    jitter: Callable[[], float] = random.random,
) -> Outcome:
    """Anchor everything that is in the log now, and wait until it is final.

    The embedded chain is set up and anchored again where it is set back meanwhile.

    Args:
        components: what to work with.
        limits: when batches close; their age does not count here.
        attempts: how often in a row one request may fail.
        on_final: called with each anchor that became final.
        jitter: see `Conductor`.

    Raises:
        UnavailableError: a component cannot be reached; what was signed is in the journal, the rest in the
            log, and the next run goes on.
        VerificationError: log, files and chain do not fit together; the message says what is lost.
    """
    run = _Run(components, limits, on_final, jitter)
    while True:
        sources = run.prepare()
        until = {source.log.partition: components.log.bounds(source.log.partition).end for source in sources}
        try:
            run.conduct(sources, until=until, attempts=attempts)
            break
        except VerificationError as error:
            run.recover(error)
        finally:
            for source in sources:
                run.feed_index(source.stream)
    return run.outcome


def run_forever(
    components: Components,
    limits: Limits,
    *,
    stop: Callable[[], bool],
    on_final: Callable[[Anchor], None] = lambda _: None,
    jitter: Callable[[], float] = random.random,
) -> Outcome:
    """Anchor whatever comes into the log, until ``stop`` says so; it is asked at least twice a second.

    A chain or log that cannot be reached is waited for. The embedded chain is set up and anchored again when
    it was made anew meanwhile; any other one stops the batcher then.

    Raises:
        VerificationError: log, files and chain do not fit together; the message says what is lost.
        ConfigError: only a person can change what is wrong.
    """
    governance = components.governance
    components = replace(
        components,
        publisher=components.publisher.until(stop),
        governance=None if governance is None else governance.until(stop),
    )
    run = _Run(components, limits, on_final, jitter)
    failures = 0
    while not stop():
        try:
            sources = run.prepare()
            failures = 0
            run.conduct(sources, stop=lambda: stop() or run.finds_new_partitions())
            run.pause(limits.poll, stop)
        except UnavailableError as error:
            if failures == 0:
                _log.warning("%s; it is tried again", error.message)
            failures += 1
            run.pause(min(LONGEST_BACKOFF, 0.2 * 2**failures), stop)
        except PendingError:  # it was told to stop while it waited for a stream to open
            break
        except VerificationError as error:
            run.recover(error)
    return run.outcome


class _Run:
    """One call of the above: components, what came of them, and how often the chain was made anew."""

    def __init__(
        self,
        components: Components,
        limits: Limits,
        on_final: Callable[[Anchor], None],
        jitter: Callable[[], float],
    ) -> None:
        self.outcome = Outcome()
        self._components = components
        self._limits = limits
        self._on_final = on_final
        self._jitter = jitter
        self._recoveries = 0
        self._streams = -1
        self._unbound: list[int] = []
        self._looked = 0.0
        self._swept: set[bytes] = set()

    def prepare(self) -> list[Source]:
        """The streams to anchor into, on a chain that is fit for it.

        What looks like a chain that was set back may be a node that lags, so it is looked at again.
        """
        for _ in range(MAX_LOOKS):
            try:
                return self._prepare()
            except VerificationError as error:
                if error.reason not in SET_BACK:
                    raise
            self.pause(min(self._limits.poll, 1.0), lambda: False)
        return self._prepare()

    def _prepare(self) -> list[Source]:
        c, governance = self._components, self._components.governance
        if c.founding is not None and governance is not None:
            setup = set_up_chain(c.reader, governance, c.founding, code_hash=c.code_hash)
            governance = governance.above(SET_UP_NONCES)
            again = anchor_again(c.reader, c.store, c.publisher, governance, identity=setup.identity)
            self.outcome = replace(
                self.outcome,
                deployed=self.outcome.deployed or setup.deployed,
                again=(*self.outcome.again, *again),
            )
        else:
            check_contract(c.reader.identity(), c.code_hash)
            bound = [b.stream for b in find_bindings(c.log, c.reader, org=c.org) if b.stream is not None]
            check_heads(c.reader, c.index, bound)
        sources = bind_streams(c.log, c.reader, c.store, org=c.org, governance=governance, index=c.index)
        if len(sources) != self._streams:
            self._streams = len(sources)
            _log.info("anchoring into %d streams", self._streams)
        for stream in {source.stream: None for source in sources if source.stream not in self._swept}:
            drop_orphans(c.reader, c.store, stream, is_final=c.publisher.is_final)
            self._swept.add(stream)
        bound_partitions = {source.log.partition for source in sources}
        partitions = [identity.partition for identity in c.log.identities()]
        self._unbound = [number for number in partitions if number not in bound_partitions]
        return sources

    def conduct(
        self,
        sources: list[Source],
        *,
        until: dict[int, int] | None = None,
        attempts: int | None = None,
        stop: Callable[[], bool] = lambda: False,
    ) -> None:
        """Let the machines of these streams run."""
        c = self._components
        conductor = Conductor(
            Instruments(c.log, c.reader, c.store, c.publisher, c.clock),
            sources,
            self._limits,
            until=until,
            attempts=attempts,
            on_final=self._finish,
            jitter=self._jitter,
        )
        conductor.run(stop)

    def _finish(self, anchor: Anchor) -> None:
        self.outcome = self.outcome.after(anchor)
        self._recoveries = 0
        self.feed_index(anchor.stream)
        self._on_final(anchor)

    def feed_index(self, stream: bytes) -> None:
        """Index what is final; a failure is remembered, and logged once."""
        c = self._components
        try:
            found = catch_up(c.index, c.reader, c.store, stream, is_final=c.publisher.is_final)
        except ProvenanceError as error:
            if self.outcome.index_error is None:
                _log.warning("the index lags: %s", error.message)
            self.outcome = replace(self.outcome, index_error=error)
            return
        self.outcome = replace(self.outcome, indexed=self.outcome.indexed + found, index_error=None)

    def finds_new_partitions(self) -> bool:
        """Whether a partition without a stream has messages now; asked at most once per polling interval."""
        now = self._components.clock.monotonic()
        if not self._unbound or now - self._looked < self._limits.poll:
            return False
        self._looked = now
        bounds = [self._components.log.bounds(number) for number in self._unbound]
        return any(found.end > found.start for found in bounds)

    def pause(self, seconds: float, stop: Callable[[], bool]) -> None:
        """Wait in slices, so that a request to stop is seen soon."""
        clock = self._components.clock
        end = clock.monotonic() + seconds * (0.5 + 0.5 * self._jitter())
        while not stop() and (rest := end - clock.monotonic()) > 0:
            clock.sleep(min(0.5, rest))

    def recover(self, error: VerificationError) -> None:
        """Begin anew where the embedded chain was set back under us; raise whatever else was found.

        On any chain, a stream of which nothing was final may be gone with a reorganisation that took its
        opening.
        """
        self._recoveries += 1
        embedded = self._components.founding is not None
        known = SET_BACK if embedded else {"stream-unknown"}
        if error.reason not in known or self._recoveries > MAX_RECOVERIES:
            raise error
        if embedded:
            _log.warning("the embedded chain was set back or made anew; anchoring again")
        else:
            _log.warning("%s; it is looked for again", error.message)
