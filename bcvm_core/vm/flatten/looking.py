"""Where Python looks at values while a call is flattened: items, truth, iteration, and what must be known now."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from ...ops import registry
from .objects import Reader
from .plain import require_plain
from .recorder import Recorder
from .statements import Statements, unchanged
from .values import Items, Known, Stream, Table, Traced, UnflattenableError, Value, fresh, is_known

PLAIN = frozenset({bool, int, float, complex, str, bytes, tuple, list, dict, type(None), range, slice, type(Ellipsis)})


class Looking(Statements):
    """Looks at values; the syntax is the subclasses'."""

    recorder: Recorder
    reader: Reader

    def require_own(self, values: Sequence[Value], *names: str) -> None:
        """Raises UnflattenableError when somebody has replaced a method of tensors that an operation on `values` would call."""
        for value in values:
            actual = value.value if isinstance(value, Known) else value.actual if isinstance(value, Traced) else None
            if registry.personality_of(type(actual)) is not None:
                for name in names:
                    if not self.reader.library.has_own(actual, name, self.recorder.reads):
                        raise UnflattenableError(f"{name} of tensors has been replaced")

    # -- subscripts ---------------------------------------------------------------------------------

    def _subscript(self, node: ast.Subscript) -> Value:
        return self.item(self.evaluate(node.value), self.evaluate(node.slice), node)

    def item(self, holder: Value, index: Value, at: ast.AST) -> Value:
        """`holder[index]`."""
        if isinstance(holder, Known) and self.reader.library.is_module(holder.value):
            return self._part(holder, index, at)
        if isinstance(holder, Known) and type(holder.value) in (list, tuple, dict, str, range) and isinstance(index, Known):
            found = holder.value[self.key(index, at)]
            return fresh(found) if type(index.value) is slice else Known(found, f"{holder.path}._{index.value}" if holder.path else "")
        if isinstance(holder, Items) and is_known(index):
            taken = holder.values[self.constant(index, at)]
            return Items(holder.kind, taken) if isinstance(taken, list) else taken
        if isinstance(holder, Table):
            return holder.values[self.key(index, at)]
        if isinstance(holder, Known) and registry.personality_of(type(holder.value)) is None and type(holder.value) not in (list, tuple):
            raise UnflattenableError(f"an item of a {type(holder.value).__name__}")
        self.require_own([holder], "__getitem__")
        row = registry.by_operator("Subscript")
        assert row is not None
        return self.recorder.op(row, [holder, index], syntax=True, at=at)

    def _part(self, holder: Known, index: Value, at: ast.AST) -> Value:
        parts = self.reader.library.parts(holder.value, self.recorder.reads)
        key = self.constant(index, at)
        if parts is None:
            raise UnflattenableError(f"an item of a {type(holder.value).__name__}")
        held = self.recorder.reads.all_of(parts)
        name = key if key in held else list(held)[key] if type(key) is int else None
        if name is None:
            raise UnflattenableError(f"a slice of a {type(holder.value).__name__}")
        return Known(held[name], f"{holder.path}._{name}")

    # -- what Python must know ----------------------------------------------------------------------

    def constant(self, value: Value, at: ast.AST, identity: bool = False) -> Any:
        """The value as Python must know it now; what depends on the operands is held to this run's value by a CHECK.

        Raises UnflattenableError for values that are not plain (see `plain.require_plain`).
        """
        if isinstance(value, Traced):
            return self.recorder.expect(value, at)
        if isinstance(value, Items):
            return value.kind(self.constant(v, at, identity) for v in value.values)
        if isinstance(value, Table):
            return {key: self.constant(v, at, identity) for key, v in value.values.items()}
        if isinstance(value, Known):
            require_plain(value.value, identity)
            return value.value
        raise UnflattenableError("a function or an iterator as a value")

    def key(self, value: Value, at: ast.AST) -> Any:
        """As `constant`, for what is only compared or hashed."""
        return self.constant(value, at, identity=True)

    def truth(self, value: Value, at: ast.AST) -> bool:
        """The truth value of something a branch depends on."""
        if isinstance(value, Items):
            return bool(value.values)
        if isinstance(value, Table):
            return bool(value.values)
        if isinstance(value, Traced):
            if type(value.actual) is not bool:
                self.require_own([value], "__bool__")
                tested = self.recorder.op(registry.row("bool"), [value], syntax=False, at=at)
                assert isinstance(tested, Traced)
                value = tested
            return bool(self.recorder.expect(value, at))
        if isinstance(value, Stream):
            raise UnflattenableError("the truth of an iterator")
        if not isinstance(value, Known):
            return True
        if registry.personality_of(type(value.value)) is not None:
            return self.truth(self.recorder.capture(value.value, value.path), at)
        if type(value.value) in PLAIN:
            return bool(value.value)
        parts = self.reader.library.parts(value.value, self.recorder.reads) if self.reader.library.is_module(value.value) else None
        if parts is not None:
            return bool(self.recorder.reads.all_of(parts))
        if any(hasattr(type(value.value), name) for name in ("__bool__", "__len__")):
            raise UnflattenableError(f"the truth of a {type(value.value).__name__}")
        return True

    def iterate(self, value: Value, at: ast.AST) -> list[Value]:
        """The items of an iterable, in order."""
        if isinstance(value, Items):
            return list(value.values)
        if isinstance(value, Table):
            return [Known(key) for key in value.values]
        if isinstance(value, Stream):
            if value.used:
                raise UnflattenableError("an iterator that is gone through twice")
            value.used = True
            unchanged(value.sources, 0)
            return list(value.values)
        if isinstance(value, Traced):
            return self._iterate_traced(value, at)
        if not isinstance(value, Known):
            raise UnflattenableError("iterating over a function")
        if self.reader.library.is_module(value.value):
            parts = self.reader.library.parts(value.value, self.recorder.reads)
            if parts is not None:
                return [Known(part, f"{value.path}._{key}") for key, part in self.recorder.reads.all_of(parts).items()]
        if registry.personality_of(type(value.value)) is not None:
            return self._iterate_traced(self.recorder.capture(value.value, value.path), at)
        if type(value.value) in (list, tuple, range, str, dict):
            return [Known(item, f"{value.path}._{i}" if value.path else "") for i, item in enumerate(value.value)]
        raise UnflattenableError(f"iterating over a {type(value.value).__name__}")

    def _iterate_traced(self, value: Traced, at: ast.AST) -> list[Value]:
        if type(value.actual) in (tuple, list):
            return self.recorder.unpack(value, len(value.actual), at)
        if not value.is_tensor or not value.actual.shape:
            raise UnflattenableError(f"iterating over a {type(value.actual).__name__}")
        self.require_own([value], "__iter__", "__len__")
        length = self.recorder.op(registry.row("len"), [value], syntax=False, at=at)
        return [self.item(value, Known(i), at) for i in range(self.constant(length, at))]

    def items_of(self, value: Value, count: int, at: ast.AST) -> list[Value]:
        if isinstance(value, Traced) and type(value.actual) in (tuple, list):
            return self.recorder.unpack(value, count, at)
        return self.iterate(value, at)


__all__ = ["PLAIN", "Looking"]
