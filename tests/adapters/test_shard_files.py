"""Parts as bytes, and as what they decode to: what is odd in a store is named and never followed."""

from __future__ import annotations

import os
import random
import sys
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from provenance.adapters.shard_files import decode_part, part_key, read_part
from provenance.errors import ConfigError, MalformedError, UnavailableError

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

zarr = pytest.importorskip("zarr")

MIB = 1 << 20
ARRAY = np.arange(24, dtype=np.float32).reshape(6, 4)
TABLE = pa.table({"text": ["a", "b", None], "number": [1, 2, 3]})


def write_array(store: Path, name: str, array: Any) -> Path:
    """As the Zarr sink writes a part: an array of whole shards, nothing left out."""
    group = zarr.open_group(zarr.storage.LocalStore(store), mode="a", zarr_format=3)
    shape = tuple(max(1, size) for size in array.shape)
    made = group.create_array(
        name,
        shape=array.shape,
        dtype=array.dtype,
        chunks=shape,
        shards=shape or None,
        config={"write_empty_chunks": True},
    )
    if array.size or not array.ndim:
        made[...] = array
    return store / name


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store of two parts beside a file that is none of its business."""
    place = tmp_path / "store"
    write_array(place, "p00000/x", ARRAY)
    write_array(place, "p00001/x", ARRAY + 1)
    parquet.write_table(TABLE, place / "part-00000.parquet")
    (tmp_path / "outside").write_bytes(b"outside")
    return place


def refused(store: Path, name: str, reason: str, limit: int = MIB) -> MalformedError:
    with pytest.raises(MalformedError) as caught:
        read_part(store, name, limit)
    assert caught.value.reason == reason, caught.value.message
    return caught.value


# ------------------------------------------------------------------------------------------------- reading


def test_a_folder_is_read_file_by_file(store: Path) -> None:
    files = read_part(store, "p00000/x", MIB)
    assert sorted(files) == ["c/0/0", "zarr.json"]
    assert all((store / "p00000/x" / path).read_bytes() == data for path, data in files.items())


def test_a_file_is_read_under_no_name(store: Path) -> None:
    assert read_part(store, "part-00000.parquet", MIB) == {"": (store / "part-00000.parquet").read_bytes()}


@pytest.mark.parametrize(
    "name", ["p00002/x", "p00000/y", "part-00000.parquet/x", "nothing", "p00000/x/zarr.json/c"]
)
def test_what_is_not_there_is_nothing(store: Path, name: str) -> None:
    assert read_part(store, name, MIB) == {}


def test_a_folder_without_files_is_nothing(store: Path) -> None:
    (store / "p00002/x/c").mkdir(parents=True)
    assert read_part(store, "p00002/x", MIB) == {}


@pytest.mark.parametrize(
    "name", ["../outside", "p00000/../../outside", "/etc/hostname", "", ".", "p00000//x", "a\0b"]
)
def test_a_name_that_leads_out_of_the_store(store: Path, name: str) -> None:
    refused(store, name, "path")


@pytest.mark.parametrize("name", ["p00002", "p00002/x"])
def test_a_link_that_leads_out_of_the_store(store: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "elsewhere/x").mkdir(parents=True)
    (store / name).parent.mkdir(exist_ok=True)
    (store / name).symlink_to(tmp_path / "elsewhere" / ("" if name == "p00002" else "x"))
    refused(store, "p00002/x", "link")


@pytest.mark.parametrize("target", ["../../../outside", "../../p00001/x/zarr.json", "nowhere", "..", "loop"])
def test_a_link_inside_a_part(store: Path, target: str) -> None:
    (store / "p00000/x/loop").symlink_to(target)
    assert "'loop'" in refused(store, "p00000/x", "link").message


def test_a_link_to_a_file_of_the_same_part_is_that_file(store: Path) -> None:
    part = store / "p00000/x"
    before = read_part(store, "p00000/x", MIB)
    (part / "c/0/0").rename(part / "moved")
    (part / "c/0/0").symlink_to(part / "moved")
    moved = read_part(store, "p00000/x", MIB)
    assert moved["c/0/0"] == moved.pop("moved")
    assert moved == before


def test_what_is_no_file_is_never_waited_for(store: Path) -> None:
    os.mkfifo(store / "p00000/x/pipe")
    refused(store, "p00000/x", "not-a-file")
    os.mkfifo(store / "pipe")
    refused(store, "pipe", "not-a-file")


def test_more_than_the_limit(store: Path) -> None:
    size = sum(len(data) for data in read_part(store, "p00000/x", MIB).values())
    assert read_part(store, "p00000/x", size)
    refused(store, "p00000/x", "too-long", size - 1)
    with (store / "part-00000.parquet").open("wb") as file:
        file.truncate(1 << 40)  # not one byte of it is on disk
    refused(store, "part-00000.parquet", "too-long")


def test_too_deep_and_too_many(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (store / "p00000/x" / "/".join("d" * 70)).mkdir(parents=True)
    refused(store, "p00000/x", "too-many")
    monkeypatch.setattr("provenance.adapters.shard_files._MAX_FILES", 1)
    refused(store, "p00001/x", "too-many")


def test_what_may_not_be_read(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def deny(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "scandir", deny)
    with pytest.raises(UnavailableError) as caught:
        read_part(store, "p00000/x", MIB)
    assert caught.value.reason == "eacces"
    monkeypatch.setattr(os, "open", deny)
    with pytest.raises(UnavailableError):
        read_part(store, "part-00000.parquet", MIB)


# ------------------------------------------------------------------------------------------------ decoding


@pytest.mark.parametrize(
    "array",
    [
        ARRAY,
        np.float32(1.5).reshape(()),
        np.zeros((0, 4), np.float32),
        np.zeros((3, 0), np.int64),
        np.arange(3, dtype=">i4"),
        np.array([True, False]),
        np.arange(2, dtype=np.complex128),
        np.arange(2, dtype=np.uint64),
        np.arange(2, dtype=np.float16),
        np.zeros((2, 1, 2, 1, 2), np.uint8),
    ],
    ids=lambda array: f"{array.dtype.str}{list(array.shape)}",
)
def test_an_array_comes_out_as_it_went_in(tmp_path: Path, array: Any) -> None:
    write_array(tmp_path, "p00000/x", array)
    found = decode_part(read_part(tmp_path, "p00000/x", MIB), MIB)
    assert (found.dtype.kind, found.dtype.itemsize) == (array.dtype.kind, array.dtype.itemsize)
    assert found.shape == array.shape
    assert np.array_equal(found, array)


def test_nothing_is_read_again_to_decode(store: Path) -> None:
    files = read_part(store, "p00000/x", MIB), read_part(store, "part-00000.parquet", MIB)
    for path in sorted(store.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    assert np.array_equal(decode_part(files[0], MIB), ARRAY)
    assert decode_part(files[1], MIB).equals(TABLE)


def test_an_empty_table(tmp_path: Path) -> None:
    parquet.write_table(TABLE.slice(0, 0), tmp_path / "part-00000.parquet")
    found = decode_part(read_part(tmp_path, "part-00000.parquet", MIB), MIB)
    assert (found.num_rows, found.schema) == (0, TABLE.schema)


def test_what_decodes_to_more_than_the_limit(store: Path) -> None:
    for name, size in (("p00000/x", ARRAY.nbytes), ("part-00000.parquet", 4)):
        with pytest.raises(MalformedError) as caught:
            decode_part(read_part(store, name, MIB), size - 1)
        assert caught.value.reason == "too-long"
        assert "part_limit" in caught.value.remedy
    decode_part(read_part(store, "p00000/x", MIB), ARRAY.nbytes)


def test_metadata_that_promises_the_world(store: Path) -> None:
    files = read_part(store, "p00000/x", MIB)
    files["zarr.json"] = files["zarr.json"].replace(b"6,", b"9000000000,", 1)
    with pytest.raises(MalformedError) as caught:
        decode_part(files, 1 << 30)
    assert caught.value.reason == "too-long"


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"": b""},
        {"": b"PAR1"},
        {"": b"something else"},
        {"c/0/0": b"a chunk"},
        {"zarr.json": b""},
        {"zarr.json": b"{}"},
        {"zarr.json": b"\xff"},
        {"zarr.json": b'{"node_type": "group", "zarr_format": 3}'},
        {"zarr.json": b"[" * 100_000},
        {".zarray": b"{}"},
    ],
)
def test_what_is_no_part(files: dict[str, bytes]) -> None:
    with pytest.raises(MalformedError) as caught:
        decode_part(files, MIB)
    assert caught.value.reason == "decode"


@pytest.mark.parametrize("name", ["p00000/x", "part-00000.parquet"])
def test_damaged_bytes_decode_to_something_or_are_refused(store: Path, name: str) -> None:
    files, rng = read_part(store, name, MIB), random.Random(1)
    outcomes = set()
    for path, data in files.items():
        for _ in range(300):
            at = rng.randrange(len(data))
            damaged = data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]
            try:
                decode_part({**files, path: damaged}, MIB)
                outcomes.add("decoded")
            except MalformedError as error:
                outcomes.add(error.reason)
    assert "decode" in outcomes


def test_without_zarr_the_remedy_names_the_extra(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = read_part(store, "p00000/x", MIB)
    monkeypatch.setitem(sys.modules, "zarr", None)
    with pytest.raises(ConfigError) as caught:
        decode_part(files, MIB)
    assert caught.value.reason == "extra-missing"
    assert "provenance-ledger[zarr]" in caught.value.remedy


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("p00007/features", "features"),
        ("p00007/a.b-c", "a.b-c"),
        ("p00007/a/b", "a/b"),
        ("part-00007.parquet", "table"),
    ],
)
def test_a_part_is_called_the_same_in_every_shard(name: str, key: str) -> None:
    assert part_key(name) == key
