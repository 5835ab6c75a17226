"""``provenance init``: the folder, its development keys, and a ``dataset.toml`` to fill in."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from provenance.cli._frame import emit, folder_option, json_option

if TYPE_CHECKING:
    from pathlib import Path

    from provenance.cli._frame import Json
    from provenance.core.descriptor import Descriptor

DESCRIPTOR = "dataset.toml"
UNKNOWN = "NOASSERTION"  # SPDX 2.3, 10.3: nobody has said

TEMPLATE = """\
# What this dataset is, and what may be done with it. A dataset record names this file by its SHA-256, and the
# file is kept with the records: write nothing here that must not be seen or kept. Reference:
# docs/reference/dataset.md

name = {name}
version = {version}
title = {title}
# An SPDX expression:
licence = {licence}
# Names of files stand in records as tokens, as keys (speakers) always do:
names_are_personal = {personal}

# [[rights_holders]]
# name = "Example Ltd"
# role = "producer"
# address = "https://example.org"

# [[sources]]
# title = "Studio recordings"
# address = "https://example.org/recordings"  # without user, password and query
# licence = "CC-BY-SA-3.0"
# collection = "read from a script"
# collected_from = 2020-01-01
# collected_until = 2020-12-31
# opt_outs = "none seen"

# [[consent]]
# document = "{digest}"  # sha256sum of the signed document
# scope = "recordings and features made from them"
# purpose = "training of speech models"
# territory = "EU"
# expires = 2035-12-31
"""


@click.command()
@click.option("--name", help="Name of the dataset.  [default: that of the directory]")
@click.option("--version", "version_", metavar="TEXT", help="Its version.  [default: 1]")
@click.option("--title", help="Its title.  [default: the name]")
@click.option("--licence", help=f"Its licence, an SPDX expression.  [default: {UNKNOWN}]")
@click.option(
    "--names-are-personal/--names-are-public",
    "personal",
    default=None,
    help="Whether file names may identify people.  [default: they may]",
)
@folder_option
@json_option
def command(
    name: str | None,
    version_: str | None,
    title: str | None,
    licence: str | None,
    personal: bool | None,
    folder: Path,
    as_json: bool,
) -> None:
    """Make a .provenance folder and a dataset.toml to fill in.

    The keys are for development: files of mode 0600 without a passphrase. What is there is kept and never
    written over; calling it again does no harm.

    \b
    Example:
      provenance init --name voices --licence CC-BY-SA-3.0
    """
    from provenance import bootstrap, config, files

    settings = config.load(folder)
    path = folder.parent / DESCRIPTOR
    given = {"name": name, "version": version_, "title": title, "licence": licence, "personal": personal}
    chosen = {key: value for key, value in given.items() if value is not None}
    descriptor, text = _existing(path, chosen) or _new(path, chosen)
    log = bootstrap.event_log(settings)
    log.identities()  # before anything is made: the log refuses a network file system
    log.close()
    made = [f"{settings.keys_path.name}/{key}" for key in bootstrap.prepare(settings)]
    if text is not None and files.create_file(path, text.encode()):
        made.append(DESCRIPTOR)
    result: dict[str, Json] = {
        "folder": str(folder),
        "descriptor": str(path),
        "dataset": descriptor.name,
        "made": [*made],
    }
    emit(result, as_json=as_json, render=lambda: _lines(folder, path, made, descriptor))


def _existing(path: Path, chosen: dict[str, str | bool]) -> tuple[Descriptor, None] | None:
    """The descriptor that is there; asking for another one is refused."""
    from provenance import files
    from provenance.core import descriptor
    from provenance.errors import ConfigError

    data = files.read_file(path, descriptor.MAX_BYTES)
    if data is None:
        return None
    if chosen:
        raise ConfigError(
            f"{path}: it is there, and is not written over",
            reason="exists",
            remedy="Edit it, or call provenance init without options about the dataset.",
        )
    return descriptor.decode_descriptor(data), None


def _new(path: Path, chosen: dict[str, str | bool]) -> tuple[Descriptor, str]:
    """A descriptor from the template, checked before anything is made."""
    from provenance.core.descriptor import decode_descriptor

    directory = path.parent.name
    name = chosen.get("name", directory if directory.isprintable() and directory.strip() else "dataset")
    fields = {
        "name": name,
        "version": chosen.get("version", "1"),
        "title": chosen.get("title", name),
        "licence": chosen.get("licence", UNKNOWN),
        "personal": chosen.get("personal", True),
    }
    # A JSON string is a TOML string: the same quotes and escapes.
    values = {key: json.dumps(value, ensure_ascii=False) for key, value in fields.items()}
    text = TEMPLATE.format(**values, digest="0" * 64)
    return decode_descriptor(text.encode("utf-8", "surrogatepass")), text


def _lines(folder: Path, path: Path, made: list[str], descriptor: Descriptor) -> list[str]:
    if not made:
        return [f"nothing to do: {folder} and {path} are there"]
    lines = [f"{folder}: log, batches and keys (for development: mode 0600, no passphrase)"]
    if DESCRIPTOR in made:
        lines += [f"{path}: made; fill it in"]
        if descriptor.licence == UNKNOWN:
            lines += ["  its licence is not given: nobody may rely on the data until it is"]
    else:
        lines += [f"{path}: kept"]
    return lines
