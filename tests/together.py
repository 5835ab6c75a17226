"""Several Python processes that do one thing at the same time."""

from __future__ import annotations

import subprocess
import sys
import textwrap


def run_together(imports: str, action: str, *arguments: object, count: int = 4) -> list[str]:
    """Import in each of ``count`` processes, let them act at once, and return what each printed.

    Args:
        imports: statements to run first; ``sys`` is there.
        action: statements to run when all are ready; ``sys.argv[1:]`` are the arguments.
        arguments: as text.
        count: how many processes.
    """
    steps = ["import sys", imports, "print('ready', flush=True); sys.stdin.read()", action]
    script = "\n".join(textwrap.dedent(step) for step in steps)
    started = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", script, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for _ in range(count)
    ]
    first = [process.stdout.readline() for process in started if process.stdout]
    for process in started:
        if process.stdin:
            process.stdin.close()
    outputs = []
    for process in started:
        if process.stdout:
            outputs.append(process.stdout.read())
            process.stdout.close()
        process.wait()
    assert first == ["ready\n"] * count, (first, outputs)
    assert [process.returncode for process in started] == [0] * count, outputs
    return outputs
