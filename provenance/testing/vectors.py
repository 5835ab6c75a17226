"""Run vector files against this implementation: ``python -m provenance.testing.vectors FILE…``.

A vector file is a JSON list of cases; the beginning of its name tells their shape: ``table-1``, ``array-1``,
``merkle-cases``, ``merkle``, ``records``, ``statements``, ``streams``, ``batch``. Whoever writes another
implementation runs the same files against theirs. Each case holds, or fails for a named reason; the last line
is
``N passed, M failed``, and the exit code is 1 if any failed, 2 if a file cannot be used at all.

Prose in a case (``numpy.arange(N, dtype=T)``, ``utf-8 of 'leaf-' + str(i)``) is parsed by a pattern, never
evaluated.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provenance.core import batches, canonical, merkle, records, streams
from provenance.errors import MalformedError, MismatchError, ProvenanceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy as np
    import pyarrow as pa

__all__ = ["Outcome", "main", "run_file"]

Case = dict[str, Any]

MAX_FILE_BYTES = 64 << 20
MAX_LEAVES = 1 << 20
MAX_ELEMENTS = 1 << 26
_ARANGE = re.compile(r"numpy\.arange\((\d{1,9}), dtype=['\"]?([<>|=]?[a-z]\w{0,9})['\"]?\)")
_LEAVES = re.compile(r"utf-8 of '([^']*)' \+ str\(i\)")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one case; ``reason`` is empty if it passed."""

    name: str
    reason: str


def run_file(path: Path) -> list[Outcome]:
    """Run every case of a vector file.

    Raises:
        MalformedError: the file's name has no known beginning, or it is not a JSON list of objects.
    """
    check = _runner(path.name)
    cases = _load(path)
    return [Outcome(_name(case, at), _run(check, case)) for at, case in enumerate(cases)]


def _runner(name: str) -> Callable[[Case], None]:
    for beginning in sorted(_RUNNERS, key=len, reverse=True):  # merkle-cases before merkle
        if name.startswith(beginning):
            return _RUNNERS[beginning]
    raise MalformedError(
        f"{name}: no vectors are known by this name",
        reason="unknown-vectors",
        remedy=f"Name the file after what it holds: {', '.join(_RUNNERS)}.",
    )


def _load(path: Path) -> list[Case]:
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise MalformedError(f"{path}: larger than {MAX_FILE_BYTES} bytes", reason="too-long")
        cases = json.loads(path.read_bytes())
    except OSError as error:
        raise MalformedError(f"{path}: cannot be read: {error.strerror}", reason="unreadable") from error
    except (ValueError, RecursionError) as error:
        raise MalformedError(f"{path}: not JSON", reason="not-json") from error
    if not isinstance(cases, list) or not all(isinstance(case, dict) for case in cases):
        raise MalformedError(f"{path}: expected a JSON list of cases", reason="not-a-list")
    return cases


def _name(case: Case, at: int) -> str:
    return str(case.get("name", f"size-{case['size']}" if "size" in case else f"case-{at}"))


def _run(check: Callable[[Case], None], case: Case) -> str:
    try:
        check(case)
    except ProvenanceError as error:
        return error.message
    except (
        KeyError,
        TypeError,
        ValueError,
        AttributeError,
        IndexError,
        OverflowError,
        binascii.Error,
    ) as error:
        return f"the case cannot be read: {type(error).__name__}: {error}"
    return ""


def _same(what: str, expected: object, actual: object) -> None:
    if expected != actual:
        raise MismatchError(what, expected=expected, actual=actual)


def _holds(action: Callable[[], object], case: Case, *, valid: bool) -> bool:
    """Do the action. A valid case must succeed, another be refused, and for its reason if it names one."""
    try:
        action()
    except ProvenanceError as error:
        if valid:
            raise
        _same("reason", case.get("reason", error.reason), error.reason)
        return False
    if not valid:
        raise MismatchError("verdict", expected="refused", actual="accepted")
    return True


def _hashes(texts: Sequence[str]) -> list[bytes]:
    return [bytes.fromhex(text) for text in texts]


# --------------------------------------------------------------------------------------------------- digests


def _check_table(case: Case) -> None:
    from provenance.core.digests import table1, type_string

    table = _ipc_table(base64.b64decode(case["ipc"], validate=True))
    expected = case["digest"]
    if not _holds(lambda: table1(table), case, valid=expected is not None):
        return
    if "types" in case:
        _same("types", case["types"], [type_string(field.type) for field in table.schema])
    _same("digest", expected, table1(table).hex)


