"""``provenance audit``: does what is anchored hold, are the bytes still those, do they come out again."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import click

from provenance.cli._frame import code_option, emit, folder_option, json_option, printable, progress
from provenance.cli._words import counted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from provenance.services.audit import AuditReport, Finding, RunAudit

_MARKS = {"error": "red", "unreachable": "yellow", "pending": "yellow", "warning": "yellow", "note": ""}


@click.command()
@click.argument("run", required=False)
@click.option(
    "--level",
    type=click.Choice(["chain", "data", "replay"]),
    default="data",
    show_default=True,
    help="How deep: each level includes those before it.",
)
@click.option("--all", "every_run", is_flag=True, help="Audit every sealed run.")
@code_option
@folder_option
@json_option
def command(run: str | None, level: str, every_run: bool, code: str, folder: Path, as_json: bool) -> None:
    """Check a run against the chain, its data or a replay.

    RUN is the beginning of a run's id, 4 digits or more; the latest sealed run if it is left out. Level chain
    checks every batch file, record and signature, and that the run is complete; data reads every stored byte
    again; replay computes everything again from the raw files.

    Exit codes: 0 passed, 1 something does not hold, 3 something cannot be reached, 4 anchors are pending.

    \b
    Example:
      provenance audit
      provenance audit 4e2204d7 --level replay
      provenance audit --level replay --code ../pipelines
    """
    from provenance import bootstrap, config
    from provenance.services.audit import audit

    if run is not None and every_run:
        raise click.UsageError("RUN and --all exclude each other")
    settings = config.load(folder)
    with contextlib.ExitStack() as stack:
        replayer = stack.enter_context(bootstrap.replayer(settings, code=code)) if level == "replay" else None
        ports = bootstrap.audit_ports(settings, replayer=replayer)
        report = audit(ports, run, level=level, every_run=every_run, progress=progress)
    emit(report.as_json(), as_json=as_json, render=lambda: _lines(report))
    click.get_current_context().exit(report.exit_code)


def _lines(report: AuditReport) -> Iterator[str]:
    for run in report.runs:
        yield _run_line(run)
    yield from _level_lines(report)
    yield f"{report.evidence.value}: chain {report.chain.chain_id} ({report.chain.kind}) has no seals"
    for finding in report.findings:
        yield ""
        yield from _finding_lines(finding)
    for code, count in report.omitted.items():
        yield f"\n{count:,} more of {code}"


def _run_line(run: RunAudit) -> str:
    state = "complete" if run.complete else "NOT complete"
    return f"run {run.id[:12]}  {printable(run.name)}, sealed as {run.status} {run.ended}: {state}"


def _level_lines(report: AuditReport) -> Iterator[str]:
    counts, data = report.counts, report.data
    waiting = f", {counted(counts.pending, 'record')} pending" if counts.pending else ""
    texts = {
        "chain": f"{counted(counts.streams, 'stream')}, {counted(counts.batches, 'batch')}, "
        f"{counted(counts.records, 'record')} ({counts.rejected:,} rejected), "
        f"{counted(counts.signatures, 'signature')}, {counts.gas:,} gas{waiting}",
        "data": f"{counted(data.raw_files, 'raw file')}, {counted(data.stored_parts, 'stored part')} in "
        f"{counted(data.objects, 'object')}, {counted(data.bytes, 'byte')}",
        "replay": ", ".join(
            f"{stage.name} {stage.replay.words}"
            for run in report.runs
            for stage in run.stages
            if stage.replay is not None
        )
        or "nothing was replayed",
    }
    for level in report.levels:
        verdict = report.verdict(level)
        mark = click.style(f"{verdict:7}", fg="green" if verdict == "passed" else "red")
        yield f"{level:7} {mark} {printable(texts[level])}"


def _finding_lines(finding: Finding) -> Iterator[str]:
    word = finding.severity.word
    head = click.style(word, fg=_MARKS[word] or None, bold=word == "error")
    where = [
        f"stream {finding.stream[:12]}" if finding.stream else "",
        f"seq {finding.seq}" if finding.seq is not None else "",
        f"offset {finding.offset}" if finding.offset is not None else "",
        f"byte {finding.byte}" if finding.byte is not None else "",
        finding.object,
        finding.chunk,
    ]
    place = ", ".join(part for part in where if part)
    yield f"{head} {finding.code}: {printable(finding.message)}"
    if place:
        yield f"  at: {printable(place)}"
    if finding.detail:
        yield f"  detail: {printable(finding.detail)}"
    if finding.expected or finding.actual:
        expected, actual = finding.expected or "nothing", finding.actual or "nothing"
        yield f"  expected {printable(expected)}, found {printable(actual)}"
    if finding.next_step:
        yield f"  next: {printable(finding.next_step)}"
