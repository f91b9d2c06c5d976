"""Checks of a flat program that hold whatever the sizes are: how many axes a result has follows from the ops alone.

Layers ask their operand for its rank at each call (`if len(x.shape) != 4: raise`). Where the operand is an image that a convolution has
made, asking again tells nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from ...fusion.segments import op_of
from ...isa.program import Instruction, Program, read_by, written_by

_IMAGES: Final = 4
_POOLS: Final = frozenset({"max_pool2d", "avg_pool2d"})
_FIRST_LIKE_X: Final = frozenset({"batch_norm_parts", "layer_norm_parts"})  # of several results the first has the shape of x
_COMPARING: Final = frozenset({"equal", "not_equal", "less", "less_equal", "greater", "greater_equal"})


def certain(program: Program, direct: Mapping[int, Callable[..., Any]]) -> frozenset[int]:
    """The instructions (pc) that need not run: checks that always hold, and what only they read. `direct`: what works on plain values."""
    known = _Known(program, direct)
    checks = {pc for pc, instruction in enumerate(program.instructions) if known.see(pc, instruction)}
    return frozenset(checks | _only_for(program, checks, direct))


class _Known:
    """What is known of registers so far."""

    def __init__(self, program: Program, direct: Mapping[int, Callable[..., Any]]) -> None:
        self.consts, self.direct = program.consts, direct
        self.ranks: dict[int, int] = {}  # of tensors
        self.parts: dict[int, int] = {}  # of the first of several tensors
        self.sizes: dict[int, int] = {}  # lengths of shapes
        self.values: dict[int, Any] = {}

    def see(self, pc: int, instruction: Instruction) -> bool:
        """Take in an instruction; whether it is a check that always holds."""
        if instruction.opcode == "CHECK":
            register, (expected,) = instruction.operands
            if register not in self.values or not expected.is_const:
                return False
            value, wanted = self.values[register], self.consts[expected.index]
            return type(value) is type(wanted) and bool(value == wanted)
        if pc in self.direct:
            self._plain(pc, instruction)
        else:
            self._tensor(pc, instruction)
        return False

    def _plain(self, pc: int, instruction: Instruction) -> None:
        if instruction.opcode != "CALL_OP":
            return
        dest, name, _, args = instruction.operands
        first = args[0].index if args and not args[0].is_const else -1
        if name == "shape" and first in self.ranks:
            self.sizes[dest] = self.ranks[first]
        elif name == "ndim" and first in self.ranks:
            self.values[dest] = self.ranks[first]
        elif name == "len" and first in self.sizes:
            self.values[dest] = self.sizes[first]
        elif name in _COMPARING and all(a.name is None and (a.is_const or a.index in self.values) for a in args):
            self.values[dest] = self.direct[pc](*[self.consts[a.index] if a.is_const else self.values[a.index] for a in args])

    def _tensor(self, pc: int, instruction: Instruction) -> None:
        if instruction.opcode == "UNPACK":
            dests, source = instruction.operands
            if dests and source in self.parts:
                self.ranks[dests[0]] = self.parts[source]
            return
        step = op_of(pc, instruction, self.consts)
        if step is not None:
            registers = [place for place in step.operands if type(place) is int]
            if registers and all(register in self.ranks for register in registers):
                self.ranks[step.dest] = max(self.ranks[register] for register in registers)
        elif instruction.opcode == "CALL_OP":
            self._op(instruction)

    def _op(self, instruction: Instruction) -> None:
        dest, name, _, args = instruction.operands
        first = args[0].index if args and not args[0].is_const else -1
        if name == "conv2d":
            self.ranks[dest] = _IMAGES
        elif name in _POOLS and first in self.ranks and not any(a.name == "return_indices" for a in args):
            self.ranks[dest] = self.ranks[first]
        elif name in _FIRST_LIKE_X and first in self.ranks:
            self.parts[dest] = self.ranks[first]
        elif name == "getitem" and first in self.parts and args[1].is_const and self.consts[args[1].index] == 0:
            self.ranks[dest] = self.parts[first]


def _only_for(program: Program, checks: set[int], direct: Mapping[int, Callable[..., Any]]) -> set[int]:
    """Work on plain values whose results nobody else reads."""
    wanted: set[int] = set()  # registers that are read by what runs
    asked: set[int] = set()  # those that are read by what does not
    found = set()
    for pc, instruction in reversed(list(enumerate(program.instructions))):
        made = written_by(instruction)
        if pc in direct and wanted.isdisjoint(made) and not asked.isdisjoint(made):
            found.add(pc)
        (asked if pc in checks or pc in found else wanted).update(read_by(instruction))
    return found
