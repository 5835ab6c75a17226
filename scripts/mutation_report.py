"""What `mutmut run` came to, module by module: ``python scripts/mutation_report.py [MINIMUM]``.

A mutant is killed when a test fails under it, or runs for so long or takes so much that it is ended. Exits 1
where a group of modules kills less than the minimum (90 %), or where mutants were not tried.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

MUTANTS = Path(__file__).parents[1] / "mutants" / "provenance" / "core"
TABLE1 = ("tables", "sections", "rows", "lists", "floats", "hashes")
GROUPS = {
    "merkle": ["merkle"],
    "records": ["records", "canonical"],
    "batches": ["batches"],
    "table1": [f"digests/{name}" for name in TABLE1],
}
SURVIVED, NO_TESTS = 0, 33


def outcomes(modules: list[str]) -> list[int | None]:
    """The exit codes of the tests under each mutant; None where it was not tried."""
    found: list[int | None] = []
    for module in modules:
        path = MUTANTS / f"{module}.py.meta"
        found += json.loads(path.read_text(encoding="utf-8"))["exit_code_by_key"].values()
    return found


def main(minimum: float) -> int:
    """Print the table."""
    good = True
    print(f"{'':10} {'mutants':>8} {'killed':>8} {'survived':>9} {'share':>7}")
    for name, modules in GROUPS.items():
        codes = outcomes(modules)
        killed = sum(code not in {SURVIVED, NO_TESTS, None} for code in codes)
        share = 100 * killed / len(codes)
        good = good and share >= minimum and None not in codes
        print(f"{name:10} {len(codes):8,} {killed:8,} {len(codes) - killed:9,} {share:6.1f} %")
    if not good:
        print(f"expected at least {minimum:g} % of each, and every mutant tried", file=sys.stderr)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else 90.0))
