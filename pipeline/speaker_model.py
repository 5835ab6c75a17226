"""A small network that tells who speaks, and the figures that show whether it has learnt that.

A recording is cut into windows of one second; a window is normalised, goes through two convolutions over
time, is averaged and classified; a recording belongs to whom its windows favour together. Recordings, never
windows, are divided into those that are learnt from and those that are held out, so no voice is recognised by
a sentence heard before.

Two baselines stand beside the accuracy on held-out recordings. ``majority`` is what always naming the most
frequent speaker would reach. And a training with shuffled labels must not come out above that: if it does,
something other than the voices gives the labels away. (That control needs one speaker who is clearly the most
frequent. Where all are equally frequent, a network that can tell voices apart but not name them is right
about a whole speaker by luck.)
"""

from __future__ import annotations

import hashlib
import io
import math
import os
import tempfile
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from pipeline.unusable import show_name
from provenance.errors import ConfigError, MalformedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

__all__ = ["Result", "is_held_out", "save", "train"]

_WINDOW = 100
_HOP = 50
# Of one recording, learnt from and held out: a long one is no better a witness than several short ones.
_LEARNT_WINDOWS = 8
_HELD_OUT_WINDOWS = 64
_CHANNELS = 32
_BATCH = 64
_HELD_OUT = 0.25


@dataclass(frozen=True, slots=True)
class Result:
    """What came out of a training.

    Attributes:
        accuracy: share of the held-out recordings whose speaker was named, 0 to 1.
        majority: share of the most frequent speaker among the held-out recordings.
        noise: two standard errors of an accuracy as low as ``majority``; a difference below it means nothing.
        labels: the speakers, ascending.
        confusion: ``confusion[true][named]``, counts of held-out recordings, in the order of ``labels``;
            with labels shuffled several times, the sum of all counts.
        learnt: how many recordings were learnt from.
        held_out: how many were held out.
        epochs: how often the windows learnt from were seen.
        loss: mean cross-entropy of the last epoch, in nats.
        state_dict: the network's parameters, the normalisation among them.
    """

    accuracy: float
    majority: float
    noise: float
    labels: tuple[str, ...]
    confusion: tuple[tuple[int, ...], ...]
    learnt: int
    held_out: int
    epochs: int
    loss: float
    state_dict: dict[str, Any]


@dataclass(slots=True)
class _Recording:
    label: str
    windows: NDArray[np.float32]


def is_held_out(recording_id: str, *, seed: int = 0) -> bool:
    """Whether a recording is held out: a quarter is, by the SHA-256 of seed and id alone."""
    digest = hashlib.sha256(f"held out\0{seed}\0{recording_id}".encode("utf-8", "surrogateescape")).digest()
    return int.from_bytes(digest[:8], "big") < _HELD_OUT * 2**64


