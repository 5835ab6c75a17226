"""The seal: what it counts, what it waits for, and that a run has one whatever fails."""

from __future__ import annotations

import hashlib

import pytest

from provenance.core.digests import TreeEntry, tree1
from provenance.core.kinds import Seal
from provenance.core.lists import decode_list, list_name
from provenance.core.merkle import root
from provenance.core.records import decode_record
from provenance.core.runs import encode_environment, environments_prefix, store_name
from provenance.errors import ConfigError, MalformedError, PendingError, UnavailableError
from provenance.services.publish import attach_run
from provenance.services.runlog import read_values
from provenance.testing.fakes import FakeLog
from provenance.testing.faults import Crash, Fault, Faults, faulty
from tests.services.run_world import Driver, put, stage

ENTRIES = [TreeEntry("part-00000.parquet", 4, hashlib.sha256(b"PAR1").digest())]


@pytest.fixture
def driver():
    return Driver()


def run_of(driver, *, partitions=2):
    """A run of ``raw`` and the sink ``out``, published."""
    recorder = driver.start()
    raw = recorder.draft(stage(recorder.id, "raw", partitions=partitions))
    out = recorder.draft(stage(recorder.id, "out", raw, partitions=partitions, sink=True))
    recorder.publish([raw, out])
    return recorder, raw, out


def finish(driver, recorder, raw, out, *numbers):
    made = []
    for number in numbers:
        parent = put(driver.log, recorder.id, raw, number)
        made.append((parent[0], put(driver.log, recorder.id, out, number, parent)[0]))
    return made


def sealed(driver, recorder):
    for value in read_values(recorder.id, driver.ports):
        if decode_record(value).kind == "seal":
            return Seal.from_statement(decode_record(value).statement)
    return None


def test_a_complete_run(driver):
    recorder, raw, out = run_of(driver)
    made = finish(driver, recorder, raw, out, 1, 0)
    recorder.stored(out, ENTRIES)
    recorder.seal("complete")
    seal = sealed(driver, recorder)
    assert (seal.status, seal.run) == ("complete", recorder.id)
    counted = {one.name: one for one in seal.stages}
    assert counted["raw"].root == root([pair[0] for pair in reversed(made)])
    assert counted["out"].root == root([pair[1] for pair in reversed(made)])
    assert (counted["out"].partitions, counted["out"].rows, counted["out"].bytes) == (2, 6, 48)
    assert (counted["out"].store.tree, counted["out"].store.files) == (tree1(ENTRIES).value, 1)
    assert counted["raw"].store is None


def test_repeats_count_once_and_divergent_records_are_listed(driver):
    recorder, raw, out = run_of(driver, partitions=1)
    ((first, stored),) = finish(driver, recorder, raw, out, 0)
    finish(driver, recorder, raw, out, 0)
    other = put(driver.log, recorder.id, raw, 0, variant="other")
    later, _ = put(driver.log, recorder.id, out, 0, other, variant="other")
    driver.stored.append(stored)
    recorder.stored(out, ENTRIES)
    recorder.seal("complete")
    counted = {one.name: one for one in sealed(driver, recorder).stages}
    assert counted["out"].root == root([stored])
    assert counted["raw"].root == root([first])
    for name, aside in (("raw", other[0]), ("out", later)):
        head = counted[name].set_aside
        assert decode_list(driver.store.objects[list_name(head)], head) == [aside]


@pytest.mark.parametrize("there", [[], [0], [1]])
def test_missing_partitions_are_named_and_nothing_is_written(driver, there):
    recorder, raw, out = run_of(driver)
    finish(driver, recorder, raw, out, *there)
    recorder.stored(out, ENTRIES)
    absent = ", ".join(str(number) for number in (0, 1) if number not in there)
    with pytest.raises(PendingError, match=rf"no record yet: {absent}\n") as caught:
        recorder.seal("complete")
    assert caught.value.reason == "partitions-missing"
    assert caught.value.remedy
    assert sealed(driver, recorder) is None
    finish(driver, recorder, raw, out, *({0, 1} - set(there)))
    recorder.seal("complete")
    assert sealed(driver, recorder).status == "complete"


def test_many_missing_partitions_are_named_in_part(driver):
    recorder, _, _ = run_of(driver, partitions=500)
    with pytest.raises(PendingError, match=r"500 partitions have no record yet: 0, 1, .*, 19 …\n"):
        recorder.seal("complete")


