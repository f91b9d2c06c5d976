"""What a comparison keeps and puts back, and how it tells values apart."""

from __future__ import annotations

import random
from collections import OrderedDict, defaultdict, deque
from typing import Any

import numpy as np
import pytest

pytest.importorskip("IPython")

from bcvm_kernel.comparing.state import MAX_BYTES, State  # noqa: E402
from bcvm_kernel.comparing.values import compare, leaves  # noqa: E402
from bcvm_kernel.options import MagicError  # noqa: E402

SETUP = """
import functools, random
from collections import OrderedDict, defaultdict, deque
import numpy as np
base = np.arange(12.0).reshape(3, 4)
view = base[1:, ::2]
nested = {'a': [1, {2, 3}, base], 'b': (base, deque([1, 2]))}
order, default, buffer = OrderedDict(x=1), defaultdict(list, k=[0]), bytearray(b'abc')
objects = np.array([[1], {'k': 1}], dtype=object)
locked = np.ones(3); locked.flags.writeable = False
rng, old, own = np.random.default_rng(3), np.random.RandomState(3), random.Random(3)
class Counter:
    total = 0
    def __init__(self): self.n = [0]
    def add(self):
        Counter.total += 1
        self.n[0] += 1
        self.more = True
counter = Counter()
bound = counter.add
def outer():
    seen = [0]
    count = 0
    def inner():
        nonlocal count
        count += 1
        seen[0] += 1
        return count
    return inner
inner = outer()
def through(): nested['a'].append(factor[0]); return far()
def far(extra=[]): extra.append(1); return extra
factor = [2]
part = functools.partial(through)
"""
CHANGES = [
    "base[:] = -1",
    "view += 5",
    "view = view * 2",
    "nested['a'][1].add(9); nested['b'][1].append(3); nested['new'] = 1; del nested['a'][0]",
    "order['y'] = 2; default['new'].append(1); default['k'][0] = 5; buffer[0] = 0",
    "objects[0].append(2); objects[1] = None",
    "rng.random(5); old.rand(3); own.random(); random.random(); np.random.rand()",
    "counter.add(); bound(); Counter.fresh = 1; Counter.add = None",
    "inner(); inner()",
    "part(); factor.append(3)",
    "del base, nested\nimport math as base",
    "for name in list(globals()):\n    if isinstance(globals()[name], list): globals()[name].clear()",
    "exec('factor[0] = 9')",
    "new = base * 2",
]
LOOK = """
import numpy as np, random
seen = [inner.__closure__[0].cell_contents, inner.__closure__[1].cell_contents, far.__defaults__, vars(counter).copy(), Counter.total]
seen = [repr(each) for each in (*seen, base, view, nested, order, default, buffer, objects, factor, sorted(vars(Counter)))]
seen += [repr(rng.bit_generator.state), repr(old.get_state()), repr(own.getstate()), repr(random.getstate()), repr(np.random.get_state())]
seen += ['new' in globals(), view.base is base, nested['a'][2] is base]
"""


@pytest.mark.parametrize("change", CHANGES)
def test_everything_is_put_back(change: str) -> None:
    names: dict[str, Any] = {"__name__": "__main__", "__builtins__": __builtins__}
    exec(SETUP, names)
    exec(LOOK, names)
    before = names.pop("seen")
    code = compile(change, "<cell>", "exec")
    state = State(names, code, lambda: [name for name in names if not name.startswith("__")])
    exec(code, names)
    state.restore()
    exec(LOOK, names)
    assert names["seen"] == before


def test_the_changes_are_changes() -> None:
    """Without this the test above could hold for changes that do nothing."""
    for change in CHANGES[:-1]:
        names: dict[str, Any] = {"__name__": "__main__", "__builtins__": __builtins__}
        exec(SETUP, names)
        exec(LOOK, names)
        before = names.pop("seen")
        exec(change, names)
        try:
            exec(LOOK, names)
        except (NameError, AttributeError, TypeError, IndexError):
            continue
        assert names["seen"] != before, change


def test_only_what_code_can_reach_is_copied() -> None:
    names = {"small": np.ones(3), "large": np.empty(MAX_BYTES // 8 + 1)}
    state = State(names, compile("small += 1", "<cell>", "exec"), lambda: list(names))
    assert state.names == ["small"]
    with pytest.raises(MagicError, match="more than 1 GiB"):
        State(names, compile("large += 1", "<cell>", "exec"), lambda: list(names))


def _compared(one: Any, two: Any) -> tuple[bool, bool, str]:
    verdict = compare(leaves({"y": one}, ["y"], None), leaves({"y": two}, ["y"], None))
    return verdict.agree, verdict.bits, verdict.text


F32 = np.linspace(1, 2, 5, dtype=np.float32)


@pytest.mark.parametrize(
    ("one", "two", "agree", "text"),
    [
        (F32, F32.copy(), True, "same bits"),
        (F32, np.nextafter(F32, np.float32(3)), True, "equal within 1e-07"),
        (F32, F32 * np.float32(1.01), False, "DIFFERS: y is off by 0.01 of its largest value"),
        (F32, F32.astype(np.float64), True, "equal within 0; y is float64 instead of float32"),
        (F32, F32[:3], False, "DIFFERS: y has shape [3] instead of [5]"),
        (np.array([1.0, np.nan]), np.array([1.0, np.nan]), True, "same bits"),
        (np.array([1.0, np.nan]), np.array([1.0, 2.0]), False, "DIFFERS: y has NaN in other places"),
        (np.array([1.0, np.inf]), np.array([1.0, -np.inf]), False, "DIFFERS: y has infinities of another sign"),
        (np.array([0.0]), np.array([-0.0]), True, "equal within 0"),
        (np.array([1, 2]), np.array([1, 3]), False, "DIFFERS: y has other values"),
        (np.array([1, 2]), np.array([1, 2], np.int8), True, "equal within 0; y is int8 instead of int64"),
        (np.array([True]), np.array([False]), False, "DIFFERS: y has other values"),
        (3, 4, False, "DIFFERS: y is 4 instead of 3"),
        ("a", "a", True, "same bits"),
        (1.0, np.float64(1.0), True, "equal within 0; y is float64 instead of float"),
        ({"k": [1, F32]}, {"k": [1, F32 + 1]}, False, "DIFFERS: y['k'][1] is off by 0.5 of its largest value"),
        ([1.0] * 3, [1.0] * 3, True, "same bits"),
        ([1, 2], [1], False, "DIFFERS: y[1] is there only without it"),
        (None, "x", False, "DIFFERS: y is 'x' instead of None"),
        (np.float32(1e-30), np.float32(2e-30), False, "DIFFERS: y is off by 1 of its largest value"),
        (np.array([1 + 1j]), np.array([1 + 1j]) * (1 + 1e-12), True, "equal within 1e-12"),
    ],
)
def test_values_are_told_apart(one: Any, two: Any, agree: bool, text: str) -> None:
    found = _compared(one, two)
    assert (found[0], found[2]) == (agree, text) and found[1] == (text == "same bits")


def test_circles_and_unknown_objects_end() -> None:
    circle: list[Any] = [1]
    circle.append(circle)
    found = leaves({"c": circle, "o": object(), "d": deque([1]), "f": OrderedDict(a=1), "r": random}, ["c", "o", "d", "f", "r"], None)
    assert found == {"c[0]": 1, "f['a']": 1, "the result": None}
    assert leaves({"d": defaultdict(int, k=2)}, ["d"], 5) == {"d['k']": 2, "the result": 5}