def train(
    dataset: Iterable[tuple[NDArray[np.float32], str, str]],
    *,
    seed: int = 0,
    epochs: int | None = None,
    device: str = "cpu",
    shuffle_labels: bool = False,
) -> Result:
    """Learn who speaks, and try it on recordings that were held out.

    The dataset is read once; of each recording some windows are kept in memory, at most 0.25 MB of one that
    is learnt from and 2 MB of one that is held out. On one machine the same arguments give the same network.

    Args:
        dataset: (features, speaker, recording id); features float32, shape ``[frames, n_mels]`` with one
            ``n_mels`` throughout. A recording that comes in several pieces is put together.
        seed: of the division, the first weights and the order.
        epochs: how often all windows are seen; by default often enough for some 500 steps, 6 to 60 times.
        device: a torch device.
        shuffle_labels: deal out the speakers of the recordings learnt from anew, at random; the held-out
            ones keep theirs. Below 1,000 recordings that is done five times, each with a network of its own,
            and the figures are those of all five: among few recordings one deal favours somebody by chance.

    Raises:
        MalformedError: features of another shape, values that are not finite, one recording of two speakers.
        ConfigError: fewer than two speakers, or no recording on one side of the division.
    """
    recordings = _gather(dataset, seed)
    learnt = [item for name, item in recordings.items() if not is_held_out(name, seed=seed)]
    held_out = [item for name, item in recordings.items() if is_held_out(name, seed=seed)]
    labels = tuple(sorted({item.label for item in recordings.values()}))
    if len({item.label for item in learnt}) < 2 or not held_out:
        raise ConfigError(
            f"{len(labels)} speakers, {len(learnt)} recordings to learn from, {len(held_out)} held out",
            remedy="give at least two speakers with a dozen recordings each",
        )
    windows = [item.windows for item in learnt]
    targets = np.array([labels.index(item.label) for item in learnt])
    epochs = epochs or _enough(sum(map(len, windows)))
    named: list[int] = []
    deals = _deals(len(learnt)) if shuffle_labels else 1
    with _one_thread():
        for deal in range(deals):
            rng = np.random.default_rng((seed, deal))
            wanted = rng.permutation(targets) if shuffle_labels else targets
            net, loss = _fit(windows, wanted, len(labels), rng, (seed, epochs, device))
            named += [_name(net, item.windows, device) for item in held_out]
    true = [labels.index(item.label) for item in held_out] * deals
    state = {key: value.detach().cpu() for key, value in net.state_dict().items()}
    sizes = (len(learnt), len(held_out), epochs)
    return _result(labels, true, named, sizes=sizes, loss=loss, state=state)


def _enough(windows: int) -> int:
    return min(60, max(6, math.ceil(500 * _BATCH / windows)))


def _deals(learnt: int) -> int:
    return 1 if learnt >= 1000 else 5


def _gather(dataset: Iterable[tuple[NDArray[np.float32], str, str]], seed: int) -> dict[str, _Recording]:
    """The windows of every recording, by ascending id: the order in which shards arrive must not matter."""
    found: dict[str, _Recording] = {}
    bands = 0
    for features, label, name in dataset:
        bands = bands or (features.shape[1] if features.ndim == 2 else 0)
        _check_features(features, bands, name)
        known = found.get(name)
        if known and known.label != label:
            raise MalformedError(
                f"recording {show_name(name)} is of two speakers",
                reason="two-speakers",
                remedy="mend the labels",
            )
        windows = _windows(features)
        windows = np.concatenate([known.windows, windows]) if known else windows
        most = _HELD_OUT_WINDOWS if is_held_out(name, seed=seed) else _LEARNT_WINDOWS
        found[name] = _Recording(label, _thin(windows, most))
    return dict(sorted(found.items()))


def _check_features(features: NDArray[np.float32], bands: int, name: str) -> None:
    if (
        features.dtype != np.float32
        or features.ndim != 2
        or not len(features)
        or features.shape[1] != (bands or -1)
    ):
        raise MalformedError(
            f"features of {show_name(name)}: expected float32 [1 or more, {bands}], "
            f"found {features.dtype} {list(features.shape)}",
            reason="features-shape",
            remedy="make all features with the same stage",
        )
    if not np.isfinite(features).all():
        raise MalformedError(
            f"features of {show_name(name)} hold values that are not finite",
            reason="not-a-number",
            remedy="make them again from the recording",
        )


def _windows(features: NDArray[np.float32]) -> NDArray[np.float32]:
    """Windows of 100 frames, one each 50, shape ``[windows, n_mels, 100]``.

    A short recording is repeated into one.
    """
    if len(features) < _WINDOW:
        features = np.resize(features, (_WINDOW, features.shape[1]))
    starts = range(0, len(features) - _WINDOW + 1, _HOP)
    return np.stack([features[start : start + _WINDOW].T for start in starts])


def _thin(windows: NDArray[np.float32], most: int) -> NDArray[np.float32]:
    if len(windows) <= most:
        return windows
    return windows[np.linspace(0, len(windows) - 1, most).astype(np.int64)]