def test_a_store_that_was_not_finished(driver):
    recorder, raw, out = run_of(driver)
    finish(driver, recorder, raw, out, 0, 1)
    with pytest.raises(PendingError, match="'out': its store was not finished") as caught:
        recorder.seal("complete")
    assert caught.value.reason == "store-unfinished"
    recorder.seal("aborted")
    assert sealed(driver, recorder).status == "aborted"


def test_an_aborted_run_says_how_far_it_came(driver):
    recorder, raw, out = run_of(driver)
    finish(driver, recorder, raw, out, 1)
    recorder.seal("aborted")
    assert {one.name: one.partitions for one in sealed(driver, recorder).stages} == {"raw": 1, "out": 1}


def test_the_files_of_a_store_that_are_listed_nowhere(driver):
    recorder, raw, out = run_of(driver)
    finish(driver, recorder, raw, out, 0, 1)
    driver.store.put(store_name(recorder.id, out), bytes(32))
    with pytest.raises(MalformedError, match="it is gone"):
        recorder.seal("complete")


def test_environments_that_were_met_later_are_named(driver):
    recorder, raw, out = run_of(driver)
    finish(driver, recorder, raw, out, 0, 1)
    recorder.stored(out, ENTRIES)
    known = next(iter(recorder.environments()))
    late, _ = encode_environment({"interpreter": {"version": "3.12"}})
    for environment in (known, late):
        driver.store.put(environments_prefix(recorder.id) + environment.hex(), b"")
    recorder.seal("complete")
    head = sealed(driver, recorder).environments_added
    assert decode_list(driver.store.objects[list_name(head)], head) == [late]


def test_there_is_one_seal(driver):
    recorder, *_ = run_of(driver)
    recorder.seal("aborted")
    with pytest.raises(ConfigError, match="it is sealed"):
        recorder.seal("aborted")
    assert driver.kinds(recorder.id).count("seal") == 1


def test_a_driver_that_fell_behind_does_not_seal_again(driver):
    recorder, *_ = run_of(driver)
    behind = attach_run(recorder.id.hex(), driver.ports, driver.is_stored)
    recorder.seal("aborted")
    with pytest.raises(ConfigError, match="sealed"):
        behind.seal("complete")


def test_a_status_that_is_none(driver):
    recorder, *_ = run_of(driver)
    with pytest.raises(ConfigError, match="'done'"):
        recorder.seal("done")


@pytest.mark.parametrize("fault", list(Fault), ids=lambda fault: fault.value)
def test_whatever_fails_while_sealing_there_is_one_seal_in_the_end(fault):
    count = None
    number = 0
    while count is None or number < count:
        driver, faults = Driver(FakeLog()), Faults()
        recorder, raw, out = run_of(driver)
        finish(driver, recorder, raw, out, 0, 1)
        put(driver.log, recorder.id, raw, 0, variant="other")
        recorder.stored(out, ENTRIES)
        ports = Driver(
            faulty(driver.log, "log", faults), faulty(driver.store, "store", faults), driver.signer
        ).ports
        attached = attach_run(recorder.id.hex(), ports, driver.is_stored)
        before = len(faults.calls)
        faults.at(before + number, fault)
        try:
            attached.seal("complete")
        except (UnavailableError, Crash):
            pass
        else:
            raise AssertionError("the fault was not met")
        if sealed(driver, recorder) is None:
            count = count or calls_of(driver, recorder)
            recorder.seal("complete")
        else:
            with pytest.raises(ConfigError, match="sealed"):
                recorder.seal("complete")
        assert driver.kinds(recorder.id).count("seal") == 1
        number += 1
    assert number > 10


def calls_of(driver, recorder):
    """How many calls a seal makes; tried on a copy of what is there."""
    faults = Faults()
    copy = Driver(FakeLog(), signer=driver.signer)
    copy.log.append([(b"", message.value) for message in driver.log.read(0, 0, 100)])
    copy.store.objects = {
        name: data for name, data in driver.store.objects.items() if not name.endswith("starts.json")
    }
    ports = Driver(faulty(copy.log, "log", faults), faulty(copy.store, "store", faults), driver.signer).ports
    attached = attach_run(recorder.id.hex(), ports, driver.is_stored)
    before = len(faults.calls)
    attached.seal("complete")
    return len(faults.calls) - before
