"""What a driver puts on the log, in which order, and what is there after any call of it failed."""

from __future__ import annotations

import pytest

from provenance.core.kinds import Dataset, Run
from provenance.core.merkle import leaf_hash
from provenance.core.records import decode_record
from provenance.errors import ConfigError, MalformedError, UnavailableError
from provenance.services.publish import attach_run, start_run
from provenance.services.runlog import read_values
from provenance.testing.fakes import FakeLog, FakeSigner, FakeStore
from provenance.testing.faults import Fault, Faults, faulty
from tests.services.run_world import DESCRIPTOR, SOME, Driver, facts, put, stage


def test_a_run_is_on_the_log_with_its_datasets_before_it_is_handed_out():
    driver = Driver()
    recorder = driver.start()
    values = [message.value for n in range(3) for message in driver.log.read(n, 0, 10)]
    records = {decode_record(value).id: decode_record(value) for value in values}
    run = Run.from_statement(records[recorder.id].statement)
    assert [records[one].kind for one in run.datasets] == ["dataset"]
    assert Dataset.from_statement(records[run.datasets[0]].statement) == recorder.datasets[0]
    assert driver.store.objects[f"datasets/{recorder.datasets[0].descriptor.hex()}.toml"] == DESCRIPTOR
    assert len(recorder.environments()) == run.environments.count == 1


def test_two_runs_of_one_program_differ_and_share_their_dataset():
    driver = Driver()
    first, second = driver.start(), driver.start()
    assert first.id != second.id
    assert first.run.datasets == second.run.datasets
    assert first.run.source_tree == second.run.source_tree


def test_a_malformed_descriptor_writes_nothing():
    driver = Driver()
    with pytest.raises(MalformedError):
        driver.start(descriptors=[DESCRIPTOR, b"name = 1"])
    assert driver.store.objects == {}
    assert [driver.log.bounds(n).end for n in range(3)] == [0, 0, 0]


@pytest.mark.parametrize("fault", list(Fault), ids=lambda fault: fault.value)
def test_whatever_fails_at_the_start_the_next_start_works(fault):
    """No call of it leaves anything that another start would trip over."""
    seen = Faults()
    start_run(facts(), under(Driver(), seen).ports, lambda _: True)
    assert "log.append" in seen.calls
    for number in range(len(seen.calls)):
        driver, faults = Driver(), Faults()
        faults.at(number, fault)
        with pytest.raises(BaseException, match=r"arrangement|log|store"):
            under(driver, faults).start()
        recorder = driver.start()
        assert attach_run(recorder.id.hex(), driver.ports, driver.is_stored).run == recorder.run


def under(driver, faults):
    return Driver(
        faulty(driver.log, "log", faults), faulty(driver.store, "store", faults), signer=driver.signer
    )


def test_drafts_stand_nowhere_until_they_are_published():
    driver = Driver(FakeLog())
    recorder = driver.start()
    raw = recorder.draft(stage(recorder.id, "raw"))
    recorder.draft(stage(recorder.id, "unused", raw))
    assert driver.kinds(recorder.id) == ["dataset", "run"]
    recorder.publish([raw])
    recorder.publish([raw])
    assert driver.kinds(recorder.id) == ["dataset", "run", "stage"]
    assert set(recorder.stages) == {raw}


def test_the_same_stage_has_one_id_and_another_of_its_name_is_refused():
    driver = Driver()
    recorder = driver.start()
    first = recorder.draft(stage(recorder.id, "raw"))
    assert recorder.draft(stage(recorder.id, "raw")) == first
    recorder.publish([first])
    other = recorder.draft(stage(recorder.id, "raw", partitions=3))
    fine = recorder.draft(stage(recorder.id, "fine"))
    with pytest.raises(ConfigError, match="'raw'") as caught:
        recorder.publish([fine, other])
    assert caught.value.reason == "stage-name"
    assert set(recorder.stages) == {first}
    twins = [recorder.draft(stage(recorder.id, "twin", partitions=n)) for n in (1, 2)]
    with pytest.raises(ConfigError, match="'twin'"):
        recorder.publish(twins)


