"""What `provenance status` shows of the outbox, and what `provenance batch` does with it."""

from __future__ import annotations

import datetime as dt
import json
import os

import pytest

from provenance import bootstrap, config
from provenance.cli import main
from provenance.core.outbox import Place


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("PROVENANCE_")]:
        monkeypatch.delenv(name)
    return tmp_path / ".provenance"


def fill(folder, since: dt.datetime) -> None:
    outbox = bootstrap.outbox(config.load(folder))
    outbox.keep([(b"key", b"%d" % number) for number in range(3)], since)
    outbox.settle({outbox.rows(0, 1)[0].number: Place("c", "t", 0, 0)}, [])
    outbox.close()


def run(capsys, *words: str) -> tuple[int, str]:
    capsys.readouterr()
    code = main(list(words))
    return code, capsys.readouterr().out


def test_an_empty_outbox_is_not_mentioned_to_people_and_is_to_programs(folder, capsys) -> None:
    assert "outbox:" not in run(capsys, "status")[1]
    expected = {"records": 0, "bytes": 0, "never_acknowledged": 0, "not_final": 0, "oldest_s": None}
    assert json.loads(run(capsys, "status", "--json")[1])["outbox"] == expected
    assert not folder.exists()
    log = bootstrap.event_log(config.load(folder))
    log.append([(b"", b"one")])
    log.close()
    assert "outbox:" not in run(capsys, "status")[1]
    assert json.loads(run(capsys, "status", "--json")[1])["outbox"] == expected
    assert not (folder / "outbox.sqlite").exists()


@pytest.mark.parametrize("has_log", [True, False])
def test_what_waits_is_counted_and_the_next_step_said(folder, capsys, has_log: bool) -> None:
    if has_log:
        log = bootstrap.event_log(config.load(folder))
        log.append([(b"", b"one")])
        log.close()
    fill(folder, bootstrap.clock().now() - dt.timedelta(hours=2))
    code, out = run(capsys, "status")
    assert code == 0
    assert "outbox: 3 records, 12 bytes; the oldest waits for 7,2" in out
    assert "never acknowledged 2, acknowledged and not final 1" in out
    assert "next: provenance batch" in out
    found = json.loads(run(capsys, "status", "--json")[1])["outbox"]
    assert 7200 <= found.pop("oldest_s") < 8000
    assert found == {"records": 3, "bytes": 12, "never_acknowledged": 2, "not_final": 1}


def test_a_clock_that_was_set_back_shows_no_negative_age(folder, capsys) -> None:
    fill(folder, bootstrap.clock().now() + dt.timedelta(hours=1))
    assert "waits for 0 s" in run(capsys, "status")[1]


def test_depth_is_there_for_whoever_counts(folder) -> None:
    settings = config.load(folder)
    assert bootstrap.outbox_depth(settings).records == 0
    fill(folder, bootstrap.clock().now())
    depth = bootstrap.outbox_depth(settings)
    assert (depth.records, depth.unsent, depth.not_final, depth.size) == (3, 2, 1, 12)


def test_the_file_is_where_the_settings_say_and_bounded_as_they_say(folder, monkeypatch, tmp_path) -> None:
    from provenance.errors import UnavailableError

    monkeypatch.setenv("PROVENANCE_LOG_OUTBOX_FILE", str(tmp_path / "elsewhere" / "box"))
    monkeypatch.setenv("PROVENANCE_LOG_OUTBOX_MAX_RECORDS", "3")
    fill(folder, bootstrap.clock().now())
    assert (tmp_path / "elsewhere" / "box").exists()
    with pytest.raises(UnavailableError, match="outbox is full"):
        bootstrap.outbox(config.load(folder)).keep([(b"", b"more")], bootstrap.clock().now())
    assert not (folder / "outbox.sqlite").exists()
