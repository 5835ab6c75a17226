"""The frame of the command line: how commands are found, how results are shown, how failures are told."""

from __future__ import annotations

import errno
import importlib.machinery
import io
import itertools
import json
import os
import runpy
import subprocess
import sys
import types
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest

from provenance import errors
from provenance.cli import _frame, cli, main
from provenance.cli._group import SECTIONS, LazyGroup

if TYPE_CHECKING:
    from collections.abc import Callable

HEAVY = {
    "blake3",
    "cryptography",
    "dask",
    "distributed",
    "kafka",
    "numpy",
    "pandas",
    "pyarrow",
    "torch",
    "web3",
    "zarr",
}


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Installs the given function as what ``provenance fake`` does."""

    def install(body: Callable[[], object]) -> None:
        @click.command()
        @_frame.json_option
        def command(as_json: bool) -> None:
            body()

        module = types.ModuleType("provenance.cli.fake")
        module.__spec__ = importlib.machinery.ModuleSpec("provenance.cli.fake", None)
        module.command = command  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "provenance.cli.fake", module)
        monkeypatch.setitem(SECTIONS, "Test", {"fake": "Does as it is told."})

    return install


def raises(error: BaseException) -> Callable[[], None]:
    def body() -> None:
        raise error

    return body


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def modules_after(code: str) -> set[str]:
    """The top-level modules that a fresh Python holds after running the code."""
    script = f"{code}\nimport sys; print('|'.join(m for m in sys.modules if '.' not in m))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split("|"))


# Finding commands


def test_help_imports_no_command_and_nothing_heavy() -> None:
    code = """
