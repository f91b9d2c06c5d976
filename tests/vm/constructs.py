"""Functions with tensor work in every construct of Python, with arguments to call them by.

Tests run each plainly and through the VM. Only ops whose bits are NumPy's are used, so results must
agree to the last bit.
"""

# Unbound names, late-bound loop variables and unused values are what some of these are about.
# ruff: noqa: B023, F821, F841, RET504, UP031

from __future__ import annotations

import asyncio
import contextlib
import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

X = np.linspace(-2, 3, 12, dtype="f4").reshape(3, 4)
Y = X[::-1].copy()
G = np.ones((3, 4), "f4")
BAD = np.ones((5, 5), "f4")


def straight(x, y):
    a = np.sqrt(np.abs(x))
    b = a * 2 + y
    return np.maximum(b, 0) - a


def branches(x, k):
    if k > 1:
        z = x * 2 + 1
    elif k == 1:
        z = np.abs(x)
        z = z * z
    else:
        z = x
    return z - x


def loops(x, n):
    out = []
    for i in range(n):
        if i == 1:
            continue
        x = x * 0.5 + i
        s = x.max()
        if s > 1e3:
            break
        out.append(s)
    else:
        out.append("else")
    while n > 0:
        n -= 1
        x = np.abs(x) - 0.1
        if n == 2:
            break
    else:
        x = x * 10
    return out, x


def early_return(x, k):
    for i in range(5):
        t = x * i + 1
        if i == k:
            return t * 2
    return np.abs(x) - t


def try_finally(x, y, log):
    try:
        a = x * 2
        b = a + y
        c = b - 1
    except ValueError as e:
        log.append(str(e))
        return a, e.__class__.__name__
    else:
        log.append("else")
        c = c * 2 + 1
    finally:
        log.append("finally")
        q = x * 3 - 1
        log.append(q)
    return b, c


def with_statements(x, y):
    with contextlib.suppress(ValueError):
        a = x + 1
        b = a + y
        x = b * 2 - 1
    with np.errstate(all="ignore"):
        z = np.sqrt(x) + 1
    return a, x, z


def generator(x, n):
    for i in range(n):
        x = x * 2 - 1
        got = yield x + i
        if got is not None:
            x = x * got + 1
    return np.abs(x) * 0


def drive_generator(function):
    def driven(*args):
        it = function(*args)
        out = [next(it)]
        try:
            while True:
                out.append(it.send(0.5))
        except StopIteration as stop:
            return out, stop.value

    return driven


def comprehensions(x, n):
    squares = {i: np.abs(x) * i for i in range(2)}
    return [x * i + 1 for i in range(n)], squares, max(v.max() for v in (x * j - 1 for j in range(n)))


def nonlocals(x, n):
    acc = x * 0
    tot = x + 0

    def add(v):
        nonlocal acc
        acc = acc + v * 2
        w = acc * tot
        return w.max() * 1

    r = [add(x * i - 1) for i in range(n)]
    tot = tot * 2 + acc
    return acc, r, add(x)


def lambdas(x, k):
    f = lambda v: np.abs(v) * k  # noqa: E731
    return f(x), (lambda y: (lambda z: z + y * 2)(x))(x)


def make_closure(w):
    def inner(x):
        h = x * w + 1
        return np.maximum(h, 0) * w

    return inner


closure = make_closure(G * 2)


def recursion(x, n):
    y = x * 2 - 1
    return y if n == 0 else recursion(np.abs(y) + n, n - 1)


def parameters(x, /, y=2, *args, k=G, **kws):
    z = x * y + k
    z = z - len(args)
    return z * sum(kws.values(), 1)


async def coroutine(x):
    y = x * 2 + 1
    await asyncio.sleep(0)
    z = np.abs(y) - 1
    return z * y


async def async_generator(x):
    for i in range(2):
        x = x * 2 + i
        yield x
        await asyncio.sleep(0)


def drive_coroutine(function):
    return lambda *args: asyncio.run(function(*args))


def drive_async_generator(function):
    async def collect(*args):
        return [value async for value in function(*args)]

    return lambda *args: asyncio.run(collect(*args))


