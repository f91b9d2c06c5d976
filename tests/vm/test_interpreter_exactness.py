"""What a hostile reader found, through the interpreter: order and number of side effects, deleted names, warnings, failed stores."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bcvm_core.vm.interpreted import interpreted

from . import test_exactness as cases
from .test_exactness import ASKING, Noisy, observe


def last_line(result: Any) -> Any:
    """An observation without frames: of an error its type and message."""
    value, *rest = result
    if isinstance(value, tuple) and value and isinstance(value[0], str) and value[0].startswith("Traceback"):
        value = value[0].rstrip().splitlines()[-1]
    return value, *rest


def same(function: Callable[..., Any], *makes: Callable[[], tuple[Any, ...]], modes: str = "warn") -> None:
    call = interpreted(function)
    for _ in range(2):
        for make in makes:
            assert last_line(observe(call, make, modes)) == last_line(observe(function, make, modes))


def test_order_and_number_of_side_effects() -> None:
    same(cases.chains, lambda: (Noisy(), np.ones(3)), lambda: (Noisy(-1), np.ones(3)))
    same(cases.chain_error, lambda: (np.ones(3),), lambda: ("a",))
    same(cases.unknown_operand, lambda: (Noisy(), np.ones(3)))
    same(cases.empties, lambda: (iter([1, 2, 3]), np.ones(3)), lambda: (iter([1, 2, 3]), np.ones(4)))
    same(cases.rebinds_holder, lambda: (np.arange(3.0),))
    same(cases.rebinds_in_value, lambda: (types.SimpleNamespace(w=np.ones(3)), types.SimpleNamespace(w=np.full(3, 5.0))))
    same(cases.lazy_module, lambda: (np.ones(3),))


@pytest.mark.parametrize("ask", ASKING, ids=range(len(ASKING)))
def test_arguments_that_run_user_code_are_used_once(ask: Callable[[Any, Any], Any]) -> None:
    same(ask, lambda: (Noisy(), np.ones(3)), lambda: (Noisy(np.ones(3)), np.ones(3)))


def test_names() -> None:
    same(cases.deletes_in_loop, lambda: (np.ones(3), np.ones(3), []))
    same(cases.handler_unbinds, lambda: (np.ones(3), np.ones(3)))
    same(cases.cell_is_deleted, lambda: (np.ones(3),))
    same(cases.reads_global, lambda: (np.ones(3),), cases.without_global, cases.without_global_wrong_shape, lambda: (np.ones(4),))
    same(cases.reads_frame_by_another_name, lambda: (np.ones(3),))


def test_stores() -> None:
    same(cases.power_of_host, lambda: (np.arange(3.0),))
    same(cases.tuple_item, lambda: ((np.ones(3), 2), np.arange(3.0)))
    same(cases.casting_store, lambda: (np.arange(3), np.array([1.0, np.nan, 3.0])))


def test_warnings() -> None:
    same(cases.some_warnings_are_errors, lambda: (np.array([0.0, 1.0]),), lambda: (np.ones(2),))
    same(cases.own_showwarning, lambda: (np.ones(2),))
    same(cases.squares, lambda: (np.array([1e300, 0.0]),), lambda: (np.array([1e30, 2.0], "f4"),))
    pairs = [(np.int8(100), np.int8(100)), (np.float32(3e38), 2**40), (np.float64(1e308), 1e308), (np.int8(100), 100)]
    pairs.append((np.bool_(1), np.bool_(1)))
    same(cases.scalars, *[lambda p=p: p for p in pairs])  # type: ignore[misc]
    same(cases.python_warnings, lambda: (np.array([1j, 2]), np.ones(1)))


@pytest.mark.parametrize("modes", ["ignore", "warn", "raise"])
def test_scalar_events_under_errstate(modes: str) -> None:
    same(cases.scalars, lambda: (np.int8(100), np.int8(100)), lambda: (np.float32(3e38), np.float32(10)), modes=modes)
