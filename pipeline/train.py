"""Train the speaker model on verified shards: ``python -m pipeline.train``.

Every shard is proved before it is read. The same training with shuffled labels runs beside it: a model that
names speakers as well then has learnt nothing about voices. What the model was trained on is signed and
recorded.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipeline import speaker_model
from pipeline.program import run_command
from pipeline.voice.stages import recordings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from pipeline.speaker_model import Result

__all__ = ["Training", "main", "train_run"]


@dataclass(frozen=True, slots=True)
class Training:
    """A trained model beside the same with shuffled labels, and the id of its consumption record."""

    run: str
    shards: int
    result: Result
    shuffled: Result
    checkpoint: Path
    consumption: str
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "run": self.run,
            "shards": self.shards,
            "accuracy": round(self.result.accuracy, 4),
            "accuracy_majority": round(self.result.majority, 4),
            "accuracy_shuffled": round(self.shuffled.accuracy, 4),
            "learnt": self.result.learnt,
            "held_out": self.result.held_out,
            "checkpoint": str(self.checkpoint),
            "consumption": self.consumption,
            "seconds": round(self.seconds, 1),
        }


def train_run(run: str | None, checkpoint: Path, *, folder: Path | None = None, seed: int = 0) -> Training:
    """Train on the shards of a run and record what was eaten.

    Args:
        run: the beginning of the run's id; the last sealed run if None.
        checkpoint: where the model goes.
        folder: the ``.provenance`` folder.
        seed: of order, division and weights.

    Raises:
        ProvenanceError: a shard, or anything else about the run, does not verify; nothing was written then.
    """
    import provenance.torch

    started = time.monotonic()
    shards = provenance.torch.VerifiedShards(run=run, folder=folder, order_seed=seed)
    voices = list(_voices(shards))  # both trainings see the same verified bytes
    result = speaker_model.train(voices, seed=seed)
    shuffled = speaker_model.train(voices, seed=seed, shuffle_labels=True)
    speaker_model.save(result, checkpoint)
    consumption = shards.consumed(checkpoint, epochs=1, code=Path(speaker_model.__file__))
    return Training(
        shards.set.run.hex(),
        len(shards),
        result,
        shuffled,
        checkpoint,
        consumption,
        time.monotonic() - started,
    )


def _voices(shards: Any) -> Iterator[tuple[NDArray[Any], str, str]]:
    for shard in shards:
        yield from recordings(shard.parts, shard.key)


@click.command()
@click.option("--run", help="The beginning of a run's id.  [default: the last sealed run]")
@click.option(
    "--checkpoint",
    default="speakers.pt",
    type=click.Path(path_type=Path),
    show_default=True,
    help="Where the model goes.",
)
@click.option(
    "--folder", type=click.Path(path_type=Path), help="The .provenance folder.  [default: the nearest]"
)
@click.option("--seed", type=int, default=0, show_default=True, help="Of order, division and weights.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")
def command(run: str | None, checkpoint: Path, folder: Path | None, seed: int, as_json: bool) -> None:
    r"""Train a model that tells speakers apart, on shards that are proved first.

    \b
    Example:
      python -m pipeline.train --checkpoint speakers.pt
    """
    training = train_run(run, checkpoint, folder=folder, seed=seed)
    if as_json:
        click.echo(json.dumps(training.as_json()))
        return
    result = training.result
    counts = f"{result.learnt} recordings learnt from, {result.held_out} held out"
    click.echo(f"{training.shards} shards verified, {counts}")
    click.echo(
        f"held-out accuracy {result.accuracy:.1%}; the most frequent speaker {result.majority:.1%};"
        f" with shuffled labels {training.shuffled.accuracy:.1%}"
    )
    click.echo(f"model {training.checkpoint}, consumption record {training.consumption}")


def main() -> int:
    """Run the command; returns its exit code."""
    return run_command(command)


if __name__ == "__main__":
    sys.exit(main())
