"""What `mutmut run` came to, module by module: ``python scripts/mutation_report.py [MINIMUM]``.

Only a failing test counts as a kill. A mutant that was ended at its time limit has a column of its own, since
a busy machine ends tests as an endless loop does. Exits 1 where a group of modules kills less than the
minimum (90 %), or where mutants were not tried to the end.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

MUTANTS = Path(__file__).parents[1] / "mutants" / "provenance" / "core"
TABLE1 = ("tables", "sections", "rows", "lists", "floats", "hashes")
GROUPS = {
    "merkle": ["merkle"],
    "records": ["records", "canonical"],
    "batches": ["batches"],
    "table1": [f"digests/{name}" for name in TABLE1],
}
# How mutmut writes down what became of the tests: pytest's exit codes, signals, and its own.
FATES = {
    1: "killed",
    0: "survived",
    5: "survived",  # no test was collected
    33: "survived",  # no test reaches it
    36: "ended",
    24: "ended",  # SIGXCPU, as a signal or as an exit code
    -24: "ended",
    152: "ended",
    255: "ended",
}


def fates(modules: list[str]) -> Counter[str]:
    """How many mutants were killed, survived, were ended, or have no result (``untried``)."""
    found: Counter[str] = Counter()
    for module in modules:
        path = MUTANTS / f"{module}.py.meta"
        try:
            codes = json.loads(path.read_text(encoding="utf-8"))["exit_code_by_key"].values()
        except FileNotFoundError:
            sys.exit(f"{path}: not there; run `make mutation`, which makes it")
        found.update(FATES.get(code, "untried") for code in codes)
    return found


def main(minimum: float) -> int:
    """Print the table."""
    good = True
    columns = ("killed", "survived", "ended", "untried")
    print(f"{'':10} {'mutants':>8} " + " ".join(f"{name:>8}" for name in columns) + f" {'share':>7}")
    for name, modules in GROUPS.items():
        found = fates(modules)
        share = 100 * found["killed"] / max(found.total(), 1)
        good = good and share >= minimum and not found["untried"]
        counts = " ".join(f"{found[column]:8,}" for column in columns)
        print(f"{name:10} {found.total():8,} {counts} {share:6.1f} %")
    if not good:
        print(f"expected at least {minimum:g} % of each killed, and none untried", file=sys.stderr)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else 90.0))
