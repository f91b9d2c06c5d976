"""The static forms: complete, the same every time, and readable without scripts or styles."""

from __future__ import annotations

import re
from collections.abc import Callable
from html.parser import HTMLParser

import numpy as np
import pytest

import bcvm_core as bcvm
import bcvm_widgets
from bcvm_core.errors import BcvmError, LoweringError
from bcvm_core.ops import registry
from bcvm_core.watch import Watch
from bcvm_widgets.reports import NOTHING_YET, Report, duration
from bcvm_widgets.sampling import Sampler

from .conftest import CELL, FUNCTION, Notebook


def _report(notebook: Notebook, *, times: bool = False) -> Report:
    return Report(Sampler(Watch(notebook.session)).sample(), times=times)


def test_lines_stand_above_what_they_became(notebook: Notebook) -> None:
    notebook.run(FUNCTION)
    notebook.run(CELL)
    text = str(_report(notebook))
    wanted = ["h = h * 0.5 + np.tanh(h)", "MUL_CONST", "tanh.template.float64", "def step(x, w):", "x = step(x + k, w)", "CALL_HOST"]
    assert [part for part in wanted if part not in text] == []
    tanh = next(line for line in text.split("\n") if "tanh," in line)
    # every kernel that this process ran under the signature: NumPy's, too, where an earlier test could not wait for the template
    assert re.search(r"^ +\* +\d+ CALL_OP r\d+, tanh, r\d+ +6  (tanh\.numpy, )?tanh\.template\.float64(, tanh\.numpy)?$", tanh)
    assert text.index("np.tanh(h)") < text.index(tanh)
    assert "38 tensor ops, all by kernels (CALL_OP)" in text
    assert "FUSE_START: Fusion may happen from here on" in text and "policy_004: fusion policy 'normalisation'" in text


def test_ops_left_to_python_are_told_from_python_that_is_no_tensor_work(notebook: Notebook) -> None:
    notebook.run("import numpy as np\nx = np.ones(3)\nnames = {}")
    notebook.run("for k in range(4):\n    names[k] = len(names)\n    y = x * k\n")
    assert "4 tensor ops, all by kernels (CALL_OP)" in str(_report(notebook))
    sample = _report(notebook).sample
    sample.figures["call_host"] = 12
    assert "16 tensor ops, 4 by kernels (CALL_OP, 25.0%), 12 left to Python (CALL_HOST)" in Report(sample).html()


def test_the_same_cells_give_the_same_characters(new_notebook: Callable[[], Notebook]) -> None:
    shown = []
    for more in ("", "y = np.arange(5, dtype=np.int16) * 3\n"):  # the second interns another signature before
        notebook = new_notebook()
        notebook.run(FUNCTION)
        if more:
            notebook.run(more)
        notebook.run(CELL)
        report = _report(notebook)
        shown.append((str(report), report.html()))
    assert shown[0] == shown[1]
    assert "0x" not in shown[0][0]
    assert not re.search(r"\d (µs|ms|s)\b", shown[0][0])


def test_times_are_there_when_asked_for(notebook: Notebook) -> None:
    watch = Watch(notebook.session)
    watch.open()
    notebook.run(FUNCTION)
    notebook.run(CELL)
    watch.close()
    report = Report(Sampler(watch).sample(), times=True)
    assert re.search(r"\d (µs|ms)", str(report))
    assert "<th" in report.html() and "total" in report.html()


def test_no_line_ends_between_a_number_and_its_unit(notebook: Notebook) -> None:
    watch = Watch(notebook.session)
    watch.open()
    notebook.run(FUNCTION)
    notebook.run(CELL)
    watch.close()
    report = Report(Sampler(watch).sample(), times=True)
    assert re.search(r"\d\xa0(µs|ms)\b", report.html())
    assert not re.search(r"\d (µs|ms|s)\b", report.html())


def test_explanations_are_without_marks_of_a_markup(notebook: Notebook) -> None:
    notebook.run("import numpy as np")
    notebook.run("x = np.matmul(np.ones((2, 2)), np.ones((2, 2)))")
    words = _report(notebook).sample.listing["glossary"]
    assert "`" in registry.row("matmul").doc and words["matmul"] == registry.row("matmul").doc.replace("`", "")
    assert not any("`" in text for text in words.values())


class _Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.seen.add(tag)
        assert {name for name, _ in attrs} <= {"style", "title", "scope", "role", "aria-label"}

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_html_is_balanced_and_needs_nothing(notebook: Notebook) -> None:
    notebook.run(FUNCTION)
    notebook.run("a = step(np.ones((2, 2)), np.ones((2, 2)))  # <b>&amp;</b><script>alert(1)</script>\nb = a + 1")
    parser = _Elements()
    parser.feed(_report(notebook).html())
    assert parser.open == []
    assert parser.seen <= {"div", "p", "b", "table", "thead", "tbody", "tr", "th", "td", "code", "span", "small"}


