"""What a convolution is made for, and which ones are computed as one product of matrices."""

from __future__ import annotations

from typing import Final, NamedTuple

Pair = tuple[int, int]
PIXELS: Final = 16  # of a result, up to which the weight counts more than the images,
WEIGHTS: Final = 1 << 20  # if it has so many elements
MATRIX: Final = 1 << 22  # elements of what all windows hold, at most: each thread keeps the memory


class ConvolutionKey(NamedTuple):
    """What a convolution is made for.

    `steps`: post-ops by name. "residual" adds an array like the result, "relu" takes nothing, the others one number per channel.
    """

    images: tuple[int, int, int, int]  # n, channels, height, width
    weight: tuple[int, ...]  # out, in / groups, kh, kw
    groups: int
    stride: Pair
    dilation: Pair
    edges: tuple[Pair, Pair]
    out: Pair
    has_bias: bool
    steps: tuple[str, ...] = ()


def as_product(key: ConvolutionKey) -> ConvolutionKey | None:
    """The product of the windows' elements and the weight, as a convolution of one image with a kernel of one pixel; None: not so.

    The library goes through the weight once for each image. Where several small images meet a weight that the caches near the core
    don't hold, that is most of the time.
    """
    out, per_group, kh, kw = key.weight
    pixels, depth = key.out[0] * key.out[1], per_group * kh * kw
    if key.groups > 1 or kh * kw == 1 or key.images[0] == 1 or pixels > PIXELS or out * depth < WEIGHTS:
        return None
    count = key.images[0] * pixels
    if count * depth > MATRIX:
        return None
    none = (0, 0)
    return ConvolutionKey((1, depth, 1, count), (out, depth, 1, 1), 1, (1, 1), (1, 1), (none, none), (1, count), key.has_bias, key.steps)
