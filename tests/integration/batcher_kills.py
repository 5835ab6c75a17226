"""Kills the real batcher at random times under load, then drains and checks; a program, and a test's world.

``python tests/integration/batcher_kills.py --kills 2000`` is `make soak`. A process appends to the SQLite log
all the while and writes down what was acknowledged; ``provenance batch --follow`` anchors on anvil, is killed
by SIGKILL after a random time, and started again. Most starts are forks of a process that has its modules
loaded, so that the time goes into anchoring; some are fresh interpreters. Now and then the producer or anvil
is killed too; anvil then has lost blocks, and the batcher anchors again from its files.

What is drawn comes of ``--seed``; when a kill hits comes of the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from provenance import bootstrap, bootstrap_chain, config
from provenance.adapters import anvil, evm  # noqa: F401 - loaded before the forks
from provenance.cli import main as provenance_main
from provenance.testing.checker import Acknowledged, Violation, check_ledger

LIMITS = ("--max-records", "40", "--max-age", "0.1")
FRESH, ANVIL, PRODUCER = 12, 15, 10
"""Each this many kills: a fresh interpreter, a kill of anvil, a kill of the producer."""


@dataclass
class Outcome:
    kills: int = 0
    ended: list[tuple[int, str]] = field(default_factory=list)
    """Batchers that ended by themselves: exit code, and what they said."""
    acknowledged: int = 0
    batches: int = 0
    chain_kills: int = 0
    entries: int = 0
    """What the journal holds after the drain."""
    violations: list[Violation] = field(default_factory=list)


def produce(folder: Path, acknowledged: Path) -> None:
    """Append for ever, and write down what was acknowledged."""
    log = bootstrap.event_log(config.Settings(folder))
    rng = random.Random(os.getpid())
    number = 0
    with acknowledged.open("a") as lines:
        while True:
            values = [b"%d/%d" % (os.getpid(), number + at) for at in range(rng.randrange(1, 8))]
            values[-1] = values[-1] if rng.random() < 0.9 else b""
            number += len(values)
            places = log.append([(b"", value) for value in values])
            for (_, offset), value in zip(places, values, strict=True):
                lines.write(json.dumps([offset, value.decode()]) + "\n")
            lines.flush()
            time.sleep(rng.random() * 0.05)  # the load, about 100 records a second


def follow(folder: Path, said: Path, *, fresh: bool) -> int:
    """Start ``provenance batch --follow``; its process id."""
    words = ["batch", "--follow", *LIMITS, "--folder", str(folder)]
    if fresh:
        with said.open("w") as out:
            command = [sys.executable, "-m", "provenance", *words]
            return subprocess.Popen(command, stdout=out, stderr=out).pid
    return fork(lambda: provenance_main(words), said)


def fork(run, said: Path) -> int:
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    code = 70
    try:
        out = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(out, 1)
        os.dup2(out, 2)
        code = run() or 0
    finally:
        os._exit(code)


def kill(pid: int) -> int:
    """SIGKILL; how it ended, which is another way if it had ended before."""
    os.kill(pid, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def kill_many(folder: Path, kills: int, seed: int, *, say=lambda line: None) -> Outcome:
    """All of it, in a folder whose chain runs."""
    rng = random.Random(seed)
    settings, outcome = config.Settings(folder), Outcome()
    acknowledged, said = folder / "acknowledged.jsonl", folder / "said.txt"
    turn, producer = 0, fork(lambda: produce(folder, acknowledged), folder / "producer.txt")
    try:
        while outcome.kills < kills:
            turn += 1
            is_fresh, hits_anvil = turn % FRESH == FRESH - 1, turn % ANVIL == ANVIL - 1
            batcher = follow(folder, said, fresh=is_fresh)
            time.sleep(rng.uniform(0.02, 1.2) + (1.0 if is_fresh else 0.0))
            if hits_anvil:
                outcome.chain_kills += 1
                kill_anvil(settings)
                if rng.random() < 0.5:  # the batcher sees it come back; otherwise the next one does
                    bootstrap_chain.start_chain(settings)
                    time.sleep(rng.uniform(0.0, 1.5))
            code = kill(batcher)
            if code == -signal.SIGKILL:
                outcome.kills += 1
            elif not (hits_anvil and code == 3):  # started when the chain was just killed: it says so
                outcome.ended.append((code, said.read_text()[-2_000:]))
                if len(outcome.ended) > kills // 4:
                    raise RuntimeError(f"batchers end by themselves: {outcome.ended[-1]}")
            bootstrap_chain.start_chain(settings)
            if turn % PRODUCER == PRODUCER - 1:
                kill(producer)
                producer = fork(lambda: produce(folder, acknowledged), folder / "producer.txt")
            if outcome.kills % 100 == 0:
                say(f"{outcome.kills} kills")
    finally:
        kill(producer)
    words = ["batch", *LIMITS[:2], "--folder", str(folder)]
    drained = fork(lambda: provenance_main(words), said)
    code = os.waitstatus_to_exitcode(os.waitpid(drained, 0)[1])
    if code:
        outcome.ended.append((code, said.read_text()[-2_000:]))
    return check(settings, acknowledged, outcome)


def kill_anvil(settings: config.Settings) -> None:
    running = anvil.status(settings.chain_path)
    if running is not None:
        os.kill(running.pid, signal.SIGKILL)


def check(settings: config.Settings, acknowledged: Path, outcome: Outcome) -> Outcome:
    """By the independent checker: what was acknowledged, and all that the log holds."""
    log, reader = bootstrap.event_log(settings), bootstrap.chain(settings)[0]
    (identity,) = log.identities()
    held: dict[int, bytes] = {}
    while found := log.read(0, len(held), 1_000):  # the SQLite log skips no offset
        held.update({message.offset: message.value for message in found})
    log.close()
    rows = []
    for line in acknowledged.read_text().splitlines(keepends=True):
        if line.endswith("\n"):  # the last one may be cut by a kill
            offset, value = json.loads(line)
            rows.append(Acknowledged(identity, offset, value.encode()))
    journal = bootstrap.journal(settings)
    outcome.entries = len(journal.entries())
    journal.close()
    outcome.acknowledged = len(rows)
    outcome.batches = sum(reader.head(stream).seq for stream, _, _ in reader.openings())
    outcome.violations = check_ledger(reader, bootstrap.batch_store(settings), rows, held={identity: held})
    return outcome


def main() -> int:
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--kills", type=int, default=200)
    words.add_argument("--seed", type=int, default=int(time.time()))
    given = words.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / ".provenance"
        settings = config.Settings(folder)
        print(f"seed {given.seed}, {given.kills} kills", flush=True)
        bootstrap_chain.start_chain(settings)
        try:
            outcome = kill_many(folder, given.kills, given.seed, say=lambda line: print(line, flush=True))
        finally:
            anvil.stop(settings.chain_path)
    for code, said in outcome.ended:
        print(f"a batcher ended by itself with {code}: {said}")
    for violation in outcome.violations:
        print(f"VIOLATION {violation}")
    print(
        f"{outcome.kills} kills ({outcome.chain_kills} of the chain besides), {outcome.acknowledged} records"
        f" acknowledged, {outcome.batches} batches, {outcome.entries} entries left,"
        f" {len(outcome.violations)} violations"
    )
    return 1 if outcome.violations or outcome.ended or outcome.entries else 0


if __name__ == "__main__":
    sys.exit(main())
