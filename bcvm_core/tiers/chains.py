"""Tier 2 for rows: elementwise ops with reductions and norms among them, a block of rows at a time.

A chain is planned for a *kind* of operands (`chain_plan.py`) at its first use, out of spliced kernels and the kernels over rows that
single ops run by, so that it has the bits of its ops one by one. Where a kind has no plan the ops run without it.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from .. import config, dtypes
from ..cache.memory import FIRST, SITE, About, code_cache
from ..codegen.stencils.graph import NotFusable
from ..codegen.stencils.kernel import engine
from ..codegen.stencils.library import is_ready
from ..fusion.segments import Segment
from . import keys
from .fuse import LOOKED_AT, WAITING, FusedSite, Pattern, Use
from .graphs import inputs_of, pattern_text, type_name

if TYPE_CHECKING:
    from ..codegen.rows.chain import Chain
    from ..fusion.decisions import Decision, Record
    from .chain_plan import Kind

_numbers: Final = itertools.count()  # of sites, by which the code cache knows their chains
_MAX_KINDS: Final = 64
_BY_RULE: Final = frozenset(("max", "min", "any", "all"))  # MindSpore's own results or rules
_MAX_SHAPES: Final = 256


class ChainSite(FusedSite):
    """One chain at run time: called as a `FusedSite` is. Operands that it does not take cost a look into `met`."""

    __slots__ = ("chains", "met", "misfits", "decided", "uses", "number")

    def __init__(self, segment: Segment, *, uniform: bool = False) -> None:
        """`uniform`: under MindSpore's rules, which are NumPy's for float32 and for most ops."""
        super().__init__(segment, uniform=uniform)
        self.chains: dict[Kind, Chain | None] = {}
        self.misfits = 0  # calls with operands that have a plan, and don't lie in rows
        self.decided: dict[Chain, Record] = {}  # of the decision for each
        self.uses: dict[Chain, Use] = {}
        self.number = next(_numbers)
        self.met: dict[tuple[Any, ...], Chain | None] = {}  # by shapes and types of operands

    def __call__(self, *values: Any) -> Any:
        state = config.plain.value
        types = self._admitted(values, state)
        if types is None:
            return None
        use = self.entries.get(types)
        if use is None and self.parts and not state & LOOKED_AT and _clash(values):  # as before: new sizes need no new look
            return self._by_parts(values)
        entry = self._meet if use is None else use.fn
        if not state & LOOKED_AT or (use is None and self.parts):  # those are measured
            result = entry(*values)
        elif (timing := self.timing) is not None and timing.rest > 0 and not state & config.RECORDED:
            timing.rest -= 1
            result = entry(*values)
        else:
            result = self._looked_at(entry, values, types, state)
        if result is None:
            return None if self.parts is False else self._by_parts(values)
        if use is None:
            self.calls_before += 1
        else:
            use.calls += 1
        return result

    def _meet(self, *values: Any) -> Any:
        """A call with operands of another kind than those before, or of one that has no plan."""
        key = tuple([(v.shape, v.dtype) for v in values])
        known = key in self.met
        found = self.met[key] if known else self._chain_for(key, values)
        if found is None:
            return None
        before, started = self.misfits, time.perf_counter_ns()
        result = found.entry(*values)
        if result is None:
            if self.misfits != before:
                self._remember(key, None)
            return None
        record = self.decided.get(found)
        if not known and record is not None:  # another thread's kernel may have evicted it meanwhile
            self._remember(key, found)
            record.measured.note(time.perf_counter_ns() - started)
        use = self.uses.get(found)
        if use is not None:
            self.entries[use.types] = use
        return result

    def _remember(self, key: tuple[Any, ...], found: Chain | None) -> None:
        if len(self.met) >= _MAX_SHAPES:
            self.met.clear()
        self.met[key] = found

    def _misfit(self) -> None:
        self.misfits += 1
        self.refusal = "operands that do not lie in rows, or rows that are too long for the cache"

    def _chain_for(self, key: tuple[Any, ...], values: Sequence[Any]) -> Chain | None:
        """The chain for operands like these, planned when they come first."""
        from .chain_plan import kind_of

        try:
            kind = kind_of(values, tuple(map(type_name, values)))
        except NotFusable as error:  # by shapes and types alone, so that it is known the next time
            self._remember(key, None)
            self._refuse(str(error))
            return None
        if kind not in self.chains and len(values) == 1:  # one row along an axis is no reason for another chain
            fitting = next((made for made in list(self.chains.values()) if made is not None and made.fits(tuple(values))), None)
            if fitting is not None:
                return fitting
        if kind not in self.chains:
            now = time.perf_counter_ns()
            if now < self.retry_ns:
                self._fall_back(now)
                return None
            self._make(kind, values)
        found = self.chains.get(kind)
        if found is None and kind in self.chains:
            self._remember(key, None)
        return found

    def _make(self, kind: Kind, values: Sequence[Any]) -> None:
        """Plan the chain for a kind of operands, or note why there is none; nothing while something is still being compiled."""
        from ..codegen.rows.chain import NotReady

        started = time.perf_counter_ns()
        pattern = Pattern(inputs_of(values), None, "", 0.0)
        made: Chain | None = None
        try:
            made = self._plan(kind)
        except (NotFusable, NotReady) as error:
            pattern.reason = str(error)
            if WAITING in pattern.reason:
                self._wait(started)
                self._refuse(pattern.reason)
                return
        self.waiting_ns = 0
        if len(self.chains) >= _MAX_KINDS:
            self._forget()
        pattern.kernel, pattern.splice_us = made, (time.perf_counter_ns() - started) / 1000
        self.chains[kind] = made
        self.patterns[max(self.patterns, default=0) + 1] = pattern
        if made is not None:
            self.refusal = ""
            self._announce(pattern, values)
            self._note(pattern, made, values)
            self._keep(kind, pattern, made, values)
        else:
            code_cache.refused(pattern.reason)

    def _keep(self, kind: Kind, pattern: Pattern, made: Chain, values: Sequence[Any]) -> None:
        """Let the code cache know of a chain."""
        reason = SITE if self.uses else FIRST
        use = self.uses[made] = Use(made.entry, self, tuple([v.dtype for v in values]), made, ("chain", self.number, kind))
        use.splice_us = pattern.splice_us
        about = About("+".join(self.segment.names), pattern_text(pattern.inputs), keys.shapes_text(values))
        code_cache.add(use.key, use, about, splice_us=pattern.splice_us, reason=reason)

    def forget(self, use: Use) -> None:
        """The chain was evicted."""
        super().forget(use)
        chain = use.kernel
        self.chains = {kind: c for kind, c in list(self.chains.items()) if c is not chain}
        self.met = {key: c for key, c in list(self.met.items()) if c is not chain}
        self.decided.pop(chain, None)
        self.uses.pop(chain, None)

    def _plan(self, kind: Kind) -> Chain:
        """Raises NotFusable, NotReady."""
        from ..codegen.rows.chain import Chain
        from .chain_plan import plan_for

        name, reason = engine()
        if name != "stencils" or not config.current.use_llvm:
            raise NotFusable(reason or "machine code is switched off")
        if not is_ready():
            raise NotFusable("stencils are being compiled")
        if self.uniform and (set(kind.dtypes) != {"float32"} or not _BY_RULE.isdisjoint(self.segment.names)):
            raise NotFusable("rows of other types than float32, or extremes, under MindSpore's rules")
        plan = plan_for(self.segment, kind)
        if self.uniform and plan.form == 1 and plan.inner == plan.ndim:
            raise NotFusable("a number without axes under MindSpore's rules")
        return Chain(plan, self._meet, self._misfit)

    def _note(self, pattern: Pattern, made: Chain, values: Sequence[Any]) -> None:
        """Keep the decision; what the first call takes is noted with it."""
        from ..fusion import decisions
        from . import large

        pattern.record = self.decided[made] = decisions.keep(partial(_decided, self.segment, large.describe(values)))

    def _forget(self) -> None:
        self.calls_before = self.calls
        self.uses.clear()
        self.chains.clear()
        self.decided.clear()
        self.met.clear()
        self.patterns.clear()
        self.entries.clear()

    def prepare(self, dtype: Any) -> None:
        """Nothing is known beforehand of shapes, by which chains are planned; their kernels over rows are asked for."""
        from ..codegen.rows.loop import row_loop
        from ..fusion.chains import ROW_OPS

        name = dtypes.name_of(dtype)
        if name in ("float32", "float64", "float16", "bfloat16"):
            for op in self.segment.names:
                if op in ROW_OPS and "eps" not in ROW_OPS[op].attrs:
                    row_loop(op, name)


def _clash(values: Sequence[Any]) -> bool:
    """Whether the first array and another one of as many axes surely don't broadcast to one shape; False where that takes a longer look."""
    first = values[0].shape
    for value in values:
        shape = value.shape
        if shape != first and len(shape) == len(first):
            return any(n != m and n != 1 and m != 1 for n, m in zip(shape, first, strict=True))
    return False


def _decided(segment: Segment, described: Any) -> Decision:
    from ..fusion import splits
    from ..fusion.machines import usable
    from . import large

    return splits.rows(large.group_of(segment, described), usable())