def _ipc_table(data: bytes) -> pa.Table:
    import pyarrow as pa

    try:
        return pa.ipc.open_stream(data).read_all()
    except pa.ArrowException as error:
        raise MalformedError("ipc: not an Arrow IPC stream", reason="ipc") from error


def _check_array(case: Case) -> None:
    from provenance.core.digests import array1

    array = _ruled_array(case) if "rule" in case else _laid_out_array(case)
    expected = case["digest"]
    if _holds(lambda: array1(array), case, valid=expected is not None):
        _same("digest", expected, array1(array).hex)


def _laid_out_array(case: Case) -> np.ndarray[Any, Any]:
    import numpy as np

    dtype = np.dtype(case["dtype"])
    values = (
        np.frombuffer(bytes.fromhex(case["hex"]), dtype.newbyteorder("<"))
        if case["hex"]
        else np.empty(0, dtype)
    )
    if dtype.byteorder == ">":
        values = np.frombuffer(bytes.fromhex(case["hex"]), dtype)
    return np.asarray(values.reshape(case["shape"]), dtype=dtype, order=case.get("order", "C"))


def _ruled_array(case: Case) -> np.ndarray[Any, Any]:
    import numpy as np

    match = _ARANGE.fullmatch(case["rule"])
    if not match or int(match[1]) > MAX_ELEMENTS:
        raise MalformedError(f"rule {case['rule']!r:.80}: expected numpy.arange(N, dtype=T)", reason="rule")
    return np.arange(int(match[1]), dtype=np.dtype(match[2])).reshape(case["shape"])


# ------------------------------------------------------------------------------------------------------ tree


def _check_merkle_case(case: Case) -> None:
    path = _hashes(case["path"])
    root = bytes.fromhex(case["root"])
    if case["check"] == "inclusion":
        leaf = merkle.leaf_hash(bytes.fromhex(case["record"]))
        _holds(
            lambda: merkle.check_inclusion(leaf, case["index"], case["size"], path, root=root),
            case,
            valid=case["valid"],
        )
    elif case["check"] == "consistency":
        old_root = bytes.fromhex(case["old_root"])
        _holds(
            lambda: merkle.check_consistency(
                case["old_size"], case["size"], path, old_root=old_root, root=root
            ),
            case,
            valid=case["valid"],
        )
    else:
        raise MalformedError(
            f"check {case['check']!r:.40}: expected inclusion or consistency", reason="check"
        )


def _check_tree(case: Case) -> None:
    match = _LEAVES.fullmatch(case["leaves"])
    size = case["size"]
    if not match or not 0 <= size <= MAX_LEAVES:
        raise MalformedError(
            "leaves: expected \"utf-8 of 'PREFIX' + str(i)\" and a size to 2^20", reason="leaves"
        )
    leaves = [merkle.leaf_hash(f"{match[1]}{i}".encode()) for i in range(size)]
    tree = merkle.Tree(leaves)
    _same("root", case["root"], tree.root.hex())
    for text, given in case["paths"].items():
        index, path = int(text), _hashes(given)
        _same(f"path of leaf {index}", given, [node.hex() for node in tree.prove_inclusion(index)])
        merkle.check_inclusion(leaves[index], index, size, path, root=tree.root)
        for what, leaf, at, count, changed in _changes(leaves[index], index, size, path):
            try:
                merkle.check_inclusion(leaf, at, count, changed, root=tree.root)
            except ProvenanceError:
                continue
            raise MismatchError(f"path of leaf {index} with {what}", expected="refused", actual="accepted")


def _changes(
    leaf: bytes, index: int, size: int, path: list[bytes]
) -> Iterator[tuple[str, bytes, int, int, list[bytes]]]:
    """Everything near a right path that must fail: any byte, the index, the length.

    The size where it changes the path's shape.
    """
    for at in range(merkle.HASH_BYTES):
        yield f"byte {at} of the leaf changed", _flipped(leaf, at), index, size, path
        for level, node in enumerate(path):
            changed = [*path[:level], _flipped(node, at), *path[level + 1 :]]
            yield f"byte {at} of hash {level} changed", leaf, index, size, changed
    for other in {index - 1, index + 1, index ^ 1, size - 1} - {index}:
        yield f"index {other}", leaf, other, size, path
    for count in (0, index, 2 * size, 2 * size + 1):
        yield f"size {count}", leaf, index, count, path
    yield "a hash more", leaf, index, size, [*path, bytes(merkle.HASH_BYTES)]
    if path:
        yield "a hash less", leaf, index, size, path[:-1]
        yield "its first hash missing", leaf, index, size, path[1:]


