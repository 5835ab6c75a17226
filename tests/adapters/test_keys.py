"""Development keys: made once, private, never shown, refused when they are not what they were."""

from __future__ import annotations

import copy
import hashlib
import json
import pickle
from typing import TYPE_CHECKING

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from provenance.adapters import keys
from provenance.core.records import key_id
from provenance.errors import ConfigError, MalformedError, MismatchError
from tests.together import run_together

if TYPE_CHECKING:
    from pathlib import Path

ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141  # of secp256k1 (SEC 2, 2.4.1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "keys"
    keys.create_record_key(folder)
    for name in keys.CHAIN_KEYS:
        keys.create_chain_key(folder, name)
    return folder


def rewrite(path: Path, **fields: object) -> None:
    content = json.loads(path.read_text()) | fields
    path.write_text(json.dumps({key: value for key, value in content.items() if value is not None}))


def test_keys_are_private_and_marked(folder: Path) -> None:
    assert folder.stat().st_mode & 0o777 == 0o700
    for name in (keys.RECORD_KEY, "governance.json", "publisher.json"):
        assert (folder / name).stat().st_mode & 0o777 == 0o600
        assert json.loads((folder / name).read_text())["development"] is True


def test_keys_are_made_once(folder: Path) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert not keys.create_record_key(folder)
    assert not any(keys.create_chain_key(folder, name) for name in keys.CHAIN_KEYS)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_keys_made_apart_differ(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    assert keys.create_record_key(other)
    assert keys.load_trusted_keys(other) != keys.load_trusted_keys(folder)
    secrets = {keys.load_chain_key(folder, name).secret for name in keys.CHAIN_KEYS}
    assert len(secrets) == 2


def test_processes_at_once_agree_on_the_keys(tmp_path: Path) -> None:
    printed = run_together(
        "from pathlib import Path; from provenance.adapters import keys",
        """
        folder = Path(sys.argv[1])
        made = [keys.create_record_key(folder), keys.create_chain_key(folder, "publisher")]
        chain_key = keys.load_chain_key(folder, "publisher")
        print(made, sorted(keys.load_trusted_keys(folder)), chain_key.secret.hex())
        """,
        tmp_path / "keys",
    )
    assert len({line.partition("]")[2] for line in printed}) == 1
    assert sum("True" in line.partition("]")[0] for line in printed) >= 1
    assert len(list((tmp_path / "keys").iterdir())) == 3


def test_a_chain_key_is_in_the_range_of_its_curve(folder: Path) -> None:
    secret = keys.load_chain_key(folder, "publisher").secret
    assert 0 < int.from_bytes(secret, "big") < ORDER
    ec.derive_private_key(int.from_bytes(secret, "big"), ec.SECP256K1())


def test_the_public_half_of_the_record_key_is_trusted(folder: Path) -> None:
    public = keys.FileSigner(folder / keys.RECORD_KEY).public_key()
    assert keys.load_trusted_keys(folder) == {key_id(public): public}


def test_a_key_that_was_replaced_stays_trusted(folder: Path) -> None:
    old = keys.load_trusted_keys(folder)
    (folder / keys.RECORD_KEY).unlink()
    assert keys.create_record_key(folder)
    assert len(keys.load_trusted_keys(folder)) == 2
    assert old.items() <= keys.load_trusted_keys(folder).items()


def test_a_public_half_that_was_lost_is_made_again(folder: Path) -> None:
    before = keys.load_trusted_keys(folder)
    for path in folder.glob("*.pub"):
        path.unlink()
    assert keys.load_trusted_keys(folder) == {}
    keys.create_record_key(folder)
    assert keys.load_trusted_keys(folder) == before


def test_a_folder_that_is_not_there_trusts_nobody(tmp_path: Path) -> None:
    assert keys.load_trusted_keys(tmp_path / "absent") == {}


def test_nothing_shows_a_secret(folder: Path) -> None:
    signer = keys.FileSigner(folder / keys.RECORD_KEY)
    signer.sign(b"")
    key = keys.load_chain_key(folder, "publisher")
    secret = json.loads((folder / keys.RECORD_KEY).read_text())["secret"]
    shown = repr(signer) + str(signer) + repr(key) + str(key)
    assert secret not in shown
    assert key.secret.hex() not in shown
    assert repr(key.secret) not in shown


def test_a_secret_does_not_leave_its_process(folder: Path) -> None:
    for thing in (keys.FileSigner(folder / keys.RECORD_KEY), keys.load_chain_key(folder, "publisher")):
        for leave in (pickle.dumps, copy.deepcopy):
            with pytest.raises(TypeError, match="does not leave its process"):
                leave(thing)


def test_a_key_is_read_when_it_is_first_used(tmp_path: Path) -> None:
    signer = keys.FileSigner(tmp_path / "absent")
    with pytest.raises(ConfigError, match="no such key") as caught:
        signer.sign(b"")
    assert caught.value.remedy == "Run: provenance init"
    with pytest.raises(ConfigError, match="no such key"):
        keys.load_chain_key(tmp_path, "publisher")


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620])
def test_a_key_that_others_may_open_is_refused(folder: Path, mode: int) -> None:
    (folder / "publisher.json").chmod(mode)
    (folder / keys.RECORD_KEY).chmod(mode)
    for load in (
        lambda: keys.load_chain_key(folder, "publisher"),
        keys.FileSigner(folder / keys.RECORD_KEY).public_key,
    ):
        with pytest.raises(ConfigError) as caught:
            load()
        assert "chmod 600" in caught.value.remedy


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "ed25519"},
        {"kind": None},
        {"development": False},
        {"development": 1},
        {"version": 2},
        {"secret": "ab" * 31},
        {"secret": "ab" * 33},
        {"secret": "zz" * 32},
        {"secret": 987654321},
        {"secret": None},
        {"passphrase": "hunter2"},
        {"secret": "00" * 32},
        {"secret": f"{ORDER:064x}"},
        {"secret": "ff" * 32},
    ],
)
def test_a_chain_key_of_no_form_is_refused_and_not_shown(folder: Path, change: dict[str, object]) -> None:
    path = folder / "publisher.json"
    rewrite(path, **change)
    secret = json.loads(path.read_text()).get("secret", "absent")
    with pytest.raises(MalformedError) as caught:
        keys.load_chain_key(folder, "publisher")
    assert str(path) in caught.value.message
    assert str(secret) not in caught.value.message
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