@pytest.mark.parametrize("fault", [Fault.FAILED, Fault.LOST])
def test_a_stage_whose_publication_failed_is_published_again(fault):
    faults = Faults()
    driver = Driver(FakeLog())
    recorder = under(driver, faults).start()
    raw = recorder.draft(stage(recorder.id, "raw"))
    faults.on("log.append", fault)
    with pytest.raises(UnavailableError):
        recorder.publish([raw])
    recorder.publish([raw])
    again = attach_run(recorder.id.hex(), driver.ports, driver.is_stored)
    assert set(again.stages) == {raw}
    assert again.seal("aborted")


# ------------------------------------------------------------------------------------------------- going on


def test_attach_finds_the_stages_and_goes_on():
    driver = Driver()
    recorder = driver.start()
    raw = recorder.draft(stage(recorder.id, "raw"))
    recorder.publish([raw])
    again = attach_run(recorder.id.hex(), driver.ports, driver.is_stored)
    assert (again.run, again.datasets, again.stages) == (recorder.run, recorder.datasets, recorder.stages)
    clean = again.draft(stage(again.id, "clean", raw))
    again.publish([again.draft(stage(again.id, "raw")), clean])
    assert list(again.stages) == [raw, clean]
    with pytest.raises(ConfigError, match="another stage of that name"):
        again.publish([again.draft(stage(again.id, "raw", partitions=9))])


@pytest.mark.parametrize(
    ("text", "reason"),
    [("", "run-id"), ("zz", "run-id"), ("00" * 31, "run-id"), ("00" * 32, "no-run"), ("é" * 64, "run-id")],
)
def test_what_is_no_run(text, reason):
    with pytest.raises(ConfigError) as caught:
        attach_run(text, Driver().ports, lambda _: True)
    assert caught.value.reason == reason
    assert caught.value.remedy


def test_a_run_that_another_key_signed_is_none_of_ours():
    driver = Driver()
    recorder = driver.start()
    stranger = Driver(driver.log, driver.store, FakeSigner(b"s" * 32))
    with pytest.raises(ConfigError, match="no such run of ours"):
        attach_run(recorder.id.hex(), stranger.ports, lambda _: True)


def test_a_sealed_run_cannot_be_attached_to():
    driver = Driver()
    recorder = driver.start()
    recorder.seal("aborted")
    with pytest.raises(ConfigError, match="sealed") as caught:
        attach_run(recorder.id.hex(), driver.ports, driver.is_stored)
    assert caught.value.reason == "sealed"


def test_a_dataset_record_that_is_gone_from_the_log_is_named():
    driver = Driver(FakeLog())
    recorder = driver.start()
    (place,) = [
        message.offset
        for message in driver.log.read(0, 0, 10)
        if leaf_hash(message.value) == recorder.run.datasets[0]
    ]
    driver.log.rewrite(0, place, b"something else")
    with pytest.raises(MalformedError, match="1 of its dataset records") as caught:
        attach_run(recorder.id.hex(), driver.ports, driver.is_stored)
    assert caught.value.remedy


def test_a_list_of_environments_that_is_gone_makes_each_one_new():
    driver = Driver()
    recorder = driver.start()
    driver.store.objects = {k: v for k, v in driver.store.objects.items() if not k.startswith("lists/")}
    assert recorder.environments() == frozenset()


def test_a_run_reads_its_records_and_nobody_elses():
    driver = Driver(FakeLog(), FakeStore())
    before = driver.start()
    recorder = driver.start()
    raw = recorder.draft(stage(recorder.id, "raw"))
    recorder.publish([raw])
    driver.log.append([(b"k", b"no record"), (b"k", b'{"payload":"no envelope"}')])
    put(driver.log, recorder.id, raw, 0)
    assert [decode_record(v).kind for v in list(read_values(recorder.id, driver.ports))[:3]] == [
        "dataset",
        "run",
        "stage",
    ]
    assert attach_run(recorder.id.hex(), driver.ports, driver.is_stored).stages.keys() == {raw}
    assert attach_run(before.id.hex(), driver.ports, driver.is_stored).stages == {}
    assert SOME not in recorder.stages
