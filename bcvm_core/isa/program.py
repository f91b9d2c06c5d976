"""A Program: instructions, what they refer to, and where each came from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .constants import identical
from .opcodes import BY_NAME, OpcodeRow

MAX_PLACE = 10**9  # lines and columns are below it


@dataclass(frozen=True, slots=True)
class SourceLoc:
    """Where an instruction came from: 1-based line, 0-based column, as in `ast`."""

    line: int
    column: int = 0
    end_line: int | None = None
    end_column: int | None = None


@dataclass(frozen=True, slots=True)
class Arg:
    """One operand of an ARGS list: register `index`, or constant `index`; by position or by name."""

    is_const: bool
    index: int
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction; `operands` holds values as `opcodes.Kind` says, in the order of the row."""

    opcode: str
    operands: tuple[Any, ...] = ()
    loc: SourceLoc | None = None

    @property
    def row(self) -> OpcodeRow:
        return BY_NAME[self.opcode]

    def operand(self, name: str) -> Any:
        """The operand called `name` in the opcode's row."""
        for (label, _), value in zip(self.row.operands, self.operands, strict=True):
            if label == name:
                return value
        raise KeyError(name)


@dataclass(frozen=True, slots=True)
class HostSite:
    """Tensor work nested in a host block: the source span that `Program.nested[program]` replaces.

    Positions are those of `ast` within the block's own source (line 1 is its first line).
    `form` says how the span runs:
    "run"   consecutive statements; the sub-Program returns a tuple bound to `targets`, or the
            function's result when `targets` is ("return",)
    "tree"  one expression whose leaves are names; the sub-Program's parameters are those names
    "value" one op; its operands are evaluated by the host first, in order
    """

    line: int
    column: int
    end_line: int
    end_column: int
    form: str
    program: int
    targets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HostBlock:
    """Python for CALL_HOST. `kind` is "stmt" or "expr"; `source` is dedented and verbatim.

    `line` / `column` place the block in the file. `reads` and `writes` name the frame's variables
    it touches.
    """

    kind: str
    source: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    line: int
    column: int = 0
    sites: tuple[HostSite, ...] = ()


@dataclass(frozen=True, slots=True)
class Program:
    """A lowered function, cell, or region. Two are equal when they are to the last bit (1 is not True here).

    `kind`: "function", "cell" (variables live in a namespace), "region" (straight line; parameters
    are its inputs), "generator", "coroutine" or "async_generator" (one host block with the whole body).
    `dims` are the symbolic dims used by hints, in order of first use. `nested` are sub-Programs:
    regions inside host blocks. Signature ids refer to `isa.signature.table`.
    """

    name: str
    params: tuple[str, ...]
    instructions: tuple[Instruction, ...]
    kind: str = "function"
    dims: tuple[str, ...] = ()
    consts: tuple[Any, ...] = ()
    hosts: tuple[HostBlock, ...] = ()
    nested: tuple[Program, ...] = ()
    local_names: tuple[str, ...] = ()  # variables that are the frame's own; all others are free, global or builtin
    filename: str = "<bcvm>"
    first_line: int = 1
    notes: dict[str, Any] = field(default_factory=dict, compare=False, hash=False)  # never encoded

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Program):
            return NotImplemented
        return self is other or identical(self._state(), other._state())

    def __hash__(self) -> int:
        return hash((self.name, self.params, self.kind, self.dims, tuple(i.opcode for i in self.instructions)))

    def _state(self) -> tuple[Any, ...]:
        code = tuple((i.opcode, i.operands, i.loc) for i in self.instructions)
        return (
            self.name, self.params, code, self.kind, self.dims, self.consts, self.hosts, self.nested,
            self.local_names, self.filename, self.first_line,
        )  # fmt: skip

    @property
    def register_count(self) -> int:
        """One more than the highest register used."""
        return 1 + max((r for i in self.instructions for r in registers_of(i)), default=-1)


def written_by(instruction: Instruction) -> tuple[int, ...]:
    """Registers that an instruction writes."""
    out: list[int] = []
    for (_, kind), value in zip(instruction.row.operands, instruction.operands, strict=True):
        if kind.value in ("dest", "dest?") and value is not None:
            out.append(value)
        elif kind.value == "dests":
            out.extend(value)
    return tuple(out)


def read_by(instruction: Instruction) -> tuple[int, ...]:
    """Registers that an instruction reads."""
    out: list[int] = []
    for (_, kind), value in zip(instruction.row.operands, instruction.operands, strict=True):
        if kind.value in ("reg", "reg?") and value is not None:
            out.append(value)
        elif kind.value == "args":
            out.extend(a.index for a in value if not a.is_const)
    return tuple(out)


def registers_of(instruction: Instruction) -> tuple[int, ...]:
    """All registers that an instruction names."""
    return written_by(instruction) + read_by(instruction)
