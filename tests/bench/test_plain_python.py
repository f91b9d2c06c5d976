"""Plain Python pays nothing: cells without tensors in the `bcvm` kernel and in ipykernel, interleaved."""

from __future__ import annotations

from statistics import median

import pytest

from .kernels import kernel, run, wall_ms

pytestmark = pytest.mark.bench

ROUNDS = 15
CELLS = {
    "a million integers in a loop": "s = 0\nfor i in range(1_000_000):\n    s = s + i * 3 % 7",
    "the same in a function": "def count(n):\n    s = 0\n    for i in range(n):\n        s += i * 3 % 7\n    return s\ncount(1_000_000)",
    "a list of a million integers": "t = 0\nfor v in numbers:\n    t += v",
    "strings and dicts": "d = {}\nfor i in range(200_000):\n    d[str(i % 1000)] = d.get(str(i % 1000), 0) + 1",
    "an empty cell": "pass",
}


def test_plain_python_pays_nothing(kernelspecs: None) -> None:
    with kernel("python3") as plain, kernel("bcvm") as ours:
        for client in (plain, ours):
            run(client, "numbers = list(range(1_000_000))")
        print(f"\n{'cell':<34}{'ipykernel ms':>14}{'bcvm ms':>10}{'ratio':>8}")
        for name, code in CELLS.items():
            ratios: list[float] = []
            times: tuple[list[float], list[float]] = ([], [])
            for _ in range(ROUNDS):
                a, b = wall_ms(plain, code), wall_ms(ours, code)
                times[0].append(a)
                times[1].append(b)
                ratios.append(b / a)
            print(f"{name:<34}{median(times[0]):>14.2f}{median(times[1]):>10.2f}{median(ratios):>8.3f}")
