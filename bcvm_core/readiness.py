"""Readiness: whether the machine code that fused kernels are made of, and what was asked for already, is there."""

from __future__ import annotations

import time


def ready(timeout_s: float = 180.0) -> bool:
    """Wait until fused kernels can be spliced. True then; False where there are none for this machine, or the time is over.

    Their stencils are compiled once per machine, in the background, in a few seconds; programs run meanwhile, op by op. So are kernels
    over rows (softmax, sums) when they are first asked for: this waits for those that were. Calling it is for those who measure, or who
    want the same listing at each run.
    """
    from .codegen import loops
    from .codegen.stencils.driver import driver
    from .codegen.stencils.library import family
    from .codegen.stencils.target import WIDTHS

    _load()
    wanted = [*map(family, WIDTHS), driver()]
    deadline = time.monotonic() + timeout_s
    while not all(loop.ready for loop in wanted):
        if any(loop.failed for loop in wanted) or time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return loops.wait(max(0.0, deadline - time.monotonic()))


def _load() -> None:
    """Read the modules and figures that the first calls of a process would otherwise wait for, some 30 ms."""
    from .codegen import templates, tree_sums  # noqa: F401
    from .codegen.products import product  # noqa: F401
    from .devices import written  # noqa: F401
    from .fusion import decisions, machines  # noqa: F401
    from .tiers import chain_plan, epilogue, hot, large, parted  # noqa: F401

    machines.usable()
