"""One node's JSON-RPC over HTTP, with every answer bounded and none believed.

web3.py brings the contract's codecs and the signing, but its provider is left out: it sets an answer no
limit, takes a batch's answers in whatever order they claim, and raises whatever a hostile answer makes it
raise. Here an answer has a limit in bytes and in seconds and answers its own question, and its quantities
and bytes are read by `quantity` and `data` alone.
"""

from __future__ import annotations

import itertools
import json
import re
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter

from provenance.errors import ConfigError, MalformedError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["Node", "NodeRefusedError", "data", "member", "quantity"]

_HEX = re.compile(r"0x[0-9a-fA-F]*")
_QUANTITY = re.compile(r"0x[0-9a-fA-F]{1,64}")
_PRINTABLE = re.compile(r"[^\x20-\x7e]+")
_MAX_ANSWER = 64 << 20


class NodeRefusedError(UnavailableError):
    """The node answered with an error. ``code`` and ``data`` are its own, and as little to be trusted."""

    def __init__(self, method: str, code: int, text: str, data: object) -> None:
        super().__init__(
            f"the node refused {method}: {_PRINTABLE.sub(' ', text)[:300]} (code {code})",
            reason="node-refused",
            remedy="Look at the node, and at the account and contract that were named to it.",
        )
        self.text = text
        self.code = code
        self.data = data


class Node:
    """JSON-RPC calls to one node. Not for several threads at once.

    Args:
        url: http or https address; no user, password, query or fragment.
        timeout: how long one answer may take, in seconds.
        max_answer: how long one answer may be, in bytes.
    """

    def __init__(self, url: str, *, timeout: float = 30.0, max_answer: int = _MAX_ANSWER) -> None:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ConfigError("the node's address is not one of http or https", reason="node-address")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise ConfigError("the node's address holds a user, query or fragment", reason="node-address")
        self.name = parts.netloc
        session = requests.Session()
        # A proxy of the environment is for the outside; what listens on this machine is asked directly.
        session.trust_env = parts.hostname not in {"127.0.0.1", "localhost", "::1"}
        session.mount(f"{parts.scheme}://", _BoundedAdapter(max_answer, timeout))
        self._url = url
        self._timeout = timeout
        self._session = session
        self._ids = itertools.count(1)

    def call(self, method: str, *params: object) -> object:
        """The result of one call; JSON values as they came.

        Raises:
            NodeRefusedError: the node answered with an error.
            UnavailableError: it did not answer in time.
            MalformedError: its answer is none.
        """
        return self._result(method, self._ask([(method, params)], batch=False)[0])

    def batch(self, calls: Sequence[tuple[str, Sequence[object]]]) -> list[object]:
        """The results of several calls, in their order, asked in one request; errors as in `call`."""
        answers = self._ask(calls, batch=True) if calls else []
        return [self._result(method, answer) for (method, _), answer in zip(calls, answers, strict=True)]

    def _ask(self, calls: Sequence[tuple[str, Sequence[object]]], *, batch: bool) -> list[dict[str, Any]]:
        """Ask all at once; the answers, in the order of the calls whatever theirs was."""
        questions = [
            {"jsonrpc": "2.0", "id": number, "method": method, "params": list(params)}
            for number, (method, params) in zip(self._ids, calls, strict=False)
        ]
        found = self._post(questions if batch else questions[0])
        if isinstance(found, dict) and found.get("error") is not None and found.get("id") is None:
            return [found] * len(questions)  # what was wrong with the request as a whole
        answers = found if batch and isinstance(found, list) else [found]
        by_number = {
            answer["id"]: answer
            for answer in answers
            if isinstance(answer, dict) and type(answer.get("id")) is int
        }
        numbers = [question["id"] for question in questions]
        if len(answers) != len(numbers) or by_number.keys() != set(numbers):
            raise self._malformed(f"expected {len(numbers)} JSON-RPC answers to as many questions")
        return [by_number[number] for number in numbers]

    def _post(self, body: object) -> object:
        headers = {"Content-Type": "application/json"}
        try:
            response = self._session.post(
                self._url,
                json.dumps(body).encode(),
                headers=headers,
                timeout=self._timeout,
                allow_redirects=False,
            )
        except (
            requests.Timeout,
            requests.ConnectionError,
            requests.exceptions.ChunkedEncodingError,
        ) as error:
            raise self._unreachable(type(error).__name__) from None  # it may show addresses in full
        except requests.RequestException:
            raise self._malformed("no HTTP") from None
        try:
            return json.loads(response.content)
        except (ValueError, RecursionError):
            if response.status_code != requests.codes.ok:
                raise self._unreachable(f"HTTP status {response.status_code}") from None
            raise self._malformed("no JSON") from None

    def _unreachable(self, how: str) -> UnavailableError:
        return UnavailableError(
            f"the chain's node at {self.name} does not answer ({how})",
            reason="node-unreachable",
            remedy="Start the chain (provenance up for the embedded one), or correct chain.url.",
        )

    def _result(self, method: str, answer: dict[str, Any]) -> object:
        error = answer.get("error")
        if error is not None:
            if not isinstance(error, dict) or not isinstance(error.get("code"), int):
                raise self._malformed("an error of no form")
            raise NodeRefusedError(
                method, error["code"], str(error.get("message", ""))[:1000], error.get("data")
            )
        if "result" not in answer:
            raise self._malformed("neither result nor error")
        return answer["result"]

    def _malformed(self, what: str) -> MalformedError:
        return MalformedError(
            f"the chain's node at {self.name} answered amiss: {what}",
            reason="node-answer",
            remedy="See that the address is that of an Ethereum JSON-RPC endpoint, or ask another node.",
        )


