"""Functions without source text: read back from their bytecode, or left alone."""

from __future__ import annotations

import ast
import linecache
import re
import textwrap
import traceback
import types
from typing import Any

import numpy as np
import pytest

from bcvm_core.errors import LoweringError
from bcvm_core.frontend import source
from bcvm_core.frontend.recompile import compile_like, identical_code
from bcvm_core.frontend.recover import recover
from bcvm_core.jit import jit

X = np.arange(6.0).reshape(2, 3) - 2


def define(text: str, **names: Any) -> types.FunctionType:
    """The function `f` of a text that no one keeps."""
    namespace: dict[str, Any] = {"np": np, **names}
    exec(compile(text, "<cell>", "exec"), namespace)
    return namespace["f"]


def body(text: str, parameters: str = "x, n") -> str:
    return f"def f({parameters}):\n" + textwrap.indent(text, "    ")


def sections(text: str) -> dict[str, str]:
    """The parts of a text, by the comments above them."""
    parts = re.split(r"^# (\w+)\n", text, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


READ = sections(r"""
# straight
def f(x, n):
    y = x * 2 + 1
    z = np.exp(-y) / (n + 1)
    return y @ z.T, -x, ~n, not n, +x

# constants
def f(x, n):
    return -1, -0.0, 1e400, 2j, b'a', None, True, ..., (1, (2, -3)), [1, 2, 3], {1, 2, 3}

# docstring
def f(x, n):
    "what it does"
    return x + 1

# only_pass
def f(x, n):
    pass

# implicit_return
def f(x, n):
    x += 1
    x[0] = n

# parameters
def f(a, /, x, *args, k=1, **kws):
    return a * x + k + len(args) + len(kws)

# calls
def f(x, n):
    return max(n, 2), np.clip(x, a_min=0, a_max=n), dict(a=1), max(*[1, 2], n), dict(**{'a': n}, b=n), print(n, *[n], sep='')

# methods
def f(x, n):
    return x.sum().item(), x.reshape(
        3,
        -1,
    ).T.sum(axis=0)\
        .mean(), n.bit_length()

# comparisons
def f(x, n):
    return n < 2, n in (1, 2), n not in {1, 2}, n is None, n is not None, 0 < n <= 3 != 7

# subscripts
def f(x, n):
    return x[0], x[1:], x[:, 1], x[::2, None], x[..., -1], x[0:n], x[n:], x[:n:1]

# stores
def f(x, n):
    x[0] = 1
    x[1:] = 2
    x[:, 0] += 3
    x[n - n:1] *= 2
    f.here = n
    f.here += 1
    del f.here
    return x

# unpacking
def f(x, n):
    a, b = n, x
    (c, *d), e = [1, 2, 3], n
    b, a = a, b
    p = q = n
    u, v, w = 1, a, n
    return a, b, c, d, e, p, q, u, v, w

# augmented
def f(x, n):
    n += 1
    n -= 2
    n *= 3
    x = x / 2
    x **= 2
    x @= x.T
    n //= 2
    n <<= 1
    return x, n

# walrus
def f(x, n):
    if (y := n + 1) > 2 and (z := y):
        return y, z
    return max((w := n), 2) + w

# bool_ops
def f(x, n):
    a = n and 1 or 2
    b = (n or 1) and 2
    c = not (n and 1)
    return a, b, c, n or x.ndim or 5, n and 1 and 6, (n or 2) + (n and 3)

# ternaries
def f(x, n):
    a = 1 if n else 2
    b = (1 if n else 2) if n > 1 else (3 if n else 4)
    return x * (a if b else n) if n else b

# f_strings
def f(x, n):
    return f'{n}', f'a{n!r:>{n}}b', f'{n:02d}', 'n=%s' % (n,)

# displays
def f(x, n):
    return [n, *x], (n, *x[0]), {n, 1}, {**{'a': n}, 'b': 1}, {'a': n, 'b': x}, {n: x}

# if_else
def f(x, n):
    if n > 2:
        x = x + 1
    elif n and x.any():
        x = x * 2
    elif not n:
        pass
    else:
        x = -x
    return x

# if_or
def f(x, n):
    if n > 2 or n is None or not (n and x.any()):
        x = x + 1
        if n:
            x = x * 2
        else:
            return n
    x = x * 3
    return x

# early_returns
def f(x, n):
    if n:
        return x
    if n is None:
        return
    if x.any():
        return x * 2
    else:
        x = -x

# return_none
def f(x, n):
    if n is None:
        return None
    for i in x:
        if i.any():
            return x
    while 1:
        if not n:
            break
        n -= 1
    assert not n
    if n == 1:
        return x
    return None

# for
def f(x, n):
    for i in range(n):
        if i == 1:
            continue
        if i > 3:
            break
        x = x * i
    return x

# for_else
def f(x, n):
    for i, (a, b) in enumerate([(1, 2)] * n):
        x = x + a * b
        if i == 2:
            break
    else:
        x = x * 2
    return x, n

# for_returns
def f(x, n):
    for i in range(n):
        for j in x:
            if i == 1:
                return j
            if i > 1:
                return 1
        x = x + 1

# for_ends
def f(x, n):
    out = []
    for i in range(n):
        if i % 2:
            out.append(i)
        else:
            x += i
    return out, x

# while
def f(x, n):
    while n > 0:
        n -= 1
        x = x + n
        if n == 7:
            break
        if n == 2:
            continue
        x = x * 2
    return x

# while_and
def f(x, n):
    while n and (n < 9 or x.any()):
        n -= 1
        x = x + n
    else:
        x = x * 2
    return x

# while_true
def f(x, n):
    while True:
        x = x * 2
        n -= 1
        if n < 0:
            break
    x = x + 1
    return x

# nested_loops
def f(x, n):
    k = n
    while k:
        for i in range(k):
            while n > i:
                n -= 1
            x = x + n
        k -= 1
    return x

# endless_return
def f(x, n):
    while True:
        n -= 1
        if n < 0:
            break
        x = x * 2
    return x

# endless_breaks
def f(x, n):
    while 1:
        n -= 1
        if n < 0:
            break
        if x.any():
            break
    return n

# copied_ends
def f(x, n):
    if n:
        y = 1
    elif n is None:
        y = 2
    else:
        y = 3
    return x * y

# empty_bodies
def f(x, n):
    for i in range(n): pass
    for i in x:
        pass
    while n > 9:
        pass
    if n:
        pass
    else:
        x = x + 1
    if n: pass

# choice_in_call
def f(x, n):
    return x * (n if n > 2 else 1) if n and x.any() else max(n or 1, n and 2)

# raise
def f(x, n):
    if n > 5:
        raise ValueError(f'{n} is too much') from None
    assert n < 5
    assert n < 4, 'large'
    return x

# chain_in_if
def f(x, n):
    if 0 < n < 3:
        return x * 2
    return x

# globals
def f(x, n):
    global count
    count = n
    return x + count

# comprehensions
def f(x, n):
    return [i * 2 for i in range(n) if i], {i for i in x[0]}, {i: j for i in range(n) for j in range(i)}, [[a for a in b] for b in x]

# kept_comprehension
def f(x, n):
    y = [v * 2 for v in x]
    return sum(v.sum() for v in y if n)

# lambda_inside
def f(x, n):
    g = lambda a, k=n: a * k
    return g(x), sorted([3, n], key=lambda v: -v)

# function_inside
def f(x, n):
    def g(a, b=2):
        return a * x + b
    return g(n)

# closure_inside
def f(x, n):
    total = 0
    def add(v):
        nonlocal total
        total += v
        return total
    add(n)
    return x + add(1)

# decorated
def keep(f): return f
@keep
def f(x, n):
    return x * n

# one_line
def f(x, n): y = x * 2; return y if n else -y

# lambda
f = lambda x, n=1: x * 2 if n else x + 1

# imported
import numpy as np
def f(x, n): return np.exp(x) + n

# method
class A:
    def f(self, x, n=1): return self.__w * x
    __w = 3
f = A.f

# super_call
class A:
    def f(self, x, n=1):
        __class__
        return super().__eq__(x), super(A, self).__doc__
f = A.f

# nested
def outer(w):
    def f(x, n):
        return x * w
    return f
f = outer(3)
""")


@pytest.mark.parametrize("text", READ.values(), ids=READ.keys())
def test_reads_back_what_was_compiled(text: str) -> None:
    function = define(text)
    found = recover(function)
    assert found.text == ""
    for _ in range(2):  # `fresh_tree` gives a fresh tree each time
        again = compile_like(found.fresh_tree(), found, function.__code__)
        assert identical_code(again, function.__code__)
    assert all(hasattr(n, "lineno") for n in ast.walk(found.node) if isinstance(n, ast.expr | ast.stmt))
    ast.parse(ast.unparse(found.node))


@pytest.mark.parametrize("text", [READ[n] for n in ("straight", "if_else", "for_ends", "while_true", "nested", "decorated", "one_line")])
@pytest.mark.parametrize("n", [0, 1, 3])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_runs_in_the_vm(text: str, n: int) -> None:
    plain, linked = define(text), jit(define(text), strict=True)
    expected, actual = plain(X.copy(), n), linked(X.copy(), n)
    assert repr(actual) == repr(expected)
    if n == 3:
        assert linked.stats().call_op > 0
        assert linked.stats().call_host == 0
    assert "CALL_OP" in linked.dis() or "MUL_CONST" in linked.dis()
    assert linked.program().params == ("x", "n")


def test_host_code_is_listed_as_text() -> None:
    linked = jit(define(body("seen = [v for v in range(n)]\nx = x * len(seen)\nreturn x")))
    assert "[v for v in range(n)]" in linked.dis()


REFUSED = {
    "try": body("try:\n    return x * 2\nexcept ValueError:\n    return n"),
    "with": body("with np.errstate(all='ignore'):\n    return np.log(x)"),
    "match": body("match n:\n    case 1:\n        return x * 2\n    case {'a': k}:\n        return k"),
    "generator": body("yield x * 2"),
    "coroutine": "async def f(x, n):\n    return x * 2",
    "class": body("class A:\n    w = x * 2\nreturn A.w"),
    "dead_code": body("if 0:\n    unknown = other(x)\nreturn x * 2"),
}  # fmt: skip


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_read_stays_plain(text: str) -> None:
    function = define(text)
    assert jit(function) is function
    with pytest.raises(LoweringError, match="could not be read back"):
        jit(function, strict=True)


def test_changed_bytecode_is_refused() -> None:
    function = define("def f(x): return x + 1")
    code = function.__code__
    other = {
        "co_consts": (*code.co_consts, 99),
        "co_exceptiontable": b"\x81\x01\x02\x00",
        "co_linetable": b"\x80\x00" * 2 + code.co_linetable,
    }
    for name, value in other.items():
        function.__code__ = code.replace(**{name: value})
        with pytest.raises(LoweringError):
            recover(function)


def _labelled(text: str, label: str) -> types.FunctionType:
    linecache.cache[label] = (len(text), None, text.splitlines(keepends=True), label)
    namespace: dict[str, Any] = {"np": np}
    exec(compile(text, label, "exec"), namespace)
    return namespace["f"]


def test_a_kept_function_never_gets_a_later_text() -> None:
    label = "<shared label>"
    try:
        kept = [_labelled(f"def f(x):\n    return x * {k} + 1\n", label) for k in (2, 3, 4)]
        assert [ast.unparse(source.find(f).node.body[0]) for f in kept] == [f"return x * {k} + 1" for k in (2, 3, 4)]
        assert source.find(kept[0]).text == ""
        assert source.find(kept[2]).text != ""
        linked = [jit(f, strict=True) for f in kept]
        for k, function in zip((2, 3, 4), linked, strict=True):
            assert (function(X) == X * k + 1).all()
            assert "MUL_CONST" in function.dis() and f", {k}" in function.dis()
        refused = _labelled("def f(x):\n    with x: return x * 2\n", label)
        _labelled("def f(x):\n    with x: return x * 3\n", label)
        with pytest.raises(LoweringError):
            source.find(refused)
    finally:
        linecache.cache.pop(label, None)


def test_text_that_does_not_parse_is_no_source() -> None:
    label = "<broken label>"
    function = _labelled("def f(x): return x * 2", label)
    linecache.cache[label] = (7, None, ["def f(:"], label)
    assert (jit(function, strict=True)(X) == X * 2).all()
    linecache.cache.pop(label)


def test_tracebacks_are_those_of_the_original() -> None:
    text = body("y = x * 2\nz = y + np.ones(7)\nreturn z")

    def trace(function: Any) -> str:
        with pytest.raises(ValueError, match="broadcast") as caught:
            function(X, 1)
        return "".join(traceback.format_tb(caught.value.__traceback__)[1:])

    assert trace(jit(define(text), strict=True)) == trace(define(text))