@pytest.mark.parametrize("text", ["", "[]", "null", "1", '"x"', "{", "[" * 3000, "\xff"])
def test_a_file_that_is_no_key_is_refused(folder: Path, text: str) -> None:
    path = folder / keys.RECORD_KEY
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(MalformedError, match="expected a development key of kind ed25519"):
        keys.FileSigner(path).public_key()


def test_a_long_file_is_refused(folder: Path) -> None:
    (folder / "publisher.json").write_bytes(b" " * 5000)
    with pytest.raises(MalformedError, match="5000 bytes"):
        keys.load_chain_key(folder, "publisher")


@pytest.mark.parametrize("name", ["", "../record", "Publisher", "a/b", "a" * 65, "1", "a.b"])
def test_a_name_that_is_none_is_refused(folder: Path, name: str) -> None:
    for call in (keys.load_chain_key, keys.create_chain_key):
        with pytest.raises(ConfigError, match="key"):
            call(folder, name)


@pytest.mark.parametrize("text", ["", "ab" * 31, "zz" * 32, "é", "ab" * 32 + "\n\n"])
def test_a_public_key_of_no_form_is_refused(folder: Path, text: str) -> None:
    (folder / f"{'ab' * 32}.pub").write_text(text)
    with pytest.raises(MalformedError, match="expected 64 hex digits"):
        keys.load_trusted_keys(folder)


def test_a_public_key_under_another_ones_id_is_refused(folder: Path) -> None:
    (path,) = folder.glob("*.pub")
    path.write_text("ab" * 32 + "\n")
    with pytest.raises(MismatchError) as caught:
        keys.load_trusted_keys(folder)
    assert caught.value.expected == path.stem
    assert caught.value.actual == hashlib.sha256(bytes.fromhex("ab" * 32)).hexdigest()


def test_another_ones_public_key_can_be_trusted(folder: Path) -> None:
    public = bytes(range(32))
    (folder / f"{key_id(public)}.pub").write_text(public.hex() + "\n")
    (folder / "notes.txt").write_text("not a key")
    assert keys.load_trusted_keys(folder)[key_id(public)] == public
