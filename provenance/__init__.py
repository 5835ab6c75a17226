"""Provenance Ledger: training data that can show where it came from.

::

    import provenance

    with provenance.run("voice", dataset="dataset.toml") as run:
        raw = run.files("recordings/**/*.wav")
        clean = raw.stage("clean", remove_silence, threshold_db=-40)
        clean.stage("feature", mel, n_mels=80).write("features.zarr")

Every partition gets a record with the digest of its content and the records that it was made from; a seal at
the end vouches for all of them; ``provenance batch`` anchors them, ``provenance audit`` checks them, and
``provenance.torch.VerifiedShards`` reads a shard only after it was proved.

The names below are the public ones. They are loaded when they are first used: ``import provenance`` needs
neither Dask nor torch, Kafka or web3.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from provenance.bootstrap import digest as digest
    from provenance.core.partitions import File as File
    from provenance.errors import ConfigError as ConfigError
    from provenance.errors import MalformedError as MalformedError
    from provenance.errors import MismatchError as MismatchError
    from provenance.errors import PendingError as PendingError
    from provenance.errors import ProvenanceError as ProvenanceError
    from provenance.errors import Rejected as Rejected
    from provenance.errors import ReplayWarning as ReplayWarning
    from provenance.errors import UnavailableError as UnavailableError
    from provenance.errors import VerificationError as VerificationError
    from provenance.recording import attach as attach
    from provenance.recording import record as record
    from provenance.recording import rejected as rejected
    from provenance.recording import run as run
    from provenance.recording import start as start

    __version__: str

_PLACES = {
    "run": "provenance.recording",
    "start": "provenance.recording",
    "attach": "provenance.recording",
    "record": "provenance.recording",
    "rejected": "provenance.recording",
    "digest": "provenance.bootstrap",
    "File": "provenance.core.partitions",
    "Rejected": "provenance.errors",
    "ProvenanceError": "provenance.errors",
    "VerificationError": "provenance.errors",
    "MismatchError": "provenance.errors",
    "ConfigError": "provenance.errors",
    "MalformedError": "provenance.errors",
    "UnavailableError": "provenance.errors",
    "PendingError": "provenance.errors",
    "ReplayWarning": "provenance.errors",
}
_SUBMODULES = frozenset({"errors", "torch"})

# Without "torch": whoever imports all names need not have it.
__all__ = [*_PLACES, "errors"]  # noqa: PLE0604 - names of this module, all of them


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("provenance-ledger")
    if name in _SUBMODULES:
        return importlib.import_module(f"provenance.{name}")
    if name in _PLACES:
        return getattr(importlib.import_module(_PLACES[name]), name)
    raise AttributeError(f"module 'provenance' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__, *_SUBMODULES])
