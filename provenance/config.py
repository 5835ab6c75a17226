"""Settings: the only reader of ``provenance.toml`` and of the environment.

Each field of `Settings` has a default, a unit and limits. ``provenance.toml`` lies in the ``.provenance``
folder or beside it; ``PROVENANCE_BATCH_MAX_RECORDS`` goes before ``max_records`` in its ``[batch]``. Both are
closed: a name that means nothing is refused, and the nearest one that does is named.
"""

from __future__ import annotations

import dataclasses
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provenance.errors import ConfigError
from provenance.files import refuse_address

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = [
    "ENVIRONMENT_PREFIX",
    "FOLDER_NAME",
    "FOLDER_VARIABLE",
    "Setting",
    "Settings",
    "find_folder",
    "load",
]

FOLDER_NAME = ".provenance"
FILE_NAME = "provenance.toml"
ENVIRONMENT_PREFIX = "PROVENANCE_"
FOLDER_VARIABLE = "PROVENANCE_FOLDER"
_LIMIT = 65_536
_PLACE = r"(\[[0-9a-fA-F:.]{2,45}\]|[^\s,:/@\[\]]{1,253}):[0-9]{1,5}"
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Setting:
    """What is known of one setting: its meaning, its unit, and the values that it may take."""

    says: str
    unit: str = ""
    low: float = 0
    high: float = 0
    choices: tuple[str, ...] = ()
    pattern: str = ""


def _number(default: float, says: str, unit: str, low: float, high: float) -> Any:
    return field(default=default, metadata={"setting": Setting(says, unit, low, high)})


def _choice(default: str, says: str, *choices: str) -> Any:
    return field(default=default, metadata={"setting": Setting(says, choices=choices)})


def _text(default: str, says: str, pattern: str, unit: str) -> Any:
    return field(default=default, metadata={"setting": Setting(says, unit, pattern=pattern)})


def _path(says: str) -> Any:
    unit = "absolute path, or one from the folder .provenance"
    return _text("", says, r"[^\x00-\x1f\x7f]{0,4096}", unit)


