"""Long calls beside the main thread, so that an interrupt need not wait for their end.

Python runs signal handlers in the main thread, between two of its instructions; one kernel call is one instruction. While somebody
asks for it (a notebook's kernel does), a call that may take long (`effort`) runs in a thread of its own and the main thread waits for
it, which an interrupt ends. Native code cannot be stopped: the thread runs on, out of the way of others, to the end of the native call
that it is in, and what it computes is dropped. It writes nothing that the user can see: calls that write into the user's arrays are
never made this way.

While it is off no call is touched. The result, the floating-point events and the errors of a call are the same either way.
"""

from __future__ import annotations

import _thread
import contextlib
import contextvars
import ctypes
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import fpstatus
from ..ops.registry import OpInfo
from .demand import OnDemand
from .effort import SHORT, judge, size_alone

Kernel = Callable[..., Any]
_get_ident = threading.get_ident
_NICE = 10


class _Call:
    """One call in its thread: a new one each time, for it starts with the floating-point environment of the thread that makes it."""

    __slots__ = ("attrs", "context", "done", "error", "fn", "given_up", "native_id", "operands", "over", "thread", "value")

    def __init__(self, fn: Kernel, operands: tuple[Any, ...], attrs: dict[str, Any]) -> None:
        self.fn, self.operands, self.attrs = fn, operands, attrs
        self.context = contextvars.copy_context()
        self.value: Any = None
        self.error: BaseException | None = None
        self.over = self.given_up = False
        self.thread = self.native_id = 0
        self.done = _thread.allocate_lock()
        self.done.acquire()

    def run(self) -> None:
        try:
            self.thread, self.native_id = _get_ident(), threading.get_native_id()
            if not self.given_up:  # before it had begun, on a busy machine
                self.value = self.context.run(self.fn, *self.operands, **self.attrs)
        except BaseException as error:  # raised where the call was made
            self.error = error
        finally:
            self.over = True
            self.operands, self.attrs = (), {}
            self.done.release()

    def give_up(self) -> None:
        """Nobody waits for it any more: it ends between two native calls, and gets little of the processor until then."""
        self.given_up = True
        if self.thread and not self.over:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self.thread), ctypes.py_object(SystemExit))
            if sys.platform == "linux":  # where a thread has a priority of its own
                with contextlib.suppress(OSError):
                    os.setpriority(os.PRIO_PROCESS, self.native_id, _NICE)


class Beside(OnDemand):
    """Makes long calls interruptible while somebody wants that. `strays`: calls that were given up and still run."""

    def __init__(self) -> None:
        super().__init__()
        self.strays: list[_Call] = []

    def guarded(self, op: OpInfo, fn: Kernel, operands: tuple[Any, ...]) -> Kernel:
        """`fn`, a kernel of `op`, whose long calls in the main thread can be interrupted. All its calls have operands of the same types."""
        is_long = judge(op)
        if is_long is None:
            return fn
        threaded = op.shape_rule in ("matmul", "conv") or op.family == "linalg"
        main = threading.main_thread().ident

        def careful(*operands: Any, **attrs: Any) -> Any:
            if not (is_long(operands, attrs) or (threaded and self._stray())) or "out" in attrs or _get_ident() != main:
                return fn(*operands, **attrs)
            return self._wait(_Call(fn, operands, attrs))

        arrays = [type(value) is np.ndarray for value in operands]
        plain = len(arrays) == len(op.operands) and all(p.role == "tensor" for p in op.operands)  # no tensor is passed by name
        return self._quick(fn, careful, arrays, threaded) if plain and size_alone(op) and any(arrays) else careful

    def _quick(self, fn: Kernel, careful: Kernel, arrays: list[bool], threaded: bool) -> Kernel:
        """`careful`, asked only for what is not short at first sight."""
        if threaded and arrays == [True, True]:
            return lambda x, y, **attrs: (fn if x.size * y.size < SHORT and not self.strays else careful)(x, y, **attrs)
        if not threaded and len(arrays) <= 3:
            match arrays:
                case [True]:
                    return lambda x, **attrs: (fn if x.size < SHORT else careful)(x, **attrs)
                case [True, True]:
                    return lambda x, y, **attrs: (fn if x.size * y.size < SHORT else careful)(x, y, **attrs)
                case [True, False]:
                    return lambda x, y, **attrs: (fn if x.size < SHORT else careful)(x, y, **attrs)
                case [False, True]:
                    return lambda x, y, **attrs: (fn if y.size < SHORT else careful)(x, y, **attrs)
                case [True, True, True]:
                    return lambda x, y, z, **attrs: (fn if x.size * y.size * z.size < SHORT else careful)(x, y, z, **attrs)
        return careful

    def _wait(self, call: _Call) -> Any:
        try:
            _thread.start_new_thread(fpstatus.carried(call.run), ())
        except RuntimeError:  # no room for another thread
            return call.fn(*call.operands, **call.attrs)
        try:
            call.done.acquire()
        except BaseException:
            self.strays = [*self.strays, call]
            call.give_up()
            raise
        if call.error is not None:
            raise call.error
        return call.value

    def _stray(self) -> bool:
        """Whether a call that was given up runs still. BLAS lets nobody in meanwhile, so even a short product may have to wait for it."""
        self.strays = [call for call in self.strays if not call.over]
        return bool(self.strays)


beside = Beside()
