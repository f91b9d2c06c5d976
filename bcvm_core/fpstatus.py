"""Floating-point events of kernels: who caused which, under the user's `numpy.errstate`.

NumPy's own loops report through its error state, generated kernels and canonical algorithms
report through `note`. Inside `recording()` both only fill a `Recording`; outside, `note` acts as
NumPy would: it warns, raises, calls, prints or stays silent as the user asked.
"""

from __future__ import annotations

import contextvars
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any, Final

import numpy as np

KINDS: Final = ("divide", "overflow", "underflow", "invalid")  # the order in which NumPy reports them
DIVIDE, OVERFLOW, UNDERFLOW, INVALID = 1, 2, 4, 8  # bits of the flag word kernels return
TEXT: Final = {"divide": "divide by zero", "overflow": "overflow", "underflow": "underflow", "invalid": "invalid value"}
_KIND_OF_TEXT: Final = {text: kind for kind, text in TEXT.items()}


class _State(threading.local):
    """The recordings open in this thread, innermost last."""

    top: Recording | None = None


_state = _State()


class Recording:
    """What happened inside one `recording()`.

    `kinds`: the events in order of first appearance, each once, without those the user ignores; an
    event is one of `KINDS`, or the text of a warning that NumPy's own Python code issues.
    `modes`: the user's `numpy.geterr()` at entry; `call`: the user's error handler.
    """

    __slots__ = ("kinds", "modes", "call", "_names", "_outer", "_saved")

    def __init__(self) -> None:
        self.kinds: list[str] = []
        self._names: dict[str, str] = {}
        self.modes: dict[str, str] = {}
        self.call: Any = None
        self._outer: Recording | None = None
        self._saved: Any = None

    def __enter__(self) -> Recording:
        outer = self._outer = _state.top
        if outer is None:
            self._saved, self.modes, self.call = _redirect(self._on_event)
        else:  # NumPy's state shows the outer recording's handler, not the user's
            self.modes, self.call = outer.modes, outer.call
            self._saved, _, _ = _redirect(self._on_event)
        _state.top = self
        return self

    def __exit__(self, *exc: object) -> None:
        _state.top = self._outer
        _restore(self._saved)

    def _on_event(self, text: str, flag: int) -> None:
        self.add(_KIND_OF_TEXT[text])

    def add(self, kind: str, name: str | None = None) -> None:
        """Record `kind` unless the user ignores it; `name`: which op NumPy would name."""
        if kind not in self.kinds and self.mode(kind) != "ignore":
            self.kinds.append(kind)
            if name is not None:
                self._names[kind] = name

    def mode(self, kind: str) -> str:
        """What the user wants done about an event; warnings of Python code have the warning filters only."""
        return self.modes.get(kind, "warn")

    def text(self, kind: str, op: str) -> str:
        """The warning for an event of `op`, in NumPy's words."""
        return f"{TEXT[kind]} encountered in {self._names.get(kind, op)}" if kind in TEXT else kind


def is_recording() -> bool:
    """Is a recording open in this thread?"""
    return _state.top is not None


def modes() -> dict[str, str]:
    """What the user asked for per kind of event, also within a recording."""
    top = _state.top
    return top.modes if top is not None else _user_modes()


def recording() -> Recording:
    """A context manager under which events are collected instead of reported."""
    return Recording()


def carried(function: Callable[[], None]) -> Callable[[], None]:
    """`function` for another thread: there it reports to the recording, and under the error state, of the thread that makes this call."""
    context, top, state = contextvars.copy_context(), _state.top, _of_thread()

    def run() -> None:
        _state.top = top
        _adopt(state)
        context.run(function)

    return run


