"""``provenance index``: the index, which is a cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from provenance.cli._frame import emit, folder_option, json_option, progress
from provenance.cli._words import counted

if TYPE_CHECKING:
    from pathlib import Path

    from provenance.cli._frame import Json
    from provenance.services.indexing import Indexed


@click.group()
def command() -> None:
    """Rebuild the index from the batch files.

    The index only finds records quickly; nothing is believed because it says so.

    \b
    Example:
      provenance index rebuild
    """


@command.command()
@folder_option
@json_option
def rebuild(folder: Path, as_json: bool) -> None:
    """Make the index anew, from the chain and the batch files.

    Every batch file is checked against the chain as it is read.

    \b
    Example:
      provenance index rebuild
    """
    from provenance import bootstrap, bootstrap_chain, config
    from provenance.services.indexing import rebuild_index

    settings = config.load(folder)
    parts = bootstrap_chain.batcher(settings)
    total = sum(head.seq for stream, _, _ in parts.reader.openings() if (head := parts.reader.head(stream)))
    with progress("indexing", total=total) as advance:
        found = rebuild_index(
            bootstrap.index(settings),
            parts.reader,
            parts.store,
            is_final=parts.publisher.is_final,
            on_batch=lambda _: advance(1),
        )
    result: dict[str, Json] = {
        "batches": found.batches,
        "records": found.records,
        "rejected": found.rejected,
    }
    emit(result, as_json=as_json, render=lambda: _lines(found))


def _lines(found: Indexed) -> list[str]:
    counts = f"{counted(found.records, 'record')} of {counted(found.batches, 'batch')}"
    return [f"indexed {counts} ({found.rejected:,} rejected)"]
