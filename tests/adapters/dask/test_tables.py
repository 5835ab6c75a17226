"""CSV and Parquet: types that are worked out once, and every way in which a file cannot be read."""

from __future__ import annotations

import io

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from provenance.adapters.dask.steps import Work
from provenance.adapters.dask.tables import CsvFormat, ParquetFormat, ReadTables, check_delimiter, declared
from provenance.core.digests import encode_schema
from provenance.errors import ConfigError, MalformedError, Rejected
from tests.adapters.dask.graphs import a_file, carried


def parquet(table, **how):
    buffer = io.BytesIO()
    pq.write_table(table, buffer, **how)
    return buffer.getvalue()


def schema(**types):
    return declared(CsvFormat(), [lambda: ",".join(types).encode() + b"\n"], types, pandas=False)


def reason_of(format_, data, wanted=None):
    with pytest.raises(Rejected) as caught:
        format_.read(data, wanted)
    return caught.value.reason


TABLE = pa.table({"a": pa.array(range(1000), pa.int64()), "b": [f"row {n}" for n in range(1000)]})


@pytest.mark.parametrize(
    ("data", "types", "reason"),
    [
        (b"", {}, "empty-file"),
        (b" \n\n", {}, "empty-file"),
        (b"a,b\n1,2\n3\n", {}, "ragged-rows"),
        (b"a,b\n1,2,3\n", {}, "ragged-rows"),
        (b"a,b\n1,\xff\n", {"a": "i64", "b": "utf8"}, "not-utf-8"),
        (b"a,b\nx,2\n", {"a": "i64", "b": "i64"}, "wrong-type"),
    ],
)
def test_a_csv_that_cannot_be_read(data, types, reason):
    assert reason_of(CsvFormat(), data, schema(**types) if types else None) == reason


def test_a_csv_without_a_declared_column():
    assert reason_of(CsvFormat(), b"a\n1\n", schema(a="i64", b="i64")) in {"not-csv", "ragged-rows"}


def test_a_csv_of_odd_text():
    data = '"name","text"\r\n"Ann, a","two\nlines"\r\n"日本","""quoted"""\r\n'.encode()
    table = CsvFormat().read(data, None)
    assert table.to_pylist() == [
        {"name": "Ann, a", "text": "two\nlines"},
        {"name": "日本", "text": '"quoted"'},
    ]
    assert CsvFormat(";").read(b"a;b\n1;2\n", None).to_pylist() == [{"a": 1, "b": 2}]
    assert CsvFormat().read(b"a,b\n", None).num_rows == 0


def test_only_the_declared_columns_are_read_in_their_order():
    table = CsvFormat().read(b"a,b,c\n1,2,3\n", schema(c="f64", a="utf8"))
    assert encode_schema(table.schema) == [["c", "f64"], ["a", "utf8"]]
    assert table.to_pylist() == [{"c": 3.0, "a": "1"}]


def test_a_sample_ends_at_a_line():
    rows = b"a,b\n" + b"1,2\n" * 400_000
    assert 0 < CsvFormat().sample(rows).num_rows < 400_000


@pytest.mark.parametrize("name", ["PAR1 tail", "page", "footer", "cut", "empty", "text"])
def test_a_parquet_that_cannot_be_read(name):
    data = bytearray(parquet(TABLE, write_page_checksum=True, compression="none"))
    if name == "PAR1 tail":
        data[-4:] = b"XXXX"
    elif name == "page":
        data[400] ^= 0xFF
    elif name == "footer":
        data[-6] ^= 0xFF  # of the footer's length
    elif name == "cut":
        del data[len(data) // 2 :]
    elif name == "empty":
        data = bytearray()
    else:
        data = bytearray(b"a,b\n1,2\n")
    assert reason_of(ParquetFormat(), bytes(data)) == ("empty-file" if name == "empty" else "corrupt")


@pytest.mark.parametrize("data", [b"PARE" + bytes(40), bytes(40) + b"PARE"])
def test_an_encrypted_parquet(data):
    assert reason_of(ParquetFormat(), data) == "encrypted"


def test_a_parquet_without_rows_or_without_a_declared_column():
    assert ParquetFormat().read(parquet(TABLE.slice(0, 0)), None).num_rows == 0
    assert reason_of(ParquetFormat(), parquet(TABLE), pa.schema({"z": pa.int64()})) == "missing-column"
    assert ParquetFormat().read(parquet(TABLE), pa.schema({"b": pa.string()})).schema.names == ["b"]


# ------------------------------------------------------------------------------------------------------ types


def test_types_come_from_the_first_file_that_can_be_read():
    found = declared(CsvFormat(), [lambda: b"", lambda: b"a,b\n1,x\n"], None, pandas=False)
    assert encode_schema(found) == [["a", "i64"], ["b", "utf8"]]


def test_types_that_are_given_win():
    found = declared(CsvFormat(), [lambda: b"a,b\n1,x\n"], {"a": "f64"}, pandas=False)
    assert encode_schema(found) == [["a", "f64"], ["b", "utf8"]]


def test_pandas_has_its_own_idea_of_some_types():
    data = parquet(pa.table({"a": pa.array([1, None], pa.int64())}))
    frame = declared(ParquetFormat(), [lambda: data], None, pandas=True)
    arrow = declared(ParquetFormat(), [lambda: data], None, pandas=False)
    assert dict(encode_schema(arrow)) == {"a": "i64"}
    assert set(dict(encode_schema(frame))) == {"a"}


def test_files_none_of_which_can_be_read_quote_no_data():
    with pytest.raises(ConfigError, match="none of the first 20 files") as caught:
        declared(CsvFormat(), [lambda: b"a,b\nsecret\n"] * 30, None, pandas=True)
    assert caught.value.reason == "no-schema"
    assert caught.value.remedy
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(("types", "kind"), [({"z": "f64"}, ConfigError), ({"a": "float"}, MalformedError)])
def test_types_that_mean_nothing(types, kind):
    with pytest.raises(kind, match=r"z|float"):
        declared(CsvFormat(), [lambda: b"a\n1\n"], types, pandas=True)


def test_a_file_becomes_rows_or_is_set_aside():
    parent = carried([a_file("t", b"a\n1\n2\n")])
    wanted = schema(a="f64")
    frame = ReadTables(CsvFormat()).apply(Work("csv", 0, None, (parent,), wanted)).data
    assert isinstance(frame, pd.DataFrame)
    assert frame["a"].tolist() == [1.0, 2.0]
    table = ReadTables(CsvFormat(), pandas=False).apply(Work("csv", 0, None, (parent,), wanted)).data
    assert isinstance(table, pa.Table)
    bad = ReadTables(CsvFormat()).apply(Work("csv", 0, None, (carried([a_file("t", b"a\nx\n")]),), wanted))
    assert (bad.data, bad.rejected) == (None, "wrong-type")
    assert bad.read


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|", " "])
def test_delimiters(delimiter):
    check_delimiter(delimiter)
    assert CsvFormat(delimiter).read(f"a{delimiter}b\n1{delimiter}2\n".encode(), None).num_columns == 2
