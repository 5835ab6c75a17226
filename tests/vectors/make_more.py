"""Write the cases that this project adds to the given vectors: ``python tests/vectors/make_more.py``.

Each failing case is one right case with one thing wrong, and names the reason for which it must be refused;
failing ones outnumber right ones well over five
to one. The files are committed; a test writes them again and compares.
"""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from provenance.core import batches, canonical, kinds, lists, merkle, records
from provenance.core.streams import LogIdentity

Case = dict[str, Any]
HERE = Path(__file__).parent


def h32(byte: int) -> bytes:
    return bytes([byte]) * 32


class Signer:
    def __init__(self, seed: int) -> None:
        self._key = Ed25519PrivateKey.from_private_bytes(h32(seed))

    def public_key(self) -> bytes:
        return self._key.public_key().public_bytes_raw()

    def sign(self, message: bytes) -> bytes:
        return self._key.sign(message)


# --------------------------------------------------------------------------------------------------- records


def record_cases() -> list[Case]:
    right = {
        "nested": b'{"a":{"b":[1,[2,{"c":null}]]}}',
        "solidus-and-del": b'{"t":"/\x7f"}',
        "negative": b'{"n":-1}',
        "empty-key": b'{"":0}',
        "brackets-in-text": b'{"t":"' + b"{[" * 100 + b'"}',
        "quote-before-brackets": b'{"t":"\\"' + b"[" * 100 + b'"}',
    }
    wrong = {
        "number-on-top": (b"1", "not-an-object"),
        "string-on-top": (b'"a"', "not-an-object"),
        "null-on-top": (b"null", "not-an-object"),
        "leading-space": (b' {"a":1}', "not-canonical"),
        "trailing-space": (b'{"a":1} ', "not-canonical"),
        "space-after-colon": (b'{"a": 1}', "not-canonical"),
        "space-after-comma": (b'{"a":1, "b":2}', "not-canonical"),
        "tab": (b'{\t"a":1}', "not-canonical"),
        "minus-one-as-float": (b'{"a":-1.0}', "not-an-integer"),
        "minus-zero": (b'{"a":-0}', "not-canonical"),
        "capital-exponent": (b'{"a":1E0}', "not-an-integer"),
        "leading-zero": (b'{"a":00}', "not-json"),
        "hex": (b'{"a":0x1}', "not-json"),
        "plus": (b'{"a":+1}', "not-json"),
        "bare-minus": (b'{"a":-}', "not-json"),
        "2^53": (b'{"a":9007199254740992}', "integer-too-large"),
        "-2^53": (b'{"a":-9007199254740992}', "integer-too-large"),
        "18-digits": (b'{"a":-99999999999999999}', "integer-too-large"),
        "minus-infinity": (b'{"a":-Infinity}', "not-an-integer"),
        "true-capital": (b'{"a":True}', "not-json"),
        "escaped-a": (b'{"\\u0061":1}', "not-canonical"),
        "escaped-tab-long": (b'{"a":"\\u0009"}', "not-canonical"),
        "escaped-del": (b'{"a":"\\u007f"}', "not-canonical"),
        "escaped-quote-long": (b'{"a":"\\u0022"}', "not-canonical"),
        "capital-escape": (b'{"a":"\\u001F"}', "not-canonical"),
        "pair-escaped": (b'{"a":"\\ud83d\\ude00"}', "not-canonical"),
        "high-surrogate": (b'{"a":"\\ud83d"}', "lone-surrogate"),
        "low-surrogate-key": (b'{"\\ude00":1}', "key-not-ascii"),
        "surrogate-as-utf-8": (b'{"a":"\xed\xa0\xbd"}', "not-utf-8"),
        "continuation-byte": (b'{"a":"\x80"}', "not-utf-8"),
        "five-byte-utf-8": (b'{"a":"\xf8\x88\x80\x80\x80"}', "not-utf-8"),
        "beyond-unicode": (b'{"a":"\xf4\x90\x80\x80"}', "not-utf-8"),
        "nul-byte": (b'{"a":"\x00"}', "not-json"),
        "raw-newline": (b'{"a":"\n"}', "not-json"),
        "key-with-accent": ('{"é":1}'.encode(), "key-not-ascii"),
        "key-twice-far": (b'{"a":1,"b":2,"a":1}', "duplicate-key"),
        "key-twice-escaped": (b'{"a":1,"\\u0061":2}', "duplicate-key"),
        "keys-unsorted-deep": (b'{"a":{"c":1,"b":2}}', "not-canonical"),
        "keys-longer-first": (b'{"aa":1,"a":2}', "not-canonical"),
        "trailing-object": (b'{"a":1}{}', "not-json"),
        "trailing-comma": (b'{"a":1,}', "not-json"),
        "trailing-nul": (b'{"a":1}\x00', "not-json"),
        "unclosed": (b'{"a":1', "not-json"),
        "unopened": (b'"a":1}', "not-json"),
        "deep-lists": (b'{"a":' + b"[" * 64 + b"]" * 64 + b"}", "too-deep"),
        "deep-beside-text": (b'{"t":"]","a":' + b"[" * 64 + b"]" * 64 + b"}", "too-deep"),
        "too-long-by-one": (b'{"a":"' + b"x" * (65_536 - 8) + b'"}', "too-long"),
    }
    good = [
        {"name": name, "hex": data.hex(), "id": merkle.leaf_hash(data).hex()} for name, data in right.items()
    ]
    bad = [
        {"name": name, "hex": data.hex(), "id": None, "reason": reason}
        for name, (data, reason) in wrong.items()
    ]
    return good + bad