def error_in_the_middle(x, y):
    a = np.abs(x) * 2
    b = a + 1
    # fmt: off
    c = (b * 2 - a) + (y *
        3)
    # fmt: on
    d = c * 2
    return d - a


def unbound_local(x, k):
    a = x * 2 + 1
    if k:
        q = x - 1
    b = a * q + 1
    return b


def undefined_global(x):
    a = x * 2
    b = a + UNDEFINED_NAME
    return b


def uses_locals(x):
    a = x * 2
    b = a + 1
    c = np.abs(b)
    return sorted(locals()), locals()["a"]


def uses_eval(x):
    a = x * 2
    b = a + 1
    return eval("a - b")


def deletes(x):
    a = x * 2
    b = a + 1
    del a
    return b * 2


def rebinds_global(x):
    global GLOBAL_VALUE
    GLOBAL_VALUE = x * 2
    GLOBAL_VALUE = GLOBAL_VALUE + 1
    t = GLOBAL_VALUE * 2
    return t, GLOBAL_VALUE


def in_place(x, y):
    v = x
    w = x[1:]
    x += y * 2 + 1
    z = x * 2 - v
    w *= 2
    t = z + x
    x[0] = t[0] * 2 + 1
    x[:, 1] -= np.abs(y)[:, 1] + 1
    u = x - v
    return z, t, u, v, w


def in_place_after_rebinding(x, y):
    x = x * 2 + 1
    x -= y
    x = x * x + 1
    return x


def overlapping(x):
    x[1:] += x[:-1]
    x[:-1] -= x[1:] * 2
    x[::-1] *= x
    return x


def shadowed_module(x, np):
    return np * x + 1


def mixed_loop(x, n):
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
    m = r.max()
    return m * 2 + k, r.min()


def walrus(x):
    return (y := x * 2 + 1) - y * 3, y


def chained_targets(x):
    a = b = x * 2 + 1
    a -= 1
    return a, b


def match_statement(x, k):
    match k:
        case {"w": w}:
            return x * w + 1
        case [a, *r]:
            return x * a - len(r)
        case _:
            return np.abs(x) * 2


def exception_context(x, y):
    try:
        raise KeyError("k")
    except KeyError:
        z = x * 2
        z = z + y
        return z


def class_in_function(x):
    class Inner:
        w = x * 2 + 1

        def method(self, y):
            return y * 2 + x

    return Inner.w, Inner().method(x)


def half_overflow(x):
    a = x * 60000
    return a * 2


def host_operands(x, y):
    def g(v):
        return v + 1

    z = np.maximum(g(x), 0) * 2 + g(y)
    z += g(x)
    z[1:] += g(x)[1:]
    return z, g(z)[0], np.concatenate([g(x), y]), -g(x)


def comparison_chain(x, k):
    if 0 < x.max() < 100 != k:
        return x * 2
    return x


class Holder:
    reads = 0

    def __init__(self):
        self.w = G * 2
        self.b = 1.5

    @property
    def counted(self):
        self.b += 1
        return self.b


def attributes(o, x):
    o.w += x
    return o.w * 2 + o.b, x.T.shape[0] + x.ndim, x.reshape(-1, 2), x.reshape((2, -1)), x.astype(np.int32)


def properties(o, x):
    return x * o.counted, o.counted


def f_strings(x):
    return f"{x.max()} {(x * 2).min():.2f}"


def containers(x):
    d = {}
    items = [x, x * 2]
    d["a"] = x * 3
    items[0] = items[1] + 1
    items += [x]
    items.append(x - 1)
    return d, items, items[1] * 2, d["a"] + 1, len(items) * 2


def starred(*xs, **k):
    return np.concatenate(xs), np.maximum(*xs[:2]), np.max(xs[0], **k)


def local_imports(x):
    import numpy as q
    from numpy import abs as magnitude

    return magnitude(q.sqrt(q.abs(x))) * 2


def text_and_lists(x, s):
    return s + "%d" % 3, [1, 2] * 2, s * 2, x * 1


