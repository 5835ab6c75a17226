"""Real speech to work on: the voice prompts that Debian ships for Asterisk, fetched when they are wanted.

Some 2,800 short recordings of four people, free to use if they are credited. They are never part of this
repository: apt fetches the packages and checks them, ``dpkg-deb`` unpacks them into a cache, nothing is
installed. Where that is impossible a set is synthesised, and whoever asks is told which of the two it got.
"""

from __future__ import annotations

import csv
import io
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline import synthetic
from pipeline.unusable import show_name
from provenance.errors import ConfigError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["DEBIAN_VOICES", "Source", "Voice", "credits_text", "obtain"]


@dataclass(frozen=True, slots=True)
class Voice:
    """One folder of Debian's prompts.

    The language of its package, the person who speaks, and on what terms.
    """

    folder: str
    language: str
    speaker: str
    licence: str
    credit: str


# From the packages' own copyright file (version 1.6.1-1), which is copied beside the recordings. Who lends
# the Russian voice is not said there, so the label is the name of the voice.
DEBIAN_VOICES = (
    Voice(
        "en_US_f_Allison",
        "en",
        "Allison Smith",
        "CC-BY-SA-3.0",
        "recorded by Allison Smith (theivrvoice.com), 2003-2010; financial contributions by Digium, Inc.",
    ),
    Voice(
        "es_MX_f_Allison",
        "es",
        "Allison Smith",
        "CC-BY-SA-3.0",
        "recorded by Allison Smith (theivrvoice.com), 2003-2010; financial contributions by Digium, Inc.",
    ),
    Voice(
        "fr_CA_f_June",
        "fr",
        "June Wallack",
        "CC-BY-SA-3.0",
        "recorded by June Wallack (junewallack.com), 2006-2008; translated by Clod Patry, "
        "Kristopher Lalletti and June Wallack; financial contributions by Digium, Inc., Unlimitel and "
        "BGM Informatique",
    ),
    Voice(
        "it_IT_m_Carlo",
        "it",
        "Carlo Flora",
        "CC-BY-3.0",
        "recorded by Carlo Flora (carloflora.com), 2012; translated by Silvia Petrin",
    ),
    Voice(
        "ru_RU_f_IvrvoiceRU",
        "ru",
        "IvrvoiceRU",
        "CC-BY-3.0",
        "provided by Maxim Topal (ivrvoice.ru), 2010",
    ),
)

_FETCH_SECONDS = 90
# Where nothing answers, five packages give up in less than that.
_APT = (
    "-q",
    "-o",
    "Acquire::Retries=0",
    "-o",
    "Acquire::http::Timeout=10",
    "-o",
    "Acquire::https::Timeout=10",
)
_SOUNDS = Path("usr", "share", "asterisk", "sounds")
_ADDRESS = re.compile(r"\S+://\S+")


@dataclass(frozen=True, slots=True)
class Source:
    """Recordings to work on.

    Attributes:
        kind: ``debian``, ``folder`` or ``synthetic``.
        root: the folder; ``layouts.discover(root)`` reads it as it is.
        synthetic: whether nobody speaks in them.
        licence: an SPDX expression; empty if it is not known here.
        credits: whom to name, for people to read; empty if it is not known here.
        message: which source this is, and why not a better one.
    """

    kind: str
    root: Path
    synthetic: bool
    licence: str
    credits: str
    message: str


def obtain(target: Path, *, folder: Path | None = None, offline: bool = False) -> Source:
    """Find recordings: those in ``folder`` if it is given, else Debian's voice prompts, else synthetic ones.

    What was obtained before is used again. A fetch that was interrupted leaves nothing that the next one
    would take for whole.

    Args:
        target: where fetched or synthetic recordings are kept, each set in a folder of its own.
        folder: recordings that lie there already.
        offline: do not try to fetch.

    Raises:
        ConfigError: ``folder`` is none.
        UnavailableError: ``target`` cannot be written.
    """
    if folder is not None:
        if not folder.is_dir():
            raise ConfigError(
                f"{show_name(str(folder))} is no folder", remedy="give the folder that holds the recordings"
            )
        return Source("folder", folder, False, "", "", f"the recordings in {show_name(str(folder))}")
    try:
        target.mkdir(parents=True, exist_ok=True)
        return _debian(target, offline=offline)
    except UnavailableError as unavailable:
        reason = unavailable.message
    except OSError as error:
        raise _unwritable(target, error) from error
    return _synthetic(target, reason)


