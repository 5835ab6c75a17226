"""What bootstrap joins: settings in, ports out, keys made when they are needed."""

from __future__ import annotations

import pickle
from functools import partial
from typing import TYPE_CHECKING

import pytest

from provenance import bootstrap
from provenance.config import Settings
from provenance.core.records import key_id
from provenance.errors import ConfigError, MalformedError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(tmp_path / ".provenance", store_object_limit=1 << 20)


def test_nothing_is_made_before_it_is_used(settings: Settings) -> None:
    for make in (
        bootstrap.event_log,
        bootstrap.batch_store,
        bootstrap.index,
        bootstrap.journal,
        bootstrap.names,
    ):
        make(settings)
    assert bootstrap.trusted_keys(settings) == {}
    assert not settings.folder.exists()


def test_every_port_lies_where_the_settings_say(settings: Settings) -> None:
    bootstrap.event_log(settings).append([(b"k", b"v")])
    bootstrap.batch_store(settings).put("a", b"")
    bootstrap.index(settings).clear()
    bootstrap.journal(settings).forget(bytes(32))
    bootstrap.names(settings).secret()
    for path in (
        settings.log_path,
        settings.store_path / "a",
        settings.index_path,
        settings.journal_path,
        settings.names_path,
    ):
        assert path.is_file()


def test_keys_are_made_once_and_trusted(settings: Settings) -> None:
    signer = bootstrap.record_signer(settings)
    public = signer.public_key()
    assert bootstrap.trusted_keys(settings) == {key_id(public): public}
    assert bootstrap.prepare(settings) == []
    assert bootstrap.record_signer(settings).public_key() == public
    (settings.keys_path / "governance.json").unlink()
    assert bootstrap.prepare(settings) == ["governance"]


def test_the_folder_keeps_itself_out_of_version_control(settings: Settings) -> None:
    bootstrap.prepare(settings)
    assert (settings.folder / ".gitignore").read_bytes() == b"*\n"


def test_another_process_can_be_told_how_to_open_the_log(settings: Settings) -> None:
    bootstrap.event_log(settings).append([(b"k", b"v")])
    opener = pickle.loads(pickle.dumps(partial(bootstrap.event_log, settings)))
    assert [message.value for message in opener().read(0, 0, 1)] == [b"v"]


def test_the_limit_of_the_store_is_that_of_the_settings(settings: Settings) -> None:
    store = bootstrap.batch_store(settings)
    store.put("a", bytes(1 << 20))
    with pytest.raises(MalformedError):
        store.put("b", bytes((1 << 20) + 1))


def test_a_key_that_others_may_read_stops_whoever_signs(settings: Settings) -> None:
    bootstrap.prepare(settings)
    (settings.keys_path / "record.ed25519").chmod(0o644)
    with pytest.raises(ConfigError, match="others on this machine"):
        bootstrap.record_signer(settings)


def test_the_clock_is_the_systems() -> None:
    assert bootstrap.clock().now().tzinfo is not None
