"""The program and the pipelines as a user calls them: a process of its own, in a folder of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).parents[1]

# To root no file is unreadable, unless two capabilities are given up for good (capabilities(7)).
_AS_NOBODY_SPECIAL = """
import ctypes, os, sys
PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 24, 1, 2
for capability in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
    ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


def call(folder, module, *arguments, unprivileged=False, **environment):
    """Run ``python -m MODULE ARGUMENTS`` in a folder; with ``unprivileged`` permissions bind root too."""
    first = ["-c", _AS_NOBODY_SPECIAL] if unprivileged else []
    return subprocess.run(
        [sys.executable, *first, "-m", module, *map(str, arguments)],
        cwd=folder,
        capture_output=True,
        text=True,
        errors="surrogateescape",
        timeout=200,
        check=False,
        env={**os.environ, "PYTHONPATH": str(PROJECT), **environment},
    )


def says(done, code, *parts):
    """The exit code, and one message on standard error with these parts and a next step."""
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.count("error: ") == 1, done.stderr
    for part in (*parts, "next: "):
        assert part in done.stderr, done.stderr
