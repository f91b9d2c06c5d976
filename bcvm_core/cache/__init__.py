"""The code cache: kernels in memory (`memory`) and on disk (`disk`); what a person may do with those in memory.

Kernels go by the names that `bcvm.cache_info()` lists; the first characters are enough where they tell one from the others.
"""

from __future__ import annotations

from .memory import CacheError, code_cache

__all__ = ["CacheError", "clear", "evict", "pin", "unpin"]


def pin(name: str) -> None:
    """Keep a kernel: no limit, no time and no `clear` evicts it, nor equal code that is made later.

    Raises CacheError where the cache has no such kernel.
    """
    code_cache.pin(name)


def unpin(name: str) -> None:
    """Undo `pin`: the limits are for this kernel, too. Raises CacheError where the cache has no such kernel."""
    code_cache.unpin(name)


def evict(name: str) -> None:
    """Forget a kernel; the next call makes it again. Raises CacheError where it is not there, is pinned, or runs now."""
    code_cache.evict(name)


def clear() -> int:
    """Forget all kernels but those that are pinned or run now; how many that was. The disk keeps what it has."""
    return code_cache.clear()
