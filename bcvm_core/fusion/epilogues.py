"""Products followed by elementwise ops: `policy_002`. What stands after a product is computed on blocks of it, where they were made.

A *tail* is the whole run of elementwise ops right after a product whose result only they read; a bias that the product takes itself is
the first of them. It becomes a segment, whose first input is the product.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from ..isa.program import Arg, Instruction, Program, written_by
from .segments import Segment, SegmentOp, is_neutral, last_reads, op_of

POLICY: Final = 2
_TRANSPOSED: Final = (("transpose_x", False), ("transpose_y", True))


@dataclass(frozen=True, slots=True)
class Epilogue:
    """Instructions `pcs`: a product of two registers and its tail. `by_weight`: the second operand is (out, in).

    `bias`: the register of one that has a number for each column and nothing else; None: there is none.
    """

    op: str
    operands: tuple[int, int]
    by_weight: bool
    bias: int | None
    tail: Segment
    pcs: tuple[int, ...]

    @property
    def inputs(self) -> tuple[int, ...]:
        """Registers that it reads: the product's operands, then what the tail takes beside the product."""
        return (*self.operands, *self.tail.inputs[1:])

    @property
    def outputs(self) -> tuple[int, ...]:
        """The registers that it writes for others."""
        return self.tail.outputs


def find(program: Program, barred: frozenset[int] = frozenset()) -> list[Epilogue]:
    """The epilogues of a straight-line program, in order. Instructions in `barred` belong to none."""
    code = program.instructions
    read = last_reads(code)
    defined = {register: pc for pc, instruction in enumerate(code) for register in written_by(instruction)}
    found = []
    for pc, instruction in enumerate(code):
        product = None if pc in barred else _product(instruction, program.consts)
        made = None if product is None else _epilogue(program, barred, pc, product, read, defined)
        if made is not None:
            found.append(made)
    return found


def encloses(epilogue: Epilogue, segments: Sequence[Segment]) -> bool:
    """Whether each segment lies within the epilogue or apart from it."""
    inside = set(epilogue.pcs)
    return all(inside.isdisjoint(s.pcs) or inside.issuperset(s.pcs) for s in segments)


_Product = tuple[str, tuple[int, int], bool, int | None]  # op, operands, by_weight, bias


def _product(instruction: Instruction, consts: Sequence[Any]) -> _Product | None:
    """What a product is made of; None for other instructions and other calls."""
    if instruction.opcode != "CALL_OP" or instruction.operands[1] not in ("matmul", "linear", "matmul_transposed"):
        return None
    _, op, _, args = instruction.operands
    named: dict[str, Arg] = {a.name: a for a in args if a.name not in (None, "dialect")}
    plain = [a for a in args if a.name is None]
    if op == "linear":
        named = {**dict(zip(("x", "weight", "bias"), plain, strict=False)), **named}
        bias = named.pop("bias", None)
        if bias is not None and bias.is_const:
            if consts[bias.index] is not None:
                return None
            bias = None
        if set(named) != {"x", "weight"} or any(a.is_const for a in named.values()):
            return None
        return op, (named["x"].index, named["weight"].index), True, None if bias is None else bias.index
    if len(plain) != 2 or any(a.is_const for a in plain) or not all(a.is_const for a in named.values()):
        return None
    given = tuple(sorted((name, consts[a.index]) for name, a in named.items()))
    if given != (_TRANSPOSED if op == "matmul_transposed" else ()) or any(type(value) is not bool for _, value in given):
        return None
    return op, (plain[0].index, plain[1].index), op != "matmul", None


def _epilogue(
    program: Program, barred: frozenset[int], pc: int, product: _Product, read: Mapping[int, int], defined: Mapping[int, int]
) -> Epilogue | None:
    op, operands, by_weight, bias = product
    result: int = program.instructions[pc].operands[0]
    ops = [SegmentOp(pc, "add", (result, bias), (), -1)] if bias is not None else []
    run = list(_run(program, barred, pc, result))
    if bias is not None:  # what is read after it is the sum
        run = [_renamed(step, result, -1) for step in run]
    ops += run
    if not run:
        return None
    inside = {step.dest for step in ops}
    inputs = dict.fromkeys(p for step in ops for p in step.operands if isinstance(p, int) and p not in inside)
    others = [register for register in inputs if register != result]
    outputs = tuple(step.dest for step in run if read.get(step.dest, -1) > run[-1].pc)
    early = all(defined.get(register, -1) < pc for register in others)
    if result not in inputs or read.get(result, -1) > run[-1].pc or len(outputs) != 1 or not early:
        return None
    tail = Segment(tuple(ops), (result, *others), outputs)
    if bias is None:
        bias = next((p for step in run if _is_bias(step) for p in step.operands[1:] if type(p) is int), None)
    return Epilogue(op, operands, by_weight, bias, tail, (pc, *(step.pc for step in run))) if tail.is_joined else None


def _run(program: Program, barred: frozenset[int], pc: int, result: int) -> Iterator[SegmentOp]:
    """The elementwise ops right after a product."""
    for at in range(pc + 1, len(program.instructions)):
        instruction = program.instructions[at]
        step = None if at in barred else op_of(at, instruction, program.consts) or _bias(at, instruction, program.consts, result)
        if step is not None:
            yield step
        elif not is_neutral(instruction):
            return


def _bias(pc: int, instruction: Instruction, consts: Sequence[Any], result: int) -> SegmentOp | None:
    """`bias_add` along the last axis of the product."""
    if instruction.opcode != "CALL_OP" or instruction.operands[1] != "bias_add":
        return None
    dest, _, _, args = instruction.operands
    plain = [a.index for a in args if a.name is None and not a.is_const]
    rest = [(a.name, consts[a.index]) for a in args if a.is_const and a.name != "dialect"]
    if (
        len(plain) != 2
        or any(a.name is not None and not a.is_const for a in args)
        or plain[0] != result
        or rest not in ([], [("axis", 1)], [("axis", -1)])
    ):
        return None
    return SegmentOp(pc, "add", (plain[0], plain[1]), (("bias", rest == [("axis", -1)]),), dest)


def _is_bias(step: SegmentOp) -> bool:
    """Whether it stands for a `bias_add`."""
    return step.op == "add" and step.attrs in ((("bias", True),), (("bias", False),))


def only_of_matrices(epilogue: Epilogue) -> bool:
    """Whether it must be left to its ops for other tensors: a bias along axis 1 is one along the last axis for matrices only."""
    return epilogue.op != "linear" or any(step.attrs == (("bias", False),) for step in epilogue.tail.ops)


def plain_tail(epilogue: Epilogue) -> Segment:
    """The tail as ops of the op table."""
    return replace(epilogue.tail, ops=tuple(replace(step, attrs=()) if _is_bias(step) else step for step in epilogue.tail.ops))


def _renamed(step: SegmentOp, old: int, new: int) -> SegmentOp:
    return replace(step, operands=tuple(new if type(p) is int and p == old else p for p in step.operands))
