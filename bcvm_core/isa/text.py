"""The text form of programs (``.bc``): `assemble` and `disassemble`.

::

    ; comment to the end of the line; blank lines mean nothing
    .program NAME(param, ...)            one Program; nested ones follow as .program NAME.0(...), NAME.0.1(...)
    .name NAME                           of a nested Program that is not called after its place
    .kind cell                           function (if left out), cell, region, generator, coroutine, async_generator
    .file "PATH" line N                  where the source begins; "<bcvm>" line 1 if left out
    .locals a, b                         variables of the frame's own
    .dims B, C                           symbolic dims used in hints
    .sig 0x0001 = relu(float32:NCHW:host)   signature rows; numbers are local to the file and mapped to the process's table
    .const k0 = float32 2.0              constants, as `isa.literals` describes them
    .host h0 reads(a, b) writes(c) line 7:             a statement block, its source verbatim below, indented by 4 spaces
    .host h1 expr reads(a) writes() line 8, column 4:  an expression block
    .site h0 2:4-3:9 run 0 targets(c)    span of h0's source that nested Program 0 replaces (form: run, tree, value)
    .code                                optional; ends the header
    label L1:
    PC  OPCODE  operands                 ; line:column[-line:column]  anything
    .data sha256:HASH                    bytes of array constants, base64 below, indented by 4 spaces

Operands: `rN` register, `kN` constant, `hN` host block, `Ln` label, `[..]` shape hint, `0x....` signature, `policy_NNN`,
device names, Python numbers; `_` an absent register (left out at the end). Named arguments are `axis=k0`. A list before other
operands stands in parentheses: `UNPACK (r1, r2), r0`. Names that are no identifiers are JSON strings.
The number at the left is optional on input and not read. A comment of the form `; 7:4` is the instruction's place in the source.

``assemble(disassemble(p)) == p`` for every Program.
"""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass
from textwrap import wrap

from ..errors import BcvmError, EncodeError
from . import literals, opcodes
from .assembler import assemble
from .hints import ShapeHint, renamed, short_names
from .opcodes import Kind
from .operands import Names, quoted, show_name, show_names, show_operands
from .program import MAX_PLACE, HostBlock, Instruction, Program, SourceLoc
from .signature import SignatureTable
from .signature import table as process_table

__all__ = ["ListedInstruction", "assemble", "disassemble", "instructions"]

_COMMENT_COLUMN = 52  # or further to the right, where an instruction is longer
_LAST_COLUMN = 88  # comments of still longer ones stand behind them


def disassemble(
    program: Program,
    *,
    source: str | None = None,
    data: bool = True,
    short: bool = False,
    signatures: SignatureTable = process_table,
) -> str:
    """The listing of a program.

    `source`: the text of `program.filename`; its lines are repeated beside the instructions.
    `data=False` leaves the bytes of array constants out (such a listing can't be assembled).
    `short=True` shortens dim names for display where that is unique.
    Raises EncodeError for what the text form cannot carry (operands of wrong kinds, unknown opcodes).
    """
    arrays: literals.ArrayData = {}
    lines = _Listing(source, arrays, short, signatures).program(program, show_name(program.name), None)
    if data:
        for key, raw in arrays.items():
            lines += ["", f".data sha256:{key}", *(f"    {line}" for line in wrap(b64encode(raw).decode(), 120))]
    return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True)
class ListedInstruction:
    """One instruction as the listing shows it, for views that lay it out themselves.

    `text` is without its place; `label` is the name of the label before it, or ""; `constants` are those it names, as "k0 = 2.0".
    """

    text: str
    label: str
    constants: tuple[str, ...]


def instructions(program: Program, *, signatures: SignatureTable = process_table) -> tuple[ListedInstruction, ...]:
    """The instructions of one program, without those of the Programs nested in it. Raises EncodeError as `disassemble` does."""
    listing = _Listing(None, {}, False, signatures)
    labels = _labels_of(program)
    context = Names(labels, dict.fromkeys(_signatures_of(program), 0))
    return tuple(
        ListedInstruction(listing.bare(instruction, context, {}), labels.get(pc, ""), _constants_of(program, instruction))
        for pc, instruction in enumerate(program.instructions)
    )


def _constants_of(program: Program, instruction: Instruction) -> tuple[str, ...]:
    found: list[int] = []
    for (_, kind), value in zip(instruction.row.operands, instruction.operands, strict=False):
        if kind is Kind.CONST:
            found.append(value)
        elif kind is Kind.ARGS:
            found += [a.index for a in value if a.is_const]
    return tuple(f"k{n} = {literals.show(program.consts[n], {})}" for n in dict.fromkeys(found))


