"""A PyTorch dataset over shards that somebody else opens and checks.

Shards come in an order drawn from a seed and the epoch, the same on every machine; DataLoader workers take
every n-th of them. What became of each shard is kept in shared memory, since workers are processes of their
own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.utils.data import IterableDataset, get_worker_info

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = ["UNOPENED", "UNVERIFIED", "VERIFIED", "Sample", "ShardDataset"]

UNOPENED, VERIFIED, UNVERIFIED = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Sample:
    """One shard: partition number, key token (its label), and its parts: tensors, or Arrow tables."""

    number: int
    key: str | None
    parts: Mapping[str, Any]


# mypy does not follow torch, so its class is Any.
class ShardDataset(IterableDataset):  # type: ignore[misc]
    """Shards in a seeded order.

    Args:
        count: how many shards there are.
        open_shard: opens shard ``i`` of them and says whether it verified; raises if it must not be used.
        order_seed: the seed of the order.
    """

    def __init__(
        self, count: int, open_shard: Callable[[int], tuple[Sample, bool]], *, order_seed: int = 0
    ) -> None:
        super().__init__()
        self._count, self._open = count, open_shard
        self.order_seed, self._epoch = order_seed, 0
        self._states = torch.zeros(count, dtype=torch.uint8).share_memory_()

    def __len__(self) -> int:
        return self._count

    def set_epoch(self, epoch: int) -> None:
        """Draw the order of this epoch; without it every pass has the order of epoch 0."""
        self._epoch = epoch

    def order(self) -> list[int]:
        """The order of this epoch: PCG64 seeded with (order_seed, epoch), the same everywhere."""
        order = np.random.Generator(np.random.PCG64([self.order_seed, self._epoch])).permutation(self._count)
        return [int(at) for at in order]

    def __iter__(self) -> Iterator[Sample]:
        worker = get_worker_info()
        first, step = (worker.id, worker.num_workers) if worker else (0, 1)
        for at in self.order()[first::step]:
            yield self.open(at)

    def open(self, at: int) -> Sample:
        """Open one shard, by its position among the shards."""
        sample, verified = self._open(at)
        self._states[at] = VERIFIED if verified else UNVERIFIED
        return sample

    def opened(self, state: int) -> list[int]:
        """The positions of the shards in this state, in any process so far."""
        return [int(at) for at in (self._states == state).nonzero().flatten()]


def as_tensor(value: object) -> Any:
    """A tensor of an array's values; anything else as it is."""
    return torch.from_numpy(value) if isinstance(value, np.ndarray) else value
