"""`CellSession`: what a notebook kernel needs to run cells through the VM.

A cell is transformed once as a whole (runs of plain assignments are grouped), and each top-level
node is linked just before it runs, when the namespace holds the true types of its names.
"""

from __future__ import annotations

import ast
import builtins
import linecache
import logging
import sys
import threading
import time
import types
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from . import modes
from .errors import LoweringError
from .events import CellFinished, CellStarted, bus
from .frontend.regions import MISSING, Kind, kind_of_value
from .frontend.source import copy_tree
from .isa.program import Program
from .jit import adopt, adopt_again, linker_of
from .tiers.beside import beside
from .vm import twin
from .vm.linked import Linker, Site, SiteTable
from .vm.rewrite import FormerContext, RegionFormer
from .vm.site import SiteOwner
from .vm.stats import Stats

_log = logging.getLogger("bcvm")
_ADOPT = "\x00bcvm:adopt"
_CACHE_SIZE = 256
_CELLS_KEPT = 8
_GROUPED = (ast.Assign, ast.AugAssign)

Compile = Callable[[ast.AST], types.CodeType]


class _CellOwner(SiteOwner):
    """Owner of the sites of cell statements; statements run once, so nothing is linked again."""

    def __init__(self, session: CellSession, filename: str) -> None:
        super().__init__()
        self.stats = session.statements
        self.filename = filename
        self.globals = session.namespace()
        self.strict = session.strict


@dataclass(eq=False)
class CellRecord:
    """One cell that ran through the VM: its text, its sites, and what sites had done before it.

    `before` holds the runs of each site that existed when the cell began; `started_ns` and `ended_ns` are of `time.perf_counter_ns`.
    """

    number: int
    tree: ast.Module
    started_ns: int
    thread: int = 0  # in which it runs
    ended_ns: int | None = None
    filename: str | None = None  # known when the first node is compiled
    tables: list[SiteTable] = field(default_factory=list)
    linked_to: int = 0  # the last line of its statements that have been compiled, each just before it runs
    before: weakref.WeakKeyDictionary[Any, int] = field(default_factory=weakref.WeakKeyDictionary)
    stats: Stats | None = None  # what it counted, once it is over

    def runs(self, site: Any) -> int:
        """Executions of a site since the cell began."""
        return int(site.hits) - self.before.get(site, 0)


