"""Signatures known ahead of time: a program and what its parameters will be like -> the program with signatures.

Values are followed abstractly through the instructions. What an op makes of its operands is found
by running its NumPy definition on arrays of one element, so dtypes and ranks are exactly NumPy's and
no rule is written twice. Where something is not known for certain the signature stays 0, "resolved
when bound".
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .. import dtypes
from ..devices import base
from ..errors import Decline
from ..frontend.annotations import TensorSpec
from ..isa import flow
from ..isa.hints import Dim
from ..isa.opcodes import BY_NAME
from ..isa.program import Arg, Instruction, Program, written_by
from ..isa.signature import OperandClass, Signature, table
from ..ops import registry
from ..ops.registry import OpInfo
from ..tiers import keys

_PRODUCT_POLICY = 2
_SAFE_RULES = ("elementwise", "reduce", "matmul", "conv", "same", "other")


@dataclass(frozen=True, slots=True)
class Abstract:
    """A tensor that is not there yet. `layout` None: not known."""

    dtype: str
    dims: tuple[Dim, ...]
    layout: str | None
    memory: str

    def operand_class(self) -> OperandClass | None:
        return None if self.layout is None else base.operand_class(self.dtype, self.layout, self.memory)

    def sample(self) -> Any:
        """An array of one element, of the dtype and rank."""
        dtype = dtypes.BY_NAME[self.dtype].numpy
        return dtype.type(1) if self.layout == "scalar" else np.ones((1,) * len(self.dims), dtype)


@dataclass(frozen=True, slots=True)
class Known:
    """A Python value: a constant, or an example of one (of which only the class reaches a signature)."""

    value: Any

    def operand_class(self) -> OperandClass | None:
        try:
            return base.classify(self.value)
        except Decline:
            return None

    def sample(self) -> Any:
        return self.value


Value = Abstract | Known
State = dict[int, Value]


def abstract(value: Any) -> Value | None:
    """What is known of an example value or of a TensorSpec; None for what no tensor is."""
    if isinstance(value, TensorSpec):
        if value.hint.any_leading:
            return None
        memory = "host" if value.device.startswith("cpu") else "device"
        return Abstract(value.dtype, value.hint.dims, value.layout, memory)
    if type(value) in (bool, int, float, complex):
        return Known(value)
    if isinstance(value, np.ndarray | np.generic) and type(value).__module__ == "numpy":
        try:
            found = base.classify(value)
        except Decline:
            return None
        return Abstract(found.dtype, tuple(value.shape), found.layout, found.memory)
    return None


def sign(program: Program, examples: Mapping[str, Any]) -> Program:
    """`program` with the signatures that follow from its parameters; `examples` are values or TensorSpecs by name."""
    known = {name: found for name, value in examples.items() if (found := abstract(value)) is not None}
    if not known:
        return program
    signer = _Signer(program, known)
    states = signer.states()
    code = tuple(signer.signed(i, states[pc]) for pc, i in enumerate(program.instructions))
    return replace(program, instructions=code, notes={**program.notes, "decisions": dict(signer.rejections(states))})


class _Signer:
    """One walk over a program."""

    def __init__(self, program: Program, parameters: Mapping[str, Value]) -> None:
        self.program = program
        self.parameters = parameters
        self.stored = {i.operands[0] for i in program.instructions if i.opcode == "STORE_VAR"}
        self.stored |= {name for block in program.hosts for name in block.writes}
        self.results: dict[Any, Value | None] = {}

    def states(self) -> list[State | None]:
        """What is known of the registers before each instruction, on every path."""
        code = self.program.instructions
        states: list[State | None] = [None] * len(code)
        states[0] = {}
        changed = True
        while changed:
            changed = False
            for pc, instruction in enumerate(code):
                before = states[pc]
                if before is None:
                    continue
                after = self._after(instruction, before)
                for target in self._next(pc, instruction):
                    changed |= _join(states, target, after) and target <= pc
        return states

    def _next(self, pc: int, instruction: Instruction) -> Iterator[int]:
        target = flow.target_of(instruction)
        if target is not None:
            yield target
        if instruction.row.falls_through and pc + 1 < len(self.program.instructions):
            yield pc + 1

    def _after(self, instruction: Instruction, before: State) -> State:
        state = {r: v for r, v in before.items() if r not in written_by(instruction)}
        value = self._value(instruction, before)
        if value is not None:
            state[instruction.operands[0]] = value
        return state

    def _value(self, instruction: Instruction, before: State) -> Value | None:
        opcode, operands = instruction.opcode, instruction.operands
        if opcode in ("LOAD_TENSOR", "LOAD_VAR"):
            return None if operands[1] in self.stored else self.parameters.get(operands[1])
        if opcode == "LOAD_CONST":
            return Known(self.program.consts[operands[1]])
        if opcode == "MOVE":
            return before.get(operands[1])
        call = self._call(instruction, before)
        return None if call is None else self._result(*call)

    def _call(self, instruction: Instruction, before: State) -> tuple[OpInfo, list[Value], dict[str, Value]] | None:
        """An op with its operands, where all of them are known."""
        const_op = BY_NAME[instruction.opcode].const_op
        if const_op is not None:
            source = before.get(instruction.operands[1])
            scalar = Known(instruction.operands[2])
            if source is None:
                return None
            return registry.row(const_op), [scalar, source] if instruction.row.reversed else [source, scalar], {}
        if instruction.opcode != "CALL_OP":
            return None
        positional: list[Value] = []
        named: dict[str, Value] = {}
        arg: Arg
        for arg in instruction.operands[3]:
            value = Known(self.program.consts[arg.index]) if arg.is_const else before.get(arg.index)
            if value is None:
                return None
            if arg.name is None:
                positional.append(value)
            else:
                named[arg.name] = value
        return registry.row(instruction.operands[1]), positional, named

    def _result(self, op: OpInfo, operands: Sequence[Value], attrs: Mapping[str, Value]) -> Value | None:
        tensors = [v for v in operands if isinstance(v, Abstract)]
        if not tensors or op.shape_rule not in _SAFE_RULES or op.writes:
            return None
        if "out" in attrs:
            return attrs["out"]
        sample = _run(op, [v.sample() for v in operands], {n: v.sample() for n, v in attrs.items()})
        if not isinstance(sample, np.ndarray | np.generic) or dtypes.name_of(sample.dtype) is None:
            return None
        dims = _dims_after(op, tensors, sample.ndim)
        layout = "scalar" if isinstance(sample, np.generic) else _layout(op, tensors, len(dims))
        return Abstract(dtypes.name_of(sample.dtype) or "", dims, layout, tensors[0].memory)

    def signed(self, instruction: Instruction, before: State | None) -> Instruction:
        """The instruction with its signature, when that is known."""
        if instruction.opcode != "CALL_OP" or instruction.operands[2] or before is None:
            return instruction
        call = self._call(instruction, before)
        if call is None or not any(isinstance(v, Abstract) for v in call[1]):
            return instruction
        classes = _classes(call[0], call[1])
        if classes is None:
            return instruction
        number = table.intern(Signature(call[0].name, keys.shorten(classes)))
        dest, op, _, args = instruction.operands
        return replace(instruction, operands=(dest, op, number, args))

    def rejections(self, states: Sequence[State | None]) -> Iterator[tuple[int, str]]:
        """Regions of conv or matmul whose bias cannot be per channel: (pc of the FUSE_START, why)."""
        start: int | None = None
        for pc, instruction in enumerate(self.program.instructions):
            before = states[pc]
            if instruction.opcode == "FUSE_START":
                start = pc if instruction.operands[0] == _PRODUCT_POLICY else None
            elif instruction.opcode == "FUSE_END":
                start = None
            elif start is not None and before is not None:
                reason = self._mismatch(instruction, before)
                if reason is not None:
                    yield start, f"[REJECTED] shape mismatch: {reason}"
                    start = None

    def _mismatch(self, instruction: Instruction, before: State) -> str | None:
        call = self._call(instruction, before)
        if call is None or call[0].name != "add" or len(call[1]) != 2:
            return None
        product, bias = call[1]
        if not isinstance(product, Abstract) or not isinstance(bias, Abstract) or len(bias.dims) in (0, 1):
            return None
        return None if len(bias.dims) == len(product.dims) else f"{_show(product.dims)} vs {_show(bias.dims)}"


def _show(dims: Sequence[Dim]) -> str:
    return "[" + ",".join("*" if d is None else str(d) for d in dims) + "]"


def _run(op: OpInfo, operands: list[Any], attrs: dict[str, Any]) -> Any:
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return op.definition(*operands, **attrs)
    except Exception:
        return None  # one element is not enough for this op: nothing is known of its result


def _dims_after(op: OpInfo, tensors: Sequence[Abstract], rank: int) -> tuple[Dim, ...]:
    """Names of the result's dims, for operand classes and messages; a conv's image is named after its input's."""
    if op.shape_rule == "elementwise":
        return _broadcast(tensors)
    if op.shape_rule == "conv" and len(tensors) > 1 and len(tensors[0].dims) == rank == len(tensors[1].dims):
        return (tensors[0].dims[0], tensors[1].dims[0], *tensors[0].dims[2:])
    return (None,) * rank


