"""From the splits of `bcvm_core.splitting` to the message of the protocol, and to text, HTML and SVG."""

from __future__ import annotations

import html
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from bcvm_core.splitting import Split, roof

from . import protocol
from .protocol import Candidate, Decision, Fusion, Part, Region
from .timing import duration

REGIONS = 24  # that a message holds


def message(splits: Sequence[Split]) -> Fusion:
    """The regions, and the machine that they were cut for."""
    if not splits:
        return protocol.empty_fusion()
    figures = asdict(roof())
    for kind in ("compute", "memory"):
        figures[kind] = [{"name": name, "one": one, "every": every} for name, one, every in figures[kind]]
    regions = [_plain(asdict(split)) for split in splits[:REGIONS]]
    return {"version": protocol.VERSION, "left_out": max(0, len(splits) - REGIONS), "regions": regions, "roof": _plain(figures)}


def _plain(value: Any) -> Any:
    """As JSON has it: lists for tuples, and floats of four digits."""
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


# --- static forms ------------------------------------------------------------------------------


def title(region: Region) -> str:
    """A region in a line."""
    return f"{region['where']}: {', '.join(node['op'] for node in region['nodes'])}"


def names(region: Region) -> list[str]:
    """Of each node the kernel that runs it, as the decision that was taken last cuts it: "kernel 1", "kernel 2a", "by itself"."""
    out = ["by itself"] * len(region["nodes"])
    for number, kernel in enumerate(region["kernels"], 1):
        chosen = next((d["candidates"][0] for d in reversed(kernel["decisions"]) if d["candidates"]), None)
        parts = chosen["parts"] if chosen is not None else []
        for position, node in enumerate(kernel["nodes"]):
            if region["nodes"][node]["kernel"] != number - 1:  # a product that was cut off from what follows it
                continue
            part = next((k for k, p in enumerate(parts) if position in p["ops"]), 0)
            out[node] = f"kernel {number}" + (chr(ord("a") + part) if len(parts) > 1 else "")
    return out


def numbers(part: Part, cores: int) -> str:
    """The figures of a part in words."""
    density = part["operations"] / max(1.0, part["nbytes"])
    return (
        f"{part['operations']:.3g} operations, {part['nbytes']:.3g} bytes in {part['level']}, {density:.2g} per byte; "
        f"{part['threads']} of {cores} cores, {part['blocks']} blocks; predicted {duration(part['predicted_us'])}, bound by {part['bound']}"
    )


def verdict(decision: Decision, candidate: Candidate) -> str:
    """Chosen, or why not."""
    if candidate["reason"]:
        return f"[REJECTED] {candidate['reason']}"
    took = decision["measured_us"]
    return "chosen" + (f", measured {duration(took)} (best of {decision['calls']})" if took is not None else "")


def text(found: Fusion) -> str:
    """Each region: its kernels, then each decision with its candidates."""
    return "\n".join([*(line for region in found["regions"] for line in _lines(region, found)), *left_out(found)])


def left_out(found: Fusion) -> list[str]:
    """What is said where there are more regions than a message holds."""
    more = found["left_out"]
    return [f"{more:,} more region{' is' if more == 1 else 's are'} not among these {len(found['regions']):,}"] if more else []


def _lines(region: Region, found: Fusion) -> Iterator[str]:
    cores = found["roof"]["cores"] if found["roof"] is not None else 1
    yield f"{title(region)} ({region['runs']:,} runs)"
    yield f"    {' -> '.join([node['op'] + f' [{name}]' for node, name in zip(region['nodes'], names(region), strict=True)])}"
    for number, kernel in enumerate(region["kernels"], 1):
        yield from (f"    {fact}" for fact in _facts(region, number))
        for decision in kernel["decisions"]:
            yield f"    kernel {number} on {decision['operands']}, by {decision['source']} figures:"
            if decision["mismatch"]:
                yield f"        [REJECTED] {decision['mismatch']}"
            for candidate in decision["candidates"]:
                yield f"        {candidate['name']}: predicted {duration(candidate['predicted_us'])}, {verdict(decision, candidate)}"
                if not candidate["reason"]:
                    yield from (f"            {numbers(part, cores)}" for part in candidate["parts"])
    if region["reason"]:
        yield f"    last left to Python: {region['reason']}"


