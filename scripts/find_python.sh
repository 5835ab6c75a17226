#!/bin/sh
# Print the first Python on the path that the lock file was made for: 3.11, 3.12 or 3.13, with venv and pip's bootstrap.
# Debian splits both off its package, and shims of version managers stand on the path without a Python behind them:
# so each candidate is run, not only looked up.
set -eu
for candidate in python3 python3.13 python3.12 python3.11; do
  found=$(command -v "$candidate") || continue
  if "$found" -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then
    echo "$found"
    exit 0
  fi
done
cat >&2 <<'END'
error: no Python 3.11, 3.12 or 3.13 with venv and ensurepip is on the path
  next: install one (Debian: apt-get install python3 python3-venv), or name it: make PYTHON=/path/to/python setup
END
exit 2
