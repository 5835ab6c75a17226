"""A real Kafka for the tests of this folder, and both clients under one name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.kafka_world import CLIENTS, Client, World, start_kafka_or_skip

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def bootstrap() -> Iterator[str]:
    """A broker that is already there (``KAFKA_BOOTSTRAP``), or one for this session."""
    with start_kafka_or_skip() as place:
        yield place


@pytest.fixture(params=CLIENTS, ids=lambda client: client.name)
def client(request: pytest.FixtureRequest) -> Client:
    """kafka-python, then confluent-kafka."""
    found: Client = request.param
    return found


@pytest.fixture
def world(bootstrap: str, client: Client) -> Iterator[World]:
    """A topic of this test's own on the broker, and logs upon it, closed at the end."""
    with World(bootstrap, client) as made:
        yield made
