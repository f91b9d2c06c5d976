"""Which Python is tensor work: a bottom-up classification of expressions.

An expression is *material* when it can run inside a region: constants, names, module attributes,
safe attribute reads, displays, and ops of the table over material. Material has no side effects, so
that a region can give up at any point and leave everything to Python. The classification annotates
the tree: `node.bcvm_info`, and on op nodes `node.bcvm_call` (a `BoundCall` over syntax nodes).
"""

from __future__ import annotations

import ast
import builtins
import types
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from ..ops import registry
from ..ops.registry import BoundCall
from .nodes import walk
from .scopes import Scope


class _Missing:
    def __repr__(self) -> str:
        return "<missing>"


MISSING = _Missing()
Lookup = Callable[[str], Any]


class Kind(Enum):
    """What is known of a value before it exists."""

    TENSOR = "tensor"
    PYTHON = "python"  # certainly no tensor
    UNKNOWN = "unknown"

    def join(self, other: Kind) -> Kind:
        return self if self is other else Kind.UNKNOWN


@dataclass(frozen=True, slots=True)
class Info:
    """`candidates`: how many ops in the expression may meet a tensor."""

    kind: Kind
    candidates: int = 0


_PYTHON_BUILTINS = frozenset(
    "len int float str bool range list dict set tuple frozenset sorted enumerate zip print isinstance issubclass type id repr hash ord chr"
    " bytes format callable hasattr input open complex slice divmod".split()
)
_PYTHON_MODULES = frozenset(
    "math cmath time random os sys re json itertools functools operator string collections pathlib datetime".split()
)
_CONSTANTS: tuple[type, ...] = (int, float, complex, bool, type(None), str, bytes, type(Ellipsis))
_DISPLAYS = (ast.List, ast.Tuple, ast.Dict, ast.Set, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.JoinedStr)


def is_tensor_value(value: Any) -> bool:
    """Is this run-time value one of the tensors BCVM works on (array, NumPy scalar, MindSpore tensor)?"""
    kind = type(value)
    return kind is np.ndarray or isinstance(value, np.generic) or registry.personality_of(kind) == "mindspore"


def kind_of_value(value: Any) -> Kind:
    """The kind of a value that exists already."""
    if value is MISSING:
        return Kind.UNKNOWN
    if is_tensor_value(value):
        return Kind.TENSOR
    plain = isinstance(value, int | float | complex | str | bytes | list | tuple | dict | set | range | type | types.ModuleType)
    return Kind.PYTHON if plain or value is None or callable(value) else Kind.UNKNOWN


