"""``provenance verify``: check a proof file against a trust file, offline."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from provenance.cli._frame import emit, json_option, printable
from provenance.cli._words import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from provenance.core.proof_check import CheckedRecord
    from provenance.services.verify import Verified

_SHOWN = 10
_existing = click.Path(exists=True, dir_okay=False)


@click.command()
@click.argument("proof", type=_existing)
@click.option("--trust", required=True, type=_existing, help="Your trust file: chain, contract, keys.")
@click.option(
    "--file",
    "paths",
    multiple=True,
    type=click.Path(exists=True),
    metavar="PATH",
    help="A stored file or folder that is said to be the proved shard; may be repeated.",
)
@json_option
def command(proof: str, trust: str, paths: tuple[str, ...], as_json: bool) -> None:
    """Check a proof file against a trust file, offline.

    No node, no database and no network is asked. What the file does not show, or this version cannot check,
    is listed. A file given with --file must be one of the proved shards, byte for byte.

    \b
    Example:
      provenance verify proof.json --trust trust.toml --file features.zarr/p00003/mel
    """
    from pathlib import Path

    from provenance import bootstrap, files
    from provenance.core import proofs
    from provenance.core import trust as trust_file
    from provenance.errors import MalformedError
    from provenance.services.verify import checked_json, verify

    data = files.read_file(Path(proof).resolve(), proofs.MAX_BYTES) or b""
    text = files.read_file(Path(trust).resolve(), trust_file.MAX_BYTES) or b""
    try:
        believed = text.decode()
    except UnicodeDecodeError as error:
        raise MalformedError(f"{trust}: not UTF-8", reason="trust-toml") from error
    result = verify(data, believed, paths=paths, files=bootstrap.stored_files())
    document = {
        "verified": True,
        **checked_json(result.checked),
        "files": result.files,
        "unchecked": list(result.unchecked),
    }
    emit(document, as_json=as_json, render=lambda: _lines(proof, result))


def _lines(proof: str, result: Verified) -> Iterator[str]:
    checked = result.checked
    yield f"{printable(proof)}: it holds, {checked.evidence.value}"
    for entry in checked.shards[:_SHOWN]:
        yield f"  {_record_line(entry)}"
    if len(checked.shards) > _SHOWN:
        yield f"  and {len(checked.shards) - _SHOWN:,} more"
    if checked.ancestors:
        yield f"  with {counted(len(checked.ancestors), 'record')} that they descend from"
    if checked.seal is not None:
        seal, signer = checked.seal.seal, checked.seal.signer
        who = f"{printable(signer.name)} (organisation {signer.org})"
        yield f"  run {seal.run.hex()[:12]}, {seal.status}, signed by {who}"
    yield f"  chain {checked.chain_id}, contract 0x{checked.contract.hex()}"
    if result.files:
        given = (
            "1 file given is a proved one"
            if result.files == 1
            else f"{result.files:,} files given are proved ones"
        )
        yield f"  {given}, byte for byte"
    yield "not checked:"
    for sentence in result.unchecked:
        yield f"  {sentence}"


def _record_line(entry: CheckedRecord) -> str:
    what = entry.record.kind
    if entry.partition is not None:
        what = f"stage {printable(entry.stage)}, partition {entry.partition.number}"
    place = f"stream {entry.stream.hex()[:12]}, seq {entry.seq}, offset {entry.offset}"
    return f"{what}: record {entry.record.id.hex()[:12]}, {place}, block {entry.block_number}"
