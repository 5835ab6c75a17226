"""A first look at the brokers, before a library is let loose on them.

Both libraries try for ever, or for a while, and then only say that they could not connect. One connection by
hand tells a closed port from a server that is no Kafka, from a certificate that nobody signed and from one
that is missing.
"""

from __future__ import annotations

import socket
import ssl
import struct
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from provenance.adapters._kafka.settings import KafkaSettings

__all__ = ["probe"]

# ApiVersions, version 0, without a client id (KIP-35); brokers answer it before anybody is authenticated.
_QUESTION = struct.pack(">ihhih", 10, 18, 0, 1, -1)
_ANSWER = struct.Struct(">iih")
_LONGEST = 1 << 20


def probe(settings: KafkaSettings) -> None:
    """Ask one broker after another which versions it speaks, until one answers.

    Raises:
        UnavailableError: none answers; the message says what each of them did.
        ConfigError: one answers, and TLS does not come about.
    """
    context = settings.tls_context() if settings.tls else None
    deadline = time.monotonic() + settings.answer_timeout
    told: list[str] = []
    failures: list[OSError] = []
    for place in settings.bootstrap.split(","):
        host, _, port = place.rpartition(":")
        left = max(1.0, deadline - time.monotonic())
        try:
            with socket.create_connection((host.strip("[]"), int(port)), left) as plain:
                if context is None:
                    _ask(plain)
                else:
                    with context.wrap_socket(plain, server_hostname=host.strip("[]")) as encrypted:
                        _ask(encrypted)
            return
        except OSError as error:
            failures.append(error)
            told.append(f"{place}: {error}")
    if any(isinstance(error, ssl.SSLError) for error in failures):
        raise settings.refused("TLS does not come about", "; ".join(told))
    raise settings.unreachable("connecting", "; ".join(told))


def _ask(connection: socket.socket) -> None:
    connection.sendall(_QUESTION)
    received = b""
    while len(received) < _ANSWER.size:
        part = connection.recv(4096)
        if not part:
            raise ConnectionError("it ends the connection without an answer, as if it expected TLS")
        received += part
    length, correlation, _ = _ANSWER.unpack_from(received)
    if correlation != 1 or not 6 <= length <= _LONGEST:
        raise ConnectionError("what answers is no Kafka broker without TLS")
