"""What a hostile reader found: order and number of side effects, deleted names, warnings, failed stores."""

# ruff: noqa: F821, F841, RET504

from __future__ import annotations

import traceback
import types
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bcvm_core.jit import jit
from bcvm_core.ops import registry
from bcvm_core.vm import value_site

from .constructs import canonical

LOG: list[Any] = []
G = np.ones(3)
HOLDER: Any = None


def observe(function: Callable[..., Any], make: Callable[[], tuple[Any, ...]], modes: str = "warn") -> Any:
    """Everything a caller sees of a call: value or error with traceback and locals, arguments, log, warnings."""
    LOG.clear()
    globals().setdefault("G", np.ones(3))
    globals().pop("__warningregistry__", None)
    arguments = make()
    with warnings.catch_warnings(record=True) as seen, np.errstate(all=modes):  # type: ignore[call-overload]
        warnings.simplefilter("always")
        try:
            result: Any = canonical(function(*arguments))
        except Exception as error:
            place = error.__traceback__
            while place is not None and place.tb_next is not None:
                place = place.tb_next
            assert place is not None
            result = ("".join(traceback.format_exception(error)), {k: canonical(v) for k, v in place.tb_frame.f_locals.items()})
    caught = [(w.category.__name__, str(w.message), w.filename, w.lineno) for w in seen]
    return result, canonical(arguments), [repr(e) for e in LOG], caught


def same(function: Callable[..., Any], *makes: Callable[[], tuple[Any, ...]], modes: str = "warn") -> None:
    linked = jit(function)
    assert linked is not function, "was not linked"
    for _ in range(3):
        for make in makes:
            assert observe(linked, make, modes) == observe(function, make, modes)


class Noisy:
    """Logs whatever is asked of it."""

    def __init__(self, value: Any = 1) -> None:
        self.value = value

    def __lt__(self, other: Any) -> bool:
        LOG.append("lt")
        return True

    def __add__(self, other: Any) -> Any:
        LOG.append("add")
        return self.value

    def __getitem__(self, index: Any) -> Any:
        LOG.append(("getitem", repr(index)))
        if index == 3:
            raise IndexError
        return self.value

    def __len__(self) -> int:
        LOG.append("len")
        return 3

    def __index__(self) -> int:
        LOG.append("index")
        return 1

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        LOG.append("array")
        raise ValueError("no array today")

    def max(self) -> Any:
        LOG.append("max")
        return self.value

    @property
    def read(self) -> Any:
        LOG.append("read")
        return self.value

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__"):
            LOG.append(("getattr", name))
        raise AttributeError(name)


def chains(o, x):
    return 0 < o.read < 5, 0 < o[1] < 5, 0 < o.max() < 5, 0 < x.max() < 5


def chain_error(y):
    x = y * 2
    return 0 < x < 3


def test_the_middle_of_a_chain_is_evaluated_once() -> None:
    same(chains, lambda: (Noisy(), np.ones(3)), lambda: (Noisy(-1), np.ones(3)))
    same(chain_error, lambda: (np.ones(3),), lambda: ("a",))


def unknown_operand(o, x):
    return o + x * 2


def test_nothing_is_asked_of_strangers() -> None:
    same(unknown_operand, lambda: (Noisy(), np.ones(3)))


ASKING: list[Callable[[Any, Any], Any]] = [
    lambda a, x: x.reshape(a), lambda a, x: np.zeros(a), lambda a, x: x.sum(a), lambda a, x: np.array([a, 1]), lambda a, x: x[a, ...],
    lambda a, x: np.full((a,), 1), lambda a, x: np.add(x, [a]), lambda a, x: x[[a]], lambda a, x: np.repeat(x, a),
    lambda a, x: np.broadcast_to(x, a), lambda a, x: x.transpose(a), lambda a, x: np.concatenate([x, a]), lambda a, x: x[a:] * 2,
    lambda a, x: (x * 2).max(axis=(a,)), lambda a, x: np.where(x > 0, a, x), lambda a, x: np.stack(a) * x, lambda a, x: np.pad(x, a),
    lambda a, x: np.sum(x, a),
]  # fmt: skip


@pytest.mark.parametrize("ask", ASKING, ids=range(len(ASKING)))
def test_arguments_that_run_user_code_are_used_once(ask: Callable[[Any, Any], Any]) -> None:
    same(ask, lambda: (Noisy(), np.ones(3)), lambda: (Noisy(np.ones(3)), np.ones(3)))


def empties(it, x):
    return np.array(list(it)) * x


def test_iterators_are_emptied_once() -> None:
    same(empties, lambda: (iter([1, 2, 3]), np.ones(3)), lambda: (iter([1, 2, 3]), np.ones(4)))


def rebinds_holder(x):
    global HOLDER
    first = HOLDER = types.SimpleNamespace(w=x * 1)
    HOLDER.w += other_holder()
    return first.w, HOLDER.w


def other_holder():
    global HOLDER
    HOLDER = types.SimpleNamespace(w=np.full(3, 100.0))
    return np.ones(3)


def rebinds_in_value(o, p):
    o.w += (o := p).w
    return o.w


