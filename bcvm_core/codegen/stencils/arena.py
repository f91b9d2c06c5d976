"""Memory for spliced code: written through one mapping, run through another, never both in one.

One anonymous file is mapped twice, writable and executable. The mappings are shared between
processes, so a forked child moves its own copy under the same addresses before it runs on; until
it has, the parent puts nothing where code was freed.
"""

from __future__ import annotations

import collections
import ctypes
import os
import struct
import time
from typing import Final

from ... import locks

_SIZE: Final = 64 << 20  # reserved, not used: pages come into being when code is written
_GRAIN: Final = 128
_HEADER: Final = 64  # the first bytes: how many children have made their copy
_LOOSE: Final = 65536  # free bytes (and a quarter of what is in use) before blocks of other sizes are cut up
_PATIENCE_S: Final = 30.0  # after this a child that has not reported is taken for dead
_READ, _WRITE, _EXEC, _SHARED, _FIXED = 1, 2, 4, 1, 0x10


class ArenaError(Exception):
    """There is no executable memory, or no more of it."""


def _rounded(size: int) -> int:
    """Block sizes in use: few, so that a freed block soon fits again (at most an eighth is wasted)."""
    step = max(_GRAIN, 1 << max(0, size.bit_length() - 4))
    return -(-size // step) * step


def _joined(blocks: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Blocks as (offset, bytes), by offset: those that touch as one."""
    out: list[tuple[int, int]] = []
    for at, size in blocks:
        if out and out[-1][0] + out[-1][1] == at:
            out[-1] = out[-1][0], out[-1][1] + size
        else:
            out.append((at, size))
    return out


class Arena:
    """`put` gives the address of a copy of some code, `free` takes it back."""

    def __init__(self, size: int = _SIZE) -> None:
        """Raises ArenaError where executable memory is barred."""
        self.size = size
        self._lock = locks.lock()
        self._free: dict[int, list[int]] = {}
        self._returned: collections.deque[tuple[int, int]] = collections.deque()  # freed since the lock was last held
        self._end = _HEADER
        self._used = 0
        self._forks, self._last_fork = 0, 0.0
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._libc.mmap.restype = ctypes.c_void_p
        self._libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
        descriptor = self._open()
        try:
            self.write_at = self._map(descriptor, None, _READ | _WRITE)
            self.base = self._map(descriptor, None, _READ | _EXEC)
        finally:
            os.close(descriptor)
        self.view = self._window()

    def _open(self) -> int:
        try:
            descriptor = os.memfd_create("bcvm-code", os.MFD_CLOEXEC)
            os.ftruncate(descriptor, self.size)
        except (AttributeError, OSError) as error:
            raise ArenaError(f"no memory for code: {error}") from error
        return descriptor

    def _map(self, descriptor: int, address: int | None, protection: int) -> int:
        fixed = _FIXED if address is not None else 0
        found: int | None = self._libc.mmap(address, self.size, protection, _SHARED | fixed, descriptor, 0)
        if found is None or found == ctypes.c_void_p(-1).value:
            raise ArenaError(f"executable memory is barred (errno {ctypes.get_errno()})")
        return found

    def _window(self) -> memoryview:
        return memoryview((ctypes.c_ubyte * self.size).from_address(self.write_at)).cast("B")

    # -- blocks ---------------------------------------------------------------------------------

    @property
    def used_bytes(self) -> int:
        """Bytes in blocks that are in use."""
        with self._lock:
            self._settle()
            return self._used

    @property
    def reserved_bytes(self) -> int:
        """Bytes that were ever in use: what the arena costs."""
        return self._end

    def figures(self) -> dict[str, float]:
        """Bytes in use, free between blocks and never used; and the fragmentation: the share of the free that is not in the largest gap."""
        with self._lock:
            self._settle()
            self._merge()
            sizes = [size for size, places in self._free.items() for _ in places]
            free = sum(sizes)
            split = 1 - max(sizes) / free if free else 0.0
            return {"used_bytes": self._used, "free_bytes": free, "unused_bytes": self.size - self._end, "fragmentation": split}

    def gaps(self) -> tuple[int, list[tuple[int, int]]]:
        """(the end of what was ever in use, the free blocks before it as (offset, bytes)), neighbours as one, by offset."""
        with self._lock:
            self._settle()
            blocks = sorted((at, size) for size, places in self._free.items() for at in places)
            return self._end, _joined(blocks)

    def reserve(self, size: int) -> int:
        """The offset of a free block of `size` bytes. Raises ArenaError when there is none."""
        block = _rounded(size)
        with self._lock:
            self._settle()
            at = self._place(block)
            if not at:
                raise ArenaError(f"all {self.size >> 20} MiB for code are in use")
            self._used += block
            return at

    def _place(self, block: int) -> int:
        """A freed block of this size; where much is free, a piece of a larger one; else one that was never used. 0: there is none."""
        if self._may_reuse():
            waiting = self._free.get(block)
            if waiting:
                return waiting.pop()
            free = self._end - _HEADER - self._used
            if (free > _LOOSE and free > self._used // 4) or self._end + block > self.size:
                at = self._larger(block)
                if not at:
                    self._merge()
                    at = self._larger(block)
                if at:
                    return at
        if self._end + block > self.size:
            return 0
        self._end += block
        return self._end - block

    def _larger(self, block: int) -> int:
        """A piece of the smallest free block that is large enough; the rest of it goes back. 0: there is none."""
        size = min((size for size, places in self._free.items() if size >= block and places), default=0)
        if not size:
            return 0
        at = self._free[size].pop()
        if size > block:
            self._free.setdefault(size - block, []).append(at + block)
        return at

    def _merge(self) -> None:
        """Make one block of neighbours."""
        blocks = sorted((at, size) for size, places in self._free.items() for at in places)
        self._free = {}
        for at, size in _joined(blocks):
            self._free.setdefault(size, []).append(at)

    def put(self, code: bytes | bytearray) -> int:
        """The offset of a block that holds `code`; code with relative holes is written with `view` after `reserve`."""
        at = self.reserve(len(code))
        self.view[at : at + len(code)] = code
        return at

    def free(self, at: int, size: int) -> None:
        """Take back a block; nobody may be running it. Called wherever garbage is collected, so it waits for no lock."""
        self._returned.append((at, _rounded(size)))

    def _settle(self) -> None:
        """Put what came back among the free blocks (the lock is held)."""
        while self._returned:
            at, block = self._returned.popleft()
            self._free.setdefault(block, []).append(at)
            self._used -= block

    # -- forks ----------------------------------------------------------------------------------

    def _may_reuse(self) -> bool:
        if not self._forks:
            return True
        copied = struct.unpack_from("<Q", self.view, 0)[0]
        if copied >= self._forks or time.monotonic() - self._last_fork > _PATIENCE_S:
            struct.pack_into("<Q", self.view, 0, 0)
            self._forks = 0
            return True
        return False

    def before_fork(self) -> None:
        """Nothing is written while the process divides."""
        self._lock.acquire()

    def after_fork_in_parent(self) -> None:
        """Wait with freed blocks until the child has its copy."""
        self._forks, self._last_fork = self._forks + 1, time.monotonic()
        self._lock.release()

    def after_fork_in_child(self) -> None:
        """Put a copy of all code in the place of the shared one."""
        descriptor = self._open()
        try:
            shared = self.view
            at = 0
            while at < self._end:
                at += os.pwrite(descriptor, shared[at : self._end], at)
            head = struct.unpack_from("<Q", shared, 0)[0]
            struct.pack_into("<Q", shared, 0, head + 1)
            self._map(descriptor, self.write_at, _READ | _WRITE)
            self._map(descriptor, self.base, _READ | _EXEC)
        finally:
            os.close(descriptor)
        self._forks = 0
        struct.pack_into("<Q", self.view, 0, 0)


_shared: list[Arena | str] = []
_making = locks.lock()


def shared() -> Arena:
    """The process's arena, made at first use. Raises ArenaError."""
    if not _shared:
        with _making:
            if not _shared:
                _shared.append(_make())
    found = _shared[0]
    if isinstance(found, str):
        raise ArenaError(found)
    return found


def is_open() -> bool:
    """Whether this process has used it."""
    return bool(_shared)


def _make() -> Arena | str:
    try:
        arena = Arena()
    except ArenaError as error:
        return str(error)
    os.register_at_fork(before=arena.before_fork, after_in_parent=arena.after_fork_in_parent, after_in_child=arena.after_fork_in_child)
    return arena