def credits_text(voices: Sequence[Voice] = DEBIAN_VOICES) -> str:
    """Whom to credit for Debian's voice prompts, a line for each folder."""
    lines = [
        "Voice prompts of Debian's packages asterisk-core-sounds-{en,es,fr,it,ru}-wav.",
        "The recordings are as packaged; features and models are computed from them.",
        "",
    ]
    lines += [f"  {voice.folder} ({voice.licence}): {voice.credit}" for voice in voices]
    lines += [
        "",
        "CC-BY-SA-3.0: creativecommons.org/licenses/by-sa/3.0/",
        "CC-BY-3.0: creativecommons.org/licenses/by/3.0/",
    ]
    return "\n".join(lines) + "\n"


def _debian(target: Path, *, offline: bool) -> Source:
    root = target / "debian-voices"
    if not root.is_dir():
        if offline:
            raise UnavailableError("no recordings were fetched before, and fetching is switched off")
        _fetch(root)
    licence = " AND ".join(sorted({voice.licence for voice in DEBIAN_VOICES}))
    message = "real recordings: the voice prompts of Debian's asterisk-core-sounds packages"
    return Source("debian", root, False, licence, credits_text(), message)


def _fetch(root: Path) -> None:
    """Fetch and unpack into a folder beside ``root``, which takes its place when it is whole."""
    for program in ("apt-get", "dpkg-deb"):
        if shutil.which(program) is None:
            raise UnavailableError(f"Debian's voice prompts cannot be fetched: there is no {program} here")
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=root.parent) as scratch:
        work = Path(scratch)
        _download(work, [f"asterisk-core-sounds-{voice.language}-wav" for voice in DEBIAN_VOICES])
        for package in sorted(work.glob("*.deb")):
            _run(["dpkg-deb", "-x", str(package.resolve()), str(work.resolve() / "x")], work)
        sounds = work / "x" / _SOUNDS
        missing = [voice.folder for voice in DEBIAN_VOICES if not (sounds / voice.folder).is_dir()]
        if missing:
            raise UnavailableError(f"Debian's packages hold no folder {missing[0]} any more")
        _describe(sounds, work / "x" / "usr" / "share" / "doc")
        sounds.rename(root)


def _download(work: Path, packages: Sequence[str]) -> None:
    """By the machine's package lists.

    If they are absent or old, by lists of our own, fetched without any privilege.
    """
    try:
        _run(["apt-get", *_APT, "download", *packages], work)
    except UnavailableError:
        own = work.resolve() / "apt"
        (own / "lists" / "partial").mkdir(parents=True)
        (own / "cache" / "archives" / "partial").mkdir(parents=True)
        options = [*_APT, "-o", f"Dir::State::Lists={own / 'lists'}", "-o", f"Dir::Cache={own / 'cache'}"]
        _run(["apt-get", *options, "update"], work)
        _run(["apt-get", *options, "download", *packages], work)


def _describe(sounds: Path, documents: Path) -> None:
    """Lay the speakers, the credits and the licences beside the recordings."""
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(["folder", "speaker"])
    writer.writerows([voice.folder, voice.speaker] for voice in DEBIAN_VOICES)
    (sounds / "speakers.csv").write_text(table.getvalue(), encoding="utf-8")
    (sounds / "CREDITS").write_text(credits_text(), encoding="utf-8")
    for copyright_file in sorted(documents.glob("*/copyright"))[:1]:
        shutil.copyfile(copyright_file, sounds / "COPYRIGHT")


def _run(command: Sequence[str], work: Path) -> None:
    try:
        done = subprocess.run(command, cwd=work, capture_output=True, timeout=_FETCH_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise UnavailableError(f"{command[0]} did not end within {_FETCH_SECONDS} s") from error
    if done.returncode:
        said = [line for line in done.stderr.decode("utf-8", "replace").splitlines() if line.startswith("E:")]
        # An address may carry the password of a proxy.
        why = (
            _ADDRESS.sub("(address)", said[-1][2:].strip())[:200] if said else f"exit code {done.returncode}"
        )
        raise UnavailableError(f"Debian's voice prompts cannot be fetched: {command[0]}: {why}")


def _synthetic(target: Path, reason: str) -> Source:
    root = target / synthetic.NAME
    try:
        if not root.is_dir():
            synthetic.write(root)
    except OSError as error:
        raise _unwritable(target, error) from error
    message = f"synthetic recordings, in which nobody speaks. {reason}"
    return Source("synthetic", root, True, "CC0-1.0", "Generated by this program.\n", message)


def _unwritable(target: Path, error: OSError) -> UnavailableError:
    return UnavailableError(
        f"{show_name(str(target))} cannot be written: {error.strerror}",
        remedy="free space or mend its permissions",
    )
