"""The group behind ``provenance``.

It knows its commands by name and one line of help, and imports one only to run it.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["SECTIONS", "LazyGroup", "version_option"]

# The order is that of a first day with the program; help shows it so.
SECTIONS: dict[str, dict[str, str]] = {
    "Set up": {
        "init": "Make a .provenance folder and a dataset.toml to fill in.",
        "up": "Start the embedded chain.",
        "down": "Stop the embedded chain.",
        "topic": "Make or check the Kafka topic that holds the log.",
    },
    "Record": {
        "digest": "Print digests of data: like sha256sum, but of what is in it.",
        "batch": "Anchor the records that wait in the log.",
        "status": "Show what runs, what waits and what is anchored.",
    },
    "Check": {
        "audit": "Check a run against the chain, its data or a replay.",
        "prove": "Write a proof file that needs no node and no database.",
        "verify": "Check a proof file against a trust file, offline.",
    },
    "Look": {
        "report": "Write the report of a run.",
        "contract": "Deploy the ledger contract, or check the deployed one.",
        "index": "Rebuild the index from the batch files.",
    },
}


class LazyGroup(click.Group):
    """A group whose commands are modules of `provenance.cli`, found by name and imported when called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the commands, in the order of help."""
        return [name for names in SECTIONS.values() for name in _existing(names)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command's module and return its ``command``; None if there is no such command."""
        if cmd_name not in self.list_commands(ctx):
            return None
        command = importlib.import_module(f"provenance.cli.{cmd_name}").command
        if not isinstance(command, click.Command):
            raise TypeError(f"provenance.cli.{cmd_name}.command is no click command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, and for a name that is almost one, say which one was meant."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            import difflib

            near = difflib.get_close_matches(args[0], self.list_commands(ctx), n=1)
            meant = f" Did you mean {near[0]!r}?" if near else ""
            raise click.UsageError(f"there is no command {args[0]!r}.{meant}", ctx=ctx) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands by section, from the table alone: no command module is imported."""
        for title, names in SECTIONS.items():
            rows = [(name, names[name]) for name in _existing(names)]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


def _existing(names: dict[str, str]) -> Iterator[str]:
    return (name for name in names if importlib.util.find_spec(f"provenance.cli.{name}"))


def _print_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from importlib.metadata import version

        click.echo(f"provenance {version('provenance-ledger')}")
        ctx.exit()


version_option = click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_print_version,
    help="Print the version and exit.",
)
