"""Kernels that run out of memory or are killed: the cell fails and says so, or whoever waits learns of it (cases c72 and c76)."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

resource = pytest.importorskip("resource", reason="limits are the system's")
nbformat = pytest.importorskip("nbformat", reason="notebooks need the extra `lab`")

GIB = 2**30


def _limited() -> None:
    """In the child, before it becomes the kernel."""
    resource.setrlimit(resource.RLIMIT_AS, (GIB, GIB))


@pytest.mark.slow
def test_c72_memory_runs_out_then_the_kernel_is_killed(kernel_name: str, tmp_path: Path) -> None:
    """One kernel, as the case tells it: limited to 1 GiB, killed, and started again by its manager."""
    ioloop = pytest.importorskip("jupyter_client.ioloop")
    compile_it = (
        "import numpy as np, bcvm_core as bcvm\nfrom bcvm_core.codegen import loops\nbcvm.ops.exp(np.zeros(3))\nassert loops.wait(60)"
    )
    subprocess.run([sys.executable, "-c", compile_it], env={**os.environ, "BCVM_CACHE_DIR": str(tmp_path)}, check=True)
    assert any(path.is_file() for path in tmp_path.rglob("*"))

    async def story() -> None:
        manager = ioloop.AsyncIOLoopKernelManager(kernel_name=kernel_name, autorestart=True)
        await manager.start_kernel(env={**os.environ, "BCVM_CACHE_DIR": str(tmp_path)}, preexec_fn=_limited)
        client = manager.client()
        client.start_channels()
        await client.wait_for_ready(timeout=60)

        async def run(code: str) -> dict[str, Any]:
            reply = await client.execute_interactive(code, allow_stdin=False, timeout=60, user_expressions={"a": "a"}, output_hook=id)
            return dict(reply["content"])

        assert (await run("import numpy as np, bcvm_core as bcvm\na = 1\n@bcvm.jit\ndef g(x): return np.exp(x) + 1"))["status"] == "ok"
        assert (await run("g(np.zeros(3))"))["status"] == "ok"
        failed = await run("@bcvm.jit\ndef f(n): return np.ones((n, n)) + 1\nf(20_000)")
        assert failed["status"] == "error" and "MemoryError" in failed["ename"]
        assert (await run("1"))["user_expressions"]["a"]["data"]["text/plain"] == "1"

        restarts: list[str] = []
        manager.add_restart_callback(lambda: restarts.append("restarting"), "restart")
        os.kill(manager.provisioner.pid, signal.SIGKILL)
        deadline = time.monotonic() + 30
        while not restarts and time.monotonic() < deadline:
            await asyncio.sleep(0.1)
        assert restarts == ["restarting"]
        await client.wait_for_ready(timeout=60)
        assert (await run("a"))["ename"] == "NameError"
        code = "import numpy as np, bcvm_core as bcvm\na = 2\n@bcvm.jit\ndef g(x): return np.exp(x) + 1\nassert (g(np.zeros(3)) == 2).all()"
        assert (await run(code))["status"] == "ok"
        on_disk = "from bcvm_core.codegen import loops\nassert loops.loop_for('exp', 'float64').ready"  # there is no room to compile it
        assert (await run(on_disk))["status"] == "ok"
        client.stop_channels()
        manager.stop_restarter()
        await manager.shutdown_kernel(now=True)

    asyncio.run(story())


KILL_ITSELF = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
WORK = """
import numpy as np
x = np.ones(1000)
for i in range(10**9):
    x = np.tanh(x * 0.5 + i)
    if i % 1000 == 0:
        open({ready!r}, "w").close()
"""


def _notebook(*cells: str) -> Any:
    notebook = nbformat.v4.new_notebook(metadata={"kernelspec": {"name": "bcvm", "display_name": "BCVM", "language": "python"}})
    notebook.cells = [nbformat.v4.new_code_cell(text) for text in cells]
    return notebook


@pytest.mark.slow
@pytest.mark.parametrize("from_outside", [False, True])
def test_c76_a_kernel_that_dies_ends_the_run(kernel_name: str, tmp_path: Path, from_outside: bool) -> None:
    nbclient = pytest.importorskip("nbclient")
    ready = tmp_path / "ready"
    notebook = _notebook("1 + 1", WORK.format(ready=str(ready)) if from_outside else KILL_ITSELF, "3 + 3")
    client = nbclient.NotebookClient(notebook, timeout=None, kernel_name=kernel_name)
    died: list[float] = []

    def kill() -> None:
        while not ready.exists():
            time.sleep(0.05)
        died.append(time.monotonic())
        os.kill(client.km.provisioner.pid, signal.SIGKILL)

    if from_outside:
        threading.Thread(target=kill, daemon=True).start()
    else:
        died.append(time.monotonic())
    with pytest.raises(nbclient.exceptions.DeadKernelError):
        client.execute()
    assert time.monotonic() - died[0] < 10 + (0 if from_outside else 10)  # its start included
    first, second, third = notebook.cells
    assert first.outputs[0].data["text/plain"] == "2"
    assert third.execution_count is None and [o for o in second.outputs if o.output_type == "execute_result"] == []


@pytest.mark.slow
def test_c76_the_command_fails(kernel_name: str, tmp_path: Path) -> None:
    path = tmp_path / "dies.ipynb"
    nbformat.write(_notebook("1 + 1", KILL_ITSELF), path)
    command = [sys.executable, "-m", "nbconvert", "--execute", "--to", "notebook", "--ExecutePreprocessor.timeout=-1", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode != 0
    assert "DeadKernelError" in done.stderr
