r"""What every command shares: its options, how it shows results, progress and failures.

A command is three steps, arguments → service → print::

    @click.command()
    @click.argument("run", required=False)
    @folder_option
    @json_option
    def command(run: str | None, folder: Path, as_json: bool) -> None:
        '''Show what is anchored.

        \b
        Example:
          provenance status
        '''
        from provenance.services import status          # heavy imports wait until the command runs

        state = status.look(folder, run)
        emit({"anchored": state.anchored}, as_json=as_json, render=lambda: [f"{state.anchored} are anchored"])

**JSON.** ``--json`` prints one object: ``{"command": "status", "version": 1, …}``, or ``{"version": 1,
"error": {…}}`` when the command failed. Within a version fields are added, never renamed or removed. Results
go to standard output, everything else to standard error.

**Terminals.** Progress, pager and colours are for people: none of them appears where the stream is no
terminal, and ``NO_COLOR`` is obeyed. Names come from outside, so whatever shows one passes it through
`printable` first.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import sys
from dataclasses import dataclass
from itertools import chain, cycle, islice
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from provenance.errors import ProvenanceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

__all__ = [
    "JSON_VERSION",
    "Failure",
    "Json",
    "describe",
    "emit",
    "folder_option",
    "json_option",
    "local_path",
    "print_failure",
    "printable",
    "progress",
    "show",
]

JSON_VERSION = 1

Json: TypeAlias = "bool | int | float | str | list[Json] | tuple[Json, ...] | dict[str, Json] | None"


json_option: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object instead of text."
)


def _folder(ctx: click.Context, param: click.Parameter, value: str | None) -> Path:
    from pathlib import Path

    from provenance import config, files

    if value:
        files.refuse_address(value)
    return Path(value).absolute() if value else config.find_folder()


folder_option: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--folder",
    metavar="DIR",
    callback=_folder,
    type=click.Path(file_okay=False),
    help="Folder of log, batches, index and keys.  [default: the nearest .provenance from here upwards]",
)


def local_path(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """A callback for paths that are to be written: refuses an address, which may hold a password."""
    from provenance import files

    files.refuse_address(value)
    return value


code_option: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--code",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False),
    default=".",
    help="Where a replay finds modules of transforms that are not installed.  [default: the current folder]",
)


def emit(result: Mapping[str, Json], *, as_json: bool, render: Callable[[], Iterable[str]]) -> None:
    """Print a command's result.

    Args:
        result: what ``--json`` shows, besides ``command`` and ``version``; digests as hex, times as text.
        as_json: whether to print that; the value of `json_option`.
        render: gives the lines for people; called only if they are wanted.
    """
    if not as_json:
        show(render())
        return
    # The name of the whole path below the program: "contract verify".
    command = click.get_current_context().command_path.partition(" ")[2]
    _print_json({"command": command, "version": JSON_VERSION, **result})


def show(lines: Iterable[str]) -> None:
    """Print lines; on a terminal, what does not fit goes through the pager (``$PAGER``, else ``less``)."""
    rest = iter(lines)
    if not sys.stdout.isatty():
        for line in rest:
            click.echo(line)
        return
    page = list(islice(rest, shutil.get_terminal_size().lines - 1))
    more = list(islice(rest, 1))
    if more:
        click.echo_via_pager(f"{line}\n" for line in chain(page, more, rest))
    else:
        click.echo("\n".join(page), nl=bool(page))


def printable(text: str) -> str:
    r"""Text from outside, made harmless: what a terminal acts on or cannot show becomes ``\n``, ``\x1b``."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def _print_json(document: Mapping[str, Json]) -> None:
    import json

    # ASCII throughout: a name that is not UTF-8 must stop nothing, and no control code reach the terminal.
    click.echo(json.dumps(document, indent=2 if sys.stdout.isatty() else None, allow_nan=False))


@contextlib.contextmanager
def progress(label: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """A progress bar on standard error while the block runs, only if that is a terminal.

    Args:
        label: what is being done.
        total: how many units there are, if that is known.

    Yields:
        A function to call with the number of units done since the last call.
    """
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    # An iterable without a length makes the bar show that something moves, and no percentage.
    units = None if total is not None else cycle([0])
    with click.progressbar(units, length=total, label=label, file=sys.stderr) as bar:
        yield bar.update


@dataclass(frozen=True, slots=True)
class Failure:
    """How a command failed, as it is told: to people the message and the next step, to programs everything.

    ``kind`` says what the caller can do about it, ``reason`` which fault it is; both are stable. ``details``
    are further fields, such as ``expected`` and ``actual``.
    """

    kind: str
    reason: str
    message: str
    remedy: str
    exit_code: int
    details: tuple[tuple[str, str], ...] = ()


def describe(error: click.ClickException | ProvenanceError | OSError) -> Failure:
    """Put an expected exception into words."""
    if isinstance(error, ProvenanceError):
        kind = type(error).__name__.removesuffix("Error").lower()
        found = ((name, getattr(error, name, None)) for name in ("expected", "actual"))
        details = tuple((name, str(value)) for name, value in found if value is not None)
        return Failure(kind, error.reason, error.message, error.remedy, error.exit_code, details)
    if isinstance(error, click.ClickException):
        ctx = getattr(error, "ctx", None)
        path = ctx.command_path if ctx else "provenance"
        from provenance.files import without_secrets

        message = without_secrets(error.format_message())
        return Failure("usage", "", message, f"See `{path} --help`.", 2)
    return _describe_system_error(error)


def _describe_system_error(error: OSError) -> Failure:
    names = [os.fsdecode(name) for name in (error.filename, error.filename2) if isinstance(name, str | bytes)]
    message = f"the system refused: {error.strerror or error}" + (f": {', '.join(names)}" if names else "")
    remedies = {
        errno.ENOSPC: "Free some space, then call the same command again.",
        errno.EDQUOT: "Free some of the quota, then call the same command again.",
        errno.EROFS: "Choose a place that can be written to.",
        errno.EACCES: "Run as a user who may do that, or change the permissions.",
        errno.EPERM: "Run as a user who may do that, or change the permissions.",
        errno.ENOENT: "Check the path.",
        errno.EMFILE: "Raise the limit of open files (ulimit -n), then call the same command again.",
    }
    reason = errno.errorcode.get(error.errno or 0, "")
    return Failure("system", reason, message, remedies.get(error.errno or 0, ""), 3)


def print_failure(failure: Failure, *, as_json: bool) -> None:
    """Tell a failure: to people on standard error, to programs as JSON on standard output."""
    if as_json:
        told: dict[str, Json] = {"kind": failure.kind, "reason": failure.reason, "message": failure.message}
        told |= {"remedy": failure.remedy, "exit_code": failure.exit_code, **dict(failure.details)}
        _print_json({"version": JSON_VERSION, "error": told})
        return
    colour = None if not os.environ.get("NO_COLOR") else False
    click.secho("error: ", fg="red", bold=True, nl=False, err=True, color=colour)
    click.echo(printable(failure.message), err=True)
    if failure.remedy:
        click.echo(f"  next: {printable(failure.remedy)}", err=True)
