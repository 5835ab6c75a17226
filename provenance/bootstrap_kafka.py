"""Joins Kafka, as `provenance.bootstrap` joins the rest: the log, its topic, and marks for lag monitors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from provenance.errors import ConfigError

if TYPE_CHECKING:
    from types import ModuleType

    from provenance.adapters._kafka import KafkaSettings
    from provenance.adapters.kafka import KafkaLog
    from provenance.adapters.kafka_confluent import ConfluentLog
    from provenance.config import Settings
    from provenance.core.topic_rules import TopicFacts
    from provenance.ports import OffsetMarks, TopicAdmin

__all__ = ["check_topic", "ensure_topic", "event_log", "kafka_settings", "offset_marks"]

_EXTRAS = {"kafka-python": "kafka", "confluent-kafka": "confluent"}


def kafka_settings(settings: Settings) -> KafkaSettings:
    """What the settings say about Kafka.

    Raises:
        ConfigError: they name no broker, or contradict each other.
    """
    from provenance.adapters._kafka import KafkaSettings

    if not settings.log_bootstrap:
        raise ConfigError(
            "log.bootstrap is empty: the log is the embedded one, not in Kafka",
            reason="no-kafka",
            remedy="Name a broker, as host:port, in [log] of provenance.toml.",
        )
    return KafkaSettings(
        bootstrap=settings.log_bootstrap,
        topic=settings.log_topic,
        tls=settings.log_tls == "on",
        mechanism="" if settings.log_sasl_mechanism == "none" else settings.log_sasl_mechanism,
        user=settings.log_sasl_user,
        password_file=settings.path(settings.log_sasl_password_file),
        ca_file=settings.path(settings.log_tls_ca_file),
        cert_file=settings.path(settings.log_tls_cert_file),
        key_file=settings.path(settings.log_tls_key_file),
        ack_timeout=settings.log_ack_timeout,
        in_flight_limit=settings.log_in_flight_limit,
    )


def event_log(settings: Settings) -> KafkaLog | ConfluentLog:
    """The log in Kafka, by the client that the settings choose; nothing is connected yet."""
    log: KafkaLog | ConfluentLog = _made(settings, "KafkaLog", "ConfluentLog")
    return log


def offset_marks(settings: Settings) -> OffsetMarks:
    """Where the batcher leaves its offsets for lag monitors."""
    marks: OffsetMarks = _made(settings, "KafkaMarks", "ConfluentMarks")
    return marks


def ensure_topic(settings: Settings) -> tuple[TopicFacts, bool]:
    """Make the log's topic if it is not there, and check it.

    Returns:
        The topic, and whether this call made it.

    Raises:
        ConfigError: it breaks a rule (``reason="topic-settings"``), or the cluster is too small.
        UnavailableError: no broker answers.
    """
    from provenance.services import topics

    return topics.ensure_topic(_admin(settings), partitions=settings.log_partitions)


def check_topic(settings: Settings) -> TopicFacts:
    """The log's topic, if it keeps every rule; errors as `ensure_topic`, and ``no-topic``."""
    from provenance.services import topics

    return topics.check_topic(_admin(settings))


def _admin(settings: Settings) -> TopicAdmin:
    admin: TopicAdmin = _made(settings, "KafkaTopic", "ConfluentTopic")
    return admin


def _made(settings: Settings, name: str, confluent_name: str) -> Any:
    chosen = kafka_settings(settings)
    is_confluent = settings.log_client == "confluent-kafka"
    return getattr(_adapter(settings.log_client), confluent_name if is_confluent else name)(chosen)


def _adapter(client: str) -> ModuleType:
    try:
        if client == "confluent-kafka":
            from provenance.adapters import kafka_confluent

            return kafka_confluent
        from provenance.adapters import kafka

        return kafka
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"log.client is {client}, and the Python package {error.name} is missing",
            reason="extra-missing",
            remedy=f"Run: pip install 'provenance-ledger[{_EXTRAS[client]}]'",
        ) from error
