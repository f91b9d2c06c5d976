"""The two hooks by which an IPython shell sends its cells through the VM.

1. An AST transformer sees a whole cell before IPython runs it (`CellSession.transform`).
2. The shell's compiler sees each top-level node just before it runs, when the namespace holds
   the true types (`CellSession.compile_node`).

Everything else (``;``, ``await``, ``!``, ``?``, Out, history, display, magics) stays IPython's.
`attach` puts the hooks in, `detach` takes them out; nothing else touches them.
"""

from __future__ import annotations

import ast
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType
from typing import TYPE_CHECKING, Any, Protocol, cast

import bcvm_core
from bcvm_core import config

from .options import HelpAsked, MagicError, cell_parser
from .work import FirstTimeWork

if TYPE_CHECKING:
    from bcvm_core.profiler import Profile
    from bcvm_widgets.recorder import Recording

    from .comparing.result import Comparison
    from .comparing.rounds import Comparing

log = logging.getLogger("bcvm_kernel")
log.addHandler(logging.NullHandler())  # else Python prints what nobody handles to stderr, which is the cell's

_ATTRIBUTE = "_bcvm_cells"
# Stands for the cell below the line `%%bcvm ...`; see `first_line_to_call`.
REST_OF_CELL = "# the lines below\n"


class CellDoor(Protocol):
    """What this package needs of `bcvm_core.session.CellSession`."""

    strict: bool

    def transform(self, module: ast.Module) -> ast.Module: ...

    def grouped(self, body: list[ast.stmt]) -> list[ast.stmt]: ...

    def compile_node(self, node: ast.AST, filename: str, compile_plain: Callable[[ast.AST], CodeType]) -> CodeType: ...

    def program(self) -> Any: ...

    def explain(self, brief: bool = False) -> str: ...

    def stats(self) -> Any: ...

    def cell_stats(self) -> Any: ...

    def finish(self) -> None: ...


@dataclass
class CellOptions:
    """What the first line ``%%bcvm ...`` asked of one cell."""

    off: bool = False
    strict: bool = False
    dis: bool = False
    stats: bool = False
    time: bool = False
    profile: bool = False
    record: str | None = None
    compare: tuple[str, ...] = ()
    rounds: int | None = None
    started: float = 0.0
    ended: float = 0.0
    filename: str | None = None  # of its code, once some has been compiled
    result: Any = None  # IPython's, once it is over
    comparing: Comparing | None = None
    recording: Recording | None = None
    measured: Profile | None = None
    undo: tuple[bool, bool] = (True, False)  # the switch of functions and strictness before the cell


def first_line_to_call(lines: list[str]) -> list[str]:
    """Input transformer: turn the line ``%%bcvm ...`` into a statement and leave the cell below as it is.

    A cell magic would get the rest as a string and run it in a cell within the cell; so, line
    numbers, breakpoints, ``await``, ``;`` and Out stay as they are without it.
    """
    if not lines:
        return lines
    name, _, rest = lines[0].rstrip().partition(" ")
    if name != "%%bcvm":
        return lines
    return [f"get_ipython().run_cell_magic('bcvm', {rest!r}, {REST_OF_CELL!r})\n", *lines[1:]]


def option_line(module: ast.Module) -> str | None:
    """The text behind ``%%bcvm`` when `first_line_to_call` wrote the first statement of this cell."""
    match module.body:
        case [
            ast.Expr(
                value=ast.Call(
                    func=ast.Attribute(attr="run_cell_magic"),
                    args=[ast.Constant(value="bcvm"), ast.Constant(value=str(line)), ast.Constant(value=body)],
                )
            ),
            *_,
        ] if body == REST_OF_CELL:
            return line
    return None


def only_asks(module: ast.Module) -> bool:
    """Whether a cell does nothing but call ``%bcvm ...``: it then asks about the cell before it."""
    return bool(module.body) and all(_is_line_magic(statement) for statement in module.body)


def _is_line_magic(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="run_line_magic"), args=[ast.Constant(value="bcvm"), *_])):
            return True
    return False