def _broadcast(tensors: Sequence[Abstract]) -> tuple[Dim, ...]:
    rank = max(len(t.dims) for t in tensors)
    columns = [[t.dims[i - rank + len(t.dims)] for t in tensors if i - rank + len(t.dims) >= 0] for i in range(rank)]
    return tuple(next((d for d in column if d != 1), 1) for column in columns)


def _layout(op: OpInfo, tensors: Sequence[Abstract], rank: int) -> str | None:
    """A fresh result lies as its widest operand does; conv keeps the order of its image."""
    if op.shape_rule == "conv":
        return tensors[0].layout
    widest = next((t for t in tensors if len(t.dims) == rank), None)
    if op.shape_rule == "elementwise" and widest is not None and widest.layout in ("NCHW", "NHWC"):
        return widest.layout
    plain = all(t.layout in ("contiguous", "scalar", "NCHW", "broadcast") for t in tensors)
    return "contiguous" if plain and op.shape_rule in ("elementwise", "reduce", "matmul", "same") else None


def _classes(op: OpInfo, operands: Sequence[Value]) -> tuple[OperandClass, ...] | None:
    tensors = [v for v in operands if isinstance(v, Abstract)]
    wide = _broadcast(tensors) if op.shape_rule == "elementwise" else None
    found: list[OperandClass] = []
    for value in operands:
        one = value.operand_class()
        if one is None:
            return None
        if wide is not None and isinstance(value, Abstract) and value.layout != "scalar" and value.dims != wide:
            one = base.operand_class(value.dtype, "broadcast", value.memory)
        found.append(one)
    return tuple(found)


def _join(states: list[State | None], pc: int, new: State) -> bool:
    """Keep what both paths agree on; whether that changed anything."""
    old = states[pc]
    if old is None:
        states[pc] = dict(new)
        return True
    met = {r: v for r, v in old.items() if r in new and _same(v, new[r])}
    states[pc] = met
    return len(met) != len(old)


def _same(one: Value, two: Value) -> bool:
    if isinstance(one, Known) and isinstance(two, Known):
        return type(one.value) is type(two.value) and (one.value is two.value or repr(one.value) == repr(two.value))
    return one == two
