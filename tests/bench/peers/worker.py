"""The worker's side: answers requests, one line of JSON each, over its standard input and output.

A peer says how its arrays are made, how a function is compiled, and when a result is there; the
loops that are timed are these, alike for all.
"""

from __future__ import annotations

import gc
import importlib.util
import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import sources

BATCHES, LONG_NS = 4, 20_000_000
_clock = time.perf_counter_ns


class Peer:
    """What a peer must say of itself. The defaults are NumPy's."""

    name = "numpy"
    header = "import numpy as np\n"
    words = sources.NUMPY
    wait: Callable[[Any], Any] | None = None  # makes sure that a result is computed

    def versions(self) -> str:
        return f"NumPy {np.__version__}"

    def array(self, x: Any) -> Any:
        """The peer's own array of a NumPy array."""
        return x

    def to_numpy(self, y: Any) -> Any:
        return np.asarray(y)

    def compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """What is called instead of the plain function."""
        return function

    def text(self, tree: Any) -> str | None:
        """The body of the function where it is no plain Python."""
        return None

    def ready(self) -> None:
        """Finish what goes on in the background before anything is timed."""


def numbers(shape: tuple[int, ...], which: int) -> Any:
    """Float32 between -3 and 3, the same in every environment."""
    count = math.prod(shape)
    steps = (np.arange(count, dtype=np.uint32) * np.uint32(2654435761) + np.uint32(which * 40503)).astype(np.float32)
    return (steps * np.float32(6 / 2**32) - np.float32(3)).reshape(shape)


