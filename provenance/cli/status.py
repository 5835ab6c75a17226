"""``provenance status``: what runs, what waits, what is anchored."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from provenance.cli._frame import emit, folder_option, json_option, printable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from provenance.cli._frame import Json
    from provenance.config import Settings
    from provenance.errors import ProvenanceError
    from provenance.services.status import PartitionStatus


@click.command()
@click.option("--check", is_flag=True, help="Exit with 4 if records wait, 3 if the chain does not answer.")
@folder_option
@json_option
def command(check: bool, folder: Path, as_json: bool) -> None:
    """Show what runs, what waits and what is anchored.

    For each partition of the log: its offsets, its stream's head, and how many offsets are sequenced (in the
    log only), anchored (in a block) and final (by the chain's own rule). Without the chain the log alone is
    shown.

    \b
    Example:
      provenance status
      provenance status --check --json
    """
    from provenance import bootstrap, config
    from provenance.errors import PendingError

    settings = config.load(folder)
    if not settings.log_bootstrap and not settings.log_path.exists():
        emit(
            {"log": False, "partitions": [], "journal": 0, "chain": {"up": False}},
            as_json=as_json,
            render=lambda: [f"{folder}: nothing was recorded yet"],
        )
        return
    found, trouble = _look(settings)
    journal = len(bootstrap.journal(settings).entries()) if settings.journal_path.exists() else 0
    result: dict[str, Json] = {
        "log": True,
        "partitions": [_partition(part, known=trouble is None) for part in found],
        "journal": journal,
        "chain": {"up": trouble is None, "trouble": "" if trouble is None else trouble.message},
    }
    emit(result, as_json=as_json, render=lambda: _lines(found, journal, trouble))
    if check and trouble is not None:
        click.get_current_context().exit(trouble.exit_code)
    if check and any(part.waiting + part.anchored for part in found):
        click.get_current_context().exit(PendingError.exit_code)


def _look(settings: Settings) -> tuple[list[PartitionStatus], ProvenanceError | None]:
    from provenance import bootstrap, bootstrap_chain
    from provenance.errors import ConfigError, UnavailableError
    from provenance.services.status import look_at_log, look_at_streams

    try:
        parts = bootstrap_chain.batcher(settings)
        return look_at_streams(parts.log, parts.reader, parts.publisher, org=parts.org), None
    except (UnavailableError, ConfigError) as error:  # down, not set up, or its packages are not installed
        return look_at_log(bootstrap.event_log(settings)), error


def _partition(part: PartitionStatus, *, known: bool) -> Json:
    head = part.head
    return {
        "topic": part.log.topic,
        "partition": part.log.partition,
        "topic_id": part.log.topic_id,
        "start": part.bounds.start,
        "end": part.bounds.end,
        "stream": None if head is None else head.stream.hex(),
        "seq": None if head is None else head.seq,
        "next_offset": None if head is None else head.next_offset,
        "acc": None if head is None else head.acc.hex(),
        "sequenced": part.waiting if known else None,
        "anchored": part.anchored if known else None,
        "final": part.final if known else None,
    }


def _lines(found: list[PartitionStatus], journal: int, trouble: ProvenanceError | None) -> Iterator[str]:
    for part in found:
        name = f"{printable(part.log.topic)}/{part.log.partition}"
        yield f"log {name}: offsets {part.bounds.start:,} to {part.bounds.end:,}"
        if part.head is not None:
            stream = part.head.stream.hex()[:16]
            yield f"  stream {stream}: seq {part.head.seq}, next offset {part.head.next_offset:,}"
        if trouble is None:
            yield f"  sequenced {part.waiting:,}, anchored {part.anchored:,}, final {part.final:,}"
    if trouble is not None:
        yield f"chain: {printable(trouble.message)}; how much is anchored is not known without it"
        yield f"  next: {printable(trouble.remedy)}"
    if journal:
        yield f"journal: {journal} transactions signed and not seen final yet"
