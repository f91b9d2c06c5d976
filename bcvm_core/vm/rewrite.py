"""Forming regions: the user's own syntax tree with tensor work replaced by calls into the VM.

Three forms, none of which leaves a name behind:

run    ``match R(x, y): case None: <the statements>; case (a, b): pass``
tree   ``(R(x, y) or (<the expression>,))[0]``
value  ``V(<operand>, <operand>)()`` for one op whose operands the host must evaluate first

`R` and `V` are constants of the code object. None means "Python does it": a run or tree has no side
effect before its last step, so the original text is an exact replay. A value site keeps the host's
evaluated operands and hands back a C callable that does the op in the user's own frame.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..frontend.lowering import RegionCode, RegionLowerer
from ..frontend.regions import MISSING, Classifier, Kind, Lookup, load_of
from ..frontend.scopes import Scope, parameters
from ..frontend.source import copy_tree
from ..isa.hints import ShapeHint
from ..ops import registry

SiteKey = tuple[str, int, int, int, int]
Relower = Callable[[str], RegionCode | None]

_TERMINATORS = (ast.Return, ast.Raise, ast.Continue, ast.Break)


class SiteFactory(Protocol):
    """Makes the objects that stand in the code; returns the placeholder constant for each."""

    dead: set[SiteKey]

    def region(self, key: SiteKey, code: RegionCode, relower: Relower) -> str: ...

    def value(self, key: SiteKey, kind: str, op: str | None) -> str: ...


@dataclass(slots=True)
class FormerContext:
    """What one function or cell statement is formed with."""

    name: str
    filename: str
    lookup: Lookup
    factory: SiteFactory
    hints: dict[str, ShapeHint] = field(default_factory=dict)
    seeds: dict[str, Kind] = field(default_factory=dict)
    unsafe_attributes: frozenset[str] = frozenset()
    namespace_scope: bool = False


def site_key(form: str, first: ast.AST, last: ast.AST | None = None) -> SiteKey:
    """A site's identity within its function: its form and source span."""
    end = last or first
    return (form, first.lineno, first.col_offset, end.end_lineno or 0, end.end_col_offset or 0)  # type: ignore[attr-defined]


