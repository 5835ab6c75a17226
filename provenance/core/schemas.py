"""The JSON schema of each kind of record, closed: an unknown field is an error.

They are data of the core, written out to ``docs/spec/`` for other implementations. A kind is frozen by the
release that first writes it; a change is a
new kind with a new number (`spec/records.md`, "Fields of the predicate").
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from provenance.errors import MalformedError

if TYPE_CHECKING:
    from provenance.core.canonical import JSONObject

__all__ = [
    "DIGEST_NAMES",
    "KINDS",
    "PREDICATE_PREFIX",
    "STATEMENT_TYPE",
    "check_statement",
    "predicate_type",
    "statement_schema",
]

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_PREFIX = "urn:provenance-ledger:"
DIGEST_NAMES = (
    "sha256",
    "tree1-sha256",
    "table1-sha256",
    "array1-sha256",
    "blake3",
    "table1-blake3",
    "array1-blake3",
    "rfc6962-sha256",
)
MAX_SUBJECTS = 200
MAX_INPUTS = 64

_HASH = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
_COUNT = {"type": "integer", "minimum": 0}
_NAME = {"type": "string", "minLength": 1, "maxLength": 512}
_TIME = {
    "type": "string",
    "pattern": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?Z$",
}
_DIGESTS = {
    "type": "object",
    "additionalProperties": False,
    "minProperties": 1,
    "properties": dict.fromkeys(DIGEST_NAMES, _HASH),
}


def _object(required: dict[str, Any], optional: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": sorted(required),
        "properties": {**required, **(optional or {})},
    }


def _array(items: dict[str, Any], low: int, high: int) -> dict[str, Any]:
    return {"type": "array", "items": items, "minItems": low, "maxItems": high}


_LIST = _object({"count": _COUNT, "root": _HASH})
_RANGE = {"type": "array", "items": _COUNT, "minItems": 2, "maxItems": 2}
_INPUT = _object({"record": _HASH, "name": _NAME, "digest": _DIGESTS}, {"range": _RANGE})
_INPUT_ROOT = _object({"stage": _HASH, "count": _COUNT, "root": _HASH})
_CODE = {"type": "string", "pattern": "^[a-z0-9][a-z0-9-]{0,63}$"}

_PREDICATES: dict[str, dict[str, Any]] = {
    "dataset": _object(
        {
            "name": _NAME,
            "version": _NAME,
            "licence": _NAME,
            "names_are_personal": {"type": "boolean"},
            "descriptor": _HASH,
        }
    ),
    "run": _object(
        {
            "name": _NAME,
            "nonce": {"type": "string", "pattern": "^[0-9a-f]{32}$"},
            "datasets": _array(_HASH, 0, 64),
            "dirty": {"type": "boolean"},
            "environments": _LIST,
            "seeds": {"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 64},
            "started": _TIME,
            "producer": _object({"name": _NAME, "version": _NAME}),
        },
        {"commit": {"type": "string", "pattern": "^[0-9a-f]{40,64}$"}, "lockfile": _HASH},
    ),
    "stage": _object(
        {
            "run": _HASH,
            "name": _NAME,
            "parents": _array(_HASH, 0, 64),
            "transform": _object(
                {
                    "name": _NAME,
                    "syntax": _HASH,
                    "captured": _HASH,
                    "package": {"type": "string", "maxLength": 256},
                }
            ),
            "parameters": {"type": "object"},
            "profile": {"enum": ["exact", "logical", "tolerance"]},
            "tolerances": {"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 64},
        },
        {
            "schema": _array(
                {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 2}, 0, 1024
            ),
            "partitions": _COUNT,
        },
    ),
    "partition": _object(
        {
            "run": _HASH,
            "stage": _HASH,
            "number": _COUNT,
            "rows": _COUNT,
            "bytes": _COUNT,
            "inputs": {"anyOf": [_array(_INPUT, 0, MAX_INPUTS), _array(_INPUT_ROOT, 1, MAX_INPUTS)]},
        },
        {"key": _HASH, "rejected": _CODE},
    ),
    "seal": _object(
        {
            "run": _HASH,
            "status": {"enum": ["complete", "aborted"]},
            "ended": _TIME,
            "environments_added": _LIST,
            "stages": _array(
                _object(
                    {
                        "stage": _HASH,
                        "partitions": _COUNT,
                        "rows": _COUNT,
                        "bytes": _COUNT,
                        "root": _HASH,
                        "set_aside": _LIST,
                    },
                    {"store": _object({"tree": _HASH, "files": _COUNT})},
                ),
                0,
                256,
            ),
        }
    ),
    "consumption": {
        **_object(
            {
                "stage": _HASH,
                "shards": _LIST,
                "order_seed": _COUNT,
                "epochs": _COUNT,
                "world_size": {"type": "integer", "minimum": 1},
                "precision": _NAME,
                "verified": _COUNT,
                "unverified": _COUNT,
                "code": _HASH,
                "environment": _HASH,
            },
            {"run": _HASH, "release": _HASH},
        ),
        "oneOf": [{"required": ["run"]}, {"required": ["release"]}],
    },
}

KINDS = tuple(_PREDICATES)


def predicate_type(kind: str) -> str:
    """``urn:provenance-ledger:KIND:1``."""
    return f"{PREDICATE_PREFIX}{kind}:1"


def statement_schema(kind: str) -> dict[str, Any]:
    """The JSON schema (draft 2020-12) of a whole statement of this kind."""
    subject = _object({"name": _NAME, "digest": _DIGESTS})
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": predicate_type(kind),
        "title": f"Provenance Ledger {kind} record, version 1",
        **_object(
            {
                "_type": {"const": STATEMENT_TYPE},
                "subject": _array(subject, 0 if kind in {"partition", "seal"} else 1, MAX_SUBJECTS),
                "predicateType": {"const": predicate_type(kind)},
                "predicate": _PREDICATES[kind],
            }
        ),
    }


@cache
def _validator(kind: str) -> Any:
    import jsonschema_rs

    return jsonschema_rs.Draft202012Validator(statement_schema(kind))


def check_statement(kind: str, statement: JSONObject) -> None:
    """Raise ``MalformedError`` (``reason="schema"``) unless the statement follows its kind's schema."""
    validator = _validator(kind)
    if validator.is_valid(statement):
        return
    error = next(validator.iter_errors(statement))
    where = "/".join(str(step) for step in error.instance_path)
    raise MalformedError(f"{kind} record: at /{where}: {error.message:.200}", reason="schema")