# ------------------------------------------------------------------------------------------------ statements


def statements() -> dict[
    str, kinds.Dataset | kinds.Run | kinds.Stage | kinds.Partition | kinds.Seal | kinds.Consumption
]:
    part = records.Subject("p00003", {"sha256": h32(5).hex(), "array1-sha256": h32(6).hex()})
    return {
        "dataset": kinds.Dataset("prompts", "1.2", "CC-BY-SA-3.0", True, h32(1)),
        "run": kinds.Run(
            "voice",
            b"n" * 16,
            (h32(1),),
            h32(2),
            False,
            lists.ListHead.over([h32(3), h32(4)]),
            {"split": 7},
            "2026-11-30T21:00:00.25Z",
            ("provenance-ledger", "0.1.0"),
            commit="a" * 40,
            lockfile=h32(9),
        ),
        "stage": kinds.Stage(
            h32(1),
            "clean",
            (h32(2),),
            kinds.Transform("pipeline.voice:clean", h32(3), h32(4), h32(5), "0.1.0"),
            {"threshold_db": {"$float": "-40.0"}},
            schema=(("a", "i64"),),
            partitions=4,
        ),
        "partition": kinds.Partition(
            h32(1),
            h32(2),
            3,
            10,
            320,
            (part,),
            (kinds.Input(h32(7), "x.wav", {"sha256": h32(8).hex()}, (0, 99)),),
            key=h32(9).hex(),
        ),
        "partition-roots": kinds.Partition(
            h32(1), h32(2), 0, 0, 0, (), (kinds.InputRoot(h32(3), 65, h32(4)),), rejected="silence"
        ),
        "seal": kinds.Seal(
            h32(1),
            "complete",
            "2026-11-30T21:05:00Z",
            (
                kinds.SealedStage(
                    h32(2),
                    "clean",
                    4,
                    40,
                    1280,
                    h32(3),
                    kinds.StoreTree(h32(4), 9),
                    lists.ListHead.over([h32(5)]),
                ),
            ),
        ),
        "consumption": kinds.Consumption(
            h32(1), h32(2), h32(3), lists.ListHead.over([h32(4)]), 7, 3, 1, "float32", 4, 0, h32(5), h32(6)
        ),
    }


def _drop(value: dict[str, Any], *path: str) -> None:
    for step in path[:-1]:
        value = value[step]
    del value[path[-1]]


