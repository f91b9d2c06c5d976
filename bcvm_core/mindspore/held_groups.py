"""Convolutions of flat programs with the norm or bias, the residual and relu that follow, in one call (`fusion.convolutions`).

The ops' own sites go first. What they come to for these element types (which attributes reach the op, that nothing but its definition
runs it) is what a group relies on: from then on calls with any shapes are made here, unless something differs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import is_
from typing import Any, Final

import numpy as np

from .. import config, fpstatus, grouping
from ..codegen.loops import address
from ..codegen.onednn.convolution import is_dense
from ..codegen.onednn.following import Following
from ..codegen.onednn.keys import ConvolutionKey
from ..codegen.onednn.library import OneDNNError, library
from ..codegen.onednn.primitives import convolution
from ..codegen.onednn.weights import Packed, weights
from ..fusion.convolutions import Group, Pool
from ..ops import conv, order
from ..tiers import effort
from ..tiers.beside import beside
from ..tiers.clock import Timing, clock
from ..tiers.pool import Counter, pool
from . import held_ahead
from .held_sites import HeldSite
from .memory import Held

_Array = np.ndarray[Any, Any]
_F32: Final = np.dtype(np.float32)
_NORM: Final = ("sub", "div", "mul", "add")
_IMAGES, _VECTOR = _F32.num << 8 | 4, _F32.num << 8 | 1
_MAX_SHAPES: Final = 64
_Ready = tuple[_Array, list[_Array], Packed | None, tuple[int, ...] | None]
"""Weight, numbers per channel in the order of the steps, the weight packed, where the numbers lie, if the library can read them there."""


class HeldGroup:
    """Called with what `prepare` gave, the images and the residual; None: its ops must run one by one.

    A program prepares all its groups when it begins: what is looked at then would otherwise have to come back from memory for each, since
    weights that pass through the caches push everything else out.
    """

    __slots__ = (
        "group",
        "sites",
        "version",
        "counters",
        "attrs",
        "eps",
        "known",
        "root",
        "order",
        "timing",
        "places",
        "later",
        "pools",
        "coming",
        "weight_shape",
        "__weakref__",
    )

    def __init__(self, group: Group, sites: Sequence[HeldSite]) -> None:
        """`sites`: those of the convolution, of the norm or bias where there is one, and of what follows."""
        self.group, self.sites = group, sites
        self.version = -1
        self.counters: tuple[Counter, ...] = ()
        self.attrs: dict[str, Any] = {}
        self.eps: Any = None
        self.known: dict[tuple[Any, ...], Following | None] = {}
        self.order = -1  # of the packed weight that was used last
        self.timing: Timing | None = None  # of calls, once they are measured
        self.root: tuple[bytes, Any] = b"", None  # the memory of a variance, and what was made of it
        self.places: tuple[list[_Array], tuple[int, ...] | None] = [], ()  # of the numbers that were there last

        self.later: list[HeldGroup] = []  # the groups that follow in the program
        self.pools: Sequence[Pool] = ()  # and what may lie between them
        self.coming: tuple[tuple[int, ...], tuple[int, ...]] | None = None  # shapes for which what runs it is on its way
        self.weight_shape: tuple[int, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The ops that a call does."""
        return tuple(site.op.name for site in self.sites)

    @property
    def where(self) -> tuple[str, str, int] | None:
        """(function or cell, file, line) of the convolution."""
        return self.sites[0].site.where

    def prepare(self, weight: Any, *numbers: Any) -> _Ready | None:
        """What does not depend on the images; None where the ops must run one by one. Numbers are in the order of `group.numbers`."""
        if config.plain.value & ~config.WATCHED or grouping.rules() or not (self.version == pool.version or self._learn()):
            return None
        w = self.sites[0]._view(1, weight)
        if w is None or w.dtype is not _F32:
            return None
        arrays = []
        for position, value in enumerate(numbers, 1):
            array = value.array if type(value) is Held else self.sites[1]._view(position, value)
            if array is None or array.dtype is not _F32 or array.shape != w.shape[:1]:
                return None
            arrays.append(array)
        if len(arrays) == len(_NORM):
            gamma, beta, mean, variance = arrays
            arrays = [mean, self._root_of(variance), gamma, beta]
        packed = weights.unwritten(w, self.order) if self.order >= 0 and w.flags.c_contiguous else None
        self.weight_shape = w.shape
        known, places = self.places
        if len(known) != len(arrays) or not all(map(is_, known, arrays)):
            places = tuple(map(address, arrays)) if all(map(is_dense, arrays)) else None
            self.places = arrays, places
        return w, arrays, packed, places

    def __call__(self, ready: _Ready | None, images: Any, residual: Any = None) -> Held | None:
        if ready is None or type(images) is not Held or images.array.dtype is not _F32:
            return None
        w, numbers, packed, places = ready
        last = None
        if self.group.residual is not None:
            if type(residual) is not Held or residual.array.dtype is not _F32:
                return None
            last = residual.array.transpose(order.LAST)
        shapes = images.array.shape, w.shape
        following = self.known[shapes] if shapes in self.known else self._new(shapes)
        if following is None or following.library is not library() or (last is not None and last.shape != following.plain.out_shape):
            return None
        if beside.on and (
            beside.strays or following.plain.flops >= effort.LONG_FLOPS or images.array.size + w.size >= effort.LONG_ELEMENTS
        ):
            return None  # the op's own site makes a long call where it can be interrupted
        try:
            call = images.array.transpose(order.LAST), w, numbers, last, packed, places
            made = clock.measure(self, following, call) if config.plain.value & config.WATCHED else following(*call)
        except OneDNNError:
            return None
        if made is None:
            return None
        self.order = following.plain.format
        for counter in self.counters:
            counter.calls += 1
        return Held(made.transpose(order.FIRST))

    def ahead(self, images: Any, *ready: _Ready | None) -> None:
        """Nothing is computed before its turn."""

    def _root_of(self, variance: _Array) -> _Array:
        """As the norm computes it. Variances of networks that are used stay as they are."""
        seen = variance.tobytes()
        known, root = self.root
        if known != seen:
            with fpstatus.recording():  # MindSpore reports no floating-point events
                root = np.sqrt(variance + np.float32(self.eps))
            self.root = seen, root
        return root  # type: ignore[no-any-return]

    def lead(self, others: Sequence[Any], pools: Sequence[Pool]) -> None:
        """Groups that follow in the program: what runs those that are convolutions is made while this one runs."""
        self.later, self.pools = [other for other in others if type(other) is HeldGroup], pools

    def _new(self, shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> Following | None:
        """For shapes that have not been here; None where the library has nothing fast for them."""
        if len(self.known) >= _MAX_SHAPES:
            self.known = {}
        self.known[shapes] = None
        if self.coming != shapes:
            held_ahead.start(self, shapes, self.later, self.pools)
        self.coming = None
        made = self.known[shapes] = self.described(*shapes)
        return made

    def result_shape(self, x: tuple[int, ...], w: tuple[int, ...]) -> tuple[int, ...] | None:
        """As `held_ahead.Later.result_shape`."""
        if self.version != pool.version:
            return None
        try:
            out = conv.geometry(x, w, **self.attrs)[-1]
        except (ValueError, TypeError, IndexError):  # the op says it its own way
            return None
        return (x[0], w[0], *out)

    def described(self, x: tuple[int, ...], w: tuple[int, ...]) -> Following | None:
        """What runs it for such shapes; None where the library has nothing fast for them."""
        found = library()
        try:
            groups, layout, size, stride, dilation, edges, out = conv.geometry(x, w, **self.attrs)
            if found is None or layout != "NCHW" or 0 in x or 0 in w:
                return None
            key = ConvolutionKey((x[0], x[1], *size), w, groups, stride, dilation, edges, out, False)
            plain = convolution(found, key)
        except (ValueError, TypeError, OneDNNError):  # the op says it its own way
            return None
        steps = _NORM if self.eps is not None else ("add",) if self.group.numbers else ()
        residual = "" if self.group.residual is None else "first" if self.group.first else "second"
        return Following(found, plain, steps, residual, self.group.relu)

    def _learn(self) -> bool:
        """Whether the sites have come to the ops' own definitions; with which attributes and counters."""
        group, counters = self.group, []
        given: list[tuple[tuple[int, ...], Mapping[str, Any]]] = [((_IMAGES, _IMAGES), group.attrs)]
        if group.norm is not None:
            given.append(((_IMAGES, *[_VECTOR] * len(_NORM)), {"eps": group.norm, "rest": False}))
        elif group.numbers:
            given.append(((_IMAGES, _VECTOR), group.bias))
        passed = []
        for site, (kinds, attrs) in zip(self.sites, given, strict=False):  # what follows is elementwise: any kernel has the same bits
            recipe = site.recipes.get(kinds) if site.version == pool.version else None
            kernel_attrs = None if recipe is None or recipe.plan is None or recipe.tail else recipe.attrs(dict(attrs))
            if recipe is None or recipe.plan is None or kernel_attrs is None:
                return False
            counters.append(recipe.plan[0])
            passed.append(kernel_attrs)
        if len(given) > 1 and group.norm is None and passed[1].get("axis", 1) != 1:
            return False
        self.attrs, self.eps = dict(passed[0]), passed[1].get("eps") if group.norm is not None else None
        if group.norm is not None and type(self.eps) is not float:
            return False
        self.counters, self.known, self.version = tuple(counters), {}, pool.version
        return True


def held_group(group: Group, steps: Sequence[Any]) -> HeldGroup | None:
    """What runs a group whose ops run by `steps`; None where there is no library for it."""
    sites = [site for site in steps if site is not None and site.op.name != "getitem"]  # taking the first result of a norm computes nothing
    if library() is None or not all(isinstance(site, HeldSite) for site in sites):
        return None
    return HeldGroup(group, sites)
