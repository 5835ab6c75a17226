"""The main job, shown: ``python -m pipeline.demo``, or ``make demo``.

Real recordings go from raw to a trained model, with every shard anchored, audited and proved before it is
read; then one byte of a stored shard and one byte of a batch file are changed, to show what is found and
named; then both are put right again. All of it happens in one folder (``demo/``), by the same commands that a
user types; the last line of the summary says which to try next.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from pipeline import voices
from pipeline.program import LocalPath, run_command
from provenance.errors import ConfigError, VerificationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from pipeline.voices import Source

__all__ = ["main"]

MARKER = ".provenance-demo"
_MAKES = ("features.zarr", ".provenance", "dataset.toml", "speakers.pt", "report.html", "summary.json")
_SHOWN = 2000


@dataclass(slots=True)
class Demo:
    """The folder, and what is known so far."""

    root: Path
    sample: int | None = None
    started: float = field(default_factory=time.monotonic)
    summary: dict[str, Any] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """Log, batches, keys and chain of the demo."""
        return self.root / ".provenance"

    @property
    def store(self) -> Path:
        """The features."""
        return self.root / "features.zarr"

    def say(self, text: str) -> None:
        """A headline with the seconds so far."""
        mark = click.style(f"[{time.monotonic() - self.started:5.1f} s]", fg="cyan")
        click.echo(f"{mark} {click.style(text, bold=True)}")

    def call(self, module: str, *arguments: str, expect: int = 0) -> dict[str, Any]:
        """Run one of our commands as a user would and return what its ``--json`` prints.

        Raises:
            VerificationError: it ended with another exit code than expected.
        """
        shown = "provenance" if module == "provenance" else f"python -m {module}"
        click.echo(click.style(f"          $ {shown} {' '.join(arguments)}", dim=True))
        command = [sys.executable, "-m", module, *arguments, "--folder", str(self.folder), "--json"]
        done = subprocess.run(command, cwd=self.root, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode != expect:
            raise VerificationError(
                f"{shown} {arguments[0]}: exit code {done.returncode}, expected {expect}:"
                f" {done.stdout[:_SHOWN]}",
                remedy=f"Look into {self.root}, or run the demo again: it begins anew.",
            )
        try:
            return dict(json.loads(done.stdout)) if done.stdout.strip() else {}
        except ValueError as error:
            raise VerificationError(f"{shown} {arguments[0]}: no JSON: {done.stdout[:_SHOWN]}") from error


# -------------------------------------------------------------------------------------------------- steps


def prepare(demo: Demo) -> None:
    """Make the folder; what an earlier or interrupted demo left there is removed, recordings are kept."""
    if demo.root.exists() and any(demo.root.iterdir()) and not (demo.root / MARKER).exists():
        raise ConfigError(
            f"{demo.root}: it is not empty and no demo made it",
            remedy="Give another folder: --folder DIR, or empty it.",
        )
    demo.root.mkdir(parents=True, exist_ok=True)
    (demo.root / MARKER).touch()
    if demo.folder.exists():
        demo.call("provenance", "down")
    for name in _MAKES:
        path = demo.root / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def obtain(demo: Demo, folder: Path | None) -> Source:
    """Get recordings, and write down what they are."""
    source = voices.obtain(demo.root / "voices", folder=folder)
    demo.say(source.message)
    (demo.root / "dataset.toml").write_text(_descriptor(source), encoding="utf-8")
    if source.credits:
        (demo.root / "CREDITS").write_text(source.credits, encoding="utf-8")
        click.echo("          " + source.credits.strip().replace("\n", "\n          "))
    demo.summary |= {"source": source.kind, "synthetic": source.synthetic}
    return source


def _descriptor(source: Source) -> str:
    licence = source.licence or "LicenseRef-not-given"
    titles = {"debian": "Voice prompts of Debian's asterisk-core-sounds", "synthetic": "Synthetic voices"}
    title = titles.get(source.kind, "Recordings given by hand")
    holder, collection = ("see CREDITS" if source.credits else "not given"), "recordings as they were found"
    if source.synthetic:
        holder, collection = "nobody", "generated on the spot"
    return f"""\
