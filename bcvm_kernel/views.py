"""What the magics print: texts made from the core's read-only views."""

from __future__ import annotations

import operator
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy

from bcvm_core import config, modes, program_of
from bcvm_core.isa.text import disassemble
from bcvm_core.jit import linker_of
from bcvm_core.version import __version__

from .options import MagicError
from .shell import CellOptions, Cells
from .work import duration

if TYPE_CHECKING:
    from bcvm_core.isa.program import Program
    from bcvm_core.vm.linked import Linker
    from bcvm_core.vm.stats import Stats
    from bcvm_widgets.reports import Report

    from .comparing.result import Comparison


def object_named(cells: Cells, name: str) -> Any:
    """What a (dotted) name of the notebook stands for. Raises MagicError when there is nothing."""
    first, _, rest = name.partition(".")
    try:
        value = cells.shell.user_ns[first]
        return operator.attrgetter(rest)(value) if rest else value
    except (KeyError, AttributeError):
        raise MagicError(f"this notebook has no {name!r}", fix="give the name of a function you defined or imported") from None


def function_named(cells: Cells, name: str) -> FunctionType:
    """The function behind a name of the notebook. Raises MagicError when there is none."""
    value = object_named(cells, name)
    value = getattr(value, "__func__", value)
    if not isinstance(value, FunctionType):
        raise MagicError(f"{name!r} is a {type(value).__name__}, not a Python function", fix="without a name, the latest cell is shown")
    return value


def _linker(cells: Cells, name: str) -> Linker:
    linker = linker_of(function_named(cells, name))
    if linker is None:
        fix = "define it in a cell while BCVM is on, or decorate it with @bcvm.jit"
        raise MagicError(f"{name!r} was not lowered: it runs as plain Python", fix=fix)
    return linker


def program(cells: Cells, name: str | None) -> Program:
    """The Program of a function or model, or of the latest cell."""
    if name is not None and modes.is_model(object_named(cells, name)):
        return modes.program_of_model(object_named(cells, name))
    found: Program = cells.door.program() if name is None else program_of(function_named(cells, name))
    return found


def listing(cells: Cells, name: str | None) -> str:
    """The text form of `program`."""
    return name_cells(cells, disassemble(program(cells, name)).rstrip())


def explanation(cells: Cells, name: str | None, brief: bool = False) -> str:
    """Which statements became regions, how often they ran, why some were handed back; unless `brief`, what was fused in them."""
    if name is not None and modes.is_model(object_named(cells, name)):
        return modes.explain(object_named(cells, name))
    return name_cells(cells, cells.door.explain(brief) if name is None else _linker(cells, name).explain(brief))


def statistics(cells: Cells, name: str | None) -> Stats:
    """Executions per op: of a function, or of everything in this session."""
    found: Stats = cells.door.stats() if name is None else _linker(cells, name).stats.snapshot()
    return found


def report(run: str | None, output: str | None, times: bool) -> Report | None:
    """What a dashboard would show now, or a recorded run; with `output` written as an HTML file instead. Raises BcvmError."""
    import bcvm_widgets
    from bcvm_widgets import runs
    from bcvm_widgets.page import page
    from bcvm_widgets.reports import Report

    recorded = None if run is None else runs.read(run)
    shown = bcvm_widgets.report(times=times) if recorded is None else Report(recorded.sample(), times=times)
    if output is None:
        return shown
    try:
        Path(output).write_text(page(recorded or runs.of_sample(shown.sample)), encoding="utf-8")
    except OSError as error:
        raise MagicError(f"cannot write {output}: {error.strerror}", fix="choose a folder that exists and can be written to") from None
    print(f"{output} is written")
    return None


def docked() -> Any:
    """A dashboard that docks itself beside the notebook when it is displayed. Raises MagicError without the package that it needs."""
    import bcvm_widgets

    try:
        return bcvm_widgets.dashboard(docked=True)
    except ImportError as error:
        raise MagicError(f"the dashboard needs {error.name}", fix="pip install 'bcvm[lab]'") from None


def name_cells(cells: Cells, text: str) -> str:
    """`text` with ``<cell>`` for the files that IPython pretends cells to be: what is printed again is the same.

    Their numbers would not be: runners such as nbval don't count executions.
    """
    for filename in getattr(cells.shell.compile, "_filename_map", ()):
        text = text.replace(filename, "<cell>")
    return text


def status(cells: Cells) -> str:
    """The switch, the versions, the session's figures and what was done for the first time."""
    return "\n".join(_status_lines(cells))


def _status_lines(cells: Cells) -> Iterator[str]:
    functions = config.current.enabled
    if cells.on and functions:
        yield f"BCVM {__version__} is on: cells and the functions they define run through the VM (%bcvm off leaves them to Python)"
    elif functions:
        yield f"BCVM {__version__} is on for @bcvm.jit functions and %%bcvm cells; other cells are plain Python (%bcvm on changes that)"
    else:
        yield f"BCVM {__version__} is off: everything is plain Python (%bcvm on changes that)"
    yield f"Python {sys.version.split()[0]}, NumPy {numpy.__version__}"
    stats = cells.door.stats()
    if stats.call_op + stats.call_host:
        share = f"{stats.share():.1%}"
        yield f"ops run so far: {stats.call_op} by CALL_OP, {stats.call_host} by CALL_HOST ({share} by CALL_OP); %bcvm stats lists them"
    else:
        yield "no op of the table has run yet"
    if cells.work.total_us:
        yield f"first-time work so far: {duration(cells.work.total_us)} ({cells.work.parts()}); a cell or shape seen before needs none"


def comparison(options: CellOptions) -> Comparison | None:
    """Run what ``%%bcvm --compare`` asked for, once the cell is over; None when the cell did not begin, or was interrupted."""
    result = options.result
    error = None if result is None else result.error_before_exec or result.error_in_exec
    if options.comparing is None or result is None or isinstance(error, KeyboardInterrupt):
        return None
    return options.comparing.finish(options.filename, options.ended - options.started, error, result.result)


def after_cell(cells: Cells, options: CellOptions) -> Iterator[str]:
    """What ``%%bcvm`` was asked to print when its cell has run."""
    elapsed_us = (options.ended - options.started) * 1e6
    if options.off and (options.dis or options.stats):
        yield "this cell ran as plain Python: no bytecode, nothing counted"
    elif options.dis:
        yield listing(cells, None)
    if options.stats and not options.off:
        yield cells.door.cell_stats().table()
    if options.measured is not None:
        yield name_cells(cells, options.measured.table())
    if options.time:
        yield f"wall time: {duration(elapsed_us)}"
