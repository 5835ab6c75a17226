"""``provenance down``: stop the embedded chain."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from provenance.cli._frame import emit, folder_option, json_option

if TYPE_CHECKING:
    from pathlib import Path


@click.command()
@folder_option
@json_option
def command(folder: Path, as_json: bool) -> None:
    """Stop the embedded chain.

    Its state is written to the folder first. Recording goes on without it: records wait in the log.

    \b
    Example:
      provenance down
    """
    from provenance import bootstrap_chain, config

    stopped = bootstrap_chain.stop_chain(config.load(folder))
    line = "the chain is stopped" if stopped else "no chain was running"
    emit({"stopped": stopped}, as_json=as_json, render=lambda: [line])
