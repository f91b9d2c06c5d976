"""An allocator for large results, in the language of `native.py`: memory that an array leaves serves the next one.

Fresh memory costs more than most kernels, for the system hands it out page by page. The functions
are called by NumPy, with the interpreter's lock held; `pool` holds the blocks that are free.
"""

from __future__ import annotations

from typing import Final

from .native import call, load64, store64

P_FREE: Final = 0  # addresses of the C library's functions
P_ALIGNED: Final = 8
P_CALLOC: Final = 16
P_REALLOC: Final = 24
P_LIMIT: Final = 32  # bytes that may be held
P_HELD: Final = 40
P_COUNT: Final = 48
P_REUSED: Final = 56
P_ADVISE: Final = 64  # address of madvise
P_USABLE: Final = 72  # address of malloc_usable_size, or 0
P_BLOCKS: Final = 80  # address and size of each block, the oldest first
BLOCKS_MAX: Final = 64
SLACK: Final = 65536  # bytes, or an eighth, by which a block may be too large
HUGE: Final = 4194304  # from this size on the system is asked for large pages, as NumPy does
MADV_HUGEPAGE: Final = 14


def block_malloc(pool: int, size: int) -> int:
    """Memory of `size` bytes, aligned to 64: the youngest free block that fits and is not far too large, or a fresh one."""
    most = size + (size >> 3)
    if size < 8 * SLACK:
        most = size + SLACK
    k = load64(pool + P_COUNT) - 1
    while k >= 0:
        block = pool + P_BLOCKS + 16 * k
        own = load64(block + 8)
        if own >= size and own <= most:
            found = load64(block)
            take_out(pool, k)
            store64(pool + P_REUSED, load64(pool + P_REUSED) + 1)
            return found
        k = k - 1
    made = call(load64(pool + P_ALIGNED), 64, (size + 63) & -64)
    if size >= HUGE and made != 0:
        call(load64(pool + P_ADVISE), (made + 4095) & -4096, (size - 4096) & -4096, MADV_HUGEPAGE)
    return made


def take_out(pool: int, k: int) -> int:
    """Remove block k from the free ones."""
    count = load64(pool + P_COUNT) - 1
    store64(pool + P_HELD, load64(pool + P_HELD) - load64(pool + P_BLOCKS + 16 * k + 8))
    while k < count:
        block = pool + P_BLOCKS + 16 * k
        store64(block, load64(block + 16))
        store64(block + 8, load64(block + 24))
        k = k + 1
    store64(pool + P_COUNT, count)
    return 0


def block_free(pool: int, pointer: int, size: int) -> int:
    """Keep a block, all of it, whatever part its array had; the oldest ones make room."""
    if pointer == 0:
        return 0
    usable = load64(pool + P_USABLE)
    if usable:
        size = call(usable, pointer)
    limit = load64(pool + P_LIMIT)
    if size > limit:
        call(load64(pool + P_FREE), pointer)
        return 0
    while load64(pool + P_COUNT) == BLOCKS_MAX or load64(pool + P_HELD) + size > limit:
        call(load64(pool + P_FREE), load64(pool + P_BLOCKS))
        take_out(pool, 0)
    count = load64(pool + P_COUNT)
    block = pool + P_BLOCKS + 16 * count
    store64(block, pointer)
    store64(block + 8, size)
    store64(pool + P_COUNT, count + 1)
    store64(pool + P_HELD, load64(pool + P_HELD) + size)
    return 0


def block_calloc(pool: int, count: int, size: int) -> int:
    """Zeroed memory: the C library's."""
    return call(load64(pool + P_CALLOC), count, size)


def block_realloc(pool: int, pointer: int, size: int) -> int:
    """Memory of another size: the C library's."""
    return call(load64(pool + P_REALLOC), pointer, size)
