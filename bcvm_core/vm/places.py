"""Tracebacks of interpreted programs: they show the user's lines."""

from __future__ import annotations

import types
from functools import lru_cache
from typing import Any

from ..errors import BcvmError
from .frame import Frame


def relocate(error: BaseException, frame: Frame) -> None:
    """Take the machine's own frames out of a traceback and put the user's line in their place."""
    kept = [t for t in _chain(error.__traceback__) if not _is_ours(t.tb_frame)]
    result: types.TracebackType | None = None
    for entry in reversed(kept):
        result = types.TracebackType(result, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    loc = frame.location()
    shown = any(t.tb_frame.f_code.co_filename == frame.program.filename for t in kept)
    if loc is not None and not shown and not isinstance(error, BcvmError):
        marker = _user_frame(frame.program.filename, _shown_name(frame), loc.line)
        if marker is not None:
            result = types.TracebackType(result, marker.tb_frame, marker.tb_lasti, marker.tb_lineno)
    error.__traceback__ = result


def _shown_name(frame: Frame) -> str:
    return "<module>" if frame.program.kind == "cell" else frame.program.name.rpartition(".")[2]


def _chain(entry: types.TracebackType | None) -> list[types.TracebackType]:
    found = []
    while entry is not None:
        found.append(entry)
        entry = entry.tb_next
    return found


def _is_ours(frame: types.FrameType) -> bool:
    name: Any = frame.f_globals.get("__name__", "")
    return isinstance(name, str) and name.partition(".")[0] == "bcvm_core" and not name.startswith("bcvm_core.ops")


@lru_cache(maxsize=256)
def _code_at(filename: str, name: str, line: int) -> types.CodeType:
    code = compile("raise LookupError", filename, "exec")
    return code.replace(co_name=name, co_qualname=name, co_firstlineno=line)


def _user_frame(filename: str, name: str, line: int) -> types.TracebackType | None:
    """A traceback entry for a line of the user's text (a frame cannot be made, only caught)."""
    try:
        exec(_code_at(filename, name, line), {"__builtins__": __builtins__})
    except LookupError as marker:
        chain = _chain(marker.__traceback__)
        return chain[-1] if chain else None
    return None
