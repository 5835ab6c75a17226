"""What a reader is told when something is refused: the messages of all added cases, word for word.

A message names the thing, what was expected and what was found; people read ``messages.json`` in review.
What a validator or the JSON parser says changes with their versions, so those are left out.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from provenance.core import batches, canonical, merkle, records
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


def messages():
    """One case for each message of each file."""
    found = {}
    for file in make_more.FILES:
        for case in json.loads((make_more.HERE / file).read_text()):
            if case.get("reason", "schema") in {"schema", "not-json"}:
                continue
            with pytest.raises(ProvenanceError) as caught:
                refuse(file, case)
            text = f"{caught.value.reason}: {caught.value.message}" + (
                f" | {caught.value.remedy}" if caught.value.remedy else ""
            )
            found.setdefault(file, {}).setdefault(text, case["name"])
    return {file: {name: text for text, name in texts.items()} for file, texts in found.items()}


def test_messages_are_as_reviewed():
    assert messages() == json.loads(GOLDEN.read_text())