class _BoundedAdapter(HTTPAdapter):
    """Ends an answer that is too long or takes too long as a whole, not only between two of its parts."""

    def __init__(self, limit: int, seconds: float) -> None:
        super().__init__()
        self._limit = limit
        self._seconds = seconds

    def send(self, *arguments: Any, **options: Any) -> requests.Response:
        response = super().send(*arguments, **options)
        response.raw = _BoundedBody(response.raw, self._limit, time.monotonic() + self._seconds)
        return response


class _BoundedBody:
    """The part of a urllib3 response that requests uses."""

    def __init__(self, body: Any, limit: int, deadline: float) -> None:
        self._body = body
        self._limit = limit
        self._deadline = deadline

    def stream(self, size: int, *, decode_content: bool = True) -> Iterator[bytes]:
        received = 0
        for part in self._body.stream(size, decode_content=decode_content):
            received += len(part)
            if received > self._limit:
                self.close()
                raise MalformedError(
                    f"a node's answer is longer than {self._limit} bytes",
                    reason="too-long",
                    remedy="Ask another node.",
                )
            if time.monotonic() > self._deadline:
                self.close()
                raise requests.exceptions.ReadTimeout
            yield part

    def close(self) -> None:
        self._body.close()

    def release_conn(self) -> None:
        self._body.release_conn()


def quantity(value: object, what: str, *, bits: int = 64) -> int:
    """An unsigned integer of a JSON-RPC answer (``"0x1f"``), below ``2**bits``."""
    if not isinstance(value, str) or not _QUANTITY.fullmatch(value) or int(value, 16) >> bits:
        raise MalformedError(
            f"a node's answer: {what} is {value!r:.80}, expected a {bits}-bit quantity", reason="quantity"
        )
    return int(value, 16)


def data(value: object, what: str, length: int | None = None) -> bytes:
    """Bytes of a JSON-RPC answer (``"0x00ff"``); ``length`` is exact where it is given."""
    if not isinstance(value, str) or not _HEX.fullmatch(value) or len(value) % 2:
        raise MalformedError(
            f"a node's answer: {what} is {value!r:.80}, expected bytes in hex", reason="data"
        )
    raw = bytes.fromhex(value[2:])
    if length is not None and len(raw) != length:
        raise MalformedError(
            f"a node's answer: {what} has {len(raw)} bytes, expected {length}", reason="data-length"
        )
    return raw


def member(value: object, what: str) -> Mapping[str, object]:
    """An object of a JSON-RPC answer."""
    if not isinstance(value, dict):
        raise MalformedError(f"a node's answer: {what} is {value!r:.80}, expected an object", reason="object")
    return value
