"""Runs that are really recorded, in this process, and anchored on a chain in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from provenance import bootstrap, config
from provenance.core.batcher import Limits
from provenance.services.batching import Components, run_once
from provenance.services.chain_setup import Founding
from provenance.services.sending import Sender
from provenance.testing.fakes import FakeChain, FakeClock, FakeJournal

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from provenance.services.batching import Outcome

__all__ = ["FakeLedger"]

_GOVERNANCE, _PUBLISHER = b"g" * 20, b"p" * 20
_LIMITS = Limits(max_records=8, max_bytes=1 << 20, max_age=0.0, read_size=100, poll=0.1)


class FakeLedger:
    """A chain in memory for what is otherwise a real ``.provenance`` folder."""

    def __init__(self) -> None:
        self.chain = FakeChain()
        self._journal, self._clock = FakeJournal(), FakeClock()

    def use(self, patch: pytest.MonkeyPatch) -> None:
        """Let everything that asks for the chain have this one."""
        patch.setattr(bootstrap, "chain", lambda _settings: (self.chain, None))

    def anchor(self, folder: Path) -> Outcome:
        """Anchor all that the folder's log holds."""
        settings = config.load(folder)
        public_key = bootstrap.record_signer(settings).public_key()
        components = Components(
            log=bootstrap.event_log(settings),
            reader=self.chain,
            store=bootstrap.batch_store(settings),
            index=bootstrap.index(settings),
            publisher=self._sender(_PUBLISHER, "anchor"),
            clock=self._clock,
            code_hash=FakeChain.with_contract(_GOVERNANCE, _PUBLISHER).identity().code_hash or b"",
            governance=self._sender(_GOVERNANCE, "open"),
            founding=Founding("org", _GOVERNANCE, _PUBLISHER, public_key),
        )
        return run_once(components, _LIMITS, jitter=lambda: 0.5)

    def _sender(self, address: bytes, purpose: str) -> Sender:
        return Sender(self.chain.account(address), self._journal, self._clock, purpose=purpose, patience=0.0)
