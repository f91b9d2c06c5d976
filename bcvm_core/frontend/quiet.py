"""Warnings that are not the user's.

Compiling code a second time: Python gave its warnings when it compiled the user's own text. Running a
region: a warning would name our lines and frames, so the run ends instead, and Python replays it.
(Floating-point events are dealt with by `fpstatus`; this is about a complex value cast to a real one, an
array of one element taken for a number, and whatever a NumPy version deprecates.)
"""

from __future__ import annotations

import ast
import sys
import threading
import types
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

from .. import fpstatus


def compile_quietly(tree: ast.Module | ast.Expression, filename: str, mode: str, flags: int = 0) -> types.CodeType:
    """`compile` without SyntaxWarnings and without this module's own `__future__` flags."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        return cast(types.CodeType, compile(tree, filename, mode, flags=flags, dont_inherit=True))


class _Muted(threading.local):
    depth = 0


_muted = _Muted()
_show: Any = None


@contextmanager
def muted() -> Iterator[None]:
    """No warning is shown in this thread meanwhile.

    Unlike `warnings.catch_warnings` this touches no filters, which all threads share; and each change
    of filters makes Python forget which warnings it has shown already.
    """
    install()
    _muted.depth += 1
    try:
        yield
    finally:
        _muted.depth -= 1


class WarnedError(Exception):
    """A warning was about to be shown from within a region."""


def _showwarnmsg(message: Any) -> None:
    """Takes the place of `warnings._showwarnmsg`, which C code and Python code call to show a warning."""
    if _muted.depth:
        return
    if fpstatus.is_recording():
        _forget()
        raise WarnedError(str(message.message))
    _show(message)


def _forget() -> None:
    """Filters show a warning once per line of the code that caused it; ours must not count as such."""
    frame: types.FrameType | None = sys._getframe(2)
    while frame is not None and not _is_ours(frame):
        frame = frame.f_back
    while frame is not None and _is_ours(frame):
        frame.f_globals.pop("__warningregistry__", None)
        frame = frame.f_back


def _is_ours(frame: types.FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).startswith("bcvm_core.")


def install() -> None:
    """Watch from now on. Calling it again does nothing."""
    global _show
    if _show is None and hasattr(warnings, "_showwarnmsg"):
        _show = warnings._showwarnmsg
        warnings._showwarnmsg = _showwarnmsg
