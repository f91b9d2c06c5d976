"""The linked form: a function's own syntax tree, regions replaced by sites, compiled to a twin code object.

A `Linker` belongs to one code object. It forms the regions, compiles, swaps the code of every
function that shares it, and links again when a site proves dead or an attribute unsafe to read.
"""

from __future__ import annotations

import ast
import builtins
import gc
import time
import types
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from ..errors import LoweringError
from ..events import Lowered, bus
from ..frontend.lowering import RegionCode
from ..frontend.recompile import FunctionNode
from ..frontend.regions import MISSING
from ..frontend.source import FunctionSource
from ..isa.hints import ShapeHint
from ..tiers import fuse
from . import prepare, twin
from .former import UNREADABLE, FormerContext, Relower, SiteKey, callee
from .observed import Observed
from .region import Region
from .rewrite import RegionFormer
from .site import SiteOwner
from .stats import Stats
from .switch import LoopSwitch
from .value_site import ValueSite

Site = Region | ValueSite
_MAX_RELINKS = 16
_OURS = 2  # references to a code in `_swap`: its own, and its caller's
_ALWAYS = {"\x00bcvm:slice": slice, UNREADABLE: (NameError, AttributeError, RecursionError)}


class SiteTable:
    """Makes sites and keeps them by key, so that linking again finds what was bound before."""

    def __init__(self, owner: SiteOwner) -> None:
        self.owner = owner
        self.sites: dict[SiteKey, Site] = {}
        self.placeholders: dict[str, Any] = dict(_ALWAYS)
        self.dead: set[SiteKey] = set()

    def start(self) -> None:
        """Begin a new link: no placeholder stands in the code yet."""
        self.placeholders = dict(_ALWAYS)

    def _place(self, key: SiteKey, site: Site) -> str:
        name = f"\x00bcvm:{len(self.placeholders)}"
        self.sites[key] = site
        self.placeholders[name] = site
        return name

    def region(self, key: SiteKey, code: RegionCode, relower: Relower) -> str:
        """The placeholder of a region; an old site of the same span and code is used again."""
        known = self.sites.get(key)
        if isinstance(known, Region) and known.code.program == code.program and known.code.callables == code.callables:
            return self._place(key, known)
        return self._place(key, Region(key, code, relower, self.owner))

    def value(self, key: SiteKey, kind: str, op: str | None) -> str:
        """The placeholder of a value site."""
        known = self.sites.get(key)
        if isinstance(known, ValueSite) and (known.kind, known.op) == (kind, op):
            return self._place(key, known)
        return self._place(key, ValueSite(key, kind, op, self.owner))

    def sites_before(self) -> int:
        """How many placeholders there are; what `switch` needs to tell a loop's own sites."""
        return len(self.placeholders)

    def switch(self, sites_before: int) -> tuple[str, str, str, str] | None:
        """The placeholders by which a loop is watched; None when it holds no site."""
        found = list(self.placeholders.values())[sites_before:]
        switch = LoopSwitch()
        switch.sites = [s for s in found if isinstance(s, Region | ValueSite)]
        if not switch.sites:
            return None
        names = tuple(f"\x00bcvm:loop{len(self.placeholders)}:{part}" for part in ("peel", "live", "rest", "iter"))
        self.placeholders.update(zip(names, (switch.peel, switch.live, switch.rest, iter), strict=True))
        return names[0], names[1], names[2], names[3]

    def constants(self) -> dict[str, Any]:
        """What stands for each placeholder in the code: the site, or the machine code in its place."""
        native = {name: site.native.function for name, site in self.placeholders.items() if isinstance(site, Region) and site.native}
        return {**self.placeholders, **native}

    @property
    def live(self) -> list[Site]:
        """The sites that stand in the code now, in source order."""
        found = [s for s in self.placeholders.values() if isinstance(s, Region | ValueSite)]
        return sorted(found, key=lambda s: s.key[1:])