def _flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


# ------------------------------------------------------------------------------ records, streams and batches


def _check_record(case: Case) -> None:
    data = bytes.fromhex(case["hex"])
    if _holds(lambda: canonical.decode(data), case, valid=case["id"] is not None):
        _same("id", case["id"], merkle.leaf_hash(data).hex())


def _check_statement(case: Case) -> None:
    data = bytes.fromhex(case["hex"])
    if not _holds(lambda: records.decode_record(data), case, valid=case["id"] is not None):
        return
    record = records.decode_record(data)
    _same("id", case["id"], record.id.hex())
    _same("kind", case["kind"], record.kind)
    if record.key_id is not None:
        key = bytes.fromhex(case["public_key"])
        _holds(
            lambda: records.check_signature(record, {records.key_id(key): key}),
            case,
            valid=case["signature_valid"],
        )


def _check_stream(case: Case) -> None:
    log = streams.LogIdentity(case["cluster"], "topic", case["topic"], case["partition"])
    binding = streams.binding_of(log)
    _same("binding", case["binding"], binding.hex())
    opening = streams.Opening(
        case["chain_id"],
        bytes.fromhex(case["contract"]),
        case["org"],
        case["generation"],
        case["start"],
        binding,
        bytes.fromhex(case.get("continues", "00" * 32)),
    )
    acc = streams.stream_of(opening)
    _same("stream", case["stream"], acc.hex())
    seq = 0
    for batch in case["batches"]:
        seq = batch["seq"]
        acc = streams.next_acc(
            acc,
            seq,
            first_offset=batch["first_offset"],
            next_offset=batch["next_offset"],
            leaf_count=batch["leaf_count"],
            root=bytes.fromhex(batch["root"]),
            manifest_hash=bytes.fromhex(batch["manifest_hash"]),
        )
        _same(f"acc({seq})", batch["acc"], acc.hex())
    _same("as_continues", case["as_continues"], streams.continues_of(opening, seq, acc).hex())


def _check_batch(case: Case) -> None:
    data = bytes.fromhex(case["hex"])
    if not _holds(lambda: batches.decode_batch(data), case, valid=case["valid"]):
        return
    batch = batches.decode_batch(data)
    _same("manifest hash", case["manifest_hash"], batches.manifest_hash(batch.manifest).hex())
    _same("acc", case["acc"], batch.manifest.acc.hex())
    _same("file", case["file"], batches.file_name(batch.manifest))
    _same("offsets", case["offsets"], [leaf.offset for leaf in batch.leaves])
    _same("encoded again", case["hex"], batches.encode_batch(batch).hex())


_RUNNERS: dict[str, Callable[[Case], None]] = {
    "table-1": _check_table,
    "array-1": _check_array,
    "merkle-cases": _check_merkle_case,
    "merkle": _check_tree,
    "records": _check_record,
    "statements": _check_statement,
    "streams": _check_stream,
    "batch": _check_batch,
}


def main(arguments: Sequence[str]) -> int:
    """Run the files, name each failure, print the counts; returns the exit code."""
    if not arguments or arguments[0].startswith("-"):
        sys.stdout.write(f"{__doc__}\n")
        return 0 if arguments and arguments[0] in {"-h", "--help"} else 2
    passed = failed = code = 0
    for name in arguments:
        try:
            outcomes = run_file(Path(name))
        except MalformedError as error:
            sys.stderr.write(
                f"error: {error.message}\n" + (f"  next: {error.remedy}\n" if error.remedy else "")
            )
            code = error.exit_code
            continue
        for outcome in outcomes:
            if outcome.reason:
                sys.stdout.write(f"FAILED {Path(name).name}: {outcome.name}: {outcome.reason}\n")
        failures = sum(bool(outcome.reason) for outcome in outcomes)
        passed, failed = passed + len(outcomes) - failures, failed + failures
    sys.stdout.write(f"{passed} passed, {failed} failed\n")
    return 1 if failed else code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
