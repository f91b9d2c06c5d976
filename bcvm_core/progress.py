"""Progress bars for what takes seconds: warm-up, tuning, measuring, comparing. Never in a call of a kernel.

A bar is a wrapper of a sequence, as `tqdm.tqdm` is. By itself it is shown only to a person: in a terminal, with tqdm, and in a notebook
that somebody has open, with ipywidgets. It appears after half a second and takes itself away at the end, so that what is saved of a
notebook or a log does not depend on how fast a machine is. Without the package nothing is shown.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

DELAY_S: Final = 0.5
_PAUSE_S: Final = 0.1  # between two updates
Bar = Callable[[Sequence[Any]], Iterable[Any]]


def bar(what: str, wanted: bool | Bar | None = None) -> Bar:
    """A bar named `what`. `wanted`: False for none, True for one even if nobody looks, None for the rule above, or a bar of one's own."""
    if callable(wanted):
        return wanted
    kernel = _kernel()
    if wanted is False or (wanted is None and not _somebody_looks(kernel)):
        return _nothing
    if kernel is not None:
        return (lambda items: _in_notebook(what, items)) if _there("ipywidgets") else _nothing
    return (lambda items: _in_terminal(what, items)) if _there("tqdm") else _nothing


def _nothing(items: Sequence[Any]) -> Iterable[Any]:
    return items


def _there(package: str) -> bool:
    try:
        importlib.import_module(package)
    except ImportError:
        return False
    return True


def _kernel() -> Any:
    """The Jupyter kernel that this process is, or None."""
    ipython = sys.modules.get("IPython")
    return getattr(ipython.get_ipython(), "kernel", None) if ipython is not None else None


def _somebody_looks(kernel: Any) -> bool:
    """Front ends that a person has open send the cell's id; nbclient, nbval and papermill don't."""
    if kernel is None:
        return sys.stderr is not None and sys.stderr.isatty()
    return bool(kernel.get_parent().get("metadata", {}).get("cellId"))


def _in_terminal(what: str, items: Sequence[Any]) -> Iterable[Any]:
    from tqdm.std import tqdm

    found: Iterable[Any] = tqdm(items, desc=what, leave=False, delay=DELAY_S)
    return found


def _in_notebook(what: str, items: Sequence[Any]) -> Iterator[Any]:
    from IPython.display import display
    from ipywidgets import IntProgress

    shown, handle, last = None, None, time.monotonic() + DELAY_S - _PAUSE_S
    try:
        for n, item in enumerate(items):
            now = time.monotonic()
            if now - last >= _PAUSE_S:
                last = now
                if shown is None:
                    shown = IntProgress(max=len(items), description=f"{what} ", style={"description_width": "initial"})
                    handle = display(shown, display_id=True)  # type: ignore[no-untyped-call]
                shown.value = n
            yield item
    finally:
        if shown is not None and handle is not None:
            handle.update({}, raw=True)  # an empty output stays
            shown.close()
