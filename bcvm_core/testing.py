"""The one door for tests: break, slow and restrict parts of the VM for the length of a `with` block.

Everything is put back on exit, after errors too. The comparison helpers always assert.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import fields
from typing import Any

import numpy as np

from . import config
from .ops import registry
from .tiers.pool import KernelPool, pool

Kernel = Callable[..., Any]
TIERS = ("interpreter", "linked", "plain")


# --- breaking kernels --------------------------------------------------------------------------


@contextmanager
def _swapped(name: str, make: Callable[[Kernel], Kernel], where: KernelPool) -> Iterator[None]:
    """Let a kernel run `make(its function)`; nests."""
    before = where.entry(name).fn
    was_swapped = where.is_swapped(name)
    where.swap(name, make(before))
    try:
        yield
    finally:
        if was_swapped:
            where.swap(name, before)
        else:
            where.restore(name)


def corrupt_kernel(name: str, how: str | Callable[[Any], Any] = "last_bit", *, where: KernelPool = pool) -> AbstractContextManager[None]:
    """Context: every result of kernel `name` is wrong.

    `how`: "last_bit" flips the last bit of one element, "zero" replaces the result by zeros, a
    function gets the result and returns the wrong one. Raises PoolError for unknown kernels.
    """
    spoil = {"last_bit": flip_last_bit, "zero": zeros_of}.get(how) if isinstance(how, str) else how
    if spoil is None:
        raise ValueError(f"how must be 'last_bit', 'zero' or a function, not {how!r}")

    writes = registry.row(where.entry(name).op).writes

    def make(fn: Kernel) -> Kernel:
        def wrong(*operands: Any, **attrs: Any) -> Any:
            result = fn(*operands, **attrs)
            if writes:  # what it leaves in its first operand is the result
                operands[0][... if isinstance(operands[0], np.ndarray) else slice(None)] = spoil(operands[0])
                return result
            return spoil(result)

        return wrong

    return _swapped(name, make, where)


def slow_kernel(name: str, seconds: float, *, where: KernelPool = pool) -> AbstractContextManager[None]:
    """Context: kernel `name` takes `seconds` longer."""

    def make(fn: Kernel) -> Kernel:
        def slow(*operands: Any, **attrs: Any) -> Any:
            time.sleep(seconds)
            return fn(*operands, **attrs)

        return slow

    return _swapped(name, make, where)


def fail_kernel(name: str, error: type[Exception] = RuntimeError, *, where: KernelPool = pool) -> AbstractContextManager[None]:
    """Context: kernel `name` raises an `error`."""

    def make(fn: Kernel) -> Kernel:
        def fail(*_operands: Any, **_attrs: Any) -> Any:
            raise error(f"kernel {name} is made to fail")

        return fail

    return _swapped(name, make, where)


def _flip_array(value: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A copy whose first element has another last bit."""
    out = np.array(value, order="K", copy=True)
    if out.size:
        _flip_in_place(out)
    return out


def _flip_in_place(value: np.ndarray[Any, Any]) -> None:
    first = value[(slice(0, 1),) * value.ndim].copy().reshape(1) if value.ndim else value.copy().reshape(1)
    if first.dtype.kind == "b":
        first = ~first
    else:
        size = first.dtype.itemsize if first.dtype.kind != "c" else first.dtype.itemsize // 2
        unsigned = np.dtype(f"u{size}")
        first.view(unsigned)[:1] ^= unsigned.type(1)
    value[(0,) * value.ndim] = first[0]


def flip_last_bit(value: Any) -> Any:
    """`value` with the last bit of its first number flipped; in containers that of the first item."""
    if isinstance(value, np.ndarray):
        return _flip_array(value)
    if isinstance(value, np.generic):
        return _flip_array(np.asarray(value))[()]
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value ^ 1
    if isinstance(value, float | complex):
        return _flip_array(np.asarray(value))[()].item()
    if isinstance(value, tuple | list):
        items = [flip_last_bit(value[0]), *value[1:]] if value else ["wrong"]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return ("wrong", value)


