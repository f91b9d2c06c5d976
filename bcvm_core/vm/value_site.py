"""Value sites: one op whose operands the host has evaluated. `V(a, b)()` gives its result.

On success the outer call pops the result from a list; on a miss it is a `functools.partial` of the
very C function Python would have called, so that errors rise in the user's own frame and no operand
is evaluated twice.
"""

from __future__ import annotations

import operator
import types
from collections.abc import Callable, Collection
from functools import partial
from typing import Any

import numpy as np

from .. import config, fpstatus
from ..errors import Decline, StrictError, Where
from ..ops import registry
from ..tiers.select import CallSite, commit
from .plan import inplace_value
from .site import EventError, SiteOwner, event_texts, hold_store, idle, may_raise, warn_events
from .trust import check

_OPERATORS: dict[str, Callable[..., Any]] = {
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "divide": operator.truediv,
    "floor_divide": operator.floordiv, "remainder": operator.mod, "pow": operator.pow, "matmul": operator.matmul,
    "left_shift": operator.lshift, "right_shift": operator.rshift, "bitwise_or": operator.or_, "bitwise_xor": operator.xor,
    "bitwise_and": operator.and_, "negative": operator.neg, "positive": operator.pos, "invert": operator.invert,
    "equal": operator.eq, "not_equal": operator.ne, "less": operator.lt, "less_equal": operator.le,
    "greater": operator.gt, "greater_equal": operator.ge, "getitem": operator.getitem,
}  # fmt: skip
_INPLACE: dict[str, Callable[..., Any]] = {
    "add": operator.iadd, "subtract": operator.isub, "multiply": operator.imul, "divide": operator.itruediv,
    "floor_divide": operator.ifloordiv, "remainder": operator.imod, "pow": operator.ipow, "matmul": operator.imatmul,
    "left_shift": operator.ilshift, "right_shift": operator.irshift, "bitwise_or": operator.ior, "bitwise_xor": operator.ixor,
    "bitwise_and": operator.iand,
}  # fmt: skip


_METHODS = frozenset({types.BuiltinMethodType, types.MethodType, types.MethodWrapperType})


def _is_tensor(value: Any) -> bool:
    return registry.personality_of(type(value)) is not None


def _plain(kind: str, op: str | None) -> Callable[..., Any] | None:
    """The C function by which Python does an op; None for calls, which bring theirs."""
    if kind in ("call", "star"):
        return None
    assert op is not None
    return operator.setitem if kind == "store" else _OPERATORS[op] if kind == "operator" else _INPLACE[op]


