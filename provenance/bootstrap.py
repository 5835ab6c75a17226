"""The one place that joins adapters to services: settings in, ports out.

Each function takes `Settings` and imports what it needs when it is called, so recording needs no web3, and
help needs nothing. A settings object can be given to another process, a port cannot: a Dask worker calls
``event_log(settings)`` itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from provenance.adapters.folder_store import FolderStore
    from provenance.adapters.keys import FileSigner
    from provenance.adapters.private_names import SqlitePrivateNames
    from provenance.adapters.sqlite_index import SqliteIndex
    from provenance.adapters.sqlite_journal import SqliteJournal
    from provenance.adapters.sqlite_log import SqliteLog
    from provenance.adapters.system_clock import SystemClock
    from provenance.config import Settings

__all__ = [
    "batch_store",
    "clock",
    "event_log",
    "index",
    "journal",
    "names",
    "prepare",
    "record_signer",
    "trusted_keys",
]


def prepare(settings: Settings) -> list[str]:
    """Make the folder and the keys that are not there yet.

    Returns:
        The names of the keys that were made.
    """
    from provenance import files
    from provenance.adapters import keys

    files.make_folder(settings.folder)
    # Keys and plain names lie in it: it keeps itself out of version control.
    files.create_file(settings.folder / ".gitignore", b"*\n")
    made = [keys.RECORD_KEY] if keys.create_record_key(settings.keys_path) else []
    return made + [name for name in keys.CHAIN_KEYS if keys.create_chain_key(settings.keys_path, name)]


def event_log(settings: Settings) -> SqliteLog:
    """The event log of the embedded set-up; its file is made when it is first used."""
    from provenance.adapters.sqlite_log import SqliteLog

    return SqliteLog(settings.log_path, busy_timeout_s=settings.log_busy_timeout)


def batch_store(settings: Settings) -> FolderStore:
    """The batch store: a folder."""
    from provenance.adapters.folder_store import FolderStore

    return FolderStore(settings.store_path, limit=settings.store_object_limit)


def index(settings: Settings) -> SqliteIndex:
    """The index over the batch files."""
    from provenance.adapters.sqlite_index import SqliteIndex

    return SqliteIndex(settings.index_path, busy_timeout_s=settings.log_busy_timeout)


def journal(settings: Settings) -> SqliteJournal:
    """The journal of signed transactions."""
    from provenance.adapters.sqlite_journal import SqliteJournal

    return SqliteJournal(settings.journal_path, busy_timeout_s=settings.log_busy_timeout)


def names(settings: Settings) -> SqlitePrivateNames:
    """The private store of the dataset's secret and of plain values."""
    from provenance.adapters.private_names import SqlitePrivateNames

    return SqlitePrivateNames(settings.names_path, busy_timeout_s=settings.log_busy_timeout)


def record_signer(settings: Settings) -> FileSigner:
    """The record-signing key; made when there is none."""
    from provenance.adapters import keys

    prepare(settings)
    return keys.FileSigner(settings.keys_path / keys.RECORD_KEY)


def trusted_keys(settings: Settings) -> dict[str, bytes]:
    """The record-signing keys that this folder trusts: key id → raw 32-byte Ed25519 public key."""
    from provenance.adapters import keys

    return keys.load_trusted_keys(settings.keys_path)


def clock() -> SystemClock:
    """The system's clock."""
    from provenance.adapters.system_clock import SystemClock

    return SystemClock()
