"""Shards for PyTorch that are proved before they are read.

::

    shards = provenance.torch.VerifiedShards(run=run.id)        # proves run, seal and records; fails closed
    for epoch in range(3):
        shards.set_epoch(epoch)
        for shard in DataLoader(shards, batch_size=None, num_workers=2):
            train(shard.parts["features"], shard.key)           # every open checked the bytes that it decoded
    shards.consumed("model.pt", epochs=3, code="train.py")      # the signed receipt of what the model ate

Nothing opens while anything about the run is wrong: a batch file, the seal, a record that is missing. With
``policy="observe"`` training goes on, and the receipt says how many shards were not verified.
"""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provenance import bootstrap, config
from provenance.adapters import shard_files
from provenance.errors import ConfigError, MalformedError, UnavailableError, VerificationError
from provenance.services import consuming, loading

try:
    from provenance.adapters.torch_dataset import Sample, ShardDataset, as_tensor
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise ConfigError(
        "loading verified shards needs the Python package torch, which is missing",
        reason="extra-missing",
        remedy="Run: pip install 'provenance-ledger[torch]'",
    ) from error

if TYPE_CHECKING:
    from provenance.core.records import Subject
    from provenance.services.loading import Shard, ShardSet

__all__ = ["Sample", "VerifiedShards"]

_POLICIES = ("enforce", "observe")

_log = logging.getLogger("provenance.loading")


class VerifiedShards(ShardDataset):
    """The shards of one sink of a sealed, anchored run, as an iterable dataset of `Sample`.

    It can be given to a ``DataLoader`` with ``batch_size=None`` and any number of workers: they share the
    shards, and what each opened is counted here.

    Args:
        run: the run's id or its beginning; the last sealed run if None.
        stage: the sink's name, where a run has several.
        folder: the ``.provenance`` folder; found as the commands find it if None.
        location: where the shards lie now; by default where the run stored them.
        policy: ``enforce`` raises whatever does not verify; ``observe`` logs it, marks the shard as not
            verified, and leaves out one that cannot be read at all. The setting ``loading.policy`` if None.
        order_seed: the seed of the shards' order.

    Raises:
        PendingError: the run is not anchored yet.
        VerificationError: something about the run does not hold.
        UnavailableError: the chain, a store, or the shards' folder cannot be reached.
        ConfigError: no such run, sink, folder or policy.
    """

    def __init__(
        self,
        *,
        run: str | None = None,
        stage: str | None = None,
        folder: str | Path | None = None,
        location: str | Path | None = None,
        policy: str | None = None,
        order_seed: int = 0,
    ) -> None:
        self._settings = config.load(None if folder is None else Path(folder))
        self.policy = self._settings.loading_policy if policy is None else policy
        if self.policy not in _POLICIES:
            raise ConfigError(f"policy {policy!r:.40}: expected enforce or observe", reason="policy")
        self.set: ShardSet = loading.prove_shards(
            bootstrap.audit_ports(self._settings), run=run, stage=stage, enforce=self.policy == "enforce"
        )
        if self.set.complaint is not None:
            _log.warning("no shard of this run is verified: %s", self.set.complaint.message)
        self._location = _locate(self._settings, self.set, location)
        super().__init__(len(self.set.shards), self._open_shard, order_seed=order_seed)

    @property
    def run(self) -> str:
        """The run's id, in hex."""
        return self.set.run.hex()

    def _open_shard(self, at: int) -> Sample | None:
        shard = self.set.shards[at]
        try:
            parts, verified = {}, self.set.complaint is None
            for part in shard.parts:
                value, holds = self._open_part(shard, part)
                parts[shard_files.part_key(part.name)] = as_tensor(value)
                verified = verified and holds
            return Sample(shard.number, shard.key, parts, verified)
        except (VerificationError, MalformedError, UnavailableError) as error:
            if self.policy == "enforce":
                raise
            _log.warning("left out, for it cannot be read: %s", error.message)
            return None

    def _open_part(self, shard: Shard, part: Subject) -> tuple[Any, bool]:
        """What a part decodes to, and whether the bytes that were decoded are the anchored ones."""
        limit = self._settings.loading_part_limit
        files = loading.read_part(self.set, shard, part, self._read, limit=limit)
        verified = True
        try:
            loading.check_part(self.set, shard, part, files)
        except VerificationError as error:
            if self.policy == "enforce":
                raise
            _log.warning("not verified: %s", error.message)
            verified = False
        try:
            return shard_files.decode_part(files, limit), verified
        except MalformedError as error:
            where = loading.place_of(self.set, shard, part)
            raise MalformedError(
                f"{where}: {error.message}", reason=error.reason, remedy=error.remedy
            ) from error

    def _read(self, name: str, limit: int) -> dict[str, bytes]:
        return shard_files.read_part(self._location, name, limit)

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

        It names the shards that were opened so far, in this process and in its DataLoader's workers.

        Args:
            checkpoint: the file of the trained model.
            epochs: how often the shards were passed through.
            code: the file of the training code.
            precision: of the training, e.g. ``bfloat16``.
            world_size: how many processes trained.

        Raises:
            ConfigError: no shard was opened, so there is nothing to sign; no such file; a count below 1.
            UnavailableError: a file cannot be read, or the log cannot be written to.
        """
        verified, unverified = self.opened(verified=True), self.opened(verified=False)
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


def _locate(settings: config.Settings, shard_set: ShardSet, location: str | Path | None) -> Path:
    """The folder of the shards. Whatever lies there is checked, so that anybody may say where it is."""
    known, stage = location, f"stage {shard_set.name!r} of run {shard_set.run.hex()[:12]}"
    if known is None and settings.names_path.exists():
        known = bootstrap.names(settings).plain(shard_set.stage.hex())
    if known is None:
        raise UnavailableError(
            f"{stage}: where its shards lie is not known here",
            reason="location-unknown",
            remedy="Load where the .provenance folder of the run is, or say it: VerifiedShards(location=…).",
        )
    place = Path(known).absolute()
    if not place.is_dir():
        raise UnavailableError(
            f"{stage}: its shards are not at {place}",
            reason="store-missing",
            remedy="Put the store back, or say where it is now: VerifiedShards(location=…).",
        )
    return place


def _sha256(path: str | Path) -> bytes:
    try:
        with Path(path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except FileNotFoundError as error:
        raise ConfigError(f"{path}: there is no such file", reason="no-such-file") from error
    except OSError as error:
        raise UnavailableError(
            f"{path}: cannot be read: {error.strerror}",
            reason="unreadable",
            remedy="Make it readable for this user, then call again.",
        ) from error