def _changes(name: str) -> dict[str, Any]:
    """What may go wrong in any statement: each change makes one right statement wrong."""
    common = {
        "extra-field": lambda s: s.update(extra=1),
        "extra-in-predicate": lambda s: s["predicate"].update(extra=1),
        "other-type": lambda s: s.update(_type="https://in-toto.io/Statement/v0.1"),
        "no-type": lambda s: _drop(s, "_type"),
        "no-subject": lambda s: _drop(s, "subject"),
        "no-predicate": lambda s: _drop(s, "predicate"),
        "subject-not-a-list": lambda s: s.update(subject={}),
        "subject-without-digest": lambda s: s.update(subject=[{"name": "a"}]),
        "subject-without-name": lambda s: s.update(subject=[{"digest": {"sha256": h32(1).hex()}}]),
        "subject-empty-name": lambda s: s.update(subject=[{"name": "", "digest": {"sha256": h32(1).hex()}}]),
        "subject-empty-digest": lambda s: s.update(subject=[{"name": "a", "digest": {}}]),
        "subject-odd-digest": lambda s: s.update(subject=[{"name": "a", "digest": {"md5": h32(1).hex()}}]),
        "subject-short-digest": lambda s: s.update(subject=[{"name": "a", "digest": {"sha256": "00"}}]),
        "subject-capital-digest": lambda s: s.update(
            subject=[{"name": "a", "digest": {"sha256": "AB" * 32}}]
        ),
        "201-subjects": lambda s: s.update(subject=[{"name": "a", "digest": {"sha256": h32(1).hex()}}] * 201),
    }
    for field in statements()[name].statement().predicate:
        optional = {"commit", "lockfile", "schema", "partitions", "key", "rejected"}
        if field not in optional:
            common[f"no-{field}"] = lambda s, field=field: _drop(s, "predicate", field)
        common[f"null-{field}"] = lambda s, field=field: s["predicate"].update({field: None})
        common[f"text-{field}"] = lambda s, field=field: s["predicate"].update({field: " "})
    texts = {"name", "version", "licence", "precision"}
    return {key: change for key, change in common.items() if key.removeprefix("text-") not in texts}


def statement_cases() -> list[Case]:
    signer, other = Signer(1), Signer(2)
    public = signer.public_key().hex()
    cases: list[Case] = []
    for name, made in statements().items():
        statement = made.statement()
        signed = statement.kind != "partition"
        data = records.sign_record(statement, signer) if signed else records.encode_record(statement)
        case: Case = {
            "name": name,
            "hex": data.hex(),
            "id": merkle.leaf_hash(data).hex(),
            "kind": statement.kind,
        }
        if signed:
            case |= {"public_key": public, "signature_valid": True}
            cases += _envelope_cases(name, data, other)
        cases.append(case)
        for what, change in _changes(name).items():
            value = json.loads(canonical.encode(statement.as_json()))
            change(value)
            payload = canonical.encode(value)
            broken = _envelope(payload, signer) if signed else payload
            cases.append({"name": f"{name}-{what}", "hex": broken.hex(), "id": None, "reason": "schema"})
        for what, kind in (
            ("next-version", f"urn:provenance-ledger:{statement.kind}:2"),
            ("other-urn", "urn:x"),
            ("no-kind", 1),
        ):
            payload = canonical.encode({**statement.as_json(), "predicateType": kind})
            broken = _envelope(payload, signer) if signed else payload
            cases.append(
                {"name": f"{name}-{what}", "hex": broken.hex(), "id": None, "reason": "unknown-kind"}
            )
        bare = canonical.encode(statement.as_json())
        swapped, reason = (bare, "not-signed") if signed else (_envelope(bare, signer), "signed")
        cases.append({"name": f"{name}-{reason}", "hex": swapped.hex(), "id": None, "reason": reason})
    return cases


def _envelope(payload: bytes, signer: Signer) -> bytes:
    signature = signer.sign(records.pre_authentication_encoding(records.PAYLOAD_TYPE, payload))
    entry = {"keyid": records.key_id(signer.public_key()), "sig": base64.b64encode(signature).decode()}
    payload_text = base64.b64encode(payload).decode()
    return canonical.encode(
        {"payload": payload_text, "payloadType": records.PAYLOAD_TYPE, "signatures": [entry]}
    )


