"""What a task does: order of record and commit, rejections, errors, and that nothing shows in Dask's logs."""

from __future__ import annotations

import pickle
from dataclasses import dataclass

import numpy as np
import pytest
from dask.sizeof import sizeof

from provenance.adapters.dask.carried import Carried, shield
from provenance.adapters.dask.operations import Gather, MapFiles, MapPartition, Piece, joined, usable
from provenance.adapters.dask.sources import FileGroup
from provenance.adapters.dask.steps import (
    BadInputError,
    Chain,
    Made,
    Step,
    Work,
    record_made,
    run_chain,
    take_records,
)
from provenance.core.digests import TreeEntry
from provenance.core.kinds import Partition
from provenance.core.partitions import File, measure
from provenance.core.records import decode_record
from provenance.errors import ConfigError, Rejected, UnavailableError
from provenance.testing.fakes import FakeLog
from provenance.testing.faults import Fault, Faults, faulty
from tests.adapters.dask.graphs import RUN, SOME, Give, a_file, carried, outlet

ENTRY = TreeEntry("part", 1, SOME)


def step(operation, *, name="stage", **more):
    return Step(RUN, SOME, name, operation, **more)


def partition(record):
    return Partition.from_statement(decode_record(record).statement)


def chain(*operations, log=None, **more):
    steps = tuple(step(operation, name=f"s{n}", **more) for n, operation in enumerate(operations))
    return Chain(steps, None if log is None else outlet(log))


# ----------------------------------------------------------------------------------------- durable, then done


@dataclass
class Store:
    """A sink that says when it commits."""

    seen: list

    def apply(self, work):
        parent = work.parents[0]
        measured = measure(parent.data, work.number)
        return Made(None, (parent.ref,), measured=measured, commit=self.commit)

    def commit(self):
        self.seen.append("commit")
        return [ENTRY]


def test_a_sink_commits_after_its_record_is_on_the_log():
    log, seen = FakeLog(), []
    append = log.append
    log.append = lambda records: seen.append(len(records)) or append(records)
    steps = (step(Give()), step(Store(seen), is_sink=True))
    done = run_chain(Chain(steps, outlet(log)), 0, [1], ())
    assert seen == [2, "commit"]
    assert done.entries == (ENTRY,)


@pytest.mark.parametrize("fault", [Fault.FAILED, Fault.LOST])
def test_a_sink_commits_nothing_whose_record_may_not_be_there(fault):
    faults, seen = Faults(), []
    log = faulty(FakeLog(), "log", faults)
    made = Chain((step(Give()), step(Store(seen), is_sink=True)), outlet(log))
    faults.on("log.append", fault)
    with pytest.raises(UnavailableError):
        run_chain(made, 0, [1], ())
    assert seen == []
    assert run_chain(made, 0, [1], ()).entries == (ENTRY,)
    ids = [decode_record(message.value).id for message in log.read(0, 0, 10)]
    assert len(set(ids)) == 2  # a repeat says the same


def test_records_of_a_chain_without_an_outlet_come_back():
    made = run_chain(chain(Give(), MapPartition(sorted)), 3, [2, 1], ())
    assert made.data == [1, 2]
    assert [partition(record).number for record in take_records(made)] == [3, 3]


# --------------------------------------------------------------------------------------------------- rejected


def refuse(data):
    raise Rejected("silence")


def refuse_some(file):
    return Rejected("odd") if file.data == b"odd" else file.data


def test_a_rejected_partition_goes_through_the_other_stages_untouched():
    log = FakeLog()
    made = run_chain(chain(Give(), MapPartition(refuse), MapPartition(sorted), log=log), 0, [1], ())
    assert (made.data, made.ref.rejected) == (None, "silence")
    kinds = [partition(message.value) for message in log.read(0, 0, 10)]
    assert [one.rejected for one in kinds] == [None, "silence", "silence"]
    assert [len(one.subjects) for one in kinds] == [1, 0, 0]
    assert all(one.inputs for one in kinds[1:])


def test_files_are_set_aside_one_by_one():
    parent = carried([a_file("a", b"fine"), a_file("b", b"odd")])
    ref, record = record_made(
        step(MapFiles(refuse_some)),
        work := Work("stage", 0, None, (parent,)),
        MapFiles(refuse_some).apply(work),
    )
    assert [subject.name for subject in partition(record).subjects] == ["a", "b#rejected:odd"]
    assert ref.rejected is None


def test_a_partition_of_which_no_file_is_left_is_rejected():
    parent = carried([a_file("a", b"odd"), a_file("b", b"odd")])
    work = Work("stage", 0, None, (parent,))
    _, record = record_made(step(MapFiles(refuse_some)), work, MapFiles(refuse_some).apply(work))
    assert partition(record).rejected == "odd"
    assert [subject.name for subject in partition(record).subjects] == ["a#rejected:odd", "b#rejected:odd"]


