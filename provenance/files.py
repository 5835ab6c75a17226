"""Files as this package writes and reads them: whole or not at all, synced, bounded, private where need be.

A file is staged under another name in the same folder, synced, and given its name in one step: by renaming,
which replaces, or by linking, which refuses to. Whoever reads sees the old bytes or the new ones, after a
power cut too. A crash in between leaves a hidden ``.NAME.….tmp``, which nothing reads.

Every ``OSError`` becomes ``UnavailableError``: the file, what the system said, the next step.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from provenance.errors import ConfigError, MalformedError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "check_private",
    "create_file",
    "make_folder",
    "network_filesystem",
    "read_file",
    "refuse_address",
    "refused",
    "staged",
    "sync_folder",
    "without_secrets",
    "write_file",
]

MOUNTS = Path("/proc/self/mountinfo")  # proc_pid_mountinfo(5)
_MAX_MOUNTS = 16 << 20
_CHUNK = 1 << 20

# Their locks and shared memory do not hold between machines, which is what SQLite's WAL rests on.
_NETWORK = re.compile(
    r"9p|acfs|afs|afpfs|beegfs|ceph(fs)?|cifs|coda|cvmfs|davfs|gfs2?|glusterfs|gpfs|lustre|ncpfs|nfs4?|ocfs2"
    r"|orangefs|pvfs2|smb3|smbfs"
    r"|fuse\.(afp|beegfs|ceph|cephfs|curlftpfs|davfs2?|gcsfuse|glusterfs|goofys|juicefs|mount(point)?-s3|nfs"
    r"|quobyte|rclone|s3fs|seaweedfs|smbnetfs|sshfs)"
)
# Of two letters at least, so that no drive is taken for one; `Path` makes one slash of two.
_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]+):/{1,2}[^/\s]", re.IGNORECASE)
_SECRETS = re.compile(r"\b[a-z][a-z0-9+.-]+:/{1,2}[^/\s][^\s'\"]*[@?#][^\s'\"]*", re.IGNORECASE)
_REMEDIES = {
    errno.ENOSPC: "Free some space, then call the same command again; nothing that was recorded is lost.",
    errno.EDQUOT: "Free some of the quota, then call it again; nothing that was recorded is lost.",
    errno.EFBIG: "Raise the limit on the size of files (ulimit -f), then call it again; nothing is lost.",
    errno.EROFS: "Choose a folder that can be written to, with --folder or PROVENANCE_FOLDER.",
    errno.EACCES: "Run as a user who may read and write it.",
    errno.EPERM: "Run as a user who may read and write it, on a file system that has hard links.",
    errno.EMFILE: "Raise the limit of open files (ulimit -n), then call the same command again.",
    errno.ELOOP: "Remove the symbolic link: files of this package are never reached through one.",
    errno.EOPNOTSUPP: "Choose a folder on a file system that has hard links.",
}


def refused(error: OSError, path: Path, doing: str) -> UnavailableError:
    """The error to raise for what the system said while ``doing`` ("write", "read") something to ``path``."""
    return UnavailableError(
        f"{path}: cannot {doing} it: {error.strerror or error}",
        reason=errno.errorcode.get(error.errno or 0, "os-error").lower(),
        remedy=_REMEDIES.get(
            error.errno or 0, "Look at the file and its folder, then call the same command again."
        ),
    )


def refuse_address(
    place: str | os.PathLike[str], *, remedy: str = "Download it, or mount it, and give the path."
) -> None:
    """Raise ``ConfigError`` if an address was given for a path.

    It may hold a password or a signature, so it is repeated in no message.
    """
    found = _ADDRESS.match(os.fspath(place))
    if found:
        raise ConfigError(
            f"an address ({found[1]}) was given where a path of this machine is expected",
            reason="address",
            remedy=remedy,
        )


def without_secrets(text: str) -> str:
    """A message of somebody else's, with ``(address)`` where an address has a user, a query or a fragment."""
    return _SECRETS.sub("(address)", text)


def make_folder(path: Path, *, private: bool = False) -> None:
    """Make a folder and those above it, durably; one that is there stays as it is.

    Args:
        path: the folder.
        private: give the last one mode 0700.
    """
    missing: list[Path] = []
    place = path
    while not place.exists():
        missing.append(place)
        place = place.parent
    for folder in reversed(missing):
        try:
            folder.mkdir(0o700 if private and folder == path else 0o777, exist_ok=True)
        except OSError as error:
            raise refused(error, folder, "make") from error
        sync_folder(folder.parent)


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise refused(error, path, "sync") from error