def _envelope_cases(name: str, data: bytes, other: Signer) -> list[Case]:
    def changed(change: Any) -> bytes:
        value = json.loads(data)
        change(value)
        return canonical.encode(value)

    first = json.loads(data)
    signature = base64.b64decode(first["signatures"][0]["sig"])
    flipped = base64.b64encode(bytes([signature[0] ^ 1]) + signature[1:]).decode()
    forged = {
        "signature-changed": changed(lambda v: v["signatures"][0].update(sig=flipped)),
        "signed-by-another": changed(
            lambda v: v["signatures"][0].update(
                sig=json.loads(_envelope(base64.b64decode(v["payload"]), other))["signatures"][0]["sig"]
            )
        ),
    }
    shapes = {
        "no-signature": lambda v: v.update(signatures=[]),
        "two-signatures": lambda v: v.update(signatures=v["signatures"] * 2),
        "signatures-not-a-list": lambda v: v.update(signatures=1),
        "signature-not-an-object": lambda v: v.update(signatures=[1]),
        "no-keyid": lambda v: _drop(v["signatures"][0], "keyid"),
        "extra-in-signature": lambda v: v["signatures"][0].update(cert="x"),
        "extra-in-envelope": lambda v: v.update(extra=1),
        "no-payload-type": lambda v: _drop(v, "payloadType"),
        "other-payload-type": lambda v: v.update(payloadType="application/json"),
        "keyid-not-text": lambda v: v["signatures"][0].update(keyid=1),
        "short-signature": lambda v: v["signatures"][0].update(sig="AA=="),
        "signature-not-base64": lambda v: v["signatures"][0].update(sig="!"),
        "payload-not-base64": lambda v: v.update(payload="é"),
        "payload-url-base64": lambda v: v.update(payload="-_-_"),
        "payload-unpadded": lambda v: v.update(payload="YQ"),
        "payload-loose-bits": lambda v: v.update(payload="YR=="),
        "payload-not-text": lambda v: v.update(payload=1),
    }
    public = Signer(1).public_key().hex()
    good: Case = {
        "id": None,
        "kind": name,
        "public_key": public,
        "signature_valid": False,
        "reason": "signature",
    }
    cases = [
        {"name": f"{name}-{what}", **good, "hex": broken.hex(), "id": merkle.leaf_hash(broken).hex()}
        for what, broken in forged.items()
    ]
    keyed = changed(lambda v: v["signatures"][0].update(keyid=h32(7).hex()))
    unknown = {
        "name": f"{name}-unknown-key",
        **good,
        "hex": keyed.hex(),
        "id": merkle.leaf_hash(keyed).hex(),
        "reason": "unknown-key",
    }
    broken_payload = _envelope(b'{"a": 1}', Signer(1))
    return [
        *cases,
        unknown,
        *(
            {"name": f"{name}-{what}", "hex": changed(change).hex(), "id": None, "reason": "envelope"}
            for what, change in shapes.items()
        ),
        {
            "name": f"{name}-payload-not-canonical",
            "hex": broken_payload.hex(),
            "id": None,
            "reason": "not-canonical",
        },
    ]


# --------------------------------------------------------------------------------------------------- batches


