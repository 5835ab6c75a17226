"""Proofs made from a ledger, and what can be said of them offline."""

from __future__ import annotations

import json
import shutil
import socket
from dataclasses import replace

import pytest

from provenance.adapters.stored_files import LocalFiles
from provenance.core.kinds import InputRoot, Seal
from provenance.core.merkle import leaf_hash, root
from provenance.core.trust import decode_trust, encode_trust
from provenance.errors import ConfigError, MismatchError, PendingError, UnavailableError, VerificationError
from provenance.services.prove import local_trust, prove
from provenance.services.verify import checked_json, verify
from tests.services.audit_world import COUNT, ENDED, World


@pytest.fixture
def world(tmp_path):
    return World(tmp_path).complete()


@pytest.fixture
def no_network(monkeypatch):
    """Whoever opens a socket fails."""

    def refuse(*arguments, **options):
        raise AssertionError("a socket was opened")

    for name in ("socket", "create_connection", "getaddrinfo"):
        monkeypatch.setattr(socket, name, refuse)


def checked(world, proved, *paths):
    names = [str(path) for path in paths]
    return verify(proved.data, encode_trust(world.trust), paths=names, files=LocalFiles())


@pytest.mark.parametrize("number", range(COUNT))
def test_a_shard_by_stage_and_number(world, number, no_network):
    proved = prove(world.ports(), f"store/{number}")
    result = checked(world, proved, world.folder / f"store/p{number:05d}/mel")
    (shard,) = result.checked.shards
    assert (shard.stage, shard.partition.number, result.files) == ("store", number, 1)
    assert shard.record.id == world.id_of(world.stored[number])
    assert not any("bytes" in sentence for sentence in result.unchecked)


def test_names_of_shards(world):
    record = world.id_of(world.stored[3])
    run = world.run_id.hex()
    for name in (
        "store/3",
        "store/p00003",
        f"{run[:8]}/store/3",
        f"{run}:store/3",
        record.hex(),
        record.hex()[:12],
        str(world.folder / "store/p00003/mel"),
    ):
        proved = prove(world.ports(), name)
        assert [shard.record.id for shard in proved.checked.shards] == [record], name
    proved = prove(world.ports(), "raw/3", run=run[:6])
    assert proved.checked.shards[0].stage == "raw"
    raw = world.folder / "raw/speaker 1/3.wav"
    assert prove(world.ports(), str(raw)).data == proved.data, "a raw file is a shard of the first stage"


def test_all_that_a_run_stored(world):
    proved = prove(world.ports(), world.run_id.hex()[:10], ancestors=True)
    assert len(proved.checked.shards) == COUNT
    assert len(proved.checked.ancestors) == 2 * COUNT
    result = checked(world, proved, *(world.folder / f"store/p{number:05d}/mel" for number in range(COUNT)))
    assert result.files == COUNT


def test_signed_records(world):
    for record in (world.dataset_id, world.store_id):
        result = checked(world, prove(world.ports(), record.hex()))
        assert (result.checked.shards[0].record.id, result.checked.seal) == (record, None)
    world.train()
    world.anchor()
    seal, eaten = world.log.read(0, world.log.bounds(0).end - 2, 2)
    for value, kind in ((seal.value, "seal"), (eaten.value, "consumption")):
        result = checked(world, prove(world.ports(), leaf_hash(value).hex()[:16]))
        assert result.checked.shards[0].record.kind == kind


def test_ancestors_lead_up_to_raw(world):
    bare = checked(world, prove(world.ports(), "store/2"))
    assert any("lineage up to raw" in sentence for sentence in bare.unchecked)
    result = checked(world, prove(world.ports(), "store/2", ancestors=True))
    assert [(one.stage, one.partition.number) for one in result.checked.ancestors] == [
        ("feature", 2),
        ("raw", 2),
    ]
    assert not any("lineage" in sentence or "inputs" in sentence for sentence in result.unchecked)


def test_ancestors_by_their_root(tmp_path):
    world = World(tmp_path)
    world.start()
    world.compute()
    ids = [world.id_of(one) for one in world.feature]
    for number, entry in (
        (0, InputRoot(world.feature_id, COUNT, root(ids))),
        (1, InputRoot(world.feature_id, 2, root(ids[:2]))),
    ):
        world.stored[number] = replace(world.stored[number], inputs=(entry,))
    world.emit()
    world.seal()
    world.anchor()
    whole = checked(world, prove(world.ports(), "store/0", ancestors=True))
    assert len(whole.checked.ancestors) == 2 * COUNT
    part = checked(world, prove(world.ports(), "store/1", ancestors=True))
    assert any("root alone" in sentence for sentence in part.unchecked)


