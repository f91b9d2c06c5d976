"""From the machine code of kernels (`bcvm_core.machinecode`) to the message of the protocol, and to text and HTML."""

from __future__ import annotations

import html
from collections.abc import Iterator

from bcvm_core.machinecode import PARTS, MachineCode, bounded, codes_of, obstacle
from bcvm_core.watch import Unit

from . import protocol
from .protocol import Code, CodeBlock

LINES = 600  # of a message


def message(unit: Unit, generation: int, kernel: int, instruction: int) -> Code:
    """The code of a kernel of a unit by its number, or (-1) of the latest that does an instruction, or (-1) of the first."""
    found = codes_of(unit)
    if not 0 <= kernel < len(found):
        wanted = unit.instructions[instruction] if 0 <= instruction < len(unit.instructions) else None
        does = [n for n, code in enumerate(found) if wanted and any(code.key(pc) == (wanted.span, wanted.op) for pc in code.pcs)]
        kernel = does[-1] if does else 0
    return _message(unit, generation, found, kernel)


def messages(unit: Unit, generation: int) -> Iterator[Code]:
    """The code of each kernel of a unit."""
    found = codes_of(unit)
    return (_message(unit, generation, found, kernel) for kernel in range(len(found)))


def _message(unit: Unit, generation: int, found: list[MachineCode], kernel: int) -> Code:
    out = protocol.empty_code()
    out["generation"], out["unit"], out["obstacle"] = generation, unit.key, obstacle()
    out["kernels"], out["chosen"] = [code.title for code in found], kernel
    if found:
        code = found[kernel]
        shown, out["left_out"] = bounded(code.blocks(), LINES)
        out["size"] = code.size
        places = {(view.span, view.op): n for n, view in enumerate(unit.instructions)}
        out["blocks"] = [
            {
                "name": block.name,
                "part": block.part,
                "what": block.what,
                "instruction": None if block.pc is None or (key := code.key(block.pc)) is None else places.get(key),
                "lines": [{"at": line.at, "code": line.code, "text": line.text, "notes": list(line.notes)} for line in block.lines],
            }
            for block in shown
        ]
    return out


# --- static forms ------------------------------------------------------------------------------


def title(code: Code) -> str:
    """In a line."""
    return f"machine code of {code['kernels'][code['chosen']]}: {code['size']:,} bytes"


def text(code: Code) -> str:
    """The blocks, each with its lines."""
    return "\n".join([title(code), *filter(None, [code["obstacle"]]), *_lines(code)])


def as_html(code: Code) -> str:
    """The same, folded away under its title; without scripts."""
    told = f"<p>{html.escape(code['obstacle'])}</p>" if code["obstacle"] else ""
    listing = html.escape("\n".join(_lines(code)))
    return f"<details><summary>{html.escape(title(code))}</summary>{told}<pre>{listing}</pre></details>"


def _lines(code: Code) -> Iterator[str]:
    before = ""
    for block in code["blocks"]:
        if block["part"] != before:
            before = block["part"]
            yield f"  {PARTS[before]}"
        yield f"    {block['name']}: {block['what']}"
        yield from _block(block)
    if code["left_out"]:
        yield f"  {code['left_out']:,} more lines"


def _block(block: CodeBlock) -> Iterator[str]:
    width = max([24, *(len(line["code"]) for line in block["lines"])])
    for line in block["lines"]:
        note = f"  ; {'; '.join(line['notes'])}" if line["notes"] else ""
        yield f"      {line['at']:04x}  {line['code']:<{width}}  {line['text']}{note}".rstrip()