def parse_cell_options(line: str) -> CellOptions:
    """Parse the text behind ``%%bcvm``. Raises MagicError, HelpAsked."""
    return CellOptions(**vars(cell_parser().parse_line(line)))


class Cells:
    """The hooks of one shell, and whether they are on.

    `on` is the notebook's switch; the options of a running cell take precedence, on the thread that
    runs it (subshells have their own). Functions lowered before know one switch for the process,
    `config.current.enabled`.
    """

    def __init__(self, shell: Any, door: CellDoor, *, on: bool) -> None:
        self.shell = shell
        self.door = door
        self.on = on
        self.owner = "kernel"
        self.enabled_before = config.current.enabled
        self.work = FirstTimeWork()
        self.latest_comparison: Comparison | None = None
        self.after_cell: list[Callable[[CellOptions], None]] = []
        self.leave_interruptible: Callable[[], None] = lambda: None
        self._thread = threading.local()

    @property
    def options(self) -> CellOptions | None:
        """The options of the cell that this thread runs, if it began with ``%%bcvm``."""
        return getattr(self._thread, "options", None)

    @property
    def active(self) -> bool:
        """Whether code compiled now goes through the VM."""
        return self.on if self.options is None else not self.options.off

    def switch(self, on: bool) -> None:
        """``%bcvm on`` / ``%bcvm off``: cells, and functions that were lowered before."""
        self.on = config.current.enabled = on
        if self.options is not None:
            self.options.undo = (on, self.options.undo[1])

    def begin(self, options: CellOptions) -> None:
        """Options of the running cell hold from here to its end."""
        if self.options is not None:
            raise MagicError("%%bcvm inside a %%bcvm cell", fix="give all options on the first line")
        if options.compare and options.off:
            raise MagicError("--off leaves the cell to Python, and --compare runs it under bcvm", fix="give one of the two")
        if options.compare:
            from .comparing.rounds import Comparing

            options.comparing = Comparing(self, self._running()[-1].raw_cell, options.compare, options.rounds)
        if options.record is not None:
            import bcvm_widgets

            options.recording = bcvm_widgets.recording(options.record).__enter__()
        options.started = time.perf_counter()
        options.undo = (config.current.enabled, self.door.strict)
        config.current.enabled = not options.off
        self.door.strict = options.strict
        self._thread.options = options
        if options.profile:
            options.measured = bcvm_core.profile().__enter__()

    def end(self) -> CellOptions | None:
        """The cell is over, and with it its options; returns them."""
        options = self.options
        if options is not None:
            options.ended = time.perf_counter()
            if options.measured is not None:
                options.measured.__exit__(None, None, None)
            if options.recording is not None:
                options.recording.stop()
            config.current.enabled, self.door.strict = options.undo
            self._thread.options = None
        return options

    # IPython calls `visit` of each of its AST transformers; one that raises is thrown out for good.
    def visit(self, module: ast.Module) -> ast.Module:
        """Give the cell to the VM, or leave it. Never raises."""
        try:
            line = option_line(module)
            if line is not None:
                return self._visit_with_options(module, line)
            return self._transform(module) if self.active and not only_asks(module) else module
        except Exception:
            log.exception("a cell was left to plain Python")
            return module

    def _visit_with_options(self, module: ast.Module, line: str) -> ast.Module:
        try:
            options = parse_cell_options(line)
        except HelpAsked:
            return ast.Module(module.body[:1], module.type_ignores)
        except MagicError:
            return module  # the statement raises it where the user sees it
        if options.off:
            return module
        first, *rest = module.body
        lowered = self._transform(ast.Module(rest, module.type_ignores))
        return ast.Module([first, *lowered.body], module.type_ignores)

    def _transform(self, module: ast.Module) -> ast.Module:
        with self._timed():
            return self.door.transform(module)

    def compile(self, plain: Callable[..., CodeType], source: Any, filename: str, symbol: str) -> CodeType:
        """Compile one top-level node, linked when the hooks are on and it came from a cell."""
        if self.options is not None:
            self.options.filename = filename
        if not (self.active and isinstance(source, ast.Module | ast.Interactive | ast.Expression)):
            return plain(source, filename, symbol)
        try:
            with self._timed():
                return self.door.compile_node(source, filename, lambda node: plain(node, filename, symbol))
        except (SyntaxError, ValueError, OverflowError):
            raise  # what compile() says about the user's code
        except Exception:
            log.exception("a statement was left to plain Python")
        return plain(source, filename, symbol)  # out here: its own error shall not seem to follow from ours

    @contextmanager
    def _timed(self) -> Iterator[None]:
        started = time.perf_counter_ns()
        try:
            yield
        finally:
            self.work.cells_us += (time.perf_counter_ns() - started) / 1e3

    # IPython events
    def cell_starts(self, info: Any) -> None:
        """A cell starts on this thread; cells nest (``%rerun``, ``%run`` of a notebook)."""
        running = self._running()
        if not running:
            self.end()  # of a cell that IPython ran silently, without its events
        running.append(info)

    def cell_ends(self, result: Any) -> None:
        """A cell ended: its options end, and what they asked for is printed."""
        running = self._running()
        # An empty or unparsable cell ends without having started; a cancelled one has no result.
        if running and (result is None or running[-1] is result.info):
            running.pop()
        if running:
            return
        try:
            self.door.finish()
        except Exception:
            log.exception("the end of a cell was not noted")
        options = self.end()
        if options is not None:
            options.result = result
            for report in self.after_cell:
                report(options)

    def _running(self) -> list[Any]:
        if not hasattr(self._thread, "running"):
            self._thread.running = []
        return cast("list[Any]", self._thread.running)


