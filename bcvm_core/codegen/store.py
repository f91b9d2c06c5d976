"""Machine code of template kernels on disk: found by what it depends on, checked before use.

A file is a magic word, a SHA-256 of its name and the rest, and the object. Anything that is not exactly
that is a miss: damaged files, and those of another name, are never run, they are written again. Writers rename a finished
file into place, so concurrent processes see all of it or nothing. A directory that can't be
written, or a full disk, costs a compile per process and is no error.

What is read is run, so it must be the user's own (or the system's): folders are made with mode 0700, and a file or folder that others
own or may write to is a miss, too.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import platform
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Final

import numpy as np

from .. import config
from ..version import __version__

_MAGIC: Final = b"BCVMOBJ2"
HIT, ABSENT, DAMAGED, FOREIGN, WRITTEN, UNWRITTEN = "read", "not there", "damaged", "others may write it", "written", "could not be written"
counts: Counter[str] = Counter()  # what became of requests in this process
STALE_S: Final = 3600.0  # an unfinished file this old was left by a process that is dead
UNUSED_S: Final = 30 * 86400.0  # folders of other versions or processors go after this time without use
_SOURCES: Final = (
    "codegen/llvm.py",
    "codegen/versions.py",
    "codegen/tree_ir.py",
    "codegen/compiler.py",
    "codegen/onednn/digest.py",
    *(
        f"codegen/stencils/{name}.py"
        for name in (
            *("blob", "build", "describe", "driver", "ir", "native", "objects", "offsets", "primitives", "target"),
            "*_code",
        )
    ),
    *(f"codegen/rows/{name}.py" for name in ("code", "types", "passes", "recipes", "columns", "column_recipes")),
    *(f"codegen/attention/{name}.py" for name in ("kernel", "moves", "steps", "tiles")),
    *(f"codegen/products/{name}.py" for name in ("tiles", "amx*", "*_code")),
    *(f"codegen/pooling/{name}.py" for name in ("maxima", "maxima_code")),
    "ops/algorithms.py",
    "ops/algorithms_f32.py",
    "ops/algorithm_parts.py",
    "ops/gates.py",
    "ops/coefficients.py",
)


@functools.cache
def cpu_level() -> str:
    """The x86-64 level that code is made for ("x86-64-v4", "-v3", ""), "" on other machines: the host as it is."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return ""
    root = np._core if hasattr(np, "_core") else np.core
    features: dict[str, bool] = getattr(root._multiarray_umath, "__cpu_features__", {})
    if features.get("AVX512_SKX"):
        return "x86-64-v4"
    return "x86-64-v3" if features.get("AVX2") and features.get("FMA3") and features.get("F16C") else "x86-64"


@functools.cache
def key() -> str:
    """Names everything the code depends on: our version, platform, processor level, and the sources it is made from."""
    digest = hashlib.sha256(_MAGIC + f" {__version__} {sys.platform} {platform.machine()} {cpu_level()}".encode())
    if not cpu_level():
        digest.update(platform.processor().encode())
    package = Path(__file__).parent.parent
    for pattern in _SOURCES:
        for path in sorted(package.glob(pattern)):  # none in a zipped package: the version in the path has to do
            with contextlib.suppress(OSError):
                digest.update(path.read_bytes())
    return f"{cpu_level() or platform.machine()}-{digest.hexdigest()[:16]}"


def directory() -> Path:
    """Where objects of this key are kept (it need not exist)."""
    return cache_root() / "kernels" / key()


def cache_root() -> Path:
    """The folder of everything that BCVM keeps between processes (it need not exist)."""
    base = config.current.cache_dir
    if base is None:
        import platformdirs

        base = platformdirs.user_cache_dir("bcvm")
    return Path(base)


def read(name: str) -> bytes | None:
    """The object stored under `name`; None when there is none, it is damaged, or others may have written it."""
    _in_use(directory())
    _tidy(directory())
    return read_sealed(directory() / f"{name}.obj")


def write(name: str, body: bytes) -> bool:
    """Store an object; False when the directory can't be written."""
    _tidy(directory())
    return write_sealed(directory() / f"{name}.obj", body)


def read_sealed(path: Path, magic: bytes = _MAGIC) -> bytes | None:
    """What `write_sealed` put into a file; None when it is not there, damaged, or others may have written it."""
    try:
        with path.open("rb") as file:
            if not (_is_ours(os.fstat(file.fileno())) and _is_ours(path.parent.stat())):
                counts[FOREIGN] += 1
                return None
            data = file.read()
    except OSError:
        counts[ABSENT] += 1
        return None
    head = len(magic) + 32
    body = data[head:]
    if data[: len(magic)] != magic or data[len(magic) : head] != _seal(path, body):
        counts[DAMAGED] += 1
        return None
    counts[HIT] += 1
    return body


def write_sealed(path: Path, body: bytes, magic: bytes = _MAGIC) -> bool:
    """Write a file with its checksum, all at once; False when the directory can't be written."""
    temporary = None
    try:
        _make_private(path.parent)
        handle, temporary = tempfile.mkstemp(prefix=f"{path.stem}.", suffix=".tmp", dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(magic + _seal(path, body) + body)
        os.replace(temporary, path)
    except OSError:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        counts[UNWRITTEN] += 1
        return False
    counts[WRITTEN] += 1
    return True


def _seal(path: Path, body: bytes) -> bytes:
    """The checksum of what lies under a name: a file that was copied to another one is not what that asks for."""
    return hashlib.sha256(path.name.encode() + b"\0" + body).digest()


def _is_ours(status: os.stat_result) -> bool:
    """Whether nobody but the user and the system can have written it (where there are such owners)."""
    if not hasattr(os, "geteuid"):
        return True
    return status.st_uid in (os.geteuid(), 0) and not status.st_mode & 0o022


def _make_private(folder: Path) -> None:
    """Make a folder for this user alone, and those above it that are missing. Raises OSError."""
    if not folder.exists():
        if not folder.parent.exists():
            _make_private(folder.parent)
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
    if folder.stat().st_mode & 0o077:
        folder.chmod(0o700)


@functools.cache
def _in_use(folder: Path) -> None:
    """Note on the folder, once per process, that it is used."""
    with contextlib.suppress(OSError):
        os.utime(folder)


@functools.cache
def _tidy(folder: Path) -> None:
    """Take away, once per process, what processes that were killed left unfinished, and folders nobody has used for long."""
    now = time.time()
    with contextlib.suppress(OSError):
        for path in folder.glob("*.tmp"):
            if now - path.stat().st_mtime > STALE_S:
                path.unlink()
    with contextlib.suppress(OSError):
        for other in folder.parent.iterdir():
            if other != folder and other.is_dir() and now - other.stat().st_mtime > UNUSED_S:
                remove(other)


def remove(folder: Path) -> int:
    """Delete the files of a folder of ours, and the folder; how many bytes they had. What can't be deleted stays."""
    size = 0
    for path in (*folder.glob("*.obj"), *folder.glob("*.tmp")):
        with contextlib.suppress(OSError):
            size += path.stat().st_size
            path.unlink()
    with contextlib.suppress(OSError):
        folder.rmdir()
    return size
