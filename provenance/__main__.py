"""``python -m provenance``: the command line, for where no script directory is on the path."""

from __future__ import annotations

import sys

from provenance.cli import main

if __name__ == "__main__":
    sys.exit(main())
