"""A run as its records on the log tell it, and the names of what belongs to it in the batch store."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from provenance.core import canonical, merkle, records
from provenance.core.kinds import Partition, Run, Seal, Stage
from provenance.errors import MalformedError, VerificationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from provenance.core.canonical import JSONObject
    from provenance.core.records import Record

__all__ = [
    "RunHistory",
    "decode_partition",
    "encode_environment",
    "environment_name",
    "environments_prefix",
    "message_key",
    "partition_token",
    "starts_name",
    "store_name",
]

_ENVELOPE = b'{"payload":'


@dataclass(slots=True)
class RunHistory:
    """The signed records of one run, taken in the order of the log: the run, its stages, its seal.

    Args:
        id: the run's id.
        keys: the keys that may sign them (key id → raw public key); what others signed is passed by.
    """

    id: bytes
    keys: Mapping[str, bytes]
    run: Run | None = None
    stages: dict[bytes, Stage] = field(default_factory=dict)
    seal: bytes | None = None

    def add(self, value: bytes) -> None:
        """Take a message of the log, whatever it is."""
        if not value.startswith(_ENVELOPE):
            return
        try:
            record = records.decode_record(value)
            if record.kind in {"run", "stage", "seal"}:
                records.check_signature(record, self.keys)
                self._take(record)
        except (MalformedError, VerificationError):
            return  # it is anchored and shown by the audit; for this run it is nothing

    def _take(self, record: Record) -> None:
        if record.kind == "run" and record.id == self.id:
            self.run = Run.from_statement(record.statement)
        elif record.statement.predicate.get("run") != self.id.hex():
            return
        elif record.kind == "stage":
            self.stages.setdefault(record.id, Stage.from_statement(record.statement))
        else:
            Seal.from_statement(record.statement)
            self.seal = self.seal or record.id


def decode_partition(value: bytes, run: bytes) -> tuple[bytes, Partition] | None:
    """The id and content of a message that is a partition record of the run; None if it is anything else."""
    if value.startswith(_ENVELOPE) or run.hex().encode() not in value:
        return None
    try:
        record = records.decode_record(value)
    except MalformedError:
        return None
    partition = Partition.from_statement(record.statement)
    return (record.id, partition) if partition.run == run else None


def encode_environment(document: JSONObject) -> tuple[bytes, bytes]:
    """(id, bytes) of a worker's environment; the id is the leaf hash of its bytes, as a record's."""
    data = canonical.encode(document)
    return merkle.leaf_hash(data), data


def environment_name(environment: bytes) -> str:
    """The document's name in the batch store."""
    return f"environments/{environment.hex()}.json"


def environments_prefix(run: bytes) -> str:
    """Under it stands one object for each environment that a run met, named by its id."""
    return f"runs/{run.hex()}/environments/"


def store_name(run: bytes, stage: bytes) -> str:
    """The object that holds the ``tree1`` of the store that a sink finished, raw."""
    return f"runs/{run.hex()}/stores/{stage.hex()}"


def starts_name(run: bytes) -> str:
    """The object that says from which offsets on the log holds the run's records."""
    return f"runs/{run.hex()}/starts.json"


def partition_token(stage: bytes, number: int) -> str:
    """Under it the private store has what a partition of a source of files was read from."""
    return hashlib.sha256(b"partition\x00" + stage + number.to_bytes(8, "big")).hexdigest()


def message_key(run: bytes, stage: bytes, number: int) -> bytes:
    """The key under which a partition's record goes to the log: it spreads a stage over all log partitions.

    A retry has the same key, so its record stands behind the first one.
    """
    return hashlib.sha256(run + stage + number.to_bytes(8, "big")).digest()
