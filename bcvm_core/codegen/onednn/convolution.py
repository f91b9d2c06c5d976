"""Convolution of float32 images by oneDNN: what `ops.conv` asks first.

Images are computed with their channels innermost, whatever `layout` says about the order of the axes. What lies otherwise is copied
first. Which implementation runs follows from shapes alone; what the library has no fast implementation for runs by im2col.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ... import grouping
from ...ops import conv, pending
from ...ops.order import FIRST, LAST, channels_innermost, is_kept
from ..loops import address
from ..stencils.recycle import empty
from . import threadpool
from .keys import ConvolutionKey
from .library import Library, OneDNNError, library
from .primitives import Convolution, convolution, mover
from .weights import Packed, weights

_Array = np.ndarray[Any, Any]
_F32: Final = np.dtype(np.float32)


def convolve(x: _Array, weight: _Array, bias: _Array | None, geometry: conv.Geometry) -> _Array | None:
    """As `ops.conv.by_library`; the result is contiguous unless its order is `order.is_kept`."""
    found = library()
    if found is None or not (x.size and weight.size):
        return None
    groups, layout, size, stride, dilation, edges, out = geometry
    images = x if layout == "NHWC" else x.transpose(LAST)
    shape = images.shape[0], images.shape[3], *size
    key = ConvolutionKey(shape, weight.shape, groups, stride, dilation, edges, out, bias is not None)
    try:
        if grouping.rules() and not is_kept():
            shared = in_group(found, key, x, weight, bias, layout)
            if shared is not None:
                return shared
        primitive = convolution(found, key)
        if layout == "NCHW" and is_kept() and pending.asker():
            return pending.add(Waiting(found, key, primitive, images, weight, bias))
        made = run(found, primitive, images, weight, bias)
    except OneDNNError:
        return None
    if layout == "NHWC":
        return made
    return made.transpose(FIRST) if is_kept() else plain(made.transpose(FIRST))


def in_group(found: Library, key: ConvolutionKey, x: _Array, weight: _Array, bias: _Array | None, layout: str) -> _Array | None:
    """The convolution at the size of its group of batch sizes, cut to the true one; None where that is the size of the group.

    Images are independent of each other, and those that fill up repeat the first: whatever they raise it has raised as well.
    """
    count, size = x.shape[0], grouping.grouped(x.shape)[0]
    if size == count:
        grouping.note("conv", "at its true size, which is its group's or beyond the groups")
        return None
    primitive = convolution(found, key._replace(images=(size, *key.images[1:])))
    more = empty((size, *x.shape[1:]), _F32)
    more[:count] = x
    more[count:] = x[:1]
    made = run(found, primitive, more if layout == "NHWC" else more.transpose(LAST), weight, bias)
    grouping.note("conv", "filled up to the size of its group")
    result: _Array = (made if layout == "NHWC" else plain(made.transpose(FIRST)))[:count].copy()
    return result


class Waiting:
    """As `pending.Pending`: what a convolution needs, and the memory of its result."""

    def __init__(
        self, found: Library, key: ConvolutionKey, primitive: Convolution, images: _Array, weight: _Array, bias: _Array | None
    ) -> None:
        self.library, self.key, self.primitive = found, key, primitive
        self.images, self.weight, self.bias = images, weight, bias
        self.memory = empty(primitive.out_shape, _F32)
        self.result = self.memory.transpose(FIRST)
        self.thread = pending.asker()

    def fill(self, steps: pending.Steps = ()) -> bool:
        """As `pending.Pending.fill`. Raises OneDNNError where the library fails."""
        primitive = followed(self.library, self.primitive, tuple([name for name, _ in steps])) if steps else self.primitive
        if primitive is None:
            return False
        run(self.library, primitive, self.images, self.weight, self.bias, [number for _, number in steps], self.memory)
        return True


def followed(library: Library, plain: Convolution, steps: tuple[str, ...]) -> Convolution | None:
    """The primitive with these steps; None where the library would compute the convolution in another way with them."""
    try:
        return plain.followed[steps]
    except KeyError:
        pass
    try:
        found: Convolution | None = convolution(library, plain.key._replace(steps=steps))
    except OneDNNError:
        found = None
    if found is not None and found.implementation != plain.implementation:
        found = None
    plain.followed[steps] = found
    return found


pending.address = address


def run(
    found: Library,
    made: Convolution,
    images: _Array,
    w: _Array,
    b: _Array | None,
    numbers: Sequence[_Array] = (),
    result: _Array | None = None,
    packed: Packed | None = None,
) -> _Array:
    """The convolution of (n, height, width, channels); `numbers`: what its post-ops take. `packed`: the weight, where it is in that order.

    Raises OneDNNError.
    """
    return told(found, made, images, w, b, numbers, result, packed)[0]


def told(
    found: Library,
    made: Convolution,
    images: _Array,
    w: _Array,
    b: _Array | None,
    numbers: Sequence[_Array] = (),
    result: _Array | None = None,
    packed: Packed | None = None,
) -> tuple[_Array, bool | None]:
    """As `run`, and whether the processor's flag "invalid" went up (None: nobody has looked)."""
    images = channels_last(found, images)
    if packed is None or packed.order != made.format:
        w = readable(w)
        packed = weights.packed(found, w, made.format)
    if result is None:
        result = empty(made.out_shape, _F32)
    more = [readable(v) for v in ((b, *numbers) if b is not None else numbers)]
    places = (address(images), packed.address, address(result), *map(address, more))
    return result, threadpool.run(found, made.run, places, made.flops)


def is_dense(x: _Array) -> bool:
    """Whether the library can read the array where it lies."""
    return x.flags.c_contiguous and x.flags.aligned


def readable(x: _Array) -> _Array:
    """The array in C order at an address that the library can read."""
    return x if is_dense(x) else np.require(x, requirements=["C", "A"])


def channels_last(found: Library, images: _Array) -> _Array:
    """(n, height, width, channels) in C order; images in plain order are moved by the library."""
    if is_dense(images):
        return images
    before = images.transpose(FIRST)
    if not is_dense(before):
        return np.require(images, requirements=["C", "A"])
    made = empty(images.shape, _F32)
    with found.limits(1):
        mover(found, before.shape, True)((address(before), address(made)))
    return made  # type: ignore[no-any-return]


def plain(x: _Array) -> _Array:
    """(n, channels, height, width) in C order, of an array in which the channels lie innermost."""
    found = library()
    if found is None or x.dtype != _F32 or not x.size or not channels_innermost(x):
        return np.ascontiguousarray(x)
    made = empty(x.shape, _F32)
    with found.limits(1):
        mover(found, x.shape, False)((address(x), address(made)))
    return made  # type: ignore[no-any-return]
