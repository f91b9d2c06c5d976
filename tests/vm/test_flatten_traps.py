"""Flattening where Python's rules are easily missed: scopes, identities, one-shot iterators, numbers that are equal but not the same."""

# ruff: noqa: B007, B023, B905, C408, C416, F811, PIE804, PLE1132, SIM222 (what they warn of is what is tried)
from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from bcvm_core.vm.flatten.site import MISS
from tests.vm.flatten_support import Body, Flat, agree, same

X = np.arange(-6.0, 6.0).reshape(3, 4)
shade = 100.0  # a global of the name of a local


# -- scopes -------------------------------------------------------------------------------------------


def unbound_local(self: Any, x: Any) -> Any:
    if x.shape[0] == 2:
        shade = 2.0
    return x * shade  # noqa: F821


def unbound_in_local_function(self: Any, x: Any) -> Any:
    def inner(y: Any) -> Any:
        if y.shape[0] == 2:
            shade = 2.0
        return y * shade

    return inner(x)


def walrus_survives(self: Any, x: Any) -> Any:
    y = x
    kept = [y := y + i for i in range(3)]
    return y, kept[-1]


def walrus_in_condition(self: Any, x: Any) -> Any:
    n = 0
    found = [i for i in range(4) if (n := i) < 3]
    return x * n, len(found)


def variables_of_comprehensions_do_not_leak(self: Any, x: Any) -> Any:
    i = 10.0
    total = sum([x * i for i in range(3)])
    return total * i


def global_after_comprehension(self: Any, x: Any) -> Any:
    total = [shade for shade in (1.0, 2.0)]
    return x * total[0] * shade


def functions_of_comprehensions_bind_late(self: Any, x: Any) -> Any:
    i = 50.0
    moves = [lambda y: y + i for i in range(3)]
    return [move(x) for move in moves], i


def loop_variables_survive(self: Any, x: Any) -> Any:
    for i in range(3):
        pass
    return x + i


def generator_that_returns(self: Any, x: Any) -> Any:
    def inner() -> Any:
        return x
        yield x

    return type(inner()).__name__


def local_function_called_wrongly(self: Any, x: Any) -> Any:
    return (lambda y, z=1.0: y * z)(x, y=x)


def same_keyword_twice(self: Any, x: Any) -> Any:
    return scaled(x, by=2.0, **{"by": 3.0})


def scaled(x: Any, by: float = 1.0) -> Any:
    return x * by


def deleted(self: Any, x: Any) -> Any:
    y = x + 1
    del y
    return y  # noqa: F821


SCOPES = [
    unbound_local, unbound_in_local_function, walrus_survives, walrus_in_condition, variables_of_comprehensions_do_not_leak,
    global_after_comprehension, functions_of_comprehensions_bind_late, loop_variables_survive, generator_that_returns,
    local_function_called_wrongly, same_keyword_twice, deleted,
]  # fmt: skip


# -- one-shot iterators, live views -------------------------------------------------------------------


def generator_as_result(self: Any, x: Any) -> Any:
    return type(x * i for i in range(2)).__name__


def generator_twice(self: Any, x: Any) -> Any:
    values = (x * i for i in range(3))
    return list(values), list(values)


def zip_twice(self: Any, x: Any) -> Any:
    pairs = zip([x, x + 1], [1.0, 2.0])
    return [a * b for a, b in pairs], [a for a, _ in pairs]


def iterators_as_results(self: Any, x: Any) -> Any:
    return [type(v).__name__ for v in (enumerate([x]), zip([x]), reversed([x]), {"a": x}.items(), {"a": x}.values(), {"a": 1}.keys())]


def view_is_live(self: Any, x: Any) -> Any:
    table = {"a": x}
    values = table.values()
    table["b"] = x + 1
    return list(values), len(values)


def list_that_grows(self: Any, x: Any) -> Any:
    kept = [x]
    for value in kept:
        if len(kept) < 4:
            kept.append(value + 1)
    return kept


