"""``%bcvm`` and ``%%bcvm``."""

from __future__ import annotations

import sys
from typing import Any

from IPython.core.display_functions import display
from IPython.core.magic import Magics, line_cell_magic, magics_class, no_var_expand

from bcvm_core import cache_info
from bcvm_core.errors import BcvmError

from . import views
from .options import HelpAsked, cell_parser, line_parser
from .shell import REST_OF_CELL, CellOptions, Cells, parse_cell_options


@magics_class
class BcvmMagics(Magics):
    """The magics of one shell; `cells` are its hooks."""

    def __init__(self, shell: Any, cells: Cells) -> None:
        super().__init__(shell)
        self.cells = cells
        self._docked: Any = None
        cells.after_cell.append(self.report)

    @no_var_expand
    @line_cell_magic
    def bcvm(self, line: str, cell: str | None = None) -> Any:
        try:
            return self._line(line) if cell is None else self._cell(line, cell)
        except HelpAsked as help_asked:
            print(help_asked.text, end="")
            return None

    def _line(self, line: str) -> Any:
        options = line_parser().parse_line(line)
        match options.command:
            case "on" | "off":
                self.cells.switch(options.command == "on")
            case "dis" if options.object:
                return views.program(self.cells, options.name)
            case "dis":
                print(views.listing(self.cells, options.name))
            case "explain":
                print(views.explanation(self.cells, options.name, options.brief))
            case "cache" if options.object:
                return cache_info()
            case "cache":
                print(cache_info().table())
            case "stats" if options.object:
                return views.statistics(self.cells, options.name)
            case "stats":
                print(views.statistics(self.cells, options.name).table())
            case "watch":
                self._watch(options.state == "on")
            case "report":
                return views.report(options.run, options.output, options.times)
            case _:
                print(views.status(self.cells))
        return None

    def _watch(self, on: bool) -> None:
        """Close the docked dashboard, if there is one, and open another."""
        before, self._docked = self._docked, None
        if before is not None:
            before.close()
        elif not on:
            print("no dashboard is docked")
        if on:
            self._docked = views.docked()
            display(self._docked)  # type: ignore[no-untyped-call]

    def _cell(self, line: str, cell: str) -> None:
        options = parse_cell_options(line)
        if cell == REST_OF_CELL:
            self.cells.begin(options)
            return
        # Called as a function with a cell's text, by another magic for instance.
        self.cells.shell.run_cell(f"%%bcvm {line}\n{cell}").raise_error()

    def report(self, options: CellOptions) -> None:
        """After a ``%%bcvm`` cell: print what its options asked for."""
        try:
            for text in views.after_cell(self.cells, options):
                print(text)
            if options.recording is not None:
                options.recording.run.save(options.recording.path)
            comparison = views.comparison(options)
            if comparison is not None:
                self.cells.latest_comparison = comparison
                display(comparison)  # type: ignore[no-untyped-call]
        except BcvmError as error:  # the cell itself is over and has its status
            print(f"%%bcvm: {error}", file=sys.stderr)


BcvmMagics.bcvm.__doc__ = f"""Look into the tensor bytecode VM, or set options for one cell.

{line_parser().format_help()}
{cell_parser().format_help()}"""
