"""The interpreter against plain Python: values, exceptions, side effects and final state, construct by construct."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import functools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bcvm_core.isa import verifier
from bcvm_core.ops import registry
from bcvm_core.vm import interpreter
from bcvm_core.vm.programs import program_of

A = np.linspace(-2, 3, 12, dtype=np.float32).reshape(3, 4)
B = A[::-1].copy()
GLOBAL = np.full((3, 4), 1.5, np.float32)
WRONG = np.ones((5, 5), np.float32)
COUNTER = 0


def canonical(value: Any) -> Any:
    """Comparable and complete: dtypes, shapes and values of arrays, types of everything else."""
    if isinstance(value, np.ndarray | np.generic):
        return ("array", type(value).__name__, value.dtype.str, value.shape, np.asarray(value).tolist())
    if isinstance(value, tuple | list):
        return [type(value).__name__, *map(canonical, value)]
    if isinstance(value, dict):
        return {k: canonical(v) for k, v in value.items()}
    if isinstance(value, int | float | str | type(None)):
        return (type(value).__name__, value)
    return type(value).__name__


def close(one: Any, two: Any) -> bool:
    """Equal but for the last bits of floats: canonical transcendental functions are not NumPy's."""
    if isinstance(one, float) and isinstance(two, float):
        return bool(one == two or np.isclose(one, two, rtol=2e-6, atol=1e-6, equal_nan=True))
    if isinstance(one, tuple | list) and isinstance(two, tuple | list):
        return len(one) == len(two) and all(map(close, one, two))
    if isinstance(one, dict) and isinstance(two, dict):
        return one.keys() == two.keys() and all(close(one[k], two[k]) for k in one)
    return bool(one == two and type(one) is type(two))


def outcome(call: Callable[..., Any], args: tuple[Any, ...]) -> tuple[str, Any, Any]:
    """(what happened, value or exception, the arguments afterwards)."""
    args = copy.deepcopy(args)
    try:
        with np.errstate(all="ignore"):
            return "value", canonical(call(*args)), canonical(args)
    except Exception as error:
        context = None if error.__context__ is None else (type(error.__context__).__name__, str(error.__context__))
        return "raises", (type(error).__name__, str(error), context), canonical(args)


def interpreted(function: Any, sample: tuple[Any, ...] | None = None) -> Callable[..., Any]:
    """`function` run by the interpreter; its program is verified first."""
    code = function.__code__
    names = code.co_varnames[: code.co_argcount]
    program = program_of(function, None if sample is None else dict(zip(names, sample, strict=False)))
    verifier.verify(program, op_exists=lambda op: any(r.name == op for r in registry.rows()))
    cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))

    def call(*args: Any) -> Any:
        given = dict(zip(names, args, strict=False))
        defaults = function.__defaults__ or ()
        given = {**dict(zip(names[len(names) - len(defaults) :], defaults, strict=True)), **given}
        given.update(function.__kwdefaults__ or {})
        return interpreter.run(program, given, globals=function.__globals__, closure=cells, trusted=True)

    return call


def check(function: Any, *argument_sets: tuple[Any, ...], drive: Callable[[Any], Any] = lambda f: f) -> None:
    """Interpreted and plain must agree, with and without example values, again when run again."""
    for sample in (None, argument_sets[0]):
        call = interpreted(function, sample)
        for _ in range(2):
            for args in argument_sets:
                expected, found = outcome(drive(function), args), outcome(drive(call), args)
                assert close(expected, found), f"{function.__qualname__}{args}\nplain:       {expected}\ninterpreted: {found}"


def straight(x, y):
    a = np.exp(x)
    b = a * 2 + y
    return np.maximum(b, 0) - a


def test_straight_line():
    check(straight, (A, B), (A.astype("f8"), B), (A.T, B.T), (A, WRONG), (2, 3), (A[0], 1.5), (np.float32(3), B), (A, None), ("s", A))


def branches(x, k):
    if k > 1:
        z = x * 2 + 1
    elif k == 1:
        z = np.exp(x)
        z = z * z
    else:
        z = x
    return z - x


def test_branches():
    check(branches, (A, 0), (A, 1), (A, 2), (3, 1), (A, A))


def loops(x, n):
    kept = []
    for i in range(n):
        if i == 1:
            continue
        x = x * 0.5 + i
        s = x.sum()
        if s > 1e3:
            break
        kept.append(s)
    else:
        kept.append("else")
    while n > 0:
        n -= 1
        x = np.tanh(x) - 0.1
        if n == 2:
            break
    else:
        x = x * 10
    return kept, x


