"""Reading a run back from a log that others write to as well, from where it began."""

from __future__ import annotations

import datetime as dt

import pytest

from provenance.core.merkle import leaf_hash
from provenance.core.records import sign_record
from provenance.core.runs import starts_name
from provenance.services import runlog
from provenance.testing.fakes import FakeLog, FakeSigner
from tests.services.run_world import Driver, put, stage


@pytest.fixture
def driver():
    return Driver()


def run_with(driver, count):
    recorder = driver.start()
    raw = recorder.draft(stage(recorder.id, "raw", partitions=count))
    recorder.publish([raw])
    return recorder, raw


def test_every_record_comes_back_repeats_included(driver):
    recorder, raw = run_with(driver, 3)
    made = [put(driver.log, recorder.id, raw, number) for number in (2, 0, 1, 0)]
    assert sorted(runlog.read_partitions(recorder.id, driver.ports), key=repr) == sorted(made, key=repr)


def test_more_records_than_are_read_at_once(driver, monkeypatch):
    monkeypatch.setattr(runlog, "_READ", 3)
    recorder, raw = run_with(driver, 20)
    for number in range(20):
        put(driver.log, recorder.id, raw, number)
    found = [partition.number for _, partition in runlog.read_partitions(recorder.id, driver.ports)]
    assert found == list(range(20))


def test_what_is_not_of_the_run_is_passed_by(driver):
    recorder, raw = run_with(driver, 1)
    other, other_raw = run_with(driver, 1)
    put(driver.log, other.id, other_raw, 0)
    for junk in (b"", b"\xff", b"[]", b'{"payload":1}', recorder.id.hex().encode()):
        driver.log.append([(b"k", junk)])
    forged = sign_record(stage(recorder.id, "forged").statement(), FakeSigner(b"f" * 32))
    driver.log.append([(b"k", forged)])
    mine = put(driver.log, recorder.id, raw, 0)
    history = runlog.read_history(recorder.id, driver.ports)
    assert list(history.stages) == [raw]
    assert leaf_hash(forged) not in history.stages
    assert list(runlog.read_partitions(recorder.id, driver.ports)) == [mine]


def test_offsets_without_a_message_and_a_log_that_was_trimmed(driver):
    driver = Driver(FakeLog())
    recorder, raw = run_with(driver, 2)
    driver.log.skip(0, 5)
    last = put(driver.log, recorder.id, raw, 1)
    driver.log.trim(0, 3)
    assert list(runlog.read_partitions(recorder.id, driver.ports)) == [last]


def test_only_what_came_since_the_run_began_is_read(driver):
    driver = Driver(FakeLog())
    old, old_raw = run_with(driver, 1)
    put(driver.log, old.id, old_raw, 0)
    end = driver.log.bounds(0).end
    recorder, _ = run_with(driver, 1)
    asked = []
    read = driver.log.read
    driver.log.read = lambda partition, start, limit: asked.append(start) or read(partition, start, limit)
    assert runlog.read_history(recorder.id, driver.ports).run == recorder.run
    assert min(asked) == end


@pytest.mark.parametrize(
    "hint", [None, b"", b"nonsense", b'{"starts":1}', b'{"starts":[[1]]}', b"{}", b'{"starts":[]}']
)
def test_the_hint_of_where_it_began_may_be_lost_or_damaged(driver, hint):
    recorder, raw = run_with(driver, 1)
    made = put(driver.log, recorder.id, raw, 0)
    if hint is None:
        del driver.store.objects[starts_name(recorder.id)]
    else:
        driver.store.objects[starts_name(recorder.id)] = hint
    assert runlog.read_history(recorder.id, driver.ports).run == recorder.run
    assert list(runlog.read_partitions(recorder.id, driver.ports)) == [made]


def test_the_hint_of_another_log_says_nothing_of_this_one(driver):
    recorder, raw = run_with(driver, 1)
    made = put(driver.log, recorder.id, raw, 0)
    copied = FakeLog(3, cluster_id="another")
    for number in range(3):
        copied.append([(b"0", message.value) for message in driver.log.read(number, 0, 100)])
    moved = Driver(copied, driver.store, driver.signer)
    assert list(runlog.read_partitions(recorder.id, moved.ports)) == [made]


def test_times_are_utc_text():
    moment = dt.datetime(2026, 1, 31, 12, 0, 0, 1, tzinfo=dt.UTC)
    assert runlog.utc_text(moment) == "2026-01-31T12:00:00.000001Z"
