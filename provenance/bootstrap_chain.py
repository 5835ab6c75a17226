"""Joins the embedded chain and the batcher, as `provenance.bootstrap` joins everything else.

Only on the embedded chain has this machine the governance key: there the batcher may set the chain up, open
streams, and anchor again what the chain lost. On any other chain it may anchor, and nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from provenance import bootstrap

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from provenance.adapters.anvil import NodeInfo
    from provenance.config import Settings
    from provenance.core.batcher import Limits
    from provenance.services.batching import Components
    from provenance.services.chain_setup import SetUp

__all__ = [
    "batch_limits",
    "batcher",
    "batcher_lock",
    "chain_status",
    "set_up_chain",
    "start_chain",
    "stop_chain",
]

ORGANISATION = "development"


def start_chain(settings: Settings, *, port: int | None = None) -> NodeInfo:
    """Start the embedded chain, or find it running; it has no contract yet when it is new.

    Args:
        settings: the folder's.
        port: the port to listen on; that of the settings if None.

    Raises:
        ConfigError: the settings name another chain, the port is taken, or Node.js is missing.
        UnavailableError: anvil cannot be installed, or does not come up.
    """
    from provenance.adapters import anvil
    from provenance.errors import ConfigError

    if settings.chain_url:
        raise ConfigError(
            "chain.url names another chain: there is none to start here",
            reason="other-chain",
            remedy="Remove chain.url from the settings to use the embedded chain.",
        )
    bootstrap.require_chain_packages()
    bootstrap.prepare(settings)
    return anvil.start(settings.chain_path, port=port or settings.chain_port or None)


def stop_chain(settings: Settings) -> bool:
    """Stop the embedded chain; whether it ran."""
    from provenance.adapters import anvil

    return anvil.stop(settings.chain_path)


def chain_status(settings: Settings) -> NodeInfo | None:
    """The embedded chain, if it runs."""
    from provenance.adapters import anvil

    return anvil.status(settings.chain_path)


def set_up_chain(settings: Settings) -> SetUp:
    """Deploy the contract on the embedded chain and enrol the organisation's keys, as far as it is not done.

    ``chain.json`` in the chain's folder then says which chain and contract it is.
    """
    import json

    from provenance import files
    from provenance.services import chain_setup

    parts = batcher(settings)
    if parts.governance is None or parts.founding is None:
        return chain_setup.SetUp(parts.reader.identity(), deployed=False)
    setup = chain_setup.set_up_chain(
        parts.reader, parts.governance, parts.founding, code_hash=parts.code_hash
    )
    identity = setup.identity
    fields = {
        "chain_id": identity.chain_id,
        "genesis": identity.genesis.hex(),
        "contract": (identity.contract or b"").hex(),
        "code_hash": (identity.code_hash or b"").hex(),
    }
    text = json.dumps(fields, indent=2, sort_keys=True) + "\n"
    files.make_folder(settings.chain_path)
    files.write_file(settings.chain_path / "chain.json", text.encode())
    return setup


def batcher(settings: Settings) -> Components:
    """What a batcher works with. Only on the embedded chain may it set up, open streams and anchor again.

    Raises:
        UnavailableError: the chain does not run.
        ConfigError: a key or a package is missing.
    """
    from provenance.contract import load
    from provenance.services.batching import Components
    from provenance.services.chain_setup import Founding
    from provenance.services.sending import Sender

    reader, publisher = bootstrap.chain(settings)
    embedded = not settings.chain_url
    signer = bootstrap.record_signer(settings)
    time, entries = bootstrap.clock(), bootstrap.journal(settings)
    owner = bootstrap.governance(settings) if embedded else None
    # Blocks of the embedded chain do not come back, so there is nothing to be patient for.
    patience = 0.0 if embedded else 60.0
    return Components(
        log=bootstrap.event_log(settings),
        reader=reader,
        store=bootstrap.batch_store(settings),
        index=bootstrap.index(settings),
        publisher=Sender(publisher, entries, time, patience=patience),
        clock=time,
        code_hash=load().code_hash,
        governance=Sender(owner, entries, time, purpose="open", patience=patience) if owner else None,
        founding=Founding(ORGANISATION, owner.address, publisher.address, signer.public_key())
        if owner
        else None,
    )


def batch_limits(settings: Settings) -> Limits:
    """When batches close."""
    from provenance.core.batcher import Limits

    return Limits(
        max_records=settings.batch_max_records,
        max_bytes=settings.batch_max_bytes,
        max_age=settings.batch_max_age,
        read_size=settings.log_read_limit,
        poll=settings.batch_poll,
    )


def batcher_lock(settings: Settings) -> AbstractContextManager[None]:
    """Held while a batcher works: one process per key."""
    from provenance.adapters.process_lock import hold_lock

    return hold_lock(settings.folder / "batcher.lock", "another batcher")
