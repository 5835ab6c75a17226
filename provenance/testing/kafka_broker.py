"""A real Apache Kafka for tests and for people: one broker or several, each broker and controller (KRaft).

Every broker is a process of its own on free ports of this machine, with its data in a temporary folder. Each
can be ended, killed, frozen and started again by itself; leaving the ``with`` block ends them all. With
``secure=True`` there are listeners with SASL/SCRAM, with TLS, with TLS in both directions and with SCRAM over
TLS beside the plain one; certificates and passwords are drawn for each cluster.

``python -m provenance.testing.kafka_broker`` starts one broker and prints the settings that name it.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from base64 import urlsafe_b64encode
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from provenance.errors import UnavailableError
from provenance.testing.certificates import Authority
from provenance.testing.kafka_jars import find_jars, find_java

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from provenance.testing.certificates import Issued

__all__ = ["Broker", "KafkaCluster", "main"]

HOST = "127.0.0.1"
USER = "recorder"
PATIENCE = 90.0  # seconds for a broker to come up on a busy machine; idle, it takes under six
_PLAIN, _CONTROLLER = "PLAIN", "CONTROLLER"
_SECURE = {"SCRAM": "SASL_PLAINTEXT", "TLS": "SSL", "MUTUAL": "SSL", "SCRAMTLS": "SASL_SSL"}
_PROTOCOLS = {_PLAIN: "PLAINTEXT", _CONTROLLER: "PLAINTEXT", **_SECURE}
_OPTIONS = {
    "process.roles": "broker,controller",
    "inter.broker.listener.name": _PLAIN,
    "controller.listener.names": _CONTROLLER,
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "3000",  # a killed leader is replaced after so long
    "controlled.shutdown.enable": "true",
}
_JAVA = ("-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")


@dataclass(slots=True)
class Broker:
    """One broker: where it listens, and its process while it runs."""

    node: int
    folder: Path
    ports: Mapping[str, int]
    command: Sequence[str]
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def pid(self) -> int | None:
        """The id of the running process."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def launch(self) -> None:
        """Start the process, without waiting until it serves."""
        with (self.folder / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self.command, "kafka.Kafka", str(self.folder / "server.properties")],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for us: we end it in order
            )

    def start(self) -> None:
        """Start it, and wait until it takes connections.

        Raises:
            UnavailableError: it ended, or did not come up.
        """
        self.launch()
        self.wait()

    def wait(self) -> None:
        """Wait until it takes connections; errors as `start`."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline and self.pid is not None:
            with contextlib.suppress(OSError), socket.create_connection((HOST, self.ports[_PLAIN]), 1.0):
                return
            time.sleep(0.1)
        what = "does not take connections" if self.pid is not None else "ended"
        said = (self.folder / "broker.log").read_text(errors="replace")[-2000:]
        raise UnavailableError(f"Kafka broker {self.node} {what}: {said}", reason="broker-not-up")

    def stop(self) -> None:
        """End it in order; it hands its partitions over first."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it as a power cut would (SIGKILL)."""
        self._end(signal.SIGKILL)

    def freeze(self) -> None:
        """Let it answer nothing any more, with its connections open (SIGSTOP), until `thaw`."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on after `freeze`."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        if self.pid is not None:
            os.kill(self.pid, number)

    def _end(self, number: int) -> None:
        if self._process is None:
            return
        self._signal(number)
        self._signal(signal.SIGCONT)  # a frozen one would not see the signal
        try:
            self._process.wait(30.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None


class KafkaCluster:
    """A cluster, up within its ``with`` block.

    Args:
        brokers: how many, each of them a controller too. Topics of Kafka's own have a replica on each.
        secure: add the listeners ``SCRAM``, ``TLS``, ``MUTUAL`` and ``SCRAMTLS``.
        folder: for data, configuration and logs; a temporary one, removed at the end, if None.
        jars: Kafka's; as `find_jars` finds them if None.
        heap_mb: of each broker.
        options: further settings of every broker.

    Attributes:
        brokers: by their order; node ids begin with 1.
        user: the name that SCRAM takes.
        password: and the password.
    """

    def __init__(
        self,
        brokers: int = 1,
        *,
        secure: bool = False,
        folder: Path | None = None,
        jars: Path | None = None,
        heap_mb: int = 384,
        options: Mapping[str, str] | None = None,
    ) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="kafka-") if folder is None else None
        self._folder = Path(self._temporary.name) if self._temporary is not None else folder or Path()
        self._jars, self._count, self._heap_mb = jars, brokers, heap_mb
        self._options = dict(options or {})
        self.user, self.password = USER, secrets.token_urlsafe(12)
        self._authority = Authority(self._folder) if secure else None
        self._issued = self._authority.issue("broker") if self._authority else None
        self.brokers: list[Broker] = []

    @property
    def bootstrap(self) -> str:
        """``host:port`` of every broker's plain listener, with commas between."""
        return self.bootstrap_of(_PLAIN)

    def bootstrap_of(self, listener: str) -> str:
        """The same for another listener, e.g. ``"TLS"``."""
        return ",".join(f"{HOST}:{broker.ports[listener]}" for broker in self.brokers)

    @property
    def ca(self) -> Path:
        """The file of the authority that signed the brokers' certificate."""
        return self._require_authority().ca

    def issue(self, name: str) -> Issued:
        """A client's certificate."""
        return self._require_authority().issue(name)

    def start(self) -> None:
        """Lay out the data folders and start every broker.

        Raises:
            ConfigError: there is no Java, or no Maven to fetch Kafka with.
            UnavailableError: a broker does not come up.
        """
        jars, java = self._jars or find_jars(), find_java()
        command = [java, f"-Xmx{self._heap_mb}m", *_JAVA, "-cp", f"{jars}/*"]
        names = [_PLAIN, _CONTROLLER, *(_SECURE if self._authority else ())]
        ports = _free_ports(len(names) * self._count)
        cluster_id = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        for number in range(self._count):
            mine = dict(zip(names, ports[number * len(names) :], strict=False))
            broker = Broker(number + 1, self._folder / f"broker{number + 1}", mine, command)
            broker.folder.mkdir(parents=True, mode=0o700)
            self.brokers.append(broker)
        for broker in self.brokers:
            self._configure(broker)
            self._format(broker, cluster_id)
            broker.launch()
        for broker in self.brokers:
            broker.wait()

    def stop(self) -> None:
        """End every broker that still runs, and remove the temporary folder."""
        for broker in self.brokers:
            # What it holds is thrown away; only the last ones of several could not hand over any more.
            broker.kill()
        if self._temporary is not None:
            self._temporary.cleanup()

    def __enter__(self) -> KafkaCluster:
        """Start; what came up is ended again if not all of it does."""
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop."""
        self.stop()

    def _require_authority(self) -> Authority:
        if self._authority is None:
            raise ValueError("this cluster was made without secure=True")
        return self._authority

    def _configure(self, broker: Broker) -> None:
        replicas = min(3, self._count)
        voters = ",".join(f"{b.node}@{HOST}:{b.ports[_CONTROLLER]}" for b in self.brokers)
        listeners = {name: f"{name}://{HOST}:{port}" for name, port in broker.ports.items()}
        options = {
            **_OPTIONS,
            "node.id": str(broker.node),
            "controller.quorum.voters": voters,
            "listeners": ",".join(listeners.values()),
            "advertised.listeners": ",".join(text for name, text in listeners.items() if name != _CONTROLLER),
            "listener.security.protocol.map": ",".join(f"{n}:{_PROTOCOLS[n]}" for n in broker.ports),
            "log.dirs": str(broker.folder / "data"),
            "offsets.topic.replication.factor": str(replicas),
            "transaction.state.log.replication.factor": str(replicas),
            "transaction.state.log.min.isr": str(min(2, replicas)),
            **(self._security() if self._authority else {}),
            **self._options,
        }
        text = "".join(f"{name}={value}\n" for name, value in options.items())
        path = broker.folder / "server.properties"
        path.write_text(text, encoding="utf-8")

    def _security(self) -> dict[str, str]:
        issued = self._issued
        if issued is None:
            return {}
        scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(issued.both),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.ca),
            "listener.name.mutual.ssl.client.auth": "required",
            "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
            **{
                f"listener.name.{name}.scram-sha-{bits}.sasl.jaas.config": scram
                for name in ("scram", "scramtls")
                for bits in (256, 512)
            },
        }

    def _format(self, broker: Broker, cluster_id: str) -> None:
        arguments = ["kafka.tools.StorageTool", "format", "-t", cluster_id]
        arguments += ["-c", str(broker.folder / "server.properties")]
        if self._authority:
            for bits in (256, 512):
                arguments += [
                    "--add-scram",
                    f"SCRAM-SHA-{bits}=[name={self.user},password={self.password}]",
                ]
        done = subprocess.run([*broker.command, *arguments], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise UnavailableError(
                f"Kafka's storage cannot be laid out: {(done.stdout + done.stderr)[-2000:]}", reason="format"
            )


def _free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago, all different."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for held in sockets:
            held.bind((HOST, 0))
        return [int(held.getsockname()[1]) for held in sockets]


def main() -> int:
    """Run one broker until Ctrl-C or SIGTERM."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt), KafkaCluster() as cluster:
        sys.stdout.write(
            f"Kafka listens at {cluster.bootstrap}. Its data is in a temporary folder and goes with it.\n"
            "Put this into provenance.toml, beside .provenance:\n\n"
            f'[log]\nbootstrap = "{cluster.bootstrap}"\n\n'
            "Make the topic with: provenance topic create\nCtrl-C ends Kafka.\n"
        )
        sys.stdout.flush()
        while cluster.brokers[0].pid is not None:
            time.sleep(1.0)
        sys.stderr.write("Kafka ended by itself.\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
