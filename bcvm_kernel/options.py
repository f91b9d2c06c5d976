"""Command lines of the magics: argparse that neither exits nor writes to stderr.

A wrong option raises `MagicError`. IPython's own `UsageError` would print to stderr and let the
cell count as a success, which hides the mistake from nbval and nbconvert.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn

from bcvm_core.errors import BcvmError

COMMANDS = ("on", "off", "status", "dis", "explain", "stats", "cache", "report", "watch")
ENGINES = ("bcvm", "numpy", "pynative", "jit", "torch")  # `comparing.engines` says what they mean


class MagicError(BcvmError):
    """A `%bcvm` command that can't be carried out; the message says what to type instead."""

    def _render_traceback_(self) -> list[str]:
        """For IPython: the message alone; frames of argparse would say nothing more."""
        return [f"{type(self).__name__}: {self}"]


class HelpAsked(Exception):
    """Internal: ``-h`` was given; `text` is what to print instead of doing anything."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class _AskHelp(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object, **__: object) -> NoReturn:
        raise HelpAsked(parser.format_help())


def _formatter(prog: str) -> argparse.HelpFormatter:
    # A fixed width: a notebook's output doesn't depend on the size of some terminal.
    return argparse.HelpFormatter(prog, width=100)


class MagicParser(argparse.ArgumentParser):
    """ArgumentParser for use inside a cell."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{**kwargs, "add_help": False, "formatter_class": _formatter, "allow_abbrev": False})
        self.add_argument("-h", "--help", action=_AskHelp, nargs=0, dest=argparse.SUPPRESS, help="print this and do nothing")

    def error(self, message: str) -> NoReturn:
        raise MagicError(f"{self.prog}: {message}", fix=self.format_usage().strip())

    def parse_line(self, line: str) -> argparse.Namespace:
        """Parse the text behind the magic's name. Raises MagicError, HelpAsked."""
        try:
            words = shlex.split(line, comments=True)
        except ValueError as error:
            self.error(str(error))
        return self.parse_args(words)


def line_parser() -> MagicParser:
    """``%bcvm``."""
    out = MagicParser(prog="%bcvm", description="The tensor bytecode VM under this notebook: switch it, look into it.")
    commands = out.add_subparsers(dest="command", metavar="{" + ",".join(COMMANDS) + "}", parser_class=MagicParser)
    commands.add_parser("on", help="run the cells that follow through the VM")
    commands.add_parser("off", help="leave the cells that follow, and the functions they call, to plain Python")
    commands.add_parser("status", help="what runs, what was lowered, what the first cell waited for (also without a command)")
    dis = commands.add_parser("dis", help="print the bytecode of the latest cell, or of a function")
    dis.add_argument("name", nargs="?", help="a function of this notebook; without it the latest cell")
    dis.add_argument("-o", "--object", action="store_true", help="return the Program instead of printing it")
    explain = commands.add_parser("explain", help="say which statements became bytecode, and why the others did not")
    explain.add_argument("name", nargs="?", help="a function of this notebook; without it the latest cell")
    explain.add_argument("-b", "--brief", action="store_true", help="leave out what was fused, and for which patterns of operands")
    cache = commands.add_parser("cache", help="fused kernels in memory and compiled code on disk: hits, misses and why, evictions")
    cache.add_argument("-o", "--object", action="store_true", help="return the figures instead of printing them")
    stats = commands.add_parser("stats", help="executions per op, by CALL_OP and by CALL_HOST")
    stats.add_argument("name", nargs="?", help="a function of this notebook; without it the cells so far")
    stats.add_argument("-o", "--object", action="store_true", help="return the Stats instead of printing them")
    report = commands.add_parser("report", help="show the content of a dashboard now, or of a recorded run; or write it as one HTML file")
    report.add_argument("run", nargs="?", help="a file that a dashboard's save, or --record, wrote; without it the latest cell")
    report.add_argument("-o", "--output", metavar="FILE", help="write an HTML file that opens offline, with the views")
    report.add_argument("-t", "--times", action="store_true", help="with times, which differ from run to run")
    watch = commands.add_parser("watch", help="dock a dashboard beside the notebook, or close it again")
    watch.add_argument("state", nargs="?", choices=("on", "off"), default="on", help="`off` closes it")
    return out


def _engines(text: str) -> tuple[str, ...]:
    found = tuple(name.strip() for name in text.split(",") if name.strip())
    unknown = [name for name in found if name not in ENGINES]
    if unknown or not found:
        wrong = f"no engine {unknown[0]!r}" if unknown else "no engine is named"
        raise argparse.ArgumentTypeError(f"{wrong}; there are {', '.join(ENGINES)}")
    return found


def _rounds(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 10_000:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 to 10000")
    return int(text)


def cell_parser() -> MagicParser:
    """``%%bcvm``."""
    out = MagicParser(prog="%%bcvm", description="Run this cell through the VM, with options that end with the cell.")
    out.add_argument("--off", action="store_true", help="leave this cell to plain Python")
    out.add_argument("--strict", action="store_true", help="raise StrictError where an op of the table would be left to Python")
    out.add_argument("--dis", action="store_true", help="print the cell's bytecode after it ran")
    out.add_argument("--stats", action="store_true", help="print executions per op after it ran")
    out.add_argument("--profile", action="store_true", help="print calls and times per op, and compile work, after it ran")
    out.add_argument("--time", action="store_true", help="print how long it took")
    out.add_argument("--record", metavar="FILE", help="write what a dashboard would show meanwhile to a file; `report` shows it")
    names = ", ".join(ENGINES)
    about = f"run it under other engines, too, and show times and whether their values agree; of {names}, with commas between"
    out.add_argument("--compare", metavar="ENGINES", type=_engines, default=(), help=about)
    out.add_argument("--rounds", metavar="N", type=_rounds, help="timed runs of each engine (default: up to 20, as many as 5 s allow)")
    return out


def flags_of(parser: argparse.ArgumentParser) -> Iterator[str]:
    """The long options of a parser, for completion."""
    for action in parser._actions:
        yield from (text for text in action.option_strings if text.startswith("--"))


def candidates(line: str, functions: Callable[[], Iterable[str]]) -> list[str]:
    """What may stand at the end of `line` (a line up to the cursor): commands, flags, or names of functions."""
    words = line.split()
    done, word = (words, "") if line[-1:].isspace() else (words[:-1], words[-1])
    match done:
        case ["%%bcvm", *_, "--compare"]:
            found: Iterable[str] = ENGINES
        case ["%%bcvm", *given]:
            found = (flag for flag in flags_of(cell_parser()) if flag not in given)
        case ["%bcvm"]:
            found = (*COMMANDS, "--help")
        case ["%bcvm", "watch"]:
            found = ("on", "off")
        case ["%bcvm", ("dis" | "stats" | "explain") as command, *given]:
            names = [] if any(not text.startswith("-") for text in given) else sorted(functions())
            flag = {"explain": "--brief"}.get(command, "--object")
            flags = [] if {flag, flag[1:3]} & set(given) else [flag]
            found = (*names, *flags)
        case _:
            found = ()
    return [text for text in found if text.startswith(word)]