if np.lib.NumpyVersion(np.__version__) < "2.0.0" and hasattr(np.core.umath, "seterrobj"):  # in this order: NumPy 2 warns about np.core
    # NumPy 1.x: one list per thread, [buffer size, mode bits, handler]; ten times cheaper than `np.errstate`.
    _umath: Any = np.core.umath
    _geterrobj: Callable[[], list[Any]] = _umath.geterrobj
    _seterrobj: Callable[[list[Any]], None] = _umath.seterrobj
    _SHIFTS: Final = {"divide": 0, "over": 3, "under": 6, "invalid": 9}
    _MODES: Final = ("ignore", "warn", "raise", "call", "print", "log")
    _NAMES: Final = {"divide": "divide", "over": "overflow", "under": "underflow", "invalid": "invalid"}
    _decoded: dict[int, tuple[dict[str, str], int]] = {}

    def _decode(bits: int) -> tuple[dict[str, str], int]:
        """Modes per kind, and the mode bits that send every kind not ignored to the handler."""
        found = _decoded.get(bits)
        if found is None:
            modes, call = {}, 0
            for name, shift in _SHIFTS.items():
                mode = (bits >> shift) & 7
                modes[_NAMES[name]] = _MODES[mode]
                call |= (3 if mode else 0) << shift
            found = _decoded[bits] = (modes, call)
        return found

    def _redirect(handler: Callable[[str, int], None]) -> tuple[Any, dict[str, str], Any]:
        saved = _geterrobj()
        modes, call = _decode(saved[1])
        _seterrobj([saved[0], call, handler])
        return saved, modes, saved[2]

    def _restore(saved: Any) -> None:
        _seterrobj(saved)

    def _user_modes() -> dict[str, str]:
        return _decode(_geterrobj()[1])[0]

    def _of_thread() -> Any:
        return _geterrobj()

    def _adopt(state: Any) -> None:
        _seterrobj(state)

else:

    def _canonical(modes: Any) -> dict[str, str]:
        return {"divide": modes["divide"], "overflow": modes["over"], "underflow": modes["under"], "invalid": modes["invalid"]}

    def _redirect(handler: Callable[[str, int], None]) -> tuple[Any, dict[str, str], Any]:
        modes = np.geterr()
        call = np.geterrcall()
        calls: dict[str, Any] = {name: "ignore" if mode == "ignore" else "call" for name, mode in modes.items()}
        state = np.errstate(call=handler, **calls)
        state.__enter__()
        return state, _canonical(modes), call

    def _restore(saved: Any) -> None:
        saved.__exit__(None, None, None)

    def _user_modes() -> dict[str, str]:
        return _canonical(np.geterr())

    def _of_thread() -> Any:
        return None  # NumPy 2 keeps it in a context variable

    def _adopt(state: Any) -> None:
        pass


def warn(text: str, stacklevel: int = 2) -> None:
    """Issue a RuntimeWarning as NumPy's Python code does, at the user's line once it is known."""
    top = _state.top
    if top is not None:
        top.add(text)
    else:
        warnings.warn(text, RuntimeWarning, stacklevel=stacklevel + 1)


def note(kind: str, name: str | None = None, stacklevel: int = 2) -> None:
    """Report that an op called `name` met `kind` ("divide", "overflow", "underflow" or "invalid")."""
    top = _state.top
    if top is not None:
        top.add(kind, name)
        return
    mode = _user_modes()[kind]
    if mode != "ignore":
        report(kind, name or "a kernel", mode, np.geterrcall(), stacklevel + 1)


def note_word(flags: int, name: str = "a kernel", stacklevel: int = 2) -> None:
    """Report every bit of a kernel's flag word, in NumPy's order."""
    for position, kind in enumerate(KINDS):
        if flags >> position & 1:
            note(kind, name, stacklevel + 1)


def report(kind: str, name: str, mode: str, call: Any, stacklevel: int = 2) -> None:
    """Do what NumPy does for an event under `mode`; may raise FloatingPointError."""
    text = f"{TEXT[kind]} encountered in {name}"
    if mode == "warn":
        warnings.warn(text, RuntimeWarning, stacklevel=stacklevel)
    elif mode == "raise":
        raise FloatingPointError(text)
    elif mode == "print":
        sys.stdout.write(f"Warning: {text}\n")
    elif mode == "call" and call is not None:
        call(TEXT[kind], 1 << KINDS.index(kind))
    elif mode == "log" and call is not None:
        call.write(f"Warning: {text}\n")