def _hooked(compiler_class: type, cells: Cells) -> type:
    """A subclass of the shell's compiler class whose call goes by `cells`."""

    def __call__(self: Any, source: Any, filename: str, symbol: str, *rest: Any, **more: Any) -> CodeType:
        def plain(node: Any, name: str, mode: str) -> CodeType:
            return cast(CodeType, compiler_class.__call__(self, node, name, mode, *rest, **more))

        return cells.compile(plain, source, filename, symbol)

    return type(compiler_class.__name__, (compiler_class,), {"__call__": __call__, "__module__": compiler_class.__module__})


def cells_of(shell: Any) -> Cells | None:
    """The hooks of this shell, or None."""
    return cast("Cells | None", getattr(shell, _ATTRIBUTE, None))


def attach(shell: Any, door: CellDoor, *, on: bool) -> Cells:
    """Put the hooks into an IPython shell; a shell that has them keeps them."""
    existing = cells_of(shell)
    if existing is not None:
        return existing
    from bcvm_core.session import interruptible

    cells = Cells(shell, door, on=on)
    cells.work.start()
    cells.leave_interruptible = interruptible()
    shell.ast_transformers.append(cells)
    shell.input_transformers_cleanup.append(first_line_to_call)
    # The shell calls its own compiler; `run_cell(shell_futures=False)` makes a new one of the class.
    cells_class = _hooked(type(shell.compile), cells)
    shell.compile.__class__ = cells_class
    shell.compiler_class = cells_class
    shell.events.register("pre_run_cell", cells.cell_starts)
    shell.events.register("post_run_cell", cells.cell_ends)
    setattr(shell, _ATTRIBUTE, cells)
    return cells


def detach(shell: Any) -> None:
    """Take the hooks out again; without hooks nothing happens."""
    cells = cells_of(shell)
    if cells is None:
        return
    delattr(shell, _ATTRIBUTE)
    cells.work.stop()
    cells.leave_interruptible()
    config.current.enabled = cells.enabled_before
    shell.events.unregister("pre_run_cell", cells.cell_starts)
    shell.events.unregister("post_run_cell", cells.cell_ends)
    plain = type(shell.compile).__bases__[0]
    shell.compile.__class__ = plain
    shell.compiler_class = plain
    shell.input_transformers_cleanup.remove(first_line_to_call)
    if cells in shell.ast_transformers:
        shell.ast_transformers.remove(cells)