class CellSession:
    """The cells of one shell. `namespace` returns the dict in which cells run.

    `enabled` switches the whole session, `strict` makes host executions of ops errors.
    """

    def __init__(self, namespace: Callable[[], dict[str, Any]]) -> None:
        self.namespace = namespace
        self.enabled = True
        self.strict = False
        self.statements = Stats()
        self.cells: list[CellRecord] = []  # the latest few, oldest first
        self._linkers: weakref.WeakSet[Linker] = weakref.WeakSet()
        self._by_code: weakref.WeakValueDictionary[int, Linker] = weakref.WeakValueDictionary()  # by id of the code before linking
        self._finalizers: weakref.WeakKeyDictionary[Linker, weakref.finalize[..., Linker]] = weakref.WeakKeyDictionary()
        self._departed = Stats()  # what functions had counted that are gone, or were defined again
        self._at_cell_start = Stats()
        self._models = False  # whether this session has enabled BCVM for models
        self._models_before: Stats | None = None  # what models had run before
        self._cache: OrderedDict[Any, tuple[types.CodeType, SiteTable]] = OrderedDict()

    # -- hooks ------------------------------------------------------------------------------------

    def transform(self, module: ast.Module) -> ast.Module:
        """Group runs of assignments, so that they can become one region. Never raises."""
        if not self.enabled:
            return module
        try:
            self._begin(module)
            module.body = _group(module.body)
        except Exception:
            _log.debug("grouping a cell failed", exc_info=True)
        return module

    @staticmethod
    def grouped(body: list[ast.stmt]) -> list[ast.stmt]:
        """Statements as `transform` groups them, for code that runs a cell's statements once more without its being a new cell."""
        return _group(body)

    def compile_node(self, node: ast.AST, filename: str, compile_plain: Compile) -> types.CodeType:
        """Compile one top-level node (in a Module, Interactive, or Expression as `%time` has it), linked by the types in the namespace.

        Whatever goes wrong on our side, the node is compiled as it is; errors of `compile_plain`
        itself are the user's and rise.
        """
        self._follow_models()
        if not self.enabled or not isinstance(node, ast.Module | ast.Interactive | ast.Expression):
            return compile_plain(node)
        record = self._running_here()
        if record is not None:
            record.filename = record.filename or filename
            record.linked_to = max(record.linked_to, _last_line(node))
        _ungroup(node)
        work = copy_tree(node)  # the caller may compile its node again, as %timeit does
        table: types.CodeType | tuple[Any, SiteTable] | None = None
        try:
            table = self._link(work, filename)
        except Exception:
            _log.debug("linking a cell statement failed", exc_info=True)
        if table is None:  # not in the handler: an error of the user's would seem to follow from ours
            return compile_plain(node)
        if isinstance(table, types.CodeType):
            return table
        key, sites = table
        code = twin.put_constants(compile_plain(work), {**sites.placeholders, _ADOPT: self._adopt})
        if sites.live:
            self._note(sites)
        self._cache[key] = (code, sites)
        while len(self._cache) > _CACHE_SIZE:
            self._cache.popitem(last=False)
        return code

    def _follow_models(self) -> None:
        """Once MindSpore is loaded, the session's models run through the VM, and stop when the session is switched off."""
        wanted = self.enabled and "mindspore" in sys.modules
        if wanted != self._models:
            self._models = wanted
            if wanted:
                self._models_before = self._models_before or modes.stats()
                modes.enable()
            else:
                modes.disable()

    def _link(self, node: ast.Module | ast.Interactive | ast.Expression, filename: str) -> types.CodeType | tuple[Any, SiteTable]:
        """Form the regions of a node in place; or the code of the same node, linked for the same types before."""
        namespace = self.namespace()
        names = sorted(set(_names_read(node)))
        kinds = tuple(kind_of_value(namespace.get(n, MISSING)) for n in names)
        states = tuple((kind, n in namespace) for n, kind in zip(names, kinds, strict=True))
        what = (filename, self.strict, type(node).__name__, ast.dump(node, include_attributes=True))
        key = (what, states)
        for found in (key, (what, _as_at_first(node, names, states))):
            known = self._cache.get(found)
            if known is not None:
                self._cache.move_to_end(found)
                self._note(known[1])
                return known[0]
        table = SiteTable(_CellOwner(self, filename))
        seeds: dict[str, Kind] = {n: k for n, k in zip(names, kinds, strict=True) if n in namespace}
        context = FormerContext("<cell>", filename, self._lookup, table, seeds=seeds, namespace_scope=True, switches=table)
        former = RegionFormer(node, context, bound=(*namespace, *dir(builtins)))
        if isinstance(node, ast.Expression):
            node.body = former.expression(node.body)
        else:
            node.body = former.block(list(node.body))
            _mark_functions(node)
        return key, table

    def _lookup(self, name: str) -> Any:
        namespace = self.namespace()
        return namespace[name] if name in namespace else getattr(builtins, name, MISSING)

    def _adopt(self, function: Any) -> Any:
        """The innermost decorator of functions defined in cells. One defined again by an unchanged cell is linked already."""
        known = self._by_code.get(id(getattr(function, "__code__", None)))
        if known is not None and adopt_again(function, known):
            self._departed.merge(known.start_again())
            self._remember(known)
            known.strict = self.strict
            return function
        result = adopt(function)
        linker = linker_of(function)
        if linker is not None:
            linker.strict = self.strict
            self._by_code[id(linker.original)] = linker
            self.follow(linker)
        return result

    def follow(self, linker: Linker) -> None:
        """Count what a function does from now on, as if it were defined in a cell."""
        if linker not in self._linkers:
            self._linkers.add(linker)
            self._at_cell_start.merge(linker.stats)
            self._remember(linker)

    def _remember(self, linker: Linker) -> None:
        """What it has counted stays when it goes."""
        earlier = self._finalizers.get(linker)
        if earlier is not None:
            earlier.detach()
        self._finalizers[linker] = weakref.finalize(linker, self._departed.merge, linker.stats)
        self._finalizers[linker].atexit = False

    def _running_here(self) -> CellRecord | None:
        """The latest cell, or None when another thread runs it: what a subshell does meanwhile is no part of it, and no cell of its own."""
        latest = self.cells[-1] if self.cells else None
        if latest is None or latest.ended_ns is not None or latest.thread == threading.get_ident():
            return latest
        return None if any(thread.ident == latest.thread for thread in threading.enumerate()) else latest

    def _begin(self, module: ast.Module) -> None:
        if self.cells and self._running_here() is None:
            return
        self.finish()
        number = self.cells[-1].number + 1 if self.cells else 1
        record = CellRecord(number, copy_tree(module), time.perf_counter_ns(), threading.get_ident())
        for linker in list(self._linkers):
            self._remember_runs(record, linker.table)
        self.cells = [*self.cells[1 - _CELLS_KEPT :], record]
        self._at_cell_start = self.stats()
        if bus.active:
            bus.emit(CellStarted(number))

    def _note(self, table: SiteTable) -> None:
        """A statement of the running cell has these sites; one linked before has run before."""
        record = self._running_here()
        if record is not None and not any(known is table for known in record.tables):
            self._remember_runs(record, table)
            record.tables.append(table)

    @staticmethod
    def _remember_runs(record: CellRecord, table: SiteTable) -> None:
        for site in list(table.placeholders.values()):
            if isinstance(site, Site) and site.hits:
                record.before.setdefault(site, site.hits)

    def finish(self) -> None:
        """The latest cell is over: whoever watches learns of it. Else it counts as running until the next one starts."""
        record = self._running_here()
        if record is not None and record.ended_ns is None:
            record.stats = self.cell_stats()
            record.ended_ns = time.perf_counter_ns()
            if bus.active:
                bus.emit(CellFinished(record.number))

    # -- views ------------------------------------------------------------------------------------

    def stats(self) -> Stats:
        """What ran since the session began: cell statements, functions defined in cells, and models."""
        linkers = list(self._linkers)  # held from here on: each counts once, here or among the departed
        total = Stats().merge(self.statements).merge(self._departed)
        for linker in linkers:
            total.merge(linker.stats)
        if self._models_before is not None:
            total.merge(modes.stats().since(self._models_before))
        return total

    def cell_stats(self) -> Stats:
        """What ran since the latest cell began."""
        return self.stats().since(self._at_cell_start)

    @property
    def functions(self) -> list[Linker]:
        """What links the functions that were defined in cells, by name."""
        return sorted(self._linkers, key=lambda linker: linker.name)

    def program(self, cell: CellRecord | None = None) -> Program:
        """The Program of the latest cell, or of an earlier one that is still kept. Raises LoweringError when no cell has run."""
        from .vm.programs import program_of_cell

        if cell is None and not self.cells:
            raise LoweringError("no cell has run through the VM yet", fix="run a cell, then ask again")
        record = cell or self.cells[-1]
        return program_of_cell(self.text(record), self.namespace(), filename=record.filename or "<cell>")

    def text(self, record: CellRecord) -> str:
        """A cell as it was typed, with blank lines for what stood above its first statement."""
        cell = record.tree
        lines = linecache.getlines(record.filename) if record.filename else []
        if not lines or not cell.body:
            return ast.unparse(cell)
        first = min(int(n.lineno) for n in [cell.body[0], *getattr(cell.body[0], "decorator_list", ())])
        return "\n" * (first - 1) + "".join(lines[first - 1 :])

    def explain(self, brief: bool = False) -> str:
        """The sites of the latest cell, then of each function defined in the session that has run; unless `brief`, with fused kernels."""
        lines = [line for table in (self.cells[-1].tables if self.cells else ()) for line in site_lines(table, brief)]
        for linker in self.functions:
            if any(s.hits or s.misses for s in linker.table.live):
                lines.append(linker.explain(brief))
        return "\n".join(lines) or "no tensor work found in the latest cell"


