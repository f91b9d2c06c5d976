"""How MindSpore tensors take part in CALL_OP: unwrap without copies, promote as MindSpore does, run the kernel, wrap.

A call that MindSpore must see itself raises Decline: while gradients are recorded, under a
dispatch mode, with arrays mixed in, with element types MindSpore refuses or BCVM has no rule for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import mindspore as ms
import numpy as np

from .. import dtypes, fpstatus
from ..devices import base
from ..errors import Decline
from ..fusion.convolutions import ASKING
from ..isa.signature import OperandClass
from ..ops import order, pending, registry
from ..ops.registry import OpInfo
from ..tiers.pool import pool
from . import conversion, handlers, handlers_forms, handlers_more, handlers_primitives, memory, promotion
from .direct import DirectSite
from .executor import is_recorded
from .memory import DType
from .promotion import Rule

_from_numpy = ms.Tensor.from_numpy
_WEAK = frozenset(name for name, rule in promotion.RULES.items() if rule.weak)
_SHARING = frozenset({"astype", "cast", "copy"})  # may give a tensor over the operand's memory, as views do
_BOTH_BRANCHES = {"where": 1}  # op -> first operand that takes part in promotion


class Adapter:
    """The `TensorAdapter` of MindSpore tensors and Parameters."""

    def classify(self, value: Any) -> OperandClass:
        """Element type and layout; raises Decline for types that BCVM does not know."""
        name = memory.NAMES.get(value.dtype)
        if name is None:
            raise Decline(f"MindSpore tensors of type {value.dtype} are left to MindSpore")
        return base.operand_class(name, "contiguous" if value.is_contiguous() else "strided")

    def array(self, value: Any) -> memory.Array:
        """The tensor's memory; as `memory.view`."""
        return memory.view(value)

    def fused(self, kernel: Callable[..., Any], rows: bool = False) -> Callable[..., Any]:
        """A fused kernel over tensors; it sees arrays of one float type, for which MindSpore's promotion is NumPy's."""
        return _fused(kernel, rows)

    def direct(self, *site: Any) -> base.Direct:
        """As `DirectSite`."""
        return DirectSite(*site)

    def call(self, op: OpInfo, kernel_call: Callable[..., Any], operands: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
        """Run one op with at least one MindSpore tensor among its operands; new tensors come out.

        Raises Decline when MindSpore must do it. A kernel's own error passes: Python then repeats the call and MindSpore raises its own.
        """
        if is_recorded():
            raise Decline("MindSpore records this call")
        return self._held(op, kernel_call, operands, attrs) if memory.within.program else self._call(op, kernel_call, operands, attrs)

    def _held(self, op: OpInfo, kernel_call: Callable[..., Any], operands: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
        """The same within a flat program, where results of convolutions keep their channels innermost as long as ops don't mind."""
        if op.name == "conv2d":
            if not is_own(op):
                pending.answered()
        elif op.name not in ASKING and not (op.name in pending.CLAIMING and is_own(op) and _all_float32((*operands, *attrs.values()))):
            pending.settle()
        if shares(op):
            memory.lay_out(operands)
            result = self._call(op, kernel_call, operands, attrs)
            memory.note_views(operands, result)
            return result
        if op.name in order.KEEPING:
            try:
                with order.kept():
                    return self._call(op, kernel_call, operands, attrs)
            finally:
                pending.answered()
        if op.fuse != "elementwise" and op.name not in order.FOLLOWING:
            memory.make_plain((*operands, *attrs.values()))
        return self._call(op, kernel_call, operands, attrs)

    def _call(self, op: OpInfo, kernel_call: Callable[..., Any], operands: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
        if not attrs:
            fast = _plan_for(op, operands)
            if fast is not None:
                return fast.run(kernel_call, operands)
        given = dict(attrs)
        dialect = given.pop("dialect", "tensor")
        for name, value in given.pop("only", ()):
            if not _same(given.pop(name), value):
                raise Decline(f"{name} with another value than {value!r} is left to MindSpore")
        with fpstatus.recording():  # MindSpore reports no floating-point events
            if dialect == "inplace":
                return _write_back(operands[0], _run(op, kernel_call, operands, given, "tensor"))
            return _run(op, kernel_call, operands, given, dialect)


def _fused(kernel: Callable[..., Any], rows: bool) -> Callable[..., Any]:
    """As `TensorAdapter.fused` says."""

    def call(*values: Any) -> Any:
        if is_recorded() or not all(isinstance(v, memory.TENSORS) for v in values):
            return None
        try:
            pending.settle()
            arrays = list(map(memory.view, values))
            last = (
                not rows and memory.within.program and all(map(order.channels_innermost, arrays))
            )  # dense, so the kernel sees them as that
            result = kernel(*([x.transpose(order.LAST) for x in arrays] if last else arrays))
        except Decline:
            return None
        if result is None:
            return None
        made = _held_last if last else memory.Held if memory.within.program else _from_numpy
        return tuple(map(made, result)) if type(result) is tuple else made(result)

    return call


def shares(op: OpInfo) -> bool:
    """Whether the result may show the memory of the first operand."""
    return op.shape_rule == "view" or op.name in _SHARING


def is_own(op: OpInfo) -> bool:
    """Whether nothing but the op's definition runs it: others may look at what has no elements yet."""
    kernels = pool.kernels(op.name)
    return len(kernels) == 1 and not pool.is_swapped(kernels[0].name)


def _all_float32(values: Sequence[Any]) -> bool:
    """Whether no tensor among the values will be converted."""
    return all(memory.view(v).dtype == conversion.FLOAT32 for v in values if isinstance(v, memory.TENSORS))


def _held_last(array: Any) -> memory.Held:
    """A result computed with the channels on the last axis."""
    return memory.Held(array.transpose(order.FIRST))


def _same(given: Any, value: Any) -> bool:
    """Whether an argument has the value that its parameter must have."""
    return given is value or (type(given) is type(value) and type(value) in (bool, int, float, str, tuple) and bool(given == value))


class FastPlan:
    """An op without attributes over known element types: what the rule came to, worked out once."""

    __slots__ = ("compute", "result")

    def __init__(self, compute: DType | None, result: DType | None) -> None:
        self.compute = compute  # type of the operands, None: each keeps its own
        self.result = result

    def run(self, kernel_call: Callable[..., Any], operands: Sequence[Any]) -> Any:
        """Run the kernel; as `Adapter.call` says."""
        compute = self.compute
        arrays: list[Any] = []
        with fpstatus.recording():  # MindSpore reports no floating-point events
            for value in operands:
                if isinstance(value, memory.TENSORS):
                    array = memory.view(value)
                    arrays.append(array if compute is None or array.dtype is compute else array.astype(compute))
                else:
                    arrays.append(conversion.scalar(value, compute))  # type: ignore[arg-type]  # numbers only meet with a type
            result = kernel_call(*arrays)
        if type(result) is np.ndarray and result.dtype is self.result and result.base is None:
            return memory.Held(result) if memory.within.program else _from_numpy(result)
        return conversion.wrap(result, self.result)


def _write_back(target: Any, value: Any) -> Any:
    """What `x.add_(y)` and its like do: the value goes into x's memory, x is the result."""
    if value.dtype != target.dtype or value.shape != target.shape:
        raise Decline("a result that does not fit its target is left to MindSpore")
    memory.view(target)[...] = memory.view(value)
    return target


_plans: dict[tuple[Any, ...], FastPlan | None] = {}


def _plan_for(op: OpInfo, operands: Sequence[Any]) -> FastPlan | None:
    """The plan for operands of these types; None: the longer way, which also knows why it refuses."""
    key: list[Any] = [op.name]
    weak = op.name in _WEAK
    for value in operands:
        if isinstance(value, memory.TENSORS):
            key.append(value.dtype)
            if weak:
                key.append(not value.shape)
        elif type(value) in (bool, int, float):
            key.append(type(value))
        else:
            return None
    known = tuple(key)
    try:
        return _plans[known]
    except KeyError:
        plan = _plans[known] = _make_plan(op, operands)
        return plan


def _make_plan(op: OpInfo, operands: Sequence[Any]) -> FastPlan | None:
    rule = promotion.rule_of(op)
    if rule is None or op.result == "python" or op.name in handlers.HANDLERS or op.name in _BOTH_BRANCHES:
        return None
    try:
        target = Operands(op, operands, {}).meet(rule, 0)
    except Decline:
        return None
    if target == "bfloat16" and rule.operands != "any":
        return None
    compute = None if rule.operands == "any" or target is None else dtypes.BY_NAME[target].numpy
    return FastPlan(compute, _result_type(rule, target))


def _run(op: OpInfo, kernel_call: Callable[..., Any], operands: Sequence[Any], attrs: dict[str, Any], dialect: str) -> Any:
    handler = handlers.HANDLERS.get(f"{op.name}:{dialect}") or handlers.HANDLERS.get(op.name)
    if handler is not None:
        return handler(kernel_call, operands, attrs, dialect)
    return _by_rule(op, kernel_call, operands, attrs)


def _by_rule(op: OpInfo, kernel_call: Callable[..., Any], operands: Sequence[Any], attrs: dict[str, Any]) -> Any:
    rule = promotion.rule_of(op)
    if rule is None or op.result == "python":
        raise Decline(f"MindSpore's rules for {op.name} are not known")
    if attrs.get("dtype") is not None:
        raise Decline("a dtype of one's own choice is left to MindSpore")
    attrs.pop("dtype", None)
    if op.shape_rule == "reduce" and attrs.get("axis") == ():
        attrs["axis"] = None  # MindSpore's way to say all axes
    for name in ("dims", "shape"):
        value = attrs.get(name)
        if type(value) is tuple and len(value) == 1 and type(value[0]) in (list, tuple):
            attrs[name] = value[0]  # x.permute((1, 0)) is x.permute(1, 0)
    call = Operands(op, operands, attrs)
    if op.name == "where" and call.names[0] != "bool":
        raise Decline("a condition that is no bool tensor is left to MindSpore")
    target = call.meet(rule, _BOTH_BRANCHES.get(op.name, 0))
    result = kernel_call(*call.operands(), **call.attrs)
    return conversion.wrap(result, _result_type(rule, target))


def _result_type(rule: Rule, target: str | None) -> DType | None:
    name = {"operands": target, "keep": None}.get(rule.result, rule.result)
    return None if name is None else dtypes.BY_NAME[name].numpy


class Operands:
    """The operands of one call as arrays, in the order of the op, sequences flattened for the while."""

    def __init__(self, op: OpInfo, operands: Sequence[Any], attrs: dict[str, Any]) -> None:
        """Raises Decline when something other than tensors and Python numbers is among them."""
        self.values: list[Any] = []
        self.names: list[str | None] = []  # element type of a tensor, None for a scalar
        self.attrs = attrs
        self._sizes: list[tuple[type, int] | None] = []
        self._optional: list[str] = []
        for value in operands:
            if type(value) in (list, tuple):
                self._sizes.append((type(value), len(value)))
                for item in value:
                    self._add(item, first=False)
            else:
                self._sizes.append(None)
                self._add(value, first=not self.values)
        roles = {p.name: p.role for p in op.params}
        for name, value in list(attrs.items()):
            if value is not None and roles.get(name, "attr") != "attr":
                self._optional.append(name)
                self._add(value, first=False)
            elif isinstance(value, (*memory.TENSORS, np.ndarray)):
                raise Decline("a tensor where the op takes a value")

    def _add(self, value: Any, first: bool) -> None:
        if isinstance(value, memory.TENSORS):
            array = memory.view(value)
            self.values.append(array)
            self.names.append(memory.NAMES[value.dtype])
            return
        if isinstance(value, np.generic) and not first:
            value = value.item()
        if type(value) not in (bool, int, float):
            raise Decline(f"a {type(value).__name__} beside a MindSpore tensor is left to MindSpore")
        self.values.append(value)
        self.names.append(None)

    def meet(self, rule: Rule, first: int) -> str | None:
        """Convert the operands from number `first` on as the rule says; the type they meet in. Raises Decline where MindSpore refuses."""
        names = self.names[first:]
        kinds = {promotion.is_complex(n) for n in self.names if n is not None}
        if True in kinds and (not rule.complex or (rule.apart and len(kinds) > 1)):
            raise Decline("complex numbers are left to MindSpore")
        if rule.operands == "any":
            if None in self.names:
                raise Decline("a Python number in place of a tensor is left to MindSpore")
            return names[0]
        target = _common(names) if rule.operands.startswith("equal") else _meet(names, self.values[first:])
        if rule.weak and target is not None:
            target = self._give_way(rule.weak, target)
        if target is None or (rule.operands == "equal_float" and not promotion.is_float(target)):
            raise Decline("MindSpore does not combine these element types")
        if rule.operands == "float":
            target = promotion.as_float(target)
        self._convert(dtypes.BY_NAME[target].numpy, first)
        return target

    def _give_way(self, which: str, target: str) -> str:
        """The type of a product in which one tensor is 0-d and the other is not."""
        if len(self.values) != 2 or None in self.names:
            return target
        for weak, other in ((1, 0), (0, 1)) if which == "both" else ((1, 0),):
            name, kept = self.names[weak], self.names[other]
            if name and kept and self.values[weak].ndim == 0 < self.values[other].ndim and promotion.gives_way(name, kept):
                return kept
        return target

    def _convert(self, target: DType, first: int) -> None:
        compute = conversion.FLOAT32 if target == conversion.BFLOAT16 else target  # wider and rounded once per op
        for i in range(first, len(self.values)):
            value = self.values[i]
            if isinstance(value, np.ndarray):
                if value.dtype != target:
                    value = value.astype(target)
                self.values[i] = value if value.dtype == compute else value.astype(compute)
            else:
                self.values[i] = conversion.scalar(value, compute)

    def operands(self) -> list[Any]:
        """The operands in the op's own form; optional tensors are put back into `attrs`."""
        values = iter(self.values)
        out: list[Any] = []
        for size in self._sizes:
            out.append(next(values) if size is None else size[0]([next(values) for _ in range(size[1])]))
        for name in self._optional:
            self.attrs[name] = next(values)
        return out


def _common(names: Sequence[str | None]) -> str | None:
    return names[0] if names and all(n == names[0] for n in names) else None


def _meet(names: Sequence[str | None], values: Sequence[Any]) -> str | None:
    """The type in which tensors and Python numbers meet."""
    target: str | None = None
    for name in names:
        if name is not None:
            target = name if target is None else promotion.promote(target, name)
            if target is None:
                return None
    for name, value in zip(names, values, strict=True):
        if name is None and target is not None:
            target = promotion.with_scalar(target, type(value))
    return target


ADAPTER = Adapter()


def register() -> None:
    """Let BCVM take MindSpore's tensors."""
    base.adapters[ms.Tensor] = ADAPTER
    base.adapters[ms.Parameter] = ADAPTER
    base.adapters[memory.Held] = ADAPTER
    registry.claim(memory.Held, "mindspore")
    handlers.HANDLERS.update(handlers_forms.HANDLERS | handlers_primitives.HANDLERS)
    registry.maker_dialects.update(handlers_more.MAKERS)
    base.makers.update(dict.fromkeys(handlers_more.MAKERS, ADAPTER))
