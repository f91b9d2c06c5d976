"""Interrupts reach running code, waiting code and a waiting input(), and leave a working kernel."""

from __future__ import annotations

import time
from typing import Any

import pytest

ENDLESS = "print('go', flush=True)\nwhile True:\n    pass"
ASYNC_ENDLESS = "import asyncio\nawait asyncio.sleep(0)\nprint('go', flush=True)\nwhile True:\n    pass"
AWAITING = "import asyncio\nprint('go', flush=True)\nawait asyncio.sleep(60)"
TENSORS = "import numpy as np\nx = np.ones(1000)\nprint('go', flush=True)\nwhile True:\n    x = np.tanh(x * 0.5 + 1) - x"
NATIVE = "import time\nprint('go', flush=True)\ntime.sleep(60)"


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
def test_a_cell_stops_within_two_seconds(kernel: Any, code: str, names: set[str]) -> None:
    message_id = kernel.send(code)
    kernel.wait_for_output(message_id, "go")
    time.sleep(0.2)
    asked = time.monotonic()
    kernel.manager.interrupt_kernel()
    out = kernel.wait(message_id)
    assert time.monotonic() - asked < 2.0
    assert out.status == "error"
    assert out.ename in names
    assert kernel.run("1 + 1").text == "2"


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


def test_c72_a_cell_without_memory_fails_and_the_kernel_lives(start: Any) -> None:
    client = start()
    client.run("import numpy as np, resource\nsoft, hard = resource.getrlimit(resource.RLIMIT_AS)")
    client.run("used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()")
    client.run("resource.setrlimit(resource.RLIMIT_AS, (used + 2**30, hard))\na = 1")
    out = client.run("def f(n): return np.ones((n, n)) + 1\nf(20_000)")
    assert out.status == "error"
    assert "MemoryError" in out.ename
    assert client.run("a").text == "1"
    client.manager.restart_kernel(now=True)
    client.kc.wait_for_ready(timeout=60)
    assert client.run("a").ename == "NameError"
