"""A run as its records on the log tell it, among whatever else is there."""

from __future__ import annotations

import hashlib

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from provenance.core import merkle
from provenance.core.kinds import Consumption, Dataset, Partition, Run, Seal, Stage, Transform
from provenance.core.lists import EMPTY_LIST
from provenance.core.records import Statement, encode_record, key_id, sign_record
from provenance.core.runs import (
    RunHistory,
    decode_partition,
    encode_environment,
    environment_name,
    environments_prefix,
    message_key,
    partition_token,
    starts_name,
    store_name,
)
from provenance.errors import MalformedError


class Signer:
    def __init__(self, seed: bytes) -> None:
        self._key = Ed25519PrivateKey.from_private_bytes(seed)

    def public_key(self) -> bytes:
        return self._key.public_key().public_bytes_raw()

    def sign(self, message: bytes) -> bytes:
        return self._key.sign(message)


OURS, THEIRS = Signer(b"o" * 32), Signer(b"t" * 32)
KEYS = {key_id(OURS.public_key()): OURS.public_key()}


def signed(thing: Run | Stage | Seal | Dataset | Consumption, signer: Signer = OURS) -> bytes:
    statement: Statement = thing.statement()
    return sign_record(statement, signer)


RUN = Run("r", b"n" * 16, (), b"s" * 32, True, EMPTY_LIST, {}, "2026-01-01T00:00:00Z", ("p", "1"))
RUN_ID = merkle.leaf_hash(signed(RUN))


def stage(run: bytes, name: str = "raw") -> Stage:
    return Stage(run, name, (), Transform("m:f", run, run, run, ""))


def history(*values: bytes) -> RunHistory:
    found = RunHistory(RUN_ID, KEYS)
    for value in values:
        found.add(value)
    return found


def test_run_stages_and_seal() -> None:
    one, two = signed(stage(RUN_ID)), signed(stage(RUN_ID, "clean"))
    seal = signed(Seal(RUN_ID, "complete", "2026-01-01T00:00:00Z", ()))
    found = history(signed(RUN), one, two, one, seal)
    assert found.run == RUN
    assert [entry.name for entry in found.stages.values()] == ["raw", "clean"]
    assert list(found.stages) == [merkle.leaf_hash(one), merkle.leaf_hash(two)]
    assert found.seal == merkle.leaf_hash(seal)


def test_the_first_seal_stays() -> None:
    seals = [signed(Seal(RUN_ID, status, "2026-01-01T00:00:00Z", ())) for status in ("aborted", "complete")]
    assert history(*seals).seal == merkle.leaf_hash(seals[0])


@pytest.mark.parametrize(
    "value",
    [
        signed(stage(b"x" * 32)),
        signed(stage(RUN_ID), THEIRS),
        signed(Dataset("d", "1", "l", True, b"d" * 32)),
        signed(Consumption(RUN_ID, RUN_ID, *[RUN_ID, EMPTY_LIST, 0, 1, 1, "f32", 1, 0, RUN_ID, RUN_ID])),
        signed(Run("r", b"m" * 16, (), b"s" * 32, True, EMPTY_LIST, {}, "2026-01-01T00:00:00Z", ("p", "1"))),
        signed(RUN, THEIRS),
        b"",
        b"\xff",
        b'{"payload":',
        b'{"payload":1}',
        encode_record(Partition(RUN_ID, RUN_ID, 0, 0, 0, (), ()).statement()),
    ],
)
def test_whatever_else_is_there_is_passed_by(value: bytes) -> None:
    found = history(value)
    assert (found.run, found.stages, found.seal) == (None, {}, None)


def test_partitions_of_the_run_are_told_from_others() -> None:
    mine = Partition(RUN_ID, b"s" * 32, 3, 1, 2, (), ())
    data = encode_record(mine.statement())
    assert decode_partition(data, RUN_ID) == (merkle.leaf_hash(data), mine)
    other = Partition(b"x" * 32, RUN_ID, 3, 1, 2, (), ())  # names the run's id where a stage's belongs
    assert decode_partition(encode_record(other.statement()), RUN_ID) is None
    for value in (b"", signed(RUN), data + b" ", RUN_ID.hex().encode()):
        assert decode_partition(value, RUN_ID) is None


def test_names_in_the_batch_store() -> None:
    environment, data = encode_environment({"cpu": {"model": "x"}})
    assert environment == merkle.leaf_hash(data)
    names = [
        environment_name(environment),
        environments_prefix(RUN_ID) + environment.hex(),
        starts_name(RUN_ID),
        store_name(RUN_ID, environment),
    ]
    assert len(set(names)) == 4
    assert all(name.islower() and ".." not in name for name in names)
    assert len({partition_token(stage, n) for stage in (RUN_ID, environment) for n in (0, 1)}) == 4


def test_an_environment_has_no_decimals() -> None:
    with pytest.raises(MalformedError):
        encode_environment({"load": 0.5})


def test_a_message_key_is_one_of_run_stage_and_number() -> None:
    run, stage = b"r" * 32, b"s" * 32
    assert message_key(run, stage, 7).hex() == hashlib.sha256(run + stage + bytes(7) + b"\x07").hexdigest()
    keys = {message_key(r, s, n) for r in (run, stage) for s in (run, stage) for n in range(3)}
    assert len(keys) == 12
