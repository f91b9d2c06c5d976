"""`bcvm.clamp_batch_size`: sizes that change from call to call, in groups."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import TracebackType
from typing import Any

from . import grouping
from .grouping import Rule


class Clamp:
    """A rule that holds everywhere, until `remove` or the end of a `with` block around it."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        grouping.add(rule)

    def remove(self) -> None:
        """The rule holds no more; what was made stays in its caches."""
        grouping.remove(self.rule)

    def __enter__(self) -> Clamp:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.remove()

    def __repr__(self) -> str:
        return f"<{self.rule}>"


def clamp_batch_size(min: int = 1, max: int = 32, step: int = 4, *, dim: int = 0, function: Callable[..., Any] | None = None) -> Any:  # noqa: A002
    """Let sizes of axis `dim` share what is made per size: one version for `min`, then one per multiple of `step` up to `max`.

    Without a `function` the rule holds everywhere, and what is returned removes it (`remove()`, or the end of a `with` block). With one, a
    function like it is returned, for whose calls the rule holds. Nothing of it can be seen in a result: what is computed beyond the true
    size never leaves, and whatever can't be filled up that way, or needs no version per size, runs at its true size. `bcvm.explain()`
    says what ran how. Raises ValueError for sizes that make no groups.
    """
    for name, value in (("min", min), ("max", max), ("step", step)):
        if type(value) is not int or value < 1:
            raise ValueError(f"{name} must be a size, a whole number from 1 on, not {value!r}")
    if max < min:
        raise ValueError(f"max ({max}) is less than min ({min})")
    if type(dim) is not int:
        raise ValueError(f"dim must be the number of an axis, not {dim!r}")
    rule = Rule(min, max, step, dim)
    if function is None:
        return Clamp(rule)

    @functools.wraps(function)
    def clamped(*args: Any, **kwargs: Any) -> Any:
        token = grouping.enter(rule)
        try:
            return function(*args, **kwargs)
        finally:
            grouping.leave(token)

    return clamped
