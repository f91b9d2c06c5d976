"""Cells through `CellSession` mean what they mean in plain IPython: output, results, errors, names."""

from __future__ import annotations

import ast
import contextlib
import gc
import io
import linecache
import re
import threading
import warnings
from typing import Any

import numpy as np
import pytest

from bcvm_core.events import Bound, Lowered, bus
from bcvm_core.jit import linker_of
from bcvm_core.session import CellSession

pytest.importorskip("IPython")
from IPython.core.interactiveshell import InteractiveShell  # noqa: E402
from traitlets.config import Config  # noqa: E402

from bcvm_kernel.shell import attach  # noqa: E402

CELLS = [
    "import numpy as np\nx = np.linspace(0,1,6,dtype='f4').reshape(2,3)\ny = x[::-1].copy()",
    "a = x*2 + 1\nb = np.abs(a) - y\nc = b*b\nc - a",
    "x*3+1;",
    "Out[2].max(), _2 is Out[2]",
    "import asyncio\nd = x*2+1\nawait asyncio.sleep(0)\ne = d*d - x\ne.max()",
    "for i in range(4):\n    x = x*0.5 + i\n    if i == 2: break\nelse:\n    x = x*100\nx",
    "def f(v):\n    t = v*2+1\n    return np.maximum(t, 0) - v\n[f(x) for _ in range(4)][-1]",
    "def f(v):\n    t = v*3+1\n    return np.maximum(t, 0) - v\n[f(x) for _ in range(4)][-1]",
    "class M:\n    def __init__(self, w): self.__w = w\n    def go(self, v):\n        z = v*self.__w + 1\n        return np.abs(z)*2\n"
    "m = M(x); [m.go(y) for _ in range(3)][-1]",
    "p = x*2\nq = p + np.ones((7,7))\nr = q*2",
    "p.max(), 'q' in dir()",
    "k = x*2 + undefined_name\nz=1",
    "s = 0\nfor i in range(1000):\n    s += i*3 % 7\ns",
    "g = (v*2+1 for v in [x,y]); [q.max() for q in g]",
    "%time w = x*2+1",
    "w",
    "_ = 5; x*1+0",
    "del a\n'a' in globals()",
    "lam = lambda v: np.abs(v)*2+1; lam(x)",
    "locals() is globals(), sorted(n for n in globals() if 'bcvm' in n)",
    "x += y*2 + 1\nv = x*2 - y\nx[0] = v[0]*2 + 1\nx",
    "try:\n    u = x*2; w = u + np.ones((9,9))\nexcept ValueError as ex: print(ex, u.max())\nfinally: fin = x*2+1",
    "def g(v):\n    h = v*2\n    return (h + np.ones((9,9))) * 2\ng(x)",
    "1/0",
    "f?",
    "%%capture cc\nprint(x*2+1)",
    "cc.stdout",
    "import functools\n@functools.lru_cache\ndef h2(n): return n*2\nh2(3)",
    "if True:\n    def gg(v): return v+1\ngg(x)",
    "z0 = np.zeros(3); z1 = 1/z0",
    "x[1:] *= 2; x",
    "q1, q2 = x*2, x+1\nq1-q2",
    "print(f'{x.max():.3f}')",
    "[i*x for i in range(2)]",
    "dd={}\nfor i in range(3): dd[i] = x*i\ndd[2]",
    "assert (x > -1e9).all()\nx.T.shape",
    "'a' (1)",
]


def run_cells(cells: list[str], *, linked: bool) -> tuple[list[Any], CellSession | None, dict[str, Any]]:
    """Outputs of cells in a fresh shell, its session when linked, and its namespace."""
    shell = InteractiveShell(user_ns={}, config=Config({"HistoryManager": {"enabled": False}}))
    session = None
    if linked:
        session = CellSession(lambda: shell.user_ns)
        attach(shell, session, on=True)
    outputs = []
    for cell in cells:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            result = shell.run_cell(cell, store_history=True)
        parts = (out.getvalue(), repr(result.result), type(result.error_in_exec).__name__, err.getvalue())
        outputs.append(tuple(re.sub(r"0x[0-9a-f]+|(CPU times|Wall time).*|\x1b\[[0-9;]*m", "", p) for p in parts))
    return outputs, session, shell.user_ns