def test_the_target_of_an_augmented_assignment_is_found_first() -> None:
    same(rebinds_holder, lambda: (np.arange(3.0),))
    same(rebinds_in_value, lambda: (types.SimpleNamespace(w=np.ones(3)), types.SimpleNamespace(w=np.full(3, 5.0))))


def deletes_in_loop(y, x, log):
    for i in range(2):
        try:
            a = y * (2 + i)
            b = x * 3
            del x
        except UnboundLocalError as error:
            log.append(str(error))
        log.append(a)


def handler_unbinds(x, e):
    try:
        raise KeyError
    except KeyError as e:
        pass
    a = x * 2
    b = a + e
    return b


def reads_global(x):
    a = x * 2
    b = a + G
    return b * 2


def cell_is_deleted(x):
    c = x * 1

    def drop():
        nonlocal c
        del c

    drop()
    z = x * 2
    w = z + c
    return w


def test_unbound_names_are_found_where_they_are_read() -> None:
    same(deletes_in_loop, lambda: (np.ones(3), np.ones(3), []))
    same(handler_unbinds, lambda: (np.ones(3), np.ones(3)))
    same(cell_is_deleted, lambda: (np.ones(3),))
    same(reads_global, lambda: (np.ones(3),), lambda: (np.ones(4),))


def without_global() -> tuple[Any, ...]:
    globals().pop("G", None)
    return (np.ones(3),)


def without_global_wrong_shape() -> tuple[Any, ...]:
    globals().pop("G", None)
    return (np.ones((2, 5)),)


def test_globals_deleted_after_linking() -> None:
    same(reads_global, lambda: (np.ones(3),), without_global, without_global_wrong_shape, lambda: (np.ones(3),))


def power_of_host(x):
    return other(x) ** 2


def other(x):
    return x


def test_every_operator_has_a_python_twin() -> None:
    same(power_of_host, lambda: (np.arange(3.0),))
    for name in ("Add Sub Mult Div FloorDiv Mod Pow MatMult LShift RShift BitOr BitXor BitAnd").split():
        row = registry.by_operator(name)
        assert row is not None and row.name in value_site._OPERATORS and row.name in value_site._INPLACE


def tuple_item(t, x):
    t[0] += x


def test_a_store_that_is_refused_after_the_write() -> None:
    same(tuple_item, lambda: ((np.ones(3), 2), np.arange(3.0)))


def casting_store(x, y):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            x[:] = y + x
        except RuntimeWarning as error:
            LOG.append(str(error))
    return x


def test_a_store_whose_warning_is_an_error_happens_once() -> None:
    same(casting_store, lambda: (np.arange(3), np.array([1.0, np.nan, 3.0])))


def some_warnings_are_errors(x):
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="invalid")
        try:
            a = x / 0
            b = a * 2
            return b
        except RuntimeWarning as error:
            LOG.append(str(error))


def own_showwarning(x):
    def show(message, *rest):
        LOG.append(str(message))
        raise ValueError("from showwarning")

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = show
        try:
            a = x / 0
            return a + 1
        except ValueError as error:
            LOG.append(str(error))


def squares(x):
    x **= 2
    return x**2, x**0.5, x**-1


def scalars(a, b):
    c = a + b
    d = a * b
    e = a / (b - b)
    return c, d, e, a**b


def python_warnings(c, one):
    a = c.astype("f4")
    b = np.zeros(2)
    b[:] = c
    return a, b, float(one), one == None, bool(one[:0])  # noqa: E711


def test_warnings_are_pythons() -> None:
    same(some_warnings_are_errors, lambda: (np.array([0.0, 1.0]),), lambda: (np.ones(2),))
    same(own_showwarning, lambda: (np.ones(2),))
    same(squares, lambda: (np.array([1e300, 0.0]),), lambda: (np.array([1e30, 2.0], "f4"),))
    pairs = [(np.int8(100), np.int8(100)), (np.float32(3e38), 2**40), (np.float64(1e308), 1e308), (np.int8(100), 100)]
    pairs.append((np.bool_(1), np.bool_(1)))
    same(scalars, *[lambda p=p: p for p in pairs])  # type: ignore[misc]
    same(python_warnings, lambda: (np.array([1j, 2]), np.ones(1)))


@pytest.mark.parametrize("modes", ["ignore", "warn", "raise"])
def test_scalar_events_under_errstate(modes: str) -> None:
    same(scalars, lambda: (np.int8(100), np.int8(100)), lambda: (np.float32(3e38), np.float32(10)), modes=modes)


def reads_frame_by_another_name(x):
    y = x * 2
    z = y + 1
    w = z * 3
    return sorted(names_here()), w


names_here = locals


def test_locals_under_another_name() -> None:
    same(reads_frame_by_another_name, lambda: (np.ones(3),))


class Lazy(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        LOG.append(name)
        return np.ones(3)


lazy = Lazy("lazy")


def lazy_module(x):
    return x * lazy.weights + 1


def test_modules_with_getattr_are_asked_as_often() -> None:
    same(lazy_module, lambda: (np.ones(3),))
