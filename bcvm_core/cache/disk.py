"""The code cache on disk as people look at it: what it holds, what of it is damaged, and how to clear it.

`codegen.store` reads and writes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..codegen import store


@dataclass(frozen=True, slots=True)
class Folder:
    """The objects of one version and processor level. `damaged`: names of files that the next use replaces; `unfinished`: of writers."""

    key: str
    current: bool
    files: int
    bytes: int
    damaged: tuple[str, ...]
    unfinished: int


def root() -> Path:
    """Where the folders lie."""
    return store.cache_root() / "kernels"


def folders(verify: bool = False) -> list[Folder]:
    """What there is, the folder in use first; `verify` reads every file of that one. What can't be read is left out."""
    try:
        found = [path for path in root().iterdir() if path.is_dir()]
    except OSError:
        return []
    return sorted((_folder(path, verify) for path in found), key=lambda f: (not f.current, f.key))


def _folder(path: Path, verify: bool) -> Folder:
    current, size, files, damaged = path.name == store.key(), 0, 0, []
    try:
        objects = sorted(path.glob("*.obj"))
        unfinished = len(list(path.glob("*.tmp")))
    except OSError:
        objects, unfinished = [], 0
    for file in objects:
        try:
            size += file.stat().st_size
        except OSError:
            continue
        files += 1
        if verify and current and store.read_sealed(file) is None:
            damaged.append(file.name)
    return Folder(path.name, current, files, size, tuple(damaged), unfinished)


def requests() -> dict[str, int]:
    """What became of this process's requests: read, not there, damaged, others may write it, written, could not be written."""
    return dict(store.counts)


def clear() -> int:
    """Delete all objects of all versions; how many bytes that was. Processes that run keep what they have loaded."""
    return sum(store.remove(root() / folder.key) for folder in folders())
