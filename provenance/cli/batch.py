"""``provenance batch``: anchor what waits in the log."""

from __future__ import annotations

import logging
import signal
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from provenance.cli._frame import emit, folder_option, json_option, printable, progress
from provenance.cli._words import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from provenance.cli._frame import Json
    from provenance.config import Settings
    from provenance.core.batcher import Limits
    from provenance.ports import Anchor
    from provenance.services.batching import Components, Outcome


@click.command()
@click.option("--once/--follow", default=True, help="Stop when all is final, or go on.  [default: once]")
@click.option("--max-records", type=int, help="Close a batch at so many records.")
@click.option("--max-bytes", type=int, help="Close a batch before its records exceed this.")
@click.option("--max-age", type=float, help="With --follow, close a batch after so many seconds.")
@folder_option
@json_option
def command(
    once: bool,
    max_records: int | None,
    max_bytes: int | None,
    max_age: float | None,
    folder: Path,
    as_json: bool,
) -> None:
    """Anchor the records that wait in the log.

    Records are put together into batches; each batch becomes a file in the batch store and one Merkle root
    on the chain. Without --follow everything that is in the log now is anchored, and final when the command
    ends. It can be interrupted at any point, and begun again: nothing is lost, and nothing is anchored twice.

    The limits are those of the settings ([batch] in provenance.toml) unless they are given here. --follow
    ends at once on SIGTERM or SIGINT.

    \b
    Example:
      provenance batch
      provenance batch --follow --max-age 60
    """
    from provenance import bootstrap_chain, config

    settings = config.load(folder)
    given = {"max_records": max_records, "max_bytes": max_bytes, "max_age": max_age}
    chosen: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    limits = replace(bootstrap_chain.batch_limits(settings), **chosen)
    run = _once if once else _follow
    with bootstrap_chain.batcher_lock(settings):
        outcome = run(settings, limits)
    emit(_result(outcome), as_json=as_json, render=lambda: _lines(outcome))
    if outcome.index_error is not None:
        click.get_current_context().exit(outcome.index_error.exit_code)


def _once(settings: Settings, limits: Limits) -> Outcome:
    from provenance import bootstrap_chain
    from provenance.services.batching import run_once

    components = bootstrap_chain.batcher(settings)
    with progress("anchoring", total=_waiting(components)) as advance:
        return run_once(components, limits, on_final=_count(advance))


def _count(advance: Callable[[int], None]) -> Callable[[Anchor], None]:
    return lambda anchor: advance(anchor.next_offset - anchor.first_offset)


def _waiting(components: Components) -> int:
    """How many offsets wait; for the progress bar, so the contract need not be there yet."""
    from provenance.errors import UnavailableError
    from provenance.services.status import look_at_log, look_at_streams

    try:
        found = look_at_streams(components.log, components.reader, components.publisher, org=components.org)
    except UnavailableError:
        found = look_at_log(components.log)
    return sum(partition.waiting for partition in found)


def _follow(settings: Settings, limits: Limits) -> Outcome:
    from provenance import bootstrap_chain
    from provenance.services.batching import run_forever

    asked = False

    def ask_to_stop(number: int, frame: object) -> None:
        nonlocal asked
        asked = True

    before = {number: signal.signal(number, ask_to_stop) for number in (signal.SIGTERM, signal.SIGINT)}
    log = logging.getLogger("provenance.batcher")
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        return run_forever(bootstrap_chain.batcher(settings), limits, stop=lambda: asked)
    finally:
        log.removeHandler(handler)
        for number, action in before.items():
            signal.signal(number, action)


def _result(outcome: Outcome) -> dict[str, Json]:
    positions: dict[str, Json] = {
        stream.hex(): {"seq": anchor.seq, "next_offset": anchor.next_offset, "acc": anchor.acc.hex()}
        for stream, anchor in outcome.positions.items()
    }
    again: list[Json] = [
        {"stream": part.stream.hex(), "first": part.first, "last": part.last} for part in outcome.again
    ]
    return {
        "batches": outcome.batches,
        "records": outcome.records,
        "rejected": outcome.indexed.rejected,
        "gas": outcome.gas,
        "positions": positions,
        "deployed": outcome.deployed,
        "anchored_again": again,
        "index_error": "" if outcome.index_error is None else outcome.index_error.message,
    }


def _lines(outcome: Outcome) -> Iterator[str]:
    if outcome.deployed:
        yield "the chain had no contract: it was deployed"
    for part in outcome.again:
        count = part.last - part.first + 1
        yield (
            f"stream {part.stream.hex()[:16]}: the chain lacked {counted(count, 'batch')}, to seq"
            f" {part.last}; they were anchored from their files"
        )
    if outcome.index_error is not None:
        yield f"the index lags: {printable(outcome.index_error.message)}"
        yield f"  next: {printable(outcome.index_error.remedy)} Then: provenance index rebuild"
    if not outcome.batches:
        yield "nothing to anchor: all that is in the log is final"
        return
    counts = f"{counted(outcome.records, 'record')} in {counted(outcome.batches, 'batch')}"
    yield f"anchored and final: {counts}, {outcome.gas:,} gas"
    for stream, anchor in outcome.positions.items():
        yield f"  stream {stream.hex()[:16]}: seq {anchor.seq}, next offset {anchor.next_offset:,}"
    if outcome.indexed.rejected:
        yield f"  {outcome.indexed.rejected:,} messages are no valid records; they are anchored all the same"
