"""What MindSpore's executor is doing now: whether it must see each op itself."""

from __future__ import annotations

import threading
from collections.abc import Callable

from mindspore.graph.api import _pynative_executor

try:
    from mindspore.utils.ms_dispatch import _DispatchGuardStack

    dispatching: Callable[[], bool] = _DispatchGuardStack.has_dispatch_guard
except ImportError:  # another release

    def dispatching() -> bool:
        return False


recording: Callable[[], bool] = _pynative_executor._executor.requires_grad


class _Depth(threading.local):
    value = 0


theirs = _Depth()
"""`theirs.value`: how many `LeftToMindSpore` are open in this thread."""


class LeftToMindSpore:
    """A context manager in which every op is MindSpore's: its mixed precision is a state of the executor that changes what ops do."""

    def __enter__(self) -> None:
        theirs.value += 1

    def __exit__(self, *error: object) -> None:
        theirs.value -= 1


def is_recorded() -> bool:
    """Whether MindSpore must see each op itself now: gradients are recorded, a dispatch mode or mixed precision is on."""
    return recording() or dispatching() or theirs.value > 0
