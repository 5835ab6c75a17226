"""``provenance topic``: the Kafka topic that holds the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from provenance.cli._frame import emit, folder_option, json_option
from provenance.cli._words import counted

if TYPE_CHECKING:
    from pathlib import Path

    from provenance.cli._frame import Json
    from provenance.core.topic_rules import TopicFacts


@click.group()
def command() -> None:
    """Make or check the Kafka topic that holds the log.

    A topic's defaults lose records: after a week, when a lagging replica takes over, when a key comes again.
    Neither command lets such a topic pass; each setting is named with what to do.

    \b
    Example:
      provenance topic create
    """


@command.command()
@folder_option
@json_option
def create(folder: Path, as_json: bool) -> None:
    """Make the topic of the settings, or check the one that is there.

    It gets three replicas, of which two must have each record, and as many partitions as log.partitions says.
    On a cluster of one broker it gets one replica, and is called a development topic.

    \b
    Example:
      provenance topic create
    """
    from provenance import bootstrap_kafka, config

    settings = config.load(folder)
    facts, made = bootstrap_kafka.ensure_topic(settings)
    emit(_result(facts, made=made), as_json=as_json, render=lambda: _lines(facts, made=made))


@command.command()
@folder_option
@json_option
def check(folder: Path, as_json: bool) -> None:
    """Check every setting of the topic that records depend on; nothing is changed.

    \b
    Example:
      provenance topic check --json
    """
    from provenance import bootstrap_kafka, config

    facts = bootstrap_kafka.check_topic(config.load(folder))
    emit(_result(facts, made=False), as_json=as_json, render=lambda: _lines(facts, made=False))


def _result(facts: TopicFacts, *, made: bool) -> dict[str, Json]:
    return {
        "topic": facts.topic,
        "made": made,
        "partitions": facts.partitions,
        "replicas": facts.replicas,
        "brokers": facts.brokers,
        "development": facts.is_development,
    }


def _lines(facts: TopicFacts, *, made: bool) -> list[str]:
    size = f"{counted(facts.partitions, 'partition')}, {counted(facts.replicas, 'replica')} each"
    lines = [f"topic {facts.topic}: {'made' if made else 'as it must be'} ({size})"]
    if facts.is_development:
        lines.append("one broker holds it all: for development, for one broken disk loses the log")
    return lines