def batch_cases() -> list[Case]:
    log = LogIdentity("cluster-é", "records", "0a" * 16, 3)
    leaves = [
        batches.Leaf(offset, value)
        for offset, value in ((5, b"one"), (6, b""), (9, b"\xff" * 40), (10, b"one"))
    ]
    position = batches.Position(h32(1), 2, 6, 5, h32(2))
    batch = batches.build_batch(position, log, leaves, last_leader_epoch=-1)
    data = batches.encode_batch(batch)
    manifest = batches.encode_manifest(batch.manifest)
    right: Case = {
        "name": "skip-and-empty-leaf",
        "hex": data.hex(),
        "valid": True,
        "manifest_hash": batches.manifest_hash(batch.manifest).hex(),
        "acc": batch.manifest.acc.hex(),
        "file": batches.file_name(batch.manifest),
        "offsets": [5, 6, 9, 10],
    }
    rows = data[12 + len(manifest) :]

    def bad(name: str, reason: str, broken: bytes) -> Case:
        return {"name": name, "hex": broken.hex(), "valid": False, "reason": reason}

    def remade(**changes: Any) -> bytes:
        value = {key: item for key, item in {**json.loads(manifest), **changes}.items() if item is not ...}
        text = canonical.encode(value)
        return batches.MAGIC + len(text).to_bytes(4, "big") + text + rows

    fields = [
        ("version", (0, 2, True, "1", None), "manifest-version"),
        ("generation", (0, -1, 2**32, True, "2", None), "manifest-generation"),
        ("seq", (0, -1, True, "7", None), "manifest-seq"),
        ("partition", (-1, True, "3", None), "manifest-partition"),
        ("first_offset", (-1, True, "5", None), "manifest-first_offset"),
        ("next_offset", (-1, True, "11", None), "manifest-next_offset"),
        ("leaf_count", (0, -1, 2**32, True, "4", None), "manifest-leaf_count"),
        ("last_leader_epoch", (-2, 2**31, True, "0", None), "manifest-last_leader_epoch"),
        ("cluster_id", (1, None, []), "manifest-cluster_id"),
        ("topic", (1, None), "manifest-topic"),
        ("topic_id", (1, None), "manifest-topic_id"),
        ("stream", ("", "01", "AB" * 32, 1, None), "manifest-stream"),
        ("root", ("", "01", "AB" * 32, 1, None), "manifest-root"),
        ("prev_acc", ("", "01", "AB" * 32, 1, None), "manifest-prev_acc"),
        ("skipped", (1, None, "x", [1], [[1]], [[7, 8, 9]], [["7", 9]], [[7, True]], {}), "manifest-skipped"),
    ]
    cases = [right]
    for key, values, reason in fields:
        cases.append(bad(f"no-{key}", "manifest-keys", remade(**{key: ...})))
        cases += [bad(f"{key}-{at}", reason, remade(**{key: value})) for at, value in enumerate(values)]
    cases += [
        bad("extra-key", "manifest-keys", remade(extra=1)),
        bad("cluster-id-empty", "name-length", remade(cluster_id="")),
        bad("cluster-id-long", "name-length", remade(cluster_id="x" * 250)),
        bad("topic-empty", "name-length", remade(topic="")),
        bad("topic-id-capital", "topic-id", remade(topic_id="0A" * 16)),
        bad("topic-id-short", "topic-id", remade(topic_id="0a")),
        bad("partition-2^31", "partition-out-of-range", remade(partition=2**31)),
        bad("skipped-none", "leaf-count-differs", remade(skipped=[])),
        bad("skipped-reversed", "skipped", remade(skipped=[[9, 7]])),
        bad("skipped-in-two", "skipped", remade(skipped=[[7, 8], [8, 9]])),
        bad("skipped-unsorted", "skipped", remade(skipped=[[8, 9], [7, 8]])),
        bad("skipped-before", "skipped", remade(skipped=[[4, 6]])),
        bad("skipped-to-the-end", "skipped", remade(skipped=[[9, 11]])),
        bad("skipped-elsewhere", "offsets-differ", remade(skipped=[[6, 8]])),
        bad("offsets-shifted", "offsets-differ", remade(first_offset=6, next_offset=12, skipped=[[8, 10]])),
        bad("leaf-count-more", "leaf-count-differs", remade(leaf_count=5)),
        bad("leaf-count-more-agreeing", "leaf-count-differs", remade(leaf_count=5, next_offset=12)),
        bad("root-of-others", "root-differs", remade(root=h32(3).hex())),
        bad("trailing-row", "leaf-count-differs", data + (11).to_bytes(8, "big") + (0).to_bytes(4, "big")),
        bad("trailing-nul", "trailing-bytes", data + b"\x00"),
        bad(
            "leaf-of-a-mebibyte-and-one",
            "leaf-length",
            data + (11).to_bytes(8, "big") + (2**20 + 1).to_bytes(4, "big"),
        ),
        bad("last-byte-missing", "truncated", data[:-1]),
        bad("last-byte-changed", "root-differs", data[:-1] + b"E"),
        bad("magic-only", "truncated", batches.MAGIC),
        bad("magic-lower-case", "magic", b"plbatch1" + data[8:]),
        bad("next-version", "magic", b"PLBATCH2" + data[8:]),
        bad("manifest-empty", "not-json", batches.MAGIC + bytes(4) + rows),
        bad("manifest-a-list", "not-an-object", batches.MAGIC + (2).to_bytes(4, "big") + b"[]" + rows),
    ]
    return cases


# ---------------------------------------------------------------------------------------------------- merkle