def test_loops():
    check(loops, (A, 0), (A, 5), (A * 100, 5), (A, 2), (A, None))


def nested_loops(x, n):
    total = x * 0
    for i in range(n):
        for j in range(n):
            if j > i:
                break
            total = total + x * j
        else:
            continue
        total -= 1
        while True:
            total = total * 0.5
            if total.max() < 10:
                break
    return total


def test_nested_loops():
    check(nested_loops, (A, 0), (A, 3), (A * 100, 4))


def early(x, k):
    for i in range(5):
        t = x * i + 1
        if i == k:
            return t * 2
    return np.exp(x) - t


def never(x):
    y = x + 1  # noqa: F841


def both_ways(x, k):
    if k:
        return x * 2
    return  # noqa: RET502


def test_returns():
    check(early, (A, 2), (A, 9))
    check(never, (A,), ("a",))
    check(both_ways, (A, 0), (A, 1))


def try_finally(x, y, log):
    try:
        a = x * 2
        b = a + y
        c = b - 1
    except ValueError as e:
        log.append(str(e))
        return (a, e.__class__.__name__)
    else:
        log.append("else")
        c = c * 2 + 1
    finally:
        log.append("finally")
        q = x * 3 - 1
        log.append(q)
    return b, c


def try_in_loop(x, items, log):
    for item in items:
        try:
            x = x * item
            if item == 2:
                continue
            if item == 5:
                break
            if item == 7:
                return x, log
        except TypeError as e:
            log.append(type(e).__name__)
        finally:
            log.append(item)
        x = x + 1
    return x


def swallow(x, y):
    with contextlib.suppress(ValueError):
        a = x + 1
        b = a + y
        x = b * 2 - 1
    with np.errstate(all="ignore"):
        z = np.log(x) + 1
    return a, x, z


def context_of_error(x, y):
    try:
        raise KeyError("k")
    except KeyError:
        z = x * 2
        z = z + y
        return z  # noqa: RET504


def test_try_and_with():
    check(try_finally, (A, B, []), (A, WRONG, []), (A, "s", []))
    check(try_in_loop, (A, [1, 2, 3], []), (A, [1, 5, 3], []), (A, [7], []), (A, ["s", None], []))
    check(swallow, (A, B), (A, WRONG))
    check(context_of_error, (A, B), (A, WRONG))


def generate_values(x, n):
    for i in range(n):
        x = x * 2 - 1
        got = yield x + i
        if got is not None:
            x = x * got + 1
    return np.exp(x) * 0


async def coroutine(x):
    y = x * 2 + 1
    await asyncio.sleep(0)
    z = np.exp(y) - 1
    return z * y


async def async_values(x):
    for _ in range(2):
        x = x * 2 + 1
        yield x
        await asyncio.sleep(0)


def test_suspending_functions():
    def drive(f):
        def driven(*args):
            g = f(*args)
            out = [next(g)]
            try:
                while True:
                    out.append(g.send(0.5))
            except StopIteration as s:
                return out, s.value, type(g).__name__

        return driven

    check(generate_values, (A, 3), (A, 2), drive=drive)
    check(coroutine, (A,), drive=lambda f: lambda x: asyncio.run(f(x)))

    async def collect(f, x):
        return [v async for v in f(x)]

    check(async_values, (A,), drive=lambda f: lambda x: asyncio.run(collect(f, x)))


def comprehensions(x, n):
    return [x * i + 1 for i in range(n)], {i: np.exp(x) * i for i in range(2)}, sum(v.sum() for v in (x * j - 1 for j in range(n)))


def lambdas(x):
    double = lambda v: v * 2 + x  # noqa: E731
    return double(x), (lambda y: np.exp(x) + y * 2)(x)


def nonlocals(x, n):
    acc = x * 0
    tot = x + 0

    def add(v):
        nonlocal acc
        acc = acc + v * 2
        w = acc * tot
        return w.sum() * 1

    r = [add(x * i - 1) for i in range(n)]
    tot = tot * 2 + acc
    return acc, r, add(x)


def make_closure(w):
    def inner(x):
        h = x * w + 1
        return np.maximum(h, 0) * w

    return inner


def make_counter(w):
    def inner(x):
        nonlocal w
        w = w + x
        return w * 2

    return inner