def list_that_shrinks(self: Any, x: Any) -> Any:
    kept, seen = [x, x + 1, x + 2, x + 3], []
    for value in kept:
        seen.append(value)
        kept.pop()
    return seen


def list_changed_ahead(self: Any, x: Any) -> Any:
    kept, seen = [x, x + 1, x + 2], []
    for i, value in enumerate(kept):
        seen.append(value)
        if i == 0:
            kept[2] = x * 7
    return seen


def dict_that_grows(self: Any, x: Any) -> Any:
    table = {"a": x}
    for key in table:
        table[key + "b"] = x
    return table


def generator_is_lazy(self: Any, x: Any) -> Any:
    kept = [x]
    values = (v for v in kept)
    kept.append(x + 1)
    return list(values)


def generator_to_sum(self: Any, x: Any) -> Any:
    return sum(x * i for i in range(3)), max(i for i in x.shape), any(i > 2 for i in x.shape), tuple(i for i in x.shape)


def length_of_iterator(self: Any, x: Any) -> Any:
    return len(zip([x]))  # type: ignore[arg-type]


def index_of_iterator(self: Any, x: Any) -> Any:
    return enumerate([x])[0]  # type: ignore[index]


ITERATORS = [
    generator_as_result, generator_twice, zip_twice, iterators_as_results, view_is_live, list_that_grows, list_that_shrinks,
    list_changed_ahead, dict_that_grows, generator_is_lazy, generator_to_sum, length_of_iterator, index_of_iterator,
]  # fmt: skip


# -- identities ---------------------------------------------------------------------------------------


def one_list_twice(self: Any, x: Any) -> Any:
    kept = [x]
    return kept, (kept, [kept]), {"k": kept}


def one_dict_twice(self: Any, x: Any) -> Any:
    table = {"x": x + 1}
    return [table, table]


def one_result_twice(self: Any, x: Any) -> Any:
    y = x + 1
    return y, [y], {"y": y}


def attributes_themselves(self: Any, x: Any) -> Any:
    return self.items, self.table, self.pair, [self.items], self.items[0], x


def fresh_lists(self: Any, x: Any) -> Any:
    return [1, 2], [1, 2], list(self.items), dict(a=1), sorted([2, 1]), self.items[:1], self.items + [3], self.items * 2, "a b".split()


def fresh_dicts(self: Any, x: Any) -> Any:
    made = dict(a=1)
    other = made
    return made, other, dict(made), {**self.table}


def minimum_itself(self: Any, x: Any) -> Any:
    return self.table.get("k"), self.table.get("no", self.items)


IDENTITIES = [one_list_twice, one_dict_twice, one_result_twice, attributes_themselves, fresh_lists, fresh_dicts, minimum_itself]


# -- operators ----------------------------------------------------------------------------------------


def chain_gives_last(self: Any, x: Any) -> Any:
    return -100 < x.sum() < x, 100 < x.sum() < x


def and_or_give_operands(self: Any, x: Any) -> Any:
    return x.shape[0] and x, 0 or x, None or "a", x.shape[0] > 2 or x, () or [x]


def list_times_list(self: Any, x: Any) -> Any:
    kept = [x]
    kept *= 2
    return kept


def list_plus_tuple(self: Any, x: Any) -> Any:
    kept = [x]
    kept += (x,)
    other: Any = [x]
    return kept, other + (x,)


def division_by_traced_zero(self: Any, x: Any) -> Any:
    return x.shape[0] // x.shape[1], x.shape[0] % x.shape[1]


def powers_change_type(self: Any, x: Any, n: Any) -> Any:
    value = 2 ** (-1 if n == 2 else n if isinstance(n, (int, float)) and abs(n) < 99 else 3)
    return isinstance(value, int), type(value), value


