"""From material expressions to straight-line instructions, and a builder of Programs.

`ProgramBuilder` collects instructions, constants and registers; `ExpressionLowerer` emits one
CALL_OP (or X_CONST) per op node annotated by `frontend.regions`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from ..errors import LoweringError
from ..isa.hints import ANY, ShapeHint
from ..isa.opcodes import CONST_FORM
from ..isa.program import Arg, HostBlock, Instruction, Program, SourceLoc
from ..ops import registry
from .regions import MISSING, Classifier, Kind, load_of


def location_of(node: ast.AST) -> SourceLoc | None:
    """The source location of a node, as instructions carry it."""
    line = getattr(node, "lineno", None)
    if line is None:
        return None
    return SourceLoc(line, node.col_offset, node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]


@dataclass(slots=True)
class ProgramBuilder:
    """Collects the parts of a Program. Registers are numbered in order of creation."""

    instructions: list[Instruction] = field(default_factory=list)
    consts: list[Any] = field(default_factory=list)
    hosts: list[HostBlock] = field(default_factory=list)
    nested: list[Program] = field(default_factory=list)
    registers: int = 0
    _const_index: dict[tuple[Any, ...], int] = field(default_factory=dict)

    def register(self) -> int:
        """A new register."""
        self.registers += 1
        return self.registers - 1

    def emit(self, opcode: str, *operands: Any, at: ast.AST | None = None) -> int:
        """Append an instruction; returns its pc."""
        self.instructions.append(Instruction(opcode, operands, location_of(at) if at is not None else None))
        return len(self.instructions) - 1

    def const(self, value: Any) -> int:
        """Index of a constant; equal constants of the same type share one."""
        key = (type(value).__name__, repr(value))
        if key not in self._const_index:
            self._const_index[key] = len(self.consts)
            self.consts.append(value)
        return self._const_index[key]


LeafLoader = Callable[[ast.expr, str, Kind], int]


def leaf_key(node: ast.expr) -> str | None:
    """The dotted path of a leaf made of names and attributes: "x", "np.float32", "self.w"."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = leaf_key(node.value)
        return None if base is None else f"{base}.{node.attr}"
    return None


def literal(node: ast.expr) -> tuple[bool, Any]:
    """(True, value) for constants, negative numbers, and tuples or slices of those."""
    if isinstance(node, ast.Constant):
        return True, node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        value = node.operand.value
        if isinstance(value, int | float | complex):
            return True, -value
    if isinstance(node, ast.Tuple):
        parts = [literal(e) for e in node.elts]
        if all(known for known, _ in parts):
            return True, tuple(value for _, value in parts)
    if isinstance(node, ast.Slice):
        bounds = [(True, None) if p is None else literal(p) for p in (node.lower, node.upper, node.step)]
        if all(known for known, _ in bounds):
            return True, slice(*(value for _, value in bounds))
    return False, None


def slice_bounds(node: ast.Slice) -> list[tuple[str, ast.expr]]:
    """The parts of a slice as the arguments of the op `slice`."""
    parts = (("start", node.lower), ("stop", node.upper), ("step", node.step))
    return [(name, part if part is not None else ast.copy_location(ast.Constant(None), node)) for name, part in parts]


