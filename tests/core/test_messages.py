"""What a reader is told when something is refused: the messages of all added cases, word for word.

A message names the thing, what was expected and what was found; people read ``messages.json`` in review.
What a validator or the JSON parser says changes with their versions, so those are left out.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from provenance.core import batches, canonical, merkle, records
from provenance.core.digests import decode_type, table1, type_string
from provenance.core.streams import LogIdentity
from provenance.errors import ProvenanceError
from tests.vectors import make_more

GOLDEN = Path(__file__).parent / "messages.json"
H = bytes.fromhex


def refuse(file, case):
    if file.startswith("merkle"):
        path, root = [H(node) for node in case["path"]], H(case["root"])
        if case["check"] == "inclusion":
            leaf = merkle.leaf_hash(H(case["record"]))
            merkle.check_inclusion(leaf, case["index"], case["size"], path, root=root)
        else:
            merkle.check_consistency(
                case["old_size"], case["size"], path, old_root=H(case["old_root"]), root=root
            )
    elif file.startswith("records"):
        canonical.decode(H(case["hex"]))
    elif file.startswith("batch"):
        batches.decode_batch(H(case["hex"]))
    else:
        record = records.decode_record(H(case["hex"]))
        key = H(case["public_key"])
        records.check_signature(record, {records.key_id(key): key})


def calls():
    """What no file can hold: a refusal to make something."""
    statements = make_more.statements()
    batch = (
        batches.Position(bytes(32), 1, 0, 0, bytes(32)),
        LogIdentity("cluster", "records", "0a" * 16, 0),
        [],
    )
    tree, deep = merkle.Tree([bytes(32)] * 3), {}
    for _ in range(64):
        deep = {"a": deep}
    return {
        "root-of-short-hashes": lambda: merkle.root([b"short"]),
        "tree-of-short-hashes": lambda: merkle.Tree([b"short"]),
        "leaf-that-is-not-there": lambda: tree.prove_inclusion(3),
        "tree-that-was-not-yet": lambda: tree.prove_consistency(4),
        "unsigned-run": lambda: records.encode_record(statements["run"].statement()),
        "signed-partition": lambda: records.sign_record(
            statements["partition"].statement(), make_more.Signer(1)
        ),
        "long-record": lambda: canonical.encode({"a": "x" * 65_528}),
        "deep-record": lambda: canonical.encode(deep),
        "float": lambda: canonical.encode({"a": 1.0}),
        "long-number": lambda: canonical.decode(b'{"a":1.' + b"0" * 40 + b"}"),
        "batch-of-nothing": lambda: batches.build_batch(*batch, last_leader_epoch=0),
        "manifest-of-nothing": lambda: batches.decode_manifest(canonical.encode({"z" * 40: 1})),
        "batch-file-name": lambda: batches.parse_file_name("x.batch"),
    }


def tables():
    """Tables that have no digest."""
    i8, union = pa.int8(), [pa.field("a", pa.int8())]
    deep = pa.list_(decode_type("list(" * 128 + "i8" + ")" * 128))
    twice = pa.table([pa.array([1])] * 2, names=["a", "a"])
    index = pd.DataFrame({"i": [1]}, index=pd.Index([1], name="i"))
    offsets = pa.py_buffer(np.array([0, 2, 1, 3], "i4"))
    backwards = pa.Array.from_buffers(pa.string(), 3, [None, offsets, pa.py_buffer(b"abc")])
    # 32 bytes whose upper half is no sign of the lower one.
    wide = pa.Array.from_buffers(pa.decimal256(38, 0), 1, [None, pa.py_buffer(np.array([0, 0, 1, 0], "i8"))])
    return {
        "interval": lambda: type_string(pa.month_day_nano_interval()),
        "run-end": lambda: type_string(pa.run_end_encoded(pa.int16(), i8)),
        "union": lambda: type_string(pa.dense_union(union)),
        "extension": lambda: type_string(pa.fixed_shape_tensor(i8, [2])),
        "type-of-a-later-arrow": lambda: type_string(Later()),
        "deep-type": lambda: type_string(deep),
        "deep-text": lambda: decode_type("list(" * 129 + "i8" + ")" * 129),
        "field-twice": lambda: type_string(pa.struct([("b", i8), ("a", i8), ("b", i8), ("a", i8)])),
        "no-type": lambda: decode_type("x" * 201),
        "interval-in-a-column": lambda: table1(pa.table({"c": pa.array([], pa.month_day_nano_interval())})),
        "column-twice": lambda: table1(twice),
        "column-twice-in-a-frame": lambda: table1(pd.DataFrame([[1, 2]], columns=["a", "a"])),
        "index-that-is-a-column": lambda: table1(index),
        "no-table": lambda: table1([1]),
        "threads": lambda: table1(pa.table({"a": [1]}), threads=257),
        "hash": lambda: table1(pa.table({"a": [1]}), algorithm="md5"),
        "index-outside": lambda: table1(
            pa.table({"c": pa.DictionaryArray.from_arrays(pa.array([5], i8), ["a"], safe=False)})
        ),
        "offsets-backwards": lambda: table1(pa.table({"c": backwards})),
        "decimal": lambda: table1(pa.table({"c": wide})),
    }


class Later:
    id = 10_000

    def __str__(self):
        return "later"


def text_of(call):
    with pytest.raises(ProvenanceError) as caught:
        call()
    remedy = f" | {caught.value.remedy}" if caught.value.remedy else ""
    return f"{caught.value.reason}: {caught.value.message}{remedy}"


def messages():
    """One case for each message of each file, and what is refused without one."""
    found = {}
    for file in make_more.FILES:
        for case in json.loads((make_more.HERE / file).read_text()):
            if case.get("reason", "schema") in {"schema", "not-json"}:
                continue
            text = text_of(partial(refuse, file, case))
            found.setdefault(file, {}).setdefault(text, case["name"])
    files = {file: {name: text for text, name in texts.items()} for file, texts in found.items()}
    made = {"calls": calls(), "tables": tables()}
    return files | {what: {name: text_of(call) for name, call in some.items()} for what, some in made.items()}


def test_messages_are_as_reviewed():
    assert messages() == json.loads(GOLDEN.read_text())
