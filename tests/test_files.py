"""Files are written whole or not at all, read bounded, and refused where others may read what is private."""

from __future__ import annotations

import errno
import functools
import os
from pathlib import Path
from typing import IO

import pytest

from provenance import files
from provenance.errors import ConfigError, MalformedError, UnavailableError
from tests.together import run_together


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("private", [False, True])
def test_a_written_file_has_its_bytes_and_mode(tmp_path: Path, private: bool) -> None:
    path = tmp_path / "a"
    files.write_file(path, b"one", private=private)
    files.write_file(path, b"two", private=private)
    assert path.read_bytes() == b"two"
    assert bool(path.stat().st_mode & 0o077) is not private
    assert names(tmp_path) == ["a"]


def test_a_created_file_is_not_written_over(tmp_path: Path) -> None:
    assert files.create_file(tmp_path / "a", b"one", private=True)
    assert not files.create_file(tmp_path / "a", b"two")
    assert (tmp_path / "a").read_bytes() == b"one"
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o600
    assert names(tmp_path) == ["a"]


def test_of_several_processes_at_once_one_creates(tmp_path: Path) -> None:
    printed = run_together(
        "import os, pathlib; from provenance import files",
        "print(os.getpid(), files.create_file(pathlib.Path(sys.argv[1]), str(os.getpid()).encode()))",
        tmp_path / "a",
    )
    (made,) = [line.split()[0] for line in printed if line.split()[1] == "True"]
    assert (tmp_path / "a").read_text() == made
    assert names(tmp_path) == ["a"]


def open_full_device(descriptor: int, _: str) -> IO[bytes]:
    os.close(descriptor)
    return Path("/dev/full").open("wb")


@pytest.mark.parametrize("operation", ["write", "fsync"])
def test_a_full_disk_leaves_everything_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    path = tmp_path / "a"
    files.write_file(path, b"one")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    if operation == "fsync":
        monkeypatch.setattr(os, "fsync", full)
    else:
        monkeypatch.setattr(files, "open", open_full_device, raising=False)
    for write, target in ((files.write_file, path), (files.create_file, tmp_path / "b")):
        with pytest.raises(UnavailableError) as caught:
            write(target, b"two")
        assert caught.value.reason == "enospc"
        assert str(target) in caught.value.message
        assert "Free some space" in caught.value.remedy
    assert path.read_bytes() == b"one"
    assert names(tmp_path) == ["a"]


def test_a_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match=r"b/a: cannot write it"):
        files.write_file(tmp_path / "b" / "a", b"")


def test_folders_are_made_with_those_above(tmp_path: Path) -> None:
    files.make_folder(tmp_path / "a" / "b", private=True)
    files.make_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "a").stat().st_mode & 0o700 == 0o700


def test_a_file_in_the_place_of_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"")
    with pytest.raises(UnavailableError, match="cannot make it"):
        files.make_folder(tmp_path / "a" / "b" / "c")


def test_reading_is_bounded(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    assert files.read_file(tmp_path / "a", 5) == b"12345"
    with pytest.raises(MalformedError, match="5 bytes, expected at most 4"):
        files.read_file(tmp_path / "a", 4)
    assert files.read_file(tmp_path / "b", 4) is None
    assert files.read_file(tmp_path / "a" / "b", 4) is None


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "folder"):
        with pytest.raises(MalformedError) as caught:
            files.read_file(tmp_path / name, 10)
        assert caught.value.reason == "not-a-file"
    (tmp_path / "a").write_bytes(b"")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    with pytest.raises(UnavailableError) as refused:
        files.read_file(tmp_path / "link", 10)
    assert refused.value.reason == "eloop"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644, 0o777, 0o610])
def test_what_others_may_open_is_not_private(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "a"
    files.write_file(path, b"secret", private=True)
    assert files.read_file(path, 10, private=True) == b"secret"
    files.check_private(path)
    path.chmod(mode)
    for check in (functools.partial(files.read_file, limit=10, private=True), files.check_private):
        with pytest.raises(ConfigError) as caught:
            check(path)
        assert f"chmod 600 {path}" in caught.value.remedy
        assert f"{mode:04o}" in caught.value.message
        assert "secret" not in caught.value.message


def test_what_is_absent_is_private(tmp_path: Path) -> None:
    files.check_private(tmp_path / "a")


@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS, errno.EMFILE, errno.EIO])
def test_what_the_system_says_is_passed_on_with_a_next_step(tmp_path: Path, code: int) -> None:
    error = files.refused(OSError(code, os.strerror(code)), tmp_path, "read")
    assert os.strerror(code) in error.message
    assert str(tmp_path) in error.message
    assert error.remedy
    assert error.reason == errno.errorcode[code].lower()


MOUNTS = """\
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/sda rw
28 27 0:40 / /mnt/share rw - nfs4 server:/export rw
29 28 0:41 / /mnt/share/local rw - ext4 /dev/sdb rw
30 27 0:42 / /mnt/with\\040space rw - cifs //server/x rw
31 27 0:43 / /mnt/twice rw - ext4 /dev/sdc rw
32 27 0:44 / /mnt/twice rw - fuse.sshfs me@there: rw
33 27 0:45 / /mnt/overlay rw - fuse.fuse-overlayfs overlay rw
34 27 0:46 / /mnt/shared rw - fuseblk /dev/sdd rw
a line that is none
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/mnt/share", "nfs4"),
        ("/mnt/share/a/b", "nfs4"),
        ("/mnt/with space/a", "cifs"),
        ("/mnt/twice/a", "fuse.sshfs"),
        ("/mnt/share/local/a", None),
        ("/mnt/sharesecond", None),
        ("/mnt/overlay/a", None),
        ("/mnt/shared/a", None),
        ("/srv", None),
        ("/", None),
    ],
)
def test_network_file_systems_are_told_by_the_innermost_mount(
    tmp_path: Path, path: str, kind: str | None
) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS)
    assert files.network_filesystem(type(tmp_path)(path), mounts) == kind


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3", "9p", "afs", "ceph", "lustre", "fuse.s3fs"])
def test_they_are_known(tmp_path: Path, kind: str) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"27 1 254:0 / / rw - {kind} x rw\n")
    assert files.network_filesystem(tmp_path, mounts) == kind


def test_a_link_is_followed_to_where_the_file_would_be(tmp_path: Path) -> None:
    mounts = tmp_path / "mountinfo"
    (tmp_path / "far").mkdir()
    mounts.write_text(f"1 1 0:1 / / rw - ext4 x rw\n2 1 0:2 / {tmp_path / 'far'} rw - nfs x rw\n")
    (tmp_path / "link").symlink_to(tmp_path / "far")
    assert files.network_filesystem(tmp_path / "link" / "not" / "yet", mounts) == "nfs"
    assert files.network_filesystem(tmp_path / "near", mounts) is None


def test_a_system_that_does_not_say_is_believed_local(tmp_path: Path) -> None:
    assert files.network_filesystem(tmp_path, tmp_path / "absent") is None
