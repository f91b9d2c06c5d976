"""What may befall the files of a cache while others use them."""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Callable
from pathlib import Path


def _cut(path: Path, choose: random.Random) -> None:
    os.truncate(path, choose.randrange(1 + path.stat().st_size))


def _flip(path: Path, choose: random.Random) -> None:
    with path.open("r+b") as file:
        at = choose.randrange(max(1, path.stat().st_size))
        file.seek(at)
        byte = file.read(1) or b"\0"
        file.seek(at)
        file.write(bytes([byte[0] ^ 1 << choose.randrange(8)]))


def _delete(path: Path, _choose: random.Random) -> None:
    path.unlink()


def _open_to_all(path: Path, _choose: random.Random) -> None:
    path.chmod(0o666)


def _swap(path: Path, choose: random.Random) -> None:
    """One object under another's name, whole and sealed: a backup that went wrong."""
    other = choose.choice(sorted(path.parent.glob("*.obj")))
    path.write_bytes(other.read_bytes())


def _leave_garbage(path: Path, choose: random.Random) -> None:
    (path.parent / f"garbage-{choose.randrange(5)}.tmp").write_bytes(b"garbage")


WAYS: tuple[Callable[[Path, random.Random], None], ...] = (_cut, _flip, _delete, _open_to_all, _swap, _leave_garbage)


def one(kernels: Path, choose: random.Random) -> str:
    """Damage one file in the folders of a cache; in what way, "" where there was nothing to damage."""
    files = sorted(kernels.glob("*/*.obj"))
    if not files:
        return ""
    way = choose.choice(WAYS)
    with contextlib.suppress(OSError):  # somebody was faster
        way(choose.choice(files), choose)
        return way.__name__.strip("_")
    return ""
