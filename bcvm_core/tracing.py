"""A profile as a file of the Trace Event Format, which chrome://tracing and Perfetto open."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .profiler import Profile


def write(path: str | os.PathLike[str], profile: Profile) -> None:
    """Write a file. Raises OSError."""
    document = {
        "displayTimeUnit": "ns",
        "traceEvents": list(_events(profile)),
        "otherData": {name: counter.total_us for name, counter in profile.counters.items()} | {"lost_calls": profile.lost_calls},
    }
    with open(path, "w", encoding="utf-8") as file:
        json.dump(document, file, separators=(",", ":"))


def _events(profile: Profile) -> Iterator[dict[str, Any]]:
    """Calls of regions and pieces of compile work as slices, threads by their names; times are in microseconds."""
    process, zero = os.getpid(), profile._started_ns
    yield {"ph": "M", "pid": process, "tid": 0, "name": "process_name", "args": {"name": "bcvm"}}
    threads = {call.thread for call in profile._calls} | {work.thread for work in profile._work}
    numbers = {ident: number for number, ident in enumerate(sorted(threads), 1)}  # Perfetto wants small ones
    for ident, number in numbers.items():
        yield {"ph": "M", "pid": process, "tid": number, "name": "thread_name", "args": {"name": f"thread {ident}"}}
    titles: dict[int, tuple[str, dict[str, Any]]] = {}
    for call in profile._calls:
        title = titles.get(id(call.region))
        if title is None:
            title = titles[id(call.region)] = _title(call.region)
        yield _slice(process, numbers[call.thread], "region", title[0], (call.started_ns - zero) / 1000, call.spent_ns / 1000) | title[1]
    for work in profile._work:
        yield _slice(process, numbers[work.thread], work.kind, work.name, (work.started_ns - zero) / 1000, work.spent_us)


def _title(region: Any) -> tuple[str, dict[str, Any]]:
    ops = "+".join(dict.fromkeys(region.code.ops))
    return f"{region.owner.name}: {ops}", {"args": {"file": region.owner.filename, "line": region.key[1], "ops": list(region.code.ops)}}


def _slice(process: int, thread: int, kind: str, name: str, started_us: float, spent_us: float) -> dict[str, Any]:
    return {"ph": "X", "pid": process, "tid": thread, "cat": kind, "name": name, "ts": started_us, "dur": spent_us}
