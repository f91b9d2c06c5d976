"""Timing cells in running kernels: what the front end's user waits for, measured inside the cell."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from jupyter_client.manager import start_new_kernel


@contextmanager
def kernel(name: str) -> Iterator[Any]:
    """A client of a fresh kernel."""
    manager, client = start_new_kernel(kernel_name=name)
    try:
        yield client
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def run(client: Any, code: str) -> str:
    """Run a cell; returns what it printed. Raises RuntimeError when it fails."""
    printed: list[str] = []

    def collect(message: dict[str, Any]) -> None:
        if message["msg_type"] == "stream":
            printed.append(message["content"]["text"])

    reply = client.execute_interactive(code, output_hook=collect, timeout=120)
    if reply["content"]["status"] != "ok":
        raise RuntimeError(reply["content"].get("evalue", "the cell failed"))
    return "".join(printed)


def wall_ms(client: Any, code: str) -> float:
    """Milliseconds that a cell took, between two clocks in cells of their own."""
    run(client, "import time; _t0 = time.perf_counter()")
    run(client, code)
    return float(run(client, "print((time.perf_counter() - _t0) * 1e3)"))
