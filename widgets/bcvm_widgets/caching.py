"""From what a `CacheWatch` sees to the messages of the cache view, and from its commands to the cache."""

from __future__ import annotations

import bcvm_core as bcvm
from bcvm_core.cachewatch import CacheWatch, Memory, Row, State, WhatIf

from .cache_messages import VERSION, Cache, CacheAnswer, CacheCommand, CacheMemory, CacheRow, CacheWhatIf, empty_cache

ROWS = 100  # kernels that a message holds
GONE = 40  # evictions
CELLS = 256  # of the map
_GRAIN = 128  # bytes: no block of the memory for code is smaller
_LONGEST = 200  # characters of a text


class CacheView:
    """The cache as messages: one look each, and the same object again where nothing has changed but the time."""

    def __init__(self, watch: CacheWatch) -> None:
        self.watch = watch
        self.latest = empty_cache()
        self._what_if: CacheWhatIf | None = None

    def renew(self) -> None:
        """Somebody new looks, who has to know what time it is."""
        self.latest = empty_cache()

    def look(self) -> Cache:
        """What there is now."""
        state = self.watch.look()
        found = message(state, self.watch.recorded, self._what_if)
        if {**found, "at_s": 0.0} != {**self.latest, "at_s": 0.0}:
            self.latest = found
        return self.latest

    def replay(self, size: int | None = None, ttl_s: float | None = None) -> CacheWhatIf | None:
        """What the recorded calls would have done under other limits; those in force where none are given."""
        self._what_if = what_if(self.watch.what_if(size, ttl_s))
        return self._what_if

    def act(self, command: CacheCommand) -> CacheAnswer:
        """Do what a view asks for. Called in any thread, also while a cell runs."""
        answer: CacheAnswer = {"version": VERSION, "view": command["view"], "done": True, "text": "", "what_if": None}
        name = command["key"]
        try:
            match command["command"]:
                case "pin":
                    bcvm.cache.pin(name)
                    answer["text"] = f"{self._called(name)} is pinned"
                case "unpin":
                    bcvm.cache.unpin(name)
                    answer["text"] = f"{self._called(name)} is no longer pinned"
                case "evict":
                    called = self._called(name)
                    bcvm.cache.evict(name)
                    answer["text"] = f"{called} is evicted; its next call makes it again"
                case "clear":
                    count = bcvm.cache.clear()
                    answer["text"] = f"{count:,} kernel{'' if count == 1 else 's'} evicted; what is pinned or runs stays"
                case "whatif":
                    answer["what_if"] = self.replay(command["size"], float(command["ttl_s"]))
                    answer["done"] = answer["what_if"] is not None
        except bcvm.cache.CacheError as error:
            answer["done"], answer["text"] = False, str(error)
        return answer

    def _called(self, name: str) -> str:
        """What the view has shown under that name."""
        found = next((row["label"] for row in self.latest["rows"] if row["name"] == name), "")
        return found.replace("+", ", ") or name


def message(state: State, recorded: tuple[int, float], asked: CacheWhatIf | None = None) -> Cache:
    """A state of the cache, bounded."""
    figures = state.figures
    memory = None if state.memory is None else _memory(state.memory)
    cell = 0 if memory is None else memory["cell_bytes"]
    shown = sorted(state.rows, key=lambda row: not row.pinned)[:ROWS]
    return {
        "version": VERSION,
        "at_s": round(state.at_s, 1),
        "size": figures.limits.size,
        "ttl_s": figures.limits.ttl_s,
        "limit_bytes": figures.limits.code_bytes,
        "entries": figures.entries,
        "code_bytes": figures.code_bytes,
        "hits": figures.hits,
        "shared": figures.shared,
        "put_off": figures.put_off,
        "pinned": figures.pinned,
        "misses": figures.misses,
        "evictions": figures.evictions,
        "rows": [_row(row, cell) for row in shown],
        "left_out": len(state.rows) - len(shown),
        "gone": [
            {
                "number": gone.number,
                "at_s": round(gone.at_s, 1),
                "name": gone.name,
                "label": gone.label,
                "reason": gone.reason,
                "hits": gone.hits,
                "code_bytes": gone.code_bytes,
                "lived_s": round(gone.lived_s, 1),
                "idle_s": round(gone.idle_s, 1),
            }
            for gone in reversed(state.gone[-GONE:])
        ],
        "memory": memory,
        "recorded_calls": recorded[0],
        "recorded_s": round(recorded[1], 1),
        "what_if": asked,
    }


def _row(row: Row, cell: int) -> CacheRow:
    return {
        "name": row.name,
        "label": _short(row.label),
        "where": "" if row.where is None else f"{row.where[0].strip('<>')}, line {row.where[2]}",
        "operands": _short(row.operands),
        "shapes": _short(row.shapes),
        "hits": row.hits,
        "sites": row.sites,
        "code_bytes": row.code_bytes,
        "splice_us": round(row.splice_us, 1),
        "made_s": round(row.made_s, 1),
        "used_s": round(row.used_s, 1),
        "state": row.state,  # type: ignore[typeddict-item]  # one of CacheState
        "pinned": row.pinned,
        "hot": row.hot,
        "cells": [[at // cell, (at + max(size, 1) - 1) // cell] for at, size in row.blocks[:8]] if cell else [],
    }


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _memory(found: Memory) -> CacheMemory:
    cell = max(_GRAIN, -(-found.end // CELLS // _GRAIN) * _GRAIN)
    free = [0] * -(-found.end // cell)
    for at, size in found.gaps:
        for number in range(at // cell, (at + size - 1) // cell + 1):
            free[number] += min(at + size, (number + 1) * cell) - max(at, number * cell)
    wide = [min(cell, found.end - number * cell) for number in range(len(free))]
    return {
        "cells": [round(100 * (size - gap) / size) for gap, size in zip(free, wide, strict=True)],
        "cell_bytes": cell,
        "used_bytes": found.end - found.free_bytes,
        "free_bytes": found.free_bytes,
        "unused_bytes": found.unused_bytes,
        "gaps": len(found.gaps),
        "largest_bytes": max((size for _, size in found.gaps), default=0),
        "fragmentation": round(found.fragmentation, 3),
    }


def what_if(found: WhatIf | None) -> CacheWhatIf | None:
    """A replay as a message."""
    if found is None:
        return None
    outcome = found.outcome
    return {
        "size": outcome.limits.size,
        "ttl_s": outcome.limits.ttl_s,
        "calls": outcome.calls,
        "kernels": found.kernels,
        "seconds": round(found.seconds, 1),
        "hits": outcome.hits,
        "spliced": outcome.spliced,
        "again": outcome.again,
        "splice_us": round(outcome.splice_us, 1),
        "peak_entries": outcome.peak_entries,
        "peak_bytes": outcome.peak_bytes,
        "now": {"size": found.now.limits.size, "hits": found.now.hits},
        "now_ttl_s": found.now.limits.ttl_s,
        "sizes": [{"size": tried.limits.size, "hits": tried.hits} for tried in found.sizes],
    }
