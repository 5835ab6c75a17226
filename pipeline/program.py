"""How the pipelines' commands end: one place where what they raise becomes a message and an exit code."""

from __future__ import annotations

import click

from provenance.errors import ProvenanceError

__all__ = ["run_command"]


def run_command(wanted: click.Command) -> int:
    """Run a pipeline's command and show what it raises as the program does; returns the exit code."""
    try:
        wanted(standalone_mode=False)
    except ProvenanceError as error:
        click.echo(f"error: {error.message}", err=True)
        for line in [*error.context, *([f"next: {error.remedy}"] if error.remedy else [])]:
            click.echo(f"  {line}", err=True)
        return error.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.exceptions.Abort:
        return 130
    return 0
