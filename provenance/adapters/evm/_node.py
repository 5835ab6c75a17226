"""One node's JSON-RPC, through web3.py's HTTP provider, with every answer bounded and none believed.

web3 brings the transport and the codecs; its own reading of answers is left out, for it raises whatever a
hostile answer makes it raise. Here an answer has a limit in bytes and in seconds, is a JSON-RPC answer, and
its quantities and bytes are read by `quantity` and `data` alone.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter
from web3 import HTTPProvider
from web3.exceptions import Web3Exception

from provenance.errors import ConfigError, MalformedError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from web3.types import RPCEndpoint

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
        self._provider = HTTPProvider(
            url,
            request_kwargs={"timeout": timeout, "allow_redirects": False},
            session=session,
            exception_retry_configuration=None,
        )

    def call(self, method: str, *params: object) -> object:
        """The result of one call; JSON values as they came.

        Raises:
            NodeRefusedError: the node answered with an error.
            UnavailableError: it did not answer in time.
            MalformedError: its answer is none.
        """
        return self._result(method, self._ask(method, [*params]))

    def batch(self, calls: Sequence[tuple[str, Sequence[object]]]) -> list[object]:
        """The results of several calls, in their order, asked in one request; errors as in `call`."""
        if not calls:
            return []
        requested = [(cast("RPCEndpoint", method), list(params)) for method, params in calls]
        answers = self._guarded(lambda: self._provider.make_batch_request(requested))
        if not isinstance(answers, list) or len(answers) != len(calls):
            raise self._malformed(f"expected {len(calls)} answers to one request")
        return [self._result(method, answer) for (method, _), answer in zip(calls, answers, strict=True)]

    def _ask(self, method: str, params: list[object]) -> object:
        return self._guarded(lambda: self._provider.make_request(cast("RPCEndpoint", method), params))

    def _guarded(self, ask: Any) -> object:
        try:
            return ask()
        except requests.RequestException as error:
            raise UnavailableError(
                f"the chain's node at {self.name} does not answer ({type(error).__name__})",
                reason="node-unreachable",
                remedy="Start the chain (provenance up for the embedded one), or correct chain_url.",
            ) from None  # the foreign error may show addresses in full
        except (Web3Exception, ValueError, TypeError, KeyError, RecursionError):
            raise self._malformed("no JSON-RPC answer") from None

    def _result(self, method: str, answer: object) -> object:
        if not isinstance(answer, dict):
            raise self._malformed("no JSON-RPC answer")
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
