"""Cells mean what they mean in a stock kernel: text, line numbers, display, history, magics."""

from __future__ import annotations

import re
from typing import Any

import pytest

C65 = 's = """\n%d of\n!ls -l\n%%time\nreally?\n?x\n"""\na = 17 \\\n%5\nb = (1\n!= 2)\n# %matplotlib inline? !rm\nt = (8\n%3)\n'
C67 = [
    ("! ls \\\n  /dev/null\nint( \\\n  qwerty)\n", "NameError", [4]),
    ("%%time\nv = 1\nif v:\n    pass\nfor i in range(2):\n    pass\nw = v / 0\n", "ZeroDivisionError", [7]),
    ("%load_ext autoreload\n\n\ndef f(x):\n    y = x\n    return y.nope\n\nf(3)\n", "AttributeError", [8, 6]),
    ("a = 1\nb = (2,\n     3\nc = 4\n", "SyntaxError", [2]),
]
TENSOR_C67 = (
    "import numpy as np\nx = np.ones((2, 3))\n\n"
    "def g(v):\n    t = v * 2 + 1\n    return t @ np.ones((4, 4)) - t\n\nfor i in range(1):\n    g(x)\n"
)


def plain(text: str) -> str:
    """Without colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def lines_of(traceback: str) -> list[int]:
    """Line numbers of the frames in cells, outermost first, as the traceback's text shows them."""
    return [
        int(n) for n in re.findall(r"(?:Cell In\[\d+\], line |<timed (?:exec|eval)>:|^-+> ?)(\d+)", plain(traceback), flags=re.MULTILINE)
    ]


def test_c65_a_cell_runs_as_typed(kernel: Any) -> None:
    assert kernel.run(C65).status == "ok"
    assert eval(kernel.run("s, a, b, t").text) == ("\n%d of\n!ls -l\n%%time\nreally?\n?x\n", 2, True, 2)
    assert eval(kernel.run("get_ipython().history_manager.input_hist_raw[-3]").text).rstrip("\n") == C65.rstrip("\n")


C67_MORE = [
    ("\n\n\nx = 1\nx / 0", "ZeroDivisionError", [5]),
    ("\n\n    x = 1\n    x / 0", "ZeroDivisionError", [4]),
    ("%%capture\nx = 1\nx / 0", "ZeroDivisionError", [3]),
    ("x = !echo \\\n  a \\\n  b\nx / 0", "TypeError", [4]),
    ("if True:\n    !echo \\\n       a > /dev/null\n    1 / 0", "ZeroDivisionError", [4]),
    ("\n%%time\n1 / 0", "ZeroDivisionError", [3]),
    ("\n\n%%bcvm --off\n1 / 0", "ZeroDivisionError", [4]),
    ("%%bcvm\n\ndef f(x):\n    return x / 0\nf(1)", "ZeroDivisionError", [5, 4]),
]


@pytest.mark.parametrize(("code", "ename", "lines"), [*C67, *C67_MORE])
def test_c67_errors_name_the_line_as_typed(kernel: Any, code: str, ename: str, lines: list[int]) -> None:
    out = kernel.run(code)
    assert out.ename == ename
    shown = lines_of(out.traceback)
    assert list(dict.fromkeys(shown))[-len(lines) :] == lines, plain(out.traceback)


def test_an_error_in_tensor_work_names_every_line(kernel: Any) -> None:
    out = kernel.run(TENSOR_C67)
    assert out.ename == "ValueError"
    assert {9, 6} <= set(lines_of(out.traceback))
    assert "bcvm" not in plain(out.traceback)


def test_the_first_line_of_options_moves_no_line(kernel: Any) -> None:
    out = kernel.run("%%bcvm --off\nx = 1\ny = x / 0\n")
    assert out.ename == "ZeroDivisionError"
    assert 3 in lines_of(out.traceback)


