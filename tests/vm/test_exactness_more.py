"""More of what a hostile reader found: recursion, views of functions, warnings around linking, bits around events, stores."""

# ruff: noqa: F841, RET504, PIE804, PLE1132

from __future__ import annotations

import functools
import pickle
import types
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bcvm_core.jit import adopt, jit, nojit
from bcvm_core.vm import twin

from .constructs import canonical
from .test_exactness import LOG, observe, other, power_of_host, same, unknown_operand


def nested(depth: int, call: Callable[[], Any]) -> Any:
    return nested(depth - 1, call) if depth else call()


def recursive(x, n):
    y = x * 2
    return recursive(y - x, n + 1) + 1


def recursive_through(function, x, n):
    y = x * 2
    return other(function)(function, y - x, n + 1) + x[other(0)]


def test_too_deep_recursion_shows_the_users_frames_only() -> None:
    linked = jit(recursive_through)
    for depth in range(60):  # the limit is met at every place
        with pytest.raises(RecursionError) as caught:
            jit(recursive)(np.ones(3), 0) if not depth else nested(depth, lambda: linked(linked, np.ones(3), 0))
        assert not [entry for entry in caught.traceback if "bcvm_core" in str(entry.path)]


def test_views_of_a_function_that_nobody_holds() -> None:
    assert "RETURN" in jit(unknown_operand).dis()


def warns_in_a_loop(x, k):
    for _ in range(20):
        a = x / 0
        b = k + 1
        jit(power_of_host)
    return a, b


def test_linking_does_not_make_python_forget_what_it_has_warned_of() -> None:
    linked = jit(warns_in_a_loop)
    globals().pop("__warningregistry__", None)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("default")
        linked(np.ones(2), 1)
    assert len(seen) == 1


def test_warnings_as_errors_do_not_hinder_linking() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        linked = jit(unknown_operand)
    assert linked is not unknown_operand


def overflows_on_the_way(x):
    return np.exp(x * 1e3) / np.exp(x).sum()


