"""A CALL_OP of a flat program on its short way: what the adapter did with operands of some types is done again without asking why.

The first call with operands of some element types and ranks goes the adapter's whole way, and what reached the kernel is watched. Where
that was the operands' own arrays and what came out were the kernel's own results, the next such call is: arrays out, kernel, results
held. Everything that depends on more than element types, ranks and attributes is the adapter's each time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from .. import config, fpstatus
from ..ops import order, pending
from ..tiers.pool import Counter, pool
from ..tiers.select import CallSite
from . import memory
from .adapter import ADAPTER, is_own, shares
from .memory import Held, data_ptr

_ndarray: Final = np.ndarray
BY_SITE: Final = config.WATCHED | config.EXCHANGED
_MAX_RECIPES: Final = 16

OPS: Final = frozenset(
    "add subtract multiply divide maximum minimum matmul matmul_transposed bmm linear bias_add softmax log_softmax gelu relu relu6 sigmoid "
    "tanh silu exp sqrt layer_norm layer_norm_parts batch_norm batch_norm_parts conv2d max_pool2d avg_pool2d mean reshape transpose "
    "swapaxes astype attention".split()
)
"""Ops for which the adapter goes by element types, ranks and attributes alone."""


class _Recipe:
    """What a call came to: the attributes the kernel got, and whether it gave several results."""

    __slots__ = ("passed", "fixed", "given", "several", "itself", "tail", "plan")

    def __init__(
        self, given: dict[str, Any], kernel_attrs: dict[str, Any], *, several: bool = False, itself: bool = False, tail: Sequence[Any] = ()
    ) -> None:
        self.passed = tuple(name for name, value in kernel_attrs.items() if name in given and given[name] is value)
        self.fixed = {name: value for name, value in kernel_attrs.items() if name not in self.passed}
        self.given = {name: value for name, value in given.items() if name not in self.passed}  # must be the same again
        self.several = several
        self.tail = tail  # what the kernel got by position after the arrays, made of attributes
        self.plan: tuple[Counter, Callable[..., Any]] | None = None  # the op's definition, where it alone can be chosen
        self.itself = itself  # the first operand's memory comes out, no kernel runs

    def attrs(self, given: dict[str, Any]) -> dict[str, Any] | None:
        """What the kernel gets this time; None where it is not known."""
        if len(given) != len(self.given) + len(self.passed):
            return None
        for name, value in self.given.items():
            if given.get(name, self) is not value:
                return None
        try:
            return {**self.fixed, **{name: given[name] for name in self.passed}} if self.passed else self.fixed
        except KeyError:
            return None


class _Spy:
    """A kernel that notes what it was called with and what it gave."""

    __slots__ = ("kernel", "calls")

    def __init__(self, kernel: CallSite) -> None:
        self.kernel = kernel
        self.calls: list[tuple[tuple[Any, ...], dict[str, Any], Any]] = []

    def __call__(self, *operands: Any, **attrs: Any) -> Any:
        result = self.kernel(*operands, **attrs)
        self.calls.append((operands, attrs, result))
        return result


class HeldSite:
    """Called as the site it stands for, within a flat program. Raises what the site raises."""

    __slots__ = ("site", "op", "kernel", "version", "recipes", "views", "is_view", "keeps", "claims", "follows", "quiet")

    def __init__(self, site: CallSite) -> None:
        op = self.op = site.op
        self.site = site
        self.kernel = CallSite(op, syntax=site.syntax, shape_hint=site.shape_hint)
        self.version = -1
        self.recipes: dict[tuple[int, ...], _Recipe | None] = {}
        self.views: dict[int, tuple[Any, ...]] = {}
        self.is_view = shares(op)
        self.quiet = op.shape_rule == "view"
        self.keeps = op.name in order.KEEPING
        self.follows = self.is_view or self.keeps or op.fuse == "elementwise" or op.name in order.FOLLOWING
        self.claims = False

    def __call__(self, *operands: Any, **attrs: Any) -> Any:
        if config.plain.value & config.EXCHANGED:
            return self.site(*operands, **attrs)
        if self.version != pool.version:
            self._renew()
        arrays: list[Any] = []
        key: list[int] = []
        for position, value in enumerate(operands):
            array = value.array if type(value) is Held else self._view(position, value)
            if array is None:
                return self.site(*operands, **attrs)
            arrays.append(array)
            key.append(array.dtype.num << 8 | array.ndim)
        kind = tuple(key)
        try:
            recipe = self.recipes[kind]
        except KeyError:
            return self._watched(kind, operands, attrs)
        given = None if recipe is None else recipe.attrs(attrs)
        if given is None:
            return self.site(*operands, **attrs)
        assert recipe is not None
        if recipe.itself and not arrays[0].flags.c_contiguous:
            return self.site(*operands, **attrs)
        if not self.claims:
            pending.settle()
        if self.is_view:
            memory.lay_out(operands[:1])
            if type(operands[0]) is Held:
                arrays[0] = operands[0].array
        elif not self.follows:
            memory.make_plain(operands)
            arrays = [value.array if type(value) is Held else array for value, array in zip(operands, arrays, strict=True)]
        found = self._found(recipe, arrays, given)
        if recipe.several:
            return tuple([None if part is None else Held(part) for part in found])
        result = Held(found if type(found) is _ndarray else np.asarray(found))
        if self.is_view:
            memory.note_views(operands, result)
        return result

    def _found(self, recipe: _Recipe, arrays: Sequence[Any], attrs: dict[str, Any]) -> Any:
        if recipe.itself:
            return arrays[0]
        arrays = (*arrays, *recipe.tail) if recipe.tail else arrays
        kernel: Callable[..., Any] = self.kernel
        if recipe.plan is not None:
            counter, kernel = recipe.plan
            counter.calls += 1
        if self.quiet:
            return kernel(*arrays, **attrs)
        with fpstatus.recording():  # MindSpore reports no floating-point events
            return self._kept(kernel, arrays, attrs) if self.keeps else kernel(*arrays, **attrs)

    def _kept(self, kernel: Callable[..., Any], arrays: Sequence[Any], attrs: dict[str, Any]) -> Any:
        try:
            with order.kept():
                return kernel(*arrays, **attrs)
        finally:
            pending.answered()

    def _view(self, position: int, value: Any) -> Any:
        """The memory of a tensor that is not held, such as a parameter; None for other values."""
        known = self.views.get(position)
        if known is not None and known[0] is value:
            _, where, shape, dtype, array = known
            if data_ptr(value) == where and value.shape == shape and value.is_contiguous():
                own = value.dtype
                if own is dtype or own == dtype:  # comparing them takes longer than all else
                    return array
        if not isinstance(value, memory.TENSORS):
            return None
        array = memory.view(value)
        if value.is_contiguous():
            self.views[position] = value, data_ptr(value), value.shape, value.dtype, array
        return array

    def _renew(self) -> None:
        """Kernels may have been exchanged: which ones run, and whether convolutions may wait for them, is asked again."""
        self.version = pool.version
        self.recipes = {}
        self.kernel.where = self.site.where  # by which its times are told
        own = is_own(self.op)
        self.claims = own and (self.op.name in pending.CLAIMING or self.op.name == "conv2d")
        if not own and self.op.name == "conv2d":
            self.recipes = _Never()

    def _watched(self, kind: tuple[int, ...], operands: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        """The adapter's way; what it came to is remembered."""
        spy = _Spy(self.kernel)
        result = ADAPTER.call(self.op, spy, operands, dict(attrs))
        if len(self.recipes) < _MAX_RECIPES:
            self.recipes[kind] = self._recipe(spy, operands, attrs, result)
        return result

    def _recipe(self, spy: _Spy, operands: tuple[Any, ...], attrs: dict[str, Any], result: Any) -> _Recipe | None:
        itself = not spy.calls and self.op.name == "astype" and len(operands) == 1 and type(result) is Held
        if itself and _same_array(result.array, operands[0]):
            return _Recipe(attrs, {}, itself=True)
        if len(spy.calls) != 1 or not all(map(_known, attrs.values())):
            return None
        given, kernel_attrs, found = spy.calls[0]
        tail = given[len(operands) :]
        if len(given) < len(operands) or not all(map(_same_array, given, operands)) or not _plain(tail):
            return None
        given = given[: len(operands)]
        if self.claims and any(array.dtype != np.float32 for array in given):
            return None
        several = type(result) is tuple
        if several:
            whole = type(found) is tuple and len(found) == len(result) and all(map(_holds, result, found))
        else:
            whole = _holds(result, found)
        if not whole:
            return None
        recipe = _Recipe(attrs, kernel_attrs, several=several, tail=tail)
        if is_own(self.op):
            recipe.plan = self.kernel.known((*given, *tail), kernel_attrs)
        return recipe