class ExpressionLowerer:
    """Lowers material expressions into a builder. `load_leaf` gives the register of a leaf."""

    def __init__(self, builder: ProgramBuilder, classifier: Classifier, load_leaf: LeafLoader) -> None:
        self.builder = builder
        self.classifier = classifier
        self.load_leaf = load_leaf
        self.function_pcs: list[int] = []
        self.member_pcs: list[int] = []

    def lower(self, node: ast.expr, dest: int | None = None) -> int:
        """Emit code for `node`; the value ends in the returned register (`dest` when given)."""
        call = node.__dict__.get("bcvm_call")
        if call is not None:
            return self._op(node, call, dest)
        known, value = literal(node)
        if known:
            return self._emit("LOAD_CONST", dest, self.builder.const(value), at=node)
        if isinstance(node, ast.Tuple | ast.List):
            opcode = "BUILD_TUPLE" if isinstance(node, ast.Tuple) else "BUILD_LIST"
            return self._emit(opcode, dest, tuple(self.argument(e) for e in node.elts), at=node)
        if isinstance(node, ast.Slice):
            return self._emit("CALL_OP", dest, "slice", 0, tuple(self.argument(b, name) for name, b in slice_bounds(node)), at=node)
        return self._leaf(node, dest)

    def _emit(self, opcode: str, dest: int | None, *operands: Any, at: ast.AST) -> int:
        register = self.builder.register() if dest is None else dest
        self.builder.emit(opcode, register, *operands, at=at)
        return register

    def _leaf(self, node: ast.expr, dest: int | None) -> int:
        if isinstance(node, ast.Attribute) and self.classifier.resolve(node) is MISSING:
            base = self.lower(node.value)
            return self._emit("LOAD_ATTR", dest, base, node.attr, at=node)
        key = leaf_key(node)
        if key is None:
            raise LoweringError(f"{ast.unparse(node)} is no material of a region")
        info = self.classifier.info(node)
        register = self.load_leaf(node, key, info.kind if info is not None else Kind.UNKNOWN)
        if dest is None or dest == register:
            return register
        self.builder.emit("MOVE", dest, register, at=node)
        return dest

    def argument(self, node: ast.expr, name: str | None = None) -> Arg:
        """An operand: a constant where the expression is one, else a register."""
        if node.__dict__.get("bcvm_call") is None:
            known, value = literal(node)
            if known:
                return Arg(True, self.builder.const(value), name)
        return Arg(False, self.lower(node), name)

    def _op(self, node: ast.expr, call: registry.BoundCall, dest: int | None) -> int:
        short = self._const_form(node, call, dest)
        if short is not None:
            return short
        args = [self.argument(o) for o in call.operands]
        args += [self.argument(value, name) for name, value in call.attrs.items()]
        if isinstance(node, ast.Call) and call.op.scalar is not None and not call.op.pure_python:
            self.function_pcs.append(len(self.builder.instructions))
        if _is_member(node, call):
            self.member_pcs.append(len(self.builder.instructions))
        return self._emit("CALL_OP", dest, call.op.name, 0, tuple(args), at=node)

    def _const_form(self, node: ast.expr, call: registry.BoundCall, dest: int | None) -> int | None:
        """`x OP scalar` and `scalar OP x` as one instruction."""
        if len(call.operands) != 2 or call.attrs or _is_member(node, call):
            return None
        (left_known, left), (right_known, right) = literal(call.operands[0]), literal(call.operands[1])
        if right_known and not left_known and type(right) in (bool, int, float, complex) and call.op.name in CONST_FORM.forward:
            return self._emit(CONST_FORM.forward[call.op.name], dest, self.lower(call.operands[0]), right, at=node)
        if left_known and not right_known and type(left) in (bool, int, float, complex) and call.op.name in CONST_FORM.backward:
            return self._emit(CONST_FORM.backward[call.op.name], dest, self.lower(call.operands[1]), left, at=node)
        return None


def _is_member(node: ast.expr, call: registry.BoundCall) -> bool:
    """Is the op spelled as an attribute or method of its first operand?"""
    holder = node.func if isinstance(node, ast.Call) else node
    return isinstance(holder, ast.Attribute) and bool(call.operands) and holder.value is call.operands[0]


@dataclass(frozen=True, slots=True)
class RegionCode:
    """A region's sub-Program and what its caller must pass.

    `inputs` are leaf keys in order of first read, `callables` the leaf keys of op callables that
    must still be what they were, `outputs` the names it gives back; `value`: it gives one value
    that is no name (an expression or a return). `writes`: name rebound or written in place last.
    """

    program: Program
    inputs: tuple[str, ...]
    input_nodes: tuple[ast.expr, ...]
    callables: tuple[str, ...]
    callable_nodes: tuple[ast.expr, ...]
    callable_values: tuple[Any, ...]
    outputs: tuple[str, ...]
    value: bool
    write_at: int | None  # pc of the one in-place write, which is the last op
    ops: tuple[str, ...]
    function_pcs: frozenset[int] = frozenset()  # CALL_OPs the user wrote as function calls (np.add(1, 2) is no 1 + 2)
    member_pcs: frozenset[int] = frozenset()  # CALL_OPs the user wrote as methods or attributes: only tensors have them