import sys
from provenance.cli import main
assert main(["--help"]) == 0
allowed = {"provenance.errors", "provenance.cli", "provenance.cli._frame", "provenance.cli._group"}
assert {m for m in sys.modules if m.startswith("provenance.")} <= allowed, sys.modules.keys()
"""
    assert not modules_after(code) & HEAVY


def test_help_of_every_command_imports_nothing_heavy() -> None:
    code = f"from provenance.cli import main\nfor name in {commands()!r}: assert main([name, '--help']) == 0"
    assert not modules_after(code) & HEAVY


def test_the_check_of_heavy_modules_can_fail() -> None:
    assert "numpy" in modules_after("import numpy") & HEAVY


def commands() -> list[str]:
    return cli.list_commands(click.Context(cli))


def test_every_command_module_is_in_the_table() -> None:
    folder = Path(_frame.__file__).parent
    modules = {path.stem for path in folder.glob("*.py") if not path.stem.startswith("_")}
    assert modules == set(commands())


def test_table_lists_no_command_twice_and_each_line_is_a_sentence() -> None:
    names = [name for section in SECTIONS.values() for name in section]
    assert len(names) == len(set(names))
    for section in SECTIONS.values():
        for line in section.values():
            assert line[0].isupper()
            assert line.endswith(".")


def test_only_names_of_the_table_are_imported(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["_frame"]) == 2
    assert "there is no command '_frame'" in capsys.readouterr().err


def test_unknown_command_names_its_neighbour(
    fake: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    fake(lambda: None)
    assert main(["fale"]) == 2
    assert capsys.readouterr().err == (
        "error: there is no command 'fale'. Did you mean 'fake'?\n  next: See `provenance --help`.\n"
    )


def test_module_without_a_command_is_a_bug(
    fake: Callable[..., None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake(lambda: None)
    monkeypatch.setattr(sys.modules["provenance.cli.fake"], "command", print)
    assert main(["fake"]) == 70
    assert "provenance.cli.fake.command is no click command" in capsys.readouterr().err


def test_every_command_has_help_with_an_example() -> None:
    assert isinstance(cli, LazyGroup)
    ctx = cli.make_context("provenance", [], resilient_parsing=True)
    for name in commands():
        command = cli.get_command(ctx, name)
        assert command is not None
        text = command.get_help(command.make_context(name, [], parent=ctx, resilient_parsing=True))
        examples = [line for line in text.splitlines() if line.strip().startswith(f"provenance {name}")]
        assert examples, (
            f"`provenance {name} --help` shows no example: a line that begins with `provenance {name}`"
        )
        table = {name: line for section in SECTIONS.values() for name, line in section.items()}
        assert (command.help or "").splitlines()[:1] == [table[name]], "table and help begin differently"
        assert "\\b" not in text, (
            f"`provenance {name} --help` shows \\b: its docstring is raw, and must not be"
        )
        assert "--json" in text or isinstance(command, click.Group), f"`provenance {name}` has no --json"


def test_without_arguments_help_is_shown_and_it_is_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "Usage: provenance" in capsys.readouterr().err


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("provenance ")


def test_shell_completion_lists_commands(
    fake: Callable[..., None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake(lambda: None)
    monkeypatch.setenv("_PROVENANCE_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "provenance fa")
    monkeypatch.setenv("COMP_CWORD", "1")
    assert main([]) == 0
    assert capsys.readouterr().out == "plain,fake\n"


# Telling failures

FAILURES = [
    (errors.VerificationError("the root differs", remedy="look"), "verification", 1, {}),
    (errors.MismatchError("root", expected=1, actual=2), "mismatch", 1, {"expected": "1", "actual": "2"}),
    (errors.ConfigError("no such stage", remedy="choose another"), "config", 2, {}),
    (errors.MalformedError("cut short", reason="truncated"), "malformed", 2, {"reason": "truncated"}),
    (errors.UnavailableError("no node at this address"), "unavailable", 3, {}),
    (errors.PendingError("three records wait"), "pending", 4, {}),
    (OSError(errno.ENOSPC, "No space left on device", "x.batch"), "system", 3, {"reason": "ENOSPC"}),
    (click.UsageError("no such thing"), "usage", 2, {}),
    (click.FileError("x", "is gone"), "usage", 2, {}),
    (ZeroDivisionError("by zero"), "bug", 70, {"reason": "ZeroDivisionError"}),
]


@pytest.mark.parametrize(("error", "kind", "code", "details"), FAILURES, ids=lambda value: str(value)[:20])
def test_failures_in_json(
    fake: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
    error: Exception,
    kind: str,
    code: int,
    details: dict[str, str],
) -> None:
    fake(raises(error))
    assert main(["fake", "--json"]) == code
    out, err = capsys.readouterr()
    document = json.loads(out)
    assert err == ""
    assert document.keys() == {"version", "error"}
    assert document["version"] == 1
    told = document["error"]
    assert told.keys() >= {"kind", "reason", "message", "remedy", "exit_code"}
    assert (told["kind"], told["exit_code"]) == (kind, code)
    assert details.items() <= told.items()


@pytest.mark.parametrize(("error", "kind", "code", "details"), FAILURES, ids=lambda value: str(value)[:20])
def test_failures_in_words(
    fake: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
    error: Exception,
    kind: str,
    code: int,
    details: dict[str, str],
) -> None:
    fake(raises(error))
    assert main(["fake"]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert "Traceback" not in err
    remedy = getattr(error, "remedy", "")
    assert not remedy or err.endswith(f"  next: {remedy}\n")


def test_a_full_disk_names_file_and_next_step(
    fake: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    fake(raises(OSError(errno.ENOSPC, "No space left on device", "x.batch")))
    assert main(["fake"]) == 3
    assert capsys.readouterr().err == (
        "error: the system refused: No space left on device: x.batch\n"
        "  next: Free some space, then call the same command again.\n"
    )


def test_a_bug_is_traced_only_when_asked(
    fake: Callable[..., None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake(raises(ZeroDivisionError("by zero")))
    assert main(["fake"]) == 70
    quiet = capsys.readouterr().err
    assert quiet.startswith("error: this is a bug: ZeroDivisionError: by zero\n  next: ")
    monkeypatch.setenv("PROVENANCE_DEBUG", "1")
    assert main(["fake"]) == 70
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize("error", [KeyboardInterrupt(), EOFError(), click.Abort()], ids=repr)
def test_interruption_is_130_without_a_word(
    fake: Callable[..., None], capsys: pytest.CaptureFixture[str], error: BaseException
) -> None:
    fake(raises(error))
    assert main(["fake"]) == 130
    assert capsys.readouterr() == ("", "\n")


def test_json_after_a_double_dash_is_an_argument(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nothing", "--", "--json"]) == 2
    assert capsys.readouterr().out == ""


def test_usage_error_in_json_even_before_options_are_parsed(
    fake: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    fake(lambda: None)
    assert main(["fake", "--nonsense", "--json"]) == 2
    told = json.loads(capsys.readouterr().out)["error"]
    assert told["kind"] == "usage"
    assert told["remedy"] == "See `provenance fake --help`."


@pytest.mark.parametrize("code", [0, 1, 4])
def test_a_command_ends_with_the_code_it_chose(fake: Callable[..., None], code: int) -> None:
    fake(lambda: click.get_current_context().exit(code))
    assert main(["fake"]) == code


def test_a_return_value_is_no_exit_code(fake: Callable[..., None]) -> None:
    fake(lambda: 3)
    assert main(["fake"]) == 0


def test_messages_cannot_steer_a_terminal(
    fake: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    fake(raises(errors.ConfigError("bad name: \x1b[2Ja\nb\udcff")))
    assert main(["fake"]) == 2
    assert capsys.readouterr().err == "error: bad name: \\x1b[2Ja\\nb\\udcff\n"


@pytest.mark.parametrize("arguments", [["--help"], ["nothing-such", "--json"]])
def test_a_reader_that_went_away_ends_it_quietly(arguments: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "provenance", *arguments],
            stdout=writer,
            stderr=subprocess.PIPE,
            check=False,
        )
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


# Showing results


def test_json_result_names_command_and_version(
    fake: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    fake(lambda: _frame.emit({"name": "ä\udcff\x1b"}, as_json=True, render=lambda: pytest.fail("not wanted")))
    assert main(["fake", "--json"]) == 0
    out = capsys.readouterr().out
    assert out == '{"command": "fake", "version": 1, "name": "\\u00e4\\udcff\\u001b"}\n'


def test_a_number_that_json_lacks_is_a_bug(
    fake: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    fake(lambda: _frame.emit({"x": float("nan")}, as_json=True, render=list))
    assert main(["fake", "--json"]) == 70
    assert json.loads(capsys.readouterr().out)["error"]["kind"] == "bug"


def test_text_result_is_written_line_by_line(
    fake: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    fake(lambda: _frame.emit({}, as_json=False, render=lambda: iter(["a", "b"])))
    assert main(["fake"]) == 0
    assert capsys.readouterr().out == "a\nb\n"


def test_a_long_list_goes_through_the_pager_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    paged: list[str] = []
    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.setattr(click, "echo_via_pager", paged.extend)
    _frame.show(str(number) for number in range(1000))
    assert "".join(paged) == "".join(f"{number}\n" for number in range(1000))


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_short_list_does_not(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setattr(click, "echo_via_pager", lambda _: pytest.fail("paged"))
    _frame.show(itertools.repeat("x", count))
    assert terminal.getvalue() == "x\n" * count


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ä 語", "plain ä 語"),
        ("a\nb\tc", "a\\nb\\tc"),
        ("\x1b[31m", "\\x1b[31m"),
        ("\udcff", "\\udcff"),
        ("\u202e", "\\u202e"),
    ],
)
def test_printable(text: str, shown: str) -> None:
    assert _frame.printable(text) == shown


@pytest.mark.parametrize("total", [None, 3])
def test_progress_is_silent_without_a_terminal(total: int | None, capsys: pytest.CaptureFixture[str]) -> None:
    with _frame.progress("counting", total) as advance:
        advance(1)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("total", [None, 3])
def test_progress_shows_on_a_terminal(total: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with _frame.progress("counting", total) as advance:
        advance(1)
        advance(2)
    assert "counting" in terminal.getvalue()
    assert ("100%" in terminal.getvalue()) is (total is not None)


@pytest.mark.parametrize(("variable", "coloured"), [("", True), ("1", False)])
def test_no_color_is_obeyed(monkeypatch: pytest.MonkeyPatch, variable: str, coloured: bool) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("NO_COLOR", variable)
    assert main(["nothing"]) == 2
    assert ("\x1b[" in terminal.getvalue()) is coloured


# The folder


def test_folder_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Path] = []

    @click.command()
    @_frame.folder_option
    def command(folder: Path) -> None:
        seen.append(folder)

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PROVENANCE_FOLDER", raising=False)
    command.main([], standalone_mode=False)
    command.main(["--folder", "other"], standalone_mode=False)
    assert seen == [tmp_path / ".provenance", tmp_path / "other"]


def test_folder_option_refuses_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    command = _frame.folder_option(click.Command("x", callback=lambda folder: None))
    with pytest.raises(click.BadParameter, match="is a file"):
        command.main(["--folder", str(tmp_path / "file")], standalone_mode=False)


# The reference


def test_the_reference_is_what_the_program_says() -> None:
    root = Path(__file__).parents[2]
    render = runpy.run_path(str(root / "scripts" / "generate_cli_reference.py"))["render"]
    written = (root / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    assert render() == written, "docs/reference/cli.md is behind the program's help: run `make docs`"
