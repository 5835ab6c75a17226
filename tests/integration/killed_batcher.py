"""Runs a real batcher in a child that is killed at a chosen call; a program for `test_batch_on_anvil`.

``python killed_batcher.py FOLDER``; standard input holds a JSON list of ``[operation, number, when,
embedded]``: the child appends some messages, drains the log, and is killed (SIGKILL) before or after the call
of that number of the operation; with ``null`` it runs to its end. One line is printed for each: how the child
ended.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

from provenance import bootstrap, bootstrap_chain, config
from provenance.adapters import anvil, evm  # noqa: F401 - imported once, before the forks
from provenance.core.batcher import Limits
from provenance.services.batching import run_once
from provenance.testing.faults import Faults, faulty


class Kill(Faults):
    """Ends the process at a call, as a power cut would."""

    def __init__(self, operation: str, number: int, when: str) -> None:
        super().__init__()
        self.operation, self.number, self.when = operation, number, when

    def call(self, operation, function, *args, **kwargs):
        self.calls.append(operation)
        due = operation == self.operation and self.calls.count(operation) == self.number
        if due and self.when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = function(*args, **kwargs)
        if due:
            os.kill(os.getpid(), signal.SIGKILL)
        return result


def wrap(faults: Faults) -> None:
    """Let every port that `bootstrap` gives out meet the faults."""
    chain, governance = bootstrap.chain, bootstrap.governance

    def watched_chain(settings):
        reader, account = chain(settings)
        return faulty(reader, "chain", faults), faulty(account, "account", faults)

    bootstrap.chain = watched_chain
    bootstrap.governance = lambda settings: faulty(governance(settings), "governance", faults)
    for name, short in (
        ("event_log", "log"),
        ("batch_store", "store"),
        ("index", "index"),
        ("journal", "journal"),
    ):
        made = getattr(bootstrap, name)
        setattr(
            bootstrap, name, lambda settings, made=made, short=short: faulty(made(settings), short, faults)
        )


def child(folder: Path, case) -> None:
    settings = config.Settings(folder)
    log = bootstrap.event_log(settings)
    log.append([(b"", b"record %d of process %d" % (number, os.getpid())) for number in range(5)])
    embedded = True
    if case is not None:
        operation, number, when, embedded = case
        wrap(Kill(operation, number, when))
    components = bootstrap_chain.batcher(settings)
    if not embedded:
        components = replace(components, founding=None)
    run_once(components, Limits(max_records=3, poll=0.01))


def main() -> None:
    folder = Path(sys.argv[1])
    for case in json.load(sys.stdin):
        pid = os.fork()
        if pid == 0:
            child(folder, case)
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        print(json.dumps([case, os.waitstatus_to_exitcode(status)]), flush=True)


if __name__ == "__main__":
    main()
