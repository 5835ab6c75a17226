"""The command line: one module per command, each of them arguments → service → print.

``provenance.cli.NAME`` holds the command ``provenance NAME`` as a `click.Command` named ``command``. It is
imported when it is called for and not before, and imports whatever is heavy (NumPy, Arrow, web3, Dask) inside
the function that needs it: help must answer at once.

What all commands share is in `provenance.cli._frame`: ``--json``, ``--folder``, progress, pager, output. How
they end is here, in one place:

====  =====================================================
code  meaning
====  =====================================================
0     verified, or done
1     verification failed
2     wrong use, wrong configuration, malformed input
3     something is unreachable, or the system refused it
4     not there yet: an anchor is pending
70    a bug in this program; ``PROVENANCE_DEBUG=1`` shows where
130   interrupted
141   whoever read the output went away (``provenance … | head``)
====  =====================================================
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from provenance.cli._frame import Failure, describe, print_failure
from provenance.cli._group import LazyGroup, version_option
from provenance.errors import ProvenanceError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["cli", "main"]

PROGRAM = "provenance"
COMPLETION = "_PROVENANCE_COMPLETE"  # click's name: eval "$(_PROVENANCE_COMPLETE=bash_source provenance)"
EXIT_USAGE = 2
EXIT_BUG = 70  # EX_SOFTWARE of sysexits.h
EXIT_INTERRUPTED = 130  # 128 + SIGINT, as shells report it
EXIT_READER_GONE = 141  # 128 + SIGPIPE


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@version_option
def cli() -> None:
    """Show where AI training data came from, and prove it.

    Data is recorded as it is transformed, anchored on a chain that several organisations run together, and
    checked against that chain before it is read and whenever an auditor asks.

    \b
    Example:
      provenance digest recordings/
      provenance COMMAND --help
    """


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; the one place where exceptions become messages.

    Args:
        args: the arguments without the program's name; those of the process if None.
    """
    words = sys.argv[1:] if args is None else list(args)
    as_json = "--json" in (words[: words.index("--")] if "--" in words else words)
    try:
        outcome = _attempt(words)
        if isinstance(outcome, Failure):
            print_failure(outcome, as_json=as_json)
            return outcome.exit_code
    except BrokenPipeError:
        # Standard output, for adapters convert what breaks elsewhere. Python flushes it once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_READER_GONE
    return outcome


def _attempt(words: list[str]) -> int | Failure:
    """Run a command; its exit code, or how it failed."""
    try:
        return _run(words)
    except (KeyboardInterrupt, EOFError, click.Abort):
        click.echo(err=True)  # ends the line on which the terminal showed ^C
        return EXIT_INTERRUPTED
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return EXIT_USAGE
    except BrokenPipeError:
        raise
    except (click.ClickException, ProvenanceError, OSError) as error:
        _trace_if_asked()
        return describe(error)
    except Exception as error:  # noqa: BLE001 - the outermost frame: whatever comes this far is a bug, and called one
        _trace_if_asked()
        return Failure(
            kind="bug",
            reason=type(error).__name__,
            message=f"this is a bug: {type(error).__name__}: {error}",
            remedy="Call it again with PROVENANCE_DEBUG=1, and report what that prints.",
            exit_code=EXIT_BUG,
        )


def _run(words: list[str]) -> int:
    if instruction := os.environ.get(COMPLETION):
        from click.shell_completion import shell_complete

        return shell_complete(cli, {}, PROGRAM, COMPLETION, instruction)
    try:
        colour = False if os.environ.get("NO_COLOR") else None  # None: only on a terminal
        with cli.make_context(PROGRAM, words, color=colour) as ctx:
            cli.invoke(ctx)
    except click.exceptions.Exit as end:
        return end.exit_code
    sys.stdout.flush()
    return 0


def _trace_if_asked() -> None:
    # Read here and not in the configuration: it must work when the configuration does not.
    if os.environ.get("PROVENANCE_DEBUG"):
        import traceback

        traceback.print_exc()
