"""Warnings issued inside a region would name our lines and frames: instead the run ends, and Python replays it.

Floating-point events are dealt with by `fpstatus`. This is about the others: a complex value cast to a
real one, an array of one element taken for a number, and whatever a NumPy version deprecates.
"""

from __future__ import annotations

import sys
import types
import warnings
from typing import Any

from .. import fpstatus

_show: Any = None


class WarnedError(Exception):
    """A warning was about to be shown from within a region."""


def _showwarnmsg(message: Any) -> None:
    """Takes the place of `warnings._showwarnmsg`, which C code and Python code call to show a warning."""
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
    """Watch for warnings in regions. Called once, when the first site is made."""
    global _show
    if _show is None and hasattr(warnings, "_showwarnmsg"):
        _show = warnings._showwarnmsg
        warnings._showwarnmsg = _showwarnmsg


install()
