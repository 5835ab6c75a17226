"""What a Kafka topic must be set to before records are entrusted to it, and what it is made with.

A topic's defaults are made for data that may be lost: records go after a week, a replica that lags may become
the leader, and whoever writes says what time it is. Each rule here names a loss that it prevents. A cluster
of one broker cannot keep three replicas; it is taken for development, and called that.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from provenance.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = [
    "MAX_MESSAGE_BYTES",
    "TopicFacts",
    "Violation",
    "check_topic",
    "creation_settings",
    "find_violations",
    "replicas_for",
]

MAX_MESSAGE_BYTES = 1 << 20  # of a whole batch as Kafka counts it: keys and headers included
REPLICAS = 3
MIN_IN_SYNC = 2


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """A topic as its cluster describes it.

    Attributes:
        topic: its name.
        brokers: how many brokers the cluster has.
        partitions: how many partitions the topic has.
        replicas: of the partition that has the fewest.
        settings: of the topic, defaults included.
        auto_create: ``auto.create.topics.enable`` of every broker, by its id.
    """

    topic: str
    brokers: int
    partitions: int
    replicas: int
    settings: Mapping[str, str] = field(repr=False)
    auto_create: Mapping[str, str]

    @property
    def is_development(self) -> bool:
        """Whether the cluster is one broker, which cannot keep a second copy of anything."""
        return self.brokers == 1


@dataclass(frozen=True, slots=True)
class Violation:
    """A setting that is not as it must be, why it must, and how to set it."""

    setting: str
    expected: str
    found: str
    why: str
    remedy: str


@dataclass(frozen=True, slots=True)
class _Rule:
    setting: str
    expected: str
    why: str
    holds: Callable[[str], bool]
    value: str  # what a topic is made with


def _exactly(setting: str, value: str, why: str) -> _Rule:
    return _Rule(setting, value, why, lambda found: found == value, value)


def _at_most(found: str, limit: int) -> bool:
    return found.isdigit() and 0 < int(found) <= limit


_RULES = (
    _exactly("cleanup.policy", "delete", "compaction removes records whose key comes again"),
    _exactly("retention.ms", "-1", "records would go before an audit, or even before they are anchored"),
    _exactly("retention.bytes", "-1", "records would go as soon as others come"),
    _exactly(
        "message.timestamp.type", "LogAppendTime", "a producer's clock would decide when records are deleted"
    ),
    _exactly(
        "unclean.leader.election.enable", "false", "a replica that lags would replace acknowledged records"
    ),
    _exactly("compression.type", "uncompressed", "a small message could hold a large one"),
    _Rule(
        "max.message.bytes",
        f"at most {MAX_MESSAGE_BYTES}",
        "a larger message fits into no batch",
        lambda found: _at_most(found, MAX_MESSAGE_BYTES),
        str(MAX_MESSAGE_BYTES),
    ),
)
_IN_SYNC = _Rule(
    "min.insync.replicas",
    f"at least {MIN_IN_SYNC}",
    "a record would be acknowledged that one broken disk loses",
    lambda found: found.isdigit() and int(found) >= MIN_IN_SYNC,
    str(MIN_IN_SYNC),
)


def replicas_for(brokers: int) -> int:
    """How many replicas a new topic gets.

    Raises:
        ConfigError: two brokers are neither development nor enough (``reason="brokers"``).
    """
    if brokers == 1:
        return 1
    if brokers < REPLICAS:
        raise ConfigError(
            f"the Kafka cluster has {brokers} brokers, expected 1 for development or at least {REPLICAS}",
            reason="brokers",
            remedy="Add a broker: with two, either one that fails stops all writing.",
        )
    return REPLICAS


def creation_settings(brokers: int) -> dict[str, str]:
    """What a new topic is set to on a cluster of so many brokers."""
    rules = _RULES if brokers == 1 else (*_RULES, _IN_SYNC)
    return {rule.setting: rule.value for rule in rules}


def find_violations(facts: TopicFacts) -> list[Violation]:
    """Every rule that the topic breaks; those about replicas are left out on a development broker."""
    alter = "kafka-configs.sh --alter --entity-type topics --entity-name " + facts.topic + " --add-config "
    rules = _RULES if facts.is_development else (*_RULES, _IN_SYNC)
    found = [
        Violation(rule.setting, rule.expected, value, rule.why, f"Run: {alter}{rule.setting}={rule.value}")
        for rule in rules
        if not rule.holds(value := facts.settings.get(rule.setting, "nothing"))
    ]
    if not facts.is_development and facts.replicas < REPLICAS:
        found.append(
            Violation(
                "replicas",
                f"at least {REPLICAS}",
                str(facts.replicas),
                "a record would be acknowledged that one broken disk loses",
                f"Raise them with kafka-reassign-partitions.sh, to {REPLICAS} for every partition.",
            )
        )
    for broker, value in sorted(facts.auto_create.items()):
        if value != "false":
            found.append(
                Violation(
                    f"auto.create.topics.enable of broker {broker}",
                    "false",
                    value,
                    "a deleted topic would come back by itself, empty, with none of these settings",
                    f"Set auto.create.topics.enable=false for broker {broker}, and restart it.",
                )
            )
    return found


def check_topic(facts: TopicFacts) -> None:
    """Refuse a topic that breaks a rule.

    Raises:
        ConfigError: each setting with what was expected, what was found, why, and what to do
            (``reason="topic-settings"``).
    """
    violations = find_violations(facts)
    if not violations:
        return
    told = "; ".join(f"{v.setting} is {v.found}, expected {v.expected} ({v.why})" for v in violations)
    kind = " on a development broker" if facts.is_development else ""
    raise ConfigError(
        f"topic {facts.topic}{kind}: {told}",
        reason="topic-settings",
        remedy=" ".join(violation.remedy for violation in violations),
    )