_current: weakref.ref[CellSession] | None = None


def set_current(session: CellSession | None) -> None:
    """Say which session is this process's notebook; the kernel does. It is held weakly."""
    global _current
    _current = None if session is None else weakref.ref(session)


def current() -> CellSession | None:
    """The session of the notebook that this process runs, or None outside of one."""
    return None if _current is None else _current()


def interruptible() -> Callable[[], None]:
    """From now on an interrupt (Ctrl-C, a notebook's stop button) need not wait for the end of a kernel; call the result to undo it."""
    beside.start()
    return beside.stop


def site_lines(table: SiteTable, brief: bool) -> list[str]:
    """Per site: place, form, ops, runs, why it last went to the host; unless `brief`, its fused kernels."""
    from .vm.linked import describe_kernels, describe_site

    lines = []
    for site in table.live:
        lines.append(describe_site(site))
        lines += [] if brief else [f"       {line}" for line in describe_kernels(site)]
    return lines


def _last_line(node: ast.Module | ast.Interactive | ast.Expression) -> int:
    body = [node.body] if isinstance(node, ast.Expression) else node.body
    return max((n.end_lineno or n.lineno for n in body), default=0)


def _group(body: list[ast.stmt]) -> list[ast.stmt]:
    """Runs of assignments become one `if True:` each, taken apart again by `compile_node`.

    IPython compiles and runs top-level nodes one by one; a group is compiled at once. The last
    node stays alone since its kind decides what is displayed. Should a group ever be compiled
    elsewhere, it means the same.
    """
    out: list[ast.stmt] = []
    run: list[ast.stmt] = []

    def flush() -> None:
        if len(run) > 1:
            group = ast.If(test=ast.Constant(True), body=list(run), orelse=[])
            ast.copy_location(group, run[0])
            ast.copy_location(group.test, run[0])
            group.bcvm_group = True  # type: ignore[attr-defined]
            out.append(group)
        else:
            out.extend(run)
        run.clear()

    for statement in body[:-1]:
        if isinstance(statement, _GROUPED) and not _awaits(statement):
            run.append(statement)
        else:
            flush()
            out.append(statement)
    flush()
    return out + body[-1:]


