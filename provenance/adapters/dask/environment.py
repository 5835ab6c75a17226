"""Where a computation ran: interpreter, packages, linear algebra and processor facts, as one document.

A run names the set of the environments that its workers have, because the same transform gives other last
bits on another BLAS kernel or processor (`spec/records.md`, kind ``run``). What tells a machine or a user
apart (host names, addresses, paths) is not in it: two equal machines have one document.
"""

from __future__ import annotations

import functools
import importlib.metadata
import os
import platform
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provenance.core.runs import encode_environment, environment_name, environments_prefix

if TYPE_CHECKING:
    from provenance.core.canonical import JSONObject
    from provenance.ports import BatchStore

__all__ = ["describe_environment", "environment_id", "keep_environment"]

_MAX_PACKAGES = 1000
# What chooses among kernels and thread counts, and with them the order in which sums are taken.
_VARIABLES = (
    "BLIS_NUM_THREADS",
    "MKL_CBWR",
    "MKL_NUM_THREADS",
    "NPY_DISABLE_CPU_FEATURES",
    "NUMEXPR_NUM_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_CORETYPE",
    "OPENBLAS_NUM_THREADS",
    "PYTHONHASHSEED",
    "VECLIB_MAXIMUM_THREADS",
)
_CPUINFO = Path("/proc/cpuinfo")


def describe_environment() -> JSONObject:
    """The document of this process's environment; it fits into the limits of canonical JSON."""
    return {
        "interpreter": {
            "implementation": platform.python_implementation(),
            "version": platform.python_version(),
            "system": f"{platform.system()} {platform.machine()}",
            "libc": " ".join(platform.libc_ver()),
        },
        "packages": _packages(),
        "blas": _blas(),
        "cpu": _cpu(),
        "variables": {name: os.environ[name][:200] for name in _VARIABLES if name in os.environ},
    }


@functools.cache
def environment_id() -> bytes:
    """The id of this process's environment."""
    return encode_environment(describe_environment())[0]


def keep_environment(store: BatchStore, run: bytes, document: JSONObject) -> None:
    """Keep an environment that a run meets; its seal names those that its record does not."""
    environment, data = encode_environment(document)
    store.put(environment_name(environment), data)
    store.put(environments_prefix(run) + environment.hex(), b"")


def _packages() -> dict[str, str]:
    found: dict[str, str] = {}
    for distribution in importlib.metadata.distributions():
        name = distribution.metadata["Name"]
        if name:  # a broken installation has none
            found.setdefault(re.sub(r"[-_.]+", "-", name).lower(), str(distribution.version))
    # Canonical JSON has ASCII keys; the standard for names has no others (PyPA, "Name format").
    ascii_names = sorted(name for name in found if name.isascii())
    return {name: found[name] for name in ascii_names[:_MAX_PACKAGES]}


def _blas() -> dict[str, str]:
    import numpy as np

    config: Any = np.show_config(mode="dicts")
    blas = config.get("Build Dependencies", {}).get("blas", {})
    facts = {"name": str(blas.get("name", "")), "version": str(blas.get("version", ""))}
    return {**facts, **_kernels()}


def _kernels() -> dict[str, str]:
    """The kernels that BLAS chose for this processor, where `threadpoolctl` is there to tell."""
    try:
        from threadpoolctl import threadpool_info
    except ImportError:
        return {}
    found = [pool for pool in threadpool_info() if pool.get("user_api") == "blas"]
    return {
        "kernels": ", ".join(sorted({str(pool.get("architecture", "")) for pool in found})),
        "threads": ", ".join(sorted({str(pool.get("num_threads", "")) for pool in found})),
    }


def _cpu() -> dict[str, str]:
    facts = {"machine": platform.machine(), "byteorder": sys.byteorder}
    try:
        text = _CPUINFO.read_text(encoding="utf-8", errors="replace")
    except OSError:  # not Linux
        return {**facts, "model": platform.processor()}
    for name, key in (("model name", "model"), ("flags", "flags"), ("Features", "flags")):
        match = re.search(rf"^{name}\s*:\s*(.*)$", text, re.MULTILINE)
        if match:
            facts[key] = " ".join(sorted(match[1].split())) if key == "flags" else match[1].strip()
    return facts