def zeros_of(value: Any) -> Any:
    """Zeros in the form of `value`; what is zero already becomes one."""
    if isinstance(value, np.ndarray | np.generic):
        array = np.asarray(value)
        wrong = np.full(array.shape, not array.astype(bool).any(), array.dtype)
        return wrong if isinstance(value, np.ndarray) else wrong[()]
    if isinstance(value, tuple | list):
        items = [zeros_of(item) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return type(value)(not value) if isinstance(value, bool | int | float | complex) else ("wrong", value)


# --- restricting -------------------------------------------------------------------------------


@contextmanager
def force_tier(tier: str) -> Iterator[None]:
    """Run everything by the reference "interpreter", the "linked" form, or as "plain" Python."""
    if tier not in TIERS:
        raise ValueError(f"no tier {tier!r}; known: {', '.join(TIERS)}")
    with config.override(force_tier=tier):
        yield


@contextmanager
def _knobs_and_pool(**changes: Any) -> Iterator[None]:
    """Knobs that the pool reads when it makes kernels and sites their memory."""
    try:
        with config.override(**changes):
            pool.refresh()
            yield
    finally:
        pool.refresh()


def forbid_executable_memory() -> AbstractContextManager[None]:
    """Context: no generated code; every kernel is NumPy, as on machines that bar executable memory."""
    return _knobs_and_pool(use_llvm=False)


def small_caches(size: int = 1) -> AbstractContextManager[None]:
    """Context: every bounded cache holds at most `size` entries."""
    return _knobs_and_pool(site_cache=size)


@contextmanager
def thresholds(**knobs: Any) -> Iterator[None]:
    """Set knobs of `config` by name, for instance `prune_after=1`. Raises TypeError for unknown names."""
    with config.override(**knobs):
        yield


def knobs() -> tuple[str, ...]:
    """Names that `thresholds` takes."""
    return tuple(f.name for f in fields(config.Config))


# --- comparing ---------------------------------------------------------------------------------


def _bits(array: np.ndarray[Any, Any]) -> bytes:
    return np.ascontiguousarray(array).tobytes()


def _first_difference(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> str:
    flat_a, flat_b = np.ascontiguousarray(a).reshape(-1), np.ascontiguousarray(b).reshape(-1)
    size = max(1, a.dtype.itemsize)
    rows_a = np.frombuffer(flat_a.tobytes(), np.uint8).reshape(-1, size)
    rows_b = np.frombuffer(flat_b.tobytes(), np.uint8).reshape(-1, size)
    differing = np.flatnonzero((rows_a != rows_b).any(axis=1))
    at = int(differing[0])
    index = tuple(int(i) for i in np.unravel_index(at, a.shape)) if a.ndim else ()
    return f"{len(differing)} of {a.size} elements differ, first at {index}: {flat_a[at]!r} and {flat_b[at]!r}"


def assert_same_bits(actual: Any, expected: Any, path: str = "value") -> None:
    """Both have the same types, element types, shapes and bits, through tuples, lists and dicts; NaN equals only the same NaN."""
    assert type(actual) is type(expected), f"{path}: {type(actual).__name__} and {type(expected).__name__}"
    if isinstance(expected, np.ndarray | np.generic):
        assert actual.dtype == expected.dtype, f"{path}: {actual.dtype} and {expected.dtype}"
        assert actual.shape == expected.shape, f"{path}: shapes {actual.shape} and {expected.shape}"
        if expected.dtype.hasobject:
            assert_same_bits(actual.tolist(), expected.tolist(), path)
            return
        a, b = np.asarray(actual), np.asarray(expected)
        assert _bits(a) == _bits(b), f"{path}: {_first_difference(a, b)}"
    elif isinstance(expected, tuple | list):
        assert len(actual) == len(expected), f"{path}: {len(actual)} and {len(expected)} items"
        for i, (a_item, b_item) in enumerate(zip(actual, expected, strict=True)):
            assert_same_bits(a_item, b_item, f"{path}[{i}]")
    elif isinstance(expected, dict):
        assert list(actual) == list(expected), f"{path}: keys {list(actual)} and {list(expected)}"
        for key in expected:
            assert_same_bits(actual[key], expected[key], f"{path}[{key!r}]")
    elif isinstance(expected, float | complex):
        assert _bits(np.asarray(actual)) == _bits(np.asarray(expected)), f"{path}: {actual!r} and {expected!r}"
    else:
        assert actual is expected or actual == expected, f"{path}: {actual!r} and {expected!r}"


def _ordered(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Floats as integers in the order of the numbers, so that neighbours differ by one; -0 and 0 are the same."""
    bits = np.ascontiguousarray(array).view(np.dtype(f"i{array.dtype.itemsize}")).astype(object)
    lowest = -(1 << (8 * array.dtype.itemsize - 1))
    return np.where(bits < 0, lowest - bits, bits)


def ulp_distance(actual: Any, expected: Any) -> int:
    """The largest distance between corresponding floats in units in the last place of their common type."""
    a, b = np.atleast_1d(np.asarray(actual)), np.atleast_1d(np.asarray(expected))
    if a.size == 0:
        return 0
    nan = np.asarray(np.isnan(a) & np.isnan(b))
    distance = np.abs(_ordered(a) - _ordered(b))
    return int(np.where(nan, 0, distance).max())


def assert_close_ulp(actual: Any, expected: Any, ulp: int = 2) -> None:
    """Same type and shape, NaN in the same places, and numbers at most `ulp` units in the last place apart."""
    a, b = np.asarray(actual), np.asarray(expected)
    assert a.dtype == b.dtype, f"{a.dtype} and {b.dtype}"
    assert a.shape == b.shape, f"shapes {a.shape} and {b.shape}"
    if a.dtype.kind == "c":
        assert_close_ulp(a.real, b.real, ulp)
        assert_close_ulp(a.imag, b.imag, ulp)
        return
    assert (np.isnan(a) == np.isnan(b)).all(), "NaN in different places"
    distance = ulp_distance(a, b)
    assert distance <= ulp, f"{distance} units in the last place apart, more than {ulp}"
