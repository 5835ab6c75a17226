"""The proof file: what an auditor checks with no log, no database and no node.

One JSON text for a shard, or a bundle for many (`spec/anchoring.md`, "Proof file"): each record with its path
to the root of an anchored batch, the batches' manifests with what their streams were opened with, the signed
seal, and the path of each record to the root that the seal gives for its stage. It is evidence and never
trust: nothing in it says which algorithm, tree size or root to use. Checking is
`provenance.core.proof_check`; here is only the form, bounded before anything is allocated for it.

``seal.stage_path`` holds one path per entry of ``shards`` and then of ``ancestors``, in their order; empty
for an entry that no stage of this seal counts. ``seal`` is left out where no shard is a partition: other
records are signed by themselves.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from provenance.core import canonical, merkle
from provenance.core.evidence import BlockEvidence, decode_evidence, encode_evidence
from provenance.core.streams import Opening
from provenance.errors import ConfigError, MalformedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from provenance.core.canonical import JSONObject

__all__ = [
    "MAX_BYTES",
    "Anchored",
    "Proof",
    "ProofBatch",
    "ProofSeal",
    "decode_proof",
    "encode_proof",
    "prove_anchored",
]

MAX_BYTES = 64 << 20
MAX_RECORDS = 100_000
MAX_BATCHES = 10_000
MAX_PATH = 53  # a tree has at most 2^53-1 leaves
_MAX_TEXT = (canonical.MAX_BYTES + 2) // 3 * 4


@dataclass(frozen=True, slots=True)
class Anchored:
    """A record's bytes, the ordinal of its batch in the proof, its leaf's index there, and the path."""

    record: bytes
    batch: int
    index: int
    path: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class ProofBatch:
    """An anchored batch: its manifest's bytes, its stream's opening, its accumulator, where it is mined."""

    manifest: bytes
    opening: Opening
    acc: bytes
    evidence: BlockEvidence


@dataclass(frozen=True, slots=True)
class ProofSeal:
    """The run's seal, and each entry's path to the root of its stage in it."""

    anchored: Anchored
    stage_paths: tuple[tuple[bytes, ...], ...]


@dataclass(frozen=True, slots=True)
class Proof:
    """A decoded proof file.

    ``endorsements`` and ``stamps`` are counted, this version makes and reads none.
    """

    shards: tuple[Anchored, ...]
    batches: tuple[ProofBatch, ...]
    seal: ProofSeal | None = None
    ancestors: tuple[Anchored, ...] = ()
    endorsements: int = 0
    stamps: int = 0

    @property
    def entries(self) -> tuple[Anchored, ...]:
        """Shards, then ancestors: the order of the stage paths."""
        return self.shards + self.ancestors


def prove_anchored(record: bytes, tree: merkle.Tree, index: int, *, ordinal: int) -> Anchored:
    """That a record is leaf ``index`` of its batch's tree; ``ordinal`` is the batch's place in the proof."""
    return Anchored(record, ordinal, index, tuple(tree.prove_inclusion(index)))


# ---------------------------------------------------------------------------------------------------- writing


def encode_proof(proof: Proof) -> bytes:
    """The file's bytes: JSON with sorted keys, bytes in padded standard base64, a newline at the end.

    Raises:
        ConfigError: ``proof-size``: more than a verifier would read.
    """
    value: JSONObject = {
        "version": 1,
        "shards": [_anchored_json(entry) for entry in proof.shards],
        "batches": [_batch_json(batch) for batch in proof.batches],
        "endorsements": [],
        "stamps": [],
    }
    if proof.ancestors:
        value["ancestors"] = [_anchored_json(entry) for entry in proof.ancestors]
    if proof.seal is not None:
        paths = [_path_json(path) for path in proof.seal.stage_paths]
        value["seal"] = {**_anchored_json(proof.seal.anchored), "stage_path": paths}
    data = json.dumps(value, sort_keys=True, separators=(",", ":")).encode() + b"\n"
    if len(data) > MAX_BYTES or len(proof.entries) > MAX_RECORDS or len(proof.batches) > MAX_BATCHES:
        raise ConfigError(
            f"proof: {len(data)} bytes, {len(proof.entries)} records, {len(proof.batches)} batches: more "
            "than a verifier reads",
            reason="proof-size",
            remedy="Prove fewer shards at once, or leave out the ancestors.",
        )
    return data


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _path_json(path: Sequence[bytes]) -> list[str]:
    return [_text(node) for node in path]


def _anchored_json(entry: Anchored) -> JSONObject:
    return {
        "record": _text(entry.record),
        "batch": entry.batch,
        "index": entry.index,
        "path": _path_json(entry.path),
    }


def _batch_json(batch: ProofBatch) -> JSONObject:
    opening = batch.opening
    return {
        "manifest": _text(batch.manifest),
        "opening": {
            "chain_id": str(opening.chain_id),
            "contract": _text(opening.contract),
            "org": opening.org,
            "generation": opening.generation,
            "start_offset": opening.start_offset,
            "binding": _text(opening.binding),
            "continues": _text(opening.continues),
        },
        "acc": _text(batch.acc),
        "evidence": encode_evidence(batch.evidence),
    }


# ---------------------------------------------------------------------------------------------------- reading


def decode_proof(data: bytes) -> Proof:
    """A proof from its bytes: exactly its keys, every count and length bounded. Nothing is checked yet.

    Raises:
        MalformedError: ``proof-size``, ``proof-json``, ``proof-version`` or ``proof``; the place is named.
    """
    if len(data) > MAX_BYTES:
        raise MalformedError(f"proof: {len(data)} bytes, expected at most {MAX_BYTES}", reason="proof-size")
    value = _parse(data)
    if value.get("version") != 1 or type(value["version"]) is not int:
        raise MalformedError(
            f"proof: version {value.get('version')!r:.20}, expected 1",
            reason="proof-version",
            remedy="Verify it with a newer version of this program.",
        )
    keys = {"version", "shards", "batches", "endorsements", "stamps"}
    _only(value, keys, {"ancestors", "seal"}, "proof")
    return Proof(
        shards=_entries(value["shards"], "shards"),
        batches=_list(value["batches"], "batches", MAX_BATCHES, _decode_batch),
        seal=_decode_seal(value["seal"]) if "seal" in value else None,
        ancestors=_entries(value.get("ancestors", []), "ancestors"),
        endorsements=len(_items(value["endorsements"], "endorsements", MAX_RECORDS)),
        stamps=len(_items(value["stamps"], "stamps", MAX_RECORDS)),
    )


def _parse(data: bytes) -> JSONObject:
    try:
        value = json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_unique,
            parse_int=_integer,
            parse_float=_refuse,
            parse_constant=_refuse,
        )
    except (ValueError, RecursionError) as error:  # ValueError: not JSON, and not UTF-8
        raise MalformedError(f"proof: not JSON: {error!s:.100}", reason="proof-json") from error
    if type(value) is not dict:
        raise MalformedError("proof: expected a JSON object", reason="proof-json")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> JSONObject:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise MalformedError("proof: a key stands twice in one object", reason="proof-json")
    return value


def _integer(digits: str) -> int:
    if len(digits) > 17:  # "-9007199254740991"
        raise MalformedError("proof: an integer beyond 2^53-1", reason="proof-json")
    return int(digits)


def _refuse(text: str) -> int:
    raise MalformedError(f"proof: number {text[:40]} is no integer", reason="proof-json")


def _entries(value: object, where: str) -> tuple[Anchored, ...]:
    return _list(value, where, MAX_RECORDS, _decode_anchored)


def _decode_anchored(value: object, where: str) -> Anchored:
    entry = _only(value, {"record", "batch", "index", "path"}, set(), where)
    return _anchored(entry, where)


def _anchored(entry: JSONObject, where: str) -> Anchored:
    return Anchored(
        _bytes(entry["record"], f"{where}.record"),
        _count(entry["batch"], f"{where}.batch"),
        _count(entry["index"], f"{where}.index"),
        _decode_path(entry["path"], f"{where}.path"),
    )


def _decode_seal(value: object) -> ProofSeal:
    entry = _only(value, {"record", "batch", "index", "path", "stage_path"}, set(), "seal")
    paths = _list(entry["stage_path"], "seal.stage_path", MAX_RECORDS, _decode_path)
    return ProofSeal(_anchored(entry, "seal"), paths)


def _decode_batch(value: object, where: str) -> ProofBatch:
    entry = _only(value, {"manifest", "opening", "acc", "evidence"}, set(), where)
    return ProofBatch(
        _bytes(entry["manifest"], f"{where}.manifest"),
        _decode_opening(entry["opening"], f"{where}.opening"),
        _bytes(entry["acc"], f"{where}.acc", 32),
        decode_evidence(entry["evidence"]),
    )


def _decode_opening(value: object, where: str) -> Opening:
    keys = {"chain_id", "contract", "org", "generation", "start_offset", "binding", "continues"}
    entry = _only(value, keys, set(), where)
    chain_id = entry["chain_id"]
    if type(chain_id) is not str or not (chain_id.isascii() and chain_id.isdecimal()) or len(chain_id) > 78:
        raise _refusal(f"{where}.chain_id", "a decimal number as text")
    return Opening(
        chain_id=int(chain_id),
        contract=_bytes(entry["contract"], f"{where}.contract", 20),
        org=_count(entry["org"], f"{where}.org"),
        generation=_count(entry["generation"], f"{where}.generation"),
        start_offset=_count(entry["start_offset"], f"{where}.start_offset"),
        binding=_bytes(entry["binding"], f"{where}.binding", 32),
        continues=_bytes(entry["continues"], f"{where}.continues", 32),
    )


def _decode_path(value: object, where: str) -> tuple[bytes, ...]:
    return _list(value, where, MAX_PATH, lambda node, place: _bytes(node, place, 32))


def _list(value: object, where: str, limit: int, decode: Callable[[object, str], Any]) -> tuple[Any, ...]:
    return tuple(decode(item, f"{where}[{at}]") for at, item in enumerate(_items(value, where, limit)))


def _items(value: object, where: str, limit: int) -> list[Any]:
    if type(value) is not list or len(value) > limit:
        raise _refusal(where, f"a list of at most {limit}")
    return value


def _only(value: object, required: set[str], optional: set[str], where: str) -> JSONObject:
    if type(value) is not dict:
        raise _refusal(where, "an object")
    odd = sorted((required - set(value)) | (set(value) - required - optional))
    if odd:
        raise MalformedError(f"proof: {where}: missing or unknown key {odd[0]!s:.60}", reason="proof")
    return value


def _count(value: object, where: str) -> int:
    if type(value) is not int or not 0 <= value <= canonical.MAX_INTEGER:
        raise _refusal(where, "a count")
    return value


def _bytes(value: object, where: str, size: int | None = None) -> bytes:
    if type(value) is not str or len(value) > _MAX_TEXT:
        raise _refusal(where, "base64 of at most 65,535 bytes")
    try:
        data = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:  # ValueError: not ASCII
        raise _refusal(where, "padded standard base64") from error
    # Bits after the last byte would make two texts of one value.
    if _text(data) != value or size not in {None, len(data)}:
        raise _refusal(where, "padded standard base64" + (f" of {size} bytes" if size else ""))
    return data


def _refusal(where: str, expected: str) -> MalformedError:
    return MalformedError(f"proof: {where}: expected {expected}", reason="proof")
