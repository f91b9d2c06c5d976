"""The two environment variables of MindSpore users, in processes of their own."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys

import pytest

MINDSPORE = importlib.util.find_spec("mindspore") is not None

PROGRAM = """
import numpy as np, bcvm_core as bcvm
@bcvm.jit
def f(x: bcvm.Tensor["Batch", "*", "*", "*"], y): return (x + y)[0]
for n in (2, 3): f(np.ones((n, 3, 4, 5), np.float32), np.ones((n, 3, 4, 5), np.float32))
"""
MODEL = """
import sys
{imports}
import numpy as np
from mindspore import nn
class Net(nn.Cell):
    def construct(self, x):
        return x * 2.0 + 1.0
import mindspore as ms
out = Net()(ms.Tensor(np.ones((2, 3), np.float32)))
assert (out.asnumpy() == 3.0).all()
print(bcvm.enabled(), bcvm.stats().call_op)
"""


def run(code: str, **variables: str) -> tuple[str, str]:
    """(stdout, stderr) of a program."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("MS_")}
    done = subprocess.run([sys.executable, "-c", code], env=kept | variables, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


@pytest.mark.parametrize("level", ["DEBUG", "0", "debug"])
def test_a_line_for_each_kernel_that_is_chosen(level: str) -> None:
    out, err = run(PROGRAM, MS_LOG_LEVEL=level, MS_ENABLE_BYTECODE_VM="1")
    assert out == ""
    lines = [line for line in err.splitlines() if line.startswith("[BCVM] Compile")]
    assert len(lines) == 2, "a new batch size is no reason to compile"
    assert all(re.fullmatch(r"\[BCVM\] Compile for sig=0x[0-9A-F]{4}, shape_hint=\[[A-Za-z0-9*,]+\]", line) for line in lines)
    assert lines[0].endswith("shape_hint=[B,*,*,*]")


@pytest.mark.parametrize("level", ["INFO", "WARNING", "1", "ERROR", "nonsense", ""])
def test_nothing_is_printed_otherwise(level: str) -> None:
    assert run(PROGRAM, MS_LOG_LEVEL=level) == ("", "")


def test_an_applications_own_logging_gets_the_lines() -> None:
    code = "import logging, sys; logging.basicConfig(stream=sys.stdout, format='%(name)s %(levelname)s %(message)s')\n" + PROGRAM
    out, err = run(code, MS_LOG_LEVEL="DEBUG")
    assert err == ""
    assert out.splitlines()[0].startswith("bcvm DEBUG [BCVM] Compile for sig=0x")


def test_mindspore_is_not_imported_for_the_switch() -> None:
    out, _ = run("import sys, bcvm_core as bcvm; print('mindspore' in sys.modules, bcvm.enabled())", MS_ENABLE_BYTECODE_VM="1")
    assert out.split() == ["False", "False"]


@pytest.mark.slow
@pytest.mark.skipif(not MINDSPORE, reason="MindSpore is not installed")
@pytest.mark.parametrize("imports", ["import bcvm_core as bcvm", "import mindspore; import bcvm_core as bcvm"], ids=["before", "after"])
def test_the_switch_runs_models_through_the_vm(imports: str) -> None:
    code = MODEL.format(imports=imports)
    enabled, ops = run(code, MS_ENABLE_BYTECODE_VM="1", GLOG_v="3")[0].split()
    assert (enabled, ops) == ("True", "2")
    assert run(code, GLOG_v="3")[0].split() == ["False", "0"]
    assert run(code, MS_ENABLE_BYTECODE_VM="1", BCVM_DISABLE="1", GLOG_v="3")[0].split() == ["False", "0"]
