"""Settings of Kafka: what contradicts itself is refused, and a password shows nowhere."""

from __future__ import annotations

import logging
import pickle
import socket
import threading
import time
from pathlib import Path

import pytest

from provenance import bootstrap, bootstrap_kafka, config
from provenance.adapters._kafka import (
    MAX_KEY_BYTES,
    MAX_VALUE_BYTES,
    InFlight,
    KafkaSettings,
    Secret,
    check_read,
    check_records,
    probe,
)
from provenance.config import Settings
from provenance.errors import ConfigError, MalformedError, UnavailableError

WORD = "correct horse battery"


def settings(**changes: object) -> KafkaSettings:
    return KafkaSettings("broker:9092", "records", **changes)  # type: ignore[arg-type]


def test_a_secret_shows_itself_to_nobody(caplog: pytest.LogCaptureFixture) -> None:
    secret = Secret(WORD)
    assert secret == WORD
    with caplog.at_level(logging.DEBUG):
        logging.getLogger("x").debug("configuration: %s %r", {"sasl_plain_password": secret}, secret)
    assert WORD not in caplog.text
    assert WORD not in repr([secret])


def test_a_password_comes_from_a_file_without_the_end_of_its_line(tmp_path: Path) -> None:
    path = tmp_path / "password"
    path.write_text(f"{WORD}\r\n")
    (tmp_path / "mounted").symlink_to(path)  # as Kubernetes mounts secrets
    found = settings(mechanism="SCRAM-SHA-512", user="me", password_file=tmp_path / "mounted")
    assert found.password() == WORD
    assert WORD not in repr(found)
    assert pickle.loads(pickle.dumps(found)) == found


@pytest.mark.parametrize("content", [b"", b"\n", b"x" * 4097, b"\xff\xfe"])
def test_a_password_file_that_holds_none_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "password"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"log\.sasl_password_file") as caught:
        settings(mechanism="SCRAM-SHA-512", user="me", password_file=path).password()
    assert str(path) in str(caught.value)


def test_a_password_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        settings(mechanism="SCRAM-SHA-512", user="me", password_file=tmp_path / "no").password()


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"mechanism": "PLAIN", "user": "me", "password_file": Path("p")}, "log.tls is off"),
        ({"mechanism": "SCRAM-SHA-256"}, "log.sasl_user"),
        ({"mechanism": "SCRAM-SHA-256", "user": "me"}, "log.sasl_password_file"),
        ({"tls": True, "cert_file": Path("c")}, "log.tls_key_file"),
        ({"tls": True, "key_file": Path("k")}, "log.tls_cert_file"),
        ({"ca_file": Path("ca")}, "log.tls is off"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(changes: dict[str, object], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        settings(**changes)


@pytest.mark.parametrize(
    ("tls", "mechanism", "protocol"),
    [
        (False, "", "PLAINTEXT"),
        (True, "", "SSL"),
        (False, "SCRAM-SHA-256", "SASL_PLAINTEXT"),
        (True, "PLAIN", "SASL_SSL"),
    ],
)
def test_the_protocol_follows_from_the_settings(tls: bool, mechanism: str, protocol: str) -> None:
    assert settings(tls=tls, mechanism=mechanism, user="me", password_file=Path("p")).protocol == protocol


def test_certificates_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"log\.tls_ca_file"):
        settings(tls=True, ca_file=tmp_path / "no").tls_context()
    (tmp_path / "no").write_text("no certificate")
    with pytest.raises(ConfigError, match="certificates cannot be used"):
        settings(tls=True, ca_file=tmp_path / "no").tls_context()


def test_records_above_the_limits_are_refused_with_all_of_their_call() -> None:
    check_records([(b"k" * MAX_KEY_BYTES, b"v" * MAX_VALUE_BYTES)])
    for key, value, reason in (
        (b"k" * (MAX_KEY_BYTES + 1), b"", "key-length"),
        (b"", bytes(1 << 20), "value-length"),
    ):
        with pytest.raises(MalformedError) as caught:
            check_records([(b"k", b"v"), (key, value)])
        assert caught.value.reason == reason
    for start, limit in ((-1, 1), (0, 0)):
        with pytest.raises(ConfigError):
            check_read(start, limit)


def test_bytes_in_flight_are_bounded_and_one_large_append_may_still_go() -> None:
    bound = InFlight(100)
    assert bound.acquire(1000, time.monotonic())
    assert not bound.acquire(1, time.monotonic())
    bound.release(1000)
    assert bound.acquire(60, time.monotonic())
    assert not bound.acquire(60, time.monotonic())
    threading.Timer(0.01, bound.release, [60]).start()
    assert bound.acquire(60, time.monotonic() + 60)
    assert bound.size == 60


def test_a_server_that_is_no_kafka_is_told_from_a_closed_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def answer() -> None:
            connection, _ = server.accept()
            connection.recv(100)
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            connection.close()

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(UnavailableError, match="no Kafka broker"):
            probe(KafkaSettings(f"127.0.0.1:{port}", "t", answer_timeout=20.0))
        thread.join()
    with pytest.raises(UnavailableError, match=f"127.0.0.1:{port}: .*refused"):
        probe(KafkaSettings(f"127.0.0.1:{port}", "t"))


def test_the_program_joins_what_its_settings_say(tmp_path: Path) -> None:
    found = Settings(
        tmp_path,
        log_bootstrap="a:1,b:2",
        log_topic="x",
        log_tls="on",
        log_tls_ca_file="ca.pem",
        log_sasl_mechanism="SCRAM-SHA-512",
        log_sasl_user="me",
        log_sasl_password_file="/run/secrets/kafka",
        log_ack_timeout=3.0,
    )
    assert bootstrap_kafka.kafka_settings(found) == KafkaSettings(
        "a:1,b:2",
        "x",
        tls=True,
        mechanism="SCRAM-SHA-512",
        user="me",
        password_file=Path("/run/secrets/kafka"),
        ca_file=tmp_path / "ca.pem",
        ack_timeout=3.0,
    )
    assert type(bootstrap.event_log(found)).__name__ == "KafkaLog"
    with pytest.raises(ConfigError, match=r"log\.bootstrap is empty"):
        bootstrap_kafka.kafka_settings(Settings(tmp_path))


@pytest.mark.parametrize(
    "place", ["a:1", "kafka-1.example:9092,kafka-2.example:9092", "[::1]:9092,127.0.0.1:1", ""]
)
def test_places_of_brokers_are_hosts_and_ports(
    tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROVENANCE_LOG_BOOTSTRAP", place)
    assert config.load(tmp_path).log_bootstrap == place


@pytest.mark.parametrize("place", ["a", "a:1,", "user:pw@a:1", "PLAINTEXT://a:1", "a:1 b:2", "::1:9092"])
def test_anything_else_is_refused_and_not_shown(
    tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROVENANCE_LOG_BOOTSTRAP", place)
    with pytest.raises(ConfigError, match="host:port") as caught:
        config.load(tmp_path)
    assert "pw" not in str(caught.value)