@dataclass(frozen=True, slots=True)
class Settings:
    """Where things are and how they behave: plain values, which another process may be given.

    ``folder`` is absolute. A field's name is its section and key: ``batch_max_records`` is ``max_records`` in
    ``[batch]``.
    """

    folder: Path
    log_busy_timeout: float = _number(
        30.0, "How long a write to a local database waits for those of other processes.", "seconds", 0.1, 600
    )
    log_read_limit: int = _number(
        1000, "How many messages are read from the log at once.", "messages", 1, 65_536
    )
    log_bootstrap: str = _text(
        "",
        "Kafka brokers that hold the log, with commas between; empty for the embedded log.",
        rf"({_PLACE}(,{_PLACE}){{0,31}})?",
        "address as host:port, or several with commas between",
    )
    log_topic: str = _text(
        "provenance.records",
        "The Kafka topic of the log.",
        r"[a-zA-Z0-9._-]{1,249}",
        "identifier of letters, digits, '.', '_' and '-'",
    )
    log_client: str = _choice(
        "kafka-python",
        "The library that speaks to Kafka; confluent-kafka is much faster.",
        "kafka-python",
        "confluent-kafka",
    )
    log_partitions: int = _number(1, "How many partitions a new topic gets.", "partitions", 1, 1000)
    log_ack_timeout: float = _number(
        10.0, "How long an append waits until Kafka acknowledges it.", "seconds", 0.1, 3600
    )
    log_in_flight_limit: int = _number(
        32 * _MIB, "How much may wait for Kafka's acknowledgement in one process.", "bytes", _MIB, 4096 * _MIB
    )
    log_tls: str = _choice("off", "Whether connections to Kafka are encrypted.", "off", "on")
    log_tls_ca_file: str = _path("The authorities of Kafka's certificates, PEM; empty for the system's.")
    log_tls_cert_file: str = _path("Our certificate, PEM, where Kafka asks for one.")
    log_tls_key_file: str = _path("Its private key, PEM, not encrypted.")
    log_sasl_mechanism: str = _choice(
        "none", "How we authenticate to Kafka.", "none", "SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"
    )
    log_sasl_user: str = _text(
        "", "Our name to Kafka.", r"[^\x00-\x1f\x7f]{0,249}", "ordinary name of at most 249 characters"
    )
    log_sasl_password_file: str = _path("A file that holds our password to Kafka, and nothing else.")
    store_object_limit: int = _number(
        256 * _MIB, "The size that no object of the batch store may exceed.", "bytes", _MIB, 4096 * _MIB
    )
    batch_max_records: int = _number(
        16_384, "A batch closes when it has so many records.", "records", 1, 65_536
    )
    batch_max_bytes: int = _number(
        16 * _MIB, "A batch closes before its records exceed this.", "bytes", 1, 64 * _MIB
    )
    batch_max_age: float = _number(
        10.0, "A batch closes when its first record has waited so long.", "seconds", 0, 86_400
    )
    batch_poll: float = _number(
        1.0, "Time between two looks at a quiet log or a transaction under way.", "seconds", 0.001, 3600
    )
    chain_url: str = _text(
        "",
        "JSON-RPC address of a node; empty for the embedded chain that `provenance up` starts.",
        r"(https?://[^\s@?#]{1,1000})?",
        "http or https address without user, query or fragment",
    )
    chain_id: int = _number(
        0, "Refuse a node of another chain; 0 takes the one that the node serves.", "chain id", 0, 2**53 - 1
    )
    chain_contract: str = _text(
        "",
        "Address of the ledger contract; empty for the one that the governance key deployed first.",
        r"(0x[0-9a-fA-F]{40})?",
        "address of 40 hex digits after 0x",
    )
    chain_depth: int = _number(
        0, "How many blocks must follow one before it counts as final.", "blocks", 0, 1_000_000
    )
    chain_port: int = _number(
        0,
        "The port of the embedded chain; 0 for the last one, else 8545, else a free one.",
        "port",
        0,
        65_535,
    )
    chain_timeout: float = _number(30.0, "How long a node may take to answer.", "seconds", 1, 600)
    compute_workers: int = _number(
        0,
        "Worker processes of the cluster that a run starts on this machine; 0 for one a CPU.",
        "processes",
        0,
        1024,
    )
    compute_file_limit: int = _number(
        1024 * _MIB, "A source file larger than this is set aside as too large.", "bytes", 1024, 1 << 40
    )
    compute_group_bytes: int = _number(
        64 * _MIB, "Files up to this size together share a partition.", "bytes", 0, 1 << 40
    )
    digest_algorithm: str = _choice("sha256", "The hash under logical digests.", "sha256", "blake3")
    loading_policy: str = _choice(
        "enforce",
        "What a loader does with a shard that does not verify: stop, or count it as not verified.",
        "enforce",
        "observe",
    )

    loading_part_limit: int = _number(
        4096 * _MIB, "The size that no stored part of a shard may exceed.", "bytes", _MIB, 65_536 * _MIB
    )

    def path(self, text: str) -> Path | None:
        """A setting that is a path, as a path; None where it is empty."""
        return self.folder / text if text else None

    @property
    def log_path(self) -> Path:
        """The embedded event log."""
        return self.folder / "log.sqlite"

    @property
    def store_path(self) -> Path:
        """The folder of the batch store."""
        return self.folder / "batches"

    @property
    def index_path(self) -> Path:
        """The index."""
        return self.folder / "index.sqlite"

    @property
    def journal_path(self) -> Path:
        """The journal of signed transactions."""
        return self.folder / "journal.sqlite"

    @property
    def keys_path(self) -> Path:
        """The folder of keys."""
        return self.folder / "keys"

    @property
    def names_path(self) -> Path:
        """The private store."""
        return self.folder / "names.sqlite"

    @property
    def chain_path(self) -> Path:
        """The folder of the embedded chain."""
        return self.folder / "chain"


def find_folder(start: Path | None = None) -> Path:
    """The folder to use: of the environment, else the nearest upwards, else the place for one here.

    Args:
        start: where to begin; the working directory if None.
    """
    if named := os.environ.get(FOLDER_VARIABLE):
        refuse_address(named)
        return Path(named).absolute()
    start = Path.cwd() if start is None else start.absolute()
    for place in (start, *start.parents):
        if (place / FOLDER_NAME).is_dir():
            return place / FOLDER_NAME
    return start / FOLDER_NAME