@contextlib.contextmanager
def staged(path: Path, data: bytes = b"", *, private: bool = False) -> Iterator[Path]:
    """A synced file with these bytes under another name beside ``path``; whatever bears that name is removed.

    Within the block it is renamed or linked to where it belongs.
    """
    place = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        with open(os.open(place, flags, 0o600 if private else 0o666), "wb") as file:  # noqa: PTH123 - a descriptor
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        yield place
    except OSError as error:
        raise refused(error, path, "write") from error
    finally:
        with contextlib.suppress(OSError):
            place.unlink(missing_ok=True)


def write_file(path: Path, data: bytes, *, private: bool = False) -> None:
    """Write a file, replacing the one that is there; durable when it returns."""
    with staged(path, data, private=private) as place:
        place.replace(path)
    sync_folder(path.parent)


def create_file(path: Path, data: bytes, *, private: bool = False) -> bool:
    """Write a file unless there is one by that name, in one step; durable when it returns.

    Returns:
        Whether this call made it: of several at once, one does.
    """
    made = False
    if not path.exists():
        with staged(path, data, private=private) as place, contextlib.suppress(FileExistsError):
            path.hardlink_to(place)
            made = True
    sync_folder(path.parent)  # for a file that another process has just made, too
    return made


def read_file(path: Path, limit: int, *, private: bool = False) -> bytes | None:
    """The bytes of a regular file, or None if there is none.

    Args:
        path: the file; a symbolic link in its place is refused.
        limit: in bytes.
        private: refuse it if others may read it.

    Raises:
        MalformedError: more bytes than the limit, or no regular file.
        ConfigError: not private.
        UnavailableError: it cannot be read.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a pipe in its place must not block
    try:
        with open(os.open(path, flags), "rb") as file:  # noqa: PTH123 - a descriptor
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise MalformedError(f"{path}: expected a regular file", reason="not-a-file")
            if private:
                _require_private(path, status.st_mode)
            # Not limit + 1 at once: that much would be allocated, and a limit may be gigabytes.
            data = file.read(min(status.st_size, limit) + 1)
            while len(data) <= limit and (more := file.read(min(_CHUNK, limit + 1 - len(data)))):
                data += more  # it grew meanwhile, or is one of /proc, which has no size
    except (FileNotFoundError, NotADirectoryError):
        return None
    except IsADirectoryError as error:
        raise MalformedError(
            f"{path}: expected a regular file, found a folder", reason="not-a-file"
        ) from error
    except OSError as error:
        raise refused(error, path, "read") from error
    if len(data) > limit:
        size = max(status.st_size, len(data))
        raise MalformedError(f"{path}: {size} bytes, expected at most {limit}", reason="too-long")
    return data


def check_private(path: Path) -> None:
    """Raise ``ConfigError`` if a file is there and anybody but its owner may open it."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise refused(error, path, "read") from error
    _require_private(path, mode)


def _require_private(path: Path, mode: int) -> None:
    if mode & 0o077:
        raise ConfigError(
            f"{path}: others on this machine may open it (mode {mode & 0o777:04o}, expected 0600)",
            reason="not-private",
            remedy=f"Run: chmod 600 {path}   If others may have read it, make a new key or secret.",
        )


def network_filesystem(path: Path, mounts: Path = MOUNTS) -> str | None:
    """The type of the network file system that ``path`` is or would be on, or None.

    None too where the system has no ``/proc``, and so does not say.
    """
    try:
        table = read_file(mounts, _MAX_MOUNTS)
    except UnavailableError:
        return None
    place = os.path.realpath(path)
    best, kind = "", ""
    for line in (table or b"").decode("utf-8", "surrogateescape").splitlines():
        left, _, right = line.partition(" - ")
        fields, rest = left.split(" "), right.split(" ")
        if len(fields) < 6:
            continue
        point = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), fields[4])
        below = place == point or place.startswith(point.rstrip("/") + "/")
        if below and len(point) >= len(best):  # of mounts on one place, the last one is seen
            best, kind = point, rest[0]
    return kind if _NETWORK.fullmatch(kind) else None
