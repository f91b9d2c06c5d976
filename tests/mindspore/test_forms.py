"""MindSpore programs in both forms: the reference interpreter and the linked form give the same bits (and plain MindSpore agrees)."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any

import mindspore as ms
import numpy as np
import pytest
from door_support import MODULES, array, tensor

import bcvm_core as bcvm
from bcvm_core.vm import interpreter

pytestmark = pytest.mark.mindspore

PROGRAMS = {
    "branches": """
def f(x, y):
    if x.sum() > 3:
        z = ops.relu(x) + y
    else:
        z = x.sigmoid() * 2
    return z, z.mean(1, True)
""",
    "rebinding": """
def f(x, y):
    before = x
    x += y
    x *= 2
    return before, x, before is x
""",
    "items": """
def f(x, y):
    x[0] = y[1]
    x[:, 1] += 10
    row = x[1]
    row[0] = -1
    return x, row, x[::-1], x[..., None].shape
""",
    "loop": """
def f(x, y):
    total = x * 0
    for k in range(4):
        if k == 2:
            continue
        total = total + mint.exp(x / (k + 1)) * y
    while total.max() > 5:
        total = total / 2
    return total
""",
    "types": """
def f(x, y):
    h = x.astype(ms.float16)
    i = (x * 10).to(ms.int32)
    return h + 1, i / 2, i + 0.5, h * y, i // 3, str((h + i).dtype)
""",
    "shapes": """
def f(x, y):
    z = mint.cat((x, y), dim=0).reshape(2, -1).T
    a, b = z.shape
    return z, z.swapaxes(0, 1), ops.stack((x, y), axis=1).sum(dim=1), a * b, ops.split(x, 1, axis=0)
""",
    "network": """
def f(x, y):
    h = ops.layer_norm(x @ y.T, (2,), ms.ops.ones((2,)), ms.ops.zeros((2,)))
    return ops.softmax(h), mint.nn.functional.gelu(h), h.std(axis=1)
""",
    "nested": """
def f(x, y):
    try:
        r = x.reshape(7)
    except ValueError:
        r = [k * y for k in (1, 2)]
    return r, (lambda t: t.tanh() + 1)(x)
""",
    "scalars": """
def f(x, y):
    s = float(x.sum()) + x[0, 0].item()
    return x + s, len(x), x.ndim, int(x.max()), bool((x == x).all())
""",
    "in place": """
def f(x, y):
    z = x.T
    x.add_(y)
    x.mul_(2).sub_(1)
    return x, z
