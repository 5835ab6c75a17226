"""Order, workers and what becomes of each shard; the shards themselves are numbers here."""

from __future__ import annotations

import os
import pickle
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from provenance.errors import (
    ConfigError,
    MalformedError,
    MismatchError,
    PendingError,
    UnavailableError,
    VerificationError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from provenance.errors import ProvenanceError

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader  # noqa: E402 - only where torch is

from provenance.adapters.torch_dataset import Sample, ShardDataset, as_tensor  # noqa: E402

COUNT = 11
# From Python 3.12 on a fork beside threads is warned of; what is forked here only opens shards.
forking = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


@dataclass(frozen=True)
class Opener:
    """Opens shards that hold their own position and the process that opened them."""

    unverified: tuple[int, ...] = ()
    left_out: tuple[int, ...] = ()
    refused: tuple[int, ...] = ()
    error: ProvenanceError | None = None

    def __call__(self, at: int) -> Sample | None:
        if at in self.refused and self.error is not None:
            raise self.error
        if at in self.left_out:
            return None
        parts = {"x": torch.full((2,), at), "process": os.getpid()}
        return Sample(at, f"{at:064x}", parts, verified=at not in self.unverified)


def numbers(samples: Any) -> list[int]:
    return [sample.number for sample in samples]


def loader(dataset: ShardDataset, context: str, **how: Any) -> Any:
    return DataLoader(dataset, batch_size=None, num_workers=2, multiprocessing_context=context, **how)


# --------------------------------------------------------------------------------------------------- order


def test_every_shard_comes_once_in_the_order_of_the_epoch() -> None:
    dataset = ShardDataset(COUNT, Opener(), order_seed=7)
    assert len(dataset) == COUNT
    seen = set()
    for epoch in range(20):
        dataset.set_epoch(epoch)
        order = numbers(dataset)
        assert order == dataset.order()
        assert sorted(order) == list(range(COUNT))
        seen.add(tuple(order))
    assert len(seen) == 20


def test_the_order_is_the_same_for_ever() -> None:
    dataset = ShardDataset(COUNT, Opener(), order_seed=7)
    assert dataset.order() == ORDERS[7, 0]
    dataset.set_epoch(3)
    assert dataset.order() == ORDERS[7, 3]
    assert ShardDataset(COUNT, Opener()).order() == ORDERS[0, 0]


ORDERS = {
    (7, 0): [6, 3, 4, 10, 9, 0, 2, 8, 7, 5, 1],
    (7, 3): [2, 10, 4, 7, 3, 5, 1, 8, 9, 0, 6],
    (0, 0): [3, 2, 1, 8, 6, 0, 7, 4, 10, 5, 9],
}


def test_seed_and_epoch_are_two_things() -> None:
    first, second = ShardDataset(COUNT, Opener(), order_seed=1), ShardDataset(COUNT, Opener(), order_seed=2)
    first.set_epoch(2)
    second.set_epoch(1)
    assert first.order() != second.order()


def test_an_interrupted_pass_goes_on_where_it_was() -> None:
    dataset = ShardDataset(COUNT, Opener(), order_seed=7)
    dataset.set_epoch(4)
    whole = numbers(dataset)
    dataset.set_epoch(4, skip=3)
    assert numbers(dataset) == whole[3:]
    dataset.set_epoch(4, skip=COUNT)
    assert numbers(dataset) == []
    dataset.set_epoch(5)
    assert len(numbers(dataset)) == COUNT


@pytest.mark.parametrize("value", [-1, 2**53, 1.0, True, "1", None])
def test_seeds_and_epochs_that_no_record_can_say(value: Any) -> None:
    dataset = ShardDataset(COUNT, Opener())
    for wrong in (
        lambda: ShardDataset(COUNT, Opener(), order_seed=value),
        lambda: dataset.set_epoch(value),
        lambda: dataset.set_epoch(0, skip=value),
    ):
        with pytest.raises(ConfigError):
            wrong()
    with pytest.raises(ConfigError):
        dataset.set_epoch(0, skip=COUNT + 1)
    assert len(numbers(dataset)) == COUNT, "it is as it was"


def test_no_shards_at_all() -> None:
    dataset = ShardDataset(0, Opener())
    assert (len(dataset), list(dataset), dataset.opened(verified=True)) == (0, [], [])


# ---------------------------------------------------------------------------------------- what became of them


def test_what_was_opened_is_counted() -> None:
    dataset = ShardDataset(COUNT, Opener(unverified=(2, 5), left_out=(3,)))
    assert dataset.opened(verified=True) == dataset.opened(verified=False) == []
    assert dataset.open(4).number == 4
    assert dataset.opened(verified=True) == [4]
    assert sorted(numbers(dataset)) == [0, 1, 2, 4, 5, 6, 7, 8, 9, 10]
    assert dataset.opened(verified=True) == [0, 1, 4, 6, 7, 8, 9, 10]
    assert dataset.opened(verified=False) == [2, 5]


def test_what_did_not_verify_once_stays_so() -> None:
    verdicts = {0: [True, False, True], 1: [False, True, True], 2: [True, True, True]}
    dataset = ShardDataset(3, lambda at: Sample(at, None, {}, verified=verdicts[at].pop()))
    for _ in range(3):
        list(dataset)
    assert (dataset.opened(verified=True), dataset.opened(verified=False)) == ([2], [0, 1])


def test_a_refused_shard_counts_as_not_opened() -> None:
    error = MismatchError("shard 2", expected="a", actual="b", remedy="look")
    dataset = ShardDataset(COUNT, Opener(refused=(2,), error=error))
    with pytest.raises(MismatchError) as caught:
        list(dataset)
    assert caught.value is error
    assert 2 not in dataset.opened(verified=True) + dataset.opened(verified=False)


# ---------------------------------------------------------------------------------------------------- workers


@pytest.mark.service
@forking
@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_workers_share_the_shards_and_their_states(context: str) -> None:
    dataset = ShardDataset(COUNT, Opener(unverified=(2,)), order_seed=7)
    workers = loader(dataset, context, persistent_workers=True)
    for epoch in (0, 1):
        dataset.set_epoch(epoch)
        samples = list(workers)
        assert numbers(samples) == dataset.order(), "though two open them by turns, and live on"
        assert all(torch.equal(one.parts["x"], torch.full((2,), one.number)) for one in samples)
        assert len({one.parts["process"] for one in samples} - {os.getpid()}) == 2
    dataset.set_epoch(2, skip=4)
    assert numbers(workers) == dataset.order()[4:]
    assert dataset.opened(verified=False) == [2]
    assert dataset.opened(verified=True) == [at for at in range(COUNT) if at != 2]


@pytest.mark.service
@forking
def test_a_shard_that_a_worker_leaves_out_costs_no_other() -> None:
    dataset = ShardDataset(COUNT, Opener(left_out=(3,)))
    assert sorted(numbers(loader(dataset, "fork"))) == [at for at in range(COUNT) if at != 3]
    assert 3 not in dataset.opened(verified=True)


@pytest.mark.service
@forking
@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (MismatchError("shard 2", expected="a", actual="b", remedy="do not train"), VerificationError),
        (VerificationError("shard 2: expected a, found b", remedy="do not train"), VerificationError),
        (UnavailableError("shard 2: expected a, found b", remedy="do not train"), UnavailableError),
        (PendingError("shard 2: expected a, found b", remedy="do not train"), PendingError),
        (ConfigError("shard 2: expected a, found b", remedy="do not train"), ConfigError),
        (MalformedError("shard 2: expected a, found b", remedy="do not train"), MalformedError),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else type(value).__name__,
)
def test_an_error_in_a_worker_keeps_its_kind_and_its_next_step(error: ProvenanceError, kind: type) -> None:
    dataset = ShardDataset(4, Opener(refused=(2,), error=error))
    with pytest.raises(kind) as caught:
        list(loader(dataset, "fork"))
    assert caught.value.exit_code == error.exit_code
    assert "shard 2: expected a, found b" in str(caught.value)
    assert "next: do not train" in str(caught.value)


