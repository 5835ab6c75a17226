"""``provenance prove``: a file that shows where a shard comes from to whoever has only that file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from provenance.cli._frame import emit, folder_option, json_option, local_path, printable, progress
from provenance.cli._words import counted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from provenance.services.prove import Proved


@click.command()
@click.argument("thing", metavar="SHARD|RECORD|RUN")
@click.option("--run", metavar="RUN", help="The run of a STAGE/NUMBER.  [default: the latest sealed one]")
@click.option("--ancestors", is_flag=True, help="Carry all records that it descends from, up to raw.")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, writable=True),
    callback=local_path,
    default="proof.json",
    show_default=True,
    help="Where to write the proof.",
)
@folder_option
@json_option
def command(thing: str, run: str | None, ancestors: bool, out: str, folder: Path, as_json: bool) -> None:
    """Write a proof file that needs no node and no database.

    A shard is named by its stored file or folder, or as STAGE/NUMBER; a record or a run by the first 8 or
    more digits of its id. A run's proof holds all that the run stored. The trust file of the embedded chain
    is written to trust.toml in the folder; an auditor brings their own.

    \b
    Example:
      provenance prove features/3 --ancestors
      provenance verify proof.json --trust .provenance/trust.toml --file features.zarr/p00003/mel
    """
    from pathlib import Path

    from provenance import bootstrap, config, files
    from provenance.services.prove import prove
    from provenance.services.verify import checked_json

    settings = config.load(folder)
    proved = prove(bootstrap.audit_ports(settings), thing, run=run, ancestors=ancestors, progress=progress)
    trust = bootstrap.write_trust(settings)
    files.write_file(Path(out).absolute(), proved.data)
    result = {**checked_json(proved.checked), "proof": out, "bytes": len(proved.data), "trust": str(trust)}
    emit(result, as_json=as_json, render=lambda: _lines(proved, out, trust))


def _lines(proved: Proved, out: str, trust: Path) -> Iterator[str]:
    checked = proved.checked
    above = f", {counted(len(checked.ancestors), 'ancestor')}" if checked.ancestors else ""
    yield f"{printable(out)}: {counted(len(checked.shards), 'record')}{above}, {len(proved.data):,} bytes"
    yield f"{checked.evidence.value}: chain {checked.chain_id} has no seals"
    yield f"next: provenance verify {printable(out)} --trust {printable(str(trust))}"
