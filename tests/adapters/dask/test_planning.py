"""Which stages share a task, which are computed once, and what the tasks of a graph give and record."""

from __future__ import annotations

import dask
import pytest

from provenance.adapters.dask.handles import PieceRef
from provenance.adapters.dask.operations import SplitTable
from provenance.adapters.dask.planning import ancestors, plan
from provenance.core.kinds import Partition
from provenance.core.merkle import leaf_hash
from provenance.core.records import decode_record
from provenance.testing.fakes import FakeLog
from tests.adapters.dask.graphs import node, outlet


def compute(targets, log=None, **how):
    made = plan(targets, None if log is None else outlet(log), **how)
    keys = list(made.wanted)
    return made, dict(zip(keys, dask.get(dict(made.graph), keys), strict=True))


def on_log(log):
    return [decode_record(message.value) for message in log.read(0, 0, 1000)]


def partitions(log, *nodes):
    """The partition records of stages on the log, by (stage's name, number)."""
    names = {one.record: one.name for one in nodes}
    found = [(one.id, Partition.from_statement(one.statement)) for one in on_log(log)]
    return {(names[one.stage], one.number): (record, one) for record, one in found if one.stage in names}


def tasks(made):
    return sorted({key.split("-")[0] for key in made.graph if not key.startswith("chain")})


def test_parents_come_first_and_once():
    raw = node("raw")
    left, right = node("left", raw), node("right", raw)
    last = node("last", left, right)
    assert [one.name for one in ancestors([last, right])] == ["raw", "left", "right", "last"]
    assert [one.name for one in ancestors([last], ready={left: {}})] == ["left", "raw", "right", "last"]


def test_a_line_of_stages_is_one_task_a_partition():
    last = node("c", node("b", node("a")))
    log = FakeLog()
    made, found = compute([last], log)
    assert tasks(made) == ["c"]
    assert [value.data for value in found.values()] == [[2], [3]]
    names = {one.record: one.name for one in ancestors([last])}
    records = on_log(log)
    assert [names[bytes.fromhex(one.statement.predicate["stage"])] for one in records] == ["a", "b", "c"] * 2
    first, second, third = (Partition.from_statement(record.statement) for record in records[:3])
    assert not first.inputs
    assert [second.inputs[0].record, third.inputs[0].record] == [records[0].id, records[1].id]


def test_what_two_need_is_computed_once():
    raw = node("raw")
    left, right = node("left", raw), node("right", raw)
    log = FakeLog()
    made, _ = compute([left, right], log)
    assert tasks(made) == ["left", "raw", "right"]
    assert len(on_log(log)) == 6


def test_a_target_in_the_middle_of_a_line_is_given_too():
    first = node("a")
    middle = node("b", first)
    last = node("c", middle)
    made, found = compute([middle, last], FakeLog())
    assert tasks(made) == ["b", "c"]
    assert [(made.wanted[key][0].name, value.data) for key, value in found.items()] == [
        ("b", [1]),
        ("b", [2]),
        ("c", [2]),
        ("c", [3]),
    ]


def test_two_parents_join_by_number():
    raw = node("raw")
    both = node("both", node("left", raw), node("right", raw))
    log = FakeLog()
    _, found = compute([both], log)
    assert [value.data for value in found.values()] == [[3], [5]]
    made = partitions(log, both, *both.parents)
    for number in (0, 1):
        read = {entry.record for entry in made["both", number][1].inputs}
        assert read == {made["left", number][0], made["right", number][0]}


def test_one_parent_given_twice():
    raw = node("raw")
    both = node("both", raw, raw)
    made, found = compute([both], FakeLog())
    assert tasks(made) == ["both", "raw"]
    assert [value.data for value in found.values()] == [[1], [3]]


def test_a_wide_stage_reads_what_its_pieces_say():
    raw = node("raw", count=3)
    wide = node("wide", raw, count=2, pieces=[(PieceRef(2), PieceRef(0)), (PieceRef(1),)])
    log = FakeLog()
    made, found = compute([wide], log)
    assert tasks(made) == ["raw", "wide"]
    assert [value.data for value in found.values()] == [[3], [2]]
    records = partitions(log, raw, wide)
    read = [[entry.record for entry in records["wide", number][1].inputs] for number in (0, 1)]
    assert read == [[records["raw", number][0] for number in numbers] for numbers in ((0, 2), (1,))]


def test_a_table_is_cut_once_however_many_want_a_piece():
    import pandas as pd

    frame = pd.DataFrame({"who": ["anna", "boris", "anna"], "value": [1, 2, 3]})
    raw = node("raw", count=1, payloads=[frame])
    wide = node(
        "wide",
        raw,
        count=2,
        pieces=[(PieceRef(0, "anna"),), (PieceRef(0, "boris"),)],
        split=SplitTable("who"),
    )
    made = plan([wide], None)
    assert sum(key.startswith("split-") for key in made.graph) == 1
    assert sum(key.startswith("piece-") for key in made.graph) == 2
    assert "anna" not in repr([task for key, task in made.graph.items() if key.startswith("piece-")])


def test_what_is_kept_is_not_computed_again():
    raw = node("raw")
    log = FakeLog()
    made, found = compute([raw], log)
    before = len(on_log(log))
    last = node("last", raw)
    again, _ = compute([last], log, ready={raw: dict(zip(made.wanted, found.values(), strict=True))})
    assert tasks(again) == ["last", "raw"]
    assert len(on_log(log)) == before + 2


def test_without_an_outlet_records_come_back_and_data_does_not():
    last = node("c", node("b", node("a")))
    made, found = compute([last])
    assert all(key.startswith("records-") for key in made.wanted)
    for key, records in found.items():
        target, number = made.wanted[key]
        assert target is last
        kinds = [Partition.from_statement(decode_record(record).statement) for record in records]
        assert [one.number for one in kinds] == [number] * 3
        assert kinds[2].inputs[0].record == leaf_hash(records[1])


def test_the_same_graph_gives_the_same_records():
    def once():
        log = FakeLog()
        compute([node("c", node("b", node("a")))], log)
        return [message.value for message in log.read(0, 0, 100)]

    assert once() == once()


@pytest.mark.parametrize("name", ["with space", "naïve", "a/b", "x" * 200])
def test_keys_of_tasks_are_plain_and_distinct(name):
    one, other = node(name), node(name + " ")
    keys = {one.key(0), one.key(1), other.key(0)}
    assert len(keys) == 3
    assert all(key.isascii() and " " not in key and len(key) < 100 for key in keys)
