"""Primitives of the convolutions further down a program, made by another thread while the first of them runs.

Where a group meets new shapes, those of the groups that work on its result follow from it. Describing and generating their primitives
takes longer than running them where images are small. The thread begins with the last group and ends where it meets the program.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence
from typing import Final, Protocol

from ..codegen.onednn.following import Following
from ..codegen.onednn.library import OneDNNError
from ..codegen.stencils import crew as crews
from ..codegen.stencils import threads
from ..fusion.convolutions import Group, Pool
from ..ops.pooling import window_axes

Shape = tuple[int, ...]
Shapes = tuple[Shape, Shape]  # of images (n, channels, height, width) and weight
_AS_USUAL: Final = (("layout", "NCHW"), ("ceil_mode", False), ("return_indices", False))
_LEAST: Final = 2  # groups for which a thread is worth starting


class Later(Protocol):
    """A group, as far as this module knows it."""

    group: Group
    known: dict[Shapes, Following | None]
    coming: Shapes | None  # shapes for which its primitive is on its way
    weight_shape: Shape

    def described(self, images: Shape, weight: Shape) -> Following | None:
        """What runs it for such shapes; None where nothing fast does."""

    def result_shape(self, images: Shape, weight: Shape) -> Shape | None:
        """Of its result, channels second; None where the shapes don't fit."""


def start(first: Later, shapes: Shapes, later: Sequence[Later], pools: Sequence[Pool]) -> None:
    """Have made what the groups after `first`, which runs now for these shapes, will want."""
    if not later or threads.cores() == 1:
        return
    waiting = _reached(first, shapes, later, pools)
    if len(waiting) < _LEAST:
        return
    for one, its in waiting:
        one.coming = its
    crew = crews.crew
    crew.spare(1)
    try:
        threading.Thread(target=_work, args=(waiting, crew), name="bcvm-prepare", daemon=True).start()
    except RuntimeError:  # the interpreter is shutting down, or there are no more threads
        crew.spare(-1)


def _reached(first: Later, shapes: Shapes, later: Sequence[Later], pools: Sequence[Pool]) -> list[tuple[Later, Shapes]]:
    """The groups whose images' shape follows from the first one's, if they don't know it yet."""
    found, sizes = [], {first.group.images: shapes[0]}
    own = first.result_shape(*shapes)
    if own is not None:
        sizes[first.group.result] = own
    for one in later:
        for pool in pools:
            if pool.source in sizes and pool.result not in sizes:
                sizes |= _pooled(pool, sizes[pool.source])
        images = sizes.get(one.group.images)
        result = None if images is None else one.result_shape(images, one.weight_shape)
        if images is None or result is None:
            continue
        sizes[one.group.result] = result
        if (images, one.weight_shape) not in one.known:
            found.append((one, (images, one.weight_shape)))
    return found


def _pooled(pool: Pool, images: Shape) -> dict[int, Shape]:
    """The shape of a pool's result by its register; none where nothing is known of it."""
    attrs = {name: value for name, value in pool.attrs.items() if (name, value) not in _AS_USUAL}
    try:
        rows, columns = window_axes((images[2], images[3]), **attrs)
    except (TypeError, ValueError):  # the op says it its own way
        return {}
    return {pool.result: (*images[:2], rows.out, columns.out)}


def _work(waiting: list[tuple[Later, Shapes]], crew: crews.Crew) -> None:
    try:
        for one, shapes in reversed(waiting):
            if shapes in one.known:  # the program is here already
                return
            with contextlib.suppress(OneDNNError):  # the program will say so itself
                made = one.described(*shapes)
                if made is not None:
                    made.make()
    finally:
        crew.spare(-1)
