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
