"""What the adapters over Kafka have in common: settings, limits, the words of errors. It is no adapter.

Neither client library is known here; both adapters hold to what stands here, and nothing else connects them.
"""

from __future__ import annotations

from provenance.adapters._kafka.first_look import probe
from provenance.adapters._kafka.limits import (
    AUTO_CREATE,
    FETCH_BYTES,
    GROUP,
    MAX_AGE_MS,
    MAX_KEY_BYTES,
    MAX_READ_BYTES,
    MAX_TIMEOUT_MS,
    MAX_VALUE_BYTES,
    InFlight,
    check_read,
    check_records,
    same_process,
)
from provenance.adapters._kafka.settings import KafkaSettings, Secret

__all__ = [
    "AUTO_CREATE",
    "FETCH_BYTES",
    "GROUP",
    "MAX_AGE_MS",
    "MAX_KEY_BYTES",
    "MAX_READ_BYTES",
    "MAX_TIMEOUT_MS",
    "MAX_VALUE_BYTES",
    "InFlight",
    "KafkaSettings",
    "Secret",
    "check_read",
    "check_records",
    "probe",
    "same_process",
]