def load(folder: Path | None = None) -> Settings:
    """The settings for a folder; nothing is made.

    Args:
        folder: of log, batches, index and keys; found with `find_folder` if None.

    Raises:
        ConfigError: a name that means nothing, or a value outside its limits.
    """
    folder = find_folder() if folder is None else folder.absolute()
    values = dict(_from_file(folder))
    values.update(_from_environment(os.environ))
    return Settings(folder, **values)


def describe() -> Iterator[tuple[str, object, Setting]]:
    """``(field name, default, setting)`` of every setting, in order; the documentation is made of it."""
    for entry in dataclasses.fields(Settings):
        if "setting" in entry.metadata:
            yield entry.name, entry.default, entry.metadata["setting"]


def _from_file(folder: Path) -> Iterator[tuple[str, Any]]:
    found = [path for path in (folder / FILE_NAME, folder.parent / FILE_NAME) if path.is_file()]
    if len(found) == 2:
        raise ConfigError(
            f"{found[0]} and {found[1]}: two files of settings",
            reason="two-files",
            remedy="Keep one of them.",
        )
    for path in found:
        for section, content in _parse(path).items():
            if not isinstance(content, dict):
                raise _unknown(f"{path}: {section}", section, sorted({n.partition("_")[0] for n in _table()}))
            for key, value in content.items():
                name = f"{section}_{key}"
                if name not in _table():
                    known = [n.partition("_")[2] for n in _table() if n.startswith(f"{section}_")]
                    near = known or sorted({n.partition("_")[0] for n in _table()})
                    raise _unknown(f"{path}: [{section}] {key}", key if known else section, near)
                yield name, _check(f"{path}: [{section}] {key}", name, value)


def _parse(path: Path) -> dict[str, Any]:
    import tomllib

    from provenance import files

    data = files.read_file(path, _LIMIT) or b""
    try:
        return tomllib.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ConfigError(
            f"{path}: not TOML: {error}", reason="not-toml", remedy="Correct that line."
        ) from error


def _from_environment(environment: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    sections = {name.partition("_")[0] for name in _table()}
    for variable, text in environment.items():
        if not variable.startswith(ENVIRONMENT_PREFIX):
            continue
        name = variable.removeprefix(ENVIRONMENT_PREFIX).lower()
        if name in _table():
            yield name, _check(variable, name, _from_text(variable, name, text))
        elif name.partition("_")[0] in sections and "_" in name:
            known = [f"{ENVIRONMENT_PREFIX}{n.upper()}" for n in _table()]
            raise _unknown(variable, variable, known)


def _from_text(where: str, name: str, text: str) -> Any:
    default = _table()[name][0]
    if isinstance(default, str):
        return text
    try:
        return int(text) if isinstance(default, int) else float(text)
    except ValueError as error:
        kind = "a whole number" if isinstance(default, int) else "a number"
        raise ConfigError(f"{where}: expected {kind}, found {text!r:.80}", reason="setting-type") from error


def _check(where: str, name: str, value: object) -> Any:
    default, setting = _table()[name]
    if isinstance(default, str):
        if not isinstance(value, str):
            raise ConfigError(f"{where}: expected text, found {value!r:.80}", reason="setting-type")
        if setting.choices and value not in setting.choices:
            raise ConfigError(
                f"{where}: expected one of {', '.join(setting.choices)}; found {value!r:.80}",
                reason="setting-value",
            )
        if setting.pattern and not re.fullmatch(setting.pattern, value):
            # The value is not shown: it may have a password in it.
            raise ConfigError(f"{where}: expected an {setting.unit}", reason="setting-value")
        return value
    whole = isinstance(default, int)
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
        kind = "a whole number" if whole else "a number"
        raise ConfigError(
            f"{where}: expected {kind} of {setting.unit}, found {value!r:.80}", reason="setting-type"
        )
    if not setting.low <= value <= setting.high:
        raise ConfigError(
            f"{where}: expected {setting.low:g} to {setting.high:g} {setting.unit}, found {value}",
            reason="setting-range",
        )
    return value if whole else float(value)


def _unknown(where: str, name: str, known: list[str]) -> ConfigError:
    import difflib

    near = difflib.get_close_matches(name, known, n=1, cutoff=0)
    return ConfigError(
        f"{where}: there is no such setting",
        reason="unknown-setting",
        remedy=f"The nearest one is {near[0]}." if near else "See docs/reference/configuration.md.",
    )


def _table() -> dict[str, tuple[object, Setting]]:
    return {name: (default, setting) for name, default, setting in describe()}
