"""`BcvmKernel`: ipykernel's kernel with the cells of its shell sent through the VM.

IPython's own `ZMQInteractiveShell` stays: libraries look at that name to see whether they are
in a notebook. What BCVM adds to it hangs on two hooks (`shell.attach`).
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

from ipykernel.ipkernel import IPythonKernel
from ipykernel.kernelapp import IPKernelApp
from IPython.core.interactiveshell import InteractiveShell
from traitlets import Type

from bcvm_core.version import __version__

from .comms import install_routing
from .lines import keep_lines
from .notices import FirstCellNotice
from .shell import log

install_routing()

_RUN_CODE: CodeType = InteractiveShell.run_code.__code__


def _runs_user_code(frame: FrameType | None) -> bool:
    """Whether `frame` was called, at any depth, by the shell's `run_code`, which reports what it raises."""
    while frame is not None:
        if frame.f_code is _RUN_CODE:
            return True
        frame = frame.f_back
    return False


class BcvmKernel(IPythonKernel):
    """The kernel that the kernelspec ``bcvm`` starts."""

    implementation = "bcvm"
    implementation_version = __version__
    language_info = {
        "name": "python",
        "version": sys.version.split()[0],
        "mimetype": "text/x-python",
        "codemirror_mode": {"name": "ipython", "version": sys.version_info[0]},
        "pygments_lexer": "ipython3",
        "nbconvert_exporter": "python",
        "file_extension": ".py",
    }
    debugger_class = Type("bcvm_kernel.debugger.BcvmDebugger")

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)  # type: ignore[no-untyped-call]
        from .extension import load_in_kernel

        for handler in self.log.handlers:
            log.addHandler(handler)  # the kernel's log is the server's terminal, never a cell
        log.propagate = False
        keep_lines(self.shell)
        self.cells = load_in_kernel(self.shell)
        self.notice = FirstCellNotice(self, self.cells)

    @property
    def banner(self) -> str:  # type: ignore[override]
        """Shown by consoles when they connect."""
        text = f"BCVM {__version__}: cells run through the tensor bytecode VM; '%bcvm -h' lists what you can ask it.\n"
        return text + (super().banner or "")

    def do_history(self, *args: Any, **kwargs: Any) -> dict[str, Any]:  # type: ignore[override]
        """Like ipykernel's, with the current session under its own number, so that a range can be asked for with it."""
        reply: dict[str, Any] = super().do_history(*args, **kwargs)  # type: ignore[no-untyped-call]
        shell: Any = self.shell
        current = shell.history_manager.session_number
        reply["history"] = [(session or current, line, text) for session, line, text in reply["history"]]
        return reply

    @contextmanager
    def _cancel_on_sigint(self, future: asyncio.Future[Any]) -> Iterator[None]:
        """While a cell with top-level ``await`` runs: an interrupt reaches it at once.

        Code that is running gets KeyboardInterrupt where it stands. A cell that waits is
        cancelled through the loop's self-pipe, which wakes the selector (ipykernel 7.4 queues
        a callback that runs when the wait is over anyway).
        """
        loop: asyncio.AbstractEventLoop = self.io_loop.asyncio_loop  # type: ignore[attr-defined]

        def cancel() -> None:
            if not future.done():
                future.cancel()

        def on_interrupt(number: int, frame: FrameType | None) -> None:
            if asyncio.current_task(loop) is future and _runs_user_code(frame):
                signal.default_int_handler(number, frame)
            loop.call_soon_threadsafe(cancel)

        before = signal.signal(signal.SIGINT, on_interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)


def launch() -> None:
    """Start the kernel with the options of the command line."""
    IPKernelApp.launch_instance(kernel_class=BcvmKernel, outstream_class="bcvm_kernel.streams.OrderedStream")
