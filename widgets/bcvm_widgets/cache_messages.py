"""The messages of the cache view; see `protocol`, whose rules they follow."""

from __future__ import annotations

import math
from typing import Any, Literal, TypedDict, TypeGuard, get_args

VERSION = 1  # that of `protocol`

CacheState = Literal[
    "running",  # called since the last look
    "warm",
    "cold",  # idle for a quarter of the time that it is kept, or longer
]


class CacheRow(TypedDict):
    """A kernel that is kept. `shapes` are of one call, it runs others too; `cells`: first and last cell of the map with code of it."""

    name: str
    label: str  # its ops, joined by "+"
    where: str
    operands: str
    shapes: str
    hits: int
    sites: int
    code_bytes: int
    splice_us: float
    made_s: float
    used_s: float
    state: CacheState
    pinned: bool
    hot: bool  # recompiled by tier 3
    cells: list[list[int]]


class CacheEviction(TypedDict):
    """A kernel that went, and why. `number` counts evictions; `idle_s`: since its last call."""

    number: int
    at_s: float
    name: str
    label: str
    reason: str
    hits: int
    code_bytes: int
    lived_s: float
    idle_s: float


class CacheMemory(TypedDict):
    """The memory for code. `cells`: percent in use of each `cell_bytes` bytes; behind them nothing was ever used."""

    cells: list[int]
    cell_bytes: int
    used_bytes: int
    free_bytes: int
    unused_bytes: int
    gaps: int
    largest_bytes: int
    fragmentation: float


class CacheTry(TypedDict):
    """Recorded calls that would have found their code, had so many kernels been kept."""

    size: int
    hits: int


class CacheWhatIf(TypedDict):
    """What the recorded calls would have done under other limits. `spliced` made code, `again` of them code that had been there before."""

    size: int
    ttl_s: float
    calls: int
    kernels: int
    seconds: float
    hits: int
    spliced: int
    again: int
    splice_us: float
    peak_entries: int
    peak_bytes: int
    now: CacheTry  # under the limits in force
    now_ttl_s: float
    sizes: list[CacheTry]


class Cache(TypedDict):
    """The code cache. Times are seconds of one clock, which stood at `at_s`; `left_out` more kernels are not among `rows`."""

    version: int
    at_s: float
    size: int  # limits
    ttl_s: float
    limit_bytes: int
    entries: int
    code_bytes: int
    hits: int
    shared: int
    put_off: int
    pinned: int
    misses: dict[str, int]
    evictions: dict[str, int]
    rows: list[CacheRow]
    left_out: int
    gone: list[CacheEviction]  # the latest first
    memory: CacheMemory | None
    recorded_calls: int
    recorded_s: float
    what_if: CacheWhatIf | None  # that was asked for last


class CacheAnswer(TypedDict):
    """To the view that sent a command: what was done, or why it was not, and what it asked for."""

    version: int
    view: str
    done: bool
    text: str
    what_if: CacheWhatIf | None


CacheCommandName = Literal[
    "pin",  # no rule evicts the kernel `key`
    "unpin",
    "evict",  # forget it
    "clear",  # forget all but those that are pinned or run
    "whatif",  # replay the recorded calls with `size` kernels, each for `ttl_s`
]


class CacheCommand(TypedDict):
    """From a view to the cache of the kernel."""

    version: int
    command: CacheCommandName
    view: str
    key: str
    size: int
    ttl_s: float


def is_cache_command(content: Any) -> TypeGuard[CacheCommand]:
    """Whether a custom message is one that this version understands."""
    if not isinstance(content, dict) or content.get("version") != VERSION or content.get("command") not in get_args(CacheCommandName):
        return False
    key, size, ttl = content.get("key"), content.get("size"), content.get("ttl_s")
    if not isinstance(content.get("view"), str) or not isinstance(key, str):
        return False
    if not isinstance(size, int) or isinstance(size, bool) or not isinstance(ttl, int | float):
        return False
    return size >= 1 and ttl >= 0 and math.isfinite(ttl)


def empty_cache() -> Cache:
    """Nothing has been looked at yet."""
    return {
        "version": VERSION, "at_s": 0.0, "size": 0, "ttl_s": 0.0, "limit_bytes": 0, "entries": 0, "code_bytes": 0, "hits": 0, "shared": 0,
        "put_off": 0, "pinned": 0, "misses": {}, "evictions": {}, "rows": [], "left_out": 0, "gone": [], "memory": None,
        "recorded_calls": 0, "recorded_s": 0.0, "what_if": None,
    }  # fmt: skip
