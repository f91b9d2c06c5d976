"""The dashboard: a live picture of the latest cell with tensor work, while it runs and after."""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anywidget
import traitlets

from bcvm_core.errors import BcvmError

from . import protocol
from .assets import script, style
from .cache_messages import is_cache_command
from .protocol import Status, is_command, is_comparison, is_request
from .pump import Pump
from .reports import Report, make
from .runs import Run
from .sampling import Sample, Sampler
from .watching import status_of, watch

if TYPE_CHECKING:
    from .replaying import Replay


class Dashboard(anywidget.AnyWidget):  # type: ignore[misc]  # anywidget has no types
    """Source lines and the instructions they became, with tier, kernel, executions and times; see `protocol`.

    `functions`: jitted functions to show besides the cells of the notebook. `docked`: beside the notebook, where the front end has room.
    While no view is open nothing is measured, sent or run.
    """

    _esm = script()
    _css = style()
    listing = traitlets.Dict().tag(sync=True)
    choices = traitlets.Dict().tag(sync=True)
    figures = traitlets.Dict().tag(sync=True)
    latencies = traitlets.Dict().tag(sync=True)
    fusion = traitlets.Dict().tag(sync=True)
    cache = traitlets.Dict().tag(sync=True)
    code = traitlets.Dict().tag(sync=True)
    diff = traitlets.Dict().tag(sync=True)
    status = traitlets.Dict().tag(sync=True)
    docked = traitlets.Bool().tag(sync=True)

    def __init__(self, *functions: Any, docked: bool = False, max_rate_hz: float = protocol.MAX_RATE_HZ) -> None:
        self._watch = watch(functions)
        self._sampler = Sampler(self._watch)
        self._lock = threading.Lock()
        self._views: set[str] = set()
        self._said = ""
        self._run = Run()  # so far; what is sent is taken down, at most four times a second
        self._paused = False
        self._pump = Pump(self._tick, interval_s=1 / min(max_rate_hz, protocol.MAX_RATE_HZ))
        sample = self._sampler.sample()
        super().__init__(**_traits(sample), code=protocol.empty_code(), diff=protocol.empty_diff(), status=self._status(), docked=docked)
        self.on_msg(self._receive)

    # --- what can be asked of it -----------------------------------------------------------

    def report(self, *, times: bool = False, machine: bool = False, diff: tuple[str, str] | None = None) -> Report:
        """The same content as text and HTML, for keeping. With `times` it differs from run to run; `machine`: with machine code.

        `diff`: with two versions side by side, by their names in the view. Raises BcvmError for one that is not there.
        """
        if times and self._sampler.cache.latest["what_if"] is None:
            self._sampler.cache.replay()
        return make(self._sampler, times=times, machine=machine, diff=diff)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the run since a view was opened, to be shown again by `replay`. Raises RunError."""
        with self._lock:
            self._note(self._sampler.sample(), at_once=True)
            self._run.save(path)

    @staticmethod
    def replay(path: str | os.PathLike[str]) -> Replay:
        """A recorded run in the same views. Raises RunError."""
        from .replaying import Replay

        return Replay(path)

    def pause(self) -> None:
        """Keep the picture as it is; the cell runs on."""
        self._paused = True
        self._pump.wake()

    def resume(self) -> None:
        """Go on, from the present state."""
        self._paused = False
        self._pump.wake()

    def stop(self, cell: int | None = None) -> None:
        """Interrupt the running cell, as the notebook's own stop button does; nothing happens when none runs, or another than `cell`."""
        running = self._watch.running_cell()
        if running is not None and cell in (None, running) and threading.current_thread() is not threading.main_thread():
            _interrupt_main_thread()

    def close(self) -> None:
        """Close the views; nothing is measured any more."""
        self._views.clear()
        self._rest()
        super().close()

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        found = super()._repr_mimebundle_(**kwargs)
        data, metadata = found if isinstance(found, tuple) else (found or {}, {})
        return {**data, **self.report()._repr_mimebundle_()}, metadata

    # --- views -----------------------------------------------------------------------------

    def _receive(self, _widget: Any, content: Any, _buffers: Any) -> None:
        if is_cache_command(content):
            self.send(self._sampler.cache.act(content))
            self._pump.wake()
        if is_request(content):
            self.set_trait("code", self._sampler.code(content["unit"], content["kernel"], content["instruction"]))
            return
        if is_comparison(content):
            self.set_trait("diff", self._sampler.diff(content["unit"], content["left"], content["right"]))
            return
        if not is_command(content):
            return
        match content["command"]:
            case "shown":
                self._views.add(content["view"])
                self._sampler.cache.renew()
                self._watch.open(on_cell=self._pump.wake)
                self._pump.start()
                self._pump.wake()
            case "hidden":
                self._views.discard(content["view"])
                if not self._views:
                    self._rest()
            case "pause":
                self.pause()
            case "resume":
                self.resume()
            case "stop":
                self.stop(content["cell"])
            case "save":
                self._save_beside_the_notebook()

    def _save_beside_the_notebook(self) -> None:
        path = next(path for n in itertools.count(1) if not (path := Path(f"run-{n}.json")).exists())
        try:
            self.save(path)
            self._said = f"saved as {path}"
        except BcvmError as error:
            self._said = str(error)
        self._pump.wake()

    def _rest(self) -> None:
        self._pump.stop()
        self._watch.close()

    # --- sending ---------------------------------------------------------------------------

    def _tick(self) -> bool:
        """Send what has changed, in one message; returns whether a cell runs."""
        with self._lock:
            if not self._pump.running:
                return False
            status = self._status()
            new: dict[str, Any] = {}
            if {**status, "elapsed_us": 0} != {**self.status, "elapsed_us": 0}:
                new["status"] = status
            if not self._paused:
                sample = self._sampler.sample(often=status["running"])
                new |= _traits(sample)
                self._note(sample, at_once="status" in new)
            changed = {name: value for name, value in new.items() if value != getattr(self, name)}
            if changed:
                with self.hold_sync():
                    for name, value in changed.items():
                        setattr(self, name, value)
            return status["running"]

    def _note(self, sample: Sample, *, at_once: bool) -> None:
        self._run.note(time.perf_counter() * 1000, {**_traits(sample), "status": self._status()}, at_once=at_once)

    def _status(self) -> Status:
        return status_of(self._watch, paused=self._paused, said=self._said)


def _traits(sample: Sample) -> dict[str, Any]:
    return {f.name: getattr(sample, f.name) for f in fields(sample)}


def _interrupt_main_thread() -> None:
    """As Ctrl-C does. Sent to the thread itself: it may be waiting in a system call."""
    main = threading.main_thread().ident
    if hasattr(signal, "pthread_kill") and main is not None:
        signal.pthread_kill(main, signal.SIGINT)
    else:
        signal.raise_signal(signal.SIGINT)
