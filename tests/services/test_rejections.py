"""Every item that could not be used is named once, with the reason of the stage that refused it."""

from __future__ import annotations

import pytest

from provenance.core.kinds import Input, InputRoot, Partition
from provenance.core.records import Subject, encode_record
from provenance.services.rejections import rejected_items
from provenance.services.runlog import RunPorts
from provenance.testing.fakes import FakeClock, FakeLog, FakeSigner, FakeStore

RUN, RAW, CLEAN, SPEAKER, OTHER_RUN = (bytes([value]) * 32 for value in b"rwcso")
NOTHING = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
KEY = "5a" * 32


@pytest.fixture
def ports():
    return RunPorts(FakeLog(2), FakeStore(), FakeSigner(), FakeClock())


def subjects(*names):
    return tuple(Subject(name, {"sha256": NOTHING}) for name in names)


def inputs(*names):
    return tuple(Input(b"i" * 32, name, {"sha256": NOTHING}) for name in names)


def write(ports, stage, number=0, *, parts=(), read=(), rejected=None, key=None, run=RUN):
    made = Partition(run, stage, number, 0, 0, subjects(*parts), read, key, rejected)
    value = encode_record(made.statement())
    ports.log.append([(stage, value)])
    return value


def test_a_run_without_rejections(ports):
    write(ports, RAW, parts=["a", "b"])
    write(ports, CLEAN, parts=["a", "b"], read=inputs("a", "b"))
    assert rejected_items(RUN, ports) == {}


def test_files_among_usable_ones_and_later_stages_that_repeat_them(ports):
    write(ports, RAW, parts=["a", "b", "c#rejected:unreadable"])
    write(ports, CLEAN, parts=["a", "b#rejected:silence", "c#rejected:unreadable"], read=inputs("a", "b"))
    write(ports, SPEAKER, parts=["p00000/x"], read=inputs("a", "b#rejected:silence", "c#rejected:unreadable"))
    assert rejected_items(RUN, ports) == {"b": "silence", "c": "unreadable"}


def test_a_partition_of_files_none_of_which_is_usable(ports):
    write(ports, RAW, parts=["a", "b#rejected:unreadable"])
    marks = ["a#rejected:silence", "b#rejected:unreadable"]
    write(ports, CLEAN, parts=marks, read=inputs("a", "b#rejected:unreadable"), rejected="several")
    write(ports, SPEAKER, read=inputs(*marks), rejected="several", key=KEY)
    assert rejected_items(RUN, ports) == {"a": "silence", "b": "unreadable"}


def test_what_is_rejected_as_a_whole_is_named_by_what_it_was_to_be_made_from(ports):
    write(ports, RAW, parts=["rows.csv"])
    write(ports, CLEAN, read=inputs("rows.csv"), rejected="ragged-rows")
    write(ports, SPEAKER, read=(InputRoot(CLEAN, 1, b"r" * 32),), rejected="ragged-rows")
    assert rejected_items(RUN, ports) == {"rows.csv": "ragged-rows"}


@pytest.mark.parametrize(("key", "name"), [(KEY, KEY), (None, "p00007")])
def test_or_by_its_key_where_that_are_too_many_to_be_listed(ports, key, name):
    write(ports, SPEAKER, 7, read=(InputRoot(CLEAN, 65, b"r" * 32),), rejected="too-short", key=key)
    assert rejected_items(RUN, ports) == {name: "too-short"}


def test_a_name_may_hold_the_mark(ports):
    write(ports, RAW, parts=["a#rejected:b.wav#rejected:empty-file"])
    assert rejected_items(RUN, ports) == {"a#rejected:b.wav": "empty-file"}


def test_other_runs_repeats_and_rubbish_do_not_count(ports):
    write(ports, RAW, parts=["theirs#rejected:silence"], run=OTHER_RUN)
    value = write(ports, RAW, parts=["a#rejected:silence"])
    ports.log.append([(b"k", value), (b"k", b"rubbish " + RUN.hex().encode()), (b"k", b"")])
    assert rejected_items(RUN, ports) == {"a": "silence"}
    assert rejected_items(OTHER_RUN, ports) == {"theirs": "silence"}
