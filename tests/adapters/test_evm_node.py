"""One node's answers: bounded, of one form, and only our errors for what is amiss."""

from __future__ import annotations

import gzip
import http.server
import io
import json
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
import requests

from provenance.adapters.evm import Node, NodeRefusedError
from provenance.adapters.evm._node import _BoundedBody, data, member, quantity
from provenance.errors import ConfigError, MalformedError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Server(http.server.ThreadingHTTPServer):
    """A node that answers whatever ``reply`` says to the decoded request."""

    daemon_threads = True
    reply: Callable[[Any], bytes]
    status = 200
    headers: dict[str, str]
    requests: list[Any]

    def handle_error(self, *arguments: object) -> None:
        """A client that hangs up on a long answer is what some tests are about."""


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append((self.path, request))
        body = self.server.reply(request)
        self.send_response(self.server.status)
        for name, value in self.server.headers.items():
            self.send_header(name, value)
        if "Content-Length" not in self.server.headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server(("127.0.0.1", 0), Handler)
    server.headers, server.requests = {}, []
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def node_of(server: Server, **options: Any) -> Node:
    return Node(f"http://127.0.0.1:{server.server_port}", timeout=5, **options)


def answers(result: object) -> Callable[[Any], bytes]:
    def reply(request: Any) -> bytes:
        if isinstance(request, list):
            return json.dumps([{"jsonrpc": "2.0", "id": r["id"], "result": result} for r in request]).encode()
        return json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}).encode()

    return reply


def test_a_result_comes_as_it_was_sent(server: Server) -> None:
    results: tuple[object, ...] = ("0x1", None, [], {"a": [1, None]}, False)
    for result in results:
        server.reply = answers(result)
        assert node_of(server).call("m", 1, "x") == result
    path, request = server.requests[-1]
    assert path == "/"
    assert (request["method"], request["params"], request["jsonrpc"]) == ("m", [1, "x"], "2.0")


def test_several_calls_travel_together_and_keep_their_order(server: Server) -> None:
    def reply(request: Any) -> bytes:
        found = [{"jsonrpc": "2.0", "id": r["id"], "result": r["params"][0]} for r in request]
        return json.dumps(found[::-1]).encode()

    server.reply = reply
    assert node_of(server).batch([("m", [n]) for n in range(20)]) == list(range(20))
    assert len(server.requests) == 1
    assert node_of(server).batch([]) == []


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"\xff\xfe",
        b"null",
        b"[]",
        b"1",
        b'"result"',
        b"{}",
        b'{"jsonrpc": "2.0", "id": 1}',
        b'{"error": "no"}',
        b'{"error": {"message": "no"}}',
        b'{"error": {"code": "-1", "message": "no"}}',
        b'{"error": []}',
        b"[" * 100_000,
        b'{"result": NaN, "error": 1}',
    ],
    ids=lambda body: body[:30].decode("latin-1"),
)
def test_what_is_no_answer(server: Server, body: bytes) -> None:
    server.reply = lambda _: body
    with pytest.raises(MalformedError) as caught:
        node_of(server).call("m")
    assert caught.value.remedy


@pytest.mark.parametrize(
    "change",
    [
        lambda found: found[:-1],
        lambda found: [*found, found[0]],
        lambda found: [1, 2, 3],
        lambda found: [{**f, "id": None} for f in found],
        lambda found: [{**f, "id": str(f["id"])} for f in found],
        lambda found: [{**f, "id": True} for f in found],
        lambda found: [{**f, "id": found[0]["id"]} for f in found],
        lambda found: [{**f, "id": f["id"] + 1} for f in found],
        lambda found: [{"result": 1} for _ in found],
        lambda found: found[0],
        lambda found: {},
        lambda found: None,
    ],
)
def test_what_is_no_answer_to_several(server: Server, change: Callable[[Any], object]) -> None:
    server.reply = lambda request: json.dumps(
        change([{"id": r["id"], "result": "0x1"} for r in request])
    ).encode()
    with pytest.raises(MalformedError):
        node_of(server).batch([("m", [])] * 3)


def test_an_error_of_the_node(server: Server) -> None:
    text = "execution\x1b[31m reverted " + "x" * 5000
    error = {"code": -32000, "message": text, "data": "0x1234"}
    server.reply = lambda request: json.dumps({"id": request["id"], "error": error}).encode()
    with pytest.raises(NodeRefusedError) as caught:
        node_of(server).call("eth_call")
    assert (caught.value.code, caught.value.data) == (-32000, "0x1234")
    assert "refused eth_call: execution [31m reverted" in caught.value.message
    assert "\x1b" not in caught.value.message
    assert len(caught.value.message) < 500
    assert isinstance(caught.value, UnavailableError)


@pytest.mark.parametrize("status", [200, 400])
def test_a_request_that_is_refused_as_a_whole(server: Server, status: int) -> None:
    server.reply = lambda _: b'{"id": null, "error": {"code": -32600, "message": "batch too large"}}'
    server.status = status
    with pytest.raises(NodeRefusedError, match="batch too large"):
        node_of(server).batch([("m", [])] * 3)


