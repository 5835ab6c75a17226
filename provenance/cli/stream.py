"""``provenance stream``: the streams, and going on knowingly where a log lost something."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from provenance.cli._frame import emit, folder_option, json_option, printable, progress
from provenance.cli._words import counted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from provenance.cli._frame import Json
    from provenance.services.generations import Generation, Listed
    from provenance.services.rotating import Rotation, Rotator
    from provenance.services.rotation_plan import Plan


@click.group()
def command() -> None:
    """List the streams; continue one whose log lost something.

    A stream is one partition of the log, as the chain knows it. When its log was cut, made anew or emptied,
    the batcher stops and says what is lost: going on silently would hide it.

    \b
    Example:
      provenance stream list
    """


@command.command("list")
@folder_option
@json_option
def list_(folder: Path, as_json: bool) -> None:
    """Show every stream: partition, generation, start, head, and why it is not usable if it is not.

    \b
    Example:
      provenance stream list --json
    """
    from provenance import bootstrap_chain, config
    from provenance.services.generations import list_streams

    parts = bootstrap_chain.batcher(config.load(folder))
    found = list_streams(parts.log, parts.reader, parts.store, org=parts.org)
    emit({"streams": [_row(one) for one in found]}, as_json=as_json, render=lambda: _rows(found))


@command.command()
@click.argument("which", metavar="[STREAM|PARTITION]", required=False)
@click.option("--yes", is_flag=True, help="Do it; what is lost has been read.")
@click.option("--dry-run", is_flag=True, help="Say what would be done and what is lost, and do nothing.")
@click.option("--anyway", is_flag=True, help="Also where nothing is wrong, as after a stolen key.")
@folder_option
@json_option
def rotate(which: str | None, yes: bool, dry_run: bool, anyway: bool, folder: Path, as_json: bool) -> None:
    """Close a stream that cannot go on, and open its successor.

    First it is said what was lost: which anchored offsets the log no longer holds (the batch files do, and
    they stay provable), and which were never anchored. The successor begins at the first offset where the log
    stops matching what was anchored, or where the log begins now, and names the last good position.

    Without an argument every partition whose stream cannot go on is rotated. Nothing is done without --yes,
    or the partition's name typed on a terminal. It can be interrupted, and called again: it goes on.

    \b
    Example:
      provenance stream rotate --dry-run
      provenance stream rotate 0 --yes
    """
    from provenance import bootstrap_chain, config

    if anyway and which is None:
        raise click.UsageError("--anyway needs a stream or a partition")
    settings = config.load(folder)
    with bootstrap_chain.batcher_lock(settings):
        rotator = bootstrap_chain.rotator(settings)
        with progress("comparing log and batch files") as advance:
            plans = rotator.plans(which, anyway=anyway, on_read=advance)
        done = [] if dry_run else _carry_out(rotator, plans, yes=yes, quiet=as_json)
    result: dict[str, Json] = {
        "plans": [_plan(plan) for plan in plans],
        "rotated": [{"stream": one.plan.old.name.hex(), "successor": one.successor.hex()} for one in done],
    }
    emit(result, as_json=as_json, render=lambda: _outcome(plans, done, dry_run=dry_run))


def _carry_out(rotator: Rotator, plans: list[Plan], *, yes: bool, quiet: bool) -> list[Rotation]:
    done = []
    for plan in plans:
        if not quiet:
            for line in _plan_lines(plan):
                click.echo(line, err=True)
        if not yes:
            _confirm(plan, quiet=quiet)
        done.append(rotator.rotate(plan))
    return done


def _confirm(plan: Plan, *, quiet: bool) -> None:
    from provenance.errors import ConfigError

    name = f"{plan.log.topic}/{plan.log.partition}"
    if quiet or not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise ConfigError(
            f"{name}: nothing was done, for nobody confirmed it",
            reason="not-confirmed",
            remedy="Read what is lost (--dry-run), then call it again with --yes.",
        )
    typed = click.prompt(f"Type {printable(name)} to go on", default="", show_default=False, err=True)
    if typed.strip() != name:
        raise ConfigError(
            f"{name}: nothing was done; expected its name, found {typed.strip()!r:.80}",
            reason="not-confirmed",
        )


# ------------------------------------------------------------------------------------------------------ words


def _row(listed: Listed) -> Json:
    one, log = listed.generation, listed.log
    row: dict[str, Any] = {
        "topic": None if listed.at is None else listed.at[0],
        "partition": None if listed.at is None else listed.at[1],
        "topic_id": None if log is None else log.topic_id,
        "state": listed.state,
        "why": None if listed.why is None else {"reason": listed.why.reason, "message": listed.why.message},
        "stream": None,
    }
    if one is not None:
        row |= _stream(one)
    return row


def _stream(one: Generation) -> dict[str, Json]:
    before = one.continued
    return {
        "stream": one.name.hex(),
        "generation": one.opening.generation,
        "start": one.opening.start_offset,
        "seq": one.head.seq,
        "next_offset": one.head.next_offset,
        "acc": one.head.acc.hex(),
        "closed": one.head.closed,
        "continues": None if before is None else {"stream": before.stream.hex(), "seq": before.seq},
    }


def _rows(found: list[Listed]) -> Iterator[str]:
    if not found:
        yield "there is no stream yet: the first `provenance batch` opens it"
    for listed in found:
        place = "an unknown partition" if listed.at is None else f"{printable(listed.at[0])}/{listed.at[1]}"
        one = listed.generation
        if one is None:
            yield f"{place}: no stream yet"
            continue
        yield (
            f"{place}: stream {one.name.hex()[:16]}, generation {one.opening.generation}, from offset"
            f" {one.opening.start_offset:,} to {one.head.next_offset:,}, seq {one.head.seq}, {listed.state}"
        )
        if one.continued is not None:
            before = one.continued
            yield f"  continues stream {before.stream.hex()[:16]} behind seq {before.seq}"
        if listed.why is not None:
            yield f"  {printable(listed.why.message)}"
            yield f"  next: {printable(listed.why.remedy)}"


def _plan(plan: Plan) -> Json:
    return {
        "topic": plan.log.topic,
        "partition": plan.log.partition,
        "stream": plan.old.name.hex(),
        "reason": "" if plan.why is None else plan.why.reason,
        "message": "" if plan.why is None else plan.why.message,
        "seq": plan.old.head.seq,
        "next_offset": plan.old.head.next_offset,
        "replaced": None if plan.replaced is None else list(plan.replaced),
        "lost": None if plan.lost is None else list(plan.lost),
        "unknown_from": plan.behind,
        "missing_files": list(plan.missing),
        "generation": plan.generation,
        "start": plan.start,
        "continues": {
            "stream": plan.continued.stream.hex(),
            "seq": plan.continued.seq,
            "acc": plan.continued.acc.hex(),
        },
        "endpoints": plan.endpoints,
    }


def _plan_lines(plan: Plan) -> Iterator[str]:
    old, head = plan.old, plan.old.head
    yield f"{printable(plan.log.topic)}/{plan.log.partition}: stream {old.name.hex()}"
    yield f"  why: {'it is wanted; nothing is wrong' if plan.why is None else printable(plan.why.message)}"
    yield from (f"  {line}" for line in _losses(plan))
    covered = f"offsets {_range((old.start_offset, head.next_offset))}, {counted(head.seq, 'batch')}"
    yield f"  stays provable from chain and batch files: {covered}"
    if plan.missing:
        seqs = ", ".join(str(seq) for seq in plan.missing[:20])
        yield f"  but no batch file is there for seq {seqs}: what these held is lost, unless a copy has it"
    yield (
        f"  closes it{'' if plan.needs_close else ' (done already)'}, and opens generation {plan.generation}"
        f" from offset {plan.start:,}, which continues stream {plan.continued.stream.hex()[:16]} behind seq"
        f" {plan.continued.seq}"
    )
    if plan.endpoints == 1:
        yield "  the head was read from one endpoint only; chain.confirm_url names a second one to confirm it"
    else:
        yield "  two endpoints of the chain agree on the head"


def _losses(plan: Plan) -> Iterator[str]:
    if plan.replaced is not None:
        yield f"anchored, and no longer in the log as it was: offsets {_range(plan.replaced)}"
    if plan.lost is not None:
        yield f"LOST, deleted before it was anchored: offsets {_range(plan.lost)}"
    if plan.behind is not None:
        yield (
            f"LOST, if there was any: what stood at offset {plan.behind:,} and behind before, and was never"
            " anchored; how much nobody here knows"
        )
    if plan.replaced is None and plan.lost is None and plan.behind is None:
        yield "nothing is lost"


def _range(pair: tuple[int, int]) -> str:
    start, until = pair
    return "none" if start == until else f"{start:,} to {until - 1:,} ({until - start:,})"


def _outcome(plans: list[Plan], done: list[Rotation], *, dry_run: bool) -> Iterator[str]:
    if not plans:
        yield "every stream is usable: there is nothing to rotate"
    if dry_run:
        for plan in plans:
            yield from _plan_lines(plan)
        return
    for one in done:
        yield (
            f"stream {one.plan.old.name.hex()[:16]} is closed; its successor is {one.successor.hex()}, from"
            f" offset {one.plan.start:,}"
        )
    if done:
        yield "  next: provenance batch"
