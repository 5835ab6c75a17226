"""What paths hold: every format by content and suffix, and every way in which a file can be bad."""

from __future__ import annotations

import hashlib
import os
import struct
import sys
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from provenance.adapters.formats import files, read_path, sha256_file, tables
from provenance.bootstrap import digest
from provenance.core.digests import FileBytes, array1, table1
from provenance.errors import ConfigError, MalformedError, ProvenanceError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

TABLE = pa.table({"n": [1, 2, None], "s": ["a", None, "c"], "l": [[1.5], [], None]})
ARRAY = np.arange(12, dtype="f4").reshape(3, 4)


def write_parquet(path: Path) -> None:
    pq.write_table(TABLE, path, write_page_checksum=True)


def write_arrow_file(path: Path) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, TABLE.schema) as writer:
        writer.write_table(TABLE)


def write_arrow_stream(path: Path) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, TABLE.schema) as writer:
        writer.write_table(TABLE)


def write_npy(path: Path) -> None:
    with path.open("wb") as file:
        np.save(file, ARRAY)


WRITERS: dict[str, Callable[[Path], None]] = {
    ".parquet": write_parquet,
    ".arrow": write_arrow_file,
    ".arrows": write_arrow_stream,
    ".npy": write_npy,
}


def error_of(path: Path, kind: str | None = None) -> ProvenanceError:
    with pytest.raises(ProvenanceError) as caught:
        digest(path, kind)
    assert str(path) in caught.value.message
    return caught.value


def reason_of(path: Path, kind: str | None = None) -> str:
    error = error_of(path, kind)
    assert isinstance(error, MalformedError)
    assert error.remedy
    return error.reason


# --------------------------------------------------------------------------------------------------- told by


@pytest.mark.parametrize("suffix", WRITERS)
@pytest.mark.parametrize("name", ["right", "none", "other", "loud"])
def test_content_tells_the_format_whatever_the_name(suffix: str, name: str, tmp_path: Path) -> None:
    names = {"right": f"x{suffix}", "none": "x", "other": "x.bin", "loud": f"x{suffix.upper()}"}
    path = tmp_path / names[name]
    WRITERS[suffix](path)
    expected = array1(ARRAY) if suffix == ".npy" else table1(TABLE)
    assert digest(path) == expected
    assert digest(str(path), expected.kind.partition("-")[0]) == expected
    assert str(digest(path, "sha256")) == f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"