def test_inner_scopes():
    check(comprehensions, (A, 3))
    check(lambdas, (A,), ("a",))
    check(nonlocals, (A, 3))
    check(make_closure(GLOBAL * 2), (A,), (B,), (WRONG,))
    plain, other = make_counter(GLOBAL), make_counter(GLOBAL)
    call = interpreted(other)
    for _ in range(3):
        assert close(outcome(plain, (A,)), outcome(call, (A,)))


def unbound(x, k):
    a = x * 2 + 1
    if k:
        q = x - 1
    return a * q + 1


def unbound_in_host(x, k):
    if k:
        q = x - 1
    print(q, file=None if k else sys.stderr) if k else str(q)
    return x


def unbound_global(x):
    a = x * 2
    return a + UNDEFINED_NAME  # noqa: F821


def deleted(x):
    a = x * 2
    b = a + 1
    del a
    return b * 2, a


def test_names_without_a_value():
    check(unbound, (A, 0), (A, 1))
    check(unbound_in_host, (A, 0), (A, 0))
    check(unbound_global, (A,))
    check(deleted, (A,))


def sees_its_locals(x):
    a = x * 2
    b = a + 1
    c = np.exp(b)  # noqa: F841
    return sorted(locals()), locals()["a"], eval("a - b")


def globals_written(x):
    global COUNTER
    COUNTER = x * 2
    COUNTER = COUNTER + 1
    t = COUNTER * 2
    return t, COUNTER


def test_frames_and_globals():
    check(sees_its_locals, (A,))
    check(globals_written, (A,))
    assert close(canonical(COUNTER), canonical(A * 2 + 1))


def augmented(x, y):
    v = x
    w = x[1:]
    x += y * 2 + 1
    z = x * 2 - v
    w *= 2
    t = z + x
    x[0] = t[0] * 2 + 1
    x[:, 1] -= np.exp(y)[:, 1] + 1
    u = x - v
    return z, t, u, v, w


def rebinding(x, y):
    x = x * 2 + 1
    x -= y
    return x * x + 1


def augmented_others(items, text, n, x):
    items += [x]
    text += "!"
    n **= 2
    n //= 3
    x @= x.T.copy() if x.shape[0] == x.shape[1] else x
    return items, text, n, x


def test_writes_in_place():
    check(augmented, (A, B), (A, WRONG), (A.astype(np.int32), B), (A.astype("f8"), B))
    check(rebinding, (A, B), (A, WRONG), (2, 3))
    check(augmented_others, ([1], "a", 7, np.eye(3)), ([], "", 2.5, A), ((), 3, 2, A))


def chained(x):
    a = b = x * 2 + 1
    a -= 1
    (c, d), e = (a, b), 3
    c, d = d, c
    return a, b, c, d, e


def unpacking(pair, x):
    a, b = pair
    first, *rest = pair
    return a * x, b, first, rest


def walrus(x):
    return (y := x * 2 + 1) - y * 3, y


def conditions(x, k):
    a = x * 2 if k else x - 1
    b = k and x.sum() or a
    c = not k
    if k and not (k > 3 or k == 2):
        a = a + 1
    return a, b, c, x.sum() > 0 and k != 1


def keywords(x, /, y=2, *, k=GLOBAL):
    z = x.sum(axis=1, keepdims=True) * y + k
    return np.sum(z, axis=0), z.reshape(4, -1), np.clip(z, a_min=0, a_max=1)


def containers(x, k):
    d = {"a": x, k: x * 2}
    t = [x, *d.values()]
    return d["a"] - 1, d[k][1:, ::2], len(t), d, t[0][..., None].shape


def match_statement(x, k):
    match k:
        case {"w": w}:
            return x * w + 1
        case [a, *rest]:
            return x * a - len(rest)
        case _:
            return np.exp(x) * 2


def class_inside(x):
    class C:
        w = x * 2 + 1

        def m(self, y):
            return y * 2 + x

    return C.w, C().m(x)


def annotated(x):
    y: np.ndarray = x * 2
    z: int
    z = 3
    return y + z


def imports_inside(x):
    import math

    from numpy import sqrt as root

    return x * math.pi + root(np.abs(x)), math.floor(2.5)


def test_statements():
    check(chained, (A,))
    check(unpacking, ((1, 2), A), ((1,), A), ((1, 2, 3), A), (5, A))
    check(walrus, (A,))
    check(conditions, (A, 0), (A, 1), (A, 2), (A, 4), (A, A))
    check(keywords, (A,), (A, 3))
    check(containers, (A, "b"), (A, 3))
    check(match_statement, (A, {"w": 3}), (A, [1, 2]), (A, 1))
    check(class_inside, (A,))
    check(annotated, (A,))
    check(imports_inside, (A,))


