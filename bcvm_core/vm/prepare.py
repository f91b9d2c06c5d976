"""Kernels made before they are asked for: when one region of a function has run, the others probably see the same element type.

The branches not taken and the statements further down are bound, and their kernels spliced, by a thread beside the call.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from .. import config
from ..codegen.stencils import library

_MAX_REGIONS = 64


class Preparable(Protocol):
    """A region, as far as this module knows it."""

    plans: dict[tuple[type, ...], Any]

    def prepare(self, dtype: Any) -> None: ...


def others(regions: Sequence[Preparable], values: Sequence[Any]) -> None:
    """Prepare the regions that are not bound yet for arrays of the element type of `values`, if that is one."""
    if not config.current.fuse or not library.is_ready() or not all(type(v) is np.ndarray for v in values):
        return
    types = {v.dtype for v in values}
    waiting = [weakref.ref(region) for region in regions if not region.plans][:_MAX_REGIONS]
    if len(types) != 1 or not waiting:
        return
    thread = threading.Thread(target=_work, args=(waiting, types.pop()), name="bcvm-prepare", daemon=True)
    with contextlib.suppress(RuntimeError):  # the interpreter is shutting down, or there are no more threads
        thread.start()


def _work(waiting: list[weakref.ref[Any]], dtype: Any) -> None:
    for reference in waiting:
        region = reference()
        if region is not None and not region.plans:
            region.prepare(dtype)
