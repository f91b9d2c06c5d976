"""A notebook without a kernel: cells run through a `CellSession` as a shell would run them."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import bcvm_core as bcvm
from bcvm_core import session as sessions
from bcvm_core.tiers.clock import clock

FUNCTION = """
import numpy as np

def step(x, w):
    h = np.maximum(x @ w, 0)
    for _ in range(2):
        h = h * 0.5 + np.tanh(h)
    return h / h.sum(axis=1, keepdims=True)
"""
CELL = """
x = np.ones((4, 8))
w = np.ones((8, 8)) * 0.1
for k in range(3):
    x = step(x + k, w)
total = np.sqrt(x).sum()
"""


class Notebook:
    """Runs cells; `session` is what a kernel would hold."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.session = sessions.CellSession(lambda: self.names)

    def run(self, text: str, *, finish: bool = True) -> None:
        """Run one cell; with `finish=False` it counts as running still."""
        text = text.strip("\n") + "\n"
        filename = f"<cell {id(self)} {len(self.session.cells)} {hash(text)}>"
        linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
        module = self.session.transform(ast.parse(text, filename))
        for node in module.body:
            code = self.session.compile_node(ast.Module([node], []), filename, lambda n, f=filename: compile(n, f, "exec"))
            exec(code, self.names)
        if finish:
            self.session.finish()


@pytest.fixture(autouse=True)
def _one_by_one(request: pytest.FixtureRequest) -> Iterator[None]:
    """Ops run one by one, except in tests marked `fused`: whether stencils are there yet is a matter of time."""
    with bcvm.override(fuse=request.node.get_closest_marker("fused") is not None):
        yield


@pytest.fixture
def notebook() -> Iterator[Notebook]:
    """The notebook of this process."""
    made = Notebook()
    sessions.set_current(made.session)
    yield made
    sessions.set_current(None)
    assert not clock.on, "somebody still measures"


@pytest.fixture
def new_notebook() -> Callable[[], Notebook]:
    """Makes more notebooks."""
    return Notebook
