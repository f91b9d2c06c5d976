"""Tier 1 at the call: `CallSite` finds the kernel for the operands at hand and runs it.

A site remembers, per combination of operand types, element types and layouts, what the pool
chose; a warm call makes that key, looks it up and calls the kernel. Shapes are not in the key:
a new size is no miss. A change of the pool is seen by the next call through `pool.version`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from .. import config
from ..devices import base
from ..errors import Decline, PoolError, SignatureError
from ..events import Selected, bus
from ..isa import signature as signatures
from ..isa.signature import Signature
from ..ops import registry
from ..ops.registry import OpInfo
from . import keys, log, selection
from .beside import beside
from .clock import clock
from .pool import Counter, Slot, pool

_log = log.logger
Place = tuple[str, str, int]  # (function or cell, file, line) that a call site belongs to
_ndarray = np.ndarray


class _Plan:
    """What a key leads to: the function to call, where to count it, the signature, and who writes `out`."""

    __slots__ = ("counter", "direct", "fn", "signature", "takes_out")

    def __init__(self, fn: Callable[..., Any], counter: Counter, signature: int, takes_out: bool = False) -> None:
        self.fn = fn
        self.counter = counter
        self.signature = signature
        self.takes_out = takes_out
        self.direct: Any = getattr(fn, "direct", None)  # of kernels over rows: the short way (`codegen/rows/direct.py`)


class CallSite:
    """One CALL_OP. Call it as the op: operands by position, attributes by name; `out=` runs in place.

    `syntax=False` says that the user wrote a function (`np.add(1, 2)`), whose result on Python
    values is NumPy's, not the operator's. `shape_hint` is what log lines show.
    Raises Decline when this call is Python's; other exceptions are the op's own.
    """

    __slots__ = ("__weakref__", "_direct", "_key", "_pair", "_special", "_state", "op", "shape_hint", "signature", "syntax", "where")

    def __init__(self, op: str | OpInfo, *, syntax: bool | None = None, shape_hint: object = None) -> None:
        self.op = registry.row(op) if isinstance(op, str) else op
        self.signature = 0
        self.syntax = syntax
        self.shape_hint = shape_hint
        self.where: Place | None = None
        self._key = keys.maker(self.op)
        self._pair = keys.pair_maker(self.op)
        self._special = keys.special_attrs(self.op)
        self._state: tuple[int, dict[Any, _Plan]] = (-1, {})
        self._direct: tuple[int, Callable[..., Any], _Plan] | None = None  # the pool's version, and who does what was called last

    def __call__(self, *operands: Any, **attrs: Any) -> Any:
        direct = self._direct
        if direct is not None and direct[0] == pool.version:
            result = direct[1](*operands, **attrs)
            if result is not None:
                direct[2].counter.calls += 1
                self.signature = direct[2].signature
                return result
        if attrs and not self._special.isdisjoint(attrs):
            if "out" in attrs:
                return self._call_special(operands, attrs)
            longer = self._plan_for(operands, attrs)
            longer.counter.calls += 1
            self.signature = longer.signature
            result = longer.fn(*operands, **attrs)
            if longer.direct is not None:
                self._learn(longer, operands, attrs)
            return result
        state = self._state
        if state[0] != pool.version:
            state = self._state = (pool.version, {})
        key = self._key(operands, attrs)
        plan = state[1].get(key)
        if plan is None:
            plan = self._select(state[1], key, operands, attrs)
        plan.counter.calls += 1
        self.signature = plan.signature
        if plan.direct is None:
            return plan.fn(*operands, **attrs)
        result = plan.fn(*operands, **attrs)
        self._learn(plan, operands, attrs)
        return result

    def two(self, a: Any, b: Any) -> Any:
        """As a call with two operands and no attributes; for arrays it is a shorter way."""
        state = self._state
        if self._pair is not None and type(a) is _ndarray and type(b) is _ndarray and state[0] == pool.version:
            plan = state[1].get(self._pair(a, b))
            if plan is not None and plan.direct is None:
                plan.counter.calls += 1
                self.signature = plan.signature
                return plan.fn(a, b)
        return self(a, b)

    def _learn(self, plan: _Plan, operands: tuple[Any, ...], attrs: dict[str, Any]) -> None:
        """Let calls like this one take the short way from now on."""
        if plan.direct.learn(operands, attrs):
            short = plan.direct.function
            self._direct = (pool.version, clock.timed(self, short, may_decline=True) if clock.on else short, plan)

    def known(self, operands: tuple[Any, ...], attrs: dict[str, Any]) -> tuple[Counter, Callable[..., Any]] | None:
        """(where it is counted, its function) of a call like one that was made; None where its operands are more than arrays.

        Both hold for other calls with these element types where nothing but the op's definition runs it, as long as `pool.version` does.
        """
        plan = self._state[1].get(self._key(operands, attrs))
        return (plan.counter, plan.fn) if plan is not None and plan.signature else None

    # --- in place --------------------------------------------------------------------------

    def compute_for(self, out: np.ndarray[Any, Any], /, *operands: Any, **attrs: Any) -> Any:
        """The value an in-place call will put into `out`, computed and checked but not written.

        Raises Decline when NumPy would refuse to write it; then nothing has changed and Python
        can replay the statement. Write it with `commit`.
        """
        if type(out) is not _ndarray or not out.flags.writeable:
            raise Decline("the target is no writable array")
        return _checked(out, self(*operands, **attrs))

    def _call_special(self, operands: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        """A call with `out=` or optional tensors; `attrs` is this call's own dict."""
        out = attrs.pop("out", None)
        if type(out) is tuple and len(out) == 1:
            out = out[0]
        plan = self._plan_for(operands, attrs)
        plan.counter.calls += 1
        self.signature = plan.signature
        if type(out) is _ndarray:
            if plan.takes_out:
                return plan.fn(*operands, out=out, **attrs)
            if not out.flags.writeable:
                raise Decline("the target is no writable array")
            return commit(out, _checked(out, plan.fn(*operands, **attrs)))
        if out is not None and not keys.rebinds(type(out)) and base.adapter_for(type(out)) is None:
            raise Decline("the target is no array")
        return plan.fn(*operands, **attrs)  # `x += y` makes a new value and the name is bound to it

    def _plan_for(self, operands: tuple[Any, ...], attrs: dict[str, Any]) -> _Plan:
        """The plan of a call; optional tensors in `attrs` count as operands."""
        state = self._state
        if state[0] != pool.version:
            state = self._state = (pool.version, {})
        if not attrs or self._special.isdisjoint(attrs):
            key = self._key(operands, attrs)
            return state[1].get(key) or self._select(state[1], key, operands, attrs)
        names: list[str] = []
        tensors = list(operands)
        for name, value in attrs.items():
            if value is not None and name in self._special and name != "dialect":
                names.append(name)
                tensors.append(value)
        every = tuple(tensors)
        key = (*names, attrs.get("dialect"), self._key(every, attrs))
        return state[1].get(key) or self._select(state[1], key, every, attrs)

    # --- selection -------------------------------------------------------------------------

    def _select(self, cache: dict[Any, _Plan], key: Any, operands: tuple[Any, ...], attrs: Mapping[str, Any]) -> _Plan:
        """Choose a plan for operands seen for the first time and remember it."""
        started = time.perf_counter_ns()
        try:
            plan = self._make_plan(operands, attrs, started)
            if clock.on:
                by_name = not self._special.isdisjoint(attrs)  # tensors among the attributes count as operands here
                plan.fn = clock.timed(self, plan.fn, operands=None if by_name else len(operands))
        except (Decline, SignatureError) as reason:  # a full signature table is no reason to fail
            plan = _Plan(_refusal(str(reason)), Counter(), 0)
        if len(cache) >= config.current.site_cache:
            cache.clear()
        cache[key] = plan
        return plan

    def _make_plan(self, operands: tuple[Any, ...], attrs: Mapping[str, Any], started: int) -> _Plan:
        flat = keys.flatten(self.op, operands)
        foreign = next((a for a in (_foreign(value) for value in flat) if a is not None), None)
        if foreign is None and "dialect" in attrs:
            foreign = base.makers.get(attrs["dialect"])
        if foreign is not None:
            return self._foreign_plan(foreign, flat, attrs)
        if self._is_python(flat):
            return self._scalar_plan(flat, started)
        if self.syntax is not False:
            keys.refuse_sequences(self.op, flat)
        signature = _intern(self.op, flat, attrs)
        slot = pool.slot(signature)
        self._announce(signature, slot, flat, started)
        plan = _plan_of_slot(self.op, slot)
        if beside.on:
            plan.fn, plan.direct = beside.guarded(self.op, plan.fn, tuple(operands)), None
        return plan

    def _is_python(self, flat: Sequence[Any]) -> bool:
        """Whether Python's operator runs the call: no tensor among the operands (where the user wrote the operator: no array)."""
        if self.op.scalar is None or self.syntax is False:
            return False
        if self.syntax:
            return not any(type(value) is _ndarray for value in flat)
        keys.refuse_sequences(self.op, flat)  # `np.add([1], [2])` and `[1] + [2]` differ
        return not any(base.is_tensor(value) for value in flat)

    def _scalar_plan(self, flat: Sequence[Any], started: int) -> _Plan:
        stranger = next((type(value) for value in flat if not keys.runs_no_user_code(type(value))), None)
        if stranger is not None:
            raise Decline(f"operators of {stranger.__module__}.{stranger.__qualname__} are left to Python")
        entry = pool.entry(f"{self.op.name}.scalar")
        fn = _drop_attrs(entry.fn)
        try:
            signature = _intern(self.op, flat, {})
        except Decline:  # values of types that no signature names
            return _Plan(fn, Counter(), 0)
        why = selection.Explanation(0, entry.name, 0, "no operand is a tensor: Python's operator")
        self._announce(signature, why, flat, started)
        return _Plan(fn, pool.counter(signature, entry.name), signature)

    def _foreign_plan(self, adapter: base.TensorAdapter, flat: Sequence[Any], attrs: Mapping[str, Any]) -> _Plan:
        inner = CallSite(self.op, syntax=self.syntax, shape_hint=self.shape_hint)
        signature = _intern(self.op, flat, attrs)

        def call(*operands: Any, **given: Any) -> Any:
            result = adapter.call(self.op, inner, operands, given)
            self.signature = inner.signature or signature
            return result

        return _Plan(call, Counter(), signature)

    def _announce(self, signature: int, why: selection.Explanation | Slot, flat: Sequence[Any], started: int) -> None:
        if not (bus.active or _log.isEnabledFor(logging.DEBUG)):
            return
        elapsed_us = (time.perf_counter_ns() - started) / 1000
        if isinstance(why, Slot):
            why = selection.explain(why.program, selection.fact_reader(flat))
        if bus.active:
            again, shapes = signature == self.signature, keys.shapes_text(flat)
            bus.emit(Selected(self.op.name, signature, why.kernel, why.text, elapsed_us, again, shapes))
        _log.debug("[BCVM] Compile for sig=0x%04X, shape_hint=%s", signature, keys.hint_text(self.shape_hint, flat))


