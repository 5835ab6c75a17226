"""Reading one run back from the event log, whoever else writes to it.

The log is shared: other runs, other organisations, malformed messages. What is not a well-formed record of
the run, signed by its own key where it has a signature, is passed by; the audit shows it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from provenance.core import canonical
from provenance.core.merkle import HASH_BYTES
from provenance.core.records import key_id
from provenance.core.runs import RunHistory, decode_partition, starts_name
from provenance.errors import ConfigError, MalformedError

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Iterator

    from provenance.core.kinds import Partition, Run
    from provenance.ports import BatchStore, Clock, EventLog, RecordSigner

__all__ = [
    "RunPorts",
    "encode_starts",
    "find_run",
    "read_history",
    "read_partitions",
    "read_values",
    "utc_text",
]

_READ = 4096
_NO_RUN = "Check the run id, and that the folder is the one that the run was started with."


@dataclass(frozen=True, slots=True)
class RunPorts:
    """What a run is written to and read back from."""

    log: EventLog
    store: BatchStore
    signer: RecordSigner
    clock: Clock


def utc_text(moment: dt.datetime) -> str:
    """A time in UTC as records write it: ``2026-01-31T12:00:00.000001Z``."""
    return moment.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def find_run(text: str, ports: RunPorts) -> tuple[RunHistory, Run]:
    """The signed records of the run with this id in hex, and its own one.

    Raises:
        ConfigError: ``run-id``, it is none; ``no-run``, the log has no such run signed by our key.
    """
    try:
        run_id = bytes.fromhex(text)
    except ValueError:
        run_id = b""
    if len(run_id) != HASH_BYTES:
        raise ConfigError(f"run id {text!r:.80}: expected 64 hex digits", reason="run-id", remedy=_NO_RUN)
    history = read_history(run_id, ports)
    if history.run is None:
        raise ConfigError(f"run {text}: the log has no such run of ours", reason="no-run", remedy=_NO_RUN)
    return history, history.run


def read_history(run: bytes, ports: RunPorts) -> RunHistory:
    """The run's signed records."""
    public_key = ports.signer.public_key()
    history = RunHistory(run, {key_id(public_key): public_key})
    for value in read_values(run, ports):
        history.add(value)
    return history


def read_partitions(run: bytes, ports: RunPorts) -> Iterator[tuple[bytes, Partition]]:
    """Every partition record of the run with its id, repeats included, in the order of the log."""
    for value in read_values(run, ports):
        found = decode_partition(value, run)
        if found is not None:
            yield found


def read_values(run: bytes, ports: RunPorts) -> Iterator[bytes]:
    """The messages that can be of the run: those since it began, up to where the log ends now."""
    starts = _starts(run, ports.store)
    for place in ports.log.identities():
        bounds = ports.log.bounds(place.partition)
        at = max(bounds.start, starts.get((place.cluster_id, place.topic_id, place.partition), 0))
        while at < bounds.end:
            messages = ports.log.read(place.partition, at, _READ)
            if not messages:
                break
            yield from (message.value for message in messages)
            at = messages[-1].offset + 1


def encode_starts(log: EventLog) -> bytes:
    """Where the log ends now, partition by partition: no record of a run that starts now is before it."""
    starts = [
        [place.cluster_id, place.topic_id, place.partition, log.bounds(place.partition).end]
        for place in log.identities()
    ]
    return canonical.encode({"starts": starts})


def _starts(run: bytes, store: BatchStore) -> dict[tuple[str, str, int], int]:
    """What `encode_starts` wrote; without it the log is read from its beginning, which is only slower."""
    data = store.get(starts_name(run))
    if data is None:
        return {}
    try:
        entries = canonical.decode(data)["starts"]
        return {(cluster, topic, partition): offset for cluster, topic, partition, offset in entries}
    except (MalformedError, KeyError, TypeError, ValueError):
        return {}
