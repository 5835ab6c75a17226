"""A topic that would lose records is refused, with what to do about each setting."""

from __future__ import annotations

from dataclasses import replace

import pytest

from provenance.core.topic_rules import (
    TopicFacts,
    check_topic,
    creation_settings,
    find_violations,
    replicas_for,
)
from provenance.errors import ConfigError

SOUND = TopicFacts(
    topic="records",
    brokers=3,
    partitions=2,
    replicas=3,
    settings=creation_settings(3),
    auto_create={"1": "false", "2": "false", "3": "false"},
)
# What Kafka 4.4 gives a topic that nobody set anything for.
DEFAULTS = {
    "cleanup.policy": "delete",
    "retention.ms": "604800000",
    "retention.bytes": "-1",
    "message.timestamp.type": "CreateTime",
    "unclean.leader.election.enable": "false",
    "compression.type": "producer",
    "max.message.bytes": "1048588",
    "min.insync.replicas": "1",
}


def with_setting(facts: TopicFacts, name: str, value: str) -> TopicFacts:
    return replace(facts, settings={**facts.settings, name: value})


def test_what_a_topic_is_made_with_keeps_every_rule() -> None:
    check_topic(SOUND)
    development = replace(
        SOUND, brokers=1, replicas=1, settings=creation_settings(1), auto_create={"1": "false"}
    )
    check_topic(development)
    assert development.is_development
    assert not SOUND.is_development


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("cleanup.policy", "compact"),
        ("cleanup.policy", "compact,delete"),
        ("retention.ms", "604800000"),
        ("retention.ms", "0"),
        ("retention.bytes", "1073741824"),
        ("message.timestamp.type", "CreateTime"),
        ("unclean.leader.election.enable", "true"),
        ("compression.type", "producer"),
        ("compression.type", "gzip"),
        ("max.message.bytes", "1048577"),
        ("max.message.bytes", "0"),
        ("max.message.bytes", "None"),
        ("min.insync.replicas", "1"),
        ("min.insync.replicas", "None"),
    ],
)
def test_a_setting_that_loses_records_is_named_with_its_remedy(setting: str, value: str) -> None:
    (violation,) = find_violations(with_setting(SOUND, setting, value))
    assert (violation.setting, violation.found) == (setting, value)
    assert violation.why
    assert f"--add-config {setting}={creation_settings(3)[setting]}" in violation.remedy
    with pytest.raises(ConfigError, match=f"{setting} is {value}, expected {violation.expected}") as caught:
        check_topic(with_setting(SOUND, setting, value))
    assert caught.value.reason == "topic-settings"
    assert caught.value.remedy == violation.remedy


def test_a_setting_that_the_cluster_does_not_tell_is_not_taken_for_granted() -> None:
    settings = dict(SOUND.settings)
    del settings["retention.ms"]
    assert [v.found for v in find_violations(replace(SOUND, settings=settings))] == ["nothing"]


def test_too_few_replicas_are_named() -> None:
    (violation,) = find_violations(replace(SOUND, replicas=2))
    assert (violation.setting, violation.expected, violation.found) == ("replicas", "at least 3", "2")


def test_a_broker_that_makes_topics_by_itself_is_named() -> None:
    facts = replace(SOUND, auto_create={"1": "false", "2": "true", "3": "None"})
    assert [(v.setting, v.found) for v in find_violations(facts)] == [
        ("auto.create.topics.enable of broker 2", "true"),
        ("auto.create.topics.enable of broker 3", "None"),
    ]


def test_every_default_that_loses_is_told_at_once() -> None:
    found = {violation.setting for violation in find_violations(replace(SOUND, settings=DEFAULTS))}
    assert found == {
        "retention.ms",
        "message.timestamp.type",
        "compression.type",
        "max.message.bytes",
        "min.insync.replicas",
    }


def test_a_development_broker_is_excepted_from_replicas_only_and_named_so() -> None:
    facts = replace(SOUND, brokers=1, replicas=1, settings=DEFAULTS, auto_create={"1": "true"})
    with pytest.raises(ConfigError, match="development broker") as caught:
        check_topic(facts)
    assert "retention.ms" in str(caught.value)
    assert "min.insync.replicas" not in str(caught.value)


@pytest.mark.parametrize(("brokers", "replicas"), [(1, 1), (3, 3), (7, 3)])
def test_a_new_topic_gets_three_replicas_where_there_are_brokers(brokers: int, replicas: int) -> None:
    assert replicas_for(brokers) == replicas


def test_two_brokers_are_refused() -> None:
    with pytest.raises(ConfigError, match="2 brokers, expected 1 for development or at least 3"):
        replicas_for(2)
