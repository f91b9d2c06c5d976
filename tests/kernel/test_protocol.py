"""The messaging protocol, by jupyter_kernel_test with every sample filled in (13 tests)."""

from __future__ import annotations

import pytest

jupyter_kernel_test = pytest.importorskip("jupyter_kernel_test")


@pytest.fixture(scope="module", autouse=True)
def _installed(kernel_name: str) -> None:
    """The suite starts its own kernel by name."""


class TestProtocol(jupyter_kernel_test.KernelTests):
    kernel_name = "bcvm"
    language_name = "python"
    file_extension = ".py"
    code_hello_world = "print('hello, world')"
    code_stderr = "import sys; print('careful', file=sys.stderr)"
    completion_samples = [
        {"text": "zi", "matches": {"zip"}},
        {"text": "%bcvm st", "matches": {"status", "stats"}},
        {"text": "%%bcvm --st", "matches": {"--strict", "--stats"}},
    ]
    complete_code_samples = ["1", "print('a')", "def f(x):\n  return x * 2\n\n\n", "%bcvm status", "%%bcvm --off\nx = 1\n\n"]
    incomplete_code_samples = ["print('''a", "def f(x):\n  x * 2", "if x:"]
    invalid_code_samples = ["import = 7q", "x = )"]
    code_page_something = "zip?"
    code_generate_error = "raise ValueError('on purpose')"
    code_execute_result = [
        {"code": "1 + 2", "result": "3"},
        {"code": "[n * n for n in range(1, 4)]", "result": "[1, 4, 9]"},
        {"code": "import numpy as np; np.arange(3) * 2 + 1", "result": "array([1, 3, 5])"},
    ]
    code_display_data = [
        {"code": "from IPython.display import HTML, display; display(HTML('<b>bold</b>'))", "mime": "text/html"},
        {"code": "from IPython.display import Math, display; display(Math('x^2'))", "mime": "text/latex"},
    ]
    code_history_pattern = "1 + 2*"
    supported_history_operations = ("tail", "range", "search")
    code_inspect_sample = "zip"
    code_clear_output = "from IPython.display import clear_output; clear_output()"


class TestWelcome(jupyter_kernel_test.IopubWelcomeTests):
    kernel_name = "bcvm"
    support_iopub_welcome = True
