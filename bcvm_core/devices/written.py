"""Whether memory has been written since it was last looked at, asked of the operating system.

Linux (6.7 and later) keeps a mark per page that a write sets, whoever writes (this process, a library, the kernel on its behalf). It
costs the writer one short fault per page, and asking costs microseconds where reading megabytes costs milliseconds. Only private
memory that is there (no files, nothing shared with other processes, nothing swapped out) is answered for; whatever else is there, or has
been mapped anew, counts as written. Where there is no such system, nothing is known and `Watch.begin` says so.

What the marks don't see: devices that write into memory which was handed to them for good before (registered buffers).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import struct
import sys
import weakref
from typing import Final

from .. import config, locks

_PAGE: Final = 4096
_SYSCALL: Final = {"x86_64": 323, "aarch64": 282}
_USER_ONLY: Final = 1  # allowed without privileges; the marks need no more
_API, _API_CALL, _REGISTER_CALL, _SCAN_CALL = 0xAA, 0xC018AA3F, 0xC020AA00, 0xC0606610
_WP, _UNPOPULATED, _ASYNC = 1 << 0, 1 << 13, 1 << 15  # features: marks, also of pages that are not there yet, set without asking us
_REGISTER_WP: Final = 2
_PROTECT, _CHECK = 1, 2  # flags of a scan: clear the marks; fail where there are none
_IS_WRITTEN, _IS_FILE, _IS_PRESENT = 2, 4, 8
_MAPPING: Final = struct.Struct("9Q2I2I2Q")  # what Linux (6.11 and later) tells of a mapping, by
_MAPPING_CALL: Final = 0xC0686611
_SHARED: Final = 8
_REGION: Final = struct.calcsize("QQQ")
LEAST: Final = 16 * _PAGE  # of smaller memory a digest is as fast
_MAX_REST: Final = 256


class _System:
    """The two files of this process by which marks are set and read."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.faults = self.pages = self.mappings = -1
        self.lock = locks.lock()
        self.watches: weakref.WeakValueDictionary[tuple[int, int], Watch] = weakref.WeakValueDictionary()
        number = _SYSCALL.get(platform.machine())
        if sys.platform != "linux" or number is None or os.sysconf("SC_PAGESIZE") != _PAGE:
            return
        from fcntl import ioctl  # not on every system

        self.ioctl = ioctl
        faults = ctypes.CDLL(None).syscall(number, os.O_CLOEXEC | _USER_ONLY)
        if faults < 0:
            return
        try:
            ioctl(faults, _API_CALL, bytearray(struct.pack("QQQ", _API, _WP | _UNPOPULATED | _ASYNC, 0)))
            self.pages = os.open("/proc/self/pagemap", os.O_RDONLY | os.O_CLOEXEC)
            self.mappings = os.open("/proc/self/maps", os.O_RDONLY | os.O_CLOEXEC)
            self.faults = faults
        except OSError:
            os.close(faults)

    def close(self) -> None:
        """Give the files back; what is registered is no more."""
        for file in (self.faults, self.pages, self.mappings):
            if file >= 0:
                with contextlib.suppress(OSError):
                    os.close(file)
        self.faults = self.pages = self.mappings = -1

    def admits(self, new: Watch) -> bool:
        """Whether this watch is the only one over its pages; older ones whose memory has been written since give way. Takes the lock."""
        with self.lock:
            key = new.start, new.end
            if self.watches.get(key) is new:
                return True
            for other in list(self.watches.values()):
                if new.start < other.end and other.start < new.end:
                    if other.unwritten():
                        return False
                    other.armed = False
                    self.watches.pop((other.start, other.end), None)
            self.watches[key] = new
            return True

    def scan(self, request: bytes) -> int:
        """Pages that are written, or that nothing is known of, of a `_request`. Raises OSError where there are no marks."""
        return int(self.ioctl(self.pages, _SCAN_CALL, bytearray(request)))

    def register(self, start: int, end: int) -> None:
        """Ask for marks. Raises OSError where the memory can have none."""
        self.ioctl(self.faults, _REGISTER_CALL, bytearray(struct.pack("QQQQ", start, end - start, _REGISTER_WP, 0)))

    def is_anonymous(self, start: int, end: int) -> bool:
        """Whether nothing but private memory without files is mapped there. That stays so as long as there are marks: they end with it."""
        while start < end:
            asked = bytearray(_MAPPING.pack(_MAPPING.size, 0, start, *(0,) * 12))
            try:
                self.ioctl(self.mappings, _MAPPING_CALL, asked)
            except OSError:
                return False
            _, _, _, first, last, flags, _, _, inode, major, minor, *_ = _MAPPING.unpack(asked)
            if not first <= start < last or flags & _SHARED or inode or major or minor:
                return False
            start = last
        return True


