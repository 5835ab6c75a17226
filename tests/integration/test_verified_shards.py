"""Shards of runs that are really recorded and stored: what was recorded opens, and nothing else does."""

from __future__ import annotations

import importlib
import pickle
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

import provenance
from provenance import bootstrap, bootstrap_chain, config
from provenance.core.lists import ListHead, decode_list, list_name
from provenance.core.merkle import leaf_hash
from provenance.core.runs import environment_name
from provenance.core.tokens import key_token
from provenance.errors import (
    ConfigError,
    MismatchError,
    PendingError,
    UnavailableError,
    VerificationError,
)
from provenance.services.batching import run_once
from tests.anchored_runs import FakeLedger
from tests.dev_chain import start_or_skip

if TYPE_CHECKING:
    from pathlib import Path

torch = pytest.importorskip("torch")
pytest.importorskip("zarr")
pytest.importorskip("dask")

from torch.utils.data import DataLoader  # noqa: E402 - only where torch is

from provenance.torch import VerifiedShards  # noqa: E402
from tests.integration.loading_world import (  # noqa: E402
    SPEAKERS,
    World,
    consumption,
    flipped,
    moved,
    objects,
    record,
    refused,
)

# From Python 3.12 on a fork beside threads is warned of; what is forked here only opens shards.
forking = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> World:
    root = tmp_path_factory.mktemp("recorded")
    world = World(root, record(root), FakeLedger())
    world.ledger.anchor(world.folder)
    return world


@pytest.fixture
def world(recorded: World, monkeypatch: pytest.MonkeyPatch) -> World:
    recorded.ledger.use(monkeypatch)
    return recorded


# ----------------------------------------------------------------------------------------------- what opens


