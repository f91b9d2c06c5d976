"""``%%bcvm --compare``: one cell under several engines, each from the same state; the notebook stays as the cell left it."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("IPython")

from bcvm_core import config  # noqa: E402
from bcvm_kernel.comparing import rounds  # noqa: E402
from bcvm_kernel.comparing.result import Comparison, Outcome, drawn  # noqa: E402
from bcvm_kernel.options import MagicError  # noqa: E402
from bcvm_kernel.shell import cells_of  # noqa: E402

Run = Callable[[str], Any]
SETUP = """
import numpy as np
rng = np.random.default_rng(7)
log = []
x = np.linspace(-1, 1, 512, dtype=np.float32).reshape(16, 32)
w = np.ones((32, 32), np.float32) * 0.1
def step(x):
    h = np.maximum(x @ w, 0)
    for _ in range(2):
        h = h * 0.5 + np.tanh(h)
    return h
"""
CELL = """
log.append(len(log))
x[0, 0] += 1
drawn = rng.random(3)
y = step(x)
print("said")
y.sum()
"""


@pytest.fixture
def latest(shell: Any) -> Callable[[], Comparison]:
    """What the latest comparison has shown."""
    return lambda: cells_of(shell).latest_comparison  # type: ignore[union-attr, return-value]


def _errors(found: Comparison) -> dict[str, str]:
    return {outcome.name: outcome.error for outcome in found.outcomes if outcome.error}


def test_engines_begin_alike_and_the_notebook_is_as_the_cell_left_it(
    run_cell: Run, latest: Callable[[], Comparison], capsys: pytest.CaptureFixture[str]
) -> None:
    run_cell(SETUP)
    capsys.readouterr()
    shown = run_cell(f"%%bcvm --compare numpy --rounds 4{CELL}")
    found = latest()
    assert [(o.name, len(o.times_s), o.error) for o in found.outcomes] == [("bcvm", 4, ""), ("numpy", 4, "")]
    assert found.agree and [o.verdict is not None and o.verdict.bits for o in found.outcomes][0]
    assert capsys.readouterr().out.count("said") == 1  # the runs that are timed show nothing
    assert run_cell("len(log), float(x[0, 0])") == (1, 0.0)
    expected = np.random.default_rng(7)
    assert np.array_equal(run_cell("drawn"), expected.random(3))
    assert run_cell("rng.random()") == expected.random()
    assert run_cell("type(y).__name__, np.__name__") == ("ndarray", "numpy")
    assert np.isclose(shown, run_cell("y.sum()"), rtol=1e-6)


def test_what_is_shown_is_a_table_and_a_picture(run_cell: Run, latest: Callable[[], Comparison]) -> None:
    run_cell(SETUP)
    run_cell("%%bcvm --compare numpy --rounds 5\ny = step(x)")
    bundle = latest()._repr_mimebundle_()
    assert re.search(r"^numpy .* x  (same bits|equal within \d)", bundle["text/plain"], re.MULTILINE)
    assert "5 runs of each in turn" in bundle["text/plain"]
    assert bundle["text/html"].count("<circle") == 10 and "currentColor" in bundle["text/html"]
    about = re.search(r'role="img" aria-label="([^"]*)"', bundle["text/html"])
    assert about is not None and re.fullmatch(r"Times of the engines: bcvm .*s, numpy .*s; medians", about[1])


def test_of_very_many_rounds_the_picture_has_few_dots_and_the_table_all_times() -> None:
    times = [1e-3 + 1e-6 * k for k in range(100_000)]
    times[777] = 5.0
    found = Comparison([Outcome("bcvm", 1.0, times), Outcome("numpy", 1.0, times[:3])])
    assert found.rounds == 100_000
    text = found.html()
    assert text.count("<circle") == 200 + 3
    assert len(text) < 40_000
    assert drawn(times)[0] == min(times) and drawn(times)[-1] == 5.0
    assert float(np.median(drawn(times))) == pytest.approx(float(np.median(times)), rel=0.01)
    assert found.outcomes[0].quartiles()[1] == pytest.approx(float(np.median(times)))
    assert "The picture has 200 dots" in text and "200 dots" not in str(found)


def test_cells_that_are_plain_python_by_default_are_compared_too(run_cell: Run, latest: Callable[[], Comparison], shell: Any) -> None:
    run_cell(SETUP)
    run_cell("%%bcvm --compare numpy --rounds 2\nz = x * 2 + 1\nz")
    assert cells_of(shell).door.stats().call_op > 2  # type: ignore[union-attr]
    assert latest().agree and config.current.enabled
    before = cells_of(shell).door.stats().call_op  # type: ignore[union-attr]
    run_cell("z = x * 2 + 1")
    assert cells_of(shell).door.stats().call_op == before  # type: ignore[union-attr]


@pytest.mark.parametrize("line", ["--compare numpy,nump", "--compare ,", "--compare numpy --rounds 0", "--compare numpy --off"])
def test_mistakes_are_one_error_before_anything_runs(run_cell: Run, line: str) -> None:
    run_cell("ran = False")
    with pytest.raises(MagicError) as caught:
        run_cell(f"%%bcvm {line}\nran = True")
    assert run_cell("ran") is False
    if "nump" in line.split(",")[-1] and "," in line:
        assert "no engine 'nump'; there are bcvm, numpy, pynative, jit, torch" in str(caught.value)


def test_an_engine_that_fails_is_told_and_the_others_go_on(
    run_cell: Run, latest: Callable[[], Comparison], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    run_cell(SETUP)
    run_cell("%%bcvm --compare torch,numpy --rounds 3\ny = step(x)")
    assert list(_errors(latest())) == ["torch"] and "torch is not installed" in _errors(latest())["torch"]
    assert [len(o.times_s) for o in latest().outcomes] == [3, 0, 3]
    assert "torch is not installed" in str(latest())


def test_a_cell_that_raises_is_compared_as_far_as_that_goes(run_cell: Run, latest: Callable[[], Comparison]) -> None:
    run_cell(SETUP)
    with pytest.raises(ZeroDivisionError):
        run_cell("%%bcvm --compare numpy\nlog.append(1)\n1 / 0")
    assert set(_errors(latest()).values()) == {"ZeroDivisionError: division by zero"}
    assert "No run was timed." in str(latest())
    assert run_cell("len(log)") == 1 and config.current.enabled


def test_other_values_are_found(run_cell: Run, latest: Callable[[], Comparison]) -> None:
    run_cell(SETUP + "import itertools\ncount = itertools.count()")
    run_cell("%%bcvm --compare numpy --rounds 2\nn = next(count)")  # an iterator can't be put back
    assert not latest().agree
    assert "DIFFERS: n is 1 instead of 0" in str(latest()) and "gives other values each time" in str(latest())
    assert run_cell("n") == 0


def test_a_name_that_the_cell_removes_or_makes_anew(run_cell: Run, latest: Callable[[], Comparison]) -> None:
    run_cell(SETUP + "gone = 1")
    run_cell(
        "%%bcvm --compare numpy --rounds 2\nfor k in range(3):\n    made = x * k\ndel gone\ndef added(v): return v @ w\nq = added(made)"
    )
    assert latest().agree and _errors(latest()) == {}
    assert run_cell("'gone' in globals(), k, added(made).shape == q.shape") == (False, 2, True)
    assert run_cell("x is not None and made.dtype.name") == "float32"


def test_an_interrupt_keeps_what_was_timed_and_puts_all_back(
    run_cell: Run, latest: Callable[[], Comparison], monkeypatch: pytest.MonkeyPatch
) -> None:
    once, calls = rounds.Comparing._once, []

    def interrupted(self: Any, *given: Any, **options: Any) -> Any:
        calls.append(1)
        if len(calls) > 7:
            self.state.restore()
            raise KeyboardInterrupt
        return once(self, *given, **options)

    monkeypatch.setattr(rounds.Comparing, "_once", interrupted)
    run_cell(SETUP)
    run_cell(f"%%bcvm --compare numpy --rounds 50{CELL}")
    assert latest().interrupted and "Interrupted" in str(latest()) and 1 <= latest().rounds <= 3
    assert run_cell("len(log), float(x[0, 0])") == (1, 0.0)


@pytest.mark.parametrize("cell", ["import asyncio\nawait asyncio.sleep(0)", "# nothing"])
def test_cells_that_cannot_be_compared_are_refused(run_cell: Run, cell: str) -> None:
    with pytest.raises(MagicError, match="--compare") as caught:
        run_cell(f"%%bcvm --compare numpy\n{cell}")
    assert caught.value.fix


def test_explain_counts_a_cell_once_per_place(run_cell: Run, shell: Any) -> None:
    run_cell(SETUP)
    run_cell("%%bcvm\ny = x * 2 + 1\nz = y - 3\nz.sum()")
    alone = cells_of(shell).door.explain(True).count("line")  # type: ignore[union-attr]
    run_cell("%%bcvm --compare numpy --rounds 3\ny = x * 2 + 1\nz = y - 3\nz.sum()")
    assert cells_of(shell).door.explain(True).count("line") == alone  # type: ignore[union-attr]


# --- MindSpore ----------------------------------------------------------------------------------


def _mindspore() -> None:
    """In this process, as all tests of MindSpore have it from its first op on: an error of an op comes with the op."""
    pytest.importorskip("mindspore").set_context(pynative_synchronize=True)


@pytest.mark.mindspore
def test_numpy_cells_run_on_mindspore(run_cell: Run, latest: Callable[[], Comparison]) -> None:
    _mindspore()
    run_cell(SETUP)
    run_cell("%%bcvm --compare numpy,pynative,jit --rounds 3\ny = step(x)\nlast = {'s': y.sum()}\ny * 2")
    assert _errors(latest()) == {} and latest().agree, str(latest())
    assert run_cell("type(x).__name__, type(y).__name__, np.__name__, list(last)") == ("ndarray", "ndarray", "numpy", ["s"])


@pytest.mark.mindspore
def test_mindspore_cells_run_as_they_stand(run_cell: Run, latest: Callable[[], Comparison], capfd: pytest.CaptureFixture[str]) -> None:
    _mindspore()
    run_cell("import mindspore as ms, numpy as np\nfrom mindspore import ops, nn\n%bcvm on")
    run_cell("x = ms.Tensor(np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8))\nnet = nn.Dense(8, 8)")
    capfd.readouterr()
    run_cell("%%bcvm --compare pynative,jit,numpy --rounds 3\ny = ops.tanh(net(x)) * 0.5\nx[0, 0] = 3")
    assert list(_errors(latest())) == ["numpy"] and "`pynative`" in _errors(latest())["numpy"]
    assert [len(o.times_s) for o in latest().outcomes] == [3, 3, 3, 0]
    assert latest().outcomes[1].verdict is not None and latest().outcomes[1].verdict.agree
    assert run_cell("float(x[0, 0]), type(y).__name__") == (3.0, "Tensor")


@pytest.mark.mindspore
def test_an_engine_that_takes_no_part_is_told(run_cell: Run, latest: Callable[[], Comparison]) -> None:
    _mindspore()
    run_cell("%%bcvm --compare pynative --rounds 2\nn = sum(range(10))")
    assert "no mindspore tensor took part" in _errors(latest())["pynative"]


# --- the kernel ---------------------------------------------------------------------------------


def test_the_kernel_shows_the_cells_own_output_once_and_then_the_comparison(kernel: Any) -> None:
    kernel.run(SETUP)
    found = kernel.run(f"%%bcvm --compare numpy --rounds 3{CELL}")
    assert (found.status, found.stdout, found.stderr) == ("ok", "said\n", "")
    assert found.result is not None and [set(data) for data in found.displayed] == [{"text/plain", "text/html"}]
    assert "<svg" in found.displayed[0]["text/html"] and "same bits" in found.displayed[0]["text/plain"]
    assert kernel.run("len(log), float(x[0, 0])").text == "(1, 0.0)"


@pytest.mark.mindspore
def test_the_stop_button_works_after_a_graph_was_compiled(start: Any) -> None:
    pytest.importorskip("mindspore")
    kernel = start()
    kernel.run(SETUP + "import time")
    kernel.run("%%bcvm --compare jit --rounds 1\ny = step(x)")
    message_id = kernel.send("%%bcvm --compare jit --rounds 10000\ny = step(x)\ntime.sleep(0.005)\nprint('go', flush=True)")
    kernel.wait_for_output(message_id, "go")
    time.sleep(4.0)
    kernel.manager.interrupt_kernel()
    assert "Interrupted" in kernel.wait(message_id, 20.0).displayed[0]["text/plain"]
    assert kernel.run("1 + 1").text == "2"


def test_the_stop_button_ends_a_comparison(kernel: Any) -> None:
    kernel.run(SETUP + "import time")
    message_id = kernel.send("%%bcvm --compare numpy --rounds 10000\nlog.append(1)\ntime.sleep(0.01)\nprint('go', flush=True)")
    kernel.wait_for_output(message_id, "go")
    time.sleep(0.5)
    kernel.manager.interrupt_kernel()
    found = kernel.wait(message_id, 20.0)
    assert "Interrupted" in found.displayed[0]["text/plain"]
    assert kernel.run("len(log)").text == "1"