def _facts(region: Region, number: int) -> list[str]:
    """What became of the patterns of a kernel, which is counted from 1."""
    kernel = region["kernels"][number - 1]
    ops = ", ".join(region["nodes"][n]["op"] for n in kernel["nodes"])
    return [f"kernel {number} ({ops}), {pattern}" for pattern in kernel["patterns"]]


def as_html(found: Fusion) -> str:
    """Each region as a graph; its decisions as tables; the latest decision on the roofline."""
    shown = (f"<p><b>{html.escape(title(region))}</b></p>{graph(region)}{_tables(region, found)}" for region in found["regions"])
    return "".join([*shown, *(f"<p>{line}</p>" for line in left_out(found))])


def _tables(region: Region, found: Fusion) -> str:
    cores = found["roof"]["cores"] if found["roof"] is not None else 1
    out = ""
    for number, kernel in enumerate(region["kernels"], 1):
        out += "".join(f"<p><small>{html.escape(fact)}</small></p>" for fact in _facts(region, number))
        for decision in kernel["decisions"]:
            rows = "".join(_row(decision, candidate, cores) for candidate in decision["candidates"])
            rows += f"<tr><td>[REJECTED] {html.escape(decision['mismatch'])}</td></tr>" if decision["mismatch"] else ""
            heads = (f"kernel {number} on {decision['operands']}", "predicted", f"verdict by {decision['source']} figures", "its parts")
            head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in heads)
            out += f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
        if kernel["decisions"] and kernel["decisions"][-1]["candidates"]:
            out += roofline(found, kernel["decisions"][-1])
    return out


def _row(decision: Decision, candidate: Candidate, cores: int) -> str:
    parts = (
        "; ".join(numbers(part, cores) for part in candidate["parts"]) if not candidate["reason"] else f"{len(candidate['parts'])} calls"
    )
    cells = (candidate["name"], duration(candidate["predicted_us"]), verdict(decision, candidate), parts)
    return "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>"


_NODE, _STEP, _ROW = 104, 136, 60


def graph(region: Region) -> str:
    """The ops from left to right as SVG; edges that leave a kernel are dashed and carry scissors."""
    kernels, places, lanes = names(region), _places(region), itertools.count()
    parts = []
    for n, node in enumerate(region["nodes"]):
        x, y = places[n]
        for k in node["reads"]:
            from_x, from_y = places[k][0] + _NODE, places[k][1] + 18
            cut = kernels[k] != kernels[n] or kernels[n] == "by itself"
            line, middle = _edge(from_x, from_y, x, y + 18, lanes)
            parts.append(f'<path d="{line}" stroke="currentColor" fill="none"{_DASHED if cut else ""}/>')
            parts += [_text((from_x + x) / 2, middle + 5, "✂")] if cut else []
        parts.append(
            f'<path d="M{x} {y}h{_NODE}v36h-{_NODE}Z" fill="none" stroke="currentColor"{_DASHED if kernels[n] == "by itself" else ""}/>'
        )
        parts.append(_text(x + _NODE / 2, y + 15, node["op"]) + _text(x + _NODE / 2, y + 30, kernels[n]))
    width = max((x for x, _ in places), default=0) + _NODE + 10
    height = max((y for _, y in places), default=0) + 46
    about = html.escape(", ".join(f"{node['op']}: {name}" for node, name in zip(region["nodes"], kernels, strict=True)))
    return f'<svg viewBox="0 0 {width} {height}" width="{width}" role="img" aria-label="{about}">{"".join(parts)}</svg>'


def _edge(x0: int, y0: int, x1: int, y1: int, lanes: Iterator[int]) -> tuple[str, float]:
    """The way from one op to another, above those between them, and the height of its middle."""
    if x1 - x0 <= _STEP:
        return f"M{x0} {y0}L{x1} {y1}", (y0 + y1) / 2
    over = min(y0, y1) - 26 - 4 * (next(lanes) % 3)
    ends = f"C{x0 + 18} {y0} {x0 + 6} {over} {x0 + 28} {over}H{x1 - 28}C{x1 - 6} {over} {x1 - 18} {y1} {x1} {y1}"
    return f"M{x0} {y0}{ends}", over


