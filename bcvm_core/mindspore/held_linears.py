"""Products by weights of flat programs with their bias and activation, in one call, those of the same rows together (`fusion.linears`).

As with convolutions (`held_groups`) the ops' own sites go first, and what they come to is what a linear relies on from then on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from .. import config, grouping
from ..codegen import templates
from ..codegen.loops import address
from ..codegen.products import jobs, matrices
from ..fusion.linears import Linear
from ..ops import products
from ..tiers import effort
from ..tiers.beside import beside
from ..tiers.clock import Timing, clock
from ..tiers.pool import Counter, pool
from .held_sites import HeldSite
from .memory import Held

_Array = np.ndarray[Any, Any]
_F32: Final = np.dtype(np.float32)
_MATRIX, _VECTOR = _F32.num << 8 | 2, _F32.num << 8 | 1
_EXACT: Final = {"approximate": "none"}
_TANH: Final = {"approximate": "tanh"}


@dataclass(frozen=True, slots=True)
class _Ready:
    """What a linear needs beside its rows. `columns`: the weight's transpose."""

    linear: HeldLinear
    weight: _Array
    columns: _Array
    more: matrices.More


@dataclass(frozen=True, slots=True)
class _Ahead:
    """Products that were computed before their turn, and the rows that they are of."""

    rows: _Array
    results: Sequence[_Array]


class HeldLinear:
    """Called with what `prepare` gave and the rows; None: its ops must run one by one."""

    __slots__ = ("linear", "sites", "version", "counters", "activation", "rows", "timing", "__weakref__")

    def __init__(self, linear: Linear, sites: Sequence[HeldSite]) -> None:
        """`sites`: those of the product, the bias and the activation, as far as they are there."""
        self.linear, self.sites = linear, sites
        self.version = -1
        self.counters: tuple[Counter, ...] = ()
        self.activation = 0
        self.rows = 0  # of the last call
        self.timing: Timing | None = None  # of calls, once they are measured

    @property
    def names(self) -> tuple[str, ...]:
        """The ops that a call does."""
        return tuple(site.op.name for site in self.sites)

    @property
    def where(self) -> tuple[str, str, int] | None:
        """(function or cell, file, line) of the product."""
        return self.sites[0].site.where

    def lead(self, _others: Sequence[Any], _pools: Sequence[Any]) -> None:
        """It has nothing made for others."""

    def prepare(self, weight: Any, bias: Any = None) -> _Ready | None:
        """What does not depend on the rows; None where the ops must run one by one."""
        if config.plain.value & ~config.WATCHED or config.current.reproducible or grouping.rules():
            return None
        if self.version != pool.version and not self._learn():
            return None
        w = self.sites[0]._view(1, weight)
        if w is None or w.dtype is not _F32 or w.ndim != 2 or not w.flags.c_contiguous:
            return None
        b = None
        if self.linear.bias is not None:
            b = bias.array if type(bias) is Held else self.sites[1]._view(1, bias)
            if b is None or b.dtype is not _F32 or b.shape != w.shape[:1] or not b.flags.c_contiguous:
                return None
        columns = w.T
        kept = jobs.known_kept(w) if self.rows <= jobs.KEPT_ROWS else None
        return _Ready(self, w, columns, matrices.More(b, self.activation, kept))

    def ahead(self, rows: Any, *ready: _Ready | None) -> _Ahead | None:
        """The results of several linears of the same rows; None while somebody measures, for each has its own time then."""
        if type(rows) is not Held or None in ready or config.plain.value & config.WATCHED:
            return None
        results = _run(rows.array, ready)  # type: ignore[arg-type]
        return None if results is None else _Ahead(rows.array, results)

    def __call__(self, ready: _Ready | None, rows: Any, ahead: _Ahead | None = None, place: int = 0) -> Held | None:
        if ready is None or type(rows) is not Held:
            return None
        array = rows.array
        if ahead is not None and _same(ahead.rows, array):
            return Held(ahead.results[place])
        call = array, (ready,)
        results = clock.measure(self, _run, call) if config.plain.value & config.WATCHED else _run(*call)
        return None if results is None else Held(results[0])

    def _learn(self) -> bool:
        """Whether the sites have come to the ops' own definitions; with which counters."""
        linear = self.linear
        given: list[tuple[tuple[int, ...], dict[str, Any]]] = [((_MATRIX, _MATRIX), linear.attrs)]
        if linear.bias is not None:
            given.append(((_MATRIX, _VECTOR), linear.axis))
        counters = []
        for site, (kinds, attrs) in zip(self.sites, given, strict=False):
            recipe = site.recipes.get(kinds) if site.version == pool.version else None
            if recipe is None or recipe.plan is None or recipe.tail or recipe.attrs(attrs) is None:
                return False
            counters.append(recipe.plan[0])
        if linear.activation is not None:  # all kernels of an elementwise op have the same bits
            self.activation = _algorithm(*linear.activation)
            if not self.activation:
                return False
        self.counters, self.version = tuple(counters), pool.version
        return True


def _algorithm(op: str, attrs: dict[str, Any]) -> int:
    """The address of the loop of an activation over float32; 0: there is none."""
    plain = {name: value for name, value in attrs.items() if name != "dialect"}
    if plain not in (({}, _EXACT, _TANH) if op == "gelu" else ({},)):
        return 0
    name = "gelu_tanh" if plain == _TANH else op
    return templates.loop_for(name, "float32").entry


def _run(rows: _Array, ready: Sequence[_Ready]) -> list[_Array] | None:
    """The results of linears; None where their ops must run one by one."""
    tasks, flops = [], 0.0
    for one in ready:
        if rows.dtype is not _F32 or rows.ndim != 2 or not products.is_chained_weight(rows, one.weight):
            return None
        plan = matrices.plan_of(rows, one.columns)
        if plan is None:
            return None
        flops += plan.flops
        tasks.append((plan, rows, one.columns, one.more))
    if beside.on and (beside.strays or flops >= effort.LONG_FLOPS):
        return None  # the ops' own sites make a long call where it can be interrupted
    results, _events = matrices.together(tasks)  # MindSpore reports none
    for one in ready:
        one.linear.rows = len(rows)
        for counter in one.linear.counters:
            counter.calls += 1
    return results


def _same(a: _Array, b: _Array) -> bool:
    """Whether two arrays show the same memory in the same way."""
    return a is b or (a.shape == b.shape and a.strides == b.strides and a.dtype == b.dtype and address(a) == address(b))


def held_linear(linear: Linear, steps: Sequence[Any]) -> HeldLinear | None:
    """What runs a linear whose ops run by `steps`."""
    return HeldLinear(linear, steps) if all(isinstance(site, HeldSite) for site in steps) else None
