"""Every vector file, given and added, and the shipped runner that other implementations use."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from provenance.errors import MalformedError
from provenance.testing import vectors
from tests.vectors import make_more

VECTORS = make_more.HERE
FILES = sorted(path for path in VECTORS.glob("*.json") if not path.name.startswith("chain"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_case_holds(path):
    outcomes = vectors.run_file(path)
    assert outcomes
    assert [outcome for outcome in outcomes if outcome.reason] == []


@pytest.mark.parametrize("name", sorted(make_more.FILES))
def test_added_cases_are_what_their_script_writes(name):
    assert (VECTORS / name).read_text() == make_more.text_of(name)


def test_added_failing_cases_outnumber_right_ones_five_to_one():
    cases = [case for name in make_more.FILES for case in json.loads((VECTORS / name).read_text())]
    failing = sum("reason" in case for case in cases)
    assert failing >= 5 * (len(cases) - failing)


def broken(tmp_path, source, change):
    cases = json.loads((VECTORS / source).read_text())
    change(cases[0])
    path = tmp_path / source
    path.write_text(json.dumps(cases[:3]))
    return path


ZEROS = "00" * 32


@pytest.mark.parametrize(
    ("source", "change", "reason"),
    [
        ("table-1.json", {"digest": ZEROS}, "digest"),
        ("table-1.json", {"digest": None}, "accepted"),
        ("table-1.json", {"types": ["i8"]}, "types"),
        ("table-1.json", {"ipc": "AAAA"}, "IPC"),
        ("table-1.json", {"ipc": "?"}, "cannot be read"),
        ("array-1.json", {"digest": ZEROS}, "digest"),
        ("array-1.json", {"hex": "00"}, "cannot be read"),
        ("array-1.json", {"rule": "numpy.zeros(3)"}, "rule"),
        ("array-1.json", {"rule": "numpy.arange(999999999, dtype='<f4')"}, "rule"),
        ("array-1.json", {"rule": "__import__('os').system('true')"}, "rule"),
        ("merkle-cases.json", {"valid": False}, "accepted"),
        ("merkle-cases.json", {"check": "other"}, "check"),
        ("merkle-cases.json", {"index": "0"}, "cannot be read"),
        ("merkle.json", {"root": ZEROS}, "root"),
        ("merkle.json", {"leaves": "str(i)"}, "leaves"),
        ("merkle.json", {"size": 2**40}, "leaves"),
        ("records.json", {"id": ZEROS}, "id"),
        ("records.json", {"id": None}, "accepted"),
        ("statements-1.json", {"id": ZEROS}, "id"),
        ("statements-1.json", {"reason": "other"}, "reason"),
        ("streams.json", {"binding": ZEROS}, "binding"),
        ("streams.json", {"stream": ZEROS}, "stream"),
        ("streams.json", {"as_continues": ZEROS}, "as_continues"),
        ("streams.json", {"batches": []}, "as_continues"),
        ("batch.json", {"valid": False}, "accepted"),
        ("batch.json", {"acc": ZEROS}, "acc"),
        ("batch.json", {"offsets": []}, "offsets"),
        ("batch.json", {"manifest_hash": ZEROS}, "manifest hash"),
        ("batch.json", {"file": "x"}, "file"),
    ],
)
def test_a_wrong_case_fails_and_is_named(tmp_path, source, change, reason):
    path = broken(tmp_path, source, lambda case: case.update(change))
    first, *others = vectors.run_file(path)
    assert reason in first.reason
    assert [outcome.reason for outcome in others] == ["", ""]


def test_a_case_without_its_fields_fails_and_does_not_crash(tmp_path):
    path = tmp_path / "records-x.json"
    path.write_text('[{"name": "bare"}, {}]')
    assert [(outcome.name, bool(outcome.reason)) for outcome in vectors.run_file(path)] == [
        ("bare", True),
        ("case-1", True),
    ]


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("other.json", "[]", "unknown-vectors"),
        ("records.json", "{}", "not-a-list"),
        ("records.json", "[1]", "not-a-list"),
        ("records.json", "[", "not-json"),
        ("records.json", "[" * 100_000, "not-json"),
    ],
)
def test_a_file_that_is_no_vector_file_is_refused(tmp_path, name, text, reason):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(MalformedError) as caught:
        vectors.run_file(path)
    assert caught.value.reason == reason


def test_an_absent_or_huge_file_is_refused(tmp_path, monkeypatch):
    with pytest.raises(MalformedError, match="cannot be read"):
        vectors.run_file(tmp_path / "records.json")
    monkeypatch.setattr(vectors, "MAX_FILE_BYTES", 1)
    with pytest.raises(MalformedError, match="larger"):
        vectors.run_file(VECTORS / "records.json")


def run(*arguments):
    command = [sys.executable, "-m", "provenance.testing.vectors", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_the_command_counts_and_exits_0():
    done = run(VECTORS / "records.json", VECTORS / "streams.json")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "50 passed, 0 failed")


def test_the_command_names_failures_and_exits_1(tmp_path):
    path = broken(tmp_path, "records.json", lambda case: case.update(id=ZEROS))
    done = run(path, tmp_path / "absent.json")
    assert done.returncode == 1
    assert done.stdout.splitlines()[0].startswith("FAILED records.json: empty-object: id: expected 00")
    assert done.stdout.splitlines()[-1] == "2 passed, 1 failed"


def test_the_command_exits_2_when_a_file_cannot_be_used(tmp_path):
    done = run(tmp_path / "absent.json")
    assert done.returncode == 2
    assert "absent.json" in done.stderr
    assert run().returncode == 2
    assert run("--help").returncode == 0
