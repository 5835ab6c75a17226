"""Where Kafka's jars come from: Maven copies those that ``deploy/kafka/pom.xml`` names into the checkout."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

from provenance.errors import ConfigError, UnavailableError

__all__ = ["find_jars", "find_java"]

_CHECKOUT = Path(__file__).resolve().parents[2]
_MINIMUM_JAVA = 17


def find_java() -> str:
    """The path of a Java of version 17 or later.

    Raises:
        ConfigError: there is none.
    """
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin" if home else None) or shutil.which("java")
    version = _java_version(java) if java else 0
    if java is None or version < _MINIMUM_JAVA:
        found = f"Java {version} at {java}" if java else "no java on the path"
        raise ConfigError(
            f"Kafka needs Java {_MINIMUM_JAVA} or later, found {found}",
            reason="no-java",
            remedy="Install a Java runtime, e.g. the package openjdk-17-jre-headless, or set JAVA_HOME.",
        )
    return java


def _java_version(java: str) -> int:
    done = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    quoted = done.stderr.partition('"')[2].partition('"')[0]
    major = quoted.split(".")[0]
    return int(major) if major.isdigit() else 0


def find_jars(folder: Path | None = None, *, pom: Path | None = None) -> Path:
    """The folder of Kafka's jars; Maven fills it when it is not there yet (54 MB).

    Args:
        folder: of the jars; ``.tools/kafka`` in the checkout if None.
        pom: names the jars; ``deploy/kafka/pom.xml`` in the checkout if None.

    Raises:
        ConfigError: there is no Maven, or no checkout.
        UnavailableError: Maven cannot fetch them.
    """
    folder = folder or _CHECKOUT / ".tools" / "kafka"
    pom = pom or _CHECKOUT / "deploy" / "kafka" / "pom.xml"
    if not pom.is_file():
        raise ConfigError(
            f"{pom}: there is no such file; it names Kafka's jars",
            reason="no-checkout",
            remedy="Run this from a checkout of the repository.",
        )
    stamp, wanted = folder / "pom.xml", pom.read_bytes()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / "kafka.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several test processes may come here at once
        if not stamp.is_file() or stamp.read_bytes() != wanted:
            shutil.rmtree(folder, ignore_errors=True)
            _copy_jars(pom, folder)
            stamp.write_bytes(wanted)
    return folder


def _copy_jars(pom: Path, folder: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise ConfigError(
            "Kafka's jars come with Maven, and there is no mvn on the path",
            reason="no-maven",
            remedy="Install Maven, or name a running broker with KAFKA_BOOTSTRAP.",
        )
    command = [maven, "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"]
    done = subprocess.run(
        [*command, f"-DoutputDirectory={folder}"], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise UnavailableError(
            f"Maven could not fetch Kafka: {(done.stdout + done.stderr).strip()[-2000:]}",
            reason="maven",
            remedy="Check that Maven reaches its repository, then try again.",
        )
