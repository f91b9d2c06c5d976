"""Threads of cells: what they write belongs to the cell that started them, and nothing else about them changes."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

pytest.importorskip("ipykernel", reason="the kernel's tests need the extra `lab`")

from bcvm_kernel.threads import threads_keep_their_cell  # noqa: E402

MANY_KINDS = r"""
import contextvars, decimal, sys, threading, time
from concurrent.futures import ThreadPoolExecutor
from IPython.display import display

own = contextvars.ContextVar("own", default="default")
own.set("of the cell")
decimal.getcontext().prec = 5
more = threading.Event()

def inner():
    more.wait()
    print(f"inner {own.get()} {decimal.getcontext().prec}\n", end="")  # in one piece: another thread writes, too
    display("shown")

class Mine(threading.Thread):
    def run(self):
        more.wait()
        print("mine", file=sys.stderr)
        threading.Thread(target=inner).start()

def fails():
    more.wait()
    time.sleep(0.2)
    raise ValueError("in a thread")

Mine().start()
threading.Thread(target=fails).start()
pool = ThreadPoolExecutor(1)
pool.submit(lambda: (more.wait(), print("pooled\n", end="")))
"""


def test_whatever_kind_of_thread(kernel: Any) -> None:
    first = kernel.send(MANY_KINDS)
    kernel.wait(first)
    second = kernel.send("more.set(); time.sleep(0.1); print('second')")
    found: dict[str, list[tuple[str, str]]] = {first: [], second: []}
    deadline = time.monotonic() + 20
    while not any("ValueError" in text for _, text in found[first]):
        message = kernel.kc.get_iopub_msg(timeout=max(0.01, deadline - time.monotonic()))
        content, parent = message["content"], message["parent_header"].get("msg_id")
        if message["msg_type"] == "stream":
            found[parent].append((content["name"], content["text"]))
        elif message["msg_type"] == "display_data":
            found[parent].append(("display", content["data"]["text/plain"]))
    text = {kind: "".join(t for k, t in found[first] if k == kind) for kind in ("stdout", "stderr", "display")}
    assert sorted(text["stdout"].splitlines()) == ["inner default 28", "pooled"]  # no variable of the cell's, as in Python
    assert text["display"] == "'shown'"
    assert text["stderr"].startswith("mine") and "in a thread" in text["stderr"]
    assert "bcvm_kernel" not in text["stderr"]
    assert {t for _, t in found[second]} <= {"second\n"}
    kernel.run("decimal.getcontext().prec = 28; pool.shutdown()")


def test_outside_of_cells_threads_are_left_alone() -> None:
    import contextvars

    outlet: contextvars.ContextVar[dict[str, Any]] = contextvars.ContextVar("parent_header")
    plain = threading.Thread.start
    undo = threads_keep_their_cell([outlet])
    try:
        seen: list[Any] = []
        thread = threading.Thread(target=lambda: seen.append(outlet.get(None)))
        thread.start()
        thread.join()
        assert "_bootstrap" not in vars(thread)
        token = outlet.set({"msg_id": "cell"})
        thread = threading.Thread(target=lambda: seen.append(outlet.get(None)))
        thread.start()
        thread.join()
        outlet.reset(token)
        assert "_bootstrap" not in vars(thread)
        assert seen == [None, {"msg_id": "cell"}]
        with pytest.raises(RuntimeError, match="once"):
            thread.start()
    finally:
        undo()
    assert threading.Thread.start is plain
