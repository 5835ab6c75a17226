"""The exception tree: exit codes, and that errors cross process borders whole."""

from __future__ import annotations

import pickle
import traceback

import pytest

from provenance import errors


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.VerificationError("m", reason="r"), 1),
        (errors.MismatchError("root", expected="a", actual="b", remedy="look"), 1),
        (errors.ConfigError("m", remedy="do"), 2),
        (errors.MalformedError("m", reason="r", remedy="do"), 2),
        (errors.UnavailableError("m"), 3),
        (errors.PendingError("m"), 4),
    ],
)
def test_an_error_survives_pickling_with_all_it_carries(error, code):
    back = pickle.loads(pickle.dumps(error))
    assert type(back) is type(error)
    assert back.__dict__ == error.__dict__
    assert str(back) == str(error)
    assert back.exit_code == code


def test_a_mismatch_says_expected_and_found():
    assert str(errors.MismatchError("root", expected="a", actual="b")) == "root: expected a, found b"


def test_a_traceback_ends_with_the_next_step():
    error = errors.ConfigError("it is not there", remedy="Run: provenance init")
    shown = traceback.format_exception(pickle.loads(pickle.dumps(error)))
    assert shown[-1] == "  next: Run: provenance init\n"
    assert traceback.format_exception(errors.ConfigError("m"))[-1].endswith("ConfigError: m\n")


def test_context_is_what_was_added_on_the_way_up():
    error = errors.ConfigError("it is not there", remedy="Run: provenance init")
    error.add_note("in stage 'clean', partition 3")
    assert error.context == ["in stage 'clean', partition 3"]