def _awaits(statement: ast.stmt) -> bool:
    """Top-level await decides how IPython runs a node."""
    return any(isinstance(n, ast.Await | ast.AsyncFor | ast.AsyncWith) for n in ast.walk(statement))


def _ungroup(node: ast.Module | ast.Interactive | ast.Expression) -> None:
    if isinstance(node, ast.Expression):
        return
    node.body = [s for part in node.body for s in (part.body if getattr(part, "bcvm_group", False) else [part])]  # type: ignore[attr-defined]


def _names_read(node: ast.AST) -> Iterator[str]:
    """The names whose values matter to a statement: it reads them, itself or in lambdas and classes. Functions are linked by themselves."""
    left = [node]
    while left:
        node = left.pop()
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            yield node.target.id
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            left += [*node.decorator_list, node.args, *filter(None, [node.returns])]
        else:
            left += ast.iter_child_nodes(node)


def _as_at_first(node: ast.AST, names: list[str], states: tuple[tuple[Kind, bool], ...]) -> tuple[tuple[Kind, bool], ...]:
    """The names as they were before a statement ran for the first time, if what they are now comes from it: not there yet.

    Code formed for that holds now as well, for a name that is not there counts as Python's where the statement binds it.
    """
    stored = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return tuple(
        (Kind.UNKNOWN, False) if n in stored and state == (Kind.PYTHON, True) else state for n, state in zip(names, states, strict=True)
    )


def _mark_functions(node: ast.AST) -> None:
    """Give each function of the cell (not those inside functions) the adopting decorator, innermost and on the `def` line."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            mark = ast.copy_location(ast.Constant(_ADOPT), child)
            mark.end_lineno, mark.end_col_offset = child.lineno, child.col_offset
            child.decorator_list.append(mark)
        elif not isinstance(child, ast.Lambda | ast.expr):
            _mark_functions(child)
