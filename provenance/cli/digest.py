"""``provenance digest``: like `sha256sum`, for what data hold."""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import TYPE_CHECKING, BinaryIO

import click

from provenance.cli._frame import describe, emit, json_option, print_failure, printable, progress
from provenance.errors import MalformedError, ProvenanceError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from provenance.cli._frame import Json
    from provenance.core.digests import Digest
    from provenance.services.digesting import Checked

__all__ = ["command"]

_MAX_THREADS = 8
_EXIT_FAILED = 1
_EXIT_MALFORMED = 2


@click.command()
@click.argument("paths", nargs=-1, metavar="[PATH]...", type=click.Path(readable=False))
@click.option(
    "--kind",
    type=click.Choice(["table1", "array1", "tree1", "sha256"]),
    help="Take this digest.  [default: what fits the content]",
)
@click.option("--blake3", is_flag=True, help="Hash with BLAKE3 instead of SHA-256; folders cannot be.")
@click.option("--check", "listed", metavar="LIST", type=click.File("rb"), help="Check the digests in LIST.")
@json_option
def command(
    paths: tuple[str, ...], kind: str | None, blake3: bool, listed: BinaryIO | None, as_json: bool
) -> None:
    """Print digests of data: like sha256sum, but of what is in it.

    Tables (Parquet, Arrow, CSV) have a table1 digest, arrays and recordings (.npy, WAV, FLAC) an array1
    digest: equal content has an equal digest, in whatever format and chunks it is stored. Folders, Zarr
    stores among them, have a tree1 digest of their files, all other files sha256, as sha256sum prints it.

    The output is a list that --check reads, as it reads that of sha256sum.

    \b
    Example:
      provenance digest features/*.parquet > LIST
      provenance digest --check LIST
    """
    if bool(paths) == (listed is not None):
        raise click.UsageError("give either paths, or --check with one list")
    if listed is None:
        _print_digests(paths, kind, "blake3" if blake3 else "sha256", as_json=as_json)
    elif kind or blake3:
        raise click.UsageError("--check takes kind and hash from the list")
    else:
        _check_list(listed, as_json=as_json)


def _take(path: str, kind: str | None, algorithm: str) -> Digest:
    from provenance.bootstrap import digest

    return digest(path, kind, algorithm, threads=min(os.cpu_count() or 1, _MAX_THREADS))


def _shown(path: str) -> str:
    """A path for JSON and messages: bytes that are no text are written ``\\xff``."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _write(line: bytes) -> None:
    """A line of output, as it is to a file or pipe, and made harmless for a terminal."""
    click.echo(printable(os.fsdecode(line)) if sys.stdout.isatty() else line)


# -------------------------------------------------------------------------------------------------- digesting


def _print_digests(paths: tuple[str, ...], kind: str | None, algorithm: str, *, as_json: bool) -> None:
    from provenance.core.digests import encode_line

    results: list[Json] = []
    errors: list[Json] = []
    worst = 0
    with progress("digesting", len(paths)) as done:
        for path in paths:
            try:
                found = _take(path, kind, algorithm)
            except ProvenanceError as error:
                worst = max(worst, error.exit_code)
                errors.append(_error(path, error))
                if not as_json:
                    print_failure(describe(error), as_json=False)
            else:
                if as_json:
                    results.append({"path": _shown(path), **_details(found)})
                else:
                    _write(encode_line(found, os.fsencode(path)))
            done(1)
    if as_json:
        emit({"digests": results, "errors": errors}, as_json=True, render=tuple)
    click.get_current_context().exit(worst)


def _error(path: str, error: ProvenanceError) -> dict[str, Json]:
    return {
        "path": _shown(path),
        "reason": error.reason,
        "message": error.message,
        "remedy": error.remedy,
        "exit_code": error.exit_code,
    }


def _details(found: Digest) -> dict[str, Json]:
    """The digest with its parts: columns and their blocks, blocks of an array, files of a tree."""
    kind = found.kind.partition("-")[0]
    details: dict[str, Json] = {"digest": str(found), "kind": found.kind, "bytes": found.nbytes}
    if kind == "table1":
        details["rows"] = found.rows
        details["columns"] = [
            {
                "name": column.name,
                "type": column.type,
                "digest": column.value.hex(),
                "blocks": [block.hex() for block in column.blocks],
            }
            for column in found.columns
        ]
    elif kind == "array1":
        details |= {"type": found.type, "shape": list(found.shape or ())}
        details["blocks"] = [block.hex() for block in found.blocks]
    elif kind == "tree1":
        details["files"] = [
            {"path": entry.path, "bytes": entry.size, "sha256": entry.sha256.hex()} for entry in found.entries
        ]
    return details


# --------------------------------------------------------------------------------------------------- checking


def _check_list(listed: BinaryIO, *, as_json: bool) -> None:
    from provenance.core.digests import decode_line

    results: list[Json] = []
    failed = malformed = 0
    for number, line in _lines(listed):
        try:
            expected, name = decode_line(line)
        except MalformedError as error:
            malformed += 1
            click.echo(f"line {number}: {printable(error.message)}", err=True)
            continue
        outcome = _checked(expected, os.fsdecode(name))
        failed += not outcome.holds
        results.append(_result(os.fsdecode(name), outcome))
        if not as_json:
            _print_outcome(name, outcome)
    _summarise(len(results), failed, malformed)
    if as_json:
        emit({"checked": results, "failed": failed, "malformed": malformed}, as_json=True, render=tuple)
    exit_code = _EXIT_FAILED if failed else _EXIT_MALFORMED if malformed or not results else 0
    click.get_current_context().exit(exit_code)


def _lines(listed: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """The numbered lines of a list but comments and empty ones; one longer than a path comes in parts."""
    from provenance.core.digests import MAX_LINE_BYTES

    for number, line in enumerate(iter(partial(listed.readline, MAX_LINE_BYTES + 2), b""), 1):
        text = line.rstrip(b"\r\n")
        if text and not text.startswith(b"#"):
            yield number, text


def _checked(expected: Digest, path: str) -> Checked:
    from provenance.services.digesting import check

    return check(expected, partial(_take, path))


def _result(path: str, outcome: Checked) -> dict[str, Json]:
    result: dict[str, Json] = {"path": _shown(path), "ok": outcome.holds, "expected": str(outcome.expected)}
    if outcome.actual is not None:
        result["actual"] = str(outcome.actual)
    if outcome.error is not None:
        result["error"] = _error(path, outcome.error)
    return result


def _print_outcome(name: bytes, outcome: Checked) -> None:
    from provenance.core.digests import escape_name

    mark, written = escape_name(name)
    verdict = b"OK" if outcome.holds else b"FAILED" if outcome.error is None else b"FAILED open or read"
    _write(mark + written + b": " + verdict)
    if outcome.error is not None:
        print_failure(describe(outcome.error), as_json=False)


def _summarise(checked: int, failed: int, malformed: int) -> None:
    notes = (
        (malformed, f"{malformed} lines of the list are malformed"),
        (failed, f"{failed} of {checked} did NOT match"),
        (not checked, "the list has no digests"),
    )
    for there, note in notes:
        if there:
            click.echo(f"warning: {note}", err=True)
