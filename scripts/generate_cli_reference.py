"""Write docs/reference/cli.md from the help of the commands themselves.

`make docs` runs it; a test compares its result with the file, so that help and documentation cannot part.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

import provenance.cli

if TYPE_CHECKING:
    from collections.abc import Iterator

TARGET = Path(__file__).resolve().parent.parent / "docs" / "reference" / "cli.md"
WIDTH = 100

INTRODUCTION = """\
# The command line

Made by `make docs` from the program's own help; edit that instead.

| exit code | meaning |
|---|---|
| 0 | verified, or done |
| 1 | verification failed |
| 2 | wrong use, wrong configuration, or malformed input |
| 3 | something cannot be reached, or the system refused it |
| 4 | not there yet: an anchor is pending |
| 70 | a bug in this program; `PROVENANCE_DEBUG=1` shows where |
| 130, 141 | interrupted; the reader of the output went away |

`--json` prints one JSON object to standard output: `{"command": …, "version": 1, …}`, or, when the command
failed, `{"version": 1, "error": {"kind": …, "reason": …, "message": …, "remedy": …, "exit_code": …}}`. `kind`
says what the caller can do about it, `reason` which fault it is; both are stable. Within a version fields are
added, never renamed or removed. Progress, pager and colours are for terminals, and `NO_COLOR` is obeyed.

For completion in bash: `eval "$(_PROVENANCE_COMPLETE=bash_source provenance)"`; for others `zsh_source` or
`fish_source`.
"""


def render() -> str:
    """The whole page."""
    width = {"terminal_width": WIDTH, "max_content_width": WIDTH}
    root = provenance.cli.cli.make_context("provenance", [], resilient_parsing=True, **width)
    return INTRODUCTION + "".join(f"\n{section}" for section in _sections(root))


def _sections(ctx: click.Context) -> Iterator[str]:
    yield f"## {ctx.command_path}\n\n```text\n{ctx.get_help().rstrip()}\n```\n"
    if isinstance(ctx.command, click.Group):
        for name in ctx.command.list_commands(ctx):
            command = ctx.command.get_command(ctx, name)
            if command is not None:
                yield from _sections(command.make_context(name, [], parent=ctx, resilient_parsing=True))


if __name__ == "__main__":
    TARGET.write_text(render(), encoding="utf-8")
    print(f"wrote {TARGET.name}")