class RegionFormer:
    """Rewrites the body of one scope in place."""

    def __init__(
        self, node: ast.AST, context: FormerContext, *, outer_kinds: dict[str, Kind] | None = None, bound: Iterable[str] = ()
    ) -> None:
        self.context = context
        self.scope = Scope(node)
        self.outer_kinds = dict(outer_kinds or {})
        self.classifier = self._classifier("numpy")
        arguments = getattr(node, "args", None)
        self.bound = set(bound) | (set(parameters(arguments)) if isinstance(arguments, ast.arguments) else set())
        self.observable = self.scope.inner | self.scope.declared

    def _classifier(self, personality: str) -> Classifier:
        return Classifier(
            self.scope,
            self.context.lookup,
            outer_kinds=self.outer_kinds,
            seeds=self.context.seeds,
            personality=personality,
            unsafe_attributes=self.context.unsafe_attributes,
            namespace_scope=self.context.namespace_scope,
        )

    # -- statements: runs -------------------------------------------------------------------------

    def block(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """Form the regions of a statement list."""
        out: list[ast.stmt] = []
        run: list[ast.stmt] = []
        defined: set[str] = set()
        for statement in body:
            role = None if self._may_be_unbound(statement, defined) else self._role(statement)
            if role is None:
                self._flush(run, out)
                defined.clear()
                out.append(self.statement(statement))
                continue
            run.append(statement)
            if isinstance(statement, ast.Assign | ast.AugAssign):
                target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
                if isinstance(target, ast.Name):
                    defined.add(target.id)
                    self.bound.add(target.id)
            if role == "last":
                self._flush(run, out)
                defined.clear()
        self._flush(run, out)
        return out

    def _role(self, statement: ast.stmt) -> str | None:
        """"inner": may stand anywhere in a run; "last": ends it; None: no member."""
        info = self.classifier.info
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            value = info(statement.value)
            if value is None:
                return None
            target = statement.targets[0]
            if isinstance(target, ast.Name):
                return "inner" if self._plain_name(target.id) else None
            return "last" if isinstance(target, ast.Subscript) and self._store_target(target, value.candidates) else None
        if isinstance(statement, ast.AugAssign):
            return "last" if self._augmented_member(statement) else None
        if isinstance(statement, ast.Return) and statement.value is not None:
            value = info(statement.value)
            return "last" if value is not None and value.candidates else None
        return None

    def _plain_name(self, name: str) -> bool:
        return not (self.context.namespace_scope and name == "_")

    def _store_target(self, target: ast.Subscript, candidates: int) -> bool:
        info = self.classifier.info
        if not isinstance(target.value, ast.Name) or info(target.slice) is None:
            return False
        kind = self.classifier.kind_of_name(target.value.id)
        if kind is Kind.PYTHON or (kind is Kind.UNKNOWN and not candidates and not isinstance(target.slice, ast.Slice | ast.Tuple)):
            return False
        return info(_read_name(target.value)) is not None

    def _augmented_member(self, statement: ast.AugAssign) -> bool:
        value = self.classifier.info(statement.value)
        row = registry.by_operator(type(statement.op).__name__)
        if value is None or row is None or row.fuse != "elementwise" or isinstance(statement.value, ast.List | ast.Tuple):
            return False
        if isinstance(statement.target, ast.Name):
            kind = self.classifier.kind_of_name(statement.target.id)
            return not (kind is Kind.PYTHON and value.kind is Kind.PYTHON)
        return isinstance(statement.target, ast.Subscript) and self._store_target(statement.target, value.candidates + 1)

    def _candidates(self, statement: ast.stmt) -> int:
        if isinstance(statement, ast.AugAssign) or (isinstance(statement, ast.Assign) and not isinstance(statement.targets[0], ast.Name)):
            return 1
        info = self.classifier.info(statement.value)  # type: ignore[attr-defined]
        return 0 if info is None else info.candidates

    def _may_be_unbound(self, statement: ast.stmt | ast.expr, defined: Container[str]) -> bool:
        """Could reading a name raise? A region reads all its names first, so the error might come too early."""
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and (isinstance(node.ctx, ast.Load) or isinstance(statement, ast.AugAssign)):
                if node.id in defined or node.id in self.bound or node.id in self.outer_kinds:
                    continue
                if self.classifier.is_local(node.id) or self.context.lookup(node.id) is MISSING:
                    return True
        return False

    def _flush(self, run: list[ast.stmt], out: list[ast.stmt]) -> None:
        """Emit a run: trimmed to the statements that matter, as one region."""
        statements = list(run)
        run.clear()
        trailing: list[ast.stmt] = []
        while statements and not self._candidates(statements[0]):
            out.append(statements.pop(0))
        while statements and not self._candidates(statements[-1]):
            trailing.insert(0, statements.pop())
        if statements:
            self._emit_run(statements, out)
        out += trailing

    def _emit_run(self, statements: list[ast.stmt], out: list[ast.stmt]) -> None:
        last = statements[-1]
        if isinstance(last, ast.Return):
            if len(statements) == 1:
                out.append(self.statement(last))
                return
            assigned = [n for s in statements[:-1] for n in _assigned(s)]
            capture = assigned[0] if assigned and all(self._free_to_capture(n) for n in assigned) else None
            if capture is None:
                self._emit_run(statements[:-1], out)
                out.append(self.statement(last))
                return
        else:
            capture = None
        key = site_key("run", statements[0], last)
        if key in self.context.factory.dead:
            out += statements
            return
        code = self._lower(statements, self.classifier, returns=capture is not None)
        if code is None:
            out += [self.statement(s) for s in statements]
            return
        out.append(self._emit_match(statements, code, key, capture))

    def _free_to_capture(self, name: str) -> bool:
        return name not in self.observable and not self.scope.reads_frame and not self.context.namespace_scope

    def _outputs(self, statements: list[ast.stmt]) -> tuple[str, ...]:
        names = list(dict.fromkeys(n for s in statements for n in _assigned(s)))
        return tuple(n for n in names if self._needed(n, statements)) or tuple(names[-1:])

    def _needed(self, name: str, statements: list[ast.stmt]) -> bool:
        """Flow-insensitive: may the frame or anyone else see this store?"""
        scope = self.scope
        if self.context.namespace_scope or scope.reads_frame or name in self.observable or name in scope.params:
            return True
        return scope.stores[name] != 1 or scope.reads_outside(name, statements)

    def _lower(self, statements: list[ast.stmt], classifier: Classifier, *, returns: bool) -> RegionCode | None:
        lowerer = RegionLowerer(classifier, self.context.name, self.context.filename, self.context.hints)
        value: int | None = None
        for statement in statements:
            value = lowerer.statement(statement)
        outputs = () if returns else self._outputs(statements)
        return lowerer.finish(statements, outputs, value if returns else None)

    def _emit_match(self, statements: list[ast.stmt], code: RegionCode, key: SiteKey, capture: str | None) -> ast.stmt:
        first, last = statements[0], statements[-1]
        originals = [copy_tree(s) for s in statements]
        relower = self._relower_run(originals, returns=capture is not None)
        call = self._call(self.context.factory.region(key, code, relower), code, first)
        body: list[ast.stmt] = [ast.copy_location(ast.Pass(), last)]
        pattern: ast.pattern
        if capture is not None:
            pattern = ast.MatchAs(name=capture)
            body = [ast.copy_location(ast.Return(ast.copy_location(ast.Name(capture, ast.Load()), last)), last)]
        elif len(code.outputs) == 1:
            pattern = ast.MatchAs(name=code.outputs[0])
        else:
            pattern = ast.MatchSequence([ast.copy_location(ast.MatchAs(name=n), last) for n in code.outputs])
        cases = [
            ast.match_case(ast.copy_location(ast.MatchSingleton(None), first), None, statements),
            ast.match_case(ast.copy_location(pattern, last), None, body),
        ]
        return ast.copy_location(ast.Match(call, cases), first)

    def _relower_run(self, originals: list[ast.stmt], *, returns: bool) -> Relower:
        def relower(personality: str) -> RegionCode | None:
            statements = [copy_tree(s) for s in originals]
            classifier = self._classifier(personality)
            for statement in statements:
                value = getattr(statement, "value", None)
                if classifier.info(value) is None:  # type: ignore[arg-type]
                    return None
                for target in getattr(statement, "targets", [getattr(statement, "target", None)]):
                    if isinstance(target, ast.Subscript):
                        classifier.info(target.slice)
            return self._lower(statements, classifier, returns=returns)

        return relower

    def _call(self, placeholder: str, code: RegionCode, at: ast.AST) -> ast.Call:
        """The call of a region: its inputs, then the callables it was formed with."""
        nodes = [copy_tree(n) for n in (*code.input_nodes, *code.callable_nodes)]
        for node in nodes:
            for part in ast.walk(node):
                if isinstance(part, ast.Name):
                    part.ctx = ast.Load()
                if getattr(part, "lineno", None) != at.lineno:  # type: ignore[attr-defined]
                    ast.copy_location(part, at)  # later lines must not fire line events early
        return ast.copy_location(ast.Call(ast.copy_location(ast.Constant(placeholder), at), nodes, []), at)

    # -- expressions: trees and value sites -------------------------------------------------------

    def expression(self, node: ast.expr) -> ast.expr:
        """Form the regions of an expression."""
        info = self.classifier.info(node)
        if info is not None and not info.candidates:
            return node
        if info is not None and not self._may_be_unbound(node, ()):
            return self._tree(node)
        if isinstance(node, ast.Compare) and len(node.ops) > 1:
            return self._comparison_chain(node)
        if isinstance(node, ast.Lambda):
            self._nested(node)
            return node
        if isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            return self._comprehension(node)
        site = self._value_site(node)
        return site if site is not None else self._children(node)

    def _tree(self, node: ast.expr) -> ast.expr:
        key = site_key("tree", node)
        if key in self.context.factory.dead:
            return node
        original = copy_tree(node)

        def relower(personality: str) -> RegionCode | None:
            fresh = copy_tree(original)
            classifier = self._classifier(personality)
            return self._lower_tree(fresh, classifier) if classifier.info(fresh) is not None else None

        code = self._lower_tree(node, self.classifier)
        call = self._call(self.context.factory.region(key, code, relower), code, node)
        either = ast.BoolOp(ast.Or(), [call, ast.copy_location(ast.Tuple([node], ast.Load()), node)])
        return _at(ast.Subscript(_at(either, node), _at(ast.Constant(0), node), ast.Load()), node)

    def _lower_tree(self, node: ast.expr, classifier: Classifier) -> RegionCode:
        lowerer = RegionLowerer(classifier, self.context.name, self.context.filename, self.context.hints)
        value = lowerer.lowerer.lower(node)
        return lowerer.finish([node], (), value)

    def _comparison_chain(self, node: ast.Compare) -> ast.expr:
        """a < b < c is (a < b) and (b < c) where evaluating b twice cannot be noticed."""
        values = [node.left, *node.comparators]
        if any(self.classifier.info(v) is None for v in values):
            return self._children(node)
        pairs = [
            _at(ast.Compare(copy_tree(left), [op], [copy_tree(right)]), node)
            for left, op, right in zip(values, node.ops, values[1:], strict=False)
        ]
        return _at(ast.BoolOp(ast.And(), [self.expression(p) for p in pairs]), node)

    def _value_site(self, node: ast.expr) -> ast.expr | None:
        """`V(operands)()` when the node may be an op, else None."""
        spec = self._value_spec(node)
        if spec is None:
            return None
        kind, op, operands, keywords = spec
        key = site_key("value", node)
        if key in self.context.factory.dead:
            return None
        placeholder = _at(ast.Constant(self.context.factory.value(key, kind, op)), node)
        args = [self._starred(o) for o in operands]
        words = [_at(ast.keyword(k.arg, self.expression(k.value)), k) for k in keywords]
        return _at(ast.Call(_at(ast.Call(placeholder, args, words), node), [], []), node)

    def _starred(self, node: ast.expr) -> ast.expr:
        if isinstance(node, ast.Starred):
            return _at(ast.Starred(self.expression(node.value), ast.Load()), node)
        return self.expression(node)

    def _value_spec(self, node: ast.expr) -> tuple[str, str | None, list[ast.expr], list[ast.keyword]] | None:
        """(kind, op, operands in order of evaluation, keywords) of a possible op."""
        possible = self._possible
        if isinstance(node, ast.BinOp) and possible(node.left, node.right):
            return self._operator_spec(node.op, [node.left, node.right])
        if isinstance(node, ast.UnaryOp) and not isinstance(node.op, ast.Not) and possible(node.operand):
            return self._operator_spec(node.op, [node.operand])
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and possible(node.left, node.comparators[0]):
            return self._operator_spec(node.ops[0], [node.left, node.comparators[0]])
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and possible(node.value):
            if self.classifier.value_kind(node.value) is Kind.TENSOR or isinstance(node.slice, ast.Slice | ast.Tuple | ast.Call):
                return ("operator", "getitem", [node.value, _index_value(node.slice)], [])
        if isinstance(node, ast.Call):
            return self._call_spec(node)
        return None

    def _possible(self, *operands: ast.expr) -> bool:
        displays = (ast.List, ast.Tuple, ast.Dict, ast.Set, ast.JoinedStr, ast.ListComp, ast.DictComp, ast.SetComp, ast.GeneratorExp)
        if any(isinstance(o, displays) or (isinstance(o, ast.Constant) and isinstance(o.value, str | bytes)) for o in operands):
            return False
        return any(self.classifier.value_kind(o) is not Kind.PYTHON for o in operands)

    def _operator_spec(self, operator: ast.AST, operands: list[ast.expr]) -> tuple[str, str | None, list[ast.expr], list[ast.keyword]] | None:
        row = registry.by_operator(type(operator).__name__)
        return None if row is None else ("operator", row.name, operands, [])

    def _call_spec(self, node: ast.Call) -> tuple[str, str | None, list[ast.expr], list[ast.keyword]] | None:
        found = self.classifier.op_of_callee(node)
        if found is not None:
            if found[0].pure_python and found[2] is None:
                return None
            return ("call", found[0].name, [node.func, *node.args], node.keywords)
        if isinstance(node.func, ast.Attribute) and self._foreign_method(node.func):
            return ("call", None, [node.func, *node.args], node.keywords)
        target = self.classifier.resolve(node.func)
        root = node.func
        while isinstance(root, ast.Attribute):
            root = root.value
        unknown_name = isinstance(node.func, ast.Name) and self.classifier.kind_of_name(node.func.id) is Kind.UNKNOWN
        unknown_module = isinstance(node.func, ast.Attribute) and isinstance(root, ast.Name) and self._missing_global(root.id)
        if target is MISSING and (unknown_name or unknown_module):
            return ("call", None, [node.func, *node.args], node.keywords)
        return None

    def _foreign_method(self, function: ast.Attribute) -> bool:
        """A method that only tensors of another library have; the site binds it late, by the receiver's type."""
        receiver = self.classifier.resolve(function.value)
        if isinstance(receiver, types.ModuleType) or self.classifier.value_kind(function.value) is Kind.PYTHON:
            return False
        return registry.by_method(function.attr, "mindspore") is not None

    def _missing_global(self, name: str) -> bool:
        return not self.classifier.is_local(name) and name not in self.outer_kinds and self.context.lookup(name) is MISSING

    def _children(self, node: Any) -> Any:
        """Form the regions below a node that is no op itself."""
        for name, value in ast.iter_fields(node):
            if isinstance(value, ast.expr):
                if not isinstance(getattr(value, "ctx", None), ast.Store | ast.Del):
                    setattr(node, name, self.expression(value))
            elif isinstance(value, list):
                setattr(node, name, [self.expression(v) if isinstance(v, ast.expr) else v for v in value])
        for keyword in getattr(node, "keywords", ()):
            keyword.value = self.expression(keyword.value)
        return node

    # -- inner scopes -----------------------------------------------------------------------------

    def _visible_kinds(self) -> dict[str, Kind]:
        kinds = dict(self.outer_kinds)
        if not self.context.namespace_scope:
            kinds.update(dict.fromkeys(self.scope.local, Kind.UNKNOWN))
            kinds.update(self.classifier.kinds)
        return kinds

    def _nested(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> None:
        """A function defined here; its free variables are bound by the time it runs, or raise in place."""
        inner = RegionFormer(node, _without_seeds(self.context), outer_kinds=self._visible_kinds())
        if isinstance(node, ast.Lambda):
            node.body = inner.expression(node.body)
        else:
            node.body = inner.block(node.body)

    def _comprehension(self, node: Any) -> Any:
        saved_kinds, saved_outer = dict(self.classifier.kinds), dict(self.classifier.outer_kinds)
        for position, generator in enumerate(node.generators):
            if position == 0:
                generator.iter = self.expression(generator.iter)
            for target in ast.walk(generator.target):
                if isinstance(target, ast.Name):
                    self.classifier.kinds.pop(target.id, None)
                    self.classifier.outer_kinds[target.id] = (
                        self.classifier.element_kind(generator.iter) if target is generator.target else Kind.UNKNOWN
                    )
            if position:
                generator.iter = self.expression(generator.iter)
            generator.ifs = [self.expression(e) for e in generator.ifs]
        for name in ("elt", "key", "value"):
            if hasattr(node, name):
                setattr(node, name, self.expression(getattr(node, name)))
        self.classifier.kinds, self.classifier.outer_kinds = saved_kinds, saved_outer
        return node

    # -- statements: the rest ---------------------------------------------------------------------

    def statement(self, node: ast.stmt) -> ast.stmt:
        """Form the regions inside a statement that is no member of a run."""
        handler = getattr(self, f"_{type(node).__name__.lower()}", None)
        if handler is not None:
            return handler(node)  # type: ignore[no-any-return]
        return self._children(node)  # type: ignore[no-any-return]

    def _branches(self, *bodies: list[ast.stmt]) -> list[list[ast.stmt]]:
        """Form alternatives; afterwards only what every one that goes on binds is bound."""
        before, after, out = set(self.bound), [], []
        for body in bodies:
            self.bound = set(before)
            out.append(self.block(body))
            if not (body and isinstance(body[-1], _TERMINATORS)):
                after.append(self.bound)
        self.bound = set.intersection(*after) if after else before
        return out

    def _if(self, node: ast.If) -> ast.stmt:
        node.test = self.expression(node.test)
        node.body, node.orelse = self._branches(node.body, node.orelse)
        return node

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While, targets: Iterable[str]) -> ast.stmt:
        before = set(self.bound)
        self.bound |= set(targets)
        node.body = self.block(node.body)
        self.bound = before
        node.orelse = self.block(node.orelse)
        return node

    def _for(self, node: ast.For | ast.AsyncFor) -> ast.stmt:
        node.iter = self.expression(node.iter)
        return self._loop(node, _names(node.target))

    _asyncfor = _for

    def _while(self, node: ast.While) -> ast.stmt:
        node.test = self.expression(node.test)
        return self._loop(node, ())

    def _try(self, node: ast.Try) -> ast.stmt:
        before = set(self.bound)
        node.body = self.block(node.body)
        node.orelse = self.block(node.orelse)
        for handler in node.handlers:
            self.bound = set(before) | ({handler.name} if handler.name else set())
            handler.body = self.block(handler.body)
        self.bound = set(before)
        node.finalbody = self.block(node.finalbody)
        self.bound = before
        return node

    _trystar = _try

    def _with(self, node: ast.With | ast.AsyncWith) -> ast.stmt:
        before = set(self.bound)
        for item in node.items:
            item.context_expr = self.expression(item.context_expr)
            if item.optional_vars is not None:
                self.bound |= set(_names(item.optional_vars))
        node.body = self.block(node.body)
        self.bound = before  # __exit__ may swallow an exception anywhere in the body
        return node

    _asyncwith = _with

    def _match(self, node: ast.Match) -> ast.stmt:
        node.subject = self.expression(node.subject)
        for case in node.cases:
            if case.guard is not None:
                case.guard = self.expression(case.guard)
        bodies = self._branches(*(c.body for c in node.cases), [])
        for case, body in zip(node.cases, bodies, strict=False):
            case.body = body
        return node

    def _functiondef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.stmt:
        if not self.context.namespace_scope:  # functions of a cell are adopted when their `def` has run
            self._nested(node)
        self.bound.add(node.name)
        return node

    _asyncfunctiondef = _functiondef

    def _classdef(self, node: ast.ClassDef) -> ast.stmt:
        self.bound.add(node.name)
        return node

    def _assign(self, node: ast.Assign) -> ast.stmt:
        node.value = self.expression(node.value)
        for target in node.targets:
            self.bound |= set(_names(target))
            self._store_parts(target)
        return node

    def _store_parts(self, target: ast.expr) -> None:
        """Index expressions of a store are evaluated by the host; regions may form in them."""
        if isinstance(target, ast.Subscript) and not isinstance(target.slice, ast.Slice | ast.Tuple):
            target.slice = self.expression(target.slice)

    def _annassign(self, node: ast.AnnAssign) -> ast.stmt:
        if node.value is not None:
            node.value = self.expression(node.value)
            self.bound |= set(_names(node.target))
        return node

    def _augassign(self, node: ast.AugAssign) -> ast.stmt:
        """`t += host()` becomes `t = V(t, host())()` where reading t twice cannot be noticed."""
        row = registry.by_operator(type(node.op).__name__)
        simple = isinstance(node.target, ast.Name) or (isinstance(node.target, ast.Attribute) and isinstance(node.target.value, ast.Name))
        key = site_key("value", node)
        if row is None or not simple or key in self.context.factory.dead or not self._possible(load_of(node.target), node.value):
            node.value = self.expression(node.value)
            return node
        placeholder = _at(ast.Constant(self.context.factory.value(key, "inplace", row.name)), node)
        args = [load_of(node.target), self.expression(node.value)]
        value = _at(ast.Call(_at(ast.Call(placeholder, args, []), node), [], []), node)
        return _at(ast.Assign([node.target], value), node)

    def _delete(self, node: ast.Delete) -> ast.stmt:
        for target in node.targets:
            self.bound -= set(_names(target))
        return node

    def _import(self, node: ast.Import | ast.ImportFrom) -> ast.stmt:
        self.bound |= {(a.asname or a.name).split(".")[0] for a in node.names}
        return node

    _importfrom = _import

    def _global(self, node: ast.Global | ast.Nonlocal) -> ast.stmt:
        return node

    _nonlocal = _global


def _without_seeds(context: FormerContext) -> FormerContext:
    inner = FormerContext(context.name, context.filename, context.lookup, context.factory)
    inner.unsafe_attributes = context.unsafe_attributes
    return inner


def _at(node: Any, place: ast.AST) -> Any:
    return ast.copy_location(node, place)


def _read_name(node: ast.Name) -> ast.Name:
    return ast.copy_location(ast.Name(node.id, ast.Load()), node)


def _names(target: ast.AST) -> list[str]:
    return [n.id for n in ast.walk(target) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store | ast.Del)]


def _assigned(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.Assign):
        return [t.id for t in statement.targets if isinstance(t, ast.Name)]
    if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
        return [statement.target.id]
    return []


def _index_value(node: ast.expr) -> ast.expr:
    """An index as an ordinary expression: slices become `slice(...)` objects."""
    if isinstance(node, ast.Slice):
        parts = [p if p is not None else _at(ast.Constant(None), node) for p in (node.lower, node.upper, node.step)]
        return _at(ast.Call(_at(ast.Constant("\x00bcvm:slice"), node), parts, []), node)
    if isinstance(node, ast.Tuple):
        return _at(ast.Tuple([_index_value(e) for e in node.elts], ast.Load()), node)
    return node
