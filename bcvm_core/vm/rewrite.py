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
from collections.abc import Iterable

from ..frontend.regions import Kind, load_of
from ..frontend.source import copy_tree
from ..ops import registry
from .former import FormerContext, LoopSwitches, SiteKey, at, callee, site_key, stored_names
from .runs import RunFormer
from .trees import ExpressionFormer, index_value

__all__ = ["FormerContext", "RegionFormer", "SiteKey"]

_TERMINATORS = (ast.Return, ast.Raise, ast.Continue, ast.Break)


class RegionFormer(RunFormer, ExpressionFormer):
    """Rewrites the body of one scope in place."""

    _watching = False  # inside a loop that is watched

    def inner(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> None:
        """A function defined here; its free variables are bound by the time it runs, or raise in place."""
        inner = RegionFormer(node, _without_seeds(self.context), outer_kinds=self.visible_kinds())
        if isinstance(node, ast.Lambda):
            node.body = inner.expression(node.body)
        else:
            node.body = inner.block(node.body)

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
        switches = self.context.switches
        if switches is None or self._watching or isinstance(node, ast.AsyncFor) or self._meets_tensors(node):
            node.iter = self.expression(node.iter)
            return self._loop(node, stored_names(node.target))
        return self._watched(node, switches)

    def _meets_tensors(self, node: ast.For) -> bool:
        """Is it certain that the loop has work for the VM?"""
        for part in ast.walk(node):
            if isinstance(part, ast.Name) and self.classifier.kind_of_name(part.id) is Kind.TENSOR:
                return True
            if isinstance(part, ast.Call) and registry.by_callable(self.classifier.resolve(part.func)) is not None:
                found = registry.by_callable(self.classifier.resolve(part.func))
                if found is not None and not found[0].pure_python:
                    return True
        return False

    def _watched(self, node: ast.For, switches: LoopSwitches) -> ast.stmt:
        """The loop's first rounds with sites, the rest with them or without; see `vm.switch`."""
        plain = copy_tree(node)
        before = switches.sites_before()
        self._watching = True
        node.iter = self.expression(node.iter)
        self._loop(node, stored_names(node.target))
        self._watching = False
        names = switches.switch(before)
        if names is None:
            return node
        peel, live, rest, make_iterator = (callee(name, node) for name in names)

        def call(function: ast.expr, *args: ast.expr) -> ast.expr:
            return at(ast.Call(function, list(args), []), node.iter)

        def go_on(body: list[ast.stmt], orelse: list[ast.stmt]) -> ast.stmt:
            return at(ast.For(copy_tree(node.target), call(copy_tree(rest)), body, orelse), node)

        with_sites = go_on([copy_tree(s) for s in node.body], node.orelse)
        choice = at(ast.If(call(live), [with_sites], [go_on(plain.body, plain.orelse)]), node)
        return at(ast.For(node.target, call(peel, call(make_iterator, node.iter)), node.body, [choice]), node)

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
                self.bound |= set(stored_names(item.optional_vars))
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
            self.inner(node)
        self.bound.add(node.name)
        return node

    _asyncfunctiondef = _functiondef

    def _classdef(self, node: ast.ClassDef) -> ast.stmt:
        self.bound.add(node.name)
        return node

    def _assign(self, node: ast.Assign) -> ast.stmt:
        store = self._store(node)
        if store is not None:
            return store
        node.value = self.expression(node.value)
        for target in node.targets:
            self.bound |= set(stored_names(target))
            self._store_parts(target)
        return node

    def _store(self, node: ast.Assign) -> ast.stmt | None:
        """`x[i] = host()` becomes `V(host(), x, i)()`: Python evaluates the value first, then the target."""
        target = node.targets[0]
        key = site_key("store", node)
        if len(node.targets) != 1 or not isinstance(target, ast.Subscript) or key in self.context.factory.dead:
            return None
        kind = self.classifier.value_kind(target.value)
        sliced = isinstance(target.slice, ast.Slice | ast.Tuple) and not isinstance(target.value, ast.Dict)
        if kind is Kind.PYTHON or not (kind is Kind.TENSOR or sliced):
            return None  # v[i] of an unknown v is as likely a dict
        parts = [self.expression(node.value), self.expression(target.value), self.expression(index_value(target.slice))]
        made = at(ast.Call(callee(self.context.factory.value(key, "store", "setitem"), node.value), parts, []), target)
        return at(ast.Expr(at(ast.Call(made, [], []), target)), target)

    def _store_parts(self, target: ast.expr) -> None:
        """Index expressions of a store are evaluated by the host; regions may form in them."""
        if isinstance(target, ast.Subscript) and not isinstance(target.slice, ast.Slice | ast.Tuple):
            target.slice = self.expression(target.slice)

    def _annassign(self, node: ast.AnnAssign) -> ast.stmt:
        if node.value is not None:
            node.value = self.expression(node.value)
            self.bound |= set(stored_names(node.target))
        return node

    def _augassign(self, node: ast.AugAssign) -> ast.stmt:
        """`t += host()` becomes `t = V(t, host())()` where reading t twice cannot be noticed."""
        row = registry.by_operator(type(node.op).__name__)
        simple = isinstance(node.target, ast.Name) or (isinstance(node.target, ast.Attribute) and self._holder_stays(node))
        key = site_key("value", node)
        if row is None or not simple or key in self.context.factory.dead or not self._possible(load_of(node.target), node.value):
            node.value = self.expression(node.value)
            return node
        placeholder = callee(self.context.factory.value(key, "inplace", row.name), node)
        args = [load_of(node.target), self.expression(node.value)]
        value = at(ast.Call(at(ast.Call(placeholder, args, []), node), [], []), node)
        return at(ast.Assign([node.target], value), node)

    def _holder_stays(self, node: ast.AugAssign) -> bool:
        """`o.w += value`: is o after the value what it was before? (nobody else can bind a local name that is no cell)"""
        holder = node.target.value if isinstance(node.target, ast.Attribute) else None
        if not isinstance(holder, ast.Name):
            return False
        if self.classifier.info(node.value) is not None:
            return True
        if holder.id in self.observable or not self.classifier.is_local(holder.id):
            return False
        return holder.id not in [n for part in ast.walk(node.value) if isinstance(part, ast.NamedExpr) for n in stored_names(part.target)]

    def _delete(self, node: ast.Delete) -> ast.stmt:
        for target in node.targets:
            self.bound -= set(stored_names(target))
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
