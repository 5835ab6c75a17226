"""The training command: a model with its receipt, or nothing at all."""

from __future__ import annotations

import errno
import hashlib
import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import provenance
from provenance import bootstrap, config
from provenance.core.kinds import Consumption
from provenance.core.records import decode_record
from provenance.errors import UnavailableError
from tests.anchored_runs import FakeLedger

torch = pytest.importorskip("torch")
pytest.importorskip("zarr")
pytest.importorskip("dask")

from pipeline import speaker_model, train  # noqa: E402 - only where torch is
from pipeline.voice.stages import gather  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BANDS = 8


def values(file: provenance.File) -> np.ndarray:
    return np.frombuffer(file.data, np.float32).reshape(-1, BANDS)


def first_only(files: list[provenance.File]) -> dict[str, np.ndarray]:
    return {"features": files[0].data}


@dataclass
class World:
    """Two speakers with recordings that tell them apart, stored as the voice pipeline stores them."""

    root: Path
    run: str
    other: str
    ledger: FakeLedger

    @property
    def folder(self) -> Path:
        return self.root / ".provenance"

    @property
    def chunk(self) -> Path:
        """An object of the first shard."""
        return next(
            path for path in (self.root / "voices.zarr/p00000/features/c").rglob("*") if path.is_file()
        )

    def log(self) -> list[bytes]:
        log = bootstrap.event_log(config.load(self.folder))
        return [message.value for message in log.read(0, 0, 10_000)]


def write_recordings(root: Path) -> None:
    rng = np.random.default_rng(0)
    for speaker, (level, count) in {"anna": (1.0, 40), "boris": (-1.0, 16)}.items():
        (root / "in" / speaker).mkdir(parents=True)
        for number in range(count):
            data = rng.normal(level, 0.5, (120, BANDS)).astype(np.float32).tobytes()
            (root / "in" / speaker / f"{number}.raw").write_bytes(data)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> World:
    root = tmp_path_factory.mktemp("train")
    write_recordings(root)
    folder, ledger, runs = root / ".provenance", FakeLedger(), []
    for name, function in (("other", first_only), ("voices", gather)):
        with provenance.run(name, dataset=None, client="sync", folder=folder) as run:
            raw = run.files(root / "in", key=lambda path: path.split("/")[0])
            raw.stage("values", values).wide("speaker", function, by="key").write(
                root / f"{name}.zarr", name="shards"
            )
        runs.append(run.id)
    ledger.anchor(folder)
    return World(root, runs[1], runs[0], ledger)


@pytest.fixture
def world(recorded: World, monkeypatch: pytest.MonkeyPatch) -> World:
    recorded.ledger.use(monkeypatch)
    return recorded


@pytest.fixture
def call(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Run the command in an empty folder: exit code, standard output, standard error."""

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["train", "--folder", str(world.folder), *arguments])
        code = train.main()
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


@pytest.fixture
def untrained(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test that only looks at what is refused may wait for a training."""
    trained = speaker_model.train
    monkeypatch.setattr(speaker_model, "train", lambda data, **how: trained(data, **{**how, "epochs": 1}))


def left_behind(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in tmp_path.iterdir())


# --------------------------------------------------------------------------------------------------- it works


def test_a_model_and_its_receipt(world: World, call: Any, tmp_path: Path) -> None:
    (tmp_path / "speakers.pt").write_bytes(b"an older model")
    code, out, err = call("--json", "--run", world.run[:10], "--seed", "3")
    assert (code, err) == (0, "")
    made = json.loads(out)
    assert made["run"] == world.run
    assert (made["shards"], made["unverified"]) == (2, 0)
    assert made["accuracy"] >= made["accuracy_majority"] + 0.1
    assert made["learnt"] + made["held_out"] == 56
    assert left_behind(tmp_path) == ["speakers.pt"]
    data = (tmp_path / "speakers.pt").read_bytes()
    assert torch.load(tmp_path / "speakers.pt", weights_only=True)["decide.bias"].shape == (2,)
    found = decode_record(world.log()[-1])
    assert found.id.hex() == made["consumption"]
    eaten = Consumption.from_statement(found.statement)
    assert (eaten.source.hex(), eaten.order_seed) == (world.run, 3)
    assert eaten.checkpoint == hashlib.sha256(data).digest()
    assert eaten.code == hashlib.sha256(Path(speaker_model.__file__).read_bytes()).digest()
    assert (eaten.verified, eaten.unverified, eaten.shards.count) == (2, 0, 2)
    assert eaten.epochs == made["epochs"] >= 6
    assert (eaten.world_size, eaten.precision) == (1, "float32")


@pytest.mark.usefixtures("untrained")
def test_in_words_and_of_the_last_sealed_run(world: World, call: Any, tmp_path: Path) -> None:
    code, out, err = call("--checkpoint", "model")
    assert (code, err) == (0, "")
    assert "2 shards verified, " in out
    assert f"consumption record {decode_record(world.log()[-1]).id.hex()}" in out
    assert out.endswith("next: provenance batch anchors that record\n")
    assert left_behind(tmp_path) == ["model"]


@pytest.mark.usefixtures("untrained")
def test_what_did_not_verify_is_said(
    world: World, call: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PROVENANCE_LOADING_POLICY", "observe")
    extra = world.root / "voices.zarr/p00000/features/extra"
    extra.write_bytes(b"")
    try:
        code, out, err = call()
    finally:
        extra.unlink()
    assert code == 0
    assert out.startswith("1 shards verified, ")
    assert "warning: 1 shards were read and NOT verified" in err
    eaten = Consumption.from_statement(decode_record(world.log()[-1]).statement)
    assert (eaten.verified, eaten.unverified) == (1, 1)


# ----------------------------------------------------------------------------------------- nothing is written


@pytest.fixture(params=[False, True], ids=["new", "replacing"])
def nothing_written(
    request: pytest.FixtureRequest, world: World, tmp_path: Path
) -> Iterator[Callable[..., None]]:
    """Whatever the test did, folder and log are as before."""
    before = world.log()
    if request.param:
        (tmp_path / "speakers.pt").write_bytes(b"an older model")
    yield
    assert left_behind(tmp_path) == (["speakers.pt"] if request.param else [])
    if request.param:
        assert (tmp_path / "speakers.pt").read_bytes() == b"an older model"
    assert world.log() == before


@pytest.mark.usefixtures("nothing_written", "untrained")
def test_a_shard_that_was_changed(world: World, call: Any) -> None:
    before = world.chunk.read_bytes()
    try:
        world.chunk.write_bytes(bytes([before[0] ^ 1]) + before[1:])
        code, out, err = call("--json")
    finally:
        world.chunk.write_bytes(before)
    assert (code, out) == (1, "")
    assert err.startswith("error: shard 0, part 'p00000/features' of stage 'shards'")
    assert "\n  next: Do not train on it." in err


@pytest.mark.usefixtures("nothing_written", "untrained")
@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["--run", "f" * 64], 2, "no run is anchored under that id"),
        (["--run", "zz"], 2, "hex digits"),
        (["--run", ""], 2, "hex digits"),
        (["--seed", "-1"], 2, "--seed"),
        (["--epochs", "1"], 2, "No such option"),
        (["--checkpoint", "no/such/folder.pt"], 2, "expected a file's name"),
        (["--checkpoint", "."], 2, "expected a file's name"),
    ],
)
def test_wrong_use(call: Any, arguments: list[str], code: int, text: str) -> None:
    found, out, err = call(*arguments)
    assert (found, out) == (code, "")
    assert text in err


