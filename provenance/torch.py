"""Shards for PyTorch that are proved before they are read.

::

    shards = provenance.torch.VerifiedShards(run=run.id)        # proves run, seal and records; fails closed
    for epoch in range(3):
        shards.set_epoch(epoch)
        for shard in shards:                                    # every open checks the bytes that it decodes
            train(shard.parts["features"], shard.key)
    shards.consumed("model.pt", epochs=3, code="train.py")      # the signed receipt of what the model ate

Nothing opens while anything about the run is wrong: a batch file, the seal, a record that is missing. With
``policy="observe"`` training goes on and the receipt says how many shards were not verified.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provenance import bootstrap, config
from provenance.adapters import shard_files
from provenance.adapters.torch_dataset import UNVERIFIED, VERIFIED, Sample, ShardDataset, as_tensor
from provenance.errors import ConfigError, UnavailableError, VerificationError
from provenance.services import consuming, loading

if TYPE_CHECKING:
    from provenance.services.loading import Shard, ShardSet

__all__ = ["Sample", "VerifiedShards"]

_POLICIES = ("enforce", "observe")


class VerifiedShards(ShardDataset):
    """The shards of one sink of a sealed, anchored run, as an iterable dataset of `Sample`.

    Args:
        run: the run's id or its beginning; the last sealed run if None.
        stage: the sink's name, where a run has several.
        folder: the ``.provenance`` folder; found as the commands find it if None.
        policy: ``enforce`` raises at a shard that does not verify; ``observe`` counts it. The setting
        ``loading.policy`` if None.
        order_seed: the seed of the shards' order.

    Raises:
        PendingError: the run is not anchored yet.
        VerificationError: something about the run does not hold.
        UnavailableError: chain or store cannot be reached.
        ConfigError: no such run, sink or policy.
    """

    def __init__(
        self,
        *,
        run: str | None = None,
        stage: str | None = None,
        folder: str | Path | None = None,
        policy: str | None = None,
        order_seed: int = 0,
    ) -> None:
        self._settings = config.load(None if folder is None else Path(folder))
        self.policy = policy or self._settings.loading_policy
        if self.policy not in _POLICIES:
            raise ConfigError(f"policy {policy!r}: expected enforce or observe")
        self.set: ShardSet = loading.prove_shards(
            chain=bootstrap.chain(self._settings)[0],
            store=bootstrap.batch_store(self._settings),
            keys=bootstrap.trusted_keys(self._settings),
            run=run,
            stage=stage,
        )
        place = bootstrap.names(self._settings).plain(self.set.stage.hex())
        if place is None:
            raise UnavailableError(
                f"stage {self.set.name!r}: where its shards are stored is not known here",
                reason="location-unknown",
                remedy="Load where the .provenance folder of the run is.",
            )
        self._place = Path(place)
        super().__init__(len(self.set.shards), self._open_shard, order_seed=order_seed)

    def _open_shard(self, at: int) -> tuple[Sample, bool]:
        shard = self.set.shards[at]
        parts, verified = {}, True
        for part in shard.parts:
            files = shard_files.read_part(self._place, part.name, limit=self._settings.loading_part_limit)
            verified = self._check(shard, part, files) and verified
            parts[part.name.rpartition("/")[2]] = as_tensor(shard_files.decode_part(part.name, files))
        return Sample(shard.number, shard.key, parts), verified

    def _check(self, shard: Shard, part: Any, files: dict[str, bytes]) -> bool:
        try:
            loading.check_part(self.set, shard, part, files)
        except VerificationError:
            if self.policy == "enforce":
                raise
            return False
        return True

    def consumed(
        self,
        checkpoint: str | Path,
        *,
        epochs: int,
        code: str | Path,
        precision: str = "float32",
        world_size: int = 1,
    ) -> str:
        """Sign and record what a model was trained on; returns the record's id.

        Args:
            checkpoint: the file of the trained model.
            epochs: how often the shards were passed through.
            code: the file of the training code.
            precision: of the training, e.g. ``bfloat16``.
            world_size: how many processes trained.

        Raises:
            ConfigError: no shard was opened: then there is nothing to sign.
            UnavailableError: a file cannot be read.
        """
        verified, unverified = self.opened(VERIFIED), self.opened(UNVERIFIED)
        receipt = consuming.Receipt(
            shards=tuple(self.set.shards[at].record for at in sorted([*verified, *unverified])),
            checkpoint=_sha256(checkpoint),
            code=_sha256(code),
            order_seed=self.order_seed,
            epochs=epochs,
            world_size=world_size,
            precision=precision,
            verified=len(verified),
            unverified=len(unverified),
        )
        return consuming.record_consumption(
            self.set,
            receipt,
            environment=bootstrap.environment(),
            log=bootstrap.event_log(self._settings),
            store=bootstrap.batch_store(self._settings),
            signer=bootstrap.record_signer(self._settings),
        ).hex()


def _sha256(path: str | Path) -> bytes:
    try:
        with Path(path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except OSError as error:
        raise UnavailableError(f"{path}: cannot be read: {error.strerror}", reason="unreadable") from error
