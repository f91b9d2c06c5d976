"""%bcvm and %%bcvm in a plain IPython shell with the extension loaded, and the hooks under them."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("IPython")

from bcvm_core import config  # noqa: E402
from bcvm_core.errors import BcvmError, StrictError  # noqa: E402
from bcvm_kernel.options import MagicError, candidates  # noqa: E402
from bcvm_kernel.shell import Cells, cells_of, first_line_to_call, only_asks  # noqa: E402

X = "import numpy as np\nx = np.arange(6.0).reshape(2, 3)"


def _run(shell: Any, code: str) -> Any:
    """The result of a cell, as Out has it; raises what the cell raises."""
    result = shell.run_cell(code, store_history=True)
    result.raise_error()
    return result.result


def _counts(shell: Any) -> tuple[int, int]:
    stats = cells_of(shell).door.stats()
    return stats.call_op, stats.call_host


# --- a stock shell ------------------------------------------------------------------------------


def test_cells_stay_python_until_asked(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    _run(shell, X)
    _run(shell, "y = x * 2 + 1")
    assert _counts(shell) == (0, 0)
    _run(shell, "%bcvm on")
    _run(shell, "y = x * 2 + 1")
    assert _counts(shell) == (2, 0)
    _run(shell, "%bcvm off")
    _run(shell, "y = x * 2 + 1")
    assert _counts(shell) == (2, 0)
    assert capsys.readouterr().out == ""


def test_a_bcvm_cell_runs_through_the_vm(shell: Any) -> None:
    _run(shell, X)
    assert _run(shell, "%%bcvm\ny = x * 2 + 1\ny.sum()") == 36.0
    assert _counts(shell) == (3, 0)
    _run(shell, "y = x * 2 + 1")
    assert _counts(shell) == (3, 0)


def test_functions_defined_while_on_obey_the_switch(shell: Any) -> None:
    _run(shell, X + "\n%bcvm on")
    _run(shell, "def f(v):\n    t = v * 2\n    return t + 1\nf(x)")
    assert _counts(shell) == (2, 0)
    _run(shell, "%%bcvm --off\nf(x)")
    assert _counts(shell) == (2, 0)
    _run(shell, "f(x)")
    assert _counts(shell) == (4, 0)
    _run(shell, "%bcvm off")
    _run(shell, "f(x)")
    assert _counts(shell) == (4, 0)


def test_nojit_functions_stay_python(shell: Any) -> None:
    _run(shell, X + "\nimport bcvm_core as bcvm\n%bcvm on")
    _run(shell, "@bcvm.nojit\ndef f(v):\n    t = v * 2\n    return t + 1\nf(x)")
    assert _counts(shell)[0] == 0


def test_options_end_with_the_cell_even_when_it_fails(shell: Any) -> None:
    _run(shell, X)
    with pytest.raises(ZeroDivisionError):
        _run(shell, "%%bcvm --off --strict\n1 / 0")
    cells = cells_of(shell)
    assert cells.options is None
    assert cells.door.strict is False
    assert config.current.enabled is True


def test_a_cell_of_options_keeps_display_await_and_magics(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    _run(shell, X)
    assert _run(shell, "%%bcvm\nimport asyncio\nawait asyncio.sleep(0)\n_y = x * 2\n!echo shell\n_y.shape") == (2, 3)
    _run(shell, "%%bcvm\nx * 2;")
    printed = capsys.readouterr().out
    assert "shell" in printed
    assert "array" not in printed


def test_strict_raises_where_an_op_would_reach_python(shell: Any) -> None:
    _run(shell, X)
    with pytest.raises(StrictError):
        _run(shell, "%%bcvm --strict\nclass A(np.ndarray): pass\nnp.exp(x.astype(object))")
    assert _run(shell, "np.negative(x.astype(object)).shape") == (2, 3)


def test_reports_after_a_cell(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    _run(shell, X)
    capsys.readouterr()
    _run(shell, "%%bcvm --dis --stats --time\ny = x * 2 + 1")
    printed = capsys.readouterr().out
    assert "MUL_CONST" in printed and "ADD_CONST" in printed
    assert "100.0% by CALL_OP" in printed
    assert "wall time: " in printed
    _run(shell, "%%bcvm --profile\ny = x @ x.T")
    printed = capsys.readouterr().out
    assert "bcvm_kernel_select_time" in printed and "matmul.blas" in printed and "<cell>" in printed
    _run(shell, "%%bcvm --off --dis\ny = x * 2 + 1")
    assert "plain Python" in capsys.readouterr().out


# --- asking -------------------------------------------------------------------------------------


def test_dis_of_the_latest_cell_and_of_functions(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    _run(shell, X + "\n%bcvm on")
    _run(shell, "def f(v):\n    if v.sum() > 1:\n        return v * 2\n    return v + 1")
    _run(shell, "y = f(x) - 1")
    capsys.readouterr()
    _run(shell, "%bcvm dis")
    latest = capsys.readouterr().out
    assert latest.startswith(".program")
    assert "SUB_CONST" in latest
    _run(shell, "%bcvm dis")  # asking is no cell of its own
    assert capsys.readouterr().out == latest
    _run(shell, "%%bcvm --strict\n\nz = y * 3\nz")
    capsys.readouterr()
    _run(shell, "%bcvm dis")
    latest = capsys.readouterr().out
    assert "run_cell_magic" not in latest
    assert "MUL_CONST" in latest and "; 3:" in latest
    _run(shell, "%bcvm dis f")
    assert {"COND_JUMP", "MUL_CONST", "ADD_CONST"} <= set(capsys.readouterr().out.split())


def test_stats_explain_and_status_print(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    _run(shell, X + "\n%bcvm on")
    _run(shell, "def f(v):\n    t = v * 2\n    return t + 1\ny = f(x)")
    capsys.readouterr()
    for command, words in {
        "stats": ["multiply", "100.0% by CALL_OP"],
        "stats f": ["multiply", "add", "100.0%"],
        "explain f": ["line 2", "1 runs"],
        "explain": ["f ("],
        "status": ["is on", "NumPy", "2 by CALL_OP"],
        "": ["is on"],
    }.items():
        _run(shell, f"%bcvm {command}")
        printed = capsys.readouterr().out
        for word in words:
            assert word in printed, (command, printed)


def test_objects_are_returned_instead_of_printed(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    _run(shell, X + "\n%bcvm on")
    _run(shell, "def f(v):\n    t = v * 2\n    return t + 1\ny = f(x)")
    capsys.readouterr()
    assert _run(shell, "c = %bcvm cache -o\nc.as_dict()['memory']['limits']['size']") == 200
    assert _run(shell, "s = %bcvm stats -o\ns.call_op, s.call_host, s.share()") == (2, 0, 1.0)
    assert _run(shell, "s = %bcvm stats -o f\ns.ops['add'].call_op") == 1
    assert _run(shell, "p = %bcvm dis --object f\np.name") == "f"
    assert "CALL_OP" not in capsys.readouterr().out


def test_listings_name_no_temporary_file(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    _run(shell, X + "\n%bcvm on")
    _run(shell, "def f(v):\n    t = v * 2\n    return t + 1\ny = f(x)")
    capsys.readouterr()
    _run(shell, "%bcvm dis f")
    assert '.file "<cell>" line 1' in capsys.readouterr().out
    _run(shell, "%bcvm explain f")
    assert capsys.readouterr().out.startswith("f (<cell>)")


def test_reports_of_now_and_of_a_recorded_cell(shell: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _run(shell, X + "\n%bcvm on")
    _run(shell, "y = x * 2 + 1")
    assert "MUL_CONST" in str(_run(shell, "%bcvm report"))
    run, page = tmp_path / "run.json", tmp_path / "page.html"
    _run(shell, f"%%bcvm --record {run}\nz = x - 3\nz.sum()")
    assert "SUB_CONST" in str(_run(shell, f"%bcvm report {run}"))
    capsys.readouterr()
    assert _run(shell, f"%bcvm report {run} -o {page}") is None
    assert capsys.readouterr().out == f"{page} is written\n" and "SUB_CONST" in page.read_text(encoding="utf-8")
    _run(shell, f"%bcvm report -o {page}")
    assert "SUB_CONST" in page.read_text(encoding="utf-8")
    with pytest.raises(ZeroDivisionError):
        _run(shell, f"%%bcvm --record {run}\nz = x * 5\n1 / 0")
    assert "MUL_CONST" in str(_run(shell, f"%bcvm report {run}"))
    for wrong in (f"%bcvm report {page}", f"%bcvm report -o {tmp_path}/no/x.html", f"%%bcvm --record {tmp_path}/no/x.json\nx = None"):
        with pytest.raises(BcvmError) as caught:
            _run(shell, wrong)
        assert caught.value.fix
    assert _run(shell, "x is not None")


def test_watch_docks_one_dashboard_and_closes_it(shell: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("anywidget", reason="the dashboard needs the extra `lab`")
    shown: list[Any] = []
    monkeypatch.setattr("bcvm_kernel.magics.display", shown.append)
    _run(shell, "%bcvm watch")
    _run(shell, "%bcvm watch on")
    assert [type(board).__name__ for board in shown] == ["Dashboard"] * 2 and all(board.docked for board in shown)
    assert [board.comm is None for board in shown] == [True, False]  # the first one is closed
    _run(shell, "%bcvm watch off")
    assert shown[1].comm is None and capsys.readouterr().out == ""
    _run(shell, "%bcvm watch off")
    assert capsys.readouterr().out == "no dashboard is docked\n"
    monkeypatch.setitem(sys.modules, "anywidget", None)
    monkeypatch.delitem(sys.modules, "bcvm_widgets.live")
    with pytest.raises(MagicError, match="anywidget"):
        _run(shell, "%bcvm watch")


@pytest.mark.parametrize("magic", ["%bcvm -h", "%bcvm dis --help", "%%bcvm -h\n1 / 0"])
def test_help_prints_and_does_nothing(shell: Any, capsys: pytest.CaptureFixture[str], magic: str) -> None:
    assert _run(shell, magic) is None
    assert capsys.readouterr().out.startswith("usage: %")


@pytest.mark.parametrize(
    "magic",
    [
        "%bcvm nonsense",
        "%bcvm dis no_such_name",
        "%bcvm stats np",
        "%bcvm explain plain_function",
        "%bcvm dis 'unbalanced",
        "%bcvm on too many",
        "%%bcvm --nonsense\nx = 99",
        "%%bcvm --off\nget_ipython().run_cell_magic('bcvm', '--off', 'y = 2\\n')",
    ],
)
def test_mistakes_raise_real_errors_that_say_what_to_do(shell: Any, magic: str, capsys: pytest.CaptureFixture[str]) -> None:
    _run(shell, "import numpy as np\nx = 1\ndef plain_function(): return 1")
    with pytest.raises(MagicError) as caught:
        _run(shell, magic)
    assert caught.value.fix
    assert _run(shell, "x") == 1  # nothing below a faulty first line ran
    assert "argparse" not in capsys.readouterr().out  # the traceback is the message


def test_the_magic_can_be_called_with_a_cells_text(shell: Any) -> None:
    _run(shell, X)
    shell.run_cell_magic("bcvm", "", "y = x * 2 + 1\n")
    assert _counts(shell) == (2, 0)
    assert _run(shell, "float(y[0, 0])") == 1.0


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("%bcvm ", {"on", "off", "status", "dis", "explain", "stats", "cache", "report", "watch", "--help"}),
        ("%bcvm s", {"status", "stats"}),
        ("%bcvm dis ", {"f", "g", "--object"}),
        ("%bcvm explain f", {"f"}),
        ("%bcvm on ", set()),
        ("%bcvm watch o", {"on", "off"}),
        ("%bcvm dis f ", {"--object"}),
        ("%bcvm stats -o ", {"f", "g"}),
        ("%bcvm stats -o f ", set()),
        ("%%bcvm --", {"--off", "--strict", "--dis", "--stats", "--profile", "--time", "--record", "--compare", "--rounds", "--help"}),
        ("%%bcvm --compare ", {"bcvm", "numpy", "pynative", "jit", "torch"}),
        ("%%bcvm --time --compare py", {"pynative"}),
        ("%%bcvm --off --o", set()),
        ("%%bcvm --off --st", {"--strict", "--stats"}),
    ],
)
def test_completion(line: str, expected: set[str]) -> None:
    assert set(candidates(line, lambda: ["f", "g"])) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("%bcvm st", {"status", "stats"}),
        ("x = 1\n%bcvm st", {"status", "stats"}),
        ("if x:\n    %bcvm st", {"status", "stats"}),
        ("s = %bcvm st", {"status", "stats"}),
        ("%%bcvm --st", {"--strict", "--stats"}),
        ("%bcvm dis ", {"f", "M.go", "--object"}),
        ("%bcvm dis M.g", {"M.go"}),
        ("%bcvm explain ", {"f", "M.go", "--brief"}),
        ("%bcvm explain -b ", {"f", "M.go"}),
    ],
)
def test_completion_in_the_shell(shell: Any, text: str, expected: set[str]) -> None:
    from IPython.core.completer import provisionalcompleter

    _run(shell, "def f(x): return x\nclass M:\n    def go(self): return 1\nclass Empty: pass\n_hidden = f\nx = 1")
    with provisionalcompleter():
        found = list(shell.Completer.completions(text, len(text)))
    assert {text[: c.start].rpartition(" ")[2] + c.text for c in found} == expected
    assert {text[c.start : c.end] for c in found} == {text.rpartition(" ")[2]}


# --- hooks --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code",
    [
        "s = 0\nfor i in range(1000000):\n    s = s + i * 3 % 7",
        "words = {w: len(w) for w in 'a b c'.split()}",
        "n = 1\nwhile n < 100:\n    n = n * 2 if n % 3 else n + 1",
    ],
)
def test_plain_python_compiles_to_what_it_was(shell: Any, code: str) -> None:
    """Cells without tensor work pay nothing: the code that runs is the code without BCVM."""
    import numpy

    shell.user_ns.update(np=numpy, x=numpy.ones(3), s=0, n=1)
    _run(shell, "%bcvm on")
    cells = cells_of(shell)
    for node in ast.parse(code).body:
        module = cells.visit(ast.Module([node], []))
        got = shell.compile(module, "<cell>", "exec")
        want = compile(ast.Module([node], []), "<cell>", "exec", dont_inherit=True)
        assert (got.co_code, got.co_consts, got.co_names) == (want.co_code, want.co_consts, want.co_names)


def test_unloading_leaves_nothing(shell: Any) -> None:
    compiler = type(shell.compile)
    _run(shell, "%unload_ext bcvm_kernel")
    assert cells_of(shell) is None
    assert not any(isinstance(t, Cells) for t in shell.ast_transformers)
    assert first_line_to_call not in shell.input_transformers_cleanup
    assert type(shell.compile) is compiler.__bases__[0]
    assert shell.find_line_magic("bcvm") is None and shell.find_cell_magic("bcvm") is None
    assert not shell.Completer.custom_matchers
    _run(shell, "%load_ext bcvm_kernel")
    _run(shell, X)
    assert _run(shell, "%%bcvm\nx.sum()") == 15.0


def test_switches_survive_the_options_of_a_cell_and_end_with_the_extension(shell: Any) -> None:
    _run(shell, "%bcvm on")
    _run(shell, "%%bcvm --strict\n%bcvm off")
    assert (cells_of(shell).on, config.current.enabled) == (False, False)
    _run(shell, "%unload_ext bcvm_kernel")
    assert config.current.enabled is True


def test_loading_twice_is_loading_once(shell: Any) -> None:
    _run(shell, "%reload_ext bcvm_kernel")
    _run(shell, "%load_ext bcvm_kernel")
    assert sum(isinstance(t, Cells) for t in shell.ast_transformers) == 1


class _Broken:
    """A core whose every method fails."""

    strict = False

    def __getattr__(self, name: str) -> Any:
        def fail(*_: Any, **__: Any) -> Any:
            raise RuntimeError(f"{name} is broken")

        return fail


def test_a_broken_core_costs_no_cell(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    cells = cells_of(shell)
    cells.on, cells.door = True, _Broken()
    for _ in range(2):  # IPython throws a transformer out at its first error
        assert _run(shell, "a = 1\na + 1") == 2
    with pytest.raises(SyntaxError):
        _run(shell, "return 1")
    assert cells in shell.ast_transformers
    captured = capsys.readouterr()
    assert "broken" not in captured.out + captured.err


def test_the_first_line_becomes_a_statement_on_the_same_line() -> None:
    lines = ["%%bcvm --off 'a b'\n", "x = 1\n"]
    first, second = first_line_to_call(lines)
    ast.parse(first)
    assert (first.count("\n"), second) == (1, "x = 1\n")
    for other in (["%%bcvm?\n"], ["%%bcvmx\n"], ["x = 1\n", "%%bcvm\n"], []):
        assert first_line_to_call(other) is other


def test_only_magic_lines_ask() -> None:
    ask = "get_ipython().run_line_magic('bcvm', 'dis')"
    assert only_asks(ast.parse(ask))
    assert not only_asks(ast.parse(f"x = 1\n{ask}"))
    assert not only_asks(ast.parse(""))
