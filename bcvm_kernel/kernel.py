"""`BcvmKernel`: ipykernel's kernel with the cells of its shell sent through the VM.

IPython's own `ZMQInteractiveShell` stays: libraries look at that name to see whether they are
in a notebook. What BCVM adds to it hangs on two hooks (`shell.attach`).
"""

from __future__ import annotations

import asyncio
import gc
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
from .threads import outlets_of, threads_keep_their_cell
from .updates import Waiting, widget_state

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
        threads_keep_their_cell(outlets_of(self.shell))
        self._waiting = Waiting(self.session)
        self._handle_comm = self.shell_handlers["comm_msg"]
        self.shell_handlers["comm_msg"] = self._comm_msg
        self.cells = load_in_kernel(self.shell)
        self.notice = FirstCellNotice(self, self.cells)

    def start(self) -> None:
        """Begin to serve requests. What is there by now stays, so no collection of the user's garbage goes through it."""
        super().start()  # type: ignore[no-untyped-call]
        gc.collect()  # what is garbage already would stay, too
        gc.freeze()

    @property
    def banner(self) -> str:  # type: ignore[override]
        """Shown by consoles when they connect."""
        text = f"BCVM {__version__}: cells run through the tensor bytecode VM; '%bcvm -h' lists what you can ask it.\n"
        return text + (super().banner or "")

    # A flood of widget updates (see `updates`) is held back where messages come in.
    async def shell_channel_thread_main(self, msg: Any) -> None:
        """A message of the front end goes on to its shell."""
        shell, now = self._waiting.admit(msg)
        for frames in now:
            await super().shell_channel_thread_main(frames)  # type: ignore[no-untyped-call]
        while self._waiting.dropped:
            parent = self._waiting.dropped.pop()
            for status in ("busy", "idle"):
                self._publish_status(status, "shell", parent)  # type: ignore[no-untyped-call]
        self._ask_again(shell)

    async def _send_next_update(self, shell: str | None, *, handled: bool) -> None:
        if handled:
            self._waiting.handled(shell)
        frames = self._waiting.next(shell)
        if frames is not None:
            await super().shell_channel_thread_main(frames)  # type: ignore[no-untyped-call]
        self._ask_again(shell)

    def _ask_again(self, shell: str | None) -> None:
        delay = self._waiting.delay(shell)
        if delay is not None:
            self.shell_channel_thread.io_loop.call_later(delay, self._send_next_update, shell, handled=False)

    def _comm_msg(self, stream: Any, ident: Any, msg: dict[str, Any]) -> Any:
        try:
            return self._handle_comm(stream, ident, msg)
        finally:
            if self.shell_channel_thread is not None and widget_state(msg["content"], msg.get("buffers")) is not None:
                shell = msg["header"].get("subshell_id")
                self.shell_channel_thread.io_loop.add_callback(self._send_next_update, shell, handled=True)

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
