"""Live views of what the VM emits, decides, compiles and caches.

`dashboard()` in a cell shows what the notebook's cells do while they run; `report()` gives the same content as text and HTML, to keep.
Only the dashboard needs anywidget, from the extra `lab`; it is imported when it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bcvm_core.version import __version__

from .protocol import VERSION as PROTOCOL_VERSION

if TYPE_CHECKING:
    from .live import Dashboard
    from .reports import Report

__all__ = ["PROTOCOL_VERSION", "Dashboard", "__version__", "dashboard", "report"]


def dashboard(*functions: Any) -> Dashboard:
    """A dashboard of this notebook's cells, and of `functions` that run through the VM. Display it by ending a cell with it.

    Raises BcvmError in a process that runs no notebook of ours when no functions are given, LoweringError for functions that
    don't run through the VM.
    """
    from .live import Dashboard

    return Dashboard(*functions)


def report(*functions: Any, times: bool = False, machine: bool = False, diff: tuple[str, str] | None = None) -> Report:
    """What a dashboard would show now, as text and HTML. Without `times` the same cells give the same characters. Raises as `dashboard`.

    `machine`: with the machine code of the fused kernels. `diff`: with two versions side by side, such as
    ("f, before specialisation", "f: x[B, 32]"); BcvmError names those that there are.
    """
    from .reports import make
    from .sampling import Sampler
    from .watching import watch

    return make(Sampler(watch(functions)), times=times, machine=machine, diff=diff)


def __getattr__(name: str) -> Any:
    if name == "Dashboard":
        from .live import Dashboard

        return Dashboard
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
