"""The real batcher killed at random times under load, on the embedded log and chain."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from provenance import bootstrap_chain, config
from provenance.adapters import anvil
from provenance.errors import ConfigError, UnavailableError

pytestmark = [pytest.mark.service, pytest.mark.slow]

PROGRAM = Path(__file__).with_name("batcher_kills.py")


@pytest.mark.timeout(900)
def test_kills_under_load_lose_and_double_nothing(tmp_path) -> None:
    try:
        bootstrap_chain.start_chain(config.Settings(tmp_path / ".provenance"))
    except (ConfigError, UnavailableError) as error:
        pytest.skip(f"no anvil: {error}")
    finally:
        anvil.stop(tmp_path / ".provenance" / "chain")
    done = subprocess.run(  # it forks, which a process with threads must not
        [sys.executable, str(PROGRAM), "--kills", os.environ.get("KILLS", "60"), "--seed", "1"],
        env={name: value for name, value in os.environ.items() if not name.startswith("PROVENANCE_")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.search(r"(\d+) kills \((\d+) of the chain besides\), (\d+) records", done.stdout)
    kills, of_chain, acknowledged = map(int, found.groups())
    assert kills >= 60
    assert of_chain >= 3
    assert acknowledged > kills
