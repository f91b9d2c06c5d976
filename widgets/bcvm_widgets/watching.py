"""What there is to watch in this process."""

from __future__ import annotations

from typing import Any

from bcvm_core import session as sessions
from bcvm_core.errors import BcvmError
from bcvm_core.watch import Watch

from . import protocol


def watch(functions: tuple[Any, ...]) -> Watch:
    """Looks at the notebook of this process and at functions. Raises BcvmError when there is neither."""
    session = sessions.current()
    if session is None and not functions:
        fix = "use the kernel bcvm, or %load_ext bcvm_kernel, or give functions decorated with @bcvm.jit"
        raise BcvmError("there is no notebook to watch in this process", fix=fix)
    return Watch(session, functions)


def status_of(found: Watch, *, paused: bool = False, said: str = "") -> protocol.Status:
    """Whether a cell runs now, and for how long."""
    running = found.running_us()
    elapsed = running if running is not None else found.took_us()
    return {
        "version": protocol.VERSION,
        "running": running is not None,
        "cell": found.running_cell() or 0,
        "paused": paused,
        "elapsed_us": round(elapsed, 1),
        "said": said,
    }
