"""The receipt: signed, durable after what it names, and saying no more than what happened."""

from __future__ import annotations

from dataclasses import replace

import pytest

from provenance.core import merkle
from provenance.core.kinds import Consumption
from provenance.core.lists import ListHead, decode_list, list_name
from provenance.core.records import check_signature, decode_record, key_id
from provenance.core.runs import environment_name
from provenance.errors import ConfigError, MalformedError, UnavailableError
from provenance.services.consuming import Receipt, record_consumption
from provenance.services.loading import ShardSet, prove_shards
from provenance.testing.fakes import FakeLog, FakeSigner, FakeStore
from provenance.testing.faults import Crash, Fault, Faults, faulty
from tests.services.audit_world import World

SHARDS = tuple(bytes([value]) * 32 for value in (9, 3, 7))
SET = ShardSet(b"r" * 32, b"s" * 32, "store", ())
RECEIPT = Receipt(
    shards=SHARDS,
    checkpoint=b"c" * 32,
    code=b"p" * 32,
    order_seed=4,
    epochs=3,
    world_size=2,
    precision="bfloat16",
    verified=2,
    unverified=1,
)
ENVIRONMENT = {"interpreter": {"version": "3.11"}}


@pytest.fixture
def ports():
    return {"log": FakeLog(), "store": FakeStore(), "signer": FakeSigner()}


def record(ports, receipt=RECEIPT):
    return record_consumption(SET, receipt, environment=ENVIRONMENT, **ports)


def logged(ports):
    return [message.value for message in ports["log"].read(0, 0, 100)]


def test_the_record_says_what_happened(ports):
    made = record(ports)
    (value,) = logged(ports)
    found = decode_record(value)
    signer = ports["signer"].public_key()
    check_signature(found, {key_id(signer): signer})
    assert found.id == made == merkle.leaf_hash(value)
    eaten = Consumption.from_statement(found.statement)
    assert (eaten.source, eaten.stage, eaten.is_release) == (SET.run, SET.stage, False)
    assert (eaten.checkpoint, eaten.code) == (RECEIPT.checkpoint, RECEIPT.code)
    assert (eaten.order_seed, eaten.epochs, eaten.world_size, eaten.precision) == (4, 3, 2, "bfloat16")
    assert (eaten.verified, eaten.unverified) == (2, 1)
    assert eaten.shards == ListHead.over(SHARDS)


def test_list_and_environment_can_be_had_from_the_store(ports):
    record(ports)
    eaten = Consumption.from_statement(decode_record(logged(ports)[0]).statement)
    store = ports["store"]
    assert decode_list(store.get(list_name(eaten.shards)), eaten.shards) == sorted(SHARDS)
    document = store.get(environment_name(eaten.environment))
    assert merkle.leaf_hash(document) == eaten.environment
    assert b"3.11" in document


def test_the_order_in_which_shards_were_opened_does_not_matter(ports):
    assert record(ports) == record(ports, replace(RECEIPT, shards=SHARDS[::-1]))
    assert len(set(logged(ports))) == 1, "a repeat is the same record"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"shards": ()}, "no-shard"),
        ({"epochs": 0}, "epochs"),
        ({"epochs": -1}, "epochs"),
        ({"epochs": 1.5}, "epochs"),
        ({"epochs": True}, "epochs"),
        ({"epochs": None}, "epochs"),
        ({"world_size": 0}, "world_size"),
    ],
)
def test_wrong_use_leaves_everything_as_it_was(ports, change, reason):
    with pytest.raises(ConfigError) as caught:
        record(ports, replace(RECEIPT, **change))
    assert caught.value.reason == reason
    assert (logged(ports), ports["store"].objects) == ([], {})


@pytest.mark.parametrize(
    "change", [{"precision": ""}, {"precision": "x" * 513}, {"order_seed": -1}, {"epochs": 2**60}]
)
def test_what_no_record_can_say_leaves_everything_as_it_was(ports, change):
    with pytest.raises(MalformedError) as caught:
        record(ports, replace(RECEIPT, **change))
    assert caught.value.exit_code == 2
    assert (logged(ports), ports["store"].objects) == ([], {})


@pytest.mark.parametrize("fault", list(Fault))
@pytest.mark.parametrize("number", range(3))
def test_whatever_fails_the_log_names_nothing_that_is_not_there(ports, number, fault):
    faults = Faults()
    faults.at(number, fault)
    broken = {**ports, **{name: faulty(ports[name], name, faults) for name in ("store", "log")}}
    with pytest.raises((UnavailableError, Crash)):
        record(broken)
    assert faults.calls == ["store.put", "store.put", "log.append"][: number + 1]
    for value in logged(ports):
        eaten = Consumption.from_statement(decode_record(value).statement)
        assert ports["store"].get(list_name(eaten.shards))
        assert ports["store"].get(environment_name(eaten.environment))
    made = record(ports)
    assert {merkle.leaf_hash(value) for value in logged(ports)} == {made}


def test_the_audit_counts_it(tmp_path):
    world = World(tmp_path).complete()
    found = prove_shards(world.ports())
    receipt = replace(RECEIPT, shards=tuple(shard.record for shard in found.shards), verified=7, unverified=0)
    record_consumption(
        found, receipt, environment=ENVIRONMENT, log=world.log, store=world.store, signer=world.signer
    )
    world.anchor()
    report = world.audit()
    assert report.exit_code == 0
    assert report.runs[0].consumptions == 1
    assert len(prove_shards(world.ports()).shards) == 7