class Classifier:
    """Classifies the expressions of one scope. `lookup` gives the values of names that are not local."""

    def __init__(
        self,
        scope: Scope,
        lookup: Lookup,
        *,
        outer_kinds: dict[str, Kind] | None = None,
        seeds: dict[str, Kind] | None = None,
        personality: str = "numpy",
        unsafe_attributes: frozenset[str] = frozenset(),
        namespace_scope: bool = False,
    ) -> None:
        self.scope = scope
        self.lookup = lookup
        self.personality = personality
        self.unsafe_attributes = unsafe_attributes
        self.namespace_scope = namespace_scope
        self.outer_kinds = outer_kinds or {}
        self.kinds: dict[str, Kind] = {}
        self._infer_kinds(seeds or {})

    # -- names ------------------------------------------------------------------------------------

    def is_local(self, name: str) -> bool:
        """Does the scope itself bind `name`? At cell level names live in the namespace, so none is local."""
        return name in self.scope.local and not self.namespace_scope

    def kind_of_name(self, name: str) -> Kind:
        if name in self.kinds:
            return self.kinds[name]
        if name in self.outer_kinds:
            return self.outer_kinds[name]
        if name in self.scope.local:
            return Kind.UNKNOWN
        return kind_of_value(self.lookup(name))

    def resolve(self, node: ast.expr) -> Any:
        """The value of a global name or of a module attribute known now, else MISSING."""
        if isinstance(node, ast.Name):
            if self.is_local(node.id) or node.id in self.outer_kinds:
                return MISSING
            if self.namespace_scope and self.scope.stores[node.id]:
                return MISSING  # rebound by this very cell statement
            return self.lookup(node.id)
        if isinstance(node, ast.Attribute):
            base = self.resolve(node.value)
            return _module_attribute(base, node.attr) if isinstance(base, types.ModuleType) else MISSING
        return MISSING

    def _infer_kinds(self, seeds: dict[str, Kind]) -> None:
        """Flow-insensitive: a name is PYTHON or TENSOR only when everything bound to it is."""
        for name in self.scope.params:
            self.kinds[name] = seeds.get(name, Kind.UNKNOWN)
        bindings = list(_bindings(self.scope.node))
        bound_names = {n for n, _, _ in bindings}
        for name in self.scope.stores:
            if name not in self.kinds and name not in self.scope.declared:
                known = name in bound_names
                self.kinds[name] = seeds.get(name, Kind.PYTHON) if known else seeds.get(name, Kind.UNKNOWN)
        changed = True
        while changed:
            changed = False
            self._reset(b[1] for b in bindings)
            for name, value, role in bindings:
                if name not in self.kinds:
                    continue
                joined = self.kinds[name].join(self._binding_kind(value, role))
                if joined is not self.kinds[name]:
                    self.kinds[name] = joined
                    changed = True
        self._reset(b[1] for b in bindings)

    @staticmethod
    def _reset(nodes: Iterable[ast.AST | None]) -> None:
        for root in nodes:
            for node in walk(root) if root is not None else ():
                node.__dict__.pop("bcvm_info", None)
                node.__dict__.pop("bcvm_call", None)

    def _binding_kind(self, value: ast.AST | None, role: str) -> Kind:
        if role == "python":
            return Kind.PYTHON
        if role == "unknown" or value is None:
            return Kind.UNKNOWN
        assert isinstance(value, ast.expr)
        return self.element_kind(value) if role == "element" else self.value_kind(value)

    def element_kind(self, iterable: ast.expr) -> Kind:
        """The kind of what iterating over an expression gives."""
        if isinstance(iterable, ast.Call):
            return Kind.PYTHON if self.resolve(iterable.func) is range else Kind.UNKNOWN
        if isinstance(iterable, ast.List | ast.Tuple | ast.Set):
            return _join(self.value_kind(e) for e in iterable.elts)
        if isinstance(iterable, ast.Constant):
            return Kind.PYTHON
        value = self.resolve(iterable)
        if isinstance(value, list | tuple | set | frozenset | dict | str | range) and value:
            return kind_of_value(next(iter(value)))  # an observation, not a promise: a wrong guess only costs the lowering
        return Kind.UNKNOWN

    def value_kind(self, node: ast.expr) -> Kind:
        """The kind of any expression, material or not."""
        info = self.info(node)
        if info is not None:
            return info.kind
        if isinstance(node, ast.BoolOp):
            return _join(self.value_kind(v) for v in node.values)
        if isinstance(node, ast.IfExp):
            return self.value_kind(node.body).join(self.value_kind(node.orelse))
        if isinstance(node, ast.NamedExpr):
            return self.value_kind(node.value)
        if isinstance(node, ast.Call):
            return self._call_kind(node)
        if isinstance(node, ast.BinOp) and self.value_kind(node.left) is self.value_kind(node.right) is Kind.PYTHON:
            return Kind.PYTHON
        if isinstance(node, (*_DISPLAYS, ast.Lambda)) or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)):
            return Kind.PYTHON
        if isinstance(node, ast.Compare) and all(self.value_kind(v) is Kind.PYTHON for v in (node.left, *node.comparators)):
            return Kind.PYTHON
        return Kind.UNKNOWN

    def _call_kind(self, node: ast.Call) -> Kind:
        target = self.resolve(node.func)
        if target is MISSING or target is None:
            return Kind.UNKNOWN
        name = getattr(target, "__name__", "")
        if name in _PYTHON_BUILTINS and getattr(builtins, name, None) is target:
            return Kind.PYTHON
        module = (getattr(target, "__module__", None) or "").partition(".")[0]
        return Kind.PYTHON if module in _PYTHON_MODULES else Kind.UNKNOWN

    # -- expressions ------------------------------------------------------------------------------

    def info(self, node: ast.expr) -> Info | None:
        """Classification of an expression; None: not material. Computed once per node."""
        known = node.__dict__.get("bcvm_info", MISSING)
        if known is MISSING:
            known = self._classify(node)
            node.bcvm_info = known  # type: ignore[attr-defined]
        return known  # type: ignore[no-any-return]

    def _classify(self, node: ast.expr) -> Info | None:
        handler = getattr(self, f"_{type(node).__name__.lower()}", None)
        return handler(node) if handler is not None else None

    def _constant(self, node: ast.Constant) -> Info | None:
        return Info(Kind.PYTHON) if isinstance(node.value, _CONSTANTS) else None

    def _name(self, node: ast.Name) -> Info | None:
        return Info(self.kind_of_name(node.id)) if isinstance(node.ctx, ast.Load) else None

    def _attribute(self, node: ast.Attribute) -> Info | None:
        if not isinstance(node.ctx, ast.Load):
            return None
        value = self.resolve(node)
        if value is not MISSING:
            return Info(kind_of_value(value))
        if isinstance(self.resolve(node.value), types.ModuleType):
            return None  # a module without that attribute: Python's error
        base = self.info(node.value)
        if base is None or base.kind is Kind.PYTHON:
            return None
        row = registry.by_attribute(node.attr, self.personality) or registry.by_attribute(node.attr)
        if row is not None:
            node.bcvm_call = BoundCall(row[0], (node.value,), {})  # type: ignore[attr-defined]
            python = row[0].result == "python"
            return Info(Kind.PYTHON if python else Kind.UNKNOWN, base.candidates + (0 if python else 1))
        if base.kind is Kind.TENSOR or not isinstance(node.value, ast.Name | ast.Attribute):
            return None
        if node.attr in self.unsafe_attributes or node.attr.startswith("__"):  # private names are mangled by the compiler
            return None
        return Info(Kind.UNKNOWN, base.candidates)

    def _all(self, nodes: Iterable[ast.expr]) -> list[Info] | None:
        infos = []
        for node in nodes:
            info = self.info(node)
            if info is None:
                return None
            infos.append(info)
        return infos

    def _display(self, node: ast.List | ast.Tuple) -> Info | None:
        infos = self._all(node.elts) if isinstance(node.ctx, ast.Load) else None
        return None if infos is None else Info(Kind.PYTHON, sum(i.candidates for i in infos))

    _list = _tuple = _display

    def _slice(self, node: ast.Slice) -> Info | None:
        infos = self._all(p for p in (node.lower, node.upper, node.step) if p is not None)
        return None if infos is None else Info(Kind.PYTHON, sum(i.candidates for i in infos))

    def _operator(self, node: ast.expr, operator: ast.AST, operands: tuple[ast.expr, ...]) -> Info | None:
        row = registry.by_operator(type(operator).__name__)
        if row is None or any(isinstance(o, _DISPLAYS) or _is_text(o) for o in operands):
            return None
        infos = self._all(operands)
        if infos is None:
            return None
        node.bcvm_call = BoundCall(row, operands, {})  # type: ignore[attr-defined]
        below = sum(i.candidates for i in infos)
        if all(i.kind is Kind.PYTHON for i in infos):
            return Info(Kind.PYTHON, below)
        tensor = any(i.kind is Kind.TENSOR for i in infos)
        return Info(Kind.TENSOR if tensor else Kind.UNKNOWN, below + 1)

    def _binop(self, node: ast.BinOp) -> Info | None:
        return self._operator(node, node.op, (node.left, node.right))

    def _unaryop(self, node: ast.UnaryOp) -> Info | None:
        if isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
            return self.info(node.operand)  # a negative literal
        return None if isinstance(node.op, ast.Not) else self._operator(node, node.op, (node.operand,))

    def _compare(self, node: ast.Compare) -> Info | None:
        return self._operator(node, node.ops[0], (node.left, node.comparators[0])) if len(node.ops) == 1 else None

    def _subscript(self, node: ast.Subscript) -> Info | None:
        row = registry.by_operator("Subscript")
        if row is None or not isinstance(node.ctx, ast.Load) or isinstance(node.value, _DISPLAYS) or _is_text(node.value):
            return None
        infos = self._all((node.value, node.slice))
        if infos is None:
            return None
        node.bcvm_call = BoundCall(row, (node.value, node.slice), {})  # type: ignore[attr-defined]
        below = sum(i.candidates for i in infos)
        base = infos[0].kind
        if base is Kind.PYTHON:
            from_shape = getattr(node.value, "bcvm_call", None) is not None
            return Info(Kind.PYTHON if from_shape else Kind.UNKNOWN, below)
        index_call = getattr(node.slice, "bcvm_call", None)
        sliced = isinstance(node.slice, ast.Slice | ast.Tuple) or (index_call is not None and index_call.op.name == "slice")
        looks_like_array = base is Kind.TENSOR or sliced  # v[i] of an unknown v is as likely a list
        return Info(Kind.UNKNOWN, below + (1 if looks_like_array else 0))

    def _call(self, node: ast.Call) -> Info | None:
        bound = self.bind_call(node)
        if bound is None or bound.op.family == "random" or bound.op.writes or _in_place_method(node):
            return None  # has an effect of its own: never part of something that may be replayed
        nodes = (*bound.operands, *bound.attrs.values())
        infos = self._all(nodes)
        if infos is None:
            return None
        node.bcvm_call = bound  # type: ignore[attr-defined]
        below = sum(i.candidates for i in infos)
        if bound.op.pure_python:
            return Info(Kind.PYTHON if bound.op.result == "python" else Kind.UNKNOWN, below)
        return Info({"tensor": Kind.TENSOR, "python": Kind.PYTHON}.get(bound.op.result, Kind.UNKNOWN), below + 1)

    # -- calls ------------------------------------------------------------------------------------

    def op_of_callee(self, node: ast.Call) -> tuple[registry.OpInfo, registry.Spelling, ast.expr | None] | None:
        """The row a call is spelled for, its spelling, and the receiver of a method."""
        target = self.resolve(node.func)
        if target is not MISSING:
            found = registry.by_callable(target)
            return None if found is None or not registry.takes(found[1], self.personality) else (*found, None)
        if isinstance(node.func, ast.Attribute):
            if isinstance(self.resolve(node.func.value), types.ModuleType):
                return None
            if self.value_kind(node.func.value) is not Kind.PYTHON:
                method = registry.by_method(node.func.attr, self.personality)
                return None if method is None else (*method, node.func.value)
        return None

    def bind_call(self, node: ast.Call) -> BoundCall | None:
        """The canonical form of a call on an op of the table, or None."""
        found = self.op_of_callee(node)
        if found is None or any(isinstance(a, ast.Starred) for a in node.args) or any(k.arg is None for k in node.keywords):
            return None
        op, spelling, receiver = found
        keywords = {k.arg: k.value for k in node.keywords if k.arg is not None}
        args = list(node.args)
        bound = registry.bind(op, spelling, args, keywords, registry.REQUIRED if receiver is None else receiver)
        return None if bound is None else _star_to_tuple(bound)