@pytest.mark.parametrize(
    "data", [b"", b"x", b"\xff\xff\xff\xff", b"\xff" * 100, b"RIFF....AVI ", b"PK\3\4", b"\x93NUM"]
)
@pytest.mark.parametrize("name", ["x", "x.bin", "x.txt", "x.npz"])
def test_any_other_file_is_its_bytes(data: bytes, name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    assert str(digest(path)) == f"sha256:{hashlib.sha256(data).hexdigest()}"
    assert digest(path).nbytes == len(data)


@pytest.mark.parametrize(
    "suffix", [".parquet", ".pq", ".arrow", ".ipc", ".arrows", ".npy", ".wav", ".wave", ".flac"]
)
def test_a_name_that_the_content_belies_is_an_error(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"x{suffix}"
    path.write_bytes(b"")
    assert reason_of(path) == "empty"
    path.write_bytes(b"something else")
    assert reason_of(path) == "not-what-it-is-named"
    assert str(digest(path, "sha256")) == f"sha256:{hashlib.sha256(b'something else').hexdigest()}"


@pytest.mark.parametrize(
    ("suffix", "kind"),
    [
        (".parquet", "array1"),
        (".npy", "table1"),
        (".arrow", "tree1"),
        (".csv", "array1"),
        (".txt", "table1"),
        (".txt", "tree1"),
    ],
)
def test_a_digest_that_a_file_has_not_is_refused(suffix: str, kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"x{suffix}"
    WRITERS.get(suffix, lambda place: place.write_text("a\n1\n"))(path)
    error = error_of(path, kind)
    assert isinstance(error, ConfigError)
    assert error.reason == "digest-kind"
    assert "sha256" in error.remedy


@pytest.mark.parametrize("kind", [None, "table1", "sha256", "tree1", "array1"])
def test_nothing_there_is_told(kind: str | None, tmp_path: Path) -> None:
    for path in (tmp_path / "gone", tmp_path / "gone" / "x"):
        error = error_of(path, kind)
        assert isinstance(error, ConfigError)
        assert error.reason == "no-such-file"
    (tmp_path / "file").touch()
    assert error_of(tmp_path / "file" / "x", kind).reason == "no-such-file"
    with pytest.raises(ConfigError, match="no file can have this name"):
        digest("a\0b", kind)


@pytest.mark.parametrize("kind", [None, "table1", "sha256"])
def test_pipes_and_devices_are_refused_and_do_not_block(kind: str | None, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.parquet")
    for path in (tmp_path / "pipe.parquet", Path("/dev/null")):
        error = error_of(path, kind)
        assert isinstance(error, MalformedError)
        assert error.reason == "not-a-file"


def test_what_may_not_be_read_is_told(tmp_path: Path, monkeypatch: Any) -> None:
    path = tmp_path / "x.parquet"
    write_parquet(path)

    def denied(*_: Any) -> int:
        raise PermissionError(13, "Permission denied")

    # Root may read everything: the refusal has to be staged.
    monkeypatch.setattr(files.os, "open", denied)
    error = error_of(path)
    assert isinstance(error, UnavailableError)
    assert error.reason == "eacces"
    assert error.remedy


def test_a_symbolic_link_that_the_user_names_is_followed(tmp_path: Path) -> None:
    write_parquet(tmp_path / "x.parquet")
    (tmp_path / "link").symlink_to("x.parquet")
    assert digest(tmp_path / "link") == table1(TABLE)
    (tmp_path / "loop").symlink_to("loop")
    assert isinstance(error_of(tmp_path / "loop"), UnavailableError)


@pytest.mark.parametrize(
    "name", [b"caf\xe9.parquet", "雪 '\"\n.parquet".encode(), b"-x.parquet", b" .parquet"]
)
def test_any_name_will_do(name: bytes, tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.path.join(os.fsencode(tmp_path), name)))  # noqa: PTH118 - bytes
    for write in WRITERS.values():
        write_named(write, path, tmp_path)
        assert digest(path).kind in {"table1-sha256", "array1-sha256"}
    path.write_bytes(b"PAR1")
    with pytest.raises(MalformedError) as caught:
        digest(path)
    assert caught.value.message.isprintable() or b"\n" in name
    caught.value.message.encode()


def write_named(write: Callable[[Path], None], path: Path, folder: Path) -> None:
    write(folder / "plain")
    (folder / "plain").rename(path)


# -------------------------------------------------------------------------------------------------- sha256


def test_a_file_is_hashed_by_the_mebibyte(tmp_path: Path, monkeypatch: Any) -> None:
    path = tmp_path / "x"
    data = bytes(range(256)) * 10
    path.write_bytes(data)
    assert sha256_file(path).hex == hashlib.sha256(data).hexdigest()
    assert sha256_file(str(path), "blake3").kind == "blake3"
    assert files.BUFFER_BYTES == 1 << 20
    monkeypatch.setattr(files, "BUFFER_BYTES", 1000)
    content = read_path(path, "sha256")
    assert isinstance(content, FileBytes)
    assert [len(chunk) for chunk in content.chunks] == [1000, 1000, 560]
    assert sha256_file(path).hex == hashlib.sha256(data).hexdigest()


def test_a_file_that_vanishes_before_it_is_hashed_is_told(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.touch()
    content = read_path(path)
    assert isinstance(content, FileBytes)
    path.unlink()
    with pytest.raises(ConfigError, match="no such file"):
        list(content.chunks)


# ------------------------------------------------------------------------------------------------- Parquet


def damage(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 0xFF
    path.write_bytes(data)


def test_a_corrupt_page_is_told_by_its_checksum(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(
        pa.table({"n": np.arange(1000)}),
        path,
        write_page_checksum=True,
        compression="none",
        use_dictionary=False,
    )
    at = path.read_bytes().index(struct.pack("<q", 500))
    damage(path, at)
    error = error_of(path)
    assert isinstance(error, MalformedError)
    assert error.reason == "damaged"
    assert "as Parquet" in error.message


@pytest.mark.parametrize("keep", [4, 8, 20, -1, -4, -8, -20])
def test_a_truncated_parquet_file_is_told(keep: int, tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    write_parquet(path)
    path.write_bytes(path.read_bytes()[:keep])
    assert reason_of(path) == "damaged"


def test_an_encrypted_footer_is_told(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    path.write_bytes(b"PARE" + bytes(100) + b"PARE")
    assert reason_of(path) == "encrypted"


@pytest.mark.parametrize("plain_footer", [True, False])
def test_encrypted_columns_are_told(plain_footer: bool, tmp_path: Path) -> None:
    import base64

    encryption = pytest.importorskip("pyarrow.parquet.encryption")

    class Keys(encryption.KmsClient):
        def __init__(self, config: Any) -> None:
            super().__init__()

        def wrap_key(self, key: bytes, master: str) -> bytes:
            return base64.b64encode(key)

        def unwrap_key(self, wrapped: bytes, master: str) -> bytes:
            return base64.b64decode(wrapped)

    config = encryption.EncryptionConfiguration(
        footer_key="f", column_keys={"c": ["n", "s"]}, plaintext_footer=plain_footer
    )
    properties = encryption.CryptoFactory(Keys).file_encryption_properties(
        encryption.KmsConnectionConfig(), config
    )
    path = tmp_path / "x.parquet"
    with pq.ParquetWriter(path, TABLE.select(["n", "s"]).schema, encryption_properties=properties) as writer:
        writer.write_table(TABLE.select(["n", "s"]))
    assert reason_of(path) == "encrypted"
    assert digest(path, "sha256").kind == "sha256"


def test_parquet_of_zero_rows_has_a_digest(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(TABLE[:0], path)
    assert digest(path) == table1(TABLE[:0])
    assert digest(path).rows == 0


def test_row_groups_compression_and_pages_do_not_count(tmp_path: Path) -> None:
    big = pa.table({"n": np.arange(1000), "s": [str(number % 7) for number in range(1000)]})
    for number, options in enumerate(
        [{"row_group_size": 10}, {"compression": "gzip"}, {"data_page_size": 64}, {"version": "2.4"}]
    ):
        path = tmp_path / f"{number}.parquet"
        pq.write_table(big, path, **options)
        assert digest(path) == table1(big)


def test_a_folder_name_is_no_column(tmp_path: Path) -> None:
    folder = tmp_path / "year=2020"
    folder.mkdir()
    write_parquet(folder / "x.parquet")
    assert digest(folder / "x.parquet") == table1(TABLE)


def test_what_has_no_digest_is_told_by_file_and_column(tmp_path: Path) -> None:
    path = tmp_path / "x.arrow"
    odd = pa.table({"fine": [1], "odd": pa.array([pa.MonthDayNano([1, 2, 3])])})
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, odd.schema) as writer:
        writer.write_table(odd)
    assert "column 'odd'" in error_of(path).message
    assert reason_of(path) == "interval-type"


# --------------------------------------------------------------------------------------------------- Arrow


@pytest.mark.parametrize("keep", [8, 20, 100, -1, -8, -20])
def test_a_truncated_arrow_file_is_told(keep: int, tmp_path: Path) -> None:
    path = tmp_path / "x.arrow"
    write_arrow_file(path)
    path.write_bytes(path.read_bytes()[:keep])
    assert reason_of(path) == "damaged"


@pytest.mark.parametrize("cut", [1, 4, 7, 9, 40, 200])
def test_a_truncated_arrow_stream_is_told(cut: int, tmp_path: Path) -> None:
    path = tmp_path / "x.arrows"
    write_arrow_stream(path)
    path.write_bytes(path.read_bytes()[:-cut])
    assert reason_of(path) == "damaged"


def test_a_stream_cut_between_messages_is_told(tmp_path: Path) -> None:
    path = tmp_path / "x.arrows"
    with path.open("wb") as file, pa.ipc.new_stream(file, TABLE.schema) as writer:
        writer.write_table(TABLE)
        whole = file.tell()
        writer.write_table(TABLE)
    data = path.read_bytes()
    for end in (whole, len(data) - 8):
        path.write_bytes(data[:end])
        assert reason_of(path) == "truncated"
    path.write_bytes(data + b"x")
    assert reason_of(path) == "trailing-bytes"
    path.write_bytes(data[:whole] + data[-8:] + data[whole:])
    assert reason_of(path) == "trailing-bytes"


def test_a_stream_cut_in_its_schema_is_told_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "x.arrows"
    write_arrow_stream(path)
    path.write_bytes(path.read_bytes()[:50])
    assert reason_of(path) == "not-what-it-is-named"


def test_a_schema_too_long_is_no_stream(tmp_path: Path, monkeypatch: Any) -> None:
    path = tmp_path / "x"
    write_arrow_stream(path)
    monkeypatch.setattr(tables, "_MAX_SCHEMA_BYTES", 10)
    assert digest(path).kind == "sha256"


@pytest.mark.parametrize("write", [write_arrow_file, write_arrow_stream])
def test_offsets_out_of_range_are_told(write: Callable[[Path], None], tmp_path: Path) -> None:
    path = tmp_path / "x"
    write(path)
    data = path.read_bytes()
    right = np.array([0, 1, 1, 2], "i4").tobytes()
    assert right in data
    for wrong in ([0, 1, 1, 2**30], [0, 9, 1, 2], [-1, 1, 1, 2]):
        path.write_bytes(data.replace(right, np.array(wrong, "i4").tobytes()))
        assert reason_of(path) == "damaged"


def test_compressed_arrow_is_read(tmp_path: Path) -> None:
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with (
        pa.OSFile(str(tmp_path / "x"), "wb") as sink,
        pa.ipc.new_file(sink, TABLE.schema, options=options) as writer,
    ):
        writer.write_table(TABLE)
    assert digest(tmp_path / "x") == table1(TABLE)


# ----------------------------------------------------------------------------------------------------- CSV


def test_csv_has_the_types_that_pyarrow_infers(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text('n,s,f,d\n1,a,1.5,2020-01-01\n,"b\nc",NA,\n')
    types = [(column.name, column.type) for column in digest(path).columns]
    assert types == [("n", "i64"), ("s", "utf8"), ("f", "f64"), ("d", "date32")]
    assert digest(path) == table1(
        pyarrow.csv.read_csv(path, parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True))
    )
    path.write_text("a\r\n1\r\n")
    expected = digest(path)
    path.write_text("\ufeffa\n1\n")
    assert digest(path) == expected == table1(pa.table({"a": [1]}))
    (tmp_path / "x.tsv").write_text("a\tb\n1\t2,3\n")
    assert digest(tmp_path / "x.tsv") == table1(pa.table({"a": [1], "b": ["2,3"]}))
    path.write_text("a,b\n")
    assert digest(path).rows == 0


@pytest.mark.parametrize(
    ("text", "line", "found"),
    [
        ("a,b\n1,2\n3\n", 3, 1),
        ("a,b\n1,2,3\n", 2, 3),
        ("a,b\n1,2\n\n3,4,5\n", 4, 3),
        ('a,b\n"x\ny\nz",2\n3,4,5\n', 5, 3),
        ('a,b\n"x\ny",2,3\n', 2, 3),
        ("\ufeffa,b\r\n1,2\r\n3\r\n", 3, 1),
        ("a,b\n1,2\n" * 20_000 + "3\n", 40_001, 1),
        ("a,b\n1,\u2028\n3\n", 3, 1),
    ],
)
def test_a_ragged_row_is_told_by_its_line(text: str, line: int, found: int, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text(text, newline="")
    error = error_of(path)
    assert error.reason == "ragged-row"
    assert f"line {line} has {found} columns, expected 2" in error.message


def test_a_ragged_row_that_is_not_utf_8(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"a,b\n1,2\n\xff,2,3\n")
    assert reason_of(path) == "ragged-row"


def test_a_ragged_row_that_python_cannot_find_is_told_without_its_line(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a,b\n" + "x" * 200_000 + ",2\n3\n")
    assert "a row has 1 columns, expected 2" in error_of(path).message


def test_a_row_longer_than_a_block_is_told(tmp_path: Path, monkeypatch: Any) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a,b\n1," + "x" * 4_000_000 + "\n")
    assert digest(path).rows == 1
    monkeypatch.setattr(tables, "_CSV_BLOCK_BYTES", 1000)
    assert reason_of(path) == "damaged"


@pytest.mark.parametrize("text", ["", "\n", "\n\n"])
def test_an_empty_csv_is_told(text: str, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text(text)
    assert reason_of(path) == "empty"


def test_csv_columns_of_one_name_are_told(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a,b,a\n1,2,3\n")
    assert reason_of(path) == "duplicate-column"
    path.write_bytes(b"\xff\n1\n")
    assert error_of(path).reason == "name-not-utf8"
    path.write_bytes(b"a\n\xff\n")
    assert digest(path).columns[0].type == "bin"


# --------------------------------------------------------------------------------------------------- NumPy


def header(dtype: str, shape: str, order: str = "False", version: tuple[int, int] = (1, 0)) -> bytes:
    text = f"{{'descr': {dtype}, 'fortran_order': {order}, 'shape': {shape}, }}"
    size = struct.pack("<H" if version == (1, 0) else "<I", len(text) + 1)
    return b"\x93NUMPY" + bytes(version) + size + text.encode() + b"\n"


@pytest.mark.parametrize(
    "header", [b"{'descr': (", b"{'descr'", b"(" * 90, b"\x00", b'"""', b"{" + b"[" * 90]
)
def test_an_npy_header_that_is_no_python_is_told(header: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    text = header.ljust(117) + b"\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text)
    assert reason_of(path) == "damaged"


@pytest.mark.parametrize("version", [(1, 0), (2, 0)])
@pytest.mark.parametrize(
    "array", [ARRAY, np.asfortranarray(ARRAY), ARRAY.astype(">f8"), np.float32(3), ARRAY[:0]], ids=str
)
def test_npy_in_any_order(array: np.ndarray, version: tuple[int, int], tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    with path.open("wb") as file:
        np.lib.format.write_array(file, np.asanyarray(array), version)
    assert digest(path) == array1(array)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (header("'<f4'", "(3,)") + bytes(11), "truncated"),
        (header("'<f4'", "(3,)"), "truncated"),
        (header("'<f4'", "(3,)") + bytes(13), "trailing-bytes"),
        (header("'<f4'", "(3,)") + bytes(24), "trailing-bytes"),
        (header("'<f4'", "(99999999999999999999,)"), "truncated"),
        (header("'<f4'", "(-1,)"), "trailing-bytes"),
        (header("'<f4'", "(0,)") + b"x", "trailing-bytes"),
        (header("'|O'", "(1,)") + b"cos\nsystem\n(S'true'\ntR.", "array-type"),
        (header("'<M8[s]'", "(1,)") + bytes(8), "array-type"),
        (header("[('a', '<i4')]", "(1,)") + bytes(4), "array-type"),
        (header("'<f4'", "(1,)", version=(3, 0)) + bytes(4), "npy-version"),
        (header("'<f4'", "(1,)", version=(9, 9)) + bytes(4), "npy-version"),
        (header("'<q9'", "(1,)"), "damaged"),
        (header("'<f4'", "x"), "damaged"),
        (header("'<f4'", "(1,)", order="7"), "damaged"),
        (b"\x93NUMPY", "damaged"),
        (b"\x93NUMPY\1\0", "damaged"),
        (b"\x93NUMPY\1\0\xff\xff{", "damaged"),
        (header("'<f4'", "(__import__('os').system('true'),)"), "damaged"),
        (header("'<f4'", "(" + "1," * 20_000 + ")"), "damaged"),
    ],
)
def test_bad_npy_is_told(data: bytes, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    path.write_bytes(data)
    assert reason_of(path) == reason


def test_two_arrays_in_one_file_are_told(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    with path.open("wb") as file:
        np.save(file, ARRAY)
        np.save(file, ARRAY)
    assert reason_of(path) == "trailing-bytes"


# -------------------------------------------------------------------------------------------------- decoders


@pytest.mark.parametrize(
    ("raised", "kind", "reason"),
    [
        (ValueError("why"), MalformedError, "damaged"),
        (KeyError("why"), MalformedError, "damaged"),
        (ZeroDivisionError("why"), MalformedError, "damaged"),
        (zlib.error("why"), None, ""),
        (OSError("why"), MalformedError, "damaged"),
        (OSError(5, "why"), UnavailableError, "eio"),
        (pa.ArrowInvalid("why"), MalformedError, "damaged"),
        (MemoryError(), UnavailableError, "memory"),
        (pa.lib.ArrowMemoryError("why"), UnavailableError, "memory"),
        (ConfigError("why", reason="ours"), ConfigError, "ours"),
    ],
)
def test_what_decoders_raise_becomes_ours(
    raised: Exception, kind: type[ProvenanceError] | None, reason: str
) -> None:
    with pytest.raises(kind or type(raised)) as caught, files.decoding("some/where", "this"):
        raise raised
    if kind is not None:
        assert isinstance(caught.value, ProvenanceError)
        assert caught.value.reason == reason
        assert reason == "ours" or caught.value.message.startswith("some/where: ")


def test_a_message_of_many_lines_is_cut(tmp_path: Path) -> None:
    with pytest.raises(MalformedError) as caught, files.decoding("x", "this"):
        raise ValueError("line\n" * 1000)
    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 500


# ----------------------------------------------------------------------------------------------------- Zarr


@pytest.fixture
def zarr() -> Any:
    return pytest.importorskip("zarr")


@pytest.mark.parametrize("version", [2, 3])
def test_a_zarr_folder_is_a_tree_and_on_demand_an_array(version: int, zarr: Any, tmp_path: Path) -> None:
    path = tmp_path / "x.zarr"
    zarr.create_array(store=str(path), data=ARRAY, chunks=(2, 2), zarr_format=version)
    assert digest(path).kind == "tree1-sha256"
    assert digest(path) == digest(path, "tree1")
    assert digest(path, "array1") == array1(ARRAY)
    scalar = tmp_path / "scalar.zarr"
    zarr.create_array(store=str(scalar), data=np.array(5, "i2"), zarr_format=version)
    assert digest(scalar, "array1") == array1(np.array(5, "i2"))


def test_a_zarr_group_is_refused_with_the_way_to_its_arrays(zarr: Any, tmp_path: Path) -> None:
    path = tmp_path / "g.zarr"
    group = zarr.open_group(store=str(path), mode="w")
    group.create_array("a", data=ARRAY)
    error = error_of(path, "array1")
    assert isinstance(error, ConfigError)
    assert error.reason == "zarr-group"
    assert digest(path / "a", "array1") == array1(ARRAY)


def test_damaged_zarr_is_told(zarr: Any, tmp_path: Path) -> None:
    path = tmp_path / "x.zarr"
    zarr.create_array(store=str(path), data=ARRAY, chunks=(3, 4), zarr_format=3)
    chunk = path / "c" / "0" / "0"
    chunk.write_bytes(chunk.read_bytes()[:-9])
    assert reason_of(path, "array1") == "damaged"
    for text in ("", "{}", "[]", "{", '{"zarr_format": 9}', '{"zarr_format": 3, "node_type": "array"}'):
        (path / "zarr.json").write_text(text)
        assert reason_of(path, "array1") == "damaged"


def test_a_folder_that_is_no_array_is_refused(tmp_path: Path) -> None:
    for kind in ("array1", "table1"):
        error = error_of(tmp_path, kind)
        assert isinstance(error, ConfigError)
        assert "tree1" in error.remedy
    assert error_of(tmp_path, "sha256").reason == "digest-kind"


@pytest.mark.parametrize(("module", "extra"), [("zarr", "zarr"), ("soundfile", "audio")])
def test_a_missing_extra_is_told_with_its_name(
    module: str, extra: str, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    path = tmp_path / "x"
    if module == "zarr":
        path.mkdir()
        (path / "zarr.json").touch()
    else:
        path.write_bytes(b"fLaC")
    error = error_of(path, "array1")
    assert isinstance(error, ConfigError)
    assert f"provenance-ledger[{extra}]" in error.remedy
