"""Loops of machine code: found in the store, or compiled by a thread and stored, then linked.

A loop is asked for by name and element type. It comes at once, `ready` when its object was in the
store; otherwise it turns ready while the caller goes on with the NumPy formulation.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
import threading
import time
from typing import Any, Final

import numpy as np

from .. import locks
from . import apart, llvm, loader, store


class Loop:
    """Machine code of one op over one element type; subclasses say what it is made from and how it is called."""

    __slots__ = ("op", "dtype", "name", "ready", "failed")
    optimise = False  # whether LLVM's passes run over `_ir()`, or it is good as it is
    heavy = False  # whether making it takes seconds: whatever else is waited for goes first

    def __init__(self, op: str, dtype: str) -> None:
        self.op, self.dtype, self.name = op, dtype, f"{op}_{dtype}"
        self.ready = False
        self.failed = ""  # why there will be no code

    @classmethod
    def takes(cls, _op: str, _dtype: str) -> bool:
        """Whether there is a loop of an op over an element type."""
        return True

    def load(self) -> bool:
        """Take the code from the store; False when it is not there or can't be used."""
        body = store.read(self.name)
        if body is None:
            return False
        try:
            self._link(body)
        except loader.LoadError as error:
            self.failed = str(error)
            return False
        return True

    def compile(self) -> None:
        """Make, store and load the code. Errors are kept in `failed`: NumPy goes on."""
        try:
            body = apart.body_of(self, DEADLINE_S) if _compile_apart else self.body()
            store.write(self.name, body)
            self._link(body)
        except (ImportError, RuntimeError, OSError, loader.LoadError) as error:
            self.failed = f"{type(error).__name__}: {error}"

    def body(self) -> bytes:
        """What is stored, made by LLVM in this process. Raises ImportError, RuntimeError."""
        from . import compiler

        return compiler.compile_ir(self._ir(), self.optimise)

    def _ir(self) -> str:
        """The module to compile."""
        raise NotImplementedError

    def _symbols(self) -> list[str]:
        """The functions that are wanted of it."""
        raise NotImplementedError

    def _take(self, found: dict[str, int]) -> None:
        """Make callables of their addresses."""
        raise NotImplementedError

    def _link(self, body: bytes) -> None:
        symbols = self._symbols()
        if loader.SUPPORTED:
            found = loader.load(body)
        else:
            from . import compiler

            found = compiler.link(body, symbols, self.name)
        if not set(symbols) <= found.keys():
            raise loader.LoadError("the object lacks its functions")
        self._take(found)
        self.ready = True


def lanes() -> int:
    """Doubles per step: two of the machine's registers."""
    return 16 if store.cpu_level() == "x86-64-v4" else 8


def _asked_address(x: Any) -> int:
    found: int = x.__array_interface__["data"][0]
    return found


@functools.cache
def data_offset_holds() -> bool:
    """Whether array objects keep their data pointer where the generated code looks for it."""
    probe = np.arange(3.0)[1:]
    try:
        return ctypes.c_void_p.from_address(id(probe) + llvm.ARRAY_DATA).value == _asked_address(probe)
    except (ValueError, TypeError):
        return False


_pointer_at: Final = ctypes.c_void_p.from_address
_AT: Final = llvm.ARRAY_DATA if data_offset_holds() else 0


def address(x: Any) -> int:
    """Where an array's first element lies."""
    if _AT and type(x) is np.ndarray:
        return _pointer_at(id(x) + _AT).value or 0
    return _asked_address(x)


# -- making them ---------------------------------------------------------------------------------

_loops: dict[tuple[str, str], Loop] = {}
MAKERS: dict[str, type[Loop]] = {}  # the class of each op's loops
_lock = locks.lock()
_waiting: list[Loop] = []
_worker: threading.Thread | None = None
_at_work: tuple[Loop, float] | None = None  # what the worker compiles, and since when
_POLL_S: Final = 0.02
DEADLINE_S = 120.0  # a compile that takes longer is given up
_compile_apart = False  # LLVM can't be used in this process
_GRACE_S = 0.1
_asked = threading.Event()  # somebody waits for one that was not there when the worker looked