class Worker:
    """A peer, the functions it has compiled, and the measurements."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.folder = Path(tempfile.mkdtemp(prefix="bcvm-bench-"))
        self.cases: dict[str, tuple[Callable[..., Any], list[Any], int]] = {}
        self.files = 0

    def named(self, name: str) -> Callable[..., Any]:
        """A named function, compiled."""
        return self.peer.compiled(self.function(sources.function(name, self.peer.words), sources.TREES[name], sources.ARITY[name]))

    def function(self, text: str, tree: Any, arity: int) -> Callable[..., Any]:
        """A function in a file of its own, so that whoever wants its source finds it."""
        own = self.peer.text(tree)
        if own is not None:
            text = f"def f({', '.join('xb'[:arity])}):\n    {own}\n"
        self.files += 1
        path = self.folder / f"m{self.files}.py"
        path.write_text(self.peer.header + text)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module
        spec.loader.exec_module(module)
        return module.f  # type: ignore[no-any-return]

    def arguments(self, shape: Any, count: int) -> list[Any]:
        return [self.peer.array(numbers(tuple(shape), which)) for which in range(count)]

    # -- requests -------------------------------------------------------------------------------

    def versions(self) -> str:
        return self.peer.versions()

    def prepare(self, case: str, function: str, shape: list[int], seconds: float) -> dict[str, Any]:
        """Compile, warm up, and see how many calls fill a round. The result's few numbers tell whether all computed the same."""
        call = self.named(function)
        arguments = self.arguments(shape, sources.ARITY[function])
        for _ in range(3):
            result = self._call(call, arguments)
        self.peer.ready()
        for _ in range(20 if math.prod(shape) < 100_000 else 3):
            self._call(call, arguments)
        calls = 1
        while (took := self._loop(call, arguments, calls)) < seconds * 2e8 and calls < 1 << 22:
            calls *= 2
        calls = max(1, int(calls * seconds * 1e9 / took))
        self.cases[case] = call, arguments, calls
        flat = self.peer.to_numpy(result).ravel()
        return {"calls": calls, "sample": [float(v) for v in flat[:: max(1, flat.size // 16)]], "dtype": str(flat.dtype)}

    def round(self, case: str) -> float:
        """Nanoseconds per call: the least of a few batches, each so short that other programs leave some of them alone."""
        call, arguments, calls = self.cases[case]
        first = self._loop(call, arguments, calls)
        return min(first, *(self._loop(call, arguments, calls) for _ in range(1 if first > LONG_NS else BATCHES))) / calls

    def forget(self, case: str) -> None:
        self.cases.pop(case, None)

    def first(self, seeds: list[int], shape: list[int]) -> list[list[float]]:
        """Nanoseconds from each never-seen function to its first result: by the wall's clock, and of the processor in this process."""
        times = []
        for seed in seeds:
            function = self.function(sources.generated(seed, self.peer.words), sources.generated_tree(seed), 2)
            arguments = self.arguments(shape, 2)
            cpu, start = time.process_time_ns(), _clock()
            self._call(self.peer.compiled(function), arguments)
            wall = _clock() - start
            times.append([float(wall), float(time.process_time_ns() - cpu)])
        return times

    def shapes(self, case: str, shapes: list[list[int]]) -> list[list[float]]:
        """Single calls in turn, ns: of a shape never met, of that shape again, and of the shape of the case."""
        call, known, _ = self.cases[case]
        out = []
        for shape in shapes:
            new = self.arguments(shape, len(known))
            out.append([self._once(call, new), self._once(call, new), self._once(call, known)])
        return out

    def patterns(self, function: str, shape: list[int]) -> list[float]:
        """Nanoseconds of the first calls for ways of broadcasting that the function has not met, then of a call met before."""
        arity = sources.ARITY[function]
        call = self.named(function)
        x = self.arguments(shape, 1)
        for _ in range(30):
            self._call(call, x * arity)
        times = []
        for other in ([shape[-1]], [shape[0], 1], [1, 1], [1, *shape]):
            arguments = [x[0], *self.arguments(other, arity - 1)]
            times.append(self._once(call, arguments))
        return [*times, self._once(call, x * arity)]

    def peak(self, function: str, elements: int) -> dict[str, float]:
        """Bytes at the peak of one call over what was resident before, less the result."""
        call = self.named(function)
        for _ in range(3):
            self._call(call, self.arguments([1000], 1))
            self.peer.ready()
        x = self.peer.array(np.ones(elements, np.float32))
        gc.collect()  # some peers let go of the array they were given only then
        Path("/proc/self/clear_refs").write_text("5")
        before = _status("VmRSS")
        result = self._call(call, [x])
        return {
            "peak": _status("VmHWM") - before,
            "out": 4.0 * elements,
            "kept": float(_status("VmRSS") - before),
            "check": float(result[0]),
        }

    def _call(self, call: Callable[..., Any], arguments: list[Any]) -> Any:
        result = call(*arguments)
        return result if self.peer.wait is None else self.peer.wait(result)

    def _once(self, call: Callable[..., Any], arguments: list[Any]) -> float:
        wait = self.peer.wait
        start = _clock()
        result = call(*arguments)
        if wait is not None:
            wait(result)
        return float(_clock() - start)

    def _loop(self, call: Callable[..., Any], arguments: list[Any], calls: int) -> int:
        wait = self.peer.wait
        x, b = arguments[0], arguments[-1]
        start = _clock()
        if wait is not None:
            for _ in repeat(None, calls):
                wait(call(*arguments))
        elif len(arguments) == 1:
            for _ in repeat(None, calls):
                call(x)
        else:
            for _ in repeat(None, calls):
                call(x, b)
        return _clock() - start


def _status(field: str) -> int:
    """A figure of this process's memory, in bytes."""
    text = Path("/proc/self/status").read_text()
    return int(next(line for line in text.splitlines() if line.startswith(field)).split()[1]) * 1024


def serve(peer: Peer, make: type[Worker] = Worker) -> None:
    """Answer requests until the input ends. What libraries print goes to standard error."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    worker = make(peer)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = {"is": getattr(worker, request.pop("do"))(**request)}
        except Exception as error:  # told to the one who asked
            answer = {"error": f"{type(error).__name__}: {error}"[:300]}
        print(json.dumps(answer), file=replies, flush=True)
