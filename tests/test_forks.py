"""Children of a fork: they find every lock free, and compute what their parent computes, whatever its threads were at."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bcvm_core import locks

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

_APART = {
    "locks.py",  # makes them
    "codegen/stencils/threads.py",  # that of one call, which no child goes on with
}


def child_ends_with(work: Callable[[], int], seconds: float = 20.0) -> int:
    """The exit status of a child that does something; it is killed when it takes too long."""
    child = os.fork()
    if not child:
        code = 99
        try:
            code = work()
        finally:
            os._exit(code)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, 9)
    os.waitpid(child, 0)
    raise AssertionError("the child hangs")


@pytest.mark.parametrize("make", [locks.lock, locks.rlock])
def test_a_lock_that_another_thread_holds_is_free_in_the_child(make: Callable[[], threading.Lock]) -> None:
    lock, held, done = make(), threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            done.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(60)
    try:
        assert child_ends_with(lambda: 0 if lock.acquire(timeout=2) else 1) == 0
        assert not lock.acquire(blocking=False), "in the parent it is held as before"
    finally:
        done.set()
        thread.join()


def test_every_lock_is_one_of_those(repository: Path) -> None:
    package = repository / "bcvm_core"
    found = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")  # `cached_property` has a lock of its own in Python 3.11
        if re.search(r"threading\.(R?Lock|Condition|Semaphore)\(|\bcached_property\b", path.read_text(encoding="utf-8"))
    }
    assert found == _APART


IN_A_COLD_PROCESS = """
import os, sys
import numpy as np
import bcvm_core as bcvm
from bcvm_core import ops
from bcvm_core.codegen import loops
from bcvm_core.codegen.stencils.driver import driver
rng = np.random.default_rng(0)
q, k, v = (rng.normal(size=(2, 33, 20)).astype(np.float32) for _ in range(3))
x, w = rng.normal(size=(7, 40)).astype(np.float32), rng.normal(size=(40, 30)).astype(np.float32)
def results():
    with bcvm.override(reproducible=True):
        return ops.attention(q, k, v).tobytes() + bcvm.jit(lambda a, b: a @ b)(x, w).tobytes()
driver()
assert loops._worker is not None, "a thread compiles"
child = os.fork()
if not child:
    assert loops._compile_apart
    out = results()
    with open(sys.argv[1], "wb") as file: file.write(out)
    os._exit(0 if loops.known("attention", "float32").ready else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert results() == open(sys.argv[1], "rb").read(), "the child has other bits"
"""


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_child_of_a_process_that_compiles_has_the_same_kernels(tmp_path: Path, repository: Path) -> None:
    """Which code computes must not depend on what the parent's threads did when it forked."""
    pytest.importorskip("llvmlite")
    from bcvm_core.codegen.stencils import target

    if target.host() is None:
        pytest.skip("no kernels for this processor")
    env = os.environ | {"BCVM_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", IN_A_COLD_PROCESS, str(tmp_path / "child")]
    done = subprocess.run(command, env=env, cwd=repository, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_every_kind_of_loop_is_the_same_when_another_process_makes_it() -> None:
    pytest.importorskip("llvmlite")
    from bcvm_core.codegen import apart, loops, templates, versions  # noqa: F401  # each adds its kinds
    from bcvm_core.codegen.attention import entry  # noqa: F401
    from bcvm_core.codegen.onednn import digest  # noqa: F401
    from bcvm_core.codegen.products import product  # noqa: F401
    from bcvm_core.codegen.stencils import driver, library, target  # noqa: F401

    if target.host() is None:
        pytest.skip("no kernels for this processor")
    first = {kind: op for op, kind in reversed(loops.MAKERS.items())}
    assert len(first) >= 9
    for kind, op in first.items():
        dtype = next(name for name in ("float32", "float64", "bool") if kind.takes(op, name))
        loop = kind(op, dtype)
        assert apart.body_of(loop, 60.0) == loop.body(), loop.name


def test_a_fork_waits_for_what_another_thread_imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its lock would stay shut in the child, and the module half done."""
    (tmp_path / "slow_to_import.py").write_text("import time\ntime.sleep(0.5)\nvalue = 7\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    thread = threading.Thread(target=lambda: __import__("slow_to_import"))
    thread.start()
    while "slow_to_import" not in sys.modules:
        time.sleep(0.001)
    started = time.monotonic()
    assert child_ends_with(lambda: 0 if __import__("slow_to_import").value == 7 else 1) == 0
    assert time.monotonic() - started < 5
    thread.join()
    started = time.monotonic()
    assert child_ends_with(lambda: 0) == 0
    assert time.monotonic() - started < 1
