"""The contract's own tests, in Solidity."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from provenance.contract.node import node_environment
from provenance.errors import ConfigError

CONTRACTS = Path(__file__).resolve().parents[2] / "contracts"

pytestmark = pytest.mark.service


def forge(*arguments: str) -> subprocess.CompletedProcess[str]:
    programs = sorted(CONTRACTS.glob("node_modules/@foundry-rs/forge-*/bin/forge"))
    if not programs:
        pytest.skip("forge is not installed: run npm ci in contracts/")
    try:
        environment = node_environment()
    except ConfigError as error:
        pytest.skip(str(error))
    return subprocess.run(
        [programs[0], *arguments],
        cwd=CONTRACTS,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_forge() -> None:
    done = forge("test", "--json")
    assert done.stdout, done.stderr
    suites = json.loads(done.stdout[done.stdout.index("{") :])
    results = {
        f"{suite}:{name}": test
        for suite, found in suites.items()
        for name, test in found["test_results"].items()
    }
    failed = {name: test["reason"] for name, test in results.items() if test["status"] != "Success"}
    assert failed == {}
    assert done.returncode == 0, done.stderr
    assert len(results) >= 40


def test_the_sources_are_formatted() -> None:
    done = forge("fmt", "--check", "src", "test")
    assert done.returncode == 0, done.stdout