@pytest.mark.filterwarnings("default")
def test_cells_are_plain_ipython() -> None:
    plain, _, names = run_cells(CELLS, linked=False)
    linked, session, linked_names = run_cells(CELLS, linked=True)
    for cell, a, b in zip(CELLS, plain, linked, strict=True):
        assert a == b, cell
    for name, value in names.items():
        if isinstance(value, np.ndarray):
            assert value.tobytes() == linked_names[name].tobytes(), name
    assert session is not None
    assert session.stats().call_op > 100
    assert session.stats().share() == 1.0


def compiled(session: CellSession, source: str) -> Any:
    return session.compile_node(ast.parse(source), "<cell>", lambda node: compile(node, "<cell>", "exec"))  # type: ignore[call-overload]


def test_plain_python_is_compiled_to_the_same_code() -> None:
    session = CellSession(dict)
    loop = "s = 0\nfor i in range(1000000):\n    s = s + i * 3 % 7"
    assert compiled(session, loop).co_code == compile(loop, "<cell>", "exec").co_code


def test_an_unchanged_cell_is_linked_once() -> None:
    namespace = {"np": np, "x": np.ones(3)}
    session = CellSession(lambda: namespace)
    first = compiled(session, "y = np.abs(x) * 2")
    assert compiled(session, "y = np.abs(x) * 2") is first
    namespace["x"] = 3  # type: ignore[assignment]
    assert compiled(session, "y = np.abs(x) * 2") is not first


def test_strict_cells(capsys: pytest.CaptureFixture[str]) -> None:
    namespace: dict[str, Any] = {"np": np, "x": np.ones(3)}
    session = CellSession(lambda: namespace)
    session.strict = True
    from bcvm_core.errors import StrictError

    with pytest.raises(StrictError):
        exec(compiled(session, "np.add(x, 1, where=x > 0)"), namespace)


def test_cell_statistics_count_the_latest_cell() -> None:
    _, session, _ = run_cells(["import numpy as np\nx = np.ones(3)", "y = x * 2 + 1"], linked=True)
    assert session is not None
    assert {row.op: row.call_op for row in session.cell_stats().rows()} == {"multiply": 1, "add": 1}


def run_statement(session: CellSession, namespace: dict[str, Any], source: str) -> None:
    exec(compiled(session, source), namespace)


