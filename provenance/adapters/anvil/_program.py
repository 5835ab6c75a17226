"""Where the program comes from: the path, the checkout, or npm by the lock that this package ships."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from importlib import resources
from pathlib import Path

from provenance import files
from provenance.contract.node import run_npm
from provenance.errors import UnavailableError

__all__ = ["find_anvil"]

_CHECKOUT = Path(__file__).resolve().parents[3] / "contracts"


def find_anvil(tools: Path) -> Path:
    """The executable of anvil 1.0 or later: the path's, the checkout's, or the one in ``tools``.

    Where there is none, npm installs the locked one into ``tools``.

    Raises:
        ConfigError: Node.js is needed for that, and missing.
        UnavailableError: npm failed, or has no anvil for this machine.
    """
    inside = Path("node_modules", "@foundry-rs", f"anvil-{_platform()}", "bin", "anvil")
    on_path = shutil.which("anvil")
    for candidate in (Path(on_path) if on_path else None, _CHECKOUT / inside, tools / inside):
        if candidate is not None and _usable(candidate):
            return candidate
    _install(tools)
    if not _usable(tools / inside):
        raise UnavailableError(
            f"npm installed no anvil for {_platform()}",
            reason="no-anvil",
            remedy="Put anvil 1.0 or later on the path.",
        )
    return tools / inside


def _install(tools: Path) -> None:
    files.make_folder(tools)
    for name in ("package.json", "package-lock.json"):
        data = resources.files("provenance.contract").joinpath("anvil", name).read_bytes()
        files.write_file(tools / name, data)
    run_npm(["ci", "--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund"], cwd=tools, quiet=True)


def _platform() -> str:
    machine = platform.machine().lower()
    return f"{platform.system().lower()}-{ {'x86_64': 'amd64', 'aarch64': 'arm64'}.get(machine, machine) }"


def _usable(path: Path) -> bool:
    """Whether this is the program itself, new enough; npm's launcher script would hide its process id."""
    try:
        with path.open("rb") as file:
            if file.read(2) == b"#!":
                return False
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    version = re.search(r"anvil (?:Version: )?(\d{1,4})\.", done.stdout)
    return version is not None and int(version[1]) >= 1