# Each is run here and in a stock kernel; the outcomes must be equal.
SAME = [
    "import numpy as np\nx = np.linspace(0, 1, 6, dtype='f4').reshape(2, 3)\ny = x[::-1].copy()",
    "a = x * 2 + 1\nb = a * a - y\nb",
    "x * 3 + 1;",
    "Out[2] is _2, _.sum() == Out[2].sum()",
    "import asyncio\nd = x * 2 + 1\nawait asyncio.sleep(0)\ne = d * d - x\ne",
    "await asyncio.sleep(0, 5)",
    "for i in range(4):\n    x = x * 0.5 + i\n    if i == 2:\n        break\nelse:\n    x = x * 100\nx",
    "def f(v):\n    t = v * 2 + 1\n    return np.maximum(t, 0) - v\n[f(x) for _ in range(4)][-1]",
    "class M:\n    def __init__(self, w): self.__w = w\n    def go(self, v):\n        return v * self.__w * 2\nM(x).go(y)",
    "p = x * 2\nq = p + np.ones((7, 7))\nr = q * 2",
    "'q' in dir(), p",
    "k = x * 2 + undefined_name",
    "s = 0\nfor i in range(1000):\n    s += i * 3 % 7\ns",
    "[v.sum() for v in (v * 2 + 1 for v in [x, y])]",
    "!echo hi",
    "lines = !printf 'one\\ntwo'\nlist(lines)",
    "%time w = x * 2 + 1",
    "w",
    "%timeit -n 2 -r 1 x * 2 + 1",
    "%%timeit -n 2 -r 1\nx * 2 + 1",
    "%%time\nw = x * 3\nw + 1",
    "%prun -q f(x)",
    "%%capture cc\nprint(x * 2 + 1)",
    "cc.stdout",
    "_ = 5\nx * 1 + 0",
    "_",
    "del a\n'a' in globals()",
    "locals() is globals(), sorted(n for n in globals() if 'bcvm' in n.lower())",
    "x += y * 2 + 1\nv = x * 2 - y\nx[0] = v[0] * 2 + 1\nx",
    "try:\n    u = x * 2\n    w = u + np.ones((9, 9))\nexcept ValueError as ex:\n    print(ex, u)\nfinally:\n    fin = x * 2 + 1",
    "import sys\nprint('out'); print('err', file=sys.stderr); print('out again')",
    "from IPython.display import display\ndisplay(x * 2, 'text', {'a': 1})",
    "z = np.zeros(3)\nz + np.log(z)",
    "z / z",
    "z / z",
    "z / z + 1",
    "for i in range(3):\n    print(z / z)",
    "import warnings\nfor i in range(3):\n    warnings.warn('once')",
    "x * 2 + 1\nfor i in range(3):\n    warnings.warn('once')",
    "with np.errstate(divide='raise'):\n    print(np.log(z))",
    "get_ipython().ast_node_interactivity = 'all'",
    "x * 2\nx + 1",
    "get_ipython().ast_node_interactivity = 'last_expr_or_assign'",
    "h = x * 2 - 1",
    "get_ipython().ast_node_interactivity = 'last_expr'",
    "return 3",
    "f?",
    "print(*[n for n in ('x', 'y') if n in globals()], sep=', ', flush=True)\nraise SystemError('own')",
    "%who_ls ndarray",
    "exec('m = x * 2 + 1'); m",
    "%run -i nothing_here.py",
    "\n\n   \nx.shape\n\n",
    "",
    "# only a comment",
    "x = 1; x + 1;",
    "if True:\n    x + 1",
    "'''doc''' \"string\"",
    "from __future__ import annotations\ndef g(a: Nope): return a\ng.__annotations__",
    "lambda v: v",
    "%xmode Minimal",
    "p + np.ones((7, 7))",
]


