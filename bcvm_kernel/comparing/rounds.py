"""Runs the engines in turn, each from the state that the cell began with, and times them."""

from __future__ import annotations

import ast
import inspect
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from IPython.utils.capture import capture_output

from bcvm_core import config, ready
from bcvm_core.progress import bar

from ..options import MagicError
from .engines import NEEDS, CellCode, Converted, Engine, Numpy, UnfitError, Vm
from .graphs import Jit
from .result import Comparison, Outcome
from .state import State, is_tensor
from .values import Leaves, compare, leaves

if TYPE_CHECKING:
    from ..shell import Cells

MOST_ROUNDS, FEWEST_ROUNDS = 20, 3
READY_S = 20.0
ENOUGH_S = 5.0  # no further round once all together have taken so long, unless a number was asked for
_IPYTHONS = re.compile(r"_+|_i+|_i?\d+|_[oid]h|In|Out|exit|quit|open|get_ipython|__\w+__")  # names that are no part of a cell's work


class Comparing:
    """One comparison: made just before the cell's statements run, finished after them. Raises MagicError for what can't be compared."""

    def __init__(self, cells: Cells, source: str, engines: tuple[str, ...], rounds: int | None) -> None:
        self.cells, self.rounds = cells, rounds
        shell = cells.shell
        module = ast.parse(shell.transform_cell(source))
        body = module.body[1:]  # without `%%bcvm`
        if not body:
            raise MagicError("%%bcvm --compare: the cell is empty", fix="write the lines to be compared below")
        flags = shell.compile.flags | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        code = compile(ast.Module(body, []), "<cell>", "exec", flags, dont_inherit=True)
        if code.co_flags & inspect.CO_COROUTINE:
            raise MagicError("%%bcvm --compare: the cell awaits at its top level", fix="compare a cell without `await`")
        self.cell = CellCode(body, "<cell>", shell.compile.flags)
        self.state = State(shell.user_ns, code, lambda: [n for n in shell.user_ns if not _IPYTHONS.fullmatch(n)])
        self.engines = [self._engine(name) for name in dict.fromkeys(("bcvm", *engines))]

    def _engine(self, name: str) -> Engine:
        if name == "bcvm":
            return Vm(name, self.cell, self.state, self.cells.door)
        kind = {"numpy": Numpy, "jit": Jit}.get(name, Converted)
        return kind(name, self.cell, self.state)

    def finish(self, filename: str | None, first_s: float, error: BaseException | None, result: Any) -> Comparison:
        """Run all engines; the notebook is afterwards as the cell left it. An interrupt ends the rounds and keeps those that were timed.

        `first_s`, `error`, `result`: of the cell itself, which has run. Raises MagicError when what it left is too large to be copied.
        """
        self.cell.filename = filename or self.cell.filename
        namespace = self.state.namespace
        code = compile(ast.Module(self.cell.body, []), "<cell>", "exec", self.cell.flags, dont_inherit=True)
        left = State(namespace, code, lambda: self.state.names, also=self.state.values())
        outcomes = {engine.name: Outcome(engine.name) for engine in self.engines}
        outcomes["bcvm"].first_s = first_s
        outcomes["bcvm"].error = "" if error is None else describe(error)
        reference = leaves(namespace, self.state.names, result) if error is None else None
        interrupted = False
        before = config.current.enabled
        try:
            self._run(outcomes, reference)
        except KeyboardInterrupt:
            interrupted = True
        finally:
            config.current.enabled = before
            for engine in self.engines:
                engine.close()
            left.restore()
        return Comparison([outcomes[engine.name] for engine in self.engines], interrupted)

    def _run(self, outcomes: dict[str, Outcome], reference: Leaves | None) -> None:
        """One run of each that is not counted, whose values are compared; then rounds, each beginning with another engine."""
        alive = []
        for engine in self.engines:
            outcome = outcomes[engine.name]
            if outcome.error:
                continue
            took = self._once(engine, outcome, first=True)
            if took is None:
                continue
            outcome.first_s = outcome.first_s if engine.vm else took
            if reference is not None:
                outcome.verdict = compare(reference, leaves(self.state.namespace, self.state.names, self._shown))
            alive.append(engine)
        if self.engines[0] in alive and config.current.fuse:
            ready(READY_S)  # else kernels that its first run asked for would be compiled beside the others
            self._once(self.engines[0], outcomes["bcvm"])
        began = time.perf_counter()
        for number in bar("comparing")(range(self.rounds or MOST_ROUNDS)):
            if self.rounds is None and number >= FEWEST_ROUNDS and time.perf_counter() - began > ENOUGH_S:
                break
            turn = number % max(1, len(alive))
            for engine in [*alive[turn:], *alive[:turn]]:
                took = self._once(engine, outcomes[engine.name])
                if took is None:
                    alive.remove(engine)
                else:
                    outcomes[engine.name].times_s.append(took)

    def _once(self, engine: Engine, outcome: Outcome, *, first: bool = False) -> float | None:
        """The seconds of one run, or None when it failed, which `outcome` then tells."""
        self.state.restore()
        self._shown: Any = None
        try:
            with _silent(), _nothing_native() if engine.name in NEEDS else nullcontext():
                sys.displayhook = self._note
                engine.prepare()
                config.current.enabled = engine.vm
                started = time.perf_counter()
                engine.run()
                self._wait()
                took = time.perf_counter() - started
            if first:
                engine.check([*self.state.namespace.values(), self._shown])
        except Exception as error:
            outcome.error = describe(error)
            return None
        return took

    def _note(self, value: Any) -> None:
        self._shown = value

    def _wait(self) -> None:
        """MindSpore computes while Python goes on: a run is over when the tensors that it left have their values."""
        if "mindspore" in sys.modules:
            for value in (*map(self.state.namespace.get, self.state.names), self._shown):
                if is_tensor(value):
                    value.asnumpy() if not str(value.dtype).startswith("BFloat") else value.float().asnumpy()


def describe(error: BaseException) -> str:
    """An error in one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    text = lines[0] if isinstance(error, UnfitError) else text
    return text if len(text) <= 200 else text[:199] + "…"


@contextmanager
def _silent() -> Iterator[None]:
    """Nothing that a run prints or displays is shown: the cell has shown it."""
    with capture_output():
        yield


@contextmanager
def _nothing_native() -> Iterator[None]:
    """What a library's native code writes itself, about compiling or by `print` in a graph, goes nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    kept = {stream: os.dup(stream) for stream in (1, 2)}
    for stream in kept:
        os.dup2(nowhere, stream)
    try:
        yield
    finally:
        for stream, before in kept.items():
            os.dup2(before, stream)
            os.close(before)
        os.close(nowhere)
        _keep_interrupts()


def _keep_interrupts() -> None:
    """MindSpore, when it has compiled a graph, takes Ctrl-C for itself and ends the process: Python's handler is put in again."""
    handler = signal.getsignal(signal.SIGINT)
    if handler is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, handler)
