"""The data level: every way in which stored bytes can differ from what was recorded of them."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest

from provenance.core.records import Subject
from provenance.core.tree_lists import encode_tree_list, tree_list_name
from provenance.errors import UnavailableError
from tests.services.audit_world import COUNT, World, codes


@pytest.fixture
def world(tmp_path):
    return World(tmp_path).complete()


def found(report, code):
    return [one for one in report.findings if one.code == code]


def keep_list(world):
    """What a driver may leave in the batch store: the store's list of files."""
    tree = world.tree()
    world.store.put(tree_list_name(tree.value), encode_tree_list(tree.entries))


def test_everything_is_read(world):
    report = world.audit()
    assert report.exit_code == 0
    assert (report.data.raw_files, report.data.stored_parts, report.data.objects) == (
        COUNT,
        COUNT,
        2 * COUNT + 1,
    )
    size = sum(path.stat().st_size for path in world.folder.rglob("*") if path.is_file())
    assert report.data.bytes == size


def test_a_changed_object_names_stage_and_shard(world):
    path = world.folder / "store/p00003/mel/c/0"
    path.write_bytes(b"\x01" + path.read_bytes()[1:])
    report = world.audit()
    (one,) = found(report, "object-changed")
    assert (one.stage, one.shard, one.object) == ("store", 3, "p00003/mel")
    assert one.expected == f"tree1-sha256:{world.stored[3].subjects[0].digest['tree1-sha256']}"
    assert one.actual == f"tree1-sha256:{world.tree('p00003/mel').hex}"
    assert codes(report) == ["object-changed", "store-changed"]
    assert (report.exit_code, report.verdict("chain"), report.verdict("data")) == (1, "passed", "failed")
    assert report.runs[0].complete, "the records are"


def test_with_the_stores_list_the_object_itself_is_named(world):
    keep_list(world)
    assert world.audit().exit_code == 0
    path = world.folder / "store/p00003/mel/c/0"
    path.write_bytes(b"\x01" + path.read_bytes()[1:])
    (world.folder / "store/p00004/mel/c/0").unlink()
    (world.folder / "store/p00005/mel/c/1").write_bytes(b"more")
    (world.folder / "store/zarr.json").write_bytes(b"{}")
    (world.folder / "store/stray").write_bytes(b"?")
    report = world.audit()
    named = {(one.code, one.shard, one.object) for one in report.findings}
    assert named == {
        ("object-changed", 3, "p00003/mel/c/0"),
        ("object-missing", 4, "p00004/mel/c/0"),
        ("object-extra", 5, "p00005/mel/c/1"),
        ("object-changed", None, "zarr.json"),
        ("object-extra", None, "stray"),
    }


def test_without_it_objects_outside_of_the_parts_are_listed(world):
    (world.folder / "store/zarr.json").write_bytes(b"{}")
    (world.folder / "store/stray").write_bytes(b"?")
    report = world.audit()
    (one,) = found(report, "store-changed")
    assert "stray, zarr.json" in one.message
    assert one.expected.endswith(f"over {2 * COUNT + 1} files")
    assert codes(report) == ["store-changed"]


@pytest.mark.parametrize("damage", [b"", b"\x00\x00", "other"])
def test_a_list_that_is_not_the_stores_is_not_used(world, damage):
    keep_list(world)
    name = tree_list_name(world.tree().value)
    entries = world.tree().entries
    world.store.objects[name] = encode_tree_list(entries[1:]) if damage == "other" else damage
    (world.folder / "store/p00003/mel/c/0").write_bytes(b"")
    report = world.audit()
    assert codes(report) == ["object-changed", "store-changed"]
    assert len(found(report, "tree-list")) == 1


def test_a_part_that_is_gone(world):
    shutil.rmtree(world.folder / "store/p00003")
    report = world.audit()
    (one,) = found(report, "object-missing")
    assert (one.stage, one.shard, one.object) == ("store", 3, "p00003/mel")


def test_a_store_that_is_gone(world):
    shutil.rmtree(world.folder / "store")
    report = world.audit()
    assert len(found(report, "object-missing")) == COUNT
    assert report.exit_code == 1


def test_a_part_replaced_by_a_file_and_by_a_link(world):
    place = world.folder / "store/p00003/mel"
    shutil.rmtree(place)
    place.write_bytes(b"a file")
    assert codes(world.audit()) == ["object-missing", "store-changed"]
    place.unlink()
    place.mkdir()
    (place / "c").symlink_to(world.folder / "store/p00004/mel/c")
    (one,) = [one for one in world.audit().findings if one.shard == 3]
    assert (one.code, one.object) == ("odd-object", "p00003/mel")
    assert str(world.folder) not in one.message


def test_raw_files(world):
    (world.folder / "raw/speaker 0/2.wav").write_bytes(b"changed")
    (world.folder / "raw/speaker 1/3.wav").unlink()
    report = world.audit()
    (changed,) = found(report, "raw-changed")
    (missing,) = found(report, "raw-missing")
    assert (changed.stage, changed.shard, changed.detail) == (
        "raw",
        2,
        str(world.folder / "raw/speaker 0/2.wav"),
    )
    assert changed.object == world.raw[2].subjects[0].name
    assert missing.shard == 3
    assert "speaker" not in changed.message + missing.message + changed.object


