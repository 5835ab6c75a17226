"""The shipped artifact is what the sources give, and notices when it was changed."""

from __future__ import annotations

import hashlib
import json
from importlib import resources
from pathlib import Path
from typing import Any, cast

import pytest

from provenance import contract
from provenance.errors import MismatchError

ROOT = Path(__file__).resolve().parents[2]
ARTIFACT = ROOT / "provenance" / "contract" / "ProvenanceLedger.json"
ANCHORED = [
    "bytes32",
    "uint64",
    "address",
    "uint64",
    "uint64",
    "uint32",
    "bytes32",
    "bytes32",
    "bytes32",
    "uint64",
]


@pytest.fixture
def fields() -> dict[str, Any]:
    return cast("dict[str, Any]", json.loads(ARTIFACT.read_text()))


def test_sources_are_those_that_were_compiled(fields: dict[str, Any]) -> None:
    folder = ROOT / "contracts" / "src"
    present = {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*.sol")
    }
    assert fields["sources"] == present


def test_the_compiler_is_the_locked_one(fields: dict[str, Any]) -> None:
    lock = json.loads((ROOT / "contracts" / "package-lock.json").read_text())
    assert str(fields["compiler"]).startswith(lock["packages"]["node_modules/solc"]["version"] + "+")


def test_load() -> None:
    artifact = contract.load()
    assert artifact.code_hash == hashlib.sha256(artifact.runtime).digest()
    assert artifact.runtime in artifact.bytecode  # no immutables: nothing is filled in when it is deployed
    assert len(artifact.runtime) < 24_576  # EIP-170
    assert contract.load() is artifact


def test_the_event_has_its_final_form() -> None:
    (event,) = [entry for entry in contract.load().abi if entry.get("name") == "Anchored"]
    assert [field["type"] for field in event["inputs"]] == ANCHORED
    assert [field["indexed"] for field in event["inputs"]] == [True] * 3 + [False] * 7


def test_the_code_has_no_trace_of_its_making() -> None:
    assert b"ipfs" not in contract.load().runtime
    assert b"solc" not in contract.load().runtime


def test_a_changed_artifact_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = json.loads(ARTIFACT.read_text())
    changed["deployedBytecode"] = changed["deployedBytecode"][:-2] + "00"
    (tmp_path / ARTIFACT.name).write_text(json.dumps(changed))
    monkeypatch.setattr(resources, "files", lambda _: tmp_path)
    with pytest.raises(MismatchError, match="runtime code") as caught:
        contract.load.__wrapped__()
    assert caught.value.remedy


def test_the_shipped_lock_names_no_registry_and_the_same_anvil() -> None:
    shipped = json.loads((ROOT / "provenance/contract/anvil/package-lock.json").read_text())
    development = json.loads((ROOT / "contracts/package-lock.json").read_text())
    name = "node_modules/@foundry-rs/anvil"
    for lock in (shipped, development):
        assert not any("resolved" in package for package in lock["packages"].values())
        assert all("integrity" in package for path, package in lock["packages"].items() if path)
    assert shipped["packages"][name]["integrity"] == development["packages"][name]["integrity"]


def test_the_compiler_is_executable() -> None:
    assert (ROOT / "contracts/tools/solc").stat().st_mode & 0o111
