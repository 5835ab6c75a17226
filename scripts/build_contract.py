"""Compile the ledger contract into the artifact that the package ships, or check that artifact.

The compiler is the one that py-solc-x has installed, else npm's of the same version behind
``contracts/tools/solc``; both give the same bytes. All settings that change the code stand in `SETTINGS` and
in the artifact.

Usage: ``python scripts/build_contract.py [--check]``; run ``npm ci`` in ``contracts/`` first.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import solcx

from provenance.contract.node import node_environment

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "contracts" / "src"
ARTIFACT = ROOT / "provenance" / "contract" / "ProvenanceLedger.json"
NPM_COMPILER = ROOT / "contracts" / "tools" / "solc"
NAME = "ProvenanceLedger"
VERSION = "0.8.37"
SETTINGS: dict[str, Any] = {
    # The oldest that the compiler still offers without a warning; the code uses no later instruction, and
    # older chains can run it.
    "evmVersion": "london",
    "viaIR": True,
    "optimizer": {"enabled": True, "runs": 1_000_000},
    # Neither a hash of the sources nor the compiler's mark behind the code: one code hash for a release.
    "metadata": {"bytecodeHash": "none", "appendCBOR": False},
}


def compiler() -> Path:
    """The compiler's executable: py-solc-x's if it has this version, else npm's."""
    if VERSION in {str(version) for version in solcx.get_installed_solc_versions()}:
        return Path(solcx.install.get_executable(VERSION))
    if (ROOT / "contracts" / "node_modules" / "solc").is_dir():
        return NPM_COMPILER
    return Path(solcx.install.get_executable(solcx.install_solc(VERSION)))


def build() -> str:
    """The artifact's text."""
    sources = {
        path.relative_to(SOURCES).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(SOURCES.rglob("*.sol"))
    }
    outputs = [
        "abi",
        "evm.bytecode.object",
        "evm.deployedBytecode.object",
        "evm.deployedBytecode.immutableReferences",
    ]
    request = {
        "language": "Solidity",
        "sources": {name: {"content": text} for name, text in sources.items()},
        "settings": {**SETTINGS, "outputSelection": {f"{NAME}.sol": {NAME: outputs}}},
    }
    executable = compiler()
    try:
        answer = solcx.compile_standard(request, solc_binary=executable)
    except solcx.exceptions.SolcError as error:
        sys.exit(str(error.message))
    warnings = [error["formattedMessage"] for error in answer.get("errors", [])]
    contract = answer["contracts"][f"{NAME}.sol"][NAME]
    deployed = contract["evm"]["deployedBytecode"]
    if warnings or deployed.get("immutableReferences"):
        sys.exit(
            "\n".join(warnings) or "the contract has immutables: its code would differ between deployments"
        )
    artifact = {
        "name": NAME,
        "compiler": solcx.wrapper.get_version_str_from_solc_binary(executable),
        "settings": SETTINGS,
        "sources": {name: hashlib.sha256(text.encode()).hexdigest() for name, text in sources.items()},
        "abi": contract["abi"],
        "bytecode": "0x" + contract["evm"]["bytecode"]["object"],
        "deployedBytecode": "0x" + deployed["object"],
        "runtimeSha256": hashlib.sha256(bytes.fromhex(deployed["object"])).hexdigest(),
    }
    return json.dumps(artifact, indent=1) + "\n"


def check(text: str) -> None:
    """Exit with status 1, naming what differs, unless the shipped artifact is this text."""
    shipped = ARTIFACT.read_text(encoding="utf-8") if ARTIFACT.exists() else "{}"
    if shipped == text:
        return
    old, new = json.loads(shipped), json.loads(text)
    differing = [key for key in new if old.get(key) != new[key]] or ["layout of the file"]
    sys.exit(
        f"{ARTIFACT.name} is not what contracts/src gives ({', '.join(differing)} differ): "
        "run scripts/build_contract.py"
    )


def main() -> None:
    """Build, or check with ``--check``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="compare with the shipped artifact and write nothing"
    )
    arguments = parser.parse_args()
    os.environ.update(node_environment())  # npm's compiler runs on Node
    text = build()
    if arguments.check:
        check(text)
        return
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=ARTIFACT.parent, delete=False) as file:
        file.write(text)
    Path(file.name).chmod(0o644)
    Path(file.name).replace(ARTIFACT)


if __name__ == "__main__":
    main()
