"""Where the log is and how to get there, and the words of what goes wrong on the way.

Secrets are read from files when a client is made, and kept in `Secret`, which shows itself to nobody: one of
the libraries writes its whole configuration into its debug log.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

from provenance.errors import ConfigError, MalformedError, UnavailableError

__all__ = ["KafkaSettings", "Secret"]

_SECRET_LIMIT = 4096


class Secret(str):
    """A text that no representation shows."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Nothing of it."""
        return "'…'"


@dataclass(frozen=True, slots=True)
class KafkaSettings:
    """Where the log is, and how to get there; plain values, which another process may be given.

    Attributes:
        bootstrap: ``host:port`` of one broker or several, with commas between.
        topic: the topic's name.
        tls: whether connections are encrypted, and brokers known by their certificate.
        mechanism: of SASL: ``"SCRAM-SHA-256"``, ``"SCRAM-SHA-512"`` or ``"PLAIN"``; empty for none.
        user: for SASL.
        password_file: holds the password.
        ca_file: certificates of authorities, PEM; the system's if None.
        cert_file: our certificate, PEM, where brokers ask for one.
        key_file: its private key, PEM.
        ack_timeout: how long an append waits for its acknowledgement, in seconds.
        in_flight_limit: bytes sent and not acknowledged; an append waits while there are more.
        answer_timeout: how long any other answer is waited for, in seconds.
    """

    bootstrap: str
    topic: str
    tls: bool = False
    mechanism: str = ""
    user: str = ""
    password_file: Path | None = None
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    ack_timeout: float = 10.0
    in_flight_limit: int = 32 << 20
    answer_timeout: float = 15.0

    def __post_init__(self) -> None:
        if self.mechanism == "PLAIN" and not self.tls:
            raise ConfigError(
                "log.sasl_mechanism is PLAIN, which sends the password as it stands, and log.tls is off",
                reason="open-password",
                remedy="Set log.tls to on, or take SCRAM-SHA-512.",
            )
        if self.mechanism and (not self.user or self.password_file is None):
            missing = "log.sasl_password_file" if self.user else "log.sasl_user"
            raise ConfigError(f"log.sasl_mechanism needs {missing} too", reason="sasl-incomplete")
        if (self.cert_file is None) != (self.key_file is None):
            raise ConfigError(
                "log.tls_cert_file and log.tls_key_file belong together", reason="tls-incomplete"
            )
        if not self.tls and (self.ca_file or self.cert_file):
            raise ConfigError("log.tls_… names certificates, but log.tls is off", reason="tls-off")

    @property
    def protocol(self) -> str:
        """Kafka's name for the kind of connection."""
        encrypted = "SSL" if self.tls else "PLAINTEXT"
        return f"SASL_{encrypted}" if self.mechanism else encrypted

    def password(self) -> Secret:
        """What the password's file holds, without the end of its line.

        Raises:
            ConfigError: the file cannot be read, is empty or too long.
        """
        path = self.password_file or Path()
        try:
            with path.open("rb") as stream:  # secrets are often mounted as symbolic links: these are followed
                data = stream.read(_SECRET_LIMIT + 1)
            text = data.decode("utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise ConfigError(
                f"log.sasl_password_file {path}: {why}", reason="password-file"
            ) from None  # the bytes themselves would stand in the other error
        if not text or len(data) > _SECRET_LIMIT:
            raise ConfigError(
                f"log.sasl_password_file {path}: {len(data)} bytes, expected 1 to {_SECRET_LIMIT}",
                reason="password-file",
            )
        return Secret(text)

    def tls_context(self) -> ssl.SSLContext:
        """How Python's own TLS connects.

        Raises:
            ConfigError: a certificate or key cannot be read, or they do not belong together.
        """
        names = ("ca_file", "cert_file", "key_file")
        for name, path in zip(names, (self.ca_file, self.cert_file, self.key_file), strict=True):
            try:
                if path is not None:
                    path.open("rb").close()
            except OSError as error:
                raise ConfigError(f"log.tls_{name} {path}: {error.strerror}", reason="tls-file") from error
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            if self.cert_file is not None:
                context.load_cert_chain(self.cert_file, self.key_file)
        except (OSError, ValueError) as error:  # an SSLError is an OSError
            raise ConfigError(
                f"log.tls_…: the certificates cannot be used: {error}",
                reason="tls-file",
                remedy="Give certificates and an unencrypted key as PEM files that belong together.",
            ) from error
        return context

    def unreachable(self, doing: str, why: object) -> UnavailableError:
        """Nobody answers, or not in time."""
        return UnavailableError(
            f"Kafka at {self.bootstrap}: {doing}: {why}",
            reason="kafka-unreachable",
            remedy="Check that its brokers run and that log.bootstrap names them, then try again.",
        )

    def silent(self, doing: str) -> UnavailableError:
        """An answer did not come in time."""
        why = f"no answer within {self.answer_timeout:g} seconds"
        if self.mechanism:
            why += f", or {self.user} is not let in by {self.mechanism}"
        return self.unreachable(doing, why)

    def not_let_in(self) -> UnavailableError:
        """A broker answers, and ends the connection when we authenticate; kafka-python does not tell why."""
        return UnavailableError(
            f"Kafka at {self.bootstrap}: no broker lets {self.user} in by {self.mechanism}",
            reason="kafka-refused",
            remedy="Check log.sasl_user, log.sasl_password_file, and that the brokers know this user.",
        )

    def refused(self, doing: str, why: object) -> ConfigError:
        """The brokers answer, and do not let us."""
        return ConfigError(
            f"Kafka at {self.bootstrap}: {doing}: {why}",
            reason="kafka-refused",
            remedy="Check log.tls, log.sasl_… and what the brokers allow this user to do.",
        )

    def no_topic(self) -> ConfigError:
        """The topic is not there."""
        return ConfigError(
            f"Kafka at {self.bootstrap} has no topic {self.topic}",
            reason="no-topic",
            remedy="If it never was there, make it: provenance topic create. If it was, records are lost with"
            " it: see docs/how-to/use-kafka.md.",
        )

    def no_partition(self, partition: int, count: int) -> ConfigError:
        """The topic has no such partition."""
        return ConfigError(
            f"partition {partition}: topic {self.topic} has {count}, numbered from 0", reason="no-partition"
        )

    def not_acknowledged(self, count: int, why: str) -> UnavailableError:
        """An append was not acknowledged in time."""
        return UnavailableError(
            f"Kafka at {self.bootstrap} did not acknowledge {count} records for {self.topic}: {why}",
            reason="not-acknowledged",
            remedy="Append the same bytes again when Kafka answers; a repeat is harmless.",
        )

    def unreadable(self, partition: int, offset: int, why: object, *, codec: bool) -> MalformedError:
        """A batch of messages that cannot be read: its checksum is wrong, or its codec is unknown."""
        remedy = (
            "Install what the codec needs (pip install zstandard, lz4, python-snappy), and set the topic's"
            " compression.type=uncompressed."
            if codec
            else "Compare the replicas of this partition (kafka-dump-log.sh --deep-iteration), and let a"
            " healthy one lead."
        )
        return MalformedError(
            f"{self.topic}/{partition}: what stands at offset {offset} cannot be read: {why}",
            reason="log-codec" if codec else "log-corrupt",
            remedy=remedy,
        )