@contextmanager
def _one_thread() -> Iterator[None]:
    """Let torch work on one thread, and afterwards as before.

    On so small a network threads mostly wait for each other: on two busy cores, two took ten times
    as long as one.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _build(bands: int, speakers: int, seed: int) -> Any:
    """Two convolutions over time and a linear layer.

    Made on the CPU, leaving torch's own generator as it was.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.ModuleDict(
            {
                "normalise": nn.BatchNorm1d(bands, affine=False),
                "listen": nn.Sequential(
                    nn.Conv1d(bands, _CHANNELS, 5, stride=2),
                    nn.ReLU(),
                    nn.Conv1d(_CHANNELS, _CHANNELS, 5, stride=2),
                    nn.ReLU(),
                ),
                "decide": nn.Linear(_CHANNELS, speakers),
            }
        )


def _forward(net: Any, windows: Any) -> Any:
    """Scores of each speaker, shape ``[windows, speakers]``, from ``[windows, n_mels, 100]``."""
    return net["decide"](net["listen"](net["normalise"](windows)).mean(dim=2))


def _fit(
    groups: Sequence[NDArray[np.float32]],
    targets: NDArray[np.int64],
    speakers: int,
    rng: np.random.Generator,
    how: tuple[int, int, str],
) -> tuple[Any, float]:
    """Train on all windows of the recordings; the network and the mean loss of the last epoch."""
    seed, epochs, device = how
    inputs = torch.from_numpy(np.concatenate(groups)).to(device)
    wanted = torch.from_numpy(np.repeat(targets, [len(group) for group in groups])).to(device)
    net = _build(inputs.shape[1], speakers, seed).to(device)
    # The normalisation is that of the data, measured once; it does not follow the batches.
    net["normalise"].eval()
    net["normalise"].running_mean.copy_(inputs.mean(dim=(0, 2)))
    net["normalise"].running_var.copy_(inputs.var(dim=(0, 2)))
    # Every speaker counts alike, however much they recorded; so with shuffled labels naming the most frequent
    # one gains nothing, and what is left is chance.
    counts = torch.bincount(wanted, minlength=speakers).clamp(min=1)
    weights = len(wanted) / (speakers * counts.to(torch.float32))
    optimiser = torch.optim.Adam(net.parameters(), lr=2e-3, weight_decay=1e-4)
    total = 0.0
    for _ in range(epochs):
        total = 0.0
        for batch in torch.from_numpy(rng.permutation(len(inputs))).to(device).split(_BATCH):
            loss = nn.functional.cross_entropy(_forward(net, inputs[batch]), wanted[batch], weight=weights)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            total += loss.item() * len(batch)
    return net, total / len(inputs)


def _name(net: Any, windows: NDArray[np.float32], device: str) -> int:
    with torch.no_grad():
        scores = torch.log_softmax(_forward(net, torch.from_numpy(windows).to(device)), dim=1).mean(dim=0)
    return int(scores.argmax())


def _result(
    labels: tuple[str, ...],
    true: Sequence[int],
    named: Sequence[int],
    *,
    sizes: tuple[int, int, int],
    loss: float,
    state: dict[str, Any],
) -> Result:
    pairs = Counter(zip(true, named, strict=True))
    majority = max(Counter(true).values()) / len(true)
    everyone = range(len(labels))
    return Result(
        accuracy=sum(pairs[i, i] for i in everyone) / len(true),
        majority=majority,
        noise=2.0 * math.sqrt(majority * (1.0 - majority) / sizes[1]),
        labels=labels,
        confusion=tuple(tuple(pairs[i, j] for j in everyone) for i in everyone),
        learnt=sizes[0],
        held_out=sizes[1],
        epochs=sizes[2],
        loss=loss,
        state_dict=state,
    )


def save(result: Result, path: Path) -> None:
    """Write the network's parameters, atomically; they are read with ``torch.load(weights_only=True)``.

    Equal parameters give equal bytes. The speakers' names are not in the file.
    """
    buffer = io.BytesIO()
    torch.save(result.state_dict, buffer)
    descriptor, partial = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(buffer.getvalue())
            file.flush()
            os.fsync(file.fileno())
        Path(partial).replace(path)
    except BaseException:
        Path(partial).unlink(missing_ok=True)
        raise