def negative_steps(self: Any, x: Any) -> Any:
    n = x.shape[0]
    return x[::-1], x[n - 1 :: -1], x[:, -1:-3:-1], x[n:], x[-n - 5 : n + 5]


def in_on_shapes(self: Any, x: Any) -> Any:
    return 3 in x.shape, x.dtype == np.float64, x.dtype is np.dtype("float64"), x.ndim in (2, 3)


def formatted(self: Any, x: Any) -> Any:
    return f"{x.shape[0]}-{x.ndim!r}-{self.number:.3f}", f"{self.number}", f"{x.shape}"


def attributes_of_numbers(self: Any, x: Any) -> Any:
    return self.number.real, self.number.is_integer(), self.number.hex()


OPERATORS = [
    chain_gives_last, and_or_give_operands, list_times_list, list_plus_tuple, division_by_traced_zero, negative_steps, in_on_shapes,
    formatted, attributes_of_numbers,
]  # fmt: skip
SHAPES = ((3, 4), (2, 4), (3, 0), (0, 2), (4, 3))


@pytest.mark.parametrize("function", SCOPES + ITERATORS + IDENTITIES + OPERATORS, ids=lambda f: f.__name__)
def test_like_python(function: Any) -> None:
    items: list[Any] = [X, 2]
    part = Body(function, items=items, table={"k": items}, pair=(items, 1), number=0.5)
    agree(part, *((np.linspace(-2.0, 1.0, math.prod(s)).reshape(s),) for s in SHAPES))


# -- numbers that are equal but not the same ----------------------------------------------------------

TRAPS = [0, 1, True, False, 1.0, 0.0, -0.0, float("nan"), 2, 1 << 70, -(1 << 70), np.float64(1.0), np.float64(-0.0), np.int64(1), "1", None]


def shows(self: Any, x: Any, n: Any) -> Any:
    return str(n), repr([n]), {n: "k"}, [n] * 2


def asks_number(self: Any, x: Any, n: Any) -> Any:
    return x if n else -x, n == 1, n in (0, 2), n is True, n is None, isinstance(n, int)


def chooses(self: Any, x: Any, n: Any) -> Any:
    return {0: "zero", 1: "one", 2: "two"}.get(n, "more"), (n, 1)


def in_list(self: Any, x: Any, n: Any) -> Any:
    return str(n), 1 in n, len(n), str(n[0]), isinstance(n[0], bool), n


@pytest.mark.parametrize("function", [shows, asks_number, chooses, powers_change_type], ids=lambda f: f.__name__)
def test_equal_numbers_are_told_apart(function: Any) -> None:
    agree(Body(function), *((X, n) for n in TRAPS), *((X, n) for n in reversed(TRAPS)))


def test_equal_numbers_in_containers_are_told_apart() -> None:
    values: list[Any] = [[n] for n in TRAPS] + [[n, n] for n in TRAPS] + [(n,) for n in TRAPS]
    agree(Body(in_list), *((X, n) for n in values))


def test_structures_of_operands() -> None:
    def use(self: Any, x: Any, more: Any) -> Any:
        if isinstance(more, dict):
            return more.get("a"), len(more), "b" in more, list(more), more
        if more and more[0] is None:
            return x, more
        return x + (more[-1] if more else 0), more, more[:1], len(more)

    values: list[Any] = [[X], [None], [None, X], [], [1.0], [X, 1], (X,), (), {"a": X}, {"a": None, "b": X}, {"b": X, "a": 1}, {}]
    agree(Body(use), *((X, v) for v in values * 2))


def test_operand_that_contains_itself() -> None:
    loop: list[Any] = [1]
    loop.append(loop)
    flat = Flat(Body(lambda self, x, y: x + y[0]))
    assert flat.site(flat.part, (X, [1, [2]]), {}) is not MISS
    found = flat.site(flat.part, (X, loop), {})
    assert found is MISS or same(found, X + 1)
