"""What holds for every test.

In CI a service test may not be skipped, and Hypothesis takes the same examples each time.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Generator

# In CI the same commit must give the same answer: the examples are derived from the test, not from chance.
settings.register_profile("ci", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("default", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") == "true" else "default")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[Any]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn the skip of a service test into a failure where all components must be there."""
    report = yield
    required = os.environ.get("CI") == "true" and item.get_closest_marker("service") is not None
    if required and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = (
            f"skipped although CI has every component: {call.excinfo.value if call.excinfo else ''}"
        )
    return report
