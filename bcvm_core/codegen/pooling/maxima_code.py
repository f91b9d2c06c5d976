"""Maxima of windows over images whose channels lie innermost, in the language of `native.py`: rows of results, one pixel after the other.

A *job* is a block of words. Which elements a window has is looked up per axis: `count` offsets (in rows or pixels from the window's first
one, possibly outside of the image), in the order in which their maxima are taken.
"""

from __future__ import annotations

from typing import Final

from ..stencils.native import call, get_status, load64, set_status, stack, store64

J_SOURCE: Final = 0  # addresses
J_RESULT: Final = 8
J_HEIGHT: Final = 16  # of an image, in rows and pixels
J_WIDTH: Final = 24
J_OUT_HEIGHT: Final = 32  # of its result
J_OUT_WIDTH: Final = 40
J_PIXEL: Final = 48  # bytes
J_STEP_Y: Final = 56
J_STEP_X: Final = 64
J_COUNT_Y: Final = 72
J_COUNT_X: Final = 80
J_TAPS_Y: Final = 88  # `TAPS_MAX` offsets each
J_TAPS_X: Final = 152
J_LARGEST: Final = 216  # the address of what takes the maxima of some pixels
TAPS_MAX: Final = 8


def maxima(job: int, _unused: int, first: int, last: int) -> int:
    """Rows `first` to `last` of all images' results; the processor's flags stay as they were."""
    scratch = stack(8)
    status = get_status(scratch)
    image = 0
    y = first
    while y >= load64(job + J_OUT_HEIGHT):
        y = y - load64(job + J_OUT_HEIGHT)
        image = image + 1
    row = first
    while row < last:
        one_row(job, image, y)
        row = row + 1
        y = y + 1
        if y == load64(job + J_OUT_HEIGHT):
            y = 0
            image = image + 1
    set_status(scratch, status)
    return 0


def one_row(job: int, image: int, y: int) -> int:
    """A row of results. Rows of the image that its windows have are looked for once."""
    rows = stack(64)
    places = stack(512)
    pixel = load64(job + J_PIXEL)
    width = load64(job + J_WIDTH)
    out_width = load64(job + J_OUT_WIDTH)
    result = load64(job + J_RESULT) + (image * load64(job + J_OUT_HEIGHT) + y) * out_width * pixel
    height = load64(job + J_HEIGHT)
    used = 0
    k = 0
    while k < load64(job + J_COUNT_Y):
        at = y * load64(job + J_STEP_Y) + load64(job + J_TAPS_Y + 8 * k)
        if at >= 0 and at < height:
            store64(rows + 8 * used, load64(job + J_SOURCE) + (image * height + at) * width * pixel)
            used = used + 1
        k = k + 1
    count_x = load64(job + J_COUNT_X)
    step = load64(job + J_STEP_X)
    x = 0
    while x < out_width:
        count = 0
        k = 0
        while k < count_x:
            at = x * step + load64(job + J_TAPS_X + 8 * k)
            if at >= 0 and at < width:
                r = 0
                while r < used:
                    store64(places + 8 * count, load64(rows + 8 * r) + at * pixel)
                    count = count + 1
                    r = r + 1
            k = k + 1
        call(load64(job + J_LARGEST), result, places, count, pixel)
        result = result + pixel
        x = x + 1
    return 0