class RegionLowerer:
    """Lowers a run of statements, or one expression, to a RegionCode."""

    def __init__(self, classifier: Classifier, name: str, filename: str, hints: dict[str, ShapeHint] | None = None) -> None:
        self.classifier = classifier
        self.name = name
        self.filename = filename
        self.hints = hints or {}
        self.builder = ProgramBuilder()
        self.lowerer = ExpressionLowerer(self.builder, classifier, self._load_leaf)
        self.homes: dict[str, int] = {}
        self.inputs: dict[str, tuple[int, ast.expr]] = {}
        self.prologue: list[Instruction] = []
        self.write_at: int | None = None

    def _load_leaf(self, node: ast.expr, key: str, kind: Kind) -> int:
        if key in self.homes:
            return self.homes[key]
        if key not in self.inputs:
            register = self.builder.register()
            at = location_of(node)
            if kind is Kind.PYTHON:
                self.prologue.append(Instruction("LOAD_VAR", (register, key), at))
            else:
                self.prologue.append(Instruction("LOAD_TENSOR", (register, key, self.hints.get(key, ANY)), at))
            self.inputs[key] = (register, node)
        return self.inputs[key][0]

    def statement(self, node: ast.stmt) -> int | None:
        """Lower one statement of a run; returns the register of a Return's value."""
        if isinstance(node, ast.Assign):
            target = node.targets[0]
            if isinstance(target, ast.Name):
                self.homes[target.id] = self.lowerer.lower(node.value)
            else:
                assert isinstance(target, ast.Subscript)
                self._setitem(target, self.lowerer.lower(node.value), node)
        elif isinstance(node, ast.AugAssign):
            self._augmented(node)
        elif isinstance(node, ast.Return):
            assert node.value is not None
            return self.lowerer.lower(node.value)
        return None

    def _setitem(self, target: ast.Subscript, value: int, node: ast.stmt) -> None:
        base, index = self.lowerer.argument(target.value), self.lowerer.argument(target.slice)
        register = self.builder.register()
        at = self.builder.emit("CALL_OP", register, "setitem", 0, (base, index, Arg(False, value)), at=node)
        self.write_at = at if self.write_at is None else self.write_at

    def _augmented(self, node: ast.AugAssign) -> None:
        op = registry.by_operator(type(node.op).__name__)
        assert op is not None
        read = load_of(node.target)
        self.classifier.info(read)
        old = self.lowerer.lower(read)
        value = self.lowerer.argument(node.value)
        register = self.builder.register()
        self.write_at = self.builder.emit("CALL_OP", register, op.name, 0, (Arg(False, old), value, Arg(False, old, "out")), at=node)
        if isinstance(node.target, ast.Name):
            self.homes[node.target.id] = register
        else:
            assert isinstance(node.target, ast.Subscript)
            self._setitem(node.target, register, node)

    def finish(self, roots: Iterable[ast.AST], outputs: tuple[str, ...], value: int | None) -> RegionCode:
        """Close the region: return the outputs as a tuple, or the one value."""
        single = value is not None
        if value is None:
            value = self.builder.register()
            items = tuple(Arg(False, self.homes[name]) for name in outputs)
            self.builder.emit("BUILD_TUPLE", value, items)
        self.builder.emit("RETURN", value)
        callables = _callables(roots, self.classifier)
        shift = len(self.prologue)
        if self.write_at is not None:
            self.write_at += shift
        body = tuple(self.prologue) + tuple(self.builder.instructions)
        program = Program(
            self.name,
            tuple(self.inputs),
            body,
            kind="region",
            consts=tuple(self.builder.consts),
            local_names=tuple(self.inputs),
            filename=self.filename,
            first_line=next((i.loc.line for i in body if i.loc is not None), 1),
            notes={
                "vm.functions": frozenset(pc + shift for pc in self.lowerer.function_pcs),
                "vm.members": frozenset(pc + shift for pc in self.lowerer.member_pcs),
            },
        )
        return RegionCode(
            program=program,
            inputs=tuple(self.inputs),
            input_nodes=tuple(node for _, node in self.inputs.values()),
            callables=tuple(callables),
            callable_nodes=tuple(callables.values()),
            callable_values=tuple(self.classifier.resolve(node) for node in callables.values()),
            outputs=outputs,
            value=single,
            write_at=self.write_at,
            ops=tuple(op_name(i) for i in body if op_name(i)),
            function_pcs=frozenset(pc + shift for pc in self.lowerer.function_pcs),
            member_pcs=frozenset(pc + shift for pc in self.lowerer.member_pcs),
        )


def op_name(instruction: Instruction) -> str:
    """The op an instruction runs, or ""."""
    if instruction.opcode == "CALL_OP":
        return str(instruction.operands[1])
    return instruction.row.const_op or ""


def _callables(roots: Iterable[ast.AST], classifier: Classifier) -> dict[str, ast.expr]:
    """Callees named in the region, by leaf key: a region holds only while they are what they were."""
    found: dict[str, ast.expr] = {}
    for root in roots:
        for node in ast.walk(root):
            if isinstance(node, ast.Call) and "bcvm_call" in node.__dict__:
                key = leaf_key(node.func)
                if key is not None and classifier.resolve(node.func) is not MISSING:
                    found.setdefault(key, node.func)
    return found