def _comparable(out: Any) -> tuple[Any, ...]:
    def clean(text: str | None) -> str:
        text = re.sub(r"0x[0-9a-f]+", "0x", plain(text or ""))
        text = re.sub(r"(?m)^(CPU times|Wall time).*", r"\1", text)
        text = re.sub(r".*(ns|μs|us|ms|s) ± .*", "timing", text)
        return re.sub(r"/\S*/ipykernel_\d+/(\d+)\.py", r"\1.py", text)

    kinds = [m["msg_type"] for m in out.messages if m["msg_type"] != "stream"]
    payload = [clean(str(p.get("data", p))) for p in out.payload]
    return (
        out.status,
        out.ename,
        clean(out.evalue),
        clean(out.traceback),
        clean(out.stdout),
        clean(out.stderr),
        clean(str(out.result)),
        kinds,
        payload,
    )


@pytest.mark.slow
def test_cells_equal_those_of_a_stock_kernel(start: Any) -> None:
    ours, stock = start(), start("python3")
    for code in SAME:
        ids = ours.send(code, allow_stdin=False), stock.send(code, allow_stdin=False)
        got, want = ours.wait(ids[0]), stock.wait(ids[1])
        assert _comparable(got) == _comparable(want), code


def test_libraries_see_a_notebook(kernel: Any) -> None:
    assert (
        kernel.run("type(get_ipython()).__name__, type(get_ipython()).__module__").text == "('ZMQInteractiveShell', 'ipykernel.zmqshell')"
    )


def test_nothing_of_ours_is_in_the_namespace(start: Any) -> None:
    ours = start()
    assert ours.run("sorted(n for n in globals() if not n.startswith('_'))").text == "['In', 'Out', 'exit', 'get_ipython', 'open', 'quit']"


def test_the_kernel_says_what_it_is(kernel: Any) -> None:
    kernel.kc.kernel_info()
    reply = kernel.kc.get_shell_msg(timeout=10)["content"]
    assert reply["implementation"] == "bcvm"
    assert reply["language_info"]["name"] == "python"
    assert "BCVM" in reply["banner"]
    assert {"debugger", "kernel subshells"} <= set(reply["supported_features"])


def test_a_stock_kernel_takes_the_extension(start: Any) -> None:
    stock = start("python3")
    assert stock.run("%load_ext bcvm_kernel\nimport numpy as np\nx = np.ones(3)").status == "ok"
    assert stock.run("%%bcvm --strict --stats\ny = x * 2 + 1\ny").stdout.count("100.0% by CALL_OP") == 1
    assert stock.run("x * 2 + 1").text == "array([3., 3., 3.])"
    assert eval(stock.run("s = %bcvm stats -o\ns.call_op, s.call_host").text) == (2, 0)
    assert stock.run("%bcvm nonsense").ename == "MagicError"


def test_bcvm_disable_leaves_everything_to_python(start: Any) -> None:
    client = start(BCVM_DISABLE="1")
    client.run("import numpy as np\nimport bcvm_core as bcvm\nx = np.ones(3)\n@bcvm.jit\ndef f(v): return v * 2 + 1")
    assert client.run("f(x) + x").text == "array([4., 4., 4.])"
    status = client.run("%bcvm status").stdout
    assert "is off" in status and "no op of the table has run" in status
    client.run("%bcvm on")
    client.run("f(x) + x")
    assert "1 by CALL_OP" in client.run("%bcvm").stdout


def test_autoreload_changes_a_function_that_cells_use(kernel: Any, tmp_path: Any) -> None:
    module = tmp_path / "bcvm_reloaded.py"

    def write(factor: int) -> None:
        module.write_text(
            f"import numpy as np\nimport bcvm_core as bcvm\n\n@bcvm.jit\ndef h(v):\n    t = v * {factor}\n    return t + {'1' * factor}\n"
        )

    write(2)
    kernel.run(f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\nsys.dont_write_bytecode = True\n%load_ext autoreload\n%autoreload 2")
    kernel.run("import numpy as np, bcvm_reloaded\nfrom bcvm_reloaded import h\none = np.ones(1)")
    assert kernel.run("h(one), bcvm_reloaded.h(one)").text == "(array([13.]), array([13.]))"
    write(3)
    assert kernel.run("h(one), bcvm_reloaded.h(one)").text == "(array([114.]), array([114.]))"
    kernel.run("%autoreload 0")
