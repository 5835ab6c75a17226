"""Verifying a proof file offline: its bytes, a trust file, and whatever files are at hand to compare.

Nothing here asks a node, a log, a database or the network, and nothing is imported that could. What the file
does not show is returned with the result, and is part of it.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from provenance.core.digests import TreeEntry, tree1
from provenance.core.proof_check import check_files, check_proof
from provenance.core.proofs import decode_proof
from provenance.core.trust import decode_trust
from provenance.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from provenance.core.proof_check import Checked, CheckedRecord
    from provenance.ports import StoredFiles

__all__ = ["Verified", "checked_json", "digest_path", "verify"]


@dataclass(frozen=True, slots=True)
class Verified:
    """What holds, how many files were compared, and what was not checked, in sentences."""

    checked: Checked
    files: int
    unchecked: tuple[str, ...]


def verify(proof: bytes, trust: str, *, paths: Sequence[str] = (), files: StoredFiles) -> Verified:
    """Check a proof file against a trust file, and files against the proof.

    Args:
        proof: the proof file's bytes.
        trust: the trust file's text; the verifier's own.
        paths: stored files or folders that are said to be the proved shards.
        files: reads them.

    Raises:
        VerificationError: the first thing that does not hold, named.
        MalformedError: the proof or the trust file does not follow its format.
        UnavailableError: a path is not there, or cannot be read.
    """
    believed = decode_trust(trust)
    checked = check_proof(decode_proof(proof), believed)
    digests = []
    for path in paths:
        found = digest_path(files, path)
        if found is None:
            raise UnavailableError(
                f"{path}: no such file or folder", reason="no-file", remedy="Check the path."
            )
        digests.append((path, *found))
    return Verified(checked, len(digests), (*check_files(checked, digests), *checked.unchecked))


def digest_path(files: StoredFiles, path: str) -> tuple[str, str] | None:
    """The physical digest of what lies at a path, (kind, hex).

    Of a file, or of a folder; None if nothing does.
    """
    entry = files.file(path)
    if entry is not None:
        return "sha256", entry.sha256.hex()
    entries = []
    for name in files.paths(path):
        found = files.file(posixpath.join(path, name))
        if found is not None:
            entries.append(TreeEntry(name, found.size, found.sha256))
    return ("tree1-sha256", tree1(entries).hex) if entries else None


def checked_json(checked: Checked) -> dict[str, Any]:
    """A checked proof as ``--json`` shows it."""
    value: dict[str, Any] = {
        "evidence": checked.evidence.value,
        "chain_id": str(checked.chain_id),
        "contract": checked.contract.hex(),
        "shards": [_record_json(entry) for entry in checked.shards],
        "ancestors": [_record_json(entry) for entry in checked.ancestors],
        "seal": None,
    }
    if checked.seal is not None:
        seal, signer = checked.seal.seal, checked.seal.signer
        value["seal"] = {
            **_record_json(checked.seal.anchored),
            "run": seal.run.hex(),
            "status": seal.status,
            "ended": seal.ended,
            "signer": {"org": signer.org, "name": signer.name},
        }
    return value


def _record_json(entry: CheckedRecord) -> dict[str, Any]:
    value: dict[str, Any] = {
        "record": entry.record.id.hex(),
        "kind": entry.record.kind,
        "stream": entry.stream.hex(),
        "seq": entry.seq,
        "index": entry.index,
        "offset": entry.offset,
        "block": entry.block_number,
        "parts": [part.as_json() for part in entry.record.statement.subjects],
    }
    if entry.partition is not None:
        value |= {"stage": entry.stage, "number": entry.partition.number, "rows": entry.partition.rows}
    return value
