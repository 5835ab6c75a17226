"""The topic is made as it must be, and one that is not is refused, on a real broker."""

from __future__ import annotations

import json
import secrets
from typing import TYPE_CHECKING

import pytest

from provenance import bootstrap_kafka
from provenance.cli import main
from provenance.config import Settings
from provenance.errors import ConfigError, UnavailableError

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kafka_world import Client

pytestmark = pytest.mark.service


@pytest.fixture
def settings(tmp_path: Path, bootstrap: str, client: Client) -> Settings:
    return Settings(
        tmp_path / ".provenance",
        log_bootstrap=bootstrap,
        log_topic=f"tests.{secrets.token_hex(6)}",
        log_client=client.name,
        log_partitions=2,
    )


def alter(settings: Settings, name: str, value: str) -> None:
    from kafka import KafkaAdminClient
    from kafka.admin import ConfigResource, ConfigResourceType

    admin = KafkaAdminClient(bootstrap_servers=settings.log_bootstrap)
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, settings.log_topic, {name: value})])
    admin.close()


def test_a_topic_is_made_once_and_found_sound(settings: Settings) -> None:
    with pytest.raises(ConfigError) as caught:
        bootstrap_kafka.check_topic(settings)
    assert caught.value.reason == "no-topic"
    facts, made = bootstrap_kafka.ensure_topic(settings)
    assert made
    assert (facts.partitions, facts.replicas, facts.is_development) == (2, 1, True)
    assert bootstrap_kafka.ensure_topic(settings) == (facts, False)
    assert bootstrap_kafka.check_topic(settings) == facts


@pytest.mark.parametrize(
    ("name", "value"),
    [("retention.ms", "86400000"), ("cleanup.policy", "compact"), ("compression.type", "producer")],
)
def test_a_topic_that_was_changed_is_refused(settings: Settings, name: str, value: str) -> None:
    bootstrap_kafka.ensure_topic(settings)
    alter(settings, name, value)
    for ask in (bootstrap_kafka.check_topic, bootstrap_kafka.ensure_topic):
        with pytest.raises(ConfigError, match=f"development broker: {name} is {value}") as caught:
            ask(settings)
        assert f"--add-config {name}=" in caught.value.remedy


def test_a_topic_of_kafkas_defaults_is_refused_for_defaults_too(settings: Settings, client: Client) -> None:
    client.topic(bootstrap_kafka.kafka_settings(settings)).create(1, 1, {})
    with pytest.raises(ConfigError, match=r"retention\.ms is 604800000") as caught:
        bootstrap_kafka.check_topic(settings)
    for name in ("message.timestamp.type", "compression.type", "max.message.bytes"):
        assert f"{name} is " in str(caught.value)


def test_no_broker_is_no_topic(settings: Settings, client: Client) -> None:
    from dataclasses import replace

    with pytest.raises(UnavailableError, match=r"127\.0\.0\.1:1"):
        bootstrap_kafka.check_topic(replace(settings, log_bootstrap="127.0.0.1:1"))


def test_the_command_makes_and_checks_it(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("bootstrap", "topic", "client"):
        monkeypatch.setenv(f"PROVENANCE_LOG_{name.upper()}", getattr(settings, f"log_{name}"))
    monkeypatch.setenv("PROVENANCE_FOLDER", str(settings.folder))
    assert main(["topic", "check"]) == 2
    assert "provenance topic create" in capsys.readouterr().err
    assert main(["topic", "create"]) == 0
    assert "for development" in capsys.readouterr().out
    assert main(["topic", "check", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["topic"], found["made"], found["development"]) == (settings.log_topic, False, True)
