"""SCRAM, TLS and TLS in both directions, on a real broker; who may not is told why, no password shows."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from provenance.core.topic_rules import creation_settings
from provenance.errors import ConfigError, ProvenanceError, UnavailableError
from tests.kafka_world import World, start_cluster_or_skip

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from provenance.adapters._kafka import KafkaSettings
    from provenance.testing.kafka_broker import KafkaCluster
    from tests.kafka_world import Client

pytestmark = pytest.mark.service


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    with start_cluster_or_skip(secure=True) as made:
        yield made


@pytest.fixture
def plain(cluster: KafkaCluster, client: Client) -> Iterator[KafkaSettings]:
    """Settings of a topic that is there, by the plain listener."""
    world = World(cluster.bootstrap, client)
    with world:
        yield replace(world.settings, answer_timeout=8.0, ack_timeout=8.0)


def secured(plain: KafkaSettings, cluster: KafkaCluster, listener: str, folder: Path) -> KafkaSettings:
    """The same by another listener, as someone who may."""
    password = folder / "password"
    password.write_text(f"{cluster.password}\n")
    issued = cluster.issue("client")
    changes = {
        "SCRAM": {"mechanism": "SCRAM-SHA-256", "user": cluster.user, "password_file": password},
        "TLS": {"tls": True, "ca_file": cluster.ca},
        "MUTUAL": {
            "tls": True,
            "ca_file": cluster.ca,
            "cert_file": issued.certificate,
            "key_file": issued.key,
        },
        "SCRAMTLS": {
            "mechanism": "SCRAM-SHA-512",
            "user": cluster.user,
            "password_file": password,
            "tls": True,
            "ca_file": cluster.ca,
        },
    }[listener]
    return replace(plain, bootstrap=cluster.bootstrap_of(listener), **changes)


@pytest.mark.parametrize("listener", ["SCRAM", "TLS", "MUTUAL", "SCRAMTLS"])
def test_who_may_writes_and_reads(
    cluster: KafkaCluster,
    plain: KafkaSettings,
    client: Client,
    listener: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings = secured(plain, cluster, listener, tmp_path)
    log = client.log(settings)
    with caplog.at_level(logging.DEBUG):
        ((partition, offset),) = log.append([(b"k", b"over " + listener.encode())])
        (message,) = log.read(partition, offset, 1)
        facts = client.topic(settings).facts()
        log.close()
    assert message.value == b"over " + listener.encode()
    assert facts is not None
    assert set(creation_settings(1).items()) <= set(facts.settings.items())
    assert cluster.password not in caplog.text


@pytest.mark.parametrize(
    ("listener", "changes", "kind", "told"),
    [
        ("TLS", {"ca_file": None}, ConfigError, "certificate verify failed"),
        ("TLS", {"tls": False, "ca_file": None}, UnavailableError, "as if it expected TLS"),
        ("MUTUAL", {"cert_file": None, "key_file": None}, ConfigError, "bad certificate"),
        ("SCRAM", {"tls": True}, ConfigError, "TLS does not come about"),
        ("SCRAM", {"user": "stranger"}, UnavailableError, "stranger"),
    ],
)
def test_who_may_not_is_told_why(
    cluster: KafkaCluster,
    plain: KafkaSettings,
    client: Client,
    listener: str,
    changes: dict[str, object],
    kind: type[ProvenanceError],
    told: str,
    tmp_path: Path,
) -> None:
    settings = replace(
        secured(plain, cluster, listener, tmp_path),
        answer_timeout=10.0,  # a busy machine takes its time
        **changes,  # type: ignore[arg-type]
    )
    log = client.log(settings)
    with pytest.raises(kind, match=told) as caught:
        log.identities()
    assert caught.value.remedy
    assert cluster.password not in "".join([str(caught.value), repr(caught.value.__cause__)])
    log.close()


def test_a_wrong_password_is_told_and_not_shown(
    cluster: KafkaCluster,
    plain: KafkaSettings,
    client: Client,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings = secured(plain, cluster, "SCRAM", tmp_path)
    (tmp_path / "password").write_text("not the password\n")
    log = client.log(replace(settings, answer_timeout=3.0))
    with caplog.at_level(logging.DEBUG), pytest.raises(UnavailableError, match=cluster.user) as caught:
        log.identities()
    assert "not the password" not in caplog.text + str(caught.value)
    log.close()
