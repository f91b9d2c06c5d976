"""The elements of all windows of small images as a matrix, in front of the library's product (`keys.as_product`)."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import c_void_p
from typing import Any, Final, Protocol

import numpy as np

from ..scratch import Scratch
from .keys import ConvolutionKey

_Array = np.ndarray[Any, Any]
_F32: Final = np.dtype(np.float32)
_scratch = Scratch()


class Run(Protocol):
    """What runs a convolution."""

    def make(self) -> None:
        """Have its code generated now."""

    def __call__(self, addresses: Sequence[int], stream: c_void_p | None = None) -> bool | None:
        """As `primitives.Primitive.__call__`."""


class InColumns:
    """Called as the primitive of a convolution, by addresses; `product` is the primitive that takes the matrix in place of the images."""

    def __init__(self, key: ConvolutionKey, product: Run) -> None:
        self.product = product
        n, channels, height, width = key.images
        (self.top, bottom), (self.left, right) = key.edges
        self.images = n, height, width, channels
        self.padded = n, height + self.top + bottom, width + self.left + right, channels
        self.matrix = n, *key.out, *key.weight[2:], channels
        self.step, self.spread = key.stride, key.dilation
        self.pad_size = 4 * _elements(self.padded)
        self.size = self.pad_size + 4 * _elements(self.matrix)

    def __call__(self, addresses: Sequence[int], stream: c_void_p | None = None) -> bool | None:
        """As `Primitive.__call__`."""
        at = _scratch.at(self.size)
        self._fill(at, addresses[0])
        return self.product((at + self.pad_size, *addresses[1:]), stream)

    def make(self) -> None:
        """Have the product's code generated now."""
        self.product.make()

    def _fill(self, at: int, images: int) -> None:
        """The padded images, and behind them the matrix."""
        padded, matrix = _array(at, self.padded), _array(at + self.pad_size, self.matrix)
        padded.fill(0)
        _, height, width, _ = self.images
        padded[:, self.top : self.top + height, self.left : self.left + width] = _array(images, self.images)
        n, y, x, c = padded.strides
        strides = (n, y * self.step[0], x * self.step[1], y * self.spread[0], x * self.spread[1], c)
        matrix[...] = np.ndarray(self.matrix, _F32, padded, 0, strides)


def _elements(shape: tuple[int, ...]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def _array(address: int, shape: tuple[int, ...]) -> _Array:
    """The memory at an address."""
    memory: Any = (ctypes.c_float * _elements(shape)).from_address(address)
    return np.ndarray(shape, _F32, memory)