def test_arrays_come_out_as_they_were_made(world: World) -> None:
    shards = world.shards()
    secret = bootstrap.names(config.load(world.folder)).secret()
    speakers = {key_token(secret, speaker): 2 * at + 2 for at, speaker in enumerate(SPEAKERS)}
    found = {shard.key: shard.parts for shard in shards}
    assert set(found) == set(speakers)
    for key, count in speakers.items():
        parts = found[key]
        assert {name: (str(part.dtype), tuple(part.shape)) for name, part in parts.items()} == {
            "features": ("torch.float32", (2 * count, 2)),
            "lengths": ("torch.uint16", (count,)),
            "count": ("torch.int64", ()),
            "none": ("torch.float64", (0, 3)),
            "zeros": ("torch.bool", (5,)),
        }
        assert int(parts["count"]) == count
        assert not parts["zeros"].any()
        first = 16 * (count // 2 - 1)
        files = {tuple(range(first + at, first + at + 4)) for at in range(count)}
        assert {tuple(row) for row in parts["features"].reshape(-1, 4).int().tolist()} == files
    assert len(shards.opened(verified=True)) == len(shards) == 3


def test_tables_come_out_as_they_were_made(world: World) -> None:
    shards = world.shards(stage="tables")
    found = [shard.parts["table"] for shard in shards]
    assert sorted(table.num_rows for table in found) == [0, 8, 16], "one of them has no rows"
    assert {table.column_names[0] for table in found} == {"value"}


def test_the_order_is_that_of_seed_and_epoch(world: World) -> None:
    one, other = world.shards(order_seed=5), world.shards(order_seed=5)
    orders = []
    for epoch in range(4):
        for shards in (one, other):
            shards.set_epoch(epoch)
        orders.append([shard.number for shard in one])
        assert orders[-1] == [shard.number for shard in other] == one.order()
    assert len({tuple(order) for order in orders}) > 1


# ----------------------------------------------------------------------------------------- what does not open


@pytest.mark.parametrize("stage", ["arrays", "tables"])
def test_one_bit_of_any_stored_object(world: World, stage: str) -> None:
    shards = world.shards(stage=stage)
    for at, shard in enumerate(shards.set.shards):
        for part in shard.parts:
            place = (world.arrays if stage == "arrays" else world.tables) / part.name
            for path in objects(place) if place.is_dir() else [place]:
                with flipped(path, path.stat().st_size // 2):
                    error = refused(shards, at)
                assert error.reason == "shard-differs"
                kind = "tree1-sha256" if stage == "arrays" else "sha256"
                assert error.expected == f"{kind}:{part.digest[kind]}"
                assert error.actual.startswith(f"{kind}:")
    assert all(shard.verified for shard in shards), "once it is put right again"


def test_the_arrays_own_metadata(world: World) -> None:
    path = world.arrays / "p00001/features/zarr.json"
    text = path.read_bytes()
    try:
        path.write_bytes(text.replace(b"float32", b"uint32 "))
        refused(world.shards(), 1)
    finally:
        path.write_bytes(text)


def test_an_object_that_is_gone_is_not_read_as_zeros(world: World, tmp_path: Path) -> None:
    (chunk,) = objects(world.arrays / "p00001/zeros/c")
    with moved(chunk, tmp_path / "chunk"):
        assert refused(world.shards(), 1).reason == "shard-differs"


@pytest.mark.parametrize("place", ["p00001/features/c/9/9", "p00001/features/extra", "p00001/none/c/0/0"])
def test_an_object_too_many(world: World, place: str) -> None:
    path = world.arrays / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"")
    try:
        refused(world.shards(), 1)
    finally:
        path.unlink()


def test_two_shards_that_were_swapped(world: World, tmp_path: Path) -> None:
    first, second = (world.arrays / f"p0000{number}/features" for number in (0, 1))
    shards = world.shards()

    def swap() -> None:
        first.rename(tmp_path / "swapped")
        second.rename(first)
        (tmp_path / "swapped").rename(second)

    swap()
    try:
        for at in (0, 1):
            with pytest.raises(MismatchError) as caught:
                shards.open(at)
            other = shards.set.shards[1 - at].parts
            (actual,) = [part for part in other if part.name.endswith("/features")]
            assert caught.value.actual == f"tree1-sha256:{actual.digest['tree1-sha256']}"
    finally:
        swap()


def test_a_part_that_is_gone(world: World, tmp_path: Path) -> None:
    with moved(world.arrays / "p00001/features", tmp_path / "part"):
        assert refused(world.shards(), 1).reason == "object-missing"
    with moved(world.tables / "part-00001.parquet", tmp_path / "part"):
        assert refused(world.shards(stage="tables"), 1).reason == "object-missing"


@pytest.mark.parametrize("target", ["elsewhere", "../p00000/features"])
def test_a_link_in_a_parts_place(world: World, tmp_path: Path, target: str) -> None:
    place = world.arrays / "p00001/features"
    with moved(place, tmp_path / "part"):
        (tmp_path / "elsewhere").mkdir()
        place.symlink_to(tmp_path / target if target == "elsewhere" else target)
        error = refused(world.shards(), 1)
        place.unlink()
    assert error.reason == ("link" if target == "elsewhere" else "shard-differs")


def test_a_file_far_larger_than_what_was_recorded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROVENANCE_LOADING_PART_LIMIT", str(1 << 20))
    path = world.tables / "part-00001.parquet"
    before = path.read_bytes()
    try:
        with path.open("r+b") as file:
            file.truncate(1 << 40)
        assert refused(world.shards(stage="tables"), 1).reason == "too-long"
    finally:
        path.write_bytes(before)


def test_a_store_that_was_moved(world: World, tmp_path: Path) -> None:
    with moved(world.arrays, tmp_path / "moved.zarr"):
        with pytest.raises(UnavailableError) as caught:
            world.shards()
        assert (caught.value.reason, caught.value.exit_code) == ("store-missing", 3)
        assert "location=" in caught.value.remedy
        there = world.shards(location=tmp_path / "moved.zarr")
        assert sum(shard.verified for shard in there) == 3
        with flipped(objects(tmp_path / "moved.zarr/p00001/features")[0]):
            refused(there, 1)
        with pytest.raises(UnavailableError):
            world.shards(location=tmp_path / "nowhere")


def test_a_folder_that_does_not_know_where_the_shards_lie(world: World, tmp_path: Path) -> None:
    names = world.folder / "names.sqlite"
    with moved(names, tmp_path / "names"):
        with pytest.raises(UnavailableError) as caught:
            world.shards()
        assert not names.exists(), "nothing is made by looking"
        assert world.shards(location=world.arrays).open(0).verified
    assert caught.value.reason == "location-unknown"


# --------------------------------------------------------------------------------------- the run as a whole


def test_a_changed_batch_file(world: World) -> None:
    shards = world.shards()
    for path in sorted(world.folder.glob("batches/*/*.batch")):
        with flipped(path), pytest.raises(VerificationError) as caught:
            world.shards()
        assert caught.value.reason == "batch-changed"
        stream, seq = path.parent.name, int(path.name.split("-")[0])
        assert f"stream {stream[:12]}, seq {seq}, offset " in caught.value.message
        assert "transaction 0x" in caught.value.message
    assert shards.open(0).verified


def test_a_seal_that_is_not_anchored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = FakeLedger()
    ledger.use(monkeypatch)
    folder = tmp_path / ".provenance"
    run = provenance.start("later", dataset=None, client="sync", folder=folder)
    run.collection(_bag(), name="bag").write(tmp_path / "bag", name="stored")
    run.compute()
    ledger.anchor(folder)
    for wanted in (run.id, run.id[:8]):
        with pytest.raises(PendingError) as caught:
            VerifiedShards(run=wanted, folder=folder)
        assert (caught.value.reason, caught.value.exit_code) == ("no-seal", 4)
    with pytest.raises(PendingError):
        VerifiedShards(folder=folder)
    run.seal()
    with pytest.raises(PendingError):
        VerifiedShards(run=run.id, folder=folder)
    ledger.anchor(folder)
    assert [shard.parts["table"].num_rows for shard in VerifiedShards(folder=folder)] == [2, 2]


def _bag() -> Any:
    from dask import bag

    return bag.from_sequence([1, 2, 3, 4], npartitions=2)


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ({"run": "f" * 64}, "no-such-run"),
        ({"run": "not hex"}, "run-prefix"),
        ({"stage": None}, "sink"),
        ({"stage": "speaker"}, "sink"),
        ({"policy": "trust"}, "policy"),
        ({"policy": ""}, "policy"),
        ({"order_seed": -1}, "order_seed"),
    ],
)
def test_wrong_use(world: World, how: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        world.shards(**how)
    assert (caught.value.reason, caught.value.exit_code) == (reason, 2)


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        VerifiedShards(folder=tmp_path / "nothing")
    assert caught.value.reason == "no-folder"
    assert not (tmp_path / "nothing").exists()


def test_a_key_that_is_not_trusted(world: World, tmp_path: Path) -> None:
    stranger = tmp_path / ".provenance"
    shutil.copytree(world.folder, stranger)
    shutil.rmtree(stranger / "keys")
    with pytest.raises(VerificationError) as caught:
        VerifiedShards(run=world.run, folder=stranger)
    assert caught.value.reason == "unknown-key"


# -------------------------------------------------------------------------------------------- only observing


def test_who_observes_goes_on_and_the_receipt_says_so(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PROVENANCE_LOADING_POLICY", "observe")
    shards = world.shards()
    assert shards.policy == "observe"
    extra = world.arrays / "p00001/features/extra"
    extra.write_bytes(b"")
    try:
        assert {shard.number: shard.verified for shard in shards} == {0: True, 1: False, 2: True}
    finally:
        extra.unlink()
    assert "not verified: shard 1, part 'p00001/features'" in caplog.text
    eaten = consumption(world, shards, tmp_path)
    assert (eaten.verified, eaten.unverified, eaten.shards.count) == (2, 1, 3)
    assert world.shards(policy="enforce").policy == "enforce"


def test_who_observes_leaves_out_what_cannot_be_read(
    world: World, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shards = world.shards(policy="observe")
    with moved(world.arrays / "p00001/features", tmp_path / "part"):
        assert sorted(shard.number for shard in shards) == [0, 2]
    assert "left out, for it cannot be read: shard 1, part 'p00001/features'" in caplog.text
    eaten = consumption(world, shards, tmp_path)
    assert (eaten.verified, eaten.unverified, eaten.shards.count) == (2, 0, 2)


def test_who_observes_a_run_that_does_not_hold_verifies_nothing(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    path = min(world.folder.glob("batches/*/*.batch"))
    with flipped(path):
        shards = world.shards(policy="observe")
        assert [shard.verified for shard in shards] == [False] * 3
    assert "no shard of this run is verified: the batch file of seq 1 was changed in the leaf" in caplog.text
    assert (shards.opened(verified=True), shards.opened(verified=False)) == ([], [0, 1, 2])


# ----------------------------------------------------------------------------------------------- the receipt


def test_the_receipt_names_what_was_eaten(world: World, tmp_path: Path) -> None:
    import hashlib

    shards = world.shards(order_seed=9)
    list(shards)
    eaten = consumption(world, shards, tmp_path, world_size=2)
    assert (eaten.source.hex(), eaten.stage) == (world.run, shards.set.stage)
    assert eaten.checkpoint == hashlib.sha256(b"a model").digest()
    assert eaten.code == hashlib.sha256(b"its code").digest()
    assert (eaten.order_seed, eaten.epochs, eaten.world_size, eaten.precision) == (9, 3, 2, "bfloat16")
    assert (eaten.verified, eaten.unverified) == (3, 0)
    records = [shard.record for shard in shards.set.shards]
    assert eaten.shards == ListHead.over(records)
    store = bootstrap.batch_store(config.load(world.folder))
    assert decode_list(store.get(list_name(eaten.shards)) or b"", eaten.shards) == sorted(records)
    document = store.get(environment_name(eaten.environment)) or b""
    assert leaf_hash(document) == eaten.environment
    assert b'"torch"' in document


def test_only_what_was_opened_is_named(world: World, tmp_path: Path) -> None:
    shards = world.shards()
    shards.open(2)
    eaten = consumption(world, shards, tmp_path)
    assert eaten.shards == ListHead.over([shards.set.shards[2].record])


def test_a_receipt_of_nothing_is_not_signed(world: World, tmp_path: Path) -> None:
    log = bootstrap.event_log(config.load(world.folder))
    before = log.bounds(0)
    shards = world.shards()
    with pytest.raises(ConfigError) as caught:
        consumption(world, shards, tmp_path)
    assert caught.value.reason == "no-shard"
    shards.open(0)
    for how in ({"epochs": 0}, {"world_size": 0}, {"code": tmp_path / "nothing.py"}):
        with pytest.raises(ConfigError):
            consumption(world, shards, tmp_path, **how)
    with pytest.raises(ConfigError):
        shards.consumed(tmp_path / "no-model.pt", epochs=1, code=tmp_path / "train.py")
    with pytest.raises(UnavailableError):
        shards.consumed(tmp_path, epochs=1, code=tmp_path / "train.py")
    assert log.bounds(0) == before


# ------------------------------------------------------------------------------------------------ processes


def test_what_travels_to_a_worker_has_no_connection(world: World) -> None:
    shards = world.shards()
    copy = pickle.loads(pickle.dumps(shards))
    assert [one.number for one in copy] == [one.number for one in shards]
    assert {type(value).__module__.partition(".")[0] for value in vars(shards).values()} <= {
        "builtins", "pathlib", "provenance", "torch"
    }  # fmt: skip
    kinds = {type(value).__name__ for value in vars(shards).values()}
    assert not any(word in kind for kind in kinds for word in ("Sqlite", "Reader", "Store", "Log", "Names"))


@pytest.mark.service
@forking
@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_two_workers_see_each_shard_once(world: World, tmp_path: Path, context: str) -> None:
    shards = world.shards(order_seed=3)
    shards.open(0)  # so that Zarr has its thread before the fork
    loader = DataLoader(shards, batch_size=None, num_workers=2, multiprocessing_context=context)
    found = list(loader)
    assert [shard.number for shard in found] == shards.order()
    assert all(isinstance(shard.parts["features"], torch.Tensor) for shard in found)
    assert shards.opened(verified=True) == [0, 1, 2]
    assert consumption(world, shards, tmp_path).shards.count == 3
    if context == "spawn":
        return  # importing torch in two processes once more would show nothing else
    with flipped(objects(world.arrays / "p00001/features")[0]), pytest.raises(VerificationError) as caught:
        list(loader)
    assert "shard 1, part 'p00001/features' of stage 'arrays'" in str(caught.value)
    assert "next: Do not train on it." in str(caught.value)


@pytest.mark.service
def test_on_a_real_chain(tmp_path: Path) -> None:
    run = record(tmp_path)
    folder = tmp_path / ".provenance"
    settings = config.load(folder)
    with pytest.raises(UnavailableError) as caught:
        VerifiedShards(run=run, stage="arrays", folder=folder)
    assert (caught.value.reason, caught.value.exit_code) == ("chain-down", 3)
    start_or_skip(settings.chain_path)
    try:
        bootstrap_chain.set_up_chain(settings)
        with pytest.raises(PendingError):
            VerifiedShards(run=run, stage="arrays", folder=folder)
        run_once(bootstrap_chain.batcher(settings), bootstrap_chain.batch_limits(settings))
        shards = VerifiedShards(run=run, stage="arrays", folder=folder)
        assert sorted(shard.number for shard in shards) == [0, 1, 2]
        with flipped(objects(tmp_path / "arrays.zarr/p00001/features")[0]):
            refused(shards, 1)
    finally:
        bootstrap_chain.stop_chain(settings)
    assert shards.open(1).verified, "what was proved needs no chain any more"


# -------------------------------------------------------------------------------------------- what is missing


def test_without_torch_the_remedy_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    for name in ("provenance.torch", "provenance.adapters.torch_dataset"):
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ConfigError) as caught:
        importlib.import_module("provenance.torch")
    assert (caught.value.reason, caught.value.exit_code) == ("extra-missing", 2)
    assert "provenance-ledger[torch]" in caught.value.remedy


def test_importing_the_package_imports_no_torch() -> None:
    code = "import sys, provenance; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