def loop_for(op: str, dtype: str) -> Loop:
    """The loop of `op` ("exp") over `dtype` ("float32" or "float64"), on its way to machine code if it can be."""
    loop = _loops.get((op, dtype))
    if loop is None:
        with _lock:
            loop = _loops.get((op, dtype))
            if loop is None:
                loop = MAKERS[op](op, dtype)
                if not loop.load() and not loop.failed and compiler_is_there():
                    _enqueue(loop)
                _loops[op, dtype] = loop
    return loop


def known(op: str, dtype: str) -> Loop | None:
    """The loop, if somebody asked for it before."""
    return _loops.get((op, dtype))


def compiler_is_there() -> bool:
    return _llvmlite_is_installed()


@functools.cache
def _llvmlite_is_installed() -> bool:
    return importlib.util.find_spec("llvmlite") is not None


def _enqueue(loop: Loop) -> None:
    """Compile in the background (the lock is held)."""
    _waiting.append(loop)
    _asked.set()
    if _worker is None:
        _start_worker()


def _start_worker() -> None:
    """Start the thread (the lock is held)."""
    global _worker
    _worker = threading.Thread(target=_work, name="bcvm-templates")
    try:
        _worker.start()
    except RuntimeError as error:  # the interpreter is shutting down, or there are no more threads
        _worker = None
        for loop in _waiting:
            loop.failed = str(error)
        _waiting.clear()


def _work() -> None:
    global _worker, _at_work
    rested = False
    while True:
        with _lock:
            if _worker is not threading.current_thread():  # what this one was at was given up, and another does the rest
                return
            if not _waiting:
                _worker = None
                return
            loop = min(_waiting, key=lambda waiting: waiting.heavy)
            _asked.clear()
        if loop.heavy and not rested:  # those of single ops are asked for right after it
            rested = not _asked.wait(_GRACE_S)
            continue
        rested = False
        _at_work = loop, time.monotonic()
        try:
            loop.compile()
        except Exception as error:  # a fault of ours, or of LLVM's: this loop is given up, the others come
            loop.failed = f"{type(error).__name__}: {error}"
        with _lock:
            if _worker is threading.current_thread():
                _at_work = None
                _waiting.remove(loop)


def give_up_late() -> None:
    """A compile that hangs is abandoned: its loop has failed, and another thread goes on with what else is waited for."""
    global _worker, _at_work
    at_work = _at_work
    if at_work is None or time.monotonic() - at_work[1] < DEADLINE_S:
        return
    with _lock:
        if _at_work is not at_work:
            return
        at_work[0].failed = f"compile_timeout: it took longer than {DEADLINE_S:g} s"
        _waiting.remove(at_work[0])
        _at_work = _worker = None
        if _waiting:
            _start_worker()


def _after_fork() -> None:
    """The child has no worker, and LLVM's locks are as they were: if one was at work, LLVM is not for this process."""
    global _asked, _worker, _compile_apart, _at_work
    _at_work = None
    _compile_apart = _compile_apart or _worker is not None
    _asked, _worker = threading.Event(), None
    for loop in _waiting:
        _loops.pop((loop.op, loop.dtype), None)
    _waiting.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def wait(timeout: float | None = None) -> bool:
    """Wait until nothing is being compiled; False when the time is up first."""
    worker = _worker
    if worker is not None:
        worker.join(timeout)
    return _worker is None


def made(op: str, dtype: str) -> Loop:
    """The loop, made within this call where that is possible: which code computes must not depend on what was warm."""
    loop = loop_for(op, dtype)
    while not loop.ready and not loop.failed and not wait(_POLL_S):
        give_up_late()
    return loop


def forget() -> None:
    """Drop all loops (kernels handed out keep theirs): the next use looks into the store again."""
    wait()
    with _lock:
        _loops.clear()
