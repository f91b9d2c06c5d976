"""The machine code that runs for fused kernels, as plain data and as text: stencil by stencil, each with the instruction it works for.

Nothing is made or changed for it; what can't be taken apart (kernels compiled whole) is shown whole. Offsets count from the beginning of
the code, so the same kernel gives the same text wherever it lies.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from .codegen import disassembly
from .codegen.rows.chain import Chain, Elements, Place, Rows
from .codegen.stencils import listing
from .codegen.stencils.graph import NotFusable
from .codegen.stencils.kernel import FusedKernel, Placed
from .errors import LoweringError
from .isa.text import instructions
from .jit import linker_of
from .tiers.epilogue import EpilogueSite
from .tiers.fuse import FusedSite, parts_of
from .tiers.graphs import pattern_text
from .tiers.hot import Heat
from .vm.region import Region, RegionRunner
from .watch import Key, Unit, key_of

LINES: Final = 2000  # of a text; what is beyond is counted
WHOLE_BYTES: Final = 16384  # of a function that was compiled whole: as much is looked at
_SIGNATURE: Final = re.compile(r",? 0x[0-9A-F]{4}\b")  # its number differs from process to process
_RIP: Final = re.compile(r"rip [+-] 0x[0-9a-f]+|rip")


@dataclass(frozen=True, slots=True)
class Line:
    """An instruction of the machine, or without capstone a few bytes. `code`: its bytes in hex, patched ones in brackets, those that
    depend on where the code lies as dots. `notes`: what the patches are."""

    at: int
    code: str
    text: str
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """A stencil, or a function compiled whole. `part`: "frame", "loop", "tail" or "whole"; `pc`: of its instruction, None: of none."""

    name: str
    part: str
    what: str
    pc: int | None
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True, eq=False)
class MachineCode:
    """The code of one kernel, for operands of one kind. `pcs`: of the instructions that it does, in the program of its region."""

    where: str
    ops: tuple[str, ...]
    pcs: tuple[int, ...]
    tier: int
    operands: str
    size: int
    program: Any
    _source: Sequence[tuple[Any, int, tuple[int, ...], tuple[str, ...]]]  # (what, repeated inputs, pcs of nodes, names of inputs)

    @property
    def title(self) -> str:
        """In a line."""
        return f"{', '.join(self.ops)} ({self.where}), tier {self.tier}, {self.operands}"

    def blocks(self) -> list[Block]:
        """Its stencils in order of memory. Empty where the kernel has gone."""
        try:
            return [block for source in self._source for block in _blocks(*source)]
        except (NotFusable, KeyError):
            return []

    def listed(self, pc: int) -> str:
        """An instruction of its region, as listings show it, without its signature."""
        return " ".join(_SIGNATURE.sub("", instructions(self.program)[pc].text, count=1).split())

    def key(self, pc: int) -> Key | None:
        """By which an instruction of its region is found among those of a unit that is watched."""
        return key_of(self.program.instructions[pc])

    def text(self, limit: int = LINES) -> str:
        """The listing, of at most so many lines of code."""
        shown, left_out = bounded(self.blocks(), limit)
        out = [f"{self.title}: {self.size:,} bytes"]
        out += filter(None, [obstacle()])
        before: str | None = None
        for block in shown:
            if block.part != before:
                out.append(f"  {PARTS[block.part]}")
                before = block.part
            about = f"pc {block.pc} {self.listed(block.pc)}" if block.pc is not None else ""
            out.append(f"    {block.name:<18} {block.what:<58} {about}".rstrip())
            width = max([24, *(len(line.code) for line in block.lines)])
            for line in block.lines:
                note = f"  ; {'; '.join(line.notes)}" if line.notes else ""
                out.append(f"      {line.at:04x}  {line.code:<{width}}  {line.text}{note}".rstrip())
        return "\n".join([*out, *([f"  {left_out:,} more lines"] if left_out else [])])


PARTS: Final = {
    "frame": "around the loop",
    "loop": "in the loop, for whole steps",
    "tail": "for the last, partial step",
    "whole": "compiled whole, not spliced",
}


def obstacle() -> str:
    """Why there are bytes and no instructions, "" where there are instructions."""
    return disassembly.obstacle()


def bounded(blocks: Sequence[Block], limit: int) -> tuple[list[Block], int]:
    """The first blocks with at most `limit` lines, and how many lines are left out."""
    out: list[Block] = []
    room, total = limit, sum(len(block.lines) for block in blocks)
    for block in blocks:
        if room <= 0:
            break
        out.append(replace(block, lines=block.lines[:room]))
        room -= len(block.lines)
    return out, max(0, total - limit)


def machine_code(function: Any, *, limit: int = LINES) -> str:
    """The machine code that runs for the fused kernels of a function decorated with `@bcvm.jit`, which must have been called.

    With the extra `disasm` as instructions, else as bytes. At most `limit` lines of each kernel. Raises LoweringError for others.
    """
    linker = linker_of(getattr(function, "__func__", function))
    if linker is None:
        raise LoweringError(f"{function!r} was not lowered", fix="decorate the function with @bcvm.jit")
    found = list(codes((linker.name, site) for site in regions(linker.table.placeholders.values())))
    return "\n\n".join(code.text(limit) for code in found) or f"no fused kernel of {linker.name} has run"


def codes_of(unit: Unit) -> list[MachineCode]:
    """The code of all kernels of a unit that is watched."""
    return list(codes((unit.title, region) for region in regions(unit.sites())))


def regions(sites: Iterable[Any]) -> list[Region]:
    """The regions among sites, each once, by line."""
    found = {id(site): site for site in list(sites) if isinstance(site, Region)}
    return sorted(found.values(), key=lambda site: site.key[1:])


def codes(sites: Iterable[tuple[str, Region]]) -> Iterator[MachineCode]:
    """The code of all kernels of some (function or cell, region)."""
    for name, region in sites:
        for plan in list(region.plans.values()):
            if isinstance(plan, RegionRunner):
                found = (*plan.chains.values(), *plan.segments.values())
                sites_ = [each for site in found for each in (site, *parts_of(site))]
                for site in sorted(sites_, key=lambda site: site.segment.first):
                    yield from _of_site(name, plan.code.program, site)


def _of_site(name: str, program: Any, site: FusedSite) -> Iterator[MachineCode]:
    segment = site.segment
    loc = program.instructions[segment.first].loc
    where = name if loc is None else f"{name}, line {loc.line}"
    names = tuple(f"r{register}" for register in segment.inputs)

    def made(tier: int, operands: str, size: int, source: Any) -> MachineCode:
        return MachineCode(where, site.names, site.pcs, tier, operands, size, program, source)

    kernels = [(pattern_text(p.inputs), p.kernel) for p in list(site.patterns.values())]
    if isinstance(site, EpilogueSite):
        kernels = [(f"blocks of a product, {name}", kernel) for name, kernel in list(site.tails.items())]
    for operands, kernel in kernels:
        if isinstance(kernel, Chain):
            source = [_stage(kernel, number, stage) for number, stage in enumerate(kernel.plan.stages)]
            yield made(2, operands, sum(code.size for code in kernel.codes), source)
        elif isinstance(kernel, FusedKernel):
            for mask, code in list(kernel.codes.items()):
                kind = _repeats(operands, mask, names)
                yield made(2, kind, code.size, [(kernel, mask, segment.pcs, names)])
                yield from (made(3, f"{kind}, {size}", hot.size, [(hot, 0, segment.pcs, names)]) for size, hot in _hot(kernel, mask))


def _repeats(operands: str, mask: int, names: tuple[str, ...]) -> str:
    """The pattern of operands that some code is for."""
    repeated = ", ".join(name for k, name in enumerate(names) if mask >> k & 1)
    return f"{operands}; {repeated} repeated along rows" if repeated else operands


def _hot(kernel: FusedKernel, mask: int) -> Iterator[tuple[str, Placed]]:
    """The code that tier 3 made for classes of a kernel."""
    if isinstance(kernel.heat, Heat):
        for (own, *sizes), found in list(kernel.heat.classes.items()):
            if own == mask and found.code is not None:
                yield f"up to {(1 << sizes[0]) - 1:,} elements" if len(sizes) == 1 else f"shape {sizes[1:]}", found.code


def _stage(chain: Chain, number: int, stage: Elements | Rows) -> tuple[Any, int, tuple[int, ...], tuple[str, ...]]:
    if isinstance(stage, Elements):
        return stage.kernel, stage.repeated, stage.pcs, tuple(map(_place, stage.places))
    return chain.loops[number][0], 0, (stage.pc,), ()


def _place(place: Place) -> str:
    return f"{place.kind} {place.number} of the chain"


# --- blocks ------------------------------------------------------------------------------------


def _blocks(what: Any, repeated: int, pcs: tuple[int, ...], names: tuple[str, ...]) -> Iterator[Block]:
    if isinstance(what, FusedKernel):
        for piece in listing.pieces(what, repeated):
            pc = pcs[piece.node] if 0 <= piece.node < len(pcs) else None
            yield Block(piece.stencil, piece.part, piece.what, pc, tuple(_lines(piece, names)))
    elif isinstance(what, Placed):
        yield _whole("recompiled", "all of the loop, by the optimising back end", None, what.address, what.size)
    else:
        yield _whole(what.name, f"rows of {what.dtype}, by the compiler", pcs[0] if pcs[0] >= 0 else None, what.rows, WHOLE_BYTES)


def _whole(name: str, what: str, pc: int | None, address: int, size: int) -> Block:
    """A function that was compiled whole; nothing of it is patched."""
    if disassembly.obstacle():  # where it ends is not known then
        return Block(name, "whole", f"{what}; {disassembly.MISSING}", pc, ())
    found = disassembly.function(_readable(address, size))
    return Block(name, "whole", what, pc, tuple(Line(i.at, i.code.hex(" "), i.text, ()) for i in found))


def _readable(address: int, size: int) -> bytes:
    """So many bytes from an address on, or those up to the end of its page, beyond which there may be no memory."""
    page = 4096
    out = b""
    while len(out) < size and (not out or disassembly.open_ended(out)):
        out += ctypes.string_at(address + len(out), page - (address + len(out)) % page)
    return out[:size]


def _lines(piece: listing.Piece, names: tuple[str, ...]) -> Iterator[Line]:
    for i in disassembly.decode(piece.code, piece.at):
        start = i.at - piece.at
        holes = [hole for hole in piece.holes if hole.offset < start + len(i.code) and start < hole.offset + 4]
        text = i.text
        for hole in holes:
            if hole.data:
                text = _RIP.sub(hole.meaning.partition(":")[0].replace("constants ", ""), text)
        yield Line(i.at, _hex(i.code, start, holes), text, tuple(_note(hole, names) for hole in holes))


def _hex(code: bytes, start: int, holes: Sequence[listing.Hole]) -> str:
    """Bytes; those of holes in brackets, dots where they depend on where the code lies."""
    words = [f"{byte:02x}" for byte in code]
    for hole in holes:
        first, last = max(0, hole.offset - start), min(len(code), hole.offset - start + 4)
        if hole.data:
            words[first:last] = [".."] * (last - first)
        words[first] = "[" + words[first]
        words[last - 1] += "]"
    return " ".join(words)


def _note(hole: listing.Hole, names: tuple[str, ...]) -> str:
    return f"{hole.meaning} ({names[hole.input]})" if hole.input is not None and hole.input < len(names) else hole.meaning
