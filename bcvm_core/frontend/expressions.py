"""Expressions to instructions: ops by CALL_OP, control flow by jumps, everything else by CALL_HOST.

Allocation is destination-driven: a caller that knows where a value has to be passes the register,
and the first operand of an op is computed there too when nothing else can see it.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from ..isa.opcodes import CONST_FORM
from ..isa.program import Arg
from ..ops import registry
from ..ops.registry import BoundCall
from .codebuilder import CodeBuilder, Label
from .hostblocks import FoundSite, cut_expression, cut_statements, make_block, touched
from .lowering import literal, slice_bounds
from .naming import mangled
from .pythonform import PythonForm, callee_of
from .regions import MISSING, Classifier, Kind
from .variables import Variables

_DISPLAYS = (ast.List, ast.Tuple, ast.Dict, ast.Set, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.JoinedStr)
_SCALARS = (bool, int, float, complex)


class Expressions:
    """The expression half of the generator; statements are in `generator`."""

    builder: CodeBuilder
    classifier: Classifier
    variables: Variables
    name: str
    filename: str
    short_name: str
    owner: str | None
    lines: Sequence[str]

    def find_sites(self, what: Sequence[ast.stmt] | ast.expr) -> list[FoundSite]:
        """Tensor work inside host code."""
        raise NotImplementedError

    # -- values -----------------------------------------------------------------------------------

    def value(self, node: ast.expr, dest: int | None = None) -> int:
        """Emit code for `node`; its value ends in the returned register (`dest` when given)."""
        known, constant = literal(node)
        if known and not isinstance(constant, slice):
            return self._into("LOAD_CONST", dest, self.builder.const(constant), at=node)
        call = self.bound(node)
        if call is not None:
            return self.op(node, call, dest)
        handler = getattr(self, f"_value_{type(node).__name__.lower()}", None)
        register: int | None = handler(node, dest) if handler is not None else None
        return self.host_expression(node, dest) if register is None else register

    def _into(self, opcode: str, dest: int | None, *operands: Any, at: ast.AST, form: Any = None) -> int:
        register = self.builder.register() if dest is None else dest
        plain = isinstance(at, ast.expr) and self.classifier.value_kind(at) is Kind.PYTHON
        self.builder.emit(opcode, register, *operands, at=at, form=form, plain=plain)
        return register

    def _moved(self, register: int, dest: int | None, at: ast.AST) -> int:
        if dest is None or dest == register:
            return register
        self.builder.emit("MOVE", dest, register, at=at)
        return dest

    def _value_name(self, node: ast.Name, dest: int | None) -> int:
        return self._moved(self.variables.read(node.id, node), dest, node)

    def _value_attribute(self, node: ast.Attribute, dest: int | None) -> int:
        base = self.value(node.value)
        return self._into("LOAD_ATTR", dest, base, mangled(node.attr, self.owner), at=node)

    def _value_tuple(self, node: ast.Tuple | ast.List, dest: int | None) -> int | None:
        if any(isinstance(e, ast.Starred) for e in node.elts):
            return None
        opcode = "BUILD_TUPLE" if isinstance(node, ast.Tuple) else "BUILD_LIST"
        return self._into(opcode, dest, tuple(self.argument(e) for e in node.elts), at=node)

    _value_list = _value_tuple

    def _value_dict(self, node: ast.Dict, dest: int | None) -> int | None:
        if any(key is None for key in node.keys):
            return None
        flat = [part for pair in zip(node.keys, node.values, strict=True) for part in pair]
        return self._into("BUILD_DICT", dest, tuple(self.argument(p) for p in flat if p is not None), at=node)

    def _value_slice(self, node: ast.Slice, dest: int | None) -> int:
        return self._into("CALL_OP", dest, "slice", 0, tuple(self.argument(b, name) for name, b in slice_bounds(node)), at=node)

    def _value_namedexpr(self, node: ast.NamedExpr, dest: int | None) -> int:
        self.variables.expose([node.target.id])  # a register would change under operands that were read before
        register = self.value(node.value)
        self.variables.write(node.target.id, register, node)
        return self._moved(register, dest, node)

    def _branching(self, node: ast.expr, dest: int | None) -> int:
        """The register that several paths of an expression write; never one that the expression still reads."""
        return dest if dest is not None and self.variables.is_private(dest, node) else self.builder.register()

    def _value_ifexp(self, node: ast.IfExp, dest: int | None) -> int:
        register = self._branching(node, dest)
        true, end = Label(), Label()
        self.condition(node.test, true)
        before = self.variables.snapshot()
        self.value(node.orelse, register)
        after_else = self.variables.snapshot()
        self.builder.emit("JUMP", end, at=node)
        self.variables.restore(before)
        self.place(true)
        self.value(node.body, register)
        self.variables.join(after_else)
        self.place(end)
        return self._moved(register, dest, node)

    def _value_boolop(self, node: ast.BoolOp, dest: int | None) -> int:
        register = self._branching(node, dest)
        end = Label()
        first, *others = node.values
        self.value(first, register)
        before = self.variables.snapshot()
        for other in others:
            if isinstance(node.op, ast.Or):
                self.builder.emit("COND_JUMP", register, end, at=node)
            else:
                following = Label()
                self.builder.emit("COND_JUMP", register, following, at=node)
                self.builder.emit("JUMP", end, at=node)
                self.place(following)
            self.value(other, register)
        self.variables.join(before)
        self.place(end)
        return self._moved(register, dest, node)

    def _value_unaryop(self, node: ast.UnaryOp, dest: int | None) -> int | None:
        if not isinstance(node.op, ast.Not):
            return None
        register = self.builder.register() if dest is None else dest
        true, end = Label(), Label()
        self.condition(node.operand, true)
        self.builder.emit("LOAD_CONST", register, self.builder.const(True), at=node)
        self.builder.emit("JUMP", end, at=node)
        self.place(true)
        self.builder.emit("LOAD_CONST", register, self.builder.const(False), at=node)
        self.place(end)
        return register

    def place(self, label: Label) -> None:
        """A join: what registers hold of variables that others may write is no longer known."""
        self.variables.forget()
        self.builder.place(label)

    # -- conditions -------------------------------------------------------------------------------

    def condition(self, node: ast.expr, true: Label) -> None:
        """Jump to `true` when the expression is true, else fall through; operands short-circuit."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            false = Label()
            self.condition(node.operand, false)
            self.builder.emit("JUMP", true, at=node)
            self.place(false)
        elif isinstance(node, ast.BoolOp):
            self._short_circuit(node, true)
        else:
            self.builder.emit("COND_JUMP", self.value(node), true, at=node)

    def _short_circuit(self, node: ast.BoolOp, true: Label) -> None:
        false = Label()
        first, *others = node.values
        before: Any = None
        for position, part in enumerate((first, *others)):
            if isinstance(node.op, ast.Or) or position == len(others):
                self.condition(part, true)
            else:
                following = Label()
                self.condition(part, following)
                self.builder.emit("JUMP", false, at=part)
                self.place(following)
            before = self.variables.snapshot() if before is None else before
        if before is not None:
            self.variables.join(before)  # only the first operand is evaluated for certain
        self.place(false)

    # -- ops --------------------------------------------------------------------------------------

    def bound(self, node: ast.expr) -> BoundCall | None:
        """The op an expression stands for, whatever its operands are; None when it stands for none."""
        self.classifier.info(node)
        annotated: BoundCall | None = node.__dict__.get("bcvm_call")
        if annotated is not None:
            return annotated
        if isinstance(node, ast.BinOp):
            return self._operator(node.op, node.left, node.right)
        if isinstance(node, ast.UnaryOp) and not isinstance(node.op, ast.Not):
            return self._operator(node.op, node.operand)
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            return self._operator(node.ops[0], node.left, node.comparators[0])
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
            return None if _has_star(node.slice) else self._operator(node, node.value, node.slice)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            return self._attribute(node)
        return self.classifier.bind_call(node) if isinstance(node, ast.Call) else None

    def _operator(self, syntax: ast.AST, *operands: ast.expr) -> BoundCall | None:
        row = registry.by_operator(type(syntax).__name__)
        if row is None or isinstance(operands[0], _DISPLAYS) or _is_text(operands[0]):
            return None
        if len(operands) > 1 and not isinstance(syntax, ast.Subscript) and (isinstance(operands[1], _DISPLAYS) or _is_text(operands[1])):
            return None
        return BoundCall(row, operands, {})

    def _attribute(self, node: ast.Attribute) -> BoundCall | None:
        if self.classifier.resolve(node) is not MISSING or self.classifier.value_kind(node.value) is Kind.PYTHON:
            return None
        row = registry.by_attribute(node.attr, self.classifier.personality)
        return None if row is None else BoundCall(row[0], (node.value,), {})

    def argument(self, node: ast.expr, name: str | None = None, dest: int | None = None) -> Arg:
        """An operand: a constant where the expression is one, else a register."""
        known, value = literal(node)
        if known:
            return Arg(True, self.builder.const(value), name)
        return Arg(False, self.value(node, dest), name)

    def op(self, node: ast.expr, call: BoundCall, dest: int | None) -> int:
        """Emit the CALL_OP, or its short form with a scalar."""
        inner = dest if dest is not None and self.variables.is_private(dest, node) else None
        form = self._form(node, call)
        short = self._const_form(node, call, dest, inner, form)
        if short is not None:
            return short
        args: list[Arg] = []
        for position, operand in enumerate(call.operands):
            first = inner if position == 0 and self.bound(operand) is not None else None
            args.append(self.argument(operand, dest=first))
        args += [self.argument(value, name) for name, value in call.attrs.items()]
        return self._into("CALL_OP", dest, call.op.name, 0, tuple(args), at=node, form=form)

    def _const_form(self, node: ast.expr, call: BoundCall, dest: int | None, inner: int | None, form: PythonForm) -> int | None:
        if len(call.operands) != 2 or call.attrs:
            return None
        (left_known, left), (right_known, right) = literal(call.operands[0]), literal(call.operands[1])
        if right_known and not left_known and type(right) in _SCALARS and call.op.name in CONST_FORM.forward:
            source = self.value(call.operands[0], inner if self.bound(call.operands[0]) is not None else None)
            return self._into(CONST_FORM.forward[call.op.name], dest, source, right, at=node, form=form)
        if left_known and not right_known and type(left) in _SCALARS and call.op.name in CONST_FORM.backward:
            source = self.value(call.operands[1], inner if self.bound(call.operands[1]) is not None else None)
            return self._into(CONST_FORM.backward[call.op.name], dest, source, left, at=node, form=form)
        return None

    def _form(self, node: ast.expr, call: BoundCall) -> PythonForm:
        callee = callee_of(node, self.classifier.resolve(node.func)) if isinstance(node, ast.Call) else None
        return PythonForm(node, call, self.filename, self.short_name, callee, self.classifier.personality)

    # -- host code --------------------------------------------------------------------------------

    def host_expression(self, node: ast.expr, dest: int | None) -> int:
        """CALL_HOST of an expression."""
        sites = self.find_sites(node)
        index = self._host_block([node], cut_expression(node, self.lines), sites)
        register = self._into("CALL_HOST", dest, index, at=node)
        self.variables.forget()
        return register

    def host_statements(self, statements: Sequence[ast.stmt], dest: int | None) -> None:
        """CALL_HOST of consecutive statements. `dest` takes the result of a block that may be left in its middle."""
        sites = self.find_sites(statements)
        index = self._host_block(statements, cut_statements(statements, self.lines), sites)
        self.builder.emit("CALL_HOST", dest, index, at=statements[0])
        self.variables.forget()

    def _host_block(self, nodes: Sequence[ast.AST], piece: Any, sites: Sequence[FoundSite]) -> int:
        reads, writes = touched(nodes)
        mine = self.variables.of_the_frame
        self.variables.expose(reads | writes)
        shown_reads = sorted(n for n in reads if mine(n))
        shown_writes = sorted(n for n in writes if mine(n))
        block, programs = make_block(self.name, piece, nodes, sites, len(self.builder.nested), shown_reads, shown_writes)
        if self.builder.reachable:
            self.builder.nested += programs
            self.builder.hosts.append(block)
        return len(self.builder.hosts) - 1


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))


def _has_star(node: ast.expr) -> bool:
    return isinstance(node, ast.Starred) or (isinstance(node, ast.Tuple) and any(isinstance(e, ast.Starred) for e in node.elts))