@pytest.mark.parametrize("leave", ["", "    if v > 20: break\n", "    if v % 2: continue\n"])
def test_watched_loops_mean_what_loops_mean(leave: str) -> None:
    source = f"log = []\nfor v in items():\n    log.append(v)\n{leave}    total = total + v * 2\nelse:\n    log.append('else')\n"
    results = []
    for linked in (False, True):
        for values in ([], [1, 2], list(range(30)), [np.arange(3) + k for k in range(20)] if not leave else []):
            namespace: dict[str, Any] = {"total": 0, "items": lambda values=values: (v for v in values)}
            if linked:
                session = CellSession(lambda namespace=namespace: namespace)
                run_statement(session, namespace, source)
            else:
                exec(source, namespace)
            results.append((repr(namespace["total"]), repr(namespace["log"])))
    assert results[: len(results) // 2] == results[len(results) // 2 :]


def test_watched_loops_count_tensor_work() -> None:
    namespace: dict[str, Any] = {"total": 0, "items": lambda: (np.arange(3.0) for _ in range(20))}
    session = CellSession(lambda: namespace)
    run_statement(session, namespace, "for v in items():\n    total = total + v * 2\n")
    assert session.stats().call_op == 40


def test_errors_in_watched_loops_show_the_users_frames() -> None:
    import traceback

    session = CellSession(dict)
    with pytest.raises(TypeError) as caught:
        exec(compiled(session, "n = 5\nt = 0\nfor v in (lambda: n)():\n    t += v\n"), {})
    assert "not iterable" in str(caught.value)
    assert [f.name for f in traceback.extract_tb(caught.value.__traceback__)][1:] == ["<module>"]


def test_warnings_are_shown_as_often_as_in_python() -> None:
    cells = ["import numpy as np\nx = np.ones(2)", "a = x / 0; b = x / 0", "c = x * 2; d = x / 0"]
    shown = []
    for linked in (False, True):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("default")
            run_cells(cells, linked=linked)
        shown.append([(str(w.message), w.lineno) for w in seen])
    assert shown[0] == shown[1]
    assert len(shown[0]) == 2


LOOPS = [
    "import numpy as np\nk = {1: 5}\nlog = []",
    "def gen(n):\n    try:\n        for i in range(n): yield i\n    finally: log.append('closed')",
    "for v in gen(5):\n    s = v * k[1] + 1\n    if v == 2: break\nlog",
    "for v in gen(50):\n    s = v * k[1] + 1\n    if v == 22: break\nlog",
    "for v in gen(50):\n    s = v * k[1] + 1\n    if v == 30: raise ValueError('x')",
    "log",
    "class Asked:\n    def __init__(s, n): s.n, s.asked = n, 0\n    def __iter__(s): return s\n    def __next__(s):\n"
    "        s.asked += 1\n        if s.asked == s.n: raise StopIteration\n"
    "        if s.asked > 30: raise RuntimeError\n        return s.asked",
    "res = []\nfor n in [1, 2, 7, 8, 9, 10, 15]:\n    a = Asked(n)\n    for q in a: z = q * k[1]\n    res.append(a.asked)\nres",
    "for q in Asked(40): z = q * k[1]",
    "import weakref\na = Asked(20); r = weakref.ref(a)\nfor q in a:\n    z = q * k[1]\ndel a\nr() is None",
]


def test_iterators_are_asked_and_let_go_as_in_python() -> None:
    plain, _, _ = run_cells(LOOPS, linked=False)
    linked, _, _ = run_cells(LOOPS, linked=True)
    assert linked == plain


def test_what_a_subshell_runs_meanwhile_does_not_end_the_running_cell() -> None:
    names: dict[str, Any] = {"np": np, "x": np.ones(3)}
    session = CellSession(lambda: names)

    def run(code: str) -> None:
        for node in session.transform(ast.parse(code)).body:
            exec(session.compile_node(ast.Module([node], []), "<cell>", lambda n: compile(n, "<cell>", "exec")), names)

    def meanwhile() -> None:
        run("z = x * 3 + 1")
        session.finish()

    run("y = x * 2 + 1")
    thread = threading.Thread(target=meanwhile)
    thread.start()
    thread.join()
    (cell,) = session.cells
    assert cell.ended_ns is None and len(cell.tables) == 1
    assert (names["z"] == 4).all() and session.stats().call_op == 4
    session.finish()
    thread = threading.Thread(target=run, args=("z = x * 4",))
    thread.start()
    thread.join()
    run("y = x * 5")  # the cell of a thread that is gone is over
    assert [cell.ended_ns is None for cell in session.cells] == [False, False, True]


class _Cells:
    """A session whose cells are run as a shell runs them, and what the VM says meanwhile."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {"__name__": "__main__", "np": np, "x": np.ones(3)}
        self.session = CellSession(lambda: self.names)

    def run(self, text: str) -> list[str]:
        """Run a cell; returns what was lowered or bound."""
        filename = f"<cell {hash(text)}>"
        linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
        seen: list[Any] = []
        unsubscribe = bus.subscribe(seen.append)
        try:
            for node in self.session.transform(ast.parse(text, filename)).body:
                code = self.session.compile_node(ast.Module([node], []), filename, lambda n: compile(n, filename, "exec"))
                exec(code, self.names)
            self.session.finish()
        finally:
            unsubscribe()
        return [event.name for event in seen if isinstance(event, Lowered)] + ["bound" for event in seen if isinstance(event, Bound)]

    def ran(self) -> int:
        return self.session.stats().call_op


DEFINES = "def f(v):\n    t = v * 2\n    return t + 1\ny = f(x) * 3\n"


JITTED = "import bcvm_core as bcvm\n@bcvm.jit\n" + DEFINES


@pytest.mark.parametrize("cell", ["y = x * 2 + 1", "for i in range(3):\n    z = x * i\n", "x += 1", DEFINES, JITTED])
def test_running_an_unchanged_cell_again_reuses_its_program(cell: str) -> None:
    cells = _Cells()
    assert cells.run(cell) != []
    first = cells.ran()
    for n in range(2, 5):
        assert cells.run(cell) == []
        assert cells.ran() == n * first


def test_a_function_defined_again_begins_to_count_again() -> None:
    cells = _Cells()
    for _ in range(3):
        cells.run(DEFINES)
        assert "line 2    run    multiply, add: 1 runs" in linker_of(cells.names["f"]).explain()
        assert linker_of(cells.names["f"]).stats.call_op == 2
        assert cells.session.cell_stats().call_op == 3
    assert cells.ran() == 9


def test_functions_jitted_in_a_cell_count_in_the_session() -> None:
    cells = _Cells()
    for _ in range(2):
        cells.run(JITTED)
        assert cells.names["f"].stats().call_op == 2
        assert cells.session.cell_stats().call_op == 3
    kept = cells.names["f"].stats()
    cells.run(JITTED)
    assert kept.call_op == 2 and kept is not cells.names["f"].stats()
    cells.run(JITTED.replace("@bcvm.jit", "@bcvm.jit(strict=True)"))
    assert linker_of(cells.names["f"]).strict


def test_counts_of_functions_that_are_gone_stay() -> None:
    cells = _Cells()
    cells.run(DEFINES)
    cells.run("f = None")
    cells.run("del f")
    cells.session._cache.clear()
    gc.collect()
    assert cells.ran() == 3
    cells.run("z = x * 2")
    assert cells.session.cell_stats().call_op == 1


def test_a_function_defined_again_under_other_conditions_is_linked_anew() -> None:
    cells = _Cells()
    annotated = "from bcvm_core import Tensor\ndef g(v: Tensor[HINT]):\n    return v * 2\n"
    cells.names["HINT"] = 3
    cells.run(annotated)
    assert cells.run(annotated) == []
    cells.names["HINT"] = 4
    assert cells.run(annotated) == ["g"]
    never = "def h(v):\n    return v * 2\n"
    cells.run(never)
    for _ in range(20):
        cells.names["h"](3)  # no tensors: the site is taken out
    assert cells.run(never) == ["h"]
    cells.run("w = h(x)")
    assert cells.session.cell_stats().call_op == 1


def test_defaults_and_other_functions_of_the_same_code_stay_their_own() -> None:
    cells = _Cells()
    cell = "def f(v, k=k):\n    return v * k\n"
    cells.names["k"] = 2
    cells.run(cell)
    first = cells.names["f"]
    cells.names["k"] = 5
    cells.run(cell)
    assert (first(np.ones(2)) == 2).all() and (cells.names["f"](np.ones(2)) == 5).all()
    assert linker_of(first) is linker_of(cells.names["f"])


def test_an_expression_alone_runs_through_the_vm() -> None:
    """As `%time` compiles it."""
    cells = _Cells()
    tree = ast.parse("(x * 2 + 1).sum()", "<cell>", "eval")
    for _ in range(2):
        code = cells.session.compile_node(tree, "<cell>", lambda n: compile(n, "<cell>", "eval"))
        assert eval(code, cells.names) == 9
    assert cells.ran() == 6