class Refusing:
    """Stored files of which some cannot be read now."""

    def __init__(self, files, part, error):
        self.files, self.part, self.error = files, part, error

    def file(self, path):
        if self.part in path:
            raise self.error
        return self.files.file(path)

    def paths(self, folder):
        return self.files.paths(folder)


def test_what_cannot_be_read_is_unreachable(world):
    error = UnavailableError(f"{world.folder}: cannot read it", reason="eio")
    report = world.audit(files=Refusing(world.ports().files, "raw/speaker 0", error))
    assert report.exit_code == 3
    assert {one.shard for one in found(report, "unreadable")} == {0, 2, 4, 6}
    assert str(world.folder) not in found(report, "unreadable")[0].message
    report = world.audit(files=Refusing(world.ports().files, "zarr.json", error))
    assert {one.shard for one in found(report, "unreadable")} == {*range(COUNT), None}


def test_where_nobody_knows_where_it_lies(world):
    report = world.audit(names=None)
    assert report.exit_code == 3
    assert sorted(one.stage for one in found(report, "location-unknown")) == ["raw", "store"]
    assert world.audit(files=None).exit_code == 3


def test_chain_level_reads_no_stored_byte(world):
    shutil.rmtree(world.folder / "store")
    report = world.audit(level="chain")
    assert (report.exit_code, report.data.objects) == (0, 0)


# ---------------------------------------------------------------------------------------------- odd records


def audited(tmp_path, change):
    world = World(tmp_path)
    world.start()
    world.compute()
    change(world)
    world.emit()
    world.seal()
    world.anchor()
    return world.audit()


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "a/../../b", "nul\x00"])
def test_a_name_never_leads_out_of_its_folder(tmp_path, name):
    def stored(world):
        subject = world.stored[1].subjects[0]
        world.stored[1] = replace(world.stored[1], subjects=(replace(subject, name=name),))

    report = audited(tmp_path / "stored", stored)
    assert found(report, "unsafe-name")[0].object == name

    def raw(world):
        subject = world.raw[1].subjects[0]
        world.raw[1] = replace(world.raw[1], subjects=(replace(subject, name=name),))

    assert found(audited(tmp_path / "raw", raw), "unsafe-name")[0].object == name


def test_a_stored_part_without_a_physical_digest(tmp_path):
    def change(world):
        subject = world.stored[1].subjects[0]
        logical = {"array1-sha256": subject.digest["array1-sha256"]}
        world.stored[1] = replace(world.stored[1], subjects=(Subject(subject.name, logical),))

    assert found(audited(tmp_path, change), "no-physical-digest")[0].shard == 1


def test_names_that_are_not_personal_are_paths(tmp_path):
    def change(world):
        subject = world.raw[1].subjects[0]
        world.raw[1] = replace(world.raw[1], subjects=(replace(subject, name="speaker 1/1.wav"),))
        used = replace(world.feature[1].inputs[0], record=world.id_of(world.raw[1]), name="speaker 1/1.wav")
        world.feature[1] = replace(world.feature[1], inputs=(used,))
        used = replace(world.stored[1].inputs[0], record=world.id_of(world.feature[1]))
        world.stored[1] = replace(world.stored[1], inputs=(used,))

    assert audited(tmp_path, change).exit_code == 0


def test_a_file_that_was_split_is_read_once(tmp_path):
    def change(world):
        same = world.raw[0].subjects
        for number in range(1, COUNT):
            world.raw[number] = replace(world.raw[number], subjects=same)

    assert audited(tmp_path, change).data.raw_files == 1


def test_rejected_parts_are_counted_and_not_looked_for(tmp_path):
    nothing = {"sha256": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}

    def change(world):
        marked = Subject("ab" * 32 + "#rejected:unreadable", nothing)
        world.raw[1] = replace(world.raw[1], subjects=(marked,))
        world.stored[2] = replace(world.stored[2], subjects=(), rows=0, rejected="too-short")

    report = audited(tmp_path, change)
    assert [stage.rejected for stage in report.runs[0].stages] == [1, 0, 1]
    assert report.data.raw_files == COUNT - 1
    assert report.verdict("data") == "passed"


def test_a_source_given_in_memory_has_no_bytes(tmp_path):
    def change(world):
        for number, raw in enumerate(world.raw):
            part = Subject(f"p{number:05d}", {"table1-sha256": "0" * 64})
            world.raw[number] = replace(raw, subjects=(part,))

    report = audited(tmp_path, change)
    assert (len(found(report, "nothing-stored")), report.data.raw_files) == (1, 0)


def test_a_store_of_many_objects_is_read_once(world, tmp_path):
    for number in range(600):  # among so many paths some have hashes that end in a zero byte
        (world.folder / f"store/p00006/mel/{number}").write_bytes(b"%d" % number)
    part = world.stored[6].subjects[0]
    grown = replace(part, digest={**part.digest, "tree1-sha256": world.tree("p00006/mel").hex})
    changed = World(tmp_path / "second")
    changed.start()
    changed.compute()
    shutil.rmtree(changed.folder)
    world.folder.joinpath("store").rename(changed.folder.parent / "kept")
    changed.folder.mkdir()
    changed.folder.parent.joinpath("kept").rename(changed.folder / "store")
    world.folder.joinpath("raw").rename(changed.folder / "raw")
    changed.stored[6] = replace(changed.stored[6], subjects=(grown,))
    changed.emit()
    changed.seal()
    changed.anchor()
    report = changed.audit()
    assert (report.exit_code, report.data.objects) == (0, 2 * COUNT + 1 + 600)