def test_a_proof_is_evidence_on_a_nodes_word(world):
    result = checked(world, prove(world.ports(), "store/2", ancestors=True))
    text = json.dumps(checked_json(result.checked)) + " ".join(result.unchecked)
    assert "on a node's word" in text
    assert "proved" not in text


def test_another_shards_file_fails(world):
    proved = prove(world.ports(), "store/2")
    with pytest.raises(MismatchError) as raised:
        checked(world, proved, world.folder / "store/p00002/mel", world.folder / "store/p00003/mel")
    assert raised.value.reason == "file"
    assert "p00003/mel" in raised.value.message
    with pytest.raises(UnavailableError, match="no such file"):
        checked(world, proved, world.folder / "nowhere")


def test_a_changed_file_fails(world):
    proved = prove(world.ports(), "store/2")
    (world.folder / "store/p00002/mel/c/0").write_bytes(b"other")
    with pytest.raises(MismatchError):
        checked(world, proved, world.folder / "store/p00002/mel")


def test_the_verifiers_own_trust_counts(world):
    proved = prove(world.ports(), "store/2")
    assert decode_trust(encode_trust(proved.trust)) == proved.trust
    stranger = replace(world.trust, contract=b"x" * 20)
    with pytest.raises(VerificationError) as raised:
        verify(proved.data, encode_trust(stranger), files=LocalFiles())
    assert raised.value.reason == "contract"


def test_a_damaged_batch_is_made_good_from_the_log_or_refused(world):
    for name in world.batch_names():
        world.flip(name, -1)
    checked(world, prove(world.ports(), "store/2"))
    with pytest.raises((PendingError, UnavailableError)):
        prove(world.ports(log=None), "store/2")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("store", "nothing-named"),
        ("a/b/c", "nothing-named"),
        ("", "nothing-named"),
        ("../up", "nothing-named"),
        ("other/3", "no-such-stage"),
        ("store/99", "no-such-shard"),
        ("00000000", "no-such-record"),
        ("f" * 64, "no-such-record"),
    ],
)
def test_names_that_mean_nothing(world, name, reason):
    with pytest.raises(ConfigError) as raised:
        prove(world.ports(), name)
    assert raised.value.reason == reason


def test_bytes_that_nobody_recorded(world):
    stray = world.folder / "stray"
    stray.write_bytes(b"?")
    with pytest.raises(ConfigError) as raised:
        prove(world.ports(), str(stray))
    assert raised.value.reason == "no-such-bytes"
    shutil.rmtree(world.folder / "store/p00003/mel/c")
    with pytest.raises(ConfigError, match="no counted record"):
        prove(world.ports(), str(world.folder / "store/p00003/mel"))


def test_a_record_that_the_seal_sets_aside_has_no_proof(tmp_path):
    world = World(tmp_path)
    world.start()
    world.compute()
    world.emit()
    other = world.put(replace(world.stored[2], rows=17))
    world.seal(aside={world.store_id: [other]})
    world.anchor()
    with pytest.raises(ConfigError) as raised:
        prove(world.ports(), other.hex())
    assert raised.value.reason == "no-such-record"


def test_an_unsealed_run_is_pending(tmp_path):
    world = World(tmp_path)
    world.start()
    world.anchor()
    for name in ("store/1", world.run_id.hex()):
        with pytest.raises(PendingError) as raised:
            prove(world.ports(), name)
        assert raised.value.exit_code == 4


def test_a_run_that_stored_nothing(tmp_path):
    world = World(tmp_path)
    world.start()
    world.sign(Seal(world.run_id, "complete", ENDED, ()))
    world.anchor()
    with pytest.raises(ConfigError, match="nothing of it can be proved"):
        prove(world.ports(), world.run_id.hex())


def test_without_a_contract_there_is_no_trust(world):
    identity = replace(world.chain.identity(), contract=None)
    with pytest.raises(PendingError):
        local_trust(identity, world.keys)
