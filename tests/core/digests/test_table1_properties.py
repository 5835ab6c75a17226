"""table1 is a function of names, types and values, and of nothing else; the slow reference is the oracle."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.types as t
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from provenance.core.digests import Digest, sections, table1, tables, type_string
from tests.core.digests import reference
from tests.core.digests.strategies import Column, columns, encodings, present, values

SMALL = 5
"""Rows per block in these tests, so that a few rows make several blocks."""


@pytest.fixture(scope="module", autouse=True)
def small_blocks() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "BLOCK_ROWS", SMALL)
        patch.setattr(sections, "_GATHER_BYTES", 12)
        yield


def digest(**arrays: pa.Array | pa.ChunkedArray) -> Digest:
    return table1(pa.table(arrays))


@given(columns(), st.sampled_from(["sha256", "blake3"]))
def test_the_reference_agrees(column: Column, algorithm: str) -> None:
    table = pa.table({"c": column.array()})
    assert table1(table, algorithm=algorithm).hex == reference.table1(
        table, algorithm=algorithm, block_rows=SMALL
    )


@given(st.data(), columns(st.integers(0, 20)))
def test_encoding_does_not_count(data: st.DataObject, column: Column) -> None:
    encoded = data.draw(encodings(column))
    assert type_string(encoded.type) == type_string(column.kind)
    assert digest(c=encoded) == digest(c=column.array())


@given(st.data(), columns(st.integers(0, 12)))
def test_the_reference_reads_every_encoding_alike(data: st.DataObject, column: Column) -> None:
    table = pa.table({"c": data.draw(encodings(column))})
    assert table1(table).hex == reference.table1(table, block_rows=SMALL)


@given(st.data(), columns(st.integers(1, 12)))
def test_a_null_in_the_dictionary_is_a_null(data: st.DataObject, column: Column) -> None:
    order = data.draw(st.permutations(range(len(column.rows))))
    dictionary = Column(column.kind, [column.rows[number] for number in order]).array()
    indices = [order.index(number) for number in range(len(column.rows))]
    encoded = pa.DictionaryArray.from_arrays(pa.array(indices, pa.int16()), dictionary)
    assert digest(c=encoded) == digest(c=column.array())


@given(st.data(), columns(st.integers(1, 8)))
def test_a_struct_hides_what_its_nulls_cover(data: st.DataObject, column: Column) -> None:
    rows = len(column.rows)
    mask = data.draw(st.lists(st.booleans(), min_size=rows, max_size=rows))
    field = pa.field("f", column.kind)
    covered = pa.StructArray.from_arrays([column.array()], fields=[field], mask=pa.array(mask, pa.bool_()))
    bare = Column(
        column.kind, [None if hidden else row for hidden, row in zip(mask, column.rows, strict=True)]
    )
    clean = pa.StructArray.from_arrays([bare.array()], fields=[field], mask=pa.array(mask, pa.bool_()))
    assert digest(c=covered) == digest(c=clean)
    assert digest(c=covered).hex == reference.table1(pa.table({"c": covered}), block_rows=SMALL)


@given(st.data(), columns(st.integers(1, 12)))
def test_a_changed_cell_changes_the_digest(data: st.DataObject, column: Column) -> None:
    assume(not t.is_null(column.kind))
    place = data.draw(st.integers(0, len(column.rows) - 1))
    rows = list(column.rows)
    rows[place] = data.draw(values(column.kind))
    before, after = column.array(), Column(column.kind, rows).array()
    assume(meaning(before[place]) != meaning(after[place]))
    one, other = digest(c=before), digest(c=after)
    assert one != other
    changed = [a != b for a, b in zip(one.columns[0].blocks, other.columns[0].blocks, strict=True)]
    assert changed == [number == place // SMALL for number in range(len(changed))]


def meaning(scalar: pa.Scalar) -> bytes:
    return reference.section(scalar.type, [reference.plain(scalar)])


@given(st.data(), columns(st.integers(2, 12)))
def test_row_order_counts(data: st.DataObject, column: Column) -> None:
    rows = data.draw(st.permutations(column.rows))
    before, after = column.array(), Column(column.kind, list(rows)).array()
    same = [meaning(a) for a in before] == [meaning(b) for b in after]
    assert (digest(c=before) == digest(c=after)) == same


@given(columns(st.integers(0, 3)), columns(st.integers(0, 3)))
def test_type_and_length_count(one: Column, other: Column) -> None:
    assume(type_string(one.kind) != type_string(other.kind) or len(one.rows) != len(other.rows))
    assert digest(c=one.array()) != digest(c=other.array())


@given(columns(st.just(4)), st.text(st.characters(codec="utf-8")), st.text(st.characters(codec="utf-8")))
def test_names_and_column_order_count(column: Column, one: str, other: str) -> None:
    assume(one != other)
    a = column.array()
    assert table1(pa.table([a], [one])) != table1(pa.table([a], [other]))
    assert table1(pa.table([a, a], [one, other])) != table1(pa.table([a, a], [other, one]))
    assert table1(pa.table([a, a], [one, other])) != table1(pa.table([a], [one]))


@given(st.data(), columns(st.integers(0, 12)))
def test_metadata_and_nullability_do_not_count(data: st.DataObject, column: Column) -> None:
    rows = [
        data.draw(present(column.kind)) if row is None and not t.is_null(column.kind) else row
        for row in column.rows
    ]
    array = Column(column.kind, rows).array()
    field = pa.field("c", column.kind, nullable=t.is_null(column.kind), metadata={"k": "v"})
    assert table1(pa.table([array], schema=pa.schema([field], metadata={"x": "y"}))) == digest(c=array)


@given(columns(st.integers(0, 20)), st.integers(2, 4))
def test_threads_do_not_count(column: Column, threads: int) -> None:
    table = pa.table({"a": column.array(), "b": column.array()})
    one, many = table1(table), table1(table, threads=threads)
    assert one == many
    assert one.columns == many.columns
    assert one.nbytes == many.nbytes
