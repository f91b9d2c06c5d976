"""What an open dashboard, or a run that is recorded, costs a busy cell, and how large a notebook is: `python -m tests.bench.flood`.

Cells of one to four seconds with a dashboard closed and open, and recorded without one, in turn; medians of the processor time of the whole
process, the thread that looks and sends included. Needs the extra `lab`.
"""

from __future__ import annotations

import contextlib
import functools
import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import comm
import numpy as np

import bcvm_core as bcvm
import bcvm_widgets
from bcvm_core import session as sessions
from tests.bench.progress import cases
from tests.widgets.conftest import Notebook
from tests.widgets.test_live import Channel

FUNCTIONS = """
import numpy as np
from bcvm_core import ops

def act(x, b):
    return np.maximum(x * 2.0 + b, 0.0) * 0.5

def scores(x, b):
    return (x @ b).sum() + np.tanh(x).max()

def dense(x, w):
    return ops.gelu(ops.linear(x, w))
"""
CASES = (
    ("one fused kernel, 64 elements", "act", np.ones(64, np.float32), 3_000_000),
    ("one fused kernel, 4,096 elements", "act", np.ones(4096, np.float32), 1_000_000),
    ("one fused kernel, 100,000 elements", "act", np.ones(100_000, np.float32), 60_000),
    ("several kernels, 8 x 8", "scores", np.ones((8, 8), np.float32), 150_000),
    ("several kernels, 64 x 64", "scores", np.ones((64, 64), np.float32), 40_000),
    ("a product with what follows it, 768 x 768", "dense", np.ones((768, 768), np.float32), 60),
    ("every call handed back to Python (an event each)", "act", np.ones(8, object), 150_000),
)
STATES = ("closed", "open", "recorded")
ROUNDS = 3


def main() -> None:
    """Print the table."""
    assert bcvm.ready()
    comm.create_comm = functools.partial(Channel, [])
    notebook = Notebook()
    sessions.set_current(notebook.session)
    notebook.run(FUNCTIONS)
    board = bcvm_widgets.dashboard()
    print(f"{'a cell of calls of':<50}{'calls':>10}" + "".join(f"{title:>14}" for title in (*STATES, "notebook")))
    for name, function, operand, calls in cases("flood", CASES):
        notebook.names["x"] = operand
        closed, *others = (statistics.median(took) / calls for took in _each(notebook, board, function, calls))
        shown = [f"{closed:>11.0f} ns", *(f"{took:>8.0f} ({took / closed:.2f})"[-14:].rjust(14) for took in others)]
        print(f"{name:<50}{calls:>10,}{''.join(shown)}{_size(board) / 1000:>11.0f} kB", flush=True)


def _each(notebook: Notebook, board: Any, function: str, calls: int) -> Iterator[list[int]]:
    """Processor time of the whole process for the calls, in ns, in each of `STATES`."""
    took: dict[str, list[int]] = {state: [] for state in STATES}
    for round_ in range(ROUNDS):
        for k in range(len(STATES)):
            state = STATES[(round_ + k) % len(STATES)]
            with _looked_at(board, state):
                notebook.run(f"for _ in range(100): y = {function}(x, x)")
                started = time.process_time_ns()
                notebook.run(f"for _ in range({calls}): y = {function}(x, x)")
                took[state].append(time.process_time_ns() - started)
    yield from took.values()


@contextlib.contextmanager
def _looked_at(board: Any, state: str) -> Iterator[None]:
    """The dashboard open, or the run recorded into a file, or neither."""
    if state == "recorded":
        with tempfile.TemporaryDirectory() as folder, bcvm_widgets.recording(Path(folder) / "run.json"):
            yield
        return
    if state == "open":
        _command(board, "shown")
    yield
    if state == "open":
        _command(board, "hidden")


def _command(board: Any, name: str) -> None:
    board._receive(board, {"version": bcvm_widgets.PROTOCOL_VERSION, "command": name, "view": "bench", "cell": 0}, [])


def _size(board: Any) -> int:
    """Characters that it puts into a saved notebook: the state of the widget, its script and styles, and the static forms."""
    data, _ = board._repr_mimebundle_()
    return len(json.dumps(board.get_state())) + len(json.dumps(data))


if __name__ == "__main__":
    main()