@dataclass(frozen=True)
class Sample:
    """A construct and argument lists to call it with; `drive` turns its result into values."""

    function: Callable[..., Any]
    arguments: tuple[tuple[Any, ...], ...]
    drive: Callable[[Callable[..., Any]], Callable[..., Any]] = lambda function: function

    @property
    def name(self) -> str:
        return self.function.__name__


def _sample(function: Any, *arguments: tuple[Any, ...], **more: Any) -> Sample:
    return Sample(function, arguments, **more)


SAMPLES = [
    _sample(straight, (X, Y), (X.astype("f8"), Y), (X.T.copy(), Y.T.copy()), (X.T, Y.T), (X, BAD), (2, 3), (X[0], 1.5), (np.float32(3), Y)),
    _sample(branches, (X, 0), (X, 1), (X, 2), (3, 1)),
    _sample(loops, (X, 0), (X, 5), (X * 100, 5)),
    _sample(early_return, (X, 2), (X, 9)),
    _sample(try_finally, (X, Y, []), (X, BAD, []), (X, "s", [])),
    _sample(with_statements, (X, Y), (X, BAD)),
    _sample(generator, (X, 3), (X, 2), drive=drive_generator),
    _sample(comprehensions, (X, 3)),
    _sample(nonlocals, (X, 3)),
    _sample(lambdas, (X, 3), (Y, 0.5)),
    _sample(closure, (X,), (Y,), (BAD,)),
    _sample(recursion, (X, 3)),
    _sample(parameters, (X,), (X, 3, 4, 5), (X, Y)),
    _sample(coroutine, (X,), drive=drive_coroutine),
    _sample(async_generator, (X,), drive=drive_async_generator),
    _sample(error_in_the_middle, (X, Y), (X, BAD), (X, None)),
    _sample(unbound_local, (X, 0), (X, 1)),
    _sample(undefined_global, (X,)),
    _sample(uses_locals, (X,)),
    _sample(uses_eval, (X,)),
    _sample(deletes, (X,)),
    _sample(rebinds_global, (X,)),
    _sample(in_place, (X, Y), (X, BAD)),
    _sample(in_place_after_rebinding, (X, Y), (X, BAD)),
    _sample(overlapping, (np.arange(6.0),), (np.arange(6)[::-1],)),
    _sample(shadowed_module, (X, Y), (X, 2)),
    _sample(mixed_loop, (X, 50)),
    _sample(scalars, (X, 2), (X, 2.5), (X, True), (X, np.float64(2)), (X, 2**70)),
    _sample(walrus, (X,)),
    _sample(chained_targets, (X,)),
    _sample(match_statement, (X, {"w": 3}), (X, [1, 2]), (X, 1)),
    _sample(exception_context, (X, Y), (X, BAD)),
    _sample(class_in_function, (X,)),
    _sample(half_overflow, (X.astype("f2"),)),
    _sample(host_operands, (X, Y), (X, BAD)),
    _sample(comparison_chain, (X, 1), (X, 100), (X * 50, 1)),
    _sample(attributes, (Holder(), X)),
    _sample(properties, (Holder(), X)),
    _sample(f_strings, (X,)),
    _sample(containers, (X,)),
    _sample(starred, (X, Y)),
    _sample(local_imports, (X,)),
    _sample(text_and_lists, (X, "s"), (X, 1)),
]


def canonical(value: Any) -> Any:
    """A value as plain data, to the last bit; types that are not compared by value by their name."""
    if isinstance(value, np.ndarray):
        return ("array", value.dtype.str, value.shape, value.tobytes())
    if isinstance(value, np.generic):
        return (type(value).__name__, value.tobytes())
    if isinstance(value, tuple | list):
        return [type(value).__name__, *map(canonical, value)]
    if isinstance(value, dict):
        return {k: canonical(v) for k, v in value.items()}
    return value if isinstance(value, int | float | str | bool | type(None)) else type(value).__name__


def copied(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arguments of their own, with the strides they had (`deepcopy` keeps them)."""
    return copy.deepcopy(arguments)
