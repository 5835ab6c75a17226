"""A PyTorch dataset over shards that somebody else opens and checks.

Shards come in an order drawn from a seed and the epoch, the same on every machine and in every release;
DataLoader workers take every n-th of them. Workers are processes of their own, so the epoch and what became
of each shard lie in shared memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.utils.data import IterableDataset, get_worker_info

from provenance.errors import ConfigError, ProvenanceError, VerificationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = ["Sample", "ShardDataset", "as_tensor"]

_VERIFIED, _UNVERIFIED = 1, 2  # and 0: not opened
_MAX_SEED = 2**53 - 1  # what a consumption record can say


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """One shard.

    Attributes:
        number: the partition's number.
        key: the token of what it holds, e.g. a speaker: its label.
        parts: tensors or Arrow tables by name; NumPy arrays of types that PyTorch does not have.
        verified: whether its bytes are the anchored ones; only a loader that observes gives others.
    """

    number: int
    key: str | None
    parts: Mapping[str, Any]
    verified: bool = True


# mypy does not follow torch, so its class is Any.
class ShardDataset(IterableDataset):  # type: ignore[misc]
    """Shards in a seeded order.

    Args:
        count: how many shards there are.
        open_shard: opens and checks the shard at a position; None if it is left out; raises if it must not
            be used. Picklable, for workers that are spawned.
        order_seed: the seed of the order, 0 to 2^53 - 1.
    """

    def __init__(
        self, count: int, open_shard: Callable[[int], Sample | None], *, order_seed: int = 0
    ) -> None:
        super().__init__()
        _require_count("order_seed", order_seed, _MAX_SEED)
        self.order_seed = order_seed
        self._count, self._open = count, open_shard
        self._states = torch.zeros(count, dtype=torch.uint8).share_memory_()
        self._begin = torch.zeros(2, dtype=torch.int64).share_memory_()  # epoch, and how many shards to skip

    def __len__(self) -> int:
        return self._count

    def set_epoch(self, epoch: int, *, skip: int = 0) -> None:
        """Draw the order of this epoch; without it every pass has the order of epoch 0.

        Args:
            epoch: counted from 0.
            skip: how many shards of the order to leave out: those that an interrupted pass has had.
        """
        _require_count("epoch", epoch, _MAX_SEED)
        _require_count("skip", skip, self._count)
        self._begin[0], self._begin[1] = epoch, skip

    def order(self) -> list[int]:
        """The order of this epoch as positions among the shards.

        Sorted by 64-bit outputs of PCG64 seeded with (order_seed, epoch), whose stream NumPy keeps for ever
        (NEP 19), as it does not keep those of its ``permutation``.
        """
        raw = np.random.PCG64([self.order_seed, int(self._begin[0])]).random_raw(self._count)
        return [int(at) for at in np.argsort(raw, kind="stable")]

    def __iter__(self) -> Iterator[Sample]:
        worker = get_worker_info()
        first, step = (worker.id, worker.num_workers) if worker else (0, 1)
        for at in self.order()[int(self._begin[1]) :][first::step]:
            try:
                sample = self.open(at)
            except ProvenanceError as error:
                if worker is None:
                    raise
                raise _for_parent(error) from None
            if sample is not None:
                yield sample

    def open(self, at: int) -> Sample | None:
        """Open one shard, by its position among the shards; None if it is left out."""
        sample = self._open(at)
        if sample is not None:
            self._states[at] = max(int(self._states[at]), _VERIFIED if sample.verified else _UNVERIFIED)
        return sample

    def opened(self, *, verified: bool) -> list[int]:
        """Positions of the shards that verified whenever any process opened them; or that once did not."""
        wanted = _VERIFIED if verified else _UNVERIFIED
        return [int(at) for at in (self._states == wanted).nonzero().flatten()]


def _for_parent(error: ProvenanceError) -> ProvenanceError:
    """The same error as PyTorch can raise it again in the process that asked.

    It makes a new one of the class and the traceback's text, so the class must take a message alone, and what
    is to be read must stand in the message.
    """
    kind = VerificationError if isinstance(error, VerificationError) else type(error)
    return kind(f"{error.message}\n  next: {error.remedy}" if error.remedy else error.message)


def _require_count(name: str, value: object, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise ConfigError(f"{name} {value!r:.40}: expected a whole number from 0 to {most}", reason=name)


def as_tensor(value: object) -> Any:
    """A tensor of an array's values; anything else, and types that PyTorch does not have, as it is."""
    if not isinstance(value, np.ndarray | np.generic):
        return value
    # In native byte order, and its own where the values cannot be written to: torch warns of those.
    array = np.require(value, value.dtype.newbyteorder("="), ["C_CONTIGUOUS", "WRITEABLE"])
    try:
        return torch.from_numpy(array)
    except TypeError:
        return array