def test_the_answer_to_another_question(server: Server) -> None:
    server.reply = lambda request: json.dumps({"id": request["id"] + 1, "result": "0x1"}).encode()
    with pytest.raises(MalformedError):
        node_of(server).call("m")


@pytest.mark.parametrize("status", [301, 403, 404, 429, 500, 502])
def test_an_http_error(server: Server, status: int) -> None:
    server.reply = lambda _: b"no"
    server.status = status
    server.headers = {"Location": "http://127.0.0.1:1/elsewhere"}
    with pytest.raises(UnavailableError, match=f"HTTP status {status}"):
        node_of(server).call("m")
    assert len(server.requests) == 1  # it goes nowhere else


def test_an_answer_that_is_too_long_is_left(server: Server) -> None:
    server.reply = answers("0x" + "00" * 500_000)
    assert node_of(server).call("m")
    with pytest.raises(MalformedError, match="longer than 1000 bytes") as caught:
        node_of(server, max_answer=1000).call("m")
    assert caught.value.reason == "too-long"


def test_a_compressed_answer_counts_by_what_it_unfolds_to(server: Server) -> None:

    body = gzip.compress(b'{"id": 1, "result": "' + b"0" * 10_000_000 + b'"}')
    assert len(body) < 20_000
    server.reply = lambda _: body
    server.headers = {"Content-Encoding": "gzip"}
    with pytest.raises(MalformedError, match="longer"):
        node_of(server, max_answer=100_000).call("m")


def test_importing_web3_leaves_the_limit_of_nesting(server: Server) -> None:
    """With the limit that one of its libraries sets, this answer would end the process."""
    program = "import sys; import provenance.adapters.evm; print(sys.getrecursionlimit())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert int(done.stdout) == 1000
    server.reply = lambda _: b"[" * 1_000_000
    with pytest.raises(MalformedError):
        node_of(server).call("m")


def test_an_answer_that_breaks_off(server: Server) -> None:
    server.reply = lambda _: b'{"id": 1, "res'
    server.headers = {"Content-Length": "1000", "Connection": "close"}
    with pytest.raises(UnavailableError):
        Node(f"http://127.0.0.1:{server.server_port}", timeout=0.2).call("m")


def test_an_answer_that_trickles_in_is_given_up(server: Server) -> None:
    """Each part comes within the timeout, the whole does not."""

    class Trickle(io.BytesIO):
        def stream(self, size: int, *, decode_content: bool) -> Iterator[bytes]:
            while part := self.read(1):
                yield part

    body = Trickle(b"{}" * 100)
    with pytest.raises(requests.Timeout):
        list(_BoundedBody(body, 1000, deadline=-1.0).stream(10))
    assert body.closed


def test_nobody_listens() -> None:
    with pytest.raises(UnavailableError, match=r"127\.0\.0\.1:1 does not answer") as caught:
        Node("http://127.0.0.1:1").call("eth_chainId")
    assert "provenance up" in caught.value.remedy
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    "url",
    [
        "",
        "127.0.0.1:8545",
        "file:///etc/passwd",
        "ws://host",
        "http://",
        "http://user:secret@host",
        "http://user@host",
        "https://host?key=secret",
        "https://host/#secret",
    ],
)
def test_an_address_that_is_none_or_holds_a_secret(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Node(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("value", ["0x0", "0x00", "0x1f", "0xFFFFFFFFFFFFFFFF", "0x" + "0" * 63 + "1"])
def test_quantities(value: str) -> None:
    assert quantity(value, "x") == int(value, 16)


@pytest.mark.parametrize(
    "value",
    [
        *(None, 1, True, 1.0, b"0x1", ["0x1"], {"a": 1}),
        *("", "0x", "1", "-0x1", "0x-1", "0x1 ", " 0x1", "0x1_0", "0xg", "0x1\n", "0X1"),
        *("0x10000000000000000", "0x" + "0" * 65),
    ],
)
def test_what_is_no_quantity(value: object) -> None:
    with pytest.raises(MalformedError):
        quantity(value, "x")


def test_bytes() -> None:
    assert data("0x", "x") == b""
    assert data("0x00Ff", "x", 2) == b"\x00\xff"


@pytest.mark.parametrize(
    "value", [None, 1, "", "00", "0x0", "0xzz", "0x00 ", "0x00\n", "0x 00", b"0x00", ["0x00"]]
)
def test_what_is_no_bytes(value: object) -> None:
    with pytest.raises(MalformedError):
        data(value, "x")


@pytest.mark.parametrize("value", ["0x", "0x00", "0x000000"])
def test_bytes_of_another_length(value: str) -> None:
    with pytest.raises(MalformedError, match="expected 2"):
        data(value, "x", 2)


@pytest.mark.parametrize("value", [None, [], "{}", 1])
def test_what_is_no_object(value: object) -> None:
    with pytest.raises(MalformedError):
        member(value, "x")
