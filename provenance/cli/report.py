"""``provenance report``: one page about a run, every figure with what it rests on."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import click

from provenance.cli._frame import (
    code_option,
    emit,
    folder_option,
    json_option,
    local_path,
    printable,
    progress,
)

if TYPE_CHECKING:
    from pathlib import Path

    from provenance.cli._frame import Json


@click.command()
@click.argument("run", required=False)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, writable=True),
    callback=local_path,
    default="report.html",
    show_default=True,
    help="Where to write the page.",
)
@click.option(
    "--level",
    type=click.Choice(["chain", "data", "replay"]),
    default="data",
    show_default=True,
    help="How deep the audit goes that the page shows.",
)
@code_option
@folder_option
@json_option
def command(run: str | None, out: str, level: str, code: str, folder: Path, as_json: bool) -> None:
    """Write the report of a run.

    One page of HTML that loads nothing from anywhere: dataset, stages, rejected files, anchors, an audit made
    for it, and what models were trained on. Each figure says whether it is proved, on a node's word,
    computed, sampled or asserted. Names are tokens. RUN is the beginning of a run's id; the latest sealed run
    if left out.

    The page is written whatever the audit finds; its exit code is the audit's.

    \b
    Example:
      provenance report --out report.html
    """
    from importlib.metadata import version
    from pathlib import Path

    from provenance import bootstrap, config, files
    from provenance.services.report import build_report

    settings = config.load(folder)
    with contextlib.ExitStack() as stack:
        replayer = stack.enter_context(bootstrap.replayer(settings, code=code)) if level == "replay" else None
        report = build_report(
            bootstrap.audit_ports(settings, replayer=replayer),
            run,
            level=level,
            now=bootstrap.clock().now(),
            version=version("provenance-ledger"),
            progress=progress,
        )
    page = bootstrap.render_report(report).encode()
    files.write_file(Path(out).absolute(), page)
    audit = report.audit
    verdicts: dict[str, Json] = {one: audit.verdict(one) for one in ("chain", "data", "replay")}
    result: dict[str, Json] = {"report": out, "bytes": len(page), "run": report.run.id, "verdicts": verdicts}
    result |= {"evidence": audit.evidence.value, "exit_code": audit.exit_code}
    shown = ", ".join(f"{one} {audit.verdict(one)}" for one in audit.levels)
    lines = [f"{printable(out)}: run {report.run.id[:12]}, {shown}, {audit.evidence.value}"]
    emit(result, as_json=as_json, render=lambda: lines)
    click.get_current_context().exit(audit.exit_code)