def _module_attribute(module: types.ModuleType, name: str) -> Any:
    """What is in the module already; asking `__getattr__` (lazy imports) might run user code, except that of `bcvm.ops`."""
    if type(module).__getattribute__ is not types.ModuleType.__getattribute__:
        return MISSING
    if module.__name__ == registry.__package__:  # makes its functions when they are first asked for
        return getattr(module, name, MISSING)
    return vars(module).get(name, MISSING)


def _in_place_method(node: ast.Call) -> bool:
    """x.add_(y): by the naming rule of MindSpore's tensors it writes to x."""
    return isinstance(node.func, ast.Attribute) and node.func.attr.endswith("_")


def _star_to_tuple(bound: BoundCall) -> BoundCall:
    """x.reshape(2, 3): the variadic part becomes one tuple node; an empty one is left out."""
    attrs = {name: _tuple_node(value) for name, value in bound.attrs.items()}
    return BoundCall(bound.op, tuple(_tuple_node(o) for o in bound.operands), attrs)


def _tuple_node(value: Any) -> Any:
    return ast.copy_location(ast.Tuple(list(value), ast.Load()), value[0]) if isinstance(value, tuple) and value else value


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)


def _join(kinds: Iterable[Kind]) -> Kind:
    result: Kind | None = None
    for kind in kinds:
        result = kind if result is None else result.join(kind)
    return result or Kind.PYTHON


