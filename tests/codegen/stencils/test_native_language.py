"""The small language of the code around kernels: what it computes is what Python computes."""

from __future__ import annotations

import ctypes
import itertools
from typing import Any

import pytest

from bcvm_core.codegen import compiler, loader
from bcvm_core.codegen.stencils.native import compile_functions

SOURCE = '''
from typing import Final
BIG: Final = 1000

def arithmetic(a: int, b: int) -> int:
    """Everything on two numbers."""
    c = (a + b) * 3 - (a & b) + (a | 5) - (b ^ 9) + (a << 2)
    c += BIG
    return c - (-b)

def ladder(a: int, b: int) -> int:
    if a < b and b > 3 or a == 7:
        return 1
    if not a >= b:
        return 2
    if a != b:
        if a > 2 * b:
            return 3
    else:
        return 4
    return 5

def count(a: int, b: int) -> int:
    total = 0
    k = 0
    while k < a:
        j = 0
        while j < b:
            total = total + k * j + twice(j)
            j = j + 1
        k = k + 1
    return total

def twice(x: int) -> int:
    return x + x

def memory(a: int, b: int) -> int:
    small = stack(16)
    large = stack(8 * b + 64)
    store64(small, a)
    store32(small + 8, 0 - a)
    store16(small + 12, a)
    store8(small + 14, a)
    k = 0
    while k < b:
        store64(large + 8 * k, k * a)
        k = k + 1
    k = 0
    total = load64(small) + load32(small + 8) + load16(small + 12) + load8(small + 14) + (large & 63) + (small & 63)
    while k < b:
        total = total + load64(large + 8 * k)
        k = k + 1
    return total

def flag(a: int, b: int) -> int:
    same = a == b
    return same + 2 * (a < b)
'''
NUMBERS = (0, 1, 2, 3, 5, 7, 8, 40)


@pytest.fixture(scope="module")
def functions() -> dict[str, Any]:
    names = ("arithmetic", "ladder", "count", "memory", "flag")
    addresses = loader.load(compiler.compile_ir(compile_functions([SOURCE], names), optimise=True))
    return {name: ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(addresses[name]) for name in names}


@pytest.mark.parametrize("name", ["arithmetic", "ladder", "count", "flag"])
def test_the_same_as_in_python(name: str, functions: dict[str, Any]) -> None:
    python: dict[str, Any] = {}
    exec(SOURCE, python)
    for a, b in itertools.product(NUMBERS, repeat=2):
        assert functions[name](a, b) == int(python[name](a, b)), (name, a, b)


def test_memory(functions: dict[str, Any]) -> None:
    for a, b in itertools.product(NUMBERS, repeat=2):
        assert functions["memory"](a, b) == a - a + a + a + a * (b * (b - 1) // 2)


@pytest.mark.parametrize("other", ["A: Final = 2\n", "def f(a: int) -> int:\n    return a\n"])
def test_one_name_means_one_thing(other: str) -> None:
    """All modules share one list of names."""
    first = "A: Final = 1\n\ndef f(a: int) -> int:\n    return a + A\n"
    compile_functions([first], ("f",))
    with pytest.raises(SyntaxError, match="two"):
        compile_functions([first, other], ("f",))


@pytest.mark.parametrize(
    "body",
    ["for k in a: pass", "return a / 2", "return f'x'", "a.b = 1", "return unknown_function(a)", "x, y = 1, 2", "return [1]"],
)
def test_what_is_not_part_of_the_language_is_refused(body: str) -> None:
    with pytest.raises((SyntaxError, KeyError)):
        compile_functions([f"def f(a: int) -> int:\n    {body}\n"], ("f",))
