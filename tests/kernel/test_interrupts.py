"""Interrupts reach running code, waiting code and a waiting input(), and leave a working kernel."""

from __future__ import annotations

import textwrap
import time
from typing import Any

import pytest

ENDLESS = "print('go', flush=True)\nwhile True:\n    pass"
ASYNC_ENDLESS = "import asyncio\nawait asyncio.sleep(0)\nprint('go', flush=True)\nwhile True:\n    pass"
AWAITING = "import asyncio\nprint('go', flush=True)\nawait asyncio.sleep(60)"
TENSORS = "import numpy as np\nx = np.ones(1000)\nprint('go', flush=True)\nwhile True:\n    x = np.tanh(x * 0.5 + 1) - x"
NATIVE = "import time\nprint('go', flush=True)\ntime.sleep(60)"


AT_ONCE_S = 0.5

TIMED = """
import time
try:
{code}
except BaseException:
    stopped = time.monotonic()
    raise
"""


def interrupted(client: Any, code: str) -> tuple[Any, float]:
    """Run a cell, interrupt it, and say what came back, and after how many seconds the cell knew."""
    message_id = client.send(TIMED.format(code=textwrap.indent(code, "    ")))
    client.wait_for_output(message_id, "go")
    time.sleep(0.2)
    asked = time.monotonic()
    client.manager.interrupt_kernel()
    out = client.wait(message_id)
    return out, float(client.run("stopped").text) - asked


@pytest.mark.parametrize(
    ("code", "names"),
    [
        (ENDLESS, {"KeyboardInterrupt"}),
        (NATIVE, {"KeyboardInterrupt"}),
        (TENSORS, {"KeyboardInterrupt"}),
        (ASYNC_ENDLESS, {"KeyboardInterrupt"}),
        (AWAITING, {"CancelledError", "KeyboardInterrupt"}),
    ],
    ids=["python", "native", "tensors", "running-after-await", "awaiting"],
)
def test_a_cell_stops_within_half_a_second(kernel: Any, code: str, names: set[str]) -> None:
    out, seconds = interrupted(kernel, code)
    assert out.status == "error"
    assert out.ename in names
    assert seconds < AT_ONCE_S
    assert kernel.run("1 + 1").text == "2"


# One instruction each, of many seconds.
LONG_KERNELS = {
    "matmul": ("a = np.ones((6500, 6500))", "b = a @ a"),
    "sort": ("a = np.random.default_rng(0).random(40_000_000)", "b = np.sort(a)"),
    "reduction": ("a = np.broadcast_to(np.int64(1), (10**6, 10**5))", "b = a.sum()"),
    "convolution": ("a = np.ones((32, 64, 128, 128), 'f4'); w = np.ones((256, 64, 5, 5), 'f4')", "b = bcvm.ops.conv2d(a, w)"),
}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "awaits"), [*((name, False) for name in LONG_KERNELS), ("sort", True)])
def test_a_long_kernel_stops_within_half_a_second(start: Any, name: str, awaits: bool) -> None:
    prepare, call = LONG_KERNELS[name]
    client = start()  # of its own: what was given up runs on
    assert client.run(f"import asyncio, numpy as np, bcvm_core as bcvm\n{prepare}\nb = 'before'").status == "ok"
    out, seconds = interrupted(client, ("await asyncio.sleep(0)\n" if awaits else "") + f"print('go', flush=True)\n{call}")
    assert (out.status, out.ename) == ("error", "KeyboardInterrupt")
    assert seconds < AT_ONCE_S
    assert client.run("b, np.ones(3) + 1").text == "('before', array([2., 2., 2.]))"
    client.close()


def test_an_idle_kernel_ignores_an_interrupt(kernel: Any) -> None:
    kernel.manager.interrupt_kernel()
    time.sleep(0.1)
    assert kernel.run("2 + 2").text == "4"


C62 = """
import numpy as np
from bcvm_core import testing

def f(x):
    return x + 1

with testing.slow_kernel("add.numpy", 20.0):
    print("go", flush=True)
    f(np.array([1.0, 2.0]))
"""


def test_c62_an_interrupt_inside_a_kernel_leaves_nothing_half_done(kernel: Any) -> None:
    message_id = kernel.send(C62)
    kernel.wait_for_output(message_id, "go")
    time.sleep(0.5)
    asked = time.monotonic()
    kernel.manager.interrupt_kernel()
    out = kernel.wait(message_id)
    assert (out.status, out.ename) == ("error", "KeyboardInterrupt")
    assert time.monotonic() - asked < 2.0
    assert kernel.run("1 + 1").text == "2"
    assert kernel.run("f(np.array([1., 2.]))").text == "array([2., 3.])"
    assert kernel.run("s = %bcvm stats -o f\ns.ops['add'].call_op").text == "1"