def _request(start: int, end: int, flags: int, found: int, files: int = _IS_FILE) -> bytes:
    """To look for up to one page that is written, or that nothing is known of; or to clear the marks of all.

    `files`: 0 where pages need not be asked whether they are a file's, which takes longer than all else.
    """
    any_of = 0 if flags & _PROTECT else _IS_WRITTEN | files | _IS_PRESENT  # present is asked upside down
    inverted = 0 if flags & _PROTECT else _IS_PRESENT
    most = 0 if flags & _PROTECT else 1
    return struct.pack("12Q", 96, flags, start, end, 0, found, most, most, inverted, 0, any_of, _IS_WRITTEN)


_system: _System | None = None


def _here() -> _System | None:
    """What this process has; None where there are no marks."""
    global _system
    found = _system
    if found is None or found.process != os.getpid():  # a fork: the files show the parent's memory
        if found is not None:
            found.close()
        found = _system = _System()
    return found if found.faults >= 0 else None


class Watch:
    """The whole pages within a piece of memory. Watches don't overlap: clearing the marks of one would hide a write from the other.

    `generation` grows whenever marks are cleared: whoever has seen the memory in the present generation need not look again as long
    as it is `unwritten`.
    """

    __slots__ = ("start", "end", "generation", "armed", "rest", "dirty", "_room", "_request", "_system", "__weakref__")

    def __init__(self, start: int, end: int) -> None:
        self.start, self.end = start, end
        self.generation = 0
        self.armed = False
        self.rest = self.dirty = 0  # calls not to try; how often in a row it was in vain
        self._room = ctypes.create_string_buffer(_REGION)
        self._request = _request(start, end, _CHECK, ctypes.addressof(self._room))
        self._system: _System | None = None

    def unwritten(self) -> bool:
        """Whether nothing has been written into these pages since the marks were cleared."""
        here = self._system
        if not self.armed or here is None or here.process != os.getpid():
            return False
        try:
            if here.scan(self._request):
                self.armed = False
        except OSError:
            self.armed = False
        if self.armed:
            self.dirty = 0
        return self.armed

    def begin(self) -> int | None:
        """Have the marks clear, before the memory is looked at: the generation in which that is; None: look every time."""
        if self.unwritten():
            return self.generation
        if self.rest:
            self.rest -= 1
            return None
        self.dirty += 1
        self.rest = min(_MAX_REST, 1 << self.dirty) if self.dirty > 2 else 0
        here = _here()
        if here is None or not here.admits(self):
            return None
        with here.lock:
            if self.armed and self._system is here:  # another thread was faster
                return None
            try:
                here.register(self.start, self.end)
                self.generation += 1
                here.scan(_request(self.start, self.end, _PROTECT | _CHECK, 0))
                files = 0 if here.is_anonymous(self.start, self.end) else _IS_FILE
                self._request = _request(self.start, self.end, _CHECK, ctypes.addressof(self._room), files)
            except OSError:  # memory of another kind, or somebody else's
                self.rest = _MAX_REST
                return None
            self._system = here
            self.armed = True
            return self.generation


def watch(address: int, size: int) -> Watch | None:
    """The watch over this memory's whole pages, the same for everybody; None: the memory is too small, or there are no marks here."""
    start, end = -(-address // _PAGE) * _PAGE, (address + size) // _PAGE * _PAGE
    here = _here() if size >= LEAST and config.current.watch_writes else None
    if here is None:
        return None
    return here.watches.get((start, end)) or Watch(start, end)


def edges(address: int, size: int, whole: Watch) -> bytes:
    """The bytes of this memory that its watch does not cover."""
    return ctypes.string_at(address, whole.start - address) + ctypes.string_at(whole.end, address + size - whole.end)