class Base:
    def __init__(self):
        self.__w = GLOBAL * 3
        self.v = GLOBAL

    def f(self, x):
        return x + self.v


class Derived(Base):
    def __init__(self):
        super().__init__()
        self.__w = GLOBAL * 5

    def f(self, x):
        z = x * 2 + self.__w
        z = np.exp(z) * 0.1
        return super().f(z) - __class__.__name__.count("D")


def test_methods():
    check(Derived.f, (Derived(), A), (Derived(), WRONG))


def host_calls(x, n):
    y = helper(x * 2 + 1, n)
    z = y * 2 + helper(x, 1)
    return z.sum(), str(n) + "s", f"{n:>3}", helper


def helper(x, n):
    return x if n == 0 else x * n


def decorate(f):
    @functools.wraps(f)
    def wrapped(*args, **kwargs):
        result = f(*args, **kwargs)
        return result * 2 + 1

    return wrapped


def assertions(x, k):
    if not k:
        raise AssertionError(f"no {k}")  # pytest rewrites `assert`
    if x.sum() > 1e4:
        raise ValueError("large")
    return x + k


def mixed(x, n):
    s = 0
    t = x * 0
    for i in range(n):
        s += i * 3 % 7
        s ^= i
        if s % 5 == 0:
            t = t + x * s
            t = t * 0.5
    return s, t


def scalars(x, k):
    r = x * k + 1
    m = r.sum()
    return m * 2 + k, r.mean(), x.shape, x.dtype == np.float32, x.ndim


def test_calls_and_scalars():
    check(host_calls, (A, 3), (A, 0))
    check(assertions, (A, 1), (A, 0), (A * 1e6, 1))
    check(mixed, (A, 50))
    check(scalars, (A, 2), (A, 2.5), (A, True), (A, np.float64(2)), (A, 2**70))


def shadowed(x, np):
    return np * x + 1


def subclass(x):
    return np.exp(x) * 2, x.sum()


class Labelled(np.ndarray):
    pass


class Lookalike:
    """Has methods and attributes with the names of an array's."""

    shape = "shape"
    T = "T"

    def sum(self, axis=None):
        return f"sum {axis}"

    def reshape(self, *sizes):
        return f"reshape {sizes}"

    def copy(self):
        return "copy"


def duck(x):
    return x.sum(axis=1), x.reshape(4, 3), x.T, x.copy(), x.shape


def test_values_that_are_no_tensors():
    check(shadowed, (A, B), (A, 2))
    check(subclass, (A.view(Labelled),), (A.astype(object),), ([1.0, 2.0],))
    check(duck, (Lookalike(),), (A,), ([1],))


def uses_global(x):
    return np.maximum(x * GLOBAL, 0) + 1


def test_globals_are_read_at_call_time(monkeypatch):
    call = interpreted(uses_global)
    assert close(outcome(uses_global, (A,)), outcome(call, (A,)))
    monkeypatch.setitem(globals(), "GLOBAL", GLOBAL * 7)
    assert close(outcome(uses_global, (A,)), outcome(call, (A,)))
    monkeypatch.setattr(np, "maximum", lambda a, b: a * 0 - 5)
    assert close(outcome(uses_global, (A,)), outcome(call, (A,)))


@pytest.mark.parametrize("function", [lambda x: np.exp(x) * 2, lambda x: x * 2 + np.tanh(x)], ids=["exp", "tanh"])
def test_lambdas(function):
    check(function, (A,), (B,), ("a",))


def catches_its_own_name_errors(x, k):
    try:
        if k:
            q = x * 2
        return q + 1
    except UnboundLocalError as e:
        return str(e)
    except Exception as e:
        return type(e).__name__


def try_with_names_in_order(x, log):
    try:
        a = x * 2
        for i in range(2):
            b = a + i
            log.append(b)
    except Exception as e:
        log.append(str(e))
    return log


class Private:
    def work(self, x):
        __secret = x * 2
        rest = [v + 1 for v in __secret]
        return __secret + 1, rest


def test_caught_name_errors_and_private_locals():
    check(catches_its_own_name_errors, (A, 0), (A, 1), ("s", 1))
    check(try_with_names_in_order, (A, []), ("s", []))
    check(Private.work, (Private(), A))
    assert [i.opcode for i in program_of(try_with_names_in_order).instructions] != ["CALL_HOST", "RETURN"]