_DASHED = ' stroke-dasharray="4 3"'


def _text(x: float, y: float, words: str, anchor: str = "middle") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="11" fill="currentColor">{html.escape(words)}</text>'


def _places(region: Region) -> list[tuple[int, int]]:
    """Where nodes stand: as far right as their longest way from an input, what reads none just before its first reader."""
    nodes, depths = region["nodes"], list[int]()
    for node in nodes:
        depths.append(max((depths[k] + 1 for k in node["reads"]), default=0))
    taken: dict[int, int] = {}
    out = []
    for n, node in enumerate(nodes):
        readers = [depths[k] for k, other in enumerate(nodes) if n in other["reads"]]
        depth = depths[n] if node["reads"] or not readers else min(readers) - 1
        out.append((5 + _STEP * depth, 24 + _ROW * taken.get(depth, 0)))
        taken[depth] = taken.get(depth, 0) + 1
    return out


def roofline(found: Fusion, decision: Decision) -> str:
    """The parts of the chosen candidate under the machine's roof, as SVG: predicted ones hollow, the measured whole filled."""
    figures = found["roof"]
    if figures is None:
        return ""
    chosen = decision["candidates"][0]
    operations, nbytes = (sum(part[name] for part in chosen["parts"]) for name in ("operations", "nbytes"))
    points = [
        (p["operations"] / max(1.0, p["nbytes"]), p["operations"] / max(1e-6, p["predicted_us"]) / 1e3, "none") for p in chosen["parts"]
    ]
    if decision["measured_us"]:
        points.append((operations / max(1.0, nbytes), operations / decision["measured_us"] / 1e3, "currentColor"))
    x_low, x_high, y_low, y_high = -3.0, 3.0, -2.0, math.ceil(math.log10(max(rate["every"] for rate in figures["compute"])))

    def at(density: float, rate: float) -> tuple[float, float]:
        x = (min(x_high, max(x_low, math.log10(max(density, 1e-9)))) - x_low) / (x_high - x_low)
        y = (y_high - min(y_high, max(y_low, math.log10(max(rate, 1e-9))))) / (y_high - y_low)
        return 50 + 520 * x, 24 + 166 * y

    parts = []
    top = max(rate["every"] for rate in figures["compute"])
    for level in figures["memory"]:
        (x0, y0), (x1, y1) = at(10**x_low, 10**x_low * level["every"]), at(top / level["every"], top)
        parts.append(f'<path d="M{x0:.1f} {y0:.1f}L{x1:.1f} {y1:.1f}" stroke="currentColor" stroke-opacity="0.4" fill="none"/>')
        height = 10 ** (y_low + 0.5 + 0.4 * len(parts) / 2)  # each name at a height of its own
        x, y = at(height / level["every"], height)
        parts.append(_text(x + 6, y + 4, f"{level['name']} {level['every']:.3g} GB/s", "start"))
    above = math.inf
    for rate in sorted(figures["compute"], key=lambda found: found["every"]):
        (x0, y0), (x1, _) = at(10**x_low, rate["every"]), at(10**x_high, rate["every"])
        parts.append(f'<path d="M{x0:.1f} {y0:.1f}H{x1:.1f}" stroke="currentColor" stroke-opacity="0.4" fill="none"/>')
        above = min(above - 12, y0 - 3)  # no name on another
        parts.append(_text(x1, above, f"{rate['name']} {rate['every']:.3g} GFLOP/s", "end"))
    for density, rate_of, fill in points:
        x, y = at(density, rate_of)
        parts.append(f'<path d="M{x:.1f} {y - 5:.1f}l5 5l-5 5l-5 -5Z" stroke="currentColor" fill="{fill}"/>')
    parts.append(_text(570, 206, "operations per byte; hollow: predicted, filled: measured", "end"))
    about = html.escape("; ".join(f"{density:.3g} operations per byte at {rate_of:.3g} GFLOP/s" for density, rate_of, _ in points))
    return f'<svg viewBox="0 0 580 212" width="580" role="img" aria-label="{about}">{"".join(parts)}</svg>'