def _checked(out: np.ndarray[Any, Any], value: Any) -> Any:
    """`value` if NumPy would write it into `out` under its rules for in-place operators; else Decline."""
    dtype = getattr(value, "dtype", None)
    if dtype is None or getattr(value, "shape", None) != out.shape:
        raise Decline("the result has another shape than the target")
    if dtype != out.dtype and not np.can_cast(dtype, out.dtype, "same_kind"):
        raise Decline(f"{dtype} does not cast to {out.dtype} under the rule same_kind")
    return value


def commit(out: np.ndarray[Any, Any], value: Any) -> np.ndarray[Any, Any]:
    """Write a value from `CallSite.compute_for` into its target."""
    np.copyto(out, value, casting="same_kind")
    return out


def signature_of(op: str | OpInfo, operands: Sequence[Any], attrs: Mapping[str, Any] | None = None) -> int:
    """The signature id of a call, without running it; operands may be `devices.null.TensorSpec`. Raises Decline."""
    info = registry.row(op) if isinstance(op, str) else op
    return _intern(info, keys.flatten(info, tuple(operands)), attrs or {})


def explain(op: str | OpInfo, operands: Sequence[Any], attrs: Mapping[str, Any] | None = None) -> selection.Explanation:
    """Which kernel would run a call and why. Raises Decline."""
    info = registry.row(op) if isinstance(op, str) else op
    flat = keys.flatten(info, tuple(operands))
    slot = pool.slot(_intern(info, flat, attrs or {}))
    return selection.explain(slot.program, selection.fact_reader(flat))


