"""Making the log's topic, and refusing one that would lose records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from provenance.core.topic_rules import check_topic as check_facts
from provenance.core.topic_rules import creation_settings, replicas_for
from provenance.errors import ConfigError, UnavailableError

if TYPE_CHECKING:
    from provenance.core.topic_rules import TopicFacts
    from provenance.ports import TopicAdmin

__all__ = ["check_topic", "ensure_topic"]


def ensure_topic(admin: TopicAdmin, *, partitions: int) -> tuple[TopicFacts, bool]:
    """Make the topic if it is not there, and check it either way.

    Args:
        admin: of the cluster.
        partitions: how many a new topic gets; one that is there keeps its own.

    Returns:
        The topic, and whether this call made it.

    Raises:
        ConfigError: it breaks a rule (``reason="topic-settings"``), or the cluster is too small for one.
        UnavailableError: no broker answers, or the topic does not come.
    """
    facts = admin.facts()
    made = facts is None
    if facts is None:
        brokers = admin.brokers()
        admin.create(partitions, replicas_for(brokers), creation_settings(brokers))
        facts = admin.facts()
    if facts is None:
        raise UnavailableError("the topic was made, and no broker describes it yet", reason="topic-pending")
    check_facts(facts)
    return facts, made


def check_topic(admin: TopicAdmin) -> TopicFacts:
    """The topic, if it keeps every rule.

    Raises:
        ConfigError: there is none (``reason="no-topic"``), or it breaks a rule (``reason="topic-settings"``).
        UnavailableError: no broker answers.
    """
    facts = admin.facts()
    if facts is None:
        raise ConfigError(
            "the Kafka cluster has no such topic",
            reason="no-topic",
            remedy="Make it: provenance topic create.",
        )
    check_facts(facts)
    return facts