def test_what_python_did_is_told_apart(notebook: Notebook) -> None:
    notebook.run("import numpy as np")
    notebook.run("n = 1\nfor i in range(3):\n    n += i\nz = np.ones(3) * n\nprint('x', end='')")
    text = str(_report(notebook))
    assert re.search(r"^   5 - print", text, re.MULTILINE)
    assert re.search(r"^   4 \* z = ", text, re.MULTILINE)


def test_a_cell_without_tensor_work_leaves_the_picture(notebook: Notebook) -> None:
    notebook.run(FUNCTION)
    notebook.run(CELL)
    before = str(_report(notebook))
    notebook.run("q = 'nothing here'")
    assert str(_report(notebook)) == before


def test_running_a_cell_again_counts_from_zero(notebook: Notebook) -> None:
    notebook.run(FUNCTION)
    notebook.run(CELL)
    first = str(_report(notebook))
    notebook.run(CELL)
    assert str(_report(notebook)) == first


def test_a_name_used_twice_is_shown_once_each(notebook: Notebook) -> None:
    notebook.run("import numpy as np\ndef f(x):\n    return x + 1\ng = f\ndef f(x):\n    return x * 2")
    notebook.run("a = f(g(np.ones(3)))")
    keys = [unit["key"] for unit in _report(notebook).sample.listing["units"]]
    assert keys == ["cell", "function f", "function f (2)"] or keys == ["function f", "function f (2)"]


def test_before_anything_ran(notebook: Notebook) -> None:
    bundle = bcvm_widgets.report()._repr_mimebundle_()
    assert bundle == {"text/plain": NOTHING_YET, "text/html": f"<p>{NOTHING_YET}</p>"}


@bcvm.jit
def doubled(x):
    return np.exp(x) * 2


def test_a_jitted_function_needs_no_notebook() -> None:
    doubled(np.ones(3))
    text = str(bcvm_widgets.report(doubled))
    assert "function doubled" in text and "exp.template.float64" in text


def test_functions_given_count_beside_the_cell(notebook: Notebook) -> None:
    doubled(np.ones(3))
    notebook.run("import numpy as np\nx = np.ones(3)")
    watch = Watch(notebook.session, [doubled])
    notebook.names["doubled"] = doubled
    notebook.run("y = doubled(x) + 1")
    figures = Sampler(watch).sample().figures
    assert figures["call_op"] == 3
    assert max(n or 0 for n in figures["units"]["function doubled"]["instructions"]["runs"]) >= 1


def test_what_cannot_be_watched_is_said() -> None:
    with pytest.raises(BcvmError, match="no notebook"):
        bcvm_widgets.report()
    with pytest.raises(LoweringError, match="does not run through the VM"):
        bcvm_widgets.report(len)


@pytest.mark.parametrize(
    ("us", "text"),
    [(None, ""), (0.0, "0 µs"), (1.234, "1.23 µs"), (999.4, "999 µs"), (999.9, "1 ms"), (12_345.0, "12.3 ms"), (2.5e6, "2.5 s")],
)
def test_durations(us: float | None, text: str) -> None:
    assert duration(us) == text


@pytest.mark.parametrize("html_first", [False, True])
def test_it_is_readable_in_an_export(notebook: Notebook, html_first: bool) -> None:
    """A report always; a dashboard when HTML goes before widgets, as the documentation says."""
    nbformat = pytest.importorskip("nbformat")
    nbconvert = pytest.importorskip("nbconvert")
    traitlets_config = pytest.importorskip("traitlets.config")
    notebook.run(FUNCTION)
    notebook.run(CELL)
    report = _report(notebook)
    widget = (
        {} if not html_first else {"application/vnd.jupyter.widget-view+json": {"model_id": "x", "version_major": 2, "version_minor": 0}}
    )
    cell = nbformat.v4.new_code_cell("board", execution_count=1)
    cell.outputs = [nbformat.v4.new_output("execute_result", {**report._repr_mimebundle_(), **widget}, execution_count=1)]
    order = {"NbConvertBase": {"display_data_priority": ["text/html", "image/png", "text/plain"]}}
    exporter = nbconvert.HTMLExporter(config=traitlets_config.Config(order)) if html_first else nbconvert.HTMLExporter()
    body, _ = exporter.from_notebook_node(nbformat.v4.new_notebook(cells=[cell]))
    assert "tanh.template.float64" in body and "<table>" in body


def test_lines_that_python_ran_do_not_wait(notebook: Notebook) -> None:
    notebook.run("import numpy as np\nx = np.ones(3)\nends = {'a': 0}")
    notebook.run("for _ in range(3):\n    y = x * 2\n    ends['a'] += 1\n    z = len(ends)\n")
    text = str(_report(notebook))
    assert [line.split()[1] for line in text.split("\n") if line.strip()[:1] in "34" and ("ends" in line)] == ["-", "-"]


def test_what_comes_after_an_error_waits(notebook: Notebook) -> None:
    notebook.run("import numpy as np\nx = np.ones(3)")
    with pytest.raises(ZeroDivisionError):
        notebook.run("y = x * 2\n1 / 0\nz = x * 3\n")
    notebook.session.finish()
    line = next(line for line in str(_report(notebook)).split("\n") if "z = x" in line)
    assert line.split()[1] == "o"
