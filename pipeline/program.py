"""How the pipelines' commands begin and end: what they take for a path, and how they tell what went wrong."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pipeline.unusable import printable
from provenance import files
from provenance.errors import ProvenanceError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["LocalPath", "run_command", "tell"]

_UNREACHABLE = 3


class LocalPath(click.Path):
    """A path of this machine. An address, which may hold a password, is refused and not repeated."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(
        self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> str | bytes | os.PathLike[str]:
        """The path as a `Path`."""
        files.refuse_address(value)
        return super().convert(value, param, ctx)


def tell(kind: str, message: str, remedy: str = "", context: Iterable[str] = ()) -> None:
    """Say something on standard error: ``error`` or ``warning``, then the next step on a line of its own."""
    click.echo(f"{kind}: {printable(message)}", err=True)
    for line in [*context, *([f"next: {remedy}"] if remedy else [])]:
        click.echo(f"  {printable(line)}", err=True)


def run_command(wanted: click.Command) -> int:
    """Run a pipeline's command and show what it raises as the program does; returns the exit code."""
    try:
        wanted(standalone_mode=False)
    except ProvenanceError as error:
        tell("error", error.message, error.remedy, error.context)
        return error.exit_code
    except click.ClickException as error:
        ctx = getattr(error, "ctx", None)
        command = ctx.command_path if ctx else wanted.name
        tell("error", files.without_secrets(error.format_message()), f"See: {command} --help")
        return error.exit_code
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.exceptions.Abort:
        return 130
    except BrokenPipeError:
        raise
    except OSError as error:
        place = f": {os.fsdecode(error.filename)}" if error.filename else ""
        what = f"the system refused: {error.strerror or error}{place}"
        tell("error", what, "Mend that, then call the same command again.")
        return _UNREACHABLE
    return 0