# What the demo's data is. A run records the SHA-256 of this file; `provenance init` writes one for your data.
name = "demo-voices"
version = "1"
title = "{title}"
licence = "{licence}"
names_are_personal = true  # file names and speakers stand in records as keyed tokens

[[rights_holders]]
name = "{holder}"
role = "performers"

[[sources]]
title = "{title}"
licence = "{licence}"
collection = "{collection}"
"""


def record(demo: Demo, source: Source) -> str:
    """Record the pipeline; returns the run's id."""
    demo.say("record: raw → clean → features → one shard a speaker, each partition hashed and on the log")
    made = demo.call(
        "pipeline.voice", "--source", str(source.root), "--out", "features.zarr", *_sampling(demo)
    )
    rejected = sum(made["rejected"].values())
    reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(made["rejected"].items()))
    counts = f"{made['files']} recordings of {made['speakers']} speakers"
    click.echo(f"          {counts}; rejected: {rejected} ({reasons or 'none'})")
    demo.summary |= {"run": made["run"], "files": made["files"], "rejected": rejected}
    return str(made["run"])


def _sampling(demo: Demo) -> list[str]:
    return [] if demo.sample is None else ["--sample", str(demo.sample)]


def anchor(demo: Demo) -> None:
    """Anchor all that the log holds; counts add up."""
    made = demo.call("provenance", "batch")
    for count in ("records", "batches", "gas"):
        demo.summary[count] = demo.summary.get(count, 0) + made[count]
    click.echo(
        f"          anchored {_counted(made['records'], 'record')} in {_counted(made['batches'], 'batch')},"
        f" {made['gas']:,} gas"
    )


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 'es' if noun.endswith('ch') else 's'}"


def audit(demo: Demo, run: str, level: str) -> None:
    """Audit the run, which must pass."""
    report = demo.call("provenance", "audit", run, "--level", level)
    for name, verdict in report["verdicts"].items():
        if verdict != "not run":
            click.echo(f"          {name:6} {click.style(verdict, fg='green')}")
    demo.summary["audit"] = report["verdicts"]
    click.echo(f"          all of it {report['evidence']}: this chain has no seals")


def train(demo: Demo, run: str) -> None:
    """Train on verified shards and check that something was learnt, and nothing from shuffled labels."""
    demo.say("train: each shard is proved before PyTorch reads it")
    made = demo.call("pipeline.train", "--run", run, "--checkpoint", "speakers.pt")
    scores = {name: made[name] for name in ("accuracy", "accuracy_majority", "accuracy_shuffled")}
    demo.summary |= scores
    click.echo(f"          {_scores(scores)}")


def _scores(made: Mapping[str, Any]) -> str:
    return (
        f"held-out accuracy {made['accuracy']:.1%}; most frequent speaker {made['accuracy_majority']:.1%};"
        f" shuffled labels {made['accuracy_shuffled']:.1%}"
    )


# ------------------------------------------------------------------------------------------------ tampering


@contextmanager
def flipped(path: Path, at: int) -> Iterator[None]:
    """Change one byte of a file, and put it right again whatever happens."""
    with path.open("r+b") as file:
        file.seek(at)
        before = file.read(1)
        file.seek(at)
        file.write(bytes([before[0] ^ 0x01]))
    try:
        yield
    finally:
        with path.open("r+b") as file:
            file.seek(at)
            file.write(before)


def tamper_shard(demo: Demo, run: str) -> None:
    """One byte of a stored shard: the audit names it, the loader refuses it."""
    path = max(
        (demo.store / "p00000" / "features").rglob("*"),
        key=lambda path: path.stat().st_size if path.is_file() else -1,
    )
    at = path.stat().st_size // 3
    demo.say(f"tamper: byte {at:,} of {path.relative_to(demo.root)} is changed")
    with flipped(path, at):
        report = demo.call("provenance", "audit", run, "--level", "replay", expect=1)
        named = _name(report, ("stage", "shard", "object", "chunk"))
        demo.call("pipeline.train", "--run", run, "--checkpoint", "refused.pt", expect=1)
        click.echo("          the loader refuses it: nothing was trained")
    demo.summary["tamper"] = [{"target": "shard", "named": named, "exit_code": 1}]