def merkle_cases() -> list[Case]:
    cases: list[Case] = []
    for size, index in ((1, 0), (2, 1), (5, 4), (6, 3), (7, 6), (8, 5), (13, 12), (33, 32)):
        cases += _inclusion_cases(size, index)
    for old, size in ((1, 3), (2, 5), (3, 5), (4, 8), (5, 6), (7, 15), (12, 13)):
        cases += _consistency_cases(old, size)
    return cases


def _tree(size: int) -> merkle.Tree:
    return merkle.Tree(merkle.leaf_hash(b"leaf-%d" % at) for at in range(size))


def _inclusion_cases(size: int, index: int) -> list[Case]:
    tree = _tree(size)
    path = [node.hex() for node in tree.prove_inclusion(index)]
    name = f"inclusion-{index}-of-{size}"
    right: Case = {
        "name": name,
        "check": "inclusion",
        "record": (b"leaf-%d" % index).hex(),
        "index": index,
        "size": size,
        "path": path,
        "root": tree.root.hex(),
        "valid": True,
    }

    def bad(what: str, reason: str, **changes: Any) -> Case:
        return {**right, **changes, "name": f"{name}-{what}", "valid": False, "reason": reason}

    return [
        right,
        bad("record-changed", "root-differs", record=b"leaf".hex()),
        bad("root-changed", "root-differs", root=h32(1).hex()),
        bad("index-is-size", "index-out-of-range", index=size),
        bad("index-negative", "index-out-of-range", index=-1),
        bad("index-true", "index-out-of-range", index=True),
        bad("size-zero", "size-out-of-range", size=0),
        bad("size-true", "size-out-of-range", size=True),
        bad("size-2^53", "size-out-of-range", size=2**53),
        bad("path-longer", "path-length", path=[*path, h32(0).hex()]),
        bad("hash-short", "hash-length", path=[*path, "00" * 31]),
        bad("root-short", "hash-length", root="00" * 31),
        *([bad("path-shorter", "path-length", path=path[:-1])] if path else []),
        *([bad("path-reversed", "root-differs", path=path[::-1])] if len(path) > 1 else []),
    ]


def _consistency_cases(old: int, size: int) -> list[Case]:
    tree = _tree(size)
    path = [node.hex() for node in tree.prove_consistency(old)]
    name = f"consistency-{old}-{size}"
    right: Case = {
        "name": name,
        "check": "consistency",
        "old_size": old,
        "size": size,
        "path": path,
        "old_root": _tree(old).root.hex(),
        "root": tree.root.hex(),
        "valid": True,
    }

    def bad(what: str, reason: str, **changes: Any) -> Case:
        return {**right, **changes, "name": f"{name}-{what}", "valid": False, "reason": reason}

    flipped = [*path[:-1], h32(9).hex()]
    split = 1 << (size - 1).bit_length() - 1
    return [
        right,
        # A power of two stands in the path as the old root itself, so a wrong one spoils the new root.
        bad(
            "old-root-changed",
            "old-root-differs" if old & (old - 1) else "root-differs",
            old_root=h32(1).hex(),
        ),
        bad("root-changed", "root-differs", root=h32(1).hex()),
        bad("old-size-zero", "old-size-out-of-range", old_size=0),
        bad("old-size-negative", "old-size-out-of-range", old_size=-1),
        bad("old-size-true", "old-size-out-of-range", old_size=True),
        bad("old-size-larger", "old-size-out-of-range", old_size=size + 1),
        bad("equal-sizes-with-path", "path-length", old_size=size),
        bad("size-zero", "size-out-of-range", size=0),
        bad("size-2^53", "size-out-of-range", size=2**53),
        bad("path-longer", "path-length", path=[*path, h32(0).hex()]),
        bad("path-empty", "path-length", path=[]),
        bad("hash-long", "hash-length", path=[*path[:-1], "00" * 33]),
        # The last hash is the left subtree, which the old tree shares, only if the old tree reaches beyond
        # the split.
        bad("last-changed", "old-root-differs" if old > split else "root-differs", path=flipped),
    ]


FILES = {
    "records-more.json": record_cases,
    "statements-1.json": statement_cases,
    "batch-more.json": batch_cases,
    "merkle-cases-more.json": merkle_cases,
}


def text_of(name: str) -> str:
    return json.dumps(FILES[name](), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    for name in FILES:
        (HERE / name).write_text(text_of(name))
        sys.stdout.write(f"{name}\n")