class HeldReshape(HeldSite):
    """reshape of a result that lies in C's order, which is a view whatever the shape."""

    __slots__ = ()

    def __call__(self, *operands: Any, **attrs: Any) -> Any:
        x = operands[0]
        if config.plain.value & BY_SITE or self.version != pool.version or type(x) is not Held or len(operands) != 1:
            return super().__call__(*operands, **attrs)
        array = x.array
        recipe = self.recipes.get((array.dtype.num << 8 | array.ndim,))
        if recipe is None or recipe.plan is None or recipe.tail or not array.flags.c_contiguous:
            return super().__call__(*operands, **attrs)
        shape = attrs.get("shape") if recipe.passed == ("shape",) else attrs.get("dims") if recipe.passed == ("dims",) else None
        if type(shape) is not tuple or len(attrs) != 1:
            return super().__call__(*operands, **attrs)
        if not self.claims:
            pending.settle()
        recipe.plan[0].calls += 1
        result = Held(array.reshape(shape))
        result.is_view = True
        return result


class _Never(dict[tuple[int, ...], Any]):
    """Recipes of an op that always goes the adapter's way."""

    def __missing__(self, _key: Any) -> None:
        return None


def _plain(value: Any) -> bool:
    """Whether a value is made of numbers and texts alone."""
    if type(value) in (tuple, list):
        return all(map(_plain, value))
    return value is None or type(value) in (bool, int, float, str)


def _known(value: Any) -> bool:
    """Whether an attribute may be passed on without a look at it."""
    return _plain(value) or not isinstance(value, (*memory.TENSORS, _ndarray, list, tuple))


def _same_array(array: Any, operand: Any) -> bool:
    """Whether an array shows an operand's own memory, all of it."""
    if type(array) is not _ndarray:
        return False
    own = memory.view(operand)
    if own is array:
        return True
    return own.__array_interface__ == array.__array_interface__ and own.dtype == array.dtype


def _holds(result: Any, found: Any) -> bool:
    """Whether a result is the kernel's array, held, or None as the kernel's is."""
    return result is found is None or type(result) is Held and type(found) is _ndarray and result.array is found
