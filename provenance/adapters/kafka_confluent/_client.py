"""How confluent-kafka (librdkafka) is configured, and how its errors become ours."""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException

from provenance.adapters._kafka import MAX_AGE_MS, probe

if TYPE_CHECKING:
    from collections.abc import Iterator

    from provenance.adapters._kafka import KafkaSettings
    from provenance.errors import ProvenanceError

__all__ = ["client_options", "milliseconds", "translate", "translated"]

# librdkafka would write to standard error.
_log = logging.getLogger("provenance.kafka")
_log.addHandler(logging.NullHandler())

_REFUSALS = frozenset(
    {
        KafkaError._AUTHENTICATION,  # noqa: SLF001 - the library's own names for its errors
        KafkaError._SSL,  # noqa: SLF001
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
        KafkaError.SECURITY_DISABLED,
        KafkaError.INVALID_CONFIG,
        KafkaError.INVALID_PARTITIONS,
        KafkaError.INVALID_REPLICATION_FACTOR,
        KafkaError.POLICY_VIOLATION,
        KafkaError.TOPIC_EXCEPTION,
    }
)
_NO_TOPIC = frozenset(
    {
        KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001
        KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001
        KafkaError.UNKNOWN_TOPIC_OR_PART,
    }
)


def milliseconds(seconds: float) -> int:
    """A time as the library takes it."""
    return max(1, round(seconds * 1000))


def client_options(settings: KafkaSettings) -> dict[str, Any]:
    """What every kind of client is made with, once a broker has answered.

    Raises:
        ConfigError: the password's file or a certificate's cannot be read, or TLS does not come about.
        UnavailableError: no broker answers.
    """
    probe(settings)
    options: dict[str, Any] = {
        "bootstrap.servers": settings.bootstrap,
        "client.id": "provenance",
        "security.protocol": settings.protocol,
        "topic.metadata.refresh.interval.ms": MAX_AGE_MS,
        "metadata.max.age.ms": MAX_AGE_MS,
        "socket.timeout.ms": milliseconds(settings.answer_timeout),
        "reconnect.backoff.max.ms": 2_000,
        "allow.auto.create.topics": False,
        "logger": _log,
    }
    for name, path in (
        ("ssl.ca.location", settings.ca_file),
        ("ssl.certificate.location", settings.cert_file),
        ("ssl.key.location", settings.key_file),
    ):
        if path is not None:
            options[name] = str(path)
    if settings.mechanism:
        options["sasl.mechanism"] = settings.mechanism
        options["sasl.username"] = settings.user
        options["sasl.password"] = settings.password()
    return options


@contextlib.contextmanager
def translated(settings: KafkaSettings, doing: str) -> Iterator[None]:
    """Let nothing of the library's out of the block."""
    try:
        yield
    except KafkaException as error:
        raise translate(settings, doing, error.args[0]) from error
    except TimeoutError as error:
        raise settings.silent(doing) from error


def translate(settings: KafkaSettings, doing: str, error: KafkaError) -> ProvenanceError:
    """The error of ours that says the same."""
    why = f"{error.name()}: {error.str()}"
    if error.code() in _REFUSALS:
        return settings.refused(doing, why)
    if error.code() in _NO_TOPIC:
        return settings.no_topic()
    if error.code() == KafkaError._TIMED_OUT:  # noqa: SLF001 - as above; also where nobody let us in so far
        return settings.silent(doing)
    return settings.unreachable(doing, why)
