"""Cells under BCVM: while enabled, `nn.Cell.__call__` tries the flattened form first and then does what it always did."""

from __future__ import annotations

import atexit
import functools
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from mindspore import context, nn

from .. import config
from ..errors import LoweringError
from ..isa.program import Program
from ..jit import adopt, linker_of
from ..tiers.fuse import explain as explain_fused
from ..vm.flatten.site import MISS, FlatSite
from ..vm.stats import Stats
from . import modules
from .adapter import LeftToMindSpore, is_recorded

_original: Callable[..., Any] = nn.Cell.__call__
_get_mode: Callable[[], int] = context._get_mode
_GRAPH: int = context.GRAPH_MODE


class _Sites(dict[int, FlatSite]):
    """What a Cell holds of BCVM: its site, under its id. A copy of the Cell starts with none."""

    def __reduce_ex__(self, _protocol: Any) -> Any:
        return type(None), ()

    def __deepcopy__(self, _memo: Any) -> None:
        return None


class CellRunner:
    """The Cells that have been called, and what became of each. One per process.

    A site refers to much of its Cell, and that often back to the Cell (a bound method among its attributes is enough). So the Cell
    itself holds its site, where nobody looks: as an attribute of the OrderedDict with its parameters. Both go together.
    """

    def __init__(self) -> None:
        self.everywhere = 0  # how many `enable()` are open
        self.stats = Stats()
        self.sites: dict[int, tuple[weakref.ref[Any], weakref.ref[FlatSite]]] = {}
        self.chosen: dict[int, weakref.ref[Any]] = {}  # Cells that were jitted one by one
        self.linked: dict[Any, Any] = {}  # function -> its linker

    def site(self, cell: Any) -> FlatSite:
        """The site of a Cell; made at its first call."""
        return self.known(cell) or self._new_site(cell)

    def known(self, cell: Any) -> FlatSite | None:
        """The site of a Cell that has one."""
        known = self.sites.get(id(cell))
        return known[1]() if known is not None and known[0]() is cell else None

    def _new_site(self, cell: Any) -> FlatSite:
        key = id(cell)
        site = FlatSite(cell, modules, self.stats, type(cell).__name__)
        holder = vars(cell.__dict__["_params"])
        held = holder.get("_bcvm")
        if type(held) is not _Sites:
            held = holder["_bcvm"] = _Sites()
        held[key] = site
        self.sites[key] = (weakref.ref(cell, lambda _: self._gone(key)), weakref.ref(site))
        return site

    def _gone(self, key: int) -> None:
        """A Cell is no more."""
        known = self.sites.pop(key, None)
        site = known[1]() if known is not None else None
        if site is not None:
            site.paths.clear()

    def close(self) -> None:
        """Let go of all Cells: they must go before MindSpore's modules do."""
        for key in list(self.sites):
            self._gone(key)

    def is_chosen(self, cell: Any) -> bool:
        """Whether the Cell was jitted by itself."""
        known = self.chosen.get(id(cell))
        return known is not None and known() is cell

    def call(self, cell: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of the flattened form, or MISS."""
        if _get_mode() == _GRAPH or is_recorded():
            return MISS
        state = cell.__dict__
        if type(state.get("_params")) is not OrderedDict:
            return MISS  # not initialised: MindSpore says so
        if not (state.get("_init_flag") or state.get("_is_check_and_refresh")):
            cell._init_check()  # as `Cell.__call__` does at the first call
            cell._self_check()
        site = self.site(cell)
        result = site(cell, args, kwargs)
        if result is MISS and config.current.enabled:
            self._stays(cell, site)
        return result

    def _stays(self, cell: Any, site: FlatSite) -> None:
        """A Cell stays with MindSpore: the tensor work of its own `construct` runs by the VM where it can; what cannot is counted."""
        self._link(type(cell).construct)
        if not cell._cells:
            self.stats.count_host((f"nn.{type(cell).__name__}",), site.last_reason)

    def _link(self, construct: Any) -> None:
        if construct in self.linked or not self.everywhere:
            return
        if linker_of(construct) is not None:  # defined in a notebook's cell, or jitted: counted there
            self.linked[construct] = None
            return
        adopt(construct)
        self.linked[construct] = linker_of(construct)

    def unlink(self) -> None:
        """Give all constructs their own code back."""
        for function, linker in self.linked.items():
            if linker is not None:
                self.stats.merge(linker.stats)
                function.__code__ = linker.original
                function.__dict__.pop("__bcvm__", None)
        self.linked.clear()

    def counts(self) -> Stats:
        """What ran so far, in flattened and in linked form."""
        total = self.stats.snapshot()
        for linker in self.linked.values():
            if linker is not None:
                total.merge(linker.stats)
        return total


runner = CellRunner()
atexit.register(runner.close)


@functools.wraps(_original)
def _call(self: Any, *args: Any, **kwargs: Any) -> Any:
    if runner.everywhere or (runner.chosen and runner.is_chosen(self)):
        result = runner.call(self, args, kwargs)
        if result is not MISS:
            return result
    if self.__dict__.get("mixed_precision_type") is not None:  # set by to_float
        with LeftToMindSpore():
            return _original(self, *args, **kwargs)
    return _original(self, *args, **kwargs)


def register() -> None:
    """Put the hook in place; it stays, since ops within a Cell may depend on what the Cell is set to."""
    modules.also_called_by(_call)
    nn.Cell.__call__ = _call


def enable() -> None:
    """From now on every call of a Cell is tried in flattened form."""
    runner.everywhere += 1


def disable() -> None:
    """Undo one `enable`."""
    if runner.everywhere:
        runner.everywhere -= 1
        if not runner.everywhere:
            runner.unlink()


def choose(cell: Any) -> None:
    """Run this Cell in flattened form, whatever the mode."""
    key = id(cell)
    runner.chosen[key] = weakref.ref(cell, lambda _: runner.chosen.pop(key, None))


def programs(cell: Any) -> tuple[Program, ...]:
    """The flat Programs of a Cell, the latest first."""
    return tuple(flat.program for flat in runner.site(cell).programs)


def program_of(cell: Any, args: tuple[Any, ...]) -> Program:
    """The flat Program of `cell(*args)`; without operands that of the latest call. Raises LoweringError, which says why there is none."""
    if args:
        runner.call(cell, args, {})
    found = programs(cell)
    if not found:
        reasons = "; ".join(dict.fromkeys(runner.site(cell).reasons)) or "it has not been called under BCVM"
        fix = "call it under bcvm.enable(), or ask for its parts"
        raise LoweringError(f"{type(cell).__name__} has no flat program: {reasons}", fix=fix)
    return found[0]


def explain(cell: Any) -> str:
    """What became of a Cell and, where it stays with MindSpore, of its parts."""
    return "\n".join(_explain(cell, "", 0))


def _explain(cell: Any, name: str, depth: int) -> list[str]:
    site = runner.known(cell)
    head = f"{'  ' * depth}{name + ': ' if name else ''}{type(cell).__name__}"
    if site is None:
        return [f"{head}: not called under BCVM"] if not depth else []
    lines = []
    for flat in site.programs:
        lines.append(f"{head}: {len(flat.ops)} ops in one program, {flat.runs} runs")
        lines += [f"{'  ' * depth}  {line}" for fused in flat.fused for line in explain_fused(fused)]
    lines += [f"{head}: left to MindSpore: {reason}" for reason in dict.fromkeys(site.reasons)]
    if not site.programs:
        for part, child in cell._cells.items():
            lines += _explain(child, part, depth + 1)
    return lines
