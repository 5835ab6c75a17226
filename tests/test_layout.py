"""What holds for the whole repository: layers, sizes, light imports, one version, no trace of a machine."""

from __future__ import annotations

import ast
import importlib.metadata
import itertools
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
SOURCES = sorted(path for folder in ("provenance", "pipeline") for path in (ROOT / folder).rglob("*.py"))
LONGEST_FUNCTION = 80
LONGEST_FILE = 400
# Files that are longer, each for a reason.
LONG_FILES: dict[str, tuple[int, str]] = {}

# Not needed to import the package, whatever the user does next.
HEAVY = {
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

# Put together here, so that this file itself names none.
REGISTRIES = [
    ".".join(labels)
    for labels in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("registry", "npmjs", "org"),
        ("registry", "yarnpkg", "com"),
        ("static", "crates", "io"),
        ("proxy", "golang", "org"),
        ("repo1", "maven", "org"),
        ("repo", "maven", "apache", "org"),
        ("deb", "debian", "org"),
        ("download", "pytorch", "org"),
    )
]
MACHINE_PATH = re.compile(r"(?<![\w.~$}-])/(?:home|Users|root|work)/[\w.]")


def repository_files() -> Iterator[Path]:
    """Every file that git tracks or would track, so that a fault is found before it is committed."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    yield from (path for name in listed.stdout.split("\0") if name and (path := ROOT / name).is_file())


def traces(text: str) -> list[str]:
    """The registry hosts and machine paths in a text."""
    found = [host for host in REGISTRIES if host in text]
    found += [match.group() for match in MACHINE_PATH.finditer(text)]
    return found + [place for place in (str(ROOT), str(Path.home())) if len(place) > 5 and place in text]


def test_no_file_names_a_registry_or_this_machine() -> None:
    found = {
        str(path.relative_to(ROOT)): names
        for path in repository_files()
        if (names := traces(path.read_bytes().decode("utf-8", "replace")))
    }
    assert found == {}


@pytest.mark.parametrize(
    "text",
    [f"https://{REGISTRIES[0]}/simple", "see /home" + "/ann/x.py", 'path = "/root' + '/x"', str(ROOT / "x")],
)
def test_such_a_trace_is_found(text: str) -> None:
    assert traces(text)


@pytest.mark.parametrize("text", ["the root / leaf", "s3://bucket/root/x", "a/home/b", "$HOME/root/x"])
def test_what_only_looks_like_one_is_not(text: str) -> None:
    assert not traces(text)


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_functions_and_files_are_short_and_modules_say_what_they_are(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    long = {node.name: length(node) for node in functions(tree) if length(node) > LONGEST_FUNCTION}
    assert long == {}, f"functions of more than {LONGEST_FUNCTION} lines"
    limit, _ = LONG_FILES.get(path.relative_to(ROOT).as_posix(), (LONGEST_FILE, ""))
    assert len(text.splitlines()) <= limit, f"more than {limit} lines: split it"
    assert ast.get_docstring(tree), "a module opens with what it is for"


def test_a_long_function_is_seen() -> None:
    tree = ast.parse("class A:\n  async def f(self):\n" + "    x = 1\n" * 80)
    assert [length(node) for node in functions(tree)] == [81]


def test_the_layers_hold() -> None:
    done = subprocess.run(
        [str(Path(sys.executable).parent / "lint-imports"), "--no-logo"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("module", ["provenance", "provenance.errors", "provenance.cli", "provenance.ports"])
def test_import_is_light(module: str) -> None:
    script = f"import {module}, sys; print('|'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not set(done.stdout.strip().split("|")) & HEAVY


def project() -> dict[str, Any]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        table: dict[str, Any] = tomllib.load(file)["project"]
    return table


def test_one_version_everywhere() -> None:
    import provenance

    version = project()["version"]
    assert importlib.metadata.version("provenance-ledger") == version
    assert provenance.__version__ == version
    headings = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert headings[0] == "Unreleased"
    released = headings[1:]
    assert not released or released[0] == version


@pytest.mark.parametrize("name", ["lock.txt", "torch.txt"])
def test_locks_hold_every_version_by_hash_and_name_no_place(name: str) -> None:
    text = (ROOT / "requirements" / name).read_text(encoding="utf-8")
    requirements = [entry for entry in re.split(r"\n(?=\S)", text) if entry and not entry.startswith("#")]
    assert requirements
    for entry in requirements:
        assert re.match(r"[a-z0-9._-]+(\[[a-z,]+\])?==\S+", entry), entry.splitlines()[0]
        assert "--hash=sha256:" in entry, entry.splitlines()[0]
    assert "://" not in text
    assert "--find-links" not in text


def test_the_lock_satisfies_what_the_project_asks_for() -> None:
    locked = set(
        re.findall(r"^([a-z0-9._-]+)==", (ROOT / "requirements" / "lock.txt").read_text(), re.MULTILINE)
    )
    asked = itertools.chain(project()["dependencies"], *project()["optional-dependencies"].values())
    names = {re.split(r"[^A-Za-z0-9._-]", line)[0].lower().replace("_", "-") for line in asked}
    assert names - {"torch", "provenance-ledger"} <= locked


PAGES = [path for path in repository_files() if path.suffix == ".md"]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(path: Path) -> None:
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    targets = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text)
    local = [target for target in targets if not re.match(r"[a-z]+:", target)]
    assert [target for target in local if not (path.parent / target).exists()] == []


def test_every_page_is_in_the_index() -> None:
    docs = ROOT / "docs"
    index = (docs / "README.md").read_text(encoding="utf-8")
    pages = {path.relative_to(docs).as_posix() for path in PAGES if path.is_relative_to(docs)} - {"README.md"}
    assert {page for page in pages if f"({page})" not in index} == set()


def test_the_readme_stays_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 150
