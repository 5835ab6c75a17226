"""Train the speaker model on verified shards: ``python -m pipeline.train``.

Every shard is proved before it is read. The same training with shuffled labels runs beside it: a model that
names speakers as well then has learnt nothing about voices. What the model was trained on is signed and
recorded; a model without that receipt is never left behind.
"""

from __future__ import annotations

import json
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipeline.program import LocalPath, run_command
from provenance.errors import ConfigError, MalformedError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from pipeline.speaker_model import Result

__all__ = ["Training", "main", "train_run"]

_PARTS = {"features", "offsets", "recordings"}


@dataclass(frozen=True, slots=True)
class Training:
    """A trained model beside the same with shuffled labels, and the id of its consumption record.

    ``unverified`` counts shards that were read although they did not verify: none, unless the settings say
    that the loader only observes.
    """

    run: str
    shards: int
    unverified: int
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
            "unverified": self.unverified,
            "accuracy": round(self.result.accuracy, 4),
            "accuracy_majority": round(self.result.majority, 4),
            "accuracy_shuffled": round(self.shuffled.accuracy, 4),
            "learnt": self.result.learnt,
            "held_out": self.result.held_out,
            "epochs": self.result.epochs,
            "checkpoint": str(self.checkpoint),
            "consumption": self.consumption,
            "seconds": round(self.seconds, 1),
        }


def train_run(run: str | None, checkpoint: Path, *, folder: Path | None = None, seed: int = 0) -> Training:
    """Train on the shards of a run and record what was eaten.

    Args:
        run: the beginning of the run's id; the last sealed run if None.
        checkpoint: where the model goes; one that is there is replaced.
        folder: the ``.provenance`` folder.
        seed: of order, division and weights.

    Raises:
        ProvenanceError: a shard, or anything else about the run, does not verify; or the model cannot be
            recorded. Nothing was written then.
    """
    import provenance.torch
    from pipeline import speaker_model

    started = time.monotonic()
    _check_place(checkpoint)
    shards = provenance.torch.VerifiedShards(run=run, folder=folder, order_seed=seed)
    voices = list(_voices(shards))  # both trainings see the same verified bytes
    result = speaker_model.train(voices, seed=seed)
    shuffled = speaker_model.train(voices, seed=seed, shuffle_labels=True)
    with _staged(checkpoint) as place:
        speaker_model.save(result, place)
        consumption = shards.consumed(place, epochs=result.epochs, code=Path(speaker_model.__file__))
    unverified = len(shards.opened(verified=False))
    return Training(
        run=shards.run,
        shards=len(shards.opened(verified=True)) + unverified,
        unverified=unverified,
        result=result,
        shuffled=shuffled,
        checkpoint=checkpoint,
        consumption=consumption,
        seconds=time.monotonic() - started,
    )


def _voices(shards: Any) -> Iterator[tuple[NDArray[Any], str, str]]:
    from pipeline.voice.stages import recordings

    for shard in shards:
        if not shard.parts.keys() >= _PARTS or shard.key is None:
            parts = ", ".join(sorted(shard.parts)) or "nothing"
            raise MalformedError(
                f"shard {shard.number} holds {parts} {'by' if shard.key else 'without'} a key: expected"
                f" {', '.join(sorted(_PARTS))} by speaker",
                reason="not-voices",
                remedy="Give a run of python -m pipeline.voice: --run ID.",
            )
        yield from recordings(shard.parts, shard.key)


def _check_place(checkpoint: Path) -> None:
    if checkpoint.is_dir() or not checkpoint.parent.is_dir():
        raise ConfigError(
            f"{checkpoint}: expected a file's name in a folder that is there",
            reason="checkpoint",
            remedy="Give another --checkpoint, or make its folder first.",
        )


@contextmanager
def _staged(checkpoint: Path) -> Iterator[Path]:
    """Another name beside the checkpoint's: it gets its own once the block has ended well."""
    place = checkpoint.with_name(f".{checkpoint.name}.unrecorded")
    try:
        yield place
        place.replace(checkpoint)
    except OSError as error:
        raise UnavailableError(
            f"{checkpoint}: cannot write it: {error.strerror or error}",
            reason="checkpoint",
            remedy="Make room for it, or give another --checkpoint; then train again.",
        ) from error
    finally:
        place.unlink(missing_ok=True)


@click.command()
@click.option("--run", help="The beginning of a run's id.  [default: the last sealed run]")
@click.option(
    "--checkpoint",
    default="speakers.pt",
    type=LocalPath(),
    show_default=True,
    help="Where the model goes.",
)
@click.option("--folder", type=LocalPath(), help="The .provenance folder.  [default: the nearest]")
@click.option(
    "--seed",
    type=click.IntRange(0, 2**31 - 1),
    default=0,
    show_default=True,
    help="Of order, division and weights.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")
def command(run: str | None, checkpoint: Path, folder: Path | None, seed: int, as_json: bool) -> None:
    """Train a model that tells speakers apart, on shards that are proved first.

    \b
    Example:
      python -m pipeline.train --checkpoint speakers.pt
    """  # noqa: D301 - the character itself keeps lines apart
    training = train_run(run, checkpoint, folder=folder, seed=seed)
    if as_json:
        click.echo(json.dumps(training.as_json()))
        return
    result = training.result
    counts = f"{result.learnt} recordings learnt from, {result.held_out} held out"
    click.echo(f"{training.shards - training.unverified} shards verified, {counts}")
    if training.unverified:
        click.echo(f"warning: {training.unverified} shards were read and NOT verified", err=True)
    click.echo(
        f"held-out accuracy {result.accuracy:.1%}; the most frequent speaker {result.majority:.1%};"
        f" with shuffled labels {training.shuffled.accuracy:.1%}"
    )
    click.echo(f"model {training.checkpoint}, consumption record {training.consumption}")
    click.echo("next: provenance batch anchors that record")


def main() -> int:
    """Run the command; returns its exit code."""
    return run_command(command)


if __name__ == "__main__":
    sys.exit(main())
