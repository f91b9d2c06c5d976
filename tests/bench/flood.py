"""What an open dashboard costs a busy cell, and how large it makes a notebook: `python -m tests.bench.flood`.

Cells of about a second with a dashboard open and closed, interleaved; medians of the processor time of the whole process, the thread that
looks and sends included. Needs the extra `lab`.
"""

from __future__ import annotations

import functools
import json
import statistics
import time
from typing import Any

import comm
import numpy as np

import bcvm_core as bcvm
import bcvm_widgets
from bcvm_core import session as sessions
from tests.widgets.conftest import Notebook
from tests.widgets.test_live import Channel

FUNCTIONS = """
import numpy as np

def act(x, b):
    return np.maximum(x * 2.0 + b, 0.0) * 0.5

def scores(x, b):
    return (x @ b).sum() + np.tanh(x).max()
"""
CASES = (
    ("one fused kernel, 64 elements", "act", np.ones(64, np.float32), 3_000_000),
    ("one fused kernel, 4,096 elements", "act", np.ones(4096, np.float32), 1_000_000),
    ("one fused kernel, 100,000 elements", "act", np.ones(100_000, np.float32), 60_000),
    ("several kernels, 8 x 8", "scores", np.ones((8, 8), np.float32), 50_000),
    ("several kernels, 64 x 64", "scores", np.ones((64, 64), np.float32), 40_000),
    ("every call handed back to Python (an event each)", "act", np.ones(8, object), 50_000),
)
ROUNDS = 3


def main() -> None:
    """Print the table."""
    assert bcvm.ready()
    comm.create_comm = functools.partial(Channel, [])
    notebook = Notebook()
    sessions.set_current(notebook.session)
    notebook.run(FUNCTIONS)
    board = bcvm_widgets.dashboard()
    print(f"{'a cell of calls of':<50}{'calls':>10}{'closed':>10}{'open':>10}{'ratio':>8}{'notebook':>11}")
    for name, function, operand, calls in CASES:
        notebook.names["x"] = operand
        closed, opened = _both(notebook, board, function, calls)
        size = _size(board)
        print(f"{name:<50}{calls:>10,}{closed:>7.0f} ns{opened:>7.0f} ns{opened / closed:>8.3f}{size / 1000:>8.0f} kB", flush=True)


def _both(notebook: Notebook, board: Any, function: str, calls: int) -> tuple[float, float]:
    """Processor time per call of the whole process, in ns, without and with a view."""
    took: dict[bool, list[float]] = {False: [], True: []}
    for round_ in range(ROUNDS):
        for is_open in (round_ % 2 == 0, round_ % 2 == 1):
            if is_open:
                _command(board, "shown")
            notebook.run(f"for _ in range(100): y = {function}(x, x)")
            started = time.process_time_ns()
            notebook.run(f"for _ in range({calls}): y = {function}(x, x)")
            took[is_open].append((time.process_time_ns() - started) / calls)
            if is_open:
                _command(board, "hidden")
    return statistics.median(took[False]), statistics.median(took[True])


def _command(board: Any, name: str) -> None:
    board._receive(board, {"version": bcvm_widgets.PROTOCOL_VERSION, "command": name, "view": "bench", "cell": 0}, [])


def _size(board: Any) -> int:
    """Characters that it puts into a saved notebook: the state of the widget, its script and styles, and the static forms."""
    data, _ = board._repr_mimebundle_()
    return len(json.dumps(board.get_state())) + len(json.dumps(data))


if __name__ == "__main__":
    main()
