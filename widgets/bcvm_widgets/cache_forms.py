"""The code cache as text, HTML and SVG."""

from __future__ import annotations

import html
from collections.abc import Iterator

from .cache_messages import Cache, CacheMemory, CacheRow, CacheWhatIf
from .timing import duration

MARKS = {"running": "▶", "warm": "●", "cold": "○"}
COLUMNS = 32  # of the map
_HEAD = ("state", "kernel", "where", "operands", "shapes", "hits", "bytes", "age", "left", "name")
_RIGHT = frozenset(("hits", "bytes", "age", "left"))
_SHORT = 8  # characters of a name that are shown
_EVICTIONS = 12  # that are shown


def span(seconds: float) -> str:
    """Seconds as people say them."""
    if seconds < 0.05:
        return "now"
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"


def nbytes(count: int) -> str:
    """Three digits and a unit."""
    for unit, size in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:,} B"


def state(row: CacheRow) -> str:
    """In words: "running, pinned"."""
    return ", ".join([row["state"], *(["pinned"] if row["pinned"] else []), *(["recompiled"] if row["hot"] else [])])


def left(row: CacheRow, found: Cache) -> str:
    """For how long it stays if nobody calls it."""
    return "stays" if row["pinned"] else span(max(0.0, found["ttl_s"] - (found["at_s"] - row["used_s"])))


def _cells(row: CacheRow, found: Cache) -> tuple[str, ...]:
    return (
        f"{MARKS[row['state']]} {state(row)}",
        row["label"].replace("+", ", "),
        row["where"],
        row["operands"],
        row["shapes"],
        f"{row['hits']:,}",
        f"{row['code_bytes']:,}",
        span(max(0.0, found["at_s"] - row["made_s"])),
        left(row, found),
        row["name"][:_SHORT],
    )


def figures(found: Cache) -> list[str]:
    """What the cache holds and has done."""
    misses, evictions = sum(found["misses"].values()), sum(found["evictions"].values())
    held = f"{found['entries']:,} of {found['size']:,} kernels, {nbytes(found['code_bytes'])} of {nbytes(found['limit_bytes'])}"
    return [
        f"code cache: {held}, kept {found['ttl_s']:g} s without a call, {found['pinned']:,} pinned",
        f"{found['hits']:,} hits, {misses:,} misses, {evictions:,} evictions, {found['shared']:,} requests found another site's code",
        *(f"  miss: {reason}: {count:,}" for reason, count in by_count(found["misses"])),
        *(f"  evicted: {reason}: {count:,}" for reason, count in by_count(found["evictions"])),
        *([f"  {found['put_off']:,} evictions put off because the kernel ran"] if found["put_off"] else []),
    ]


def by_count(counts: dict[str, int]) -> list[tuple[str, int]]:
    """The most frequent first."""
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def about(memory: CacheMemory) -> str:
    """The map in words."""
    gaps = memory["gaps"]
    free = f"{nbytes(memory['free_bytes'])} free in {gaps:,} gap{'' if gaps == 1 else 's'}" if gaps else "no gaps"
    largest = f", the largest {nbytes(memory['largest_bytes'])}, fragmentation {memory['fragmentation']:.0%}" if gaps > 1 else ""
    return f"memory for code: {nbytes(memory['used_bytes'])} in use, {free}{largest}; {nbytes(memory['unused_bytes'])} never used"


def replayed(found: CacheWhatIf) -> list[str]:
    """A what-if in words, and as a table of sizes."""
    recorded = f"{found['calls']:,} recorded calls of {found['kernels']:,} kernels in {span(found['seconds'])}"
    hits = f"{found['hits']:,} ({found['hits'] / found['calls']:.1%}) would have been hits"
    limits = f"max_size={found['size']} and ttl={found['ttl_s']:g}"
    made = f"{found['spliced']:,} made code, {found['again']:,} of them again, in {duration(found['splice_us'])}"
    lines = [f"of {recorded}, {hits} with {limits}: {made}"]
    if (found["now"]["size"], found["now_ttl_s"]) != (found["size"], found["ttl_s"]):
        lines.append(f"  as it is now, max_size={found['now']['size']} and ttl={found['now_ttl_s']:g}: {found['now']['hits']:,} hits")
    return lines + [f"  max_size={tried['size']}: {tried['hits']:,} hits" for tried in found["sizes"]]