Binding = tuple[str, "ast.AST | None", str]


def _targets(target: ast.expr, value: ast.expr | None, role: str) -> Iterable[Binding]:
    if isinstance(target, ast.Name):
        yield target.id, value, role
    elif isinstance(target, ast.Starred):
        yield from _targets(target.value, None, "python")
    elif isinstance(target, ast.Tuple | ast.List):
        pairs = value.elts if role == "value" and isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts) else None
        for index, part in enumerate(target.elts):
            yield from _targets(part, pairs[index] if pairs else None, "value" if pairs else "unknown")


def _bindings(root: ast.AST) -> Iterable[Binding]:
    """(name, what is bound, how) for every binding of a scope, inner scopes left out."""
    body = root.body  # type: ignore[attr-defined]
    pending: list[ast.AST] = list(body) if isinstance(body, list) else [body]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, None, "python"
            continue
        if isinstance(node, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            for inner in ast.walk(node):
                if isinstance(inner, ast.NamedExpr):
                    yield inner.target.id, None, "unknown"
            continue
        if isinstance(node, ast.Assign):
            for target in node.targets:
                yield from _targets(target, node.value, "value")
        elif isinstance(node, ast.AugAssign):
            yield from _targets(node.target, ast.copy_location(ast.BinOp(_load(node.target), node.op, node.value), node), "value")
        elif isinstance(node, ast.AnnAssign) and node.value is not None or isinstance(node, ast.NamedExpr):
            yield from _targets(node.target, node.value, "value")
        elif isinstance(node, ast.For):
            yield from _targets(node.target, node.iter, "element")
        elif isinstance(node, ast.AsyncFor):
            yield from _targets(node.target, None, "unknown")
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            yield from _targets(node.optional_vars, None, "unknown")
        elif isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                yield (alias.asname or alias.name).split(".")[0], None, "python" if isinstance(node, ast.Import) else "unknown"
        elif isinstance(node, ast.ExceptHandler) and node.name:
            yield node.name, None, "python"
        elif isinstance(node, ast.MatchAs | ast.MatchStar) and node.name:
            yield node.name, None, "unknown"
        elif isinstance(node, ast.MatchMapping) and node.rest:
            yield node.rest, None, "python"
        pending.extend(ast.iter_child_nodes(node))


def _load(target: ast.expr) -> ast.expr:
    """The target of an augmented assignment, read."""
    if isinstance(target, ast.Name):
        return ast.copy_location(ast.Name(target.id, ast.Load()), target)
    if isinstance(target, ast.Attribute):
        return ast.copy_location(ast.Attribute(target.value, target.attr, ast.Load()), target)
    assert isinstance(target, ast.Subscript)
    return ast.copy_location(ast.Subscript(target.value, target.slice, ast.Load()), target)


def load_of(target: ast.expr) -> ast.expr:
    """Public name of `_load`."""
    return _load(target)
