"""Fused graphs without machine code: ops run by their definitions, block by block, so that what lies between stays in the cache.

For systems where executable memory is barred and processors without stencils. The bits are those
of the spliced kernels, which are those of the ops one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from ... import fpstatus
from ...dtypes import BY_NAME
from ...ops import registry
from . import layout
from .graph import Const, FusedGraph
from .kernel import FusedKernel, fitting_shape
from .lower import lower

BLOCK: Final = 16384  # elements: long enough that calls of NumPy don't count, short enough for the cache


class TapeKernel(FusedKernel):
    """A graph as the list of its ops. Calls are thread-safe."""

    def __init__(self, graph: FusedGraph) -> None:
        """Raises NotFusable with the reason, for the graphs that stencils refuse too."""
        self.graph = graph
        self.lowered = lower(graph)
        self.inputs = [BY_NAME[x.dtype].numpy for x in graph.inputs]
        self.outputs = [BY_NAME[dtype].numpy for dtype in self.lowered.dtypes]
        self.codes = {}
        self.form = None
        self._steps = [(registry.row(node.op).definition, node.operands, dict(node.attrs)) for node in graph.nodes]

    @property
    def entry(self) -> Callable[..., Any]:
        """`entry(*arrays)`: there is no native one."""
        return self.call_large

    def call_large(self, *arrays: Any) -> Any:
        """As `call`; None where one block holds everything, so that nothing is gained over running the ops by themselves."""
        if max((x.size for x in arrays if type(x) is np.ndarray), default=0) <= BLOCK:
            return None
        return self(arrays)

    def __call__(self, arrays: Sequence[Any], outs: Sequence[Any] | None = None, cores: int | None = None) -> Any:
        shape = fitting_shape(arrays, self.inputs)
        if shape is None:
            return None
        made = self._outputs(arrays, outs, shape)
        if made is None:
            return None
        operands = [np.broadcast_to(x, shape) for x in arrays]
        if outs is not None and any(np.may_share_memory(out, x) for out in made for x in arrays):
            operands = [x.copy() for x in operands]  # blocks that are written must not be read later
        with fpstatus.recording() as events:
            for part in parts(shape, BLOCK):
                self._block([x[part] for x in operands], [out[part] for out in made])
                if events.kinds:
                    return None
        return made[0] if len(made) == 1 else tuple(made)

    def _block(self, values: list[Any], outs: list[Any]) -> None:
        for definition, operands, attrs in self._steps:
            values.append(definition(*[x.value if isinstance(x, Const) else values[x] for x in operands], **attrs))
        for out, number in zip(outs, self.graph.outputs, strict=True):
            out[...] = values[number]

    def outcome(
        self, arrays: Sequence[Any], outs: Sequence[Any] | None = None, cores: int | None = None
    ) -> tuple[list[Any], int, int] | None:
        """As of a spliced kernel; events are all told of by one bit."""
        shape = fitting_shape(arrays, self.inputs)
        if shape is None:
            return None
        made = list(outs) if outs is not None else layout.empty_outputs(self.graph, list(arrays), shape, self.outputs)
        with np.errstate(all="warn"), fpstatus.recording() as events:
            self._block([np.broadcast_to(x, shape) for x in arrays], made)
        return made, int(bool(events.kinds)), 0


def parts(shape: tuple[int, ...], target: int) -> Iterator[tuple[slice, ...]]:
    """Slices that cut a shape into parts of about `target` elements, the first axes first."""
    whole = tuple(slice(None) for _ in shape)
    rest = 1
    for axis in range(len(shape) - 1, -1, -1):
        if rest * shape[axis] > target:
            step = max(1, target // rest)
            for index in np.ndindex(*shape[:axis]):
                outer = tuple(slice(k, k + 1) for k in index)
                for start in range(0, shape[axis], step):
                    yield (*outer, slice(start, start + step), *whole[axis + 1 :])
            return
        rest *= shape[axis]
    yield whole