def test_told_to_stop_a_task_names_the_first_file():
    parent = carried([a_file("a", b"fine"), a_file("b", b"odd")])
    work = Work("stage", 4, None, (parent,))
    with pytest.raises(BadInputError) as caught:
        record_made(
            step(MapFiles(refuse_some), stop_on_bad_input=True), work, MapFiles(refuse_some).apply(work)
        )
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.stage, again.number, again.subject, again.reason) == ("stage", 4, "b", "odd")


def test_one_parent_that_was_rejected_rejects_what_needs_it():
    good, bad = carried([1]), carried(None, 1, rejected="silence")
    operation = MapPartition(len, {}, ("other",))
    made = operation.apply(Work("stage", 0, None, (good, bad)))
    assert (made.data, made.rejected) == (None, "silence")
    assert len(made.read) == 2


@pytest.mark.parametrize(
    ("reasons", "expected"), [(["silence", "silence"], "silence"), (["silence", "short"], "several")]
)
def test_regrouping_only_rejected_partitions_gives_a_rejected_one(reasons, expected):
    parents = tuple(carried(None, n, rejected=reason) for n, reason in enumerate(reasons))
    made = Gather(len).apply(Work("stage", 0, None, parents))
    assert (made.data, made.rejected) == (None, expected)


def test_regrouping_passes_rejected_partitions_and_files_by():
    parents = (
        carried(None, 0, rejected="silence"),
        carried([a_file("a"), a_file("b").reject(Rejected("x"))], 1),
    )
    made = Gather(lambda files: [file.name for file in files]).apply(Work("stage", 0, "token", parents))
    assert (made.data, made.key, made.rejected) == (["a"], "token", None)


def test_a_function_over_each_file_needs_files():
    with pytest.raises(ConfigError, match="no files"):
        MapFiles(len).apply(Work("stage", 0, None, (carried([1, 2]),)))


def test_what_a_transform_says_of_a_file_stays_with_its_name():
    def renamed(file):
        return a_file("another name", b"new", rejected="")

    (item,) = MapFiles(renamed).apply(Work("s", 0, None, (carried([a_file("a", key="k")]),))).data
    assert (item.name, item.data, item.key) == ("a", b"new", "k")


# ------------------------------------------------------------------------------------------- joined, shielded


def test_pieces_are_joined_by_what_they_are():
    import pandas as pd
    import pyarrow as pa

    frame, table = pd.DataFrame({"a": [1]}), pa.table({"a": [1]})
    assert joined([[1], [2]]) == [1, 2]
    assert joined([frame, frame]).shape == (2, 1)
    assert joined([table, table]).num_rows == 2
    assert [part.shape for part in joined([np.ones(2), np.ones(3)])] == [(2,), (3,)]
    assert usable([a_file("a"), a_file("b", None, rejected="x")]) == [a_file("a")]


def first_array(value):
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, File):
        return first_array(value.data)
    return first_array(next(iter(value.values() if isinstance(value, dict) else value)))


@pytest.mark.parametrize(
    "data",
    [
        np.arange(3.0),
        [np.arange(3.0)],
        {"a": np.arange(3.0)},
        a_file("a", np.arange(3.0)),
        [a_file("a", {"x": np.arange(3.0)})],
    ],
    ids=["array", "list", "dict", "file", "files"],
)
def test_arrays_are_given_read_only_and_stay_writable_for_their_owner(data):
    given = first_array(shield(data))
    with pytest.raises(ValueError, match="read-only"):
        given[0] = 5.0
    assert first_array(data).flags.writeable


def test_frames_and_objects_are_copied():
    import pandas as pd

    frame, thing = pd.DataFrame({"a": [1, 2]}), {1, 2}
    copy = shield(frame)
    copy.loc[0, "a"] = 9
    copy["b"] = 1
    shield(thing).add(3)
    assert frame["a"].tolist() == [1, 2]
    assert list(frame.columns) == ["a"]
    assert thing == {1, 2}


def test_dask_learns_how_large_a_partition_is():
    assert sizeof(carried(np.zeros(1_000_000))) > 8_000_000
    many = [a_file(f"f{n}", np.zeros(10_000 if n else 1)) for n in range(20)]
    assert 19 * 80_000 < sizeof(carried(many)) < 2 * 19 * 80_000


def test_nothing_of_names_or_data_shows_where_dask_writes_arguments():
    secret = "Anna Schmidt"
    things = [
        carried([secret]),
        a_file(secret * 5),
        Piece(secret),
        FileGroup(((secret, f"/home/{secret}", ".wav"),)),
        step(MapPartition(len, {"who": secret})),
        chain(MapPartition(len, {"who": secret})),
    ]
    shown = repr(things).replace(repr(a_file(secret * 5)), "")
    assert secret not in shown
    assert isinstance(things[0], Carried)