def _intern(op: OpInfo, flat: Sequence[Any], attrs: Mapping[str, Any]) -> int:
    classes = keys.shorten(base.classify_all(op, flat, attrs))
    return signatures.table.intern(Signature(op.name, classes))


def _foreign(value: Any) -> base.TensorAdapter | None:
    return None if keys.is_native(type(value)) else base.adapter_for(type(value))


def _refusal(reason: str) -> Callable[..., NoReturn]:
    def refuse(*_operands: Any, **_attrs: Any) -> NoReturn:
        raise Decline(reason)

    return refuse


def _drop_attrs(fn: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *operands, **_attrs: fn(*operands)


def _plan_of_slot(op: OpInfo, slot: Slot) -> _Plan:
    index = slot.constant
    if index is not None:
        fn = slot.kernels[index].fn
        return _Plan(fn, slot.counters[index], slot.signature, keys.writes_out(fn, op))
    if not slot.kernels:
        raise PoolError(f"no kernel of {op.name} takes signature 0x{slot.signature:04X}", fix="add one to the pool")
    select = slot.select
    functions = tuple(e.fn for e in slot.kernels)
    counters = slot.counters
    flatten = keys.flattener(op)

    def dispatch(*operands: Any, **attrs: Any) -> Any:
        chosen = select(operands if flatten is None else flatten(operands))
        counters[chosen].calls += 1
        return functions[chosen](*operands, **attrs)

    return _Plan(dispatch, Counter(), slot.signature)


# --- eager calls -------------------------------------------------------------------------------

_eager: dict[str, CallSite] = {}


def execute(op: OpInfo, operands: Iterable[Any], attrs: Mapping[str, Any]) -> Any:
    """Run an op called outside a program, through the pool. Raises Decline for what the pool leaves to Python."""
    site = _eager.get(op.name)
    if site is None or site.op is not op:
        site = _eager[op.name] = CallSite(op, syntax=False)
    direct = site._direct
    if direct is not None and direct[0] == pool.version:  # as in a call of the site, which takes longer to enter
        result = direct[1](*operands, **attrs)
        if result is not None:
            direct[2].counter.calls += 1
            site.signature = direct[2].signature
            return result
    return site(*operands, **attrs)


registry.executor = execute