def text(found: Cache) -> str:
    """Figures, kernels, evictions, the map in words, and what other sizes would have meant."""
    if not (found["entries"] or found["misses"]):
        return ""
    return "\n".join(_lines(found))


def _lines(found: Cache) -> Iterator[str]:
    yield from figures(found)
    rows = [_HEAD, *(_cells(row, found) for row in found["rows"])]
    widths = [max(len(row[k]) for row in rows) for k in range(len(_HEAD))]
    if len(rows) > 1:
        for row in rows:
            cells = (c.rjust(w) if name in _RIGHT else c.ljust(w) for name, c, w in zip(_HEAD, row, widths, strict=True))
            yield "  ".join(cells).rstrip()
    yield from _more(found)
    for gone in found["gone"][:_EVICTIONS]:
        yield f"  evicted {span(found['at_s'] - gone['at_s'])} ago: {gone['label'].replace('+', ', ')}: {gone['reason']}"
    if found["memory"] is not None:
        yield about(found["memory"])
    if found["what_if"] is not None:
        yield from replayed(found["what_if"])


def _more(found: Cache) -> list[str]:
    return [f"{found['left_out']:,} more kernels are not shown"] if found["left_out"] else []


def as_html(found: Cache) -> str:
    """The same, with the map as a picture; without scripts."""
    if not (found["entries"] or found["misses"]):
        return ""
    told = "<br>".join(html.escape(line) for line in figures(found))
    head = "".join(f'<th scope="col" style="{_align(name)}">{name}</th>' for name in _HEAD)
    body = "".join(
        "<tr>" + "".join(f'<td style="{_align(name)}">{html.escape(cell)}</td>' for name, cell in zip(_HEAD, cells, strict=True)) + "</tr>"
        for cells in (_cells(row, found) for row in found["rows"])
    )
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if body else ""
    evictions = "".join(
        f"<tr><td>{span(found['at_s'] - gone['at_s'])} ago</td><td>{html.escape(gone['label'].replace('+', ', '))}</td>"
        f"<td>{html.escape(gone['reason'])}</td><td>{gone['hits']:,} hits</td></tr>"
        for gone in found["gone"][:_EVICTIONS]
    )
    log = f"<p>evicted:</p><table><tbody>{evictions}</tbody></table>" if evictions else ""
    memory = found["memory"]
    drawn = f"<p>{html.escape(about(memory))}</p>{picture(memory)}" if memory is not None else ""
    more = "".join(f"<p>{line}</p>" for line in _more(found))
    asked = "<br>".join(html.escape(line) for line in replayed(found["what_if"])) if found["what_if"] is not None else ""
    return f"<p>{told}</p>{table}{more}{log}{drawn}" + (f"<p>{asked}</p>" if asked else "")


def _align(column: str) -> str:
    return f"text-align: {'right' if column in _RIGHT else 'left'}; vertical-align: top"


_CELL = 14


def picture(memory: CacheMemory) -> str:
    """The map as SVG: a box for so many bytes, filled from below by the share of it that is in use."""
    parts = []
    for n, percent in enumerate(memory["cells"]):
        x, y = 1 + _CELL * (n % COLUMNS), 1 + _CELL * (n // COLUMNS)
        high = (_CELL - 3) * percent / 100
        parts.append(f'<path d="M{x} {y}h{_CELL - 3}v{_CELL - 3}h-{_CELL - 3}Z" fill="none" stroke="currentColor" stroke-opacity="0.4"/>')
        if percent:
            low = y + _CELL - 3
            parts.append(f'<path d="M{x} {low - high:.1f}h{_CELL - 3}V{low}h-{_CELL - 3}Z" fill="currentColor" fill-opacity="0.55"/>')
    width, height = _CELL * COLUMNS, _CELL * -(-len(memory["cells"]) // COLUMNS)
    label = html.escape(about(memory))
    return f'<svg viewBox="0 0 {width} {height}" width="{width}" role="img" aria-label="{label}">{"".join(parts)}</svg>'