class _Listing:
    """One run of the disassembler."""

    def __init__(self, source: str | None, arrays: literals.ArrayData, short: bool, signatures: SignatureTable) -> None:
        self.source = source.split("\n") if source is not None else []
        self.arrays = arrays
        self.short = short
        self.signatures = signatures

    def program(self, program: Program, path: str, default_name: str | None) -> list[str]:
        """Lines of `program` and the Programs nested in it, in preorder."""
        names = short_names(program.dims) if self.short else {}
        lines = [f".program {path}({show_names(program.params)})"]
        if default_name is not None and program.name != default_name:
            lines.append(f".name {show_name(program.name)}")
        lines += self.header(program, names)
        lines += self.code(program, names)
        for number, nested in enumerate(program.nested):
            lines += ["", *self.program(nested, f"{path}.{number}", f"{program.name}.{number}")]
        return lines

    def header(self, program: Program, names: dict[str, str]) -> list[str]:
        lines = []
        if program.kind != "function":
            lines.append(f".kind {show_name(program.kind)}")
        if program.filename != "<bcvm>" or program.first_line != 1:
            lines.append(f".file {quoted(program.filename)} line {_count(program.first_line)}")
        if program.local_names:
            lines.append(f".locals {show_names(program.local_names)}")
        if program.dims:
            lines.append(f".dims {show_names(tuple(names.get(dim, dim) for dim in program.dims))}")
        for number in _signatures_of(program):
            lines.append(f".sig 0x{number:04X} = {self.row(number)}")
        for number, value in enumerate(program.consts):
            lines.append(f".const k{number} = {literals.show(value, self.arrays)}")
        for number, host in enumerate(program.hosts):
            lines += _host_lines(number, host)
        return [*lines, ".code"] if program.hosts else lines

    def row(self, number: int) -> str:
        try:
            row = self.signatures.row(number)
        except BcvmError as error:
            raise EncodeError(error.what, fix=error.fix) from None
        return f"{show_name(row.op)}({', '.join(map(str, row.operands))})"

    def code(self, program: Program, names: dict[str, str]) -> list[str]:
        labels = _labels_of(program)
        context = Names(labels, dict.fromkeys(_signatures_of(program), 0))
        width = len(str(max(len(program.instructions) - 1, 0)))
        lines = []
        bare = [self.bare(instruction, context, names) for instruction in program.instructions]
        column = max([_COMMENT_COLUMN, *(len(text) for text in bare if len(text) <= _LAST_COLUMN)])
        for pc, (instruction, text) in enumerate(zip(program.instructions, bare, strict=True)):
            if pc in labels:
                lines.append(f"label {labels[pc]}:")
            place = "" if instruction.loc is None else self.place(instruction.loc)
            decision = program.notes.get("decisions", {}).get(pc, "")  # what was decided about the fusion region begun here
            comment = "  ".join(filter(None, (place, decision)))
            lines.append(f"{pc:{width}d}  {text:{column}s}  ; {comment}" if comment else f"{pc:{width}d}  {text}")
        if len(program.instructions) in labels:
            lines.append(f"label {labels[len(program.instructions)]}:")
        return lines

    def bare(self, instruction: Instruction, context: Names, names: dict[str, str]) -> str:
        """The instruction without its place."""
        row = opcodes.BY_NAME.get(instruction.opcode)
        if row is None:
            raise EncodeError(f"there is no opcode {instruction.opcode!r}")
        operands = instruction.operands
        if names:
            operands = tuple(renamed(value, names) if isinstance(value, ShapeHint) else value for value in operands)
        return f"{row.name:12s} {show_operands(row, operands, context)}".rstrip()

    def place(self, loc: SourceLoc) -> str:
        text = f"{_count(loc.line)}:{_count(loc.column)}"
        if loc.end_line is not None or loc.end_column is not None:
            end = ["" if part is None else str(_count(part)) for part in (loc.end_line, loc.end_column)]
            text += f"-{end[0]}:{end[1]}"
        if 0 < loc.line <= len(self.source):
            text += f"  {self.source[loc.line - 1].strip()}"
        return text


def _count(number: int) -> int:
    if type(number) is not int or not 0 <= number < MAX_PLACE:
        raise EncodeError(f"{number!r} is no line or column")
    return number


def _host_lines(number: int, host: HostBlock) -> list[str]:
    if host.kind not in ("stmt", "expr"):
        raise EncodeError(f"host block h{number} is of kind {host.kind!r}")
    form = " expr" if host.kind == "expr" else ""
    column = f", column {_count(host.column)}" if host.column else ""
    head = f".host h{number}{form} reads({show_names(host.reads)}) writes({show_names(host.writes)}) line {_count(host.line)}{column}:"
    lines = [head, *(f"    {line}" for line in host.source.split("\n"))]
    for site in host.sites:
        span = [_count(part) for part in (site.line, site.column, site.end_line, site.end_column)]
        place = f"{span[0]}:{span[1]}-{span[2]}:{span[3]}"
        lines.append(f".site h{number} {place} {show_name(site.form)} {_count(site.program)} targets({show_names(site.targets)})")
    return lines


def operands_of(program: Program, kind: Kind) -> list[object]:
    """All operand values of one kind, in program order."""
    return [
        value
        for instruction in program.instructions
        if instruction.opcode in opcodes.BY_NAME
        for (_, k), value in zip(instruction.row.operands, instruction.operands, strict=False)
        if k is kind
    ]


def _signatures_of(program: Program) -> list[int]:
    """Ids of the signatures used, in order of first use, without 0."""
    return [s for s in dict.fromkeys(operands_of(program, Kind.SIG)) if type(s) is int and s]


def _labels_of(program: Program) -> dict[int, str]:
    """Label names by target, numbered from L1 in program order."""
    targets = {t for t in operands_of(program, Kind.LABEL) if type(t) is int and 0 <= t <= len(program.instructions)}
    return {target: f"L{number}" for number, target in enumerate(sorted(targets), 1)}
