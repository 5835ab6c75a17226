"""The receipt of a training: which shards a model ate, what was verified of them and what was not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from provenance.core.kinds import Consumption
from provenance.core.lists import ListHead, encode_list, list_name
from provenance.core.merkle import leaf_hash
from provenance.core.records import sign_record
from provenance.core.runs import encode_environment, environment_name
from provenance.errors import ConfigError

if TYPE_CHECKING:
    from provenance.core.canonical import JSONObject
    from provenance.ports import BatchStore, EventLog, RecordSigner
    from provenance.services.loading import ShardSet

__all__ = ["Receipt", "record_consumption"]


@dataclass(frozen=True, slots=True)
class Receipt:
    """What is known of a training. ``shards`` are record ids, ``checkpoint`` and ``code`` SHA-256."""

    shards: tuple[bytes, ...]
    checkpoint: bytes
    code: bytes
    order_seed: int
    epochs: int
    world_size: int
    precision: str
    verified: int
    unverified: int


def record_consumption(
    shard_set: ShardSet,
    receipt: Receipt,
    *,
    environment: JSONObject,
    log: EventLog,
    store: BatchStore,
    signer: RecordSigner,
) -> bytes:
    """Sign a consumption record and append it to the log; returns its id. Durable when it returns.

    The list of shards and the environment are in the batch store before the record that names them. A repeat
    of the same receipt is the same record.

    Raises:
        ConfigError: ``no-shard``, nothing was opened; a count below 1.
        MalformedError: ``schema``: the receipt says what no record can; nothing was written.
        UnavailableError: store or log cannot be written to.
    """
    _check(receipt)
    shards = ListHead.over(receipt.shards)
    environment_id, document = encode_environment(environment)
    statement = Consumption(
        source=shard_set.run,
        stage=shard_set.stage,
        checkpoint=receipt.checkpoint,
        shards=shards,
        order_seed=receipt.order_seed,
        epochs=receipt.epochs,
        world_size=receipt.world_size,
        precision=receipt.precision,
        verified=receipt.verified,
        unverified=receipt.unverified,
        code=receipt.code,
        environment=environment_id,
    ).statement()
    record = sign_record(statement, signer)
    store.put(list_name(shards), encode_list(receipt.shards))
    store.put(environment_name(environment_id), document)
    log.append([(shard_set.run, record)])
    return leaf_hash(record)


def _check(receipt: Receipt) -> None:
    if not receipt.shards:
        raise ConfigError(
            "no shard was opened: there is nothing to sign",
            reason="no-shard",
            remedy="Iterate over the shards first.",
        )
    for name in ("epochs", "world_size"):
        value = getattr(receipt, name)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ConfigError(f"{name} {value!r:.40}: expected a whole number from 1 on", reason=name)
