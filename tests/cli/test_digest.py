"""``provenance digest``: what it prints, what it checks, and how it ends."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import provenance.bootstrap
from provenance.cli import cli
from provenance.cli import digest as module
from provenance.core.digests import array1, table1
from provenance.errors import UnavailableError
from tests.core.digests import reference

if TYPE_CHECKING:
    from click.testing import Result

TABLE = pa.table({"n": np.arange(70_000), "s": ["x"] * 70_000})
ARRAY = np.arange(300_000, dtype="f4")


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one of each, which is the working directory."""
    monkeypatch.chdir(tmp_path)
    pq.write_table(TABLE, "a.parquet")
    np.save("b.npy", ARRAY)
    Path("c.txt").write_text("hello\n")
    Path("d").mkdir()
    Path("d/x").write_text("x")
    return tmp_path


def run(*arguments: str, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(cli, ["digest", *arguments], input=stdin, prog_name="provenance")


LINES = {
    "a.parquet": str(table1(TABLE)),
    "b.npy": str(array1(ARRAY)),
    "c.txt": "sha256:" + hashlib.sha256(b"hello\n").hexdigest(),
    "d": f"tree1-sha256:{reference.tree1({'x': b'x'})}",
}


# ------------------------------------------------------------------------------------------------- printing


def test_a_line_for_each_path() -> None:
    result = run(*LINES)
    assert result.exit_code == 0
    assert result.stdout == "".join(f"{digest}  {path}\n" for path, digest in LINES.items())
    assert result.stderr == ""


def test_blake3() -> None:
    result = run("--blake3", "a.parquet", "b.npy", "c.txt")
    assert [line.partition(":")[0] for line in result.stdout.splitlines()] == [
        "table1-blake3",
        "array1-blake3",
        "blake3",
    ]
    assert str(table1(TABLE, algorithm="blake3")) in result.stdout
    refused = run("--blake3", "d")
    assert refused.exit_code == 2
    assert "tree1-blake3" in refused.stderr


def test_kind() -> None:
    result = run("--kind", "sha256", "a.parquet", "b.npy")
    digests = [
        f"sha256:{hashlib.sha256(Path(path).read_bytes()).hexdigest()}" for path in ("a.parquet", "b.npy")
    ]
    assert [line.split("  ")[0] for line in result.stdout.splitlines()] == digests
    assert run("--kind", "array1", "a.parquet").exit_code == 2
    assert run("--kind", "md5", "a.parquet").exit_code == 2


def test_an_error_in_one_path_leaves_the_others() -> None:
    Path("bad.parquet").write_bytes(b"PAR1")
    result = run("bad.parquet", "c.txt", "gone", "b.npy")
    assert result.exit_code == 2
    assert result.stdout == f"{LINES['c.txt']}  c.txt\n{LINES['b.npy']}  b.npy\n"
    assert "bad.parquet: damaged" in result.stderr
    assert "gone: there is no such file" in result.stderr
    assert result.stderr.count("next:") == 2


def test_the_worst_error_gives_the_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    real = provenance.bootstrap.digest

    def sometimes(path: str, *arguments: Any, **options: Any) -> Any:
        if path == "far":
            raise UnavailableError("far: cannot read it", reason="eio")
        return real(path, *arguments, **options)

    monkeypatch.setattr(provenance.bootstrap, "digest", sometimes)
    assert run("gone", "far", "c.txt").exit_code == 3
    assert run("far", "gone").exit_code == 3
    assert run("gone").exit_code == 2


@pytest.mark.parametrize(
    ("name", "written"),
    [
        (b"with space", b"%s  with space"),
        (b"new\nline", b"\\%s  new\\nline"),
        (b"back\\slash", b"\\%s  back\\\\slash"),
        (b"caf\xe9", b"%s  caf\xe9"),
        ("雪".encode(), b"%s  " + "雪".encode()),
    ],
)
def test_odd_names_are_written_as_sha256sum_does(name: bytes, written: bytes, data: Path) -> None:
    Path(os.fsdecode(name)).write_text("hello\n")
    result = run(os.fsdecode(name))
    assert result.exit_code == 0
    assert result.stdout_bytes == written % LINES["c.txt"].encode() + b"\n"
    assert run("--check", "-", stdin=result.stdout_bytes).exit_code == 0


def test_a_terminal_is_shown_no_control_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("red\x1b[31m").write_text("hello\n")
    shown: list[Any] = []
    monkeypatch.setattr(module.sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(click, "echo", lambda line, **_: shown.append(line))
    module._write(b"sha256:00  red\x1b[31m")
    assert shown == [r"sha256:00  red\x1b[31m"]


def test_a_name_that_looks_like_an_option() -> None:
    Path("--json").write_text("hello\n")
    assert run("--", "--json").stdout == f"{LINES['c.txt']}  --json\n"


# ----------------------------------------------------------------------------------------------------- JSON


def test_json_has_every_column_and_block() -> None:
    result = run("--json", *LINES)
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert (found["command"], found["version"], found["errors"]) == ("digest", 1, [])
    table, array, file, tree = found["digests"]
    expected = table1(TABLE)
    assert table == {
        "path": "a.parquet",
        "digest": str(expected),
        "kind": "table1-sha256",
        "bytes": expected.nbytes,
        "rows": 70_000,
        "columns": [
            {
                "name": column.name,
                "type": column.type,
                "digest": column.value.hex(),
                "blocks": [block.hex() for block in column.blocks],
            }
            for column in expected.columns
        ],
    }
    assert [len(column["blocks"]) for column in table["columns"]] == [2, 2]
    assert array["digest"] == str(array1(ARRAY))
    assert (array["type"], array["shape"], array["bytes"]) == ("f32", [300_000], 1_200_000)
    assert array["blocks"] == [block.hex() for block in array1(ARRAY).blocks]
    assert file == {"path": "c.txt", "digest": LINES["c.txt"], "kind": "sha256", "bytes": 6}
    assert tree["files"] == [{"path": "x", "bytes": 1, "sha256": hashlib.sha256(b"x").hexdigest()}]


def test_json_of_errors() -> None:
    Path(os.fsdecode(b"caf\xe9.parquet")).write_bytes(b"PAR1")
    result = run("--json", os.fsdecode(b"caf\xe9.parquet"), "c.txt")
    assert result.exit_code == 2
    found = json.loads(result.stdout)
    assert [entry["path"] for entry in found["digests"]] == ["c.txt"]
    (error,) = found["errors"]
    assert error["path"] == r"caf\xe9.parquet"
    assert (error["reason"], error["exit_code"]) == ("damaged", 2)
    assert error["message"].startswith(r"caf\xe9.parquet: damaged")
    assert error["remedy"]


# ------------------------------------------------------------------------------------------------- checking


def written_list(*paths: str) -> str:
    Path("LIST").write_text(run(*paths).stdout)
    return "LIST"


def test_what_was_printed_checks() -> None:
    result = run("--check", written_list(*LINES))
    assert result.exit_code == 0
    assert result.stdout == "".join(f"{path}: OK\n" for path in LINES)
    assert result.stderr == ""


def test_a_changed_file_fails() -> None:
    name = written_list(*LINES)
    pq.write_table(TABLE.slice(1), "a.parquet")
    Path("d/y").write_text("")
    result = run("--check", name)
    assert result.exit_code == 1
    assert result.stdout == "a.parquet: FAILED\nb.npy: OK\nc.txt: OK\nd: FAILED\n"
    assert "2 of 4 did NOT match" in result.stderr


def test_the_same_data_in_other_bytes_does_not_fail() -> None:
    name = written_list("a.parquet")
    pq.write_table(TABLE, "a.parquet", compression="gzip", row_group_size=1000)
    assert run("--check", name).exit_code == 0


@pytest.mark.parametrize("change", ["gone", "damaged", "other"])
def test_what_cannot_be_read_fails(change: str) -> None:
    name = written_list("c.txt", "a.parquet")
    path = Path("a.parquet")
    if change == "gone":
        path.unlink()
    else:
        path.write_bytes(b"PAR1" if change == "damaged" else b"hello")
    result = run("--check", name)
    assert result.exit_code == 1
    assert result.stdout == "c.txt: OK\na.parquet: FAILED open or read\n"
    assert "a.parquet: " in result.stderr


def test_every_kind_of_digest_checks() -> None:
    lines = [run(*options, path).stdout for options, path in KINDS]
    result = run("--check", "-", stdin="".join(lines).encode())
    assert result.exit_code == 0
    assert result.stdout.count(": OK\n") == len(KINDS)


KINDS: list[tuple[list[str], str]] = [
    ([], "a.parquet"),
    (["--blake3"], "a.parquet"),
    (["--blake3"], "b.npy"),
    (["--blake3"], "c.txt"),
    (["--kind", "sha256"], "a.parquet"),
    (["--kind", "sha256", "--blake3"], "b.npy"),
    ([], "d"),
]


def test_what_sha256sum_printed_checks() -> None:
    Path("odd\n\\name").write_text("x")
    output = subprocess.run(
        ["sha256sum", "c.txt", "a.parquet", "odd\n\\name"], capture_output=True, check=True
    ).stdout
    result = run("--check", "-", stdin=b"# a comment\n\n" + output.replace(b"\n", b"\r\n"))
    assert result.exit_code == 0
    assert sorted(result.stdout.splitlines()) == sorted(
        ["c.txt: OK", "a.parquet: OK", "\\odd\\n\\\\name: OK"]
    )


def test_sha256sum_checks_what_we_print() -> None:
    listed = "".join(run("--kind", "sha256", path).stdout for path in ("c.txt", "a.parquet"))
    bare = listed.replace("sha256:", "")
    checked = subprocess.run(["sha256sum", "-c"], input=bare, text=True, capture_output=True, check=True)
    assert checked.stdout == "c.txt: OK\na.parquet: OK\n"


def test_malformed_lines_are_told_and_the_others_checked() -> None:
    listed = f"nonsense\n{LINES['c.txt']}  c.txt\nmd5:{'0' * 64}  x\n".encode()
    result = run("--check", "-", stdin=listed)
    assert result.exit_code == 2
    assert result.stdout == "c.txt: OK\n"
    assert "line 1: " in result.stderr
    assert "line 3: " in result.stderr
    assert "2 lines of the list are malformed" in result.stderr


def test_a_mismatch_outranks_a_malformed_line() -> None:
    listed = f"nonsense\n{'0' * 64}  c.txt\n".encode()
    result = run("--check", "-", stdin=listed)
    assert result.exit_code == 1
    assert result.stdout == "c.txt: FAILED\n"


@pytest.mark.parametrize("listed", [b"", b"\n\n", b"# nothing\n"])
def test_an_empty_list_checks_nothing_and_says_so(listed: bytes) -> None:
    result = run("--check", "-", stdin=listed)
    assert result.exit_code == 2
    assert "the list has no digests" in result.stderr


def test_an_endless_line_is_taken_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    class Endless(io.BytesIO):
        def readline(self, size: int | None = -1, /) -> bytes:
            asked.append(size or 0)
            return super().readline(size)

    parts = list(module._lines(Endless(b"x" * 200_000)))
    assert [len(line) for _, line in parts] == [65_538, 65_538, 65_538, 3386]
    assert set(asked) == {65_538}


def test_json_of_a_check() -> None:
    name = written_list("c.txt", "d", "b.npy")
    Path("d/x").write_text("y")
    Path("b.npy").unlink()
    Path(name).write_text(Path(name).read_text() + "nonsense\n")
    result = run("--json", "--check", name)
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert (found["failed"], found["malformed"]) == (2, 1)
    good, changed, gone = found["checked"]
    assert good == {"path": "c.txt", "ok": True, "expected": LINES["c.txt"], "actual": LINES["c.txt"]}
    assert changed["ok"] is False
    assert changed["actual"] == f"tree1-sha256:{reference.tree1({'x': b'y'})}"
    assert gone["ok"] is False
    assert "actual" not in gone
    assert gone["error"]["reason"] == "no-such-file"


# ------------------------------------------------------------------------------------------------ wrong use


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--check", "LIST", "c.txt"],
        ["--check", "gone"],
        ["--check", "LIST", "--kind", "sha256"],
        ["--check", "LIST", "--blake3"],
        ["--md5", "c.txt"],
    ],
)
def test_wrong_use(arguments: list[str]) -> None:
    Path("LIST").write_text(f"{LINES['c.txt']}  c.txt\n")
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""


def test_as_a_program() -> None:
    program = [sys.executable, "-m", "provenance", "digest"]
    done = subprocess.run([*program, "a.parquet", "gone"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout == f"{LINES['a.parquet']}  a.parquet\n"
    assert "gone" in done.stderr
    as_json = subprocess.run([*program, "--json", "c.txt"], capture_output=True, text=True, check=True)
    assert json.loads(as_json.stdout)["digests"][0]["digest"] == LINES["c.txt"]
    checked = subprocess.run(
        [*program, "--check", "-"], input=done.stdout, text=True, capture_output=True, check=True
    )
    assert checked.stdout == "a.parquet: OK\n"
