"""Trees and value sites: the regions of single expressions.

A tree is an expression all of whose leaves are names; a value site is one op whose operands the host
must evaluate first.
"""

from __future__ import annotations

import ast
import types
from typing import Any

from ..frontend.lowering import RegionCode, RegionLowerer
from ..frontend.regions import MISSING, Classifier, Kind
from ..frontend.source import copy_tree
from ..ops import registry
from .former import Former, at, callee, site_key

ValueSpec = tuple[str, str | None, list[ast.expr], list[ast.keyword]]  # kind, op, operands in order of evaluation, keywords
_NO_OPERANDS = (ast.List, ast.Tuple, ast.Dict, ast.Set, ast.JoinedStr, ast.ListComp, ast.DictComp, ast.SetComp, ast.GeneratorExp)


class ExpressionFormer(Former):
    """Forms the regions of expressions."""

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
            self.inner(node)
            return node
        if isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            return self._comprehension(node)  # type: ignore[no-any-return]
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
        either = ast.BoolOp(ast.Or(), [call, at(ast.Tuple([node], ast.Load()), node)])
        return at(ast.Subscript(at(either, node), at(ast.Constant(0), node), ast.Load()), node)

    def _lower_tree(self, node: ast.expr, classifier: Classifier) -> RegionCode:
        lowerer = RegionLowerer(classifier, self.context.name, self.context.filename, self.context.hints)
        value = lowerer.lowerer.lower(node)
        return lowerer.finish([node], (), value)

    def _comparison_chain(self, node: ast.Compare) -> ast.expr:
        """a < b < c is (a < b) and (b < c) where evaluating b twice cannot be noticed."""
        values = [node.left, *node.comparators]
        once = all(isinstance(v, ast.Name | ast.Constant) for v in values[1:-1])  # anything else may run user code, twice
        if not once or any(self.classifier.info(v) is None for v in values):
            self._children(node)
            return node
        pairs: list[ast.expr] = []
        for left, op, right in zip(values, node.ops, values[1:], strict=False):
            pair = at(ast.Compare(copy_tree(left), [op], [copy_tree(right)]), node)  # errors point at the whole chain
            pair.bcvm_span = (left, right)  # type: ignore[attr-defined]
            pairs.append(self.expression(pair))
        return at(ast.BoolOp(ast.And(), pairs), node)

    def _value_site(self, node: ast.expr) -> ast.expr | None:
        """`V(operands)()` when the node may be an op, else None."""
        spec = self._value_spec(node)
        if spec is None:
            return None
        kind, op, operands, keywords = spec
        key = site_key("value", node)
        if key in self.context.factory.dead:
            return None
        unpacks = any(isinstance(o, ast.Starred) for o in operands) or any(k.arg is None for k in keywords)
        placeholder = callee(self.context.factory.value(key, "star" if unpacks else kind, op), node)
        args = [self._starred(o) for o in operands]
        words = [at(ast.keyword(k.arg, self.expression(k.value)), k) for k in keywords]
        if unpacks:
            placeholder = at(ast.Call(placeholder, [args.pop(0)], []), node)
        return at(ast.Call(at(ast.Call(placeholder, args, words), node), [], []), node)

    def _starred(self, node: ast.expr) -> ast.expr:
        if isinstance(node, ast.Starred):
            return at(ast.Starred(self.expression(node.value), ast.Load()), node)
        return self.expression(node)

    def _value_spec(self, node: ast.expr) -> ValueSpec | None:
        """(kind, op, operands in order of evaluation, keywords) of a possible op."""
        possible = self._possible
        if isinstance(node, ast.BinOp) and possible(node.left, node.right):
            return self._operator_spec(node.op, [node.left, node.right])
        if isinstance(node, ast.UnaryOp) and not isinstance(node.op, ast.Not) and possible(node.operand):
            return self._operator_spec(node.op, [node.operand])
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and possible(node.left, node.comparators[0]):
            return self._operator_spec(node.ops[0], [node.left, node.comparators[0]])
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and possible(node.value):
            looks_like_array = isinstance(node.slice, ast.Slice | ast.Tuple | ast.Call)
            if looks_like_array or self.classifier.value_kind(node.value) is Kind.TENSOR:
                return ("operator", "getitem", [node.value, index_value(node.slice)], [])
            return None
        if isinstance(node, ast.Call):
            return self._call_spec(node)
        return None

    def _possible(self, *operands: ast.expr) -> bool:
        if any(isinstance(o, _NO_OPERANDS) or (isinstance(o, ast.Constant) and isinstance(o.value, str | bytes)) for o in operands):
            return False
        return any(self.classifier.value_kind(o) is not Kind.PYTHON for o in operands)

    def _operator_spec(self, operator: ast.AST, operands: list[ast.expr]) -> ValueSpec | None:
        row = registry.by_operator(type(operator).__name__)
        return None if row is None else ("operator", row.name, operands, [])

    def _call_spec(self, node: ast.Call) -> ValueSpec | None:
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
        if target is MISSING and (unknown_name or unknown_module or self._chosen(node.func)):
            return ("call", None, [node.func, *node.args], node.keywords)
        return None

    def _chosen(self, function: ast.expr) -> bool:
        """A callee picked at run time: `TABLE[name](x)`, `(f if c else g)(x)`, `getattr(np, name)(x)`."""
        if isinstance(function, ast.Call):
            return self.classifier.resolve(function.func) is getattr
        return isinstance(function, ast.Subscript | ast.IfExp)

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


def index_value(node: ast.expr) -> ast.expr:
    """An index as an ordinary expression: slices become `slice(...)` objects."""
    if isinstance(node, ast.Slice):
        parts = [p if p is not None else at(ast.Constant(None), node) for p in (node.lower, node.upper, node.step)]
        return at(ast.Call(callee("\x00bcvm:slice", node), parts, []), node)
    if isinstance(node, ast.Tuple):
        return at(ast.Tuple([index_value(e) for e in node.elts], ast.Load()), node)
    return node
