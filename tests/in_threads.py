"""Work in several threads at once, whose errors are those of the test, and calls that are shared out whatever their size."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from bcvm_core.codegen.stencils import crew


def in_threads(count: int, work: Callable[[int], object]) -> None:
    """`work(0)` to `work(count - 1)`, each in a thread of its own; raises the first error of any."""
    errors: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def share(monkeypatch: pytest.MonkeyPatch, from_ns: float = 0) -> None:
    """Let calls be shared out from so many nanoseconds on, whatever other programs do."""
    monkeypatch.setattr(crew, "SHARED_NS", from_ns)
    monkeypatch.setattr(crew, "LARGE_NS", from_ns)