def tamper_batch(demo: Demo, run: str) -> None:
    """One byte of a leaf in a batch file: the audit names stream, seq and offset."""
    path = max(demo.folder.glob("batches/*/*.batch"), key=lambda path: path.stat().st_size)
    at = path.stat().st_size - 20  # within the last leaf, which reaches to the end of the file
    demo.say(f"tamper: byte {at:,} of a batch file is changed")
    with flipped(path, at):
        report = demo.call("provenance", "audit", run, "--level", "chain", expect=1)
        named = _name(report, ("stream", "seq", "offset", "byte"))
    demo.summary["tamper"].append({"target": "batch", "named": named, "exit_code": 1})


def _name(report: Mapping[str, Any], wanted: tuple[str, ...]) -> dict[str, Any]:
    """What the findings name, the first that names each."""
    errors = [finding for finding in report["findings"] if finding["severity"] == "error"]
    named = {}
    for key in wanted:
        value = next((finding[key] for finding in errors if key in finding), None)
        if value is None:
            raise VerificationError(
                f"the audit found the change and did not name the {key}: {json.dumps(errors)[:_SHOWN]}"
            )
        named[key] = value
    for finding in errors[:3]:
        click.echo(f"          {click.style(finding['code'], fg='red')}: {finding['message']}")
    click.echo("          named: " + ", ".join(f"{key} {value}" for key, value in named.items()))
    return named


# --------------------------------------------------------------------------------------------------- whole


def run_demo(demo: Demo, folder: Path | None) -> None:
    """All steps in order."""
    prepare(demo)
    source = obtain(demo, folder)
    demo.say("start the embedded chain and deploy the contract")
    demo.call("provenance", "up")
    run = record(demo, source)
    demo.say("anchor: batches of records become Merkle roots on the chain")
    anchor(demo)
    demo.say(
        "audit: chain and batch files, bytes on disk, and everything computed once more from the raw files"
    )
    audit(demo, run, "replay")
    train(demo, run)
    demo.say("anchor the signed receipt of what the model was trained on, and write the report")
    anchor(demo)
    demo.call("provenance", "report", run, "--out", "report.html")
    tamper_shard(demo, run)
    tamper_batch(demo, run)
    demo.say("both are put right again")
    verdicts = demo.summary["audit"]
    audit(demo, run, "data")
    demo.summary["audit"] = verdicts
    finish(demo)


def finish(demo: Demo) -> None:
    """Stop the chain, write ``summary.json``, and say what to try next."""
    demo.call("provenance", "down")
    seconds = time.monotonic() - demo.started
    demo.summary["seconds"] = round(seconds, 1)
    partial = demo.root / "summary.json.part"
    partial.write_text(json.dumps(demo.summary, indent=1) + "\n", encoding="utf-8")
    partial.replace(demo.root / "summary.json")
    summary = demo.summary
    demo.say("done")
    verdicts = ", ".join(f"{level} {verdict}" for level, verdict in summary["audit"].items())
    lines = [
        (
            f"anchored   {_counted(summary['records'], 'record')}, {_counted(summary['batches'], 'batch')},"
            f" {summary['gas']:,} gas"
        ),
        f"audit      {verdicts}",
        f"training   {_scores(summary)}",
        f"tampering  {len(summary['tamper'])} of 2 found, named and put right",
        f"report     {os.path.relpath(demo.root / 'report.html')}",
        f"try next   cd {os.path.relpath(demo.root)}: provenance up, provenance status, provenance audit",
    ]
    click.echo("\n".join(f"  {line}" for line in lines))


@click.command()
@click.option(
    "--folder",
    default="demo",
    type=LocalPath(),
    show_default=True,
    help="Where everything goes.",
)
@click.option(
    "--source",
    type=LocalPath(),
    help="A folder of recordings.  [default: Debian's voice prompts]",
)
@click.option(
    "--sample", type=click.IntRange(16), help="Take so many recordings, by the hash of their names."
)
def command(folder: Path, source: Path | None, sample: int | None) -> None:
    """Show the whole job on real voices, then tamper with it.

    \b
    Example:
      python -m pipeline.demo --folder demo
    """  # noqa: D301 - the character itself keeps lines apart
    run_demo(Demo(folder.absolute(), sample), source.absolute() if source else None)


def main() -> int:
    """Run the command; returns its exit code."""
    return run_command(command)


if __name__ == "__main__":
    sys.exit(main())
