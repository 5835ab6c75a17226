"""How kafka-python is configured, made and taken down, and how its errors become ours."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from kafka import errors as foreign
from kafka.net.compat import KafkaNetClient

from provenance.adapters._kafka import MAX_AGE_MS, probe
from provenance.errors import MalformedError, ProvenanceError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeVar

    from provenance.adapters._kafka import KafkaSettings

    Client = TypeVar("Client")

__all__ = ["client_options", "make", "milliseconds", "translated"]

_REFUSALS = (
    foreign.AuthorizationError,
    foreign.SaslAuthenticationFailedError,
    foreign.UnsupportedSaslMechanismError,
    foreign.IllegalSaslStateError,
    foreign.SecurityDisabledError,
    foreign.PolicyViolationError,
)
_NO_TOPIC = (foreign.UnknownTopicOrPartitionError, foreign.UnknownTopicIdError)


def milliseconds(seconds: float) -> int:
    """A time as the library takes it."""
    return max(1, round(seconds * 1000))


def client_options(settings: KafkaSettings) -> dict[str, Any]:
    """What every kind of client is made with.

    Raises:
        ConfigError: the password's file or a certificate's cannot be read.
    """
    options: dict[str, Any] = {
        "bootstrap_servers": settings.bootstrap.split(","),
        "client_id": "provenance",
        "security_protocol": settings.protocol,
        "metadata_max_age_ms": MAX_AGE_MS,
        "request_timeout_ms": milliseconds(settings.answer_timeout),
        "bootstrap_timeout_ms": milliseconds(settings.answer_timeout),
        "reconnect_backoff_max_ms": 2_000,
    }
    if settings.tls:
        options["ssl_context"] = settings.tls_context()
    if settings.mechanism:
        options["sasl_mechanism"] = settings.mechanism
        options["sasl_plain_username"] = settings.user
        options["sasl_plain_password"] = settings.password()
    return options


def make(factory: Callable[..., Client], settings: KafkaSettings, **options: Any) -> Client:
    """A client that is connected; what it started before a failure is ended again.

    Raises:
        ConfigError: the brokers refuse us.
        UnavailableError: none can be reached.
    """
    probe(settings)
    started: list[Any] = []

    def network(**configuration: Any) -> Any:
        started.append(KafkaNetClient(**configuration))
        return started[-1]

    try:
        with translated(settings, "connecting"):
            return factory(**client_options(settings), **options, kafka_client=network)
    except ProvenanceError as error:
        for client in started:
            client.close()
            client._manager._net.stop()  # noqa: SLF001 - its thread has no other end when __init__ failed
        if settings.mechanism and isinstance(error, UnavailableError):
            raise settings.not_let_in() from error
        raise


@contextlib.contextmanager
def translated(settings: KafkaSettings, doing: str) -> Iterator[None]:
    """Let nothing of the library's out of the block."""
    try:
        yield
    except ProvenanceError:
        raise
    except foreign.KafkaError as error:
        raise translate(settings, doing, error) from error
    except OSError as error:
        raise settings.unreachable(doing, error) from error


def translate(settings: KafkaSettings, doing: str, error: Exception) -> ProvenanceError:
    """The error of ours that says the same."""
    why = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if isinstance(error, _REFUSALS):
        return settings.refused(doing, why)
    if isinstance(error, _NO_TOPIC):
        return settings.no_topic()
    if isinstance(error, foreign.KafkaProtocolError):
        return MalformedError(
            f"Kafka at {settings.bootstrap}: {doing}: an answer makes no sense: {why}",
            reason="kafka-answer",
            remedy="Check that a Kafka broker, and no other server, listens there.",
        )
    return settings.unreachable(doing, why)
