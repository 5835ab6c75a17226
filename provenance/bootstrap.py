"""The one place that joins adapters to services: settings in, ports out.

Each function takes `Settings` and imports what it needs when it is called, so recording needs no web3, and
help needs nothing. A settings object can be given to another process, a port cannot: a Dask worker calls
``event_log(settings)`` itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

    from provenance.adapters.dask.replay import DaskReplayer
    from provenance.adapters.evm import EvmReader, EvmTransactor, Node
    from provenance.adapters.folder_store import FolderStore
    from provenance.adapters.kafka import KafkaLog
    from provenance.adapters.kafka_confluent import ConfluentLog
    from provenance.adapters.keys import FileSigner
    from provenance.adapters.private_names import SqlitePrivateNames
    from provenance.adapters.sqlite_index import SqliteIndex
    from provenance.adapters.sqlite_journal import SqliteJournal
    from provenance.adapters.sqlite_log import SqliteLog
    from provenance.adapters.stored_files import LocalFiles
    from provenance.adapters.system_clock import SystemClock
    from provenance.config import Settings
    from provenance.core.canonical import JSONObject
    from provenance.core.digests import Digest
    from provenance.ports import Replayer
    from provenance.services.audit import AuditPorts
    from provenance.services.digesting import Thing
    from provenance.services.report import RunReport

__all__ = [
    "audit_ports",
    "batch_store",
    "chain",
    "clock",
    "digest",
    "environment",
    "event_log",
    "governance",
    "index",
    "journal",
    "names",
    "prepare",
    "record_signer",
    "render_report",
    "require_chain_packages",
    "replayer",
    "stored_files",
    "trusted_keys",
    "write_trust",
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


def event_log(settings: Settings) -> SqliteLog | KafkaLog | ConfluentLog:
    """The event log: of the embedded set-up, or Kafka where the settings name brokers.

    Raises:
        ConfigError: the client library is not installed, or the settings contradict each other.
    """
    if settings.log_bootstrap:
        from provenance import bootstrap_kafka

        return bootstrap_kafka.event_log(settings)
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


def chain(settings: Settings) -> tuple[EvmReader, EvmTransactor]:
    """The ledger contract through one node, and the account that anchors.

    Raises:
        UnavailableError: the embedded chain does not run, or the node does not answer.
        ConfigError: the node serves another chain than the settings say, or a key is missing.
    """
    return _chain(settings, "publisher")


def governance(settings: Settings) -> EvmTransactor:
    """The account that deploys the contract, opens streams and sets keys. Errors as `chain`."""
    return _chain(settings, "governance")[1]


def _chain(settings: Settings, role: str) -> tuple[EvmReader, EvmTransactor]:
    from provenance.adapters import keys

    evm = _evm()
    prepare(settings)
    node, chain_id = _node(settings)
    owner = keys.load_chain_key(settings.keys_path, "governance").secret
    secret = keys.load_chain_key(settings.keys_path, role).secret
    deployer = evm.EvmTransactor(node, secret=owner, chain_id=chain_id, contract=None).address
    contract = bytes.fromhex(settings.chain_contract[2:]) or evm.created_address(deployer, 0)
    return evm.EvmReader(node, chain_id=chain_id, contract=contract), evm.EvmTransactor(
        node, secret=secret, chain_id=chain_id, contract=contract, depth=settings.chain_depth
    )


def _node(settings: Settings) -> tuple[Node, int]:
    """The node, and the id of the chain that it serves."""
    from provenance.adapters import anvil
    from provenance.errors import ConfigError, UnavailableError

    evm = _evm()
    url, expected = settings.chain_url, settings.chain_id
    if not url:
        running = anvil.status(settings.chain_path)
        if running is None:
            raise UnavailableError(
                "the embedded chain does not run", reason="chain-down", remedy="Run: provenance up"
            )
        url, expected = running.url, running.chain_id
    node = evm.Node(url, timeout=settings.chain_timeout)
    served = evm.EvmReader(node, chain_id=expected, contract=bytes(20)).identity().chain_id
    if expected not in (0, served):
        raise ConfigError(
            f"the node at {node.name} serves chain {served}, expected {expected}",
            reason="other-chain",
            remedy="Correct chain.url or chain.id, or see which other program took the port.",
        )
    return node, served


def require_chain_packages() -> None:
    """Raise ``ConfigError`` unless what speaks to a chain is installed."""
    _evm()


def _evm() -> ModuleType:
    from provenance.errors import ConfigError

    try:
        from provenance.adapters import evm
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"anchoring needs the Python package {error.name}, which is missing; records wait in the log",
            reason="extra-missing",
            remedy="Run: pip install 'provenance-ledger[chain]'",
        ) from error
    return evm


def environment() -> JSONObject:
    """What this process runs on, as the records of a run describe it."""
    from provenance.adapters.dask.environment import describe_environment

    return describe_environment()


def clock() -> SystemClock:
    """The system's clock."""
    from provenance.adapters.system_clock import SystemClock

    return SystemClock()


