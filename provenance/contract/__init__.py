"""The compiled ledger contract as this package ships it.

``ProvenanceLedger.json`` is made from ``contracts/src`` by ``scripts/build_contract.py`` and rebuilt and
compared by ``make test``, so what users deploy is what the sources say. The contract has no immutables and
no metadata: every deployment of a release has the same runtime code, and one hash tells it apart from any
other (`spec/anchoring.md`, "Contract"). Beside it lie the npm lock of the development chain and the module
that finds Node.js, which installing that chain needs.
"""

from __future__ import annotations

import functools
import hashlib
import json
from dataclasses import dataclass
from importlib import resources
from typing import Any

from provenance.errors import MismatchError

__all__ = ["Artifact", "load"]


@dataclass(frozen=True, slots=True)
class Artifact:
    """A compiled contract: its interface in Solidity's JSON form, and its code.

    ``bytecode`` deploys it, ``runtime`` then stands on the chain. ``code_hash`` is the SHA-256 of
    ``runtime``; ``compiler`` the full version of the compiler.
    """

    name: str
    compiler: str
    abi: tuple[dict[str, Any], ...]
    bytecode: bytes
    runtime: bytes
    code_hash: bytes


@functools.cache
def load() -> Artifact:
    """The shipped artifact of ``ProvenanceLedger``.

    Raises:
        MismatchError: the installed file was changed.
    """
    text = resources.files(__package__).joinpath("ProvenanceLedger.json").read_text(encoding="utf-8")
    fields = json.loads(text)
    runtime = bytes.fromhex(fields["deployedBytecode"].removeprefix("0x"))
    code_hash = hashlib.sha256(runtime).digest()
    if code_hash.hex() != fields["runtimeSha256"]:
        raise MismatchError(
            "runtime code of the shipped ProvenanceLedger.json",
            expected=fields["runtimeSha256"],
            actual=code_hash.hex(),
            remedy="Install the package again: its files were changed.",
        )
    return Artifact(
        name=fields["name"],
        compiler=fields["compiler"],
        abi=tuple(fields["abi"]),
        bytecode=bytes.fromhex(fields["bytecode"].removeprefix("0x")),
        runtime=runtime,
        code_hash=code_hash,
    )
