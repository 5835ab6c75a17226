"""Record the voice pipeline: ``python -m pipeline.voice --source DIR``.

Recordings → cleaned samples → log-mel features → one shard a speaker, each step on record, sealed at the end.
What to do next is printed.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

import provenance
from pipeline.layouts import Layout, Recordings, discover
from pipeline.program import LocalPath, run_command, tell
from pipeline.unusable import remedy_of, show_name
from pipeline.voice import stages
from provenance.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["Outcome", "main", "record"]

_GROUP_FILES = 64  # so that a record still lists each of its inputs
_TOLD = 5  # names of one kind that are told on a terminal


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a recorded run came to.

    ``rejected`` counts recordings by reason, ``set_aside`` names them (name → reason); ``speakers`` counts
    shards.
    """

    run: str
    files: int
    speakers: int
    rejected: Mapping[str, int]
    store: Path
    seconds: float
    set_aside: Mapping[str, str] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """For ``--json``; without names, since such output is kept."""
        return {
            "run": self.run,
            "files": self.files,
            "speakers": self.speakers,
            "rejected": dict(self.rejected),
            "store": str(self.store),
            "seconds": round(self.seconds, 1),
        }


def record(
    recordings: Recordings,
    store: Path,
    *,
    dataset: Path,
    folder: Path | None = None,
    on_bad_input: str = "reject",
    n_mels: int = 80,
    threshold_db: float = -40.0,
    client: Any = None,
) -> Outcome:
    """Run and record the pipeline over recordings; the features are written to a Zarr store.

    Args:
        recordings: what `pipeline.layouts.discover` found.
        store: where the features go, a name that ends in ``.zarr``.
        dataset: the dataset's descriptor.
        folder: the ``.provenance`` folder.
        on_bad_input: ``reject`` keeps an unusable recording on record with its reason, ``stop`` ends the run.
        n_mels: number of bands.
        threshold_db: what counts as silence, relative to the recording's loudest part.
        client: as `provenance.run`.

    Raises:
        ConfigError: the store's name does not end in ``.zarr``.
        ProvenanceError: as `provenance.run`.
    """
    if store.suffix != ".zarr":
        raise ConfigError(
            f"{show_name(str(store))}: expected a name that ends in .zarr, since features are arrays",
            reason="store-name",
            remedy="Name the store so, e.g. features.zarr.",
        )
    started = time.monotonic()
    speakers = {item.name: item.speaker or "" for item in recordings.items}
    run = provenance.start(
        "voice", dataset=dataset, folder=folder, on_bad_input=on_bad_input, client=client, seeds={}
    )
    with run:
        raw = run.files(
            [item.path for item in recordings.items],
            root=recordings.root,
            key=speakers,
            group_files=_GROUP_FILES,
        )
        cleaned = raw.stage("clean", stages.clean, threshold_db=threshold_db)
        features = cleaned.stage("feature", stages.features, n_mels=n_mels)
        features.wide("speaker", stages.gather, by="key").write(store, name="shards")
    rejected = provenance.rejected(run.id, folder=folder, plain=True)
    return Outcome(
        run.id,
        len(recordings.items),
        len(set(speakers.values())),
        Counter(rejected.values()),
        store,
        time.monotonic() - started,
        rejected,
    )


def _tell_problems(recordings: Recordings) -> None:
    """What table and files disagree about, a few of each kind."""
    counts = Counter(problem.reason for problem in recordings.problems)
    told: Counter[str] = Counter()
    for problem in recordings.problems:
        told[problem.reason] += 1
        if told[problem.reason] <= _TOLD:
            tell("warning", problem.message)
    for reason, count in counts.items():
        if count > _TOLD:
            tell("warning", f"and {count - _TOLD} more of that kind ({reason})")
    if counts:
        click.echo("  next: mend the table or the folder; recordings are taken all the same", err=True)


def _tell_set_aside(outcome: Outcome) -> None:
    """Which recordings could not be used, to whoever sits here: no record and no log holds these names."""
    names: defaultdict[str, list[str]] = defaultdict(list)
    for name, reason in outcome.set_aside.items():
        names[reason].append(name)
    for reason, found in sorted(names.items()):
        listed = ", ".join(show_name(name) for name in sorted(found)[:_TOLD])
        more = f" and {len(found) - _TOLD} more" if len(found) > _TOLD else ""
        tell("warning", f"set aside as {reason}: {listed}{more}", remedy_of(reason))


@click.command()
@click.option("--source", required=True, type=LocalPath(), help="The folder of recordings.")
@click.option(
    "--out",
    default="features.zarr",
    type=LocalPath(),
    show_default=True,
    help="Where the features go.",
)
@click.option(
    "--dataset",
    default="dataset.toml",
    type=LocalPath(),
    show_default=True,
    help="The dataset's descriptor.",
)
@click.option(
    "--folder",
    type=LocalPath(),
    help="The .provenance folder.  [default: the nearest from here upwards]",
)
@click.option(
    "--layout",
    type=click.Choice([layout.value for layout in Layout]),
    help="How the folder is arranged.  [default: found out]",
)
@click.option(
    "--speakers",
    type=LocalPath(),
    help="A CSV of folder and speaker.  [default: speakers.csv in the source]",
)
@click.option(
    "--sample", type=click.IntRange(1), help="Take so many recordings, chosen by the hash of their names."
)
@click.option(
    "--on-bad-input",
    type=click.Choice(["reject", "stop"]),
    default="reject",
    show_default=True,
    help="What an unusable recording does.",
)
@click.option("--threshold-db", type=float, default=-40.0, show_default=True, help="What counts as silence.")
@click.option(
    "--mels", type=click.IntRange(8, 256), default=80, show_default=True, help="Number of mel bands."
)
@click.option("--scheduler", help="Address of a Dask scheduler.  [default: processes on this machine]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")
def command(**options: Any) -> None:
    """Run and record the voice pipeline over a folder of recordings.

    \b
    Example:
      python -m pipeline.voice --source recordings --out features.zarr
    """  # noqa: D301 - the character itself keeps lines apart
    found = discover(
        options["source"],
        layout=Layout(options["layout"]) if options["layout"] else None,
        speakers=options["speakers"],
    )
    _tell_problems(found)
    if options["on_bad_input"] == "stop":
        found.check_complete()
    if options["sample"]:
        found = found.sample(options["sample"])
    outcome = record(
        found,
        options["out"],
        dataset=options["dataset"],
        folder=options["folder"],
        on_bad_input=options["on_bad_input"],
        n_mels=options["mels"],
        threshold_db=options["threshold_db"],
        client=options["scheduler"],
    )
    _tell_set_aside(outcome)
    if options["as_json"]:
        click.echo(json.dumps(outcome.as_json()))
        return
    reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(outcome.rejected.items()))
    click.echo(f"run {outcome.run}")
    click.echo(f"{outcome.files} recordings of {outcome.speakers} speakers in {outcome.seconds:.1f} s")
    click.echo(f"features: {show_name(str(outcome.store))}")
    click.echo(f"rejected: {sum(outcome.rejected.values())}" + (f" ({reasons})" if reasons else ""))
    click.echo("next: provenance up && provenance batch && provenance audit --level replay")


def main() -> int:
    """Run the command; returns its exit code."""
    return run_command(command)


if __name__ == "__main__":
    sys.exit(main())
