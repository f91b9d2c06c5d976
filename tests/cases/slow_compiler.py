"""Case c56 in a process of its own, `python -m tests.cases.slow_compiler`: 400 calls in 4 s, every compile takes 2; figures as JSON."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import bcvm_core as bcvm
import bcvm_core.codegen.templates  # a service has read its modules before it serves; without byte code that takes 40 ms
from bcvm_core import config, ops
from bcvm_core.codegen import loops

PER_VERSION_S, CALLS, EVERY_S = 2.0, 400, 0.01
USUAL, UNSEEN = 8, {50: 9, 51: 9, 200: 33, 201: 33}
WEIGHT = np.random.default_rng(1).normal(size=(16, 16)).astype(np.float32)


def function(x: Any) -> Any:
    """What is served."""
    return ops.softmax(x @ WEIGHT)


def _stood_in_line_s() -> float:
    """How long this thread has waited for a core that others had; 0 where the system does not tell."""
    try:
        text = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat").read_text()
    except OSError:
        return 0.0
    return int(text.split()[1]) / 1e9


def _timed(call: Callable[[Any], Any], x: Any) -> tuple[float, Any]:
    """Seconds of a call by the wall, without those in which other programs had its core; and its result."""
    line, start = _stood_in_line_s(), time.perf_counter()
    result = call(x)
    took = time.perf_counter() - start
    return took - (_stood_in_line_s() - line), result


def _slow_down(started: list[str]) -> None:
    compile_now = loops.Loop.compile

    def compile_slowly(loop: loops.Loop) -> None:
        started.append(loop.name)
        time.sleep(PER_VERSION_S)
        compile_now(loop)

    loops.Loop.compile = compile_slowly  # type: ignore[method-assign]


def main() -> None:
    """See above. `calls`: (size, seconds, versions that were asked for up to then)."""
    started: list[str] = []
    _slow_down(started)
    inputs = {n: np.random.default_rng(n).normal(size=(n, 16)).astype(np.float32) for n in (USUAL, *UNSEEN.values())}
    bcvm.jit(lambda x: x @ WEIGHT)(inputs[USUAL])  # a service has started up before it serves
    served, calls, results = bcvm.jit(function), [], []
    begun = time.perf_counter()
    for number in range(CALLS):
        n = UNSEEN.get(number, USUAL)
        took, result = _timed(served, inputs[n])
        calls.append((n, took, len(loops._loops)))
        results.append((n, result))
        time.sleep(max(0.0, begun + (number + 1) * EVERY_S - time.perf_counter()))
    within = list(started)
    loops.wait(120)
    results += [(n, served(x)) for n, x in inputs.items()]  # by compiled code now
    with config.override(force_tier="interpreter", use_llvm=False):
        plain = bcvm.jit(function)
        expected = {n: plain(x) for n, x in inputs.items()}
        interpreted = {n: median(_timed(plain, x)[0] for _ in range(9)) for n, x in inputs.items()}
    apart = max(float(np.abs(result - expected[n]).max()) for n, result in results)
    print(json.dumps({"calls": calls, "started": started, "within": within, "interpreted": interpreted, "apart": apart}))


if __name__ == "__main__":
    main()