def test_the_bits_do_not_depend_on_events() -> None:
    quiet = jit(overflows_on_the_way)
    x = np.linspace(0.1, 2, 50)
    with np.errstate(all="ignore"):
        plain = quiet(x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert canonical(quiet(x)) == canonical(plain)


def stores(x, d, i):
    x[1:] = other(x)[:-1]
    x[i, ...] = other(5)
    d[1:] = other([1, 2])
    x[...] = other(1e300)
    try:
        x[0:2] = other(np.ones(7))
    except ValueError as error:
        LOG.append(error.__traceback__.tb_lineno)
    x[2:9] = other(x)
    return x, d


def test_stores_of_what_the_host_computes() -> None:
    same(stores, lambda: (np.arange(6.0), [1, 2, 3], 1), lambda: (np.arange(6, dtype="f4"), [1, 2], [0, 1]), lambda: ([1, 2, 3], [1, 2], 1))
    linked = jit(stores)
    observe(linked, lambda: (np.arange(6.0), [1, 2, 3], 1))
    assert linked.stats().ops["setitem"].call_op >= 3


CALLS: list[Callable[[Any], Any]] = [
    lambda x: np.add(x, x2=1), lambda x: np.add(x1=x, x2=1), lambda x: np.exp(x=x), lambda x: np.clip(x, 1), lambda x: np.clip(x, a_max=1),
    lambda x: np.add(x), lambda x: np.sum(x, axis=0, axes=1), lambda x: x.sum(*[0]),
    lambda x: np.reshape(x, (3, 1), "F"), lambda x: np.clip(a_max=2, a=x, a_min=1), lambda x: np.sum(axis=0, a=x),
    lambda x: np.add(*[x, x]),
]  # fmt: skip


@pytest.mark.parametrize("call", CALLS, ids=range(len(CALLS)))
def test_arguments_are_bound_as_numpy_binds_them(call: Callable[[Any], Any]) -> None:
    same(call, lambda: (np.arange(3.0),))


def pickled_by_value(function: types.FunctionType) -> types.FunctionType:
    """As cloudpickle does it for functions of notebooks: constants, attributes and cells one by one."""

    def again(code: types.CodeType) -> types.CodeType:
        consts = [again(c) if isinstance(c, types.CodeType) else pickle.loads(pickle.dumps(c)) for c in code.co_consts]
        return code.replace(co_consts=tuple(consts))

    result = types.FunctionType(
        again(function.__code__), function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    result.__dict__.update(pickle.loads(pickle.dumps(function.__dict__)))
    return result


def every_kind_of_site(x, k=2):
    a = x * k
    b = a + 1
    x[1:] = other(x)[1:]
    c = other(x)
    c += other(b)
    return [v * 2 for v in (other(b) * 2)], (lambda q: q * b)(np.maximum(b, other(1))), c


def test_functions_pickled_by_value_run_plainly() -> None:
    for linked in (jit(every_kind_of_site), adopt(twin.make_twin(every_kind_of_site, every_kind_of_site.__code__))):
        copied = pickled_by_value(linked)
        make = lambda: (np.arange(3.0),)  # noqa: E731
        assert observe(copied, make) == observe(every_kind_of_site, make)
        assert jit(copied)(np.arange(3.0))[0] == every_kind_of_site(np.arange(3.0))[0]


def test_a_wrapper_of_a_jitted_function_is_its_own() -> None:
    inner = jit(unknown_operand)

    @functools.wraps(inner)
    def wrapper(o: Any, x: Any) -> Any:
        return inner(o, x) * 3 - 1

    expected = wrapper(1, np.ones(3))
    for outer in (jit(wrapper), jit(strict=True)(wrapper), nojit(jit(wrapper))):
        assert canonical(outer(1, np.ones(3))) == canonical(expected)
    outer = jit(wrapper)
    outer(1, np.ones(3))
    assert outer.stats() is not inner.stats()
    assert {"multiply", "subtract"} <= set(outer.stats().ops)


def takes_anything(*args, **kwargs):
    return args, kwargs


class Callee:
    def __getattr__(self, name: str) -> Any:
        LOG.append(name)
        raise ValueError(name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return args


UNPACKING: list[Callable[[Any, Any], Any]] = [
    lambda f, x: f(x, *5), lambda f, x: f(x, **5), lambda f, x: f(axis=0, **{"axis": 0}), lambda f, x: f(x, **{"axis": 0}, **{"axis": 1}),
    lambda f, x: x.max(axis=0, **{"axis": 0}), lambda f, x: np.add(*x, **{}), lambda f, x: np.add(*3), lambda f, x: f(x, self=1, args=2),
    lambda f, x: f(*[x, 1], **{"self": 3}), lambda f, x: other(*[x, x]), lambda f, x: f(x)(x),
    lambda f, x: np.maximum(*[x, 1], **{"out": x}),
]  # fmt: skip


@pytest.mark.parametrize("call", UNPACKING, ids=range(len(UNPACKING)))
def test_calls_that_unpack_arguments(call: Callable[[Any, Any], Any]) -> None:
    same(call, lambda: (takes_anything, np.arange(2.0)), lambda: (np.sum, np.arange(2.0)), lambda: (print, np.arange(2.0)))


def test_callees_are_asked_nothing() -> None:
    same(UNPACKING[7], lambda: (Callee(), np.arange(2.0)))


EMPTY: list[Callable[[Any, Any], Any]] = [
    lambda f, x: np.sum(x, axis=f()), lambda f, x: x.max(axis=f()), lambda f, x: np.array(f(x)), lambda f, x: np.asarray(object=f(x)),
    lambda f, x: x.transpose(*f()), lambda f, x: x.reshape(*f()), lambda f, x: np.full(f(), 3), lambda f, x: np.full((3, *x.shape), f(x)),
]  # fmt: skip


@pytest.mark.parametrize("call", EMPTY, ids=range(len(EMPTY)))
def test_empty_tuples_and_arrays_are_arguments_like_others(call: Callable[[Any, Any], Any]) -> None:
    for x in (np.arange(6.0).reshape(2, 3), np.zeros((0, 2)), np.arange(2.0)):
        same(call, lambda x=x: (lambda *args: args[0] if args else (), x))


CHOICES = {"exp": np.exp, "sum": np.sum, "other": other, "number": 5}


CHOSEN: list[Callable[[Any, Any], Any]] = [
    lambda k, x: CHOICES[k](x), lambda k, x: CHOICES[k](x, axis=0), lambda k, x: (np.exp if k == "exp" else other)(x),
    lambda k, x: getattr(np, k)(x), lambda k, x: CHOICES[k](*[x]), lambda k, x: CHOICES[k](CHOICES["exp"](x)) + 1,
    lambda k, x: [np.exp, np.sum][len(k) > 3](x * 2), lambda k, x: getattr(x, k)(axis=0), lambda k, x: CHOICES[k](x)(x),
]  # fmt: skip


@pytest.mark.parametrize("call", CHOSEN, ids=range(len(CHOSEN)))
def test_callees_chosen_at_run_time(call: Callable[[Any, Any], Any]) -> None:
    keys = ("exp", "sum", "other", "number", "absent")
    same(call, *(lambda k=k, x=x: (k, x) for k in keys for x in (np.arange(3.0), np.array(["a"]), 2)))


def test_callees_chosen_at_run_time_run_in_the_vm() -> None:
    for number in (0, 2, 3, 5, 6):
        linked = jit(strict=True)(CHOSEN[number])
        expected = CHOSEN[number]("exp", np.arange(3.0))
        assert canonical(linked("exp", np.arange(3.0))) == canonical(expected)
        assert linked.stats().ops["exp"].call_op > 0 and linked.stats().call_host == 0


class Holder:
    a: Any


def narrowed_in_a_region(a, b):
    a -= b
    a //= b * 0
    return a


def narrowed_in_an_attribute(a, b):
    holder = Holder()
    holder.a = a
    holder.a += b
    items = {"a": a}
    items["a"] *= b
    return holder.a


def narrowed_in_a_part(a, b):
    a[1:] += b[1:]
    return a


@pytest.mark.parametrize("function", [narrowed_in_a_region, narrowed_in_an_attribute, narrowed_in_a_part])
@pytest.mark.parametrize("action", ["always", "error"])
@pytest.mark.parametrize("mode", ["warn", "raise"])
def test_an_operator_in_place_whose_result_is_too_large_for_the_target(function: Any, action: Any, mode: Any) -> None:
    """The cast is part of the operator: its warning says so, at the user's line; and where it raises the write has happened once."""

    def outcome(called: Any, b: Any) -> Any:
        a, raised = np.array([1, 2, -3, 4, 5], np.float16), None
        with warnings.catch_warnings(record=True) as caught, np.errstate(over=mode):
            warnings.simplefilter(action)
            try:
                called(a, b)
            except (FloatingPointError, RuntimeWarning) as error:
                raised = type(error), str(error)
        return a.tobytes(), raised, [(str(w.message), w.filename, w.lineno) for w in caught]

    linked = jit(function)
    for numbers in ([0, 7e4, -3, 2, 1], [1] * 5, [1e30, -1e30, np.nan, np.inf, 1e5], [3e38] * 5):
        b = np.array(numbers, np.float32)
        for _ in range(3):
            assert outcome(linked, b) == outcome(function, b)