@pytest.mark.usefixtures("nothing_written", "untrained")
def test_a_run_of_another_pipeline(world: World, call: Any) -> None:
    code, _, err = call("--run", world.other)
    assert code == 2
    assert "holds features by a key: expected features, offsets, recordings by speaker" in err


@pytest.mark.usefixtures("untrained")
def test_a_run_that_is_not_anchored_and_a_chain_that_is_down(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, ledger = tmp_path / ".provenance", FakeLedger()
    ledger.anchor(folder)  # nothing yet but the contract
    ledger.use(monkeypatch)
    with provenance.run("late", dataset=None, client="sync", folder=folder) as run:
        raw = run.files(world.root / "in/boris", key=lambda _: "boris")
        raw.stage("values", values).wide("speaker", gather, by="key").write(tmp_path / "late.zarr")
    arguments = ["train", "--folder", str(folder), "--run", run.id, "--checkpoint", str(tmp_path / "model")]
    monkeypatch.setattr(sys, "argv", arguments)
    assert train.main() == 4
    assert "its records wait in the log" in capsys.readouterr().err
    monkeypatch.undo()
    monkeypatch.setattr(sys, "argv", arguments)
    assert train.main() == 3
    assert "provenance up" in capsys.readouterr().err
    assert not (tmp_path / "model").exists()


@pytest.mark.usefixtures("nothing_written", "untrained")
def test_a_receipt_that_cannot_be_written(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> bytes:
        raise UnavailableError("log.sqlite: cannot write it", remedy="Free some space.")

    monkeypatch.setattr("provenance.services.consuming.record_consumption", refuse)
    code, out, err = call()
    assert (code, out) == (3, "")
    assert "next: Free some space." in err


@pytest.mark.usefixtures("nothing_written", "untrained")
def test_a_full_disk(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fill(_: object, path: Path) -> None:
        path.write_bytes(b"half a mod")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(speaker_model, "save", fill)
    code, out, err = call()
    assert (code, out) == (3, "")
    assert "speakers.pt: cannot write it: No space left on device" in err


# ---------------------------------------------------------------------------------------------- documentation


@pytest.mark.service
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # of Python 3.12 and later
def test_the_how_to_runs(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (Path(__file__).parents[2] / "docs/how-to/train-on-verified-shards.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (tmp_path / "train.py").write_text(code, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PROVENANCE_FOLDER", str(world.folder))
    names: dict[str, Any] = {"__name__": "how_to"}
    exec(compile(code, "train.py", "exec"), names)
    found = decode_record(world.log()[-1])
    assert found.id.hex() == names["receipt"]
    eaten = Consumption.from_statement(found.statement)
    assert (eaten.order_seed, eaten.epochs, eaten.verified, eaten.unverified) == (7, 3, 2, 0)