class Linker(SiteOwner):
    """Links one function. `function` is looked at for globals, closure and code only; `source` is what `find` gave for it."""

    def __init__(self, function: types.FunctionType, source: FunctionSource, *, strict: bool = False) -> None:
        super().__init__()
        self.name = function.__qualname__
        self.filename = source.filename
        self.globals = function.__globals__
        self.strict = strict
        self.source = source
        self.original = function.__code__
        self.closure = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        found = function.__globals__.get("__builtins__", builtins)  # CPython keeps a module or its dict there
        self.builtins: dict[str, Any] = found if isinstance(found, dict) else vars(found)
        self.hints: dict[str, ShapeHint] = {}
        self.check_entry: Callable[..., None] | None = None
        self.observed = Observed()
        self.steady: frozenset[str] = frozenset()  # parameters that the function never rebinds
        self.table = SiteTable(self)
        self.unsafe: set[str] = set()
        self.relinks = 0
        self._prepared = False
        self.adopted = False  # its function was linked in place
        self.runs_before: dict[Site, int] = {}  # of sites, before the function was last defined
        self.functions: weakref.WeakSet[types.FunctionType] = weakref.WeakSet()
        self._code = weakref.ref(self.original)
        self._skeleton = self.original  # the linked code with placeholders

    @property
    def code(self) -> types.CodeType | None:
        """The code that functions carry now. Held weakly: code holds the sites, sites hold the linker, and the
        garbage collector does not look into code objects."""
        return self._code()

    def __reduce__(self) -> Any:
        return type(None), ()  # a function pickled by value is plain where it arrives

    def prototype(self) -> types.FunctionType:
        """The function as it was before linking, but for its defaults."""
        return types.FunctionType(self.original, self.globals, self.name.rpartition(".")[2], None, tuple(self.closure.values()))

    def lookup(self, name: str) -> Any:
        """The value of a free, global or builtin name now, or MISSING."""
        if name in self.closure:
            try:
                return self.closure[name].cell_contents
            except ValueError:
                return MISSING
        if name in self.globals:
            return self.globals[name]
        return self.builtins.get(name, MISSING)

    def link(self) -> types.CodeType:
        """Form the regions and compile. On any fault of ours the original code stays."""
        started = time.perf_counter_ns()
        node = self.source.fresh_tree()
        self.table.start()
        context = FormerContext(
            self.name, self.filename, self.lookup, self.table, hints=self.hints, unsafe_attributes=frozenset(self.unsafe)
        )
        former = RegionFormer(node, context)
        self.steady = frozenset(p for p in former.scope.params if not former.scope.stores[p])
        if isinstance(node, ast.Lambda):
            node.body = former.expression(node.body)
        else:
            node.body = former.block(node.body)
            self._insert_entry_check(node)
        code = self.original
        if self.table.live or self.check_entry is not None:
            self._skeleton = twin.compile_like(node, self.source, self.original)
            code = twin.put_constants(self._skeleton, self.table.constants())
        if set(code.co_freevars) != set(self.original.co_freevars):
            raise LoweringError(f"linking {self.name} changed its free variables")
        self._code = weakref.ref(code)
        if bus.active:
            bus.emit(Lowered(self.name, self.filename, len(self.table.live), (time.perf_counter_ns() - started) / 1000))
        return code

    def _insert_entry_check(self, node: FunctionNode) -> None:
        """Annotated functions check their arguments' shapes first."""
        if self.check_entry is None or isinstance(node, ast.Lambda):
            return
        body = node.body
        position = 0 if ast.get_docstring(node, clean=False) is None else 1
        place = body[min(position, len(body) - 1)]
        self.table.placeholders["\x00bcvm:check"] = self.check_entry
        names: list[ast.expr] = [ast.copy_location(ast.Name(n, ast.Load()), place) for n in self.hints]
        call = ast.copy_location(ast.Call(callee("\x00bcvm:check", place), names, []), place)
        body.insert(position, ast.copy_location(ast.Expr(call), place))

    def is_fresh(self) -> bool:
        """Whether the function has not run since it was defined."""
        return all(site.hits == self.runs_before.get(site, 0) for site in self.table.live)

    def start_again(self) -> Stats:
        """The function was defined again: its figures begin at zero. Returns those that it had."""
        earlier, self.stats = self.stats, self.stats.successor()
        self.runs_before = {site: site.hits for site in self.table.live}
        for site in self.table.live:
            site.last_reason = ""
        return earlier

    # -- linking again ----------------------------------------------------------------------------

    def site_is_dead(self, site: Any) -> None:
        """Take out every site that has only ever missed."""
        for other in self.table.live:
            if not other.hits and (other is site or other.misses > 1):
                other.dead = True
                self.table.dead.add(other.key)
        self._relink()

    def observe(self, names: Sequence[str], values: Sequence[Any]) -> None:
        for name, value in zip(names, values, strict=True):
            if name in self.steady:
                self.observed.see(name, value)

    def forget_attribute(self, name: str) -> None:
        self.unsafe.add(name)
        self._relink()

    def callable_rebound(self, site: Any) -> None:
        self._relink()

    def region_ran(self, values: Sequence[Any]) -> None:
        if not self._prepared:
            self._prepared = True
            prepare.others([s for s in self.table.live if isinstance(s, Region)], values)

    def site_is_native(self, site: Any) -> None:
        old = self.code
        if old is not None and site in self.table.placeholders.values():
            new = twin.put_constants(self._skeleton, self.table.constants())
            self._code = weakref.ref(new)
            self._swap(old, new)

    def _relink(self) -> None:
        if self.relinks >= _MAX_RELINKS:
            return
        self.relinks += 1
        old = self.code
        if old is None:
            return
        try:
            new = self.link()
        except Exception:  # linking again is an improvement, never a need
            return
        self._swap(old, new)

    def _swap(self, old: types.CodeType, new: types.CodeType) -> None:
        """Give every function that carries `old` the new code."""
        for function in [f for f in self.functions if f.__code__ is old]:
            function.__code__ = new
        if not twin.is_unheld(old, _OURS):
            for referrer in gc.get_referrers(old):  # closures made from the same def, autoreload's patched copies
                if type(referrer) is types.FunctionType and referrer.__code__ is old:
                    referrer.__code__ = new

    # -- read-only views --------------------------------------------------------------------------

    def explain(self, brief: bool = False) -> str:
        """Per site: place, form, ops, how often it ran, why it last went to the host; unless `brief`, its fused kernels by pattern."""
        lines = [f"{self.name} ({self.filename})"]
        for site in self.table.live:
            lines.append(describe_site(site, self.runs_before.get(site, 0)))
            lines += [] if brief else [f"       {line}" for line in describe_kernels(site)]
        if len(lines) == 1:
            lines.append("  no tensor work found")
        return "\n".join(lines)


def describe_kernels(site: Site) -> list[str]:
    """What was fused in a region, by pattern of its operands, and what was not and why."""
    return [line for fused in site.fused for line in fuse.explain(fused)] if isinstance(site, Region) else []


def describe_site(site: Site, before: int = 0) -> str:
    """A site in one line: place, form, ops, runs but for those `before`, and why it last went to the host."""
    ops = ", ".join(dict.fromkeys(site.code.ops)) if isinstance(site, Region) else (site.op or "call")
    state = f"{site.hits - before} runs" if site.hits > before else "not run by the VM"
    reason = f"; last handed back: {site.last_reason}" if site.last_reason else ""
    return f"  line {site.key[1]:<4} {site.key[0]:<6} {ops}: {state}{reason}"
