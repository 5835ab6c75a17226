"""Documents that are run: the fenced blocks of a Markdown page, and a shell session as it should go."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_FENCE = re.compile(r"^```(\w*)(?: file=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"# exit code (\d+)$")
_ANY = "…"


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block: its language, the file that it is the text of (or empty), its text."""

    language: str
    file: str
    text: str


@dataclass(slots=True)
class Command:
    """A line of a session, the lines that should follow, and its exit code."""

    line: str
    shown: list[str] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """What a comment at its end says, else 0."""
        found = _CODE.search(self.line)
        return int(found[1]) if found else 0

    def matches(self, output: str) -> bool:
        """Whether the output is as shown: ``…`` stands for anything, alone on a line for any lines.

        A command that shows nothing may print anything.
        """
        parts = [".*" if line == _ANY else ".*".join(map(re.escape, line.split(_ANY))) for line in self.shown]
        return not parts or re.fullmatch(r"\n".join(parts), output.rstrip("\n"), re.DOTALL) is not None


def blocks(page: str) -> list[Block]:
    """The fenced blocks of a page, in order."""
    return [Block(found[1], found[2] or "", found[3]) for found in _FENCE.finditer(page)]


def commands(session: str) -> Iterator[Command]:
    """The commands of a ``console`` block."""
    command: Command | None = None
    for line in session.splitlines():
        if line.startswith("$ "):
            if command is not None:
                yield command
            command = Command(line.removeprefix("$ "))
        elif command is not None:
            command.shown.append(line)
    if command is not None:
        yield command


def walk(page: str, folder: Path, environment: Mapping[str, str]) -> int:
    """Do what a page says, in a folder: write its files, type its commands, compare what they print.

    Returns:
        How many commands ran.
    """
    count = 0
    for block in blocks(page):
        if block.file:
            (folder / block.file).write_text(block.text, encoding="utf-8")
        for command in commands(block.text) if block.language == "console" else ():
            done = subprocess.run(
                ["bash", "-c", command.line],
                cwd=folder,
                env=dict(environment),
                capture_output=True,
                text=True,
                check=False,
                timeout=400,
            )
            what = f"$ {command.line}\n{done.stdout}{done.stderr}"
            assert done.returncode == command.exit_code, f"exit code {done.returncode}: {what}"
            assert command.matches(done.stdout), f"expected {command.shown}: {what}"
            count += 1
    return count