def _fallback(plain: Callable[..., Any] | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[[], Any]:
    if plain is not None:
        return partial(plain, *args)
    return partial(args[0], *args[1:], **kwargs) if callable(args[0]) else partial(operator.call, *args, **kwargs)


class PlainSite:
    """What is left of a value site whose code was pickled."""

    def __init__(self, kind: str, op: str | None) -> None:
        self.kind = kind
        self.op = op

    def __reduce__(self) -> Any:
        return PlainSite, (self.kind, self.op)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if self.kind == "store":
            args = (*args[1:], args[0])
        elif self.kind == "star":
            return partial(partial, args[0])
        return _fallback(_plain(self.kind, self.op), args, kwargs)


class _Unpacking:
    """A callee on its way to a call that unpacks its arguments: Python names it where they cannot be unpacked."""

    __slots__ = ("site", "callee")

    def __init__(self, site: ValueSite, callee: Any) -> None:
        self.site = site
        self.callee = callee

    def __getattr__(self, name: str) -> Any:
        return getattr(self.callee, name)

    def __str__(self) -> str:
        return str(self.callee)

    @property
    def __module__(self) -> Any:  # type: ignore[override]
        return self.callee.__module__

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return self.site(self, *args, **kwargs)


class ValueSite:
    """`kind`: "operator", "inplace", "store", "call", or "star": a call that unpacks arguments, `V(f)(*args)()`.

    `op` is the row's name, or None for a callee not known yet.
    """

    __slots__ = ("key", "kind", "op", "owner", "sites", "hits", "misses", "dead", "last_reason", "plain", "__weakref__")

    def __init__(self, key: Any, kind: str, op: str | None, owner: SiteOwner) -> None:
        self.key = key
        self.kind = kind
        self.op = op
        self.owner = owner
        self.sites: dict[str, CallSite] = {}
        self.hits = 0
        self.misses = 0
        self.dead = False
        self.last_reason = ""
        self.plain = _plain(kind, op)

    def __reduce__(self) -> Any:
        return PlainSite, (self.kind, self.op)  # code pickled by value runs as plain Python elsewhere

    def __repr__(self) -> str:
        return f"<bcvm op {self.owner.name}:{self.key[1]}>"

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if self.kind == "store":
            args = (*args[1:], args[0])  # Python evaluates the value first
        elif self.kind == "star":
            if type(args[0]) is not _Unpacking:
                return _Unpacking(self, args[0])
            args = (args[0].callee, *args[1:])
        fallback = _fallback(self.plain, args, kwargs)
        try:
            bound = None if self.dead or idle() else self._bind(args, kwargs)
        except RecursionError:  # Python's own attempt needs fewer frames, and shows none of ours
            return fallback
        if bound is None:
            return fallback
        try:
            for value in (*bound.operands, *bound.attrs.values()):
                check(value)
            result = self._run(bound)
        except Decline as error:
            self._hand_back(str(error), bound.op.name)
            return fallback
        except (StrictError, RecursionError) as error:
            if isinstance(error, StrictError):
                raise
            return fallback
        except Exception as error:  # the op's own error: raised again in the user's frame
            self.last_reason = f"{type(error).__name__}: {error}"
            self.owner.stats.count_replay((bound.op.name,), type(error).__name__)
            return fallback
        self.hits += 1
        self.owner.stats.count_op((bound.op.name,))
        return [result].pop

    # -- binding ----------------------------------------------------------------------------------

    def _bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> registry.BoundCall | None:
        if self.plain is None:
            return self._bind_call(args, kwargs)
        if not any(_is_tensor(a) for a in (args[:1] if self.kind == "store" else args)):
            self._miss()
            return None
        assert self.op is not None
        return registry.BoundCall(registry.row(self.op), args, {})

    def _bind_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> registry.BoundCall | None:
        callee, rest = args[0], args[1:]
        found = registry.by_callable(callee)
        receiver: Any = registry.REQUIRED
        if found is not None and not all(registry.takes(found[1], registry.personality_of(type(a))) for a in rest):
            self._hand_back("a NumPy function of a foreign tensor", found[0].name)
            return None
        if found is None:
            receiver = callee.__self__ if type(callee) in _METHODS else registry.REQUIRED  # asking others might run user code
            if receiver is not registry.REQUIRED and _is_tensor(receiver):
                found = registry.method_spelling_for(type(receiver), getattr(callee, "__name__", ""))
        if found is None:
            self._miss()
            return None
        op, spelling = found
        bound = registry.bind(op, spelling, rest, kwargs, receiver)
        if bound is None:
            self._hand_back("called with arguments that the op table does not cover", op.name)
            return None
        if not registry.has_needed(spelling, (*bound.operands, *bound.attrs.values())):
            self._hand_back("no tensor of the function's library", op.name)
            return None
        return bound

    def _miss(self) -> None:
        self.misses += 1
        if not self.hits and self.misses >= config.current.prune_after:
            self.dead = True
            self.owner.site_is_dead(self)

    def _hand_back(self, reason: str, op: str) -> None:
        self.last_reason = reason
        self.owner.stats.count_host((op,), reason)
        if self.owner.strict:
            where = Where(filename=self.owner.filename, line=self.key[1], column=self.key[2])
            raise StrictError(f"{op} would run on the host: {reason}", where=where, fix="drop strict=True, or see `bcvm pool`")

    # -- running ----------------------------------------------------------------------------------

    def _site(self, op: registry.OpInfo) -> CallSite:
        site = self.sites.get(op.name)
        if site is None:
            site = self.sites[op.name] = CallSite(op, syntax=self.plain is not None)
            site.where = self.owner.name, self.owner.filename, self.key[1]
        return site

    def _run(self, bound: registry.BoundCall) -> Any:
        site = self._site(bound.op)
        if self.kind == "store":
            return self._store(site, *bound.operands)
        with fpstatus.recording() as record:
            if self.kind == "inplace":
                value = inplace_value(site, bound.operands[0], *bound.operands)
            else:
                value = site(*bound.operands, **bound.attrs)
        in_place = self.kind == "inplace" and type(bound.operands[0]) is np.ndarray
        if in_place:
            hold_store(bound.operands[0], value)
        if record.kinds:
            self._report(record, site, bound.op, bound.operands)
        return self._commit(bound, value, record.kinds) if in_place else value

    def _commit(self, bound: registry.BoundCall, value: Any, told: Collection[str]) -> Any:
        """Write to the target. NumPy casts within the operator, and speaks of each kind of event in both once."""
        with fpstatus.recording() as record:
            result = commit(bound.operands[0], value)
        kinds = [kind for kind in record.kinds if kind not in told]
        warn_events(self.owner, [(record.text(kind, bound.op.fp_name or bound.op.name), self.key[1]) for kind in kinds])
        return result

    def _store(self, site: CallSite, target: Any, index: Any, value: Any) -> None:
        hold_store(target, value)
        with fpstatus.recording() as record:
            site(target, index, value)
        if record.kinds:
            warn_events(self.owner, [(record.text(kind, "cast"), self.key[1]) for kind in record.kinds])

    def _report(self, record: fpstatus.Recording, site: CallSite, op: registry.OpInfo, operands: tuple[Any, ...]) -> None:
        """Warn as NumPy would; raises EventError where Python must."""
        texts = event_texts(record, site, op, operands)
        if texts is None or may_raise():
            raise EventError
        warn_events(self.owner, [(text, self.key[1]) for text in texts])