def digest(thing: Thing, kind: str | None = None, algorithm: str = "sha256", *, threads: int = 1) -> Digest:
    """The digest of a table, an array or what is at a path; its ``str`` is ``KIND:HEX``.

    Args:
        thing: a path, a pyarrow table or batch, a pandas frame or series, a NumPy array.
        kind: ``"table1"``, ``"array1"``, ``"tree1"`` or ``"sha256"``; what fits if None.
        algorithm: ``"sha256"`` or ``"blake3"``.
        threads: how many blocks or files are hashed at once.

    Raises:
        ConfigError: there is nothing at the path, or it has no digest of this kind.
        MalformedError: it is damaged, or has no digest at all.
        UnavailableError: the system cannot read it.
    """
    from provenance.adapters.formats import read_path
    from provenance.services import digesting

    return digesting.digest(thing, read=read_path, kind=kind, algorithm=algorithm, threads=threads)


def replayer(settings: Settings, client: Any = None, *, code: str = "") -> DaskReplayer:
    """Runs recorded stages again, in fresh processes; close it, or use it in a ``with`` block.

    Args:
        settings: the folder's.
        client: as for `provenance.run`: processes on this machine, or a Dask scheduler's address.
        code: a folder of modules that hold transforms and are not installed. It is searched last, so nothing
            in it takes the place of a module that the audit itself uses; worker processes inherit it.
    """
    import sys
    from importlib.metadata import version
    from pathlib import Path

    from provenance.adapters.dask.compute import open_compute
    from provenance.adapters.dask.replay import DaskReplayer

    if code and (place := str(Path(code).absolute())) not in sys.path:
        sys.path.append(place)
    return DaskReplayer(
        names(settings),
        lambda: open_compute(client, workers=settings.compute_workers),
        version("provenance-ledger"),
    )


def stored_files() -> LocalFiles:
    """Reads what sources and sinks left on this machine."""
    from provenance.adapters.stored_files import LocalFiles

    return LocalFiles()


def audit_ports(settings: Settings, *, replayer: Replayer | None = None) -> AuditPorts:
    """What an audit of this folder looks at; nothing is made that is not there.

    Args:
        settings: the folder's.
        replayer: for the replay level.

    Raises:
        ConfigError: there is no such folder.
        UnavailableError: the chain does not run.
    """
    from provenance.errors import ConfigError
    from provenance.services.audit import AuditPorts

    if not settings.folder.is_dir():
        raise ConfigError(
            f"{settings.folder}: there is no such folder",
            reason="no-folder",
            remedy="Go to where the run was made, or name its folder with --folder.",
        )
    return AuditPorts(
        chain=chain(settings)[0],
        store=batch_store(settings),
        keys=trusted_keys(settings),
        log=event_log(settings) if settings.log_bootstrap or settings.log_path.exists() else None,
        index=index(settings) if settings.index_path.exists() else None,
        names=names(settings) if settings.names_path.exists() else None,
        files=stored_files(),
        replayer=replayer,
    )


def render_report(report: RunReport) -> str:
    """The report of a run as a page of HTML; ``ConfigError`` if jinja2 is not installed."""
    from provenance.adapters.report_html import render

    return render(report)


def write_trust(settings: Settings) -> Path:
    """Write the trust file of the embedded chain, ``trust.toml`` in the folder, and return its path.

    It says what this folder trusts itself: chain, contract, record keys. For another chain nothing is written
    over: its trust file is the verifier's own.

    Raises:
        UnavailableError: the chain does not run.
        PendingError: the contract is not deployed.
    """
    from provenance import files
    from provenance.core.trust import encode_trust
    from provenance.services.prove import local_trust

    reader = chain(settings)[0]
    organisations = [opening.org for _, opening, _ in reader.openings()]
    text = encode_trust(local_trust(reader.identity(), trusted_keys(settings), organisations))
    path = settings.folder / "trust.toml"
    if settings.chain_url:
        files.create_file(path, text.encode())
    else:
        files.write_file(path, text.encode())
    return path
