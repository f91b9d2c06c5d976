"""`bcvm.cache_info()`: the code cache in memory and on disk, as a table, HTML or plain data."""

from __future__ import annotations

import html
from dataclasses import asdict, dataclass
from typing import Any, Final

from .cache import disk
from .cache.memory import Entry, Figures, code_cache
from .codegen.stencils import arena

_ROWS: Final = 20
_SHORT: Final = 8  # characters of a name that are shown
_HEAD: Final = ("calls", "sites", "bytes", "splice us", "idle s", "", "name", "ops")


@dataclass(frozen=True)
class CacheInfo:
    """The cache at one moment. `arena`: the memory that code lies in, {} where there is none; `requests`: to the disk, by outcome."""

    memory: Figures
    rows: tuple[dict[str, Any], ...]
    arena: dict[str, float]
    folder: str
    folders: tuple[disk.Folder, ...]
    requests: dict[str, int]

    def as_dict(self) -> dict[str, Any]:
        """Everything as plain data."""
        return {
            "memory": asdict(self.memory) | {"limits": self.memory.limits._asdict()},
            "entries": list(self.rows),
            "arena": dict(self.arena),
            "disk": {"folder": self.folder, "folders": [asdict(f) for f in self.folders], "requests": dict(self.requests)},
        }

    def lines(self) -> list[str]:
        """The figures, without the list of entries."""
        found, limits = self.memory, self.memory.limits
        out = [
            f"{found.entries} of {limits.size} fused kernels, {found.code_bytes:,} of {limits.code_bytes:,} bytes of code, kept "
            f"{limits.ttl_s:g} s without a call",
            f"{found.hits:,} hits, {sum(found.misses.values()):,} misses, {sum(found.evictions.values()):,} evictions, "
            f"{found.shared:,} requests that found another site's code, {found.put_off:,} evictions put off because the kernel ran, "
            f"{found.pinned:,} kernels pinned",
            *(f"  miss: {reason}: {count:,}" for reason, count in sorted(found.misses.items(), key=_by_count)),
            *(f"  evicted: {reason}: {count:,}" for reason, count in sorted(found.evictions.items(), key=_by_count)),
        ]
        if self.arena:
            free = f"{self.arena['free_bytes']:,.0f} free between blocks, fragmentation {self.arena['fragmentation']:.0%}"
            out.append(f"memory for code: {self.arena['used_bytes']:,.0f} bytes in use, {free}")
        return out + self.disk_lines()

    def disk_lines(self) -> list[str]:
        """What lies on the disk."""
        out = [f"on disk: {self.folder}"]
        for folder in self.folders:
            mark = "in use" if folder.current else "of another version or processor"
            bad = f", damaged: {', '.join(folder.damaged)}" if folder.damaged else ""
            out.append(f"  {folder.key}: {folder.files} files, {folder.bytes:,} bytes, {mark}{bad}")
        out += [f"  {outcome}: {count}" for outcome, count in sorted(self.requests.items())]
        return out

    def _cells(self) -> list[tuple[str, ...]]:
        return [
            (
                f"{r['hits']:,}",
                str(r["sites"]),
                f"{r['bytes']:,}",
                f"{r['splice_us']:.0f}",
                f"{r['idle_s']:.0f}",
                "pinned" if r["pinned"] else "",
                r["name"][:_SHORT],
                r["ops"],
            )
            for r in self.rows[:_ROWS]
        ]

    def table(self) -> str:
        """As text, with the kernels used last."""
        rows = [_HEAD, *self._cells()]
        widths = [max(len(row[k]) for row in rows) for k in range(len(_HEAD))]
        listed = ["  ".join([*(c.rjust(w) for c, w in zip(row[:-1], widths, strict=False)), row[-1]]) for row in rows]
        return "\n".join([*self.lines(), *(["", *listed] if len(rows) > 1 else [])])

    def __repr__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{cell}</th>" for cell in _HEAD)
        body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in self._cells())
        return f"<pre>{html.escape(chr(10).join(self.lines()))}</pre><table><tr>{head}</tr>{body}</table>"


def cache_info(*, verify: bool = False) -> CacheInfo:
    """The code cache now. `verify`: also read every file on disk that this version would use."""
    now = code_cache.now()
    rows = tuple(_row(entry, now) for entry in code_cache.entries())
    try:
        memory = arena.shared().figures() if arena.is_open() else {}
    except arena.ArenaError:
        memory = {}
    requests = disk.requests()
    return CacheInfo(code_cache.figures(), rows, memory, str(disk.root()), tuple(disk.folders(verify)), requests)


def _row(entry: Entry, now: float) -> dict[str, Any]:
    return {
        "name": entry.name,
        "ops": entry.label,
        "operands": entry.about.operands,
        "shapes": entry.about.shapes,
        "hits": entry.hits,
        "sites": len(entry.uses),
        "bytes": entry.code_bytes,
        "splice_us": entry.splice_us,
        "age_s": max(0.0, now - entry.made_s),
        "idle_s": max(0.0, now - entry.used_s),
        "pinned": entry.pinned,
    }


def _by_count(item: tuple[str, int]) -> int:
    return -item[1]
