"""Convolutions of flat programs, and the norm that one of them waits for, on a shorter way still.

Which primitive runs follows from shapes alone, and in a flat program a site has always the same attributes. So what the first call of a
site with some shapes came to is kept with the site: the next one is memory for the result, four numbers per channel, and the call of
the library.
"""

from __future__ import annotations

import threading
from typing import Any, Final

import numpy as np

from .. import config, fpstatus
from ..codegen.onednn.convolution import Waiting
from ..codegen.onednn.keys import ConvolutionKey
from ..codegen.onednn.library import Library, library
from ..codegen.onednn.primitives import Convolution
from ..ops import order, pending
from ..tiers.beside import beside
from ..tiers.pool import Counter, pool
from ..tiers.select import CallSite
from .held_sites import BY_SITE, HeldReshape, HeldSite
from .memory import Held

_F32: Final = np.dtype(np.float32)
_MAX_SHAPES: Final = 64
_Known = tuple[Library, ConvolutionKey, Convolution, Counter]


class HeldConvolution(HeldSite):
    """conv2d of images and a weight."""

    __slots__ = ("known", "attrs")

    def __init__(self, site: CallSite) -> None:
        super().__init__(site)
        self.known: dict[tuple[Any, ...], _Known] = {}
        self.attrs: dict[str, Any] = {}

    def __call__(self, *operands: Any, **attrs: Any) -> Any:
        if not self.claims or config.plain.value & BY_SITE or self.version != pool.version or len(operands) != 2 or not pending.asker():
            return super().__call__(*operands, **attrs)
        x = operands[0].array if type(operands[0]) is Held else None
        weight = self._view(1, operands[1])
        if x is None or weight is None or x.dtype is not _F32 or weight.dtype is not _F32:
            return super().__call__(*operands, **attrs)
        known = self.known.get((x.shape, weight.shape))
        if known is None or attrs != self.attrs or known[0] is not library():  # new shapes, or the settings have changed
            return self._first(operands, attrs)
        used, key, primitive, counter = known
        counter.calls += 1
        result = pending.add(Waiting(used, key, primitive, x.transpose(order.LAST), weight, None))
        pending.answered()
        return Held(result)

    def _first(self, operands: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        """The longer way; what it came to is kept where the convolution waits."""
        result = super().__call__(*operands, **attrs)
        if type(result) is not Held or any(not isinstance(value, (int, str, tuple)) for value in attrs.values()):
            return result
        found = pending.seen(result.array)
        weight = self._view(1, operands[1])
        if type(found) is not Waiting or found.result is not result.array or found.bias is not None or type(operands[0]) is not Held:
            return result
        plan = self.kernel.known((operands[0].array, weight), attrs)
        if plan is None:
            return result
        if attrs != self.attrs or len(self.known) >= _MAX_SHAPES:
            self.known, self.attrs = {}, dict(attrs)
        self.known[operands[0].array.shape, weight.shape] = found.library, found.key, found.primitive, plan[0]
        return result

    def _renew(self) -> None:
        super()._renew()
        self.known = {}


class HeldNorm(HeldSite):
    """batch_norm_parts of what waits for its convolution, of which only the normalised images are wanted."""

    __slots__ = ("counted",)

    def __init__(self, site: CallSite) -> None:
        super().__init__(site)
        self.counted: Counter | None = None

    def __call__(self, *operands: Any, **attrs: Any) -> Any:
        counted = self.counted
        if counted is None or config.plain.value & BY_SITE or self.version != pool.version:
            return self._first(operands, attrs)
        eps, rest = attrs.get("eps"), attrs.get("rest", True)
        x = operands[0].array if type(operands[0]) is Held else None
        found = None if x is None or type(eps) is not float or rest or len(attrs) != 2 else pending.seen(x)
        if x is None or found is None or found.thread != threading.get_ident():
            return super().__call__(*operands, **attrs)
        gamma, beta, mean, variance = (v.array if type(v) is Held else self._view(k, v) for k, v in enumerate(operands[1:], 1))
        channels = x.shape[1:2]
        for numbers in (gamma, beta, mean, variance):
            if numbers is None or numbers.dtype is not _F32 or numbers.shape != channels:
                return super().__call__(*operands, **attrs)
        with fpstatus.recording():  # MindSpore reports no floating-point events
            scale = np.sqrt(variance + np.float32(eps))
        if not pending.finish(x, (("sub", mean), ("div", scale), ("mul", gamma), ("add", beta))):
            return super().__call__(*operands, **attrs)
        counted.calls += 1
        return Held(x), None, None, None, None

    def _first(self, operands: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        result = super().__call__(*operands, **attrs)
        if self.claims and not beside.on and len(operands) == 5 and type(operands[0]) is Held and result is not None:
            arrays = tuple(v.array if type(v) is Held else self._view(k, v) for k, v in enumerate(operands))
            if all(array is not None and array.dtype is _F32 for array in arrays):
                plan = self.kernel.known(arrays, attrs)
                self.counted = None if plan is None else plan[0]
        return result

    def _renew(self) -> None:
        super()._renew()
        self.counted = None


def held_site(site: CallSite) -> HeldSite:
    """The short way of an op's site."""
    made = {"conv2d": HeldConvolution, "batch_norm_parts": HeldNorm, "reshape": HeldReshape}.get(site.op.name, HeldSite)
    return made(site)
