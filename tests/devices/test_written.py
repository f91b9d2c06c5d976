"""Marks of written pages: every way to write is seen, and nothing is vouched for that others could write unseen."""

from __future__ import annotations

import ctypes
import mmap
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bcvm_core import config
from bcvm_core.devices import written

PAGES, PAGE = 40, 4096
_room = np.zeros(64 * PAGE, np.uint8)
_probe = written.watch(_room.ctypes.data, _room.nbytes)
pytestmark = pytest.mark.skipif(_probe is None, reason="no marks of written pages on this system")


def _mapped(flags: int = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) -> tuple[mmap.mmap, Any, int]:
    """(the mapping, its bytes, their address), filled."""
    memory = mmap.mmap(-1, PAGES * PAGE, flags=flags)
    view = np.frombuffer(memory, np.uint8)
    view[:] = 1
    return memory, view, view.ctypes.data


def _watched(address: int, size: int = PAGES * PAGE) -> written.Watch:
    found = written.watch(address, size)
    assert found is not None
    return found


def _by_index(view: Any, address: int) -> None:
    view[-1] = 2


def _by_library(view: Any, address: int) -> None:
    ctypes.memset(address + 7 * PAGE, 3, 1)


def _by_kernel(view: Any, address: int) -> None:
    with tempfile.TemporaryFile() as file:
        file.write(b"x" * 100)
        file.seek(0)
        assert os.readv(file.fileno(), [memoryview(view)[5 * PAGE : 5 * PAGE + 100]]) == 100


def _with_the_same(view: Any, address: int) -> None:
    view[12 * PAGE] = view[12 * PAGE]


def _by_dropping(view: Any, address: int) -> None:
    assert ctypes.CDLL(None).madvise(ctypes.c_void_p(address + 3 * PAGE), PAGE, mmap.MADV_DONTNEED) == 0
    assert view[3 * PAGE] == 0


@pytest.mark.parametrize("write", [_by_index, _by_library, _by_kernel, _with_the_same, _by_dropping])
def test_every_write_is_seen(write: Callable[[Any, int], None]) -> None:
    _memory, view, address = _mapped()
    watch = _watched(address)
    assert not watch.unwritten()  # nobody has asked yet
    first = watch.begin()
    assert first is not None and watch.unwritten() and int(view.sum()) == PAGES * PAGE and watch.unwritten()
    write(view, address)
    assert not watch.unwritten()
    assert not watch.unwritten()  # until somebody begins again
    if write is not _by_dropping:
        assert watch.begin() == first + 1 and watch.unwritten()


def test_memory_that_others_can_write_is_not_vouched_for(tmp_path: Path) -> None:
    path = tmp_path / "weights"
    path.write_bytes(b"1" * PAGES * PAGE)
    with path.open("r+b") as file:
        for memory in (
            mmap.mmap(file.fileno(), 0, flags=mmap.MAP_SHARED),
            mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE),
            mmap.mmap(-1, PAGES * PAGE, flags=mmap.MAP_SHARED | mmap.MAP_ANONYMOUS),
        ):
            view = np.frombuffer(memory, np.uint8)
            assert view.sum() >= 0  # the pages are there
            watch = _watched(view.ctypes.data)
            watch.begin()
            assert not watch.unwritten()


def test_a_file_behind_memory_of_ones_own_is_looked_for_each_time(tmp_path: Path) -> None:
    path = tmp_path / "weights"
    path.write_bytes(b"1" * PAGES * PAGE)
    with path.open("r+b") as file:
        memory = mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
        view = np.frombuffer(memory, np.uint8)
        view[:] = 7  # its own pages now, all of them
        watch = _watched(view.ctypes.data)
        assert watch.begin() is not None and watch.unwritten()
        memory.madvise(mmap.MADV_DONTNEED)  # and the file's again, which others can write
        assert view.sum() == PAGES * PAGE * ord("1")
        file.write(b"2" * PAGES * PAGE)
        file.flush()
        assert view[PAGE] == ord("2")
        assert not watch.unwritten()


def test_a_file_mapped_in_the_place_of_memory_counts_as_written(tmp_path: Path) -> None:
    _memory, _view, address = _mapped()
    watch = _watched(address)
    assert watch.begin() is not None and watch.unwritten()
    path = tmp_path / "weights"
    path.write_bytes(b"1" * PAGES * PAGE)
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    with path.open("rb") as file:
        fixed = mmap.MAP_PRIVATE | 0x10
        assert library.mmap(address, PAGES * PAGE, mmap.PROT_READ | mmap.PROT_WRITE, fixed, file.fileno(), 0) == address
    assert not watch.unwritten()
    assert watch.begin() is None or not watch.unwritten()


def test_a_page_dropped_with_all_around_it_counts_as_written() -> None:
    size = 8 << 20  # whole page tables
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    view = np.frombuffer(memory, np.uint8)
    view[:] = 1
    watch = _watched(view.ctypes.data, size)
    assert watch.begin() is not None and watch.unwritten()
    memory.madvise(mmap.MADV_DONTNEED)
    assert not watch.unwritten()
    assert view.sum() == 0


def test_memory_mapped_anew_at_the_same_place_counts_as_written() -> None:
    memory, view, address = _mapped()
    watch = _watched(address)
    assert watch.begin() is not None and watch.unwritten()
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    fixed = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x10
    assert library.mmap(address, PAGES * PAGE, mmap.PROT_READ | mmap.PROT_WRITE, fixed, -1, 0) == address
    assert not watch.unwritten()
    view[:] = 4
    assert not watch.unwritten()
    assert watch.begin() is not None and watch.unwritten()
    del memory


def test_one_watch_for_a_piece_of_memory_and_none_that_overlaps_a_clean_one() -> None:
    _memory, view, address = _mapped()
    watch = _watched(address)
    assert watch.begin() is not None
    assert _watched(address) is watch
    other = _watched(address + PAGE, (PAGES - 2) * PAGE)
    assert other is not watch and other.begin() is None and not other.unwritten()
    view[20 * PAGE] = 9
    assert other.begin() is not None and other.unwritten()  # the older one's memory was written: it gives way
    assert not watch.unwritten()


def test_in_the_child_of_a_fork_nothing_is_known() -> None:
    _memory, view, address = _mapped()
    watch = _watched(address)
    assert watch.begin() is not None
    child = os.fork()
    if not child:
        seen = watch.unwritten()
        view[0] = 7
        again = watch.begin() is not None and watch.unwritten()
        view[0] = 8
        os._exit(int(seen) + 2 * (not again) + 4 * watch.unwritten())
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert watch.unwritten()
    view[0] = 7
    assert not watch.unwritten()


def test_bytes_outside_of_whole_pages() -> None:
    _memory, view, address = _mapped()
    start, size = address + 100, 30 * PAGE
    watch = _watched(start, size)
    before = written.edges(start, size, watch)
    assert len(before) == PAGE and (watch.end - watch.start) + len(before) == size
    view[100] = 5
    assert written.edges(start, size, watch) != before
    view[100], view[100 + size - 1] = 1, 6
    assert written.edges(start, size, watch) != before


def test_memory_written_all_the_time_is_left_alone_more_and_more() -> None:
    _memory, view, address = _mapped()
    watch = _watched(address)
    begun = 0
    for k in range(300):
        view[0] = k % 200
        begun += watch.begin() is not None
    assert 3 <= begun <= 12


def test_small_memory_and_the_setting() -> None:
    _memory, _view, address = _mapped()
    assert written.watch(address, 2 * PAGE) is None
    with config.override(watch_writes=False):
        assert written.watch(address, PAGES * PAGE) is None