def test_an_error_without_a_next_step_promises_none() -> None:
    from provenance.adapters.torch_dataset import _for_parent

    assert _for_parent(PendingError("wait")).message == "wait"


def test_samples_and_datasets_travel() -> None:
    sample = Opener()(3)
    assert sample is not None
    copy = pickle.loads(pickle.dumps(sample))
    assert (copy.number, copy.key, copy.verified) == (3, sample.key, True)
    assert torch.equal(copy.parts["x"], sample.parts["x"])


# ---------------------------------------------------------------------------------------------------- tensors


@pytest.mark.parametrize(
    "code", ["?", "u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8", "c8", "c16", ">f4", ">u8"]
)
def test_every_type_that_a_stage_may_store_becomes_a_tensor(code: str) -> None:
    array = np.array([[0, 1, 1]], code)
    array.flags.writeable = False
    found = as_tensor(array)
    assert isinstance(found, torch.Tensor)
    assert np.array_equal(found.numpy(), array)
    assert found.numpy().dtype == array.dtype.newbyteorder("=")


@pytest.mark.parametrize(
    "make",
    [
        lambda: np.float32(2.5),
        lambda: np.array(2.5, np.float32),
        lambda: np.zeros((0, 3), np.float32),
        lambda: np.arange(6, dtype=np.float32)[::-1],
        lambda: np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3)),
    ],
    ids=["scalar", "no dimension", "no rows", "backwards", "columns first"],
)
def test_shapes_and_layouts(make: Callable[[], Any]) -> None:
    value = make()
    found = as_tensor(value)
    assert tuple(found.shape) == value.shape
    assert np.array_equal(found.numpy(), value)


def test_a_tensor_can_be_written_to_and_what_it_came_from_stays() -> None:
    array = np.zeros(3, np.float32)
    array.flags.writeable = False
    as_tensor(array)[0] = 1
    assert not array.any()


def test_what_is_no_tensor_stays_what_it_is() -> None:
    table, dates = object(), np.zeros(2, "M8[s]")
    assert as_tensor(table) is table
    assert np.array_equal(as_tensor(dates), dates)
