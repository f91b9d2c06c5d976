"""Live views of what the VM emits, decides, compiles and caches.

`dashboard()` in a cell shows what the notebook's cells do while they run; `report()` gives the same content as text and HTML, to keep.
Only the dashboard needs anywidget, from the extra `lab`; it is imported when it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bcvm_core.version import __version__

from .protocol import VERSION as PROTOCOL_VERSION

if TYPE_CHECKING:
    import os

    from .live import Dashboard
    from .recorder import Recording
    from .replaying import Replay
    from .reports import Report

__all__ = ["PROTOCOL_VERSION", "Dashboard", "__version__", "dashboard", "recording", "replay", "report"]


def dashboard(*functions: Any, docked: bool = False) -> Dashboard:
    """A dashboard of this notebook's cells, and of `functions` that run through the VM. Display it by ending a cell with it.

    `docked`: in a panel beside the notebook, in JupyterLab and Notebook 7; elsewhere it is shown where the cell shows it.
    Raises BcvmError in a process that runs no notebook of ours when no functions are given, LoweringError for functions that
    don't run through the VM.
    """
    from .live import Dashboard

    return Dashboard(*functions, docked=docked)


def report(*functions: Any, times: bool = False, machine: bool = False, diff: tuple[str, str] | None = None) -> Report:
    """What a dashboard would show now, as text and HTML. Without `times` the same cells give the same characters. Raises as `dashboard`.

    `machine`: with the machine code of the fused kernels. `diff`: with two versions side by side, such as
    ("f, before specialisation", "f: x[B, 32]"); BcvmError names those that there are.
    """
    from .reports import make
    from .sampling import Sampler
    from .watching import watch

    return make(Sampler(watch(functions)), times=times, machine=machine, diff=diff)


def recording(path: str | os.PathLike[str], *functions: Any) -> Recording:
    """``with recording("run.json"): ...``: write down what a dashboard would show meanwhile. Raises as `dashboard`, and RunError."""
    from .recorder import Recording

    return Recording(path, functions)


def replay(path: str | os.PathLike[str]) -> Replay:
    """A recorded run in the views of a dashboard. Display it by ending a cell with it. Raises RunError."""
    from .replaying import Replay

    return Replay(path)


def __getattr__(name: str) -> Any:
    if name == "Dashboard":
        from .live import Dashboard

        return Dashboard
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
