"""MindSpore's functions of what is no MindSpore tensor are MindSpore's: it makes tensors of numbers and refuses arrays."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import mindspore as ms
import numpy as np
import pytest
from door_support import array, tensor
from mindspore import mint, ops

import bcvm_core as bcvm
from bcvm_core import config

pytestmark = pytest.mark.mindspore
product = ops.Mul()


def one(a: Any, b: Any) -> Any:
    return ops.mul(a, b)


def several(a: Any, b: Any) -> Any:
    return ops.mul(a, b) + ops.sub(b, a) * 2


def in_a_loop(a: Any, b: Any) -> Any:
    total = a
    for _ in range(3):
        total = ops.add(total, b)
    return total


def by_an_object(a: Any, b: Any) -> Any:
    return product(a, b) * 2


def of_a_list(a: Any, b: Any) -> Any:
    return ops.stack([a, b])


def from_a_container(a: Any, b: Any) -> Any:
    held = {"a": a, "b": b}
    return ops.mul(held["a"], held["b"])


def made(a: Any, b: Any) -> Any:
    return mint.zeros((2, 3)), b


def by_a_local_name(a: Any, b: Any) -> Any:
    function = [ops.mul][0]
    return function(a, b)


def object_of_a_local_name(a: Any, b: Any) -> Any:
    function = ops.Mul()
    return function(a, b), function(b, a)


FUNCTIONS = (by_a_local_name, object_of_a_local_name, one, several, in_a_loop, by_an_object, of_a_list, from_a_container, made)
FLOATS = np.array([1.0, 2.0], np.float32)


def outcome(function: Callable[..., Any], *args: Any) -> Any:
    """(type, values), or the class of what was raised."""
    try:
        result = function(*args)
    except Exception as error:
        return type(error)
    return type(result), [np.asarray(array(part)).tolist() for part in (result if isinstance(result, tuple) else (result,))]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("tier", [None, "interpreter"])
def test_the_same_as_without_the_vm(function: Callable[..., Any], tier: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "current", dataclasses.replace(config.current, force_tier=tier))
    jitted = bcvm.jit(function)
    t = tensor(FLOATS)
    for operands in ((2, 3), (t, t), (FLOATS, FLOATS), (np.float32(2), 3), (t, 3), (t, FLOATS)):
        wanted = outcome(function, *operands)
        for _ in range(3):
            assert outcome(jitted, *operands) == wanted, operands


def test_numpy_functions_are_numpys() -> None:
    @bcvm.jit(strict=True)
    def f(a: Any) -> Any:
        return np.exp(a) + np.exp(2)

    np.testing.assert_allclose(f(FLOATS), np.exp(FLOATS) + np.exp(2), rtol=1e-6)


def test_strict_names_what_is_missing() -> None:
    with pytest.raises(bcvm.errors.StrictError, match="no tensor of the function's library"):
        bcvm.jit(strict=True)(one)(2, 3)
    assert isinstance(one(2, 3), ms.Tensor)