""",
}


def make(name: str) -> Callable[..., Any]:
    source = PROGRAMS[name].lstrip("\n")
    filename = f"<mindspore form {name}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    scope: dict[str, Any] = {**MODULES, "__name__": "forms"}
    exec(compile(source, filename, "exec"), scope)
    return scope["f"]  # type: ignore[no-any-return]


def operands() -> tuple[Any, Any]:
    return tensor([[0.5, -1.25, 2.0], [3.0, 0.0, -0.75]]), tensor([[1.0, 2.0, -3.0], [0.25, 4.0, 0.5]])


def flat(value: Any) -> list[Any]:
    if isinstance(value, list | tuple):
        return [part for item in value for part in flat(item)]
    return [array(value)]


def assert_same(one: Any, other: Any, *, bits: bool) -> None:
    a, b = flat(one), flat(other)
    assert len(a) == len(b)
    for left, right in zip(a, b, strict=True):
        assert type(left) is type(right)
        if not isinstance(left, np.ndarray):
            assert left == right or bits is False and np.isclose(left, right)
            continue
        assert left.dtype == right.dtype and left.shape == right.shape
        if bits:
            np.testing.assert_array_equal(left, right)
        else:
            np.testing.assert_allclose(left, right, rtol=1e-5 if left.dtype != np.float16 else 2e-3, atol=1e-6)


@pytest.mark.parametrize("name", PROGRAMS)
def test_interpreter_and_linked_form_agree(name: str) -> None:
    function = make(name)
    program = bcvm.lower(function, *operands())
    x, y = operands()
    by_interpreter = interpreter.run(program, (x, y), globals=function.__globals__, trusted=True)
    jitted = bcvm.jit(make(name))
    for _ in range(2):
        u, v = operands()
        linked = jitted(u, v)
        assert_same(by_interpreter, linked, bits=True)
        assert_same((x, y), (u, v), bits=True)
    assert jitted.stats().share() >= 0.95, jitted.stats().reasons
    if name not in ("network", "in place"):  # MindSpore has no kernel, or is wrong there
        a, b = operands()
        assert_same(linked, function(a, b), bits=False)
        assert_same((u, v), (a, b), bits=False)


def test_arrays_and_tensors_take_turns() -> None:
    f = bcvm.jit(make("rebinding"))
    x, y = operands()
    before, after, same = f(x, y)
    assert isinstance(after, ms.Tensor) and not same and before is x
    u, v = array(x), array(y)
    before, after, same = f(u, v)
    assert after is u and same
    before, after, same = f(*operands())
    assert isinstance(after, ms.Tensor) and not same


def test_a_failing_region_changes_nothing() -> None:
    source = "def f(x, y):\n    x[0] = 7\n    return x + y\n"
    linecache.cache["<fails>"] = (len(source), None, source.splitlines(keepends=True), "<fails>")
    scope: dict[str, Any] = {}
    exec(compile(source, "<fails>", "exec"), scope)
    x, bad = tensor([[1.0, 2.0], [3.0, 4.0]]), tensor([1.0, 2.0, 3.0])
    errors = []
    for function in (scope["f"], bcvm.jit(scope["f"])):
        with pytest.raises(Exception) as caught:
            function(x.copy(), bad)
        errors.append((type(caught.value), caught.tb.tb_next.tb_lineno))
    assert errors[0] == errors[1]


MIXED = ("n + x", "x == n", "np.exp(x)", "np.maximum(x, 0)", "np.float64(2.5) * x", "np.concatenate([x, x])", "np.transpose(x)")


@pytest.mark.parametrize("text", MIXED)
def test_mixed_calls_do_what_mindspore_does(text: str) -> None:
    """Arrays beside tensors, NumPy's functions of tensors: the type of the result is what plain Python gives."""
    source = f"def f(x, n):\n    return {text}\n"
    filename = f"<mixed {text}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    scope: dict[str, Any] = {**MODULES, "__name__": "forms"}
    exec(compile(source, filename, "exec"), scope)
    x, n = operands()[0], np.ones((2, 3), np.float32)
    plain, ours = scope["f"](x, n), bcvm.jit(scope["f"])(x, n)
    assert type(plain) is type(ours)
    assert_same(plain, ours, bits=True)


def test_dispatch_modes_see_every_op() -> None:
    seen: list[str] = []

    class Logger(ms.MsDispatchMode):
        def __ms_dispatch__(self, func: Any, args: Any, kwargs: Any = None) -> Any:
            seen.append(func.name)
            return func(*args)

    f = bcvm.jit(make("rebinding"))
    with Logger():
        f(*operands())
    assert seen


def test_gradients_flow_through_jitted_functions() -> None:
    source = "def f(x):\n    return (mint.exp(x) * x).sum()\n"
    linecache.cache["<gradient>"] = (len(source), None, source.splitlines(keepends=True), "<gradient>")
    scope: dict[str, Any] = {**MODULES, "__name__": "forms"}
    exec(compile(source, "<gradient>", "exec"), scope)
    f = bcvm.jit(scope["f"])
    x = tensor([0.5, -1.0])
    f(x)
    value, gradient = ms.value_and_grad(f)(x)
    np.testing.assert_allclose(array(gradient), np.exp(array(x)) * (array(x) + 1), rtol=1e-6)
    np.testing.assert_allclose(float(value), float(f(x)), rtol=1e-5)
