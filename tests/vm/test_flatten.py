"""Flattening: nested objects run as one straight-line program, under guards, with Python's results."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bcvm_core as bcvm
from bcvm_core.isa.verifier import verify
from tests.vm.flatten_support import Body, Flat, Part, Parts

X = np.arange(-6.0, 6.0).reshape(3, 4)


def twice(x: Any, factor: float = 2.0) -> Any:
    return x * factor


class Scale(Part):
    def __init__(self, by: Any) -> None:
        self.by = by

    def forward(self, x: Any) -> Any:
        return x * self.by


class Net(Part):
    def __init__(self, count: int) -> None:
        self.layers = Parts(*(Scale(float(i + 1)) for i in range(count)))
        self.bias = np.ones(4)
        self.act = True

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        if self.act:
            x = np.maximum(x, 0.0)
        return x + self.bias


def test_nested_parts_are_one_program() -> None:
    flat = Flat(Net(3))
    flat.run(X)
    flat.run(X[:, ::-1])
    (program,) = flat.site.programs
    assert program.ops == ("multiply", "multiply", "multiply", "maximum", "add")
    assert flat.stats.call_op == 10
    assert flat.stats.share() == 1.0
    assert "self.bias" in program.program.params


def test_the_program_passes_the_verifier() -> None:
    flat = Flat(Net(2))
    flat.run(X)
    verify(flat.site.programs[0].program)


def test_every_new_shape_takes_the_same_path() -> None:
    flat = Flat(Net(2))
    for rows in (0, 1, 2, 7, 100):
        flat.run(np.ones((rows, 4)))
    assert flat.paths == 1
    assert flat.stats.bound == 1


def shapes(self: Any, x: Any) -> Any:
    rows, columns = x.shape
    return x.reshape(rows, columns // 2, 2).transpose(0, 2, 1).reshape(-1, rows) * (columns - 1), (rows, *x.shape[1:])


def branch_on_rank(self: Any, x: Any) -> Any:
    if x.ndim == 1:
        x = x[None, :]
    return x + 1


def branch_on_value(self: Any, x: Any) -> Any:
    if x.sum() > 0:
        return x * 2.0
    if x.shape[0] > 5:
        return x - 1.0
    return -x


def containers(self: Any, x: Any) -> Any:
    kept: list[Any] = []
    table = {"a": x, "b": x + 1}
    for i, (name, value) in enumerate(table.items()):
        kept.append(value * i)
        table[name] = value - i
    kept += [x]
    first, *rest = kept
    table.update({"n": len(kept), "last": kept[-1]})
    return table, (first, rest), kept.pop(), [k for k in kept if k is not None], table["a"]


def local_functions(self: Any, x: Any) -> Any:
    shift = 3.0

    def move(y: Any, by: Any = x) -> Any:
        return y + shift * by

    return move((lambda y, z=3.0: y * z)(x, 2.0)), list(reversed([x, move(x, by=1.0)])), (lambda y, z=4.0: y * z)(x)


def python_values(self: Any, x: Any) -> Any:
    scale = 1.0 / math.sqrt(x.shape[-1])
    text = f"{self.name}-{3}"
    flag = "ab" in text and not self.off or None
    size = max(x.shape) + min(1, 2)
    return x * scale, text, flag, size, isinstance(x, np.ndarray), getattr(self, "missing", 7), hasattr(self, "name")


def loops(self: Any, x: Any) -> Any:
    total = x
    for i in range(10):
        if i == 1:
            continue
        if i > 4:
            break
        total = total + i
    else:
        total = total * 1000
    n = 0
    while n < 3:
        n += 1
    for row in x:
        total = total + row
    return total * n


def keyword_arguments(self: Any, x: Any, *more: Any, scale: float = 2.0, **rest: Any) -> Any:
    return twice(x, factor=scale) + sum_all(*more) + rest.get("bias", 0.0)


def sum_all(*values: Any) -> Any:
    result = 0.0
    for value in values:
        result = result + value
    return result


def chains(self: Any, x: Any) -> Any:
    return x if 0 < x.shape[0] <= 3 else x * 2


PLAIN = [shapes, branch_on_rank, branch_on_value, containers, local_functions, python_values, loops, chains]


@pytest.mark.parametrize("function", PLAIN, ids=lambda f: f.__name__)
@pytest.mark.parametrize("shape", [(3, 4), (1, 4), (6, 2)])
def test_python_constructs(function: Any, shape: tuple[int, ...]) -> None:
    flat = Flat(Body(function, name="n", off=False))
    values = np.linspace(-2.0, 1.0, math.prod(shape)).reshape(shape)
    for x in (values, -values, values[::-1], np.asfortranarray(values)):
        flat.run(x)
    assert flat.stats.call_host == 0


def test_arguments_in_every_form() -> None:
    flat = Flat(Body(keyword_arguments))
    flat.run(X)
    flat.run(X, X, 1.0)
    flat.run(X, scale=3.0)
    flat.run(X, X, scale=4.0, bias=X)
    flat.run(X, X, scale=5.0, bias=X)  # a number among the operands is no constant of the program
    assert flat.paths == 4


def test_paths_are_found_by_their_checks() -> None:
    flat = Flat(Body(branch_on_value))
    for x in (X, np.ones((2, 2)), -np.ones((9, 2)), X, np.ones((2, 2))):
        flat.run(x)
    assert flat.paths == 3
    assert flat.stats.bound == 3


def test_more_paths_than_are_kept() -> None:
    flat = Flat(Body(lambda self, x: x * 2 if x.shape[0] == 3 else x + len(str(x.shape[0]))))
    for n in range(1, 21):
        flat.run(np.ones((n, 2)))
    assert flat.paths <= 8


# -- guards -------------------------------------------------------------------------------------------


def test_changed_attributes_are_seen() -> None:
    net = Net(2)
    flat = Flat(net)
    flat.run(X)
    net.act = False
    flat.run(X)
    net.bias = np.zeros(4)
    flat.run(X)
    net.layers[0].by = -1.0
    flat.run(X)
    net.layers.parts["2"] = Scale(9.0)
    flat.run(X)
    del net.layers.parts["0"]
    flat.run(X)
    net.unread = 3
    bound = flat.stats.bound
    flat.run(X)
    assert flat.stats.bound == bound, "an attribute that nobody reads is no reason to record again"


def test_contents_of_captured_arrays_are_read_at_every_run() -> None:
    net = Net(1)
    flat = Flat(net)
    flat.run(X)
    net.bias += 1.0
    flat.run(X)
    assert flat.stats.bound == 1


def test_changed_functions_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    flat = Flat(Body(keyword_arguments))
    flat.run(X)
    monkeypatch.setitem(globals(), "twice", lambda x, factor: x + factor)
    flat.run(X)
    monkeypatch.setattr(sum_all, "__code__", (lambda *values: 5.0).__code__)
    flat.run(X)
    monkeypatch.setattr(Body, "forward", lambda self, x: x - 1)
    flat.run(X)
    monkeypatch.setattr(Scale, "__call__", lambda self, x: x)
    flat.run(X)


def test_changed_defaults_and_closures_are_seen() -> None:
    shift = 1.0

    def add(self: Any, x: Any, by: float = 2.0) -> Any:
        return x + by + shift

    flat = Flat(Body(add))
    flat.run(X)
    add.__defaults__ = (5.0,)
    flat.run(X)
    shift = 7.0
    flat.run(X)


def test_changed_lists_and_dicts_are_seen() -> None:
    part = Body(lambda self, x: x.sum(axis=tuple(self.axes)) * self.table["k"], axes=[0], table={"k": 2.0})
    flat = Flat(part)
    flat.run(X)
    part.axes.append(1)
    flat.run(X)
    part.table["k"] = 3.0
    flat.run(X)


def test_what_changes_all_the_time_is_given_up() -> None:
    part = Body(lambda self, x: x + self.step, step=0)
    flat = Flat(part)
    for step in range(100):
        part.step = step
        found = flat.site(part, (X,), {})
        assert found is not None
    assert flat.stats.bound < 40
    assert "change" in flat.site.paths[(np.ndarray,)].reason


# -- what stays with Python ---------------------------------------------------------------------------


class Stateful(Part):
    def __init__(self) -> None:
        self.calls = 0

    def forward(self, x: Any) -> Any:
        self.calls += 1
        return x * 2


class Printing(Part):
    def forward(self, x: Any) -> Any:
        y = x * 2
        print("once")
        return y


def writes(self: Any, x: Any) -> Any:
    x[0] = 1.0
    return x


def writes_in_place(self: Any, x: Any) -> Any:
    x += 1.0
    return x


def tries(self: Any, x: Any) -> Any:
    try:
        return x + 1
    finally:
        pass


def yields(self: Any, x: Any) -> Any:
    yield x


def raises(self: Any, x: Any) -> Any:
    if x.shape[0] == 3:
        raise ValueError("three rows")
    return x + 1


def random_numbers(self: Any, x: Any) -> Any:
    return x + np.random.rand(4)


@pytest.mark.parametrize("function", [writes, writes_in_place, tries, yields, raises, random_numbers], ids=lambda f: f.__name__)
def test_effects_stay_with_python(function: Any) -> None:
    x = X.copy()
    assert Flat(Body(function)).misses(x)
    assert np.array_equal(x, X), "a call that is left to Python has changed nothing"


def test_state_is_not_touched(capsys: pytest.CaptureFixture[str]) -> None:
    part = Stateful()
    assert Flat(part).misses(X)
    assert part.calls == 0
    assert Flat(Printing()).misses(X)
    assert capsys.readouterr().out == ""


def test_errors_of_ops_are_pythons() -> None:
    flat = Flat(Body(lambda self, x, y: x + y))
    flat.run(X, X)
    assert "ValueError" in flat.misses(X, np.ones(3))
    flat.run(X, X)
    assert flat.stats.replays == 1


def test_floating_point_events_are_pythons() -> None:
    flat = Flat(Body(lambda self, x: 1.0 / x))
    flat.run(X + 0.5)
    assert "floating-point" in flat.misses(np.zeros(3))
    flat.run(X + 0.5)


def test_properties_and_methods() -> None:
    class Odd(Part):
        def __init__(self) -> None:
            self.w = 3.0

        @property
        def double(self) -> float:
            return self.w * 2

        @staticmethod
        def plus(x: Any) -> Any:
            return x + 1

        @classmethod
        def minus(cls, x: Any) -> Any:
            return x - 1

        def forward(self, x: Any) -> Any:
            return self.plus(x) * self.double, self.minus(x), partial(twice, factor=self.w)(x)

    part = Odd()
    flat = Flat(part)
    flat.run(X)
    part.w = 4.0
    flat.run(X)


def test_super() -> None:
    class Base(Part):
        def forward(self, x: Any) -> Any:
            return x + 1

    class Derived(Base):
        def forward(self, x: Any) -> Any:
            return super().forward(x) * super(Derived, self).forward(x)  # noqa: UP008 (the old form, too)

    Flat(Derived()).run(X)


def test_getattribute_of_the_users_own_is_not_run() -> None:
    class Odd(Part):
        def __getattribute__(self, name: str) -> Any:
            if name == "secret":
                raise AssertionError("read")
            return super().__getattribute__(name)

        def forward(self, x: Any) -> Any:
            return x + self.secret

    assert Flat(Odd()).misses(X)


def test_switched_off() -> None:
    flat = Flat(Net(1))
    flat.run(X)
    with bcvm.override(enabled=False):
        flat.misses(X)


def test_recursion() -> None:
    class Deep(Part):
        def forward(self, x: Any, n: int = 5) -> Any:
            return x if n == 0 else self.forward(x + n, n - 1)

    Flat(Deep()).run(X)

    class Endless(Part):
        def forward(self, x: Any) -> Any:
            return self.forward(x + 1)

    assert Flat(Endless()).misses(X)


# -- properties ---------------------------------------------------------------------------------------

# Sums go through `bcvm.ops` in both: NumPy's own add in another order (E1), and these tests compare bits.
_STEPS = {
    "relu": lambda self, x: np.maximum(x, 0.0),
    "scale": lambda self, x: x * self.by,
    "rows": lambda self, x: x - bcvm.ops.mean(x, axis=-1, keepdims=True),
    "flip": lambda self, x: x[..., ::-1],
    "flat": lambda self, x: x.reshape(-1, x.shape[-1]),
    "branch": lambda self, x: x + 1 if x.shape[0] > 2 else bcvm.ops.sum(x.T, axis=0, keepdims=True).T,
    "value": lambda self, x: -x if x.size and x.max() > 1 else x,
    "pair": lambda self, x: sum([x, x * 2.0][1:], 0.5),
}
_special = st.sampled_from([0.0, -0.0, 1.0, -1.5, 3.25, float("inf"), float("nan"), 5e-324, 1e300])


@settings(max_examples=60, deadline=None)
@given(
    names=st.lists(st.sampled_from(sorted(_STEPS)), min_size=1, max_size=6),
    sizes=st.lists(st.tuples(st.integers(0, 4), st.integers(1, 4)), min_size=1, max_size=4),
    values=st.lists(_special, min_size=1, max_size=16),
    by=st.sampled_from([2.0, -1, np.float32(0.5)]),
)
def test_flat_equals_python(names: list[str], sizes: list[tuple[int, int]], values: list[float], by: Any) -> None:
    net = Body(lambda self, x: run_all(self.layers, x), layers=Parts(*(Body(_STEPS[n], by=by) for n in names)))
    flat = Flat(net)
    for shape in sizes:
        x = np.resize(np.array(values), shape)
        with np.errstate(all="ignore"):
            found = flat.site(net, (x,), {})
            if found is not None and not repr(found).startswith("<left"):
                expected = net(x)
                assert np.array_equal(found, expected, equal_nan=True)
                assert np.array_equal(np.signbit(found), np.signbit(expected))
                assert found.dtype == expected.dtype


def run_all(layers: Any, x: Any) -> Any:
    for layer in layers:
        x = layer(x)
    return x
