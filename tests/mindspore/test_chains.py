"""Chains over MindSpore tensors: the bits of the ops one by one, in functions and in models."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

pytest.importorskip("mindspore")
pytest.importorskip("llvmlite")

import mindspore as ms
from mindspore import Tensor, mint, nn, ops

import bcvm_core as bcvm
from bcvm_core.codegen import loops
from bcvm_core.tiers.chains import ChainSite
from tests.tiers.chain_support import chain_of, one_by_one, same_bits

rng = np.random.default_rng(3)


def tensor(*shape: int) -> Any:
    return Tensor(rng.standard_normal(shape).astype(np.float32))


def scaled(x: Any, s: Any, m: Any) -> Any:
    return ops.softmax(x * s + m, -1)


def residual(x: Any, y: Any, w: Any, b: Any) -> Any:
    return mint.nn.functional.layer_norm(x + y, (24,), w, b)


def written_out(x: Any, w: Any, b: Any) -> Any:
    centred = x - mint.mean(x, -1, keepdim=True)
    return centred / ops.sqrt(mint.mean(centred**2, -1, keepdim=True) + 1e-5) * w + b


def norm(x: Any, y: Any) -> Any:
    return mint.sum(ops.abs(x - y), -1)


CALLS = {
    "scaled": (scaled, lambda: (tensor(5, 24), tensor(24), tensor(5, 1))),
    "residual": (residual, lambda: (tensor(5, 24), tensor(5, 24), tensor(24), tensor(24))),
    "written_out": (written_out, lambda: (tensor(2, 3, 24), tensor(24), tensor(24))),
    "norm": (norm, lambda: (tensor(40, 24), tensor(40, 24))),
}


def settled(call: Any, site: Any) -> Any:
    """What a call gives once the chain runs."""
    for _ in range(60):
        result = call()
        found = site()
        if found is not None and found.calls:
            return result
        loops.wait(120)
        time.sleep(0.06)
    raise AssertionError(found and (found.refusal, [p.reason for p in found.patterns.values()]))


@pytest.mark.parametrize("name", CALLS)
def test_functions(name: str) -> None:
    function, make = CALLS[name]
    args = make()
    jitted = bcvm.jit(function)
    settled(lambda: jitted(*args), lambda: chain_of(jitted))
    for _ in range(3):
        args = make()
        found, wanted = jitted(*args), one_by_one(function, *args)
        assert type(found) is type(wanted) and found.dtype == wanted.dtype
        same_bits(found.asnumpy(), wanted.asnumpy())


def test_a_number_without_axes_and_other_types_run_op_by_op() -> None:
    def function(x: Any) -> Any:
        return mint.sum(x * 2)

    for x in (tensor(4, 6), Tensor(np.ones((4, 6), np.float16)), Tensor(np.ones((4, 6), np.int32))):
        jitted = bcvm.jit(function)
        for _ in range(4):
            found = jitted(x)
        assert isinstance(found, Tensor) and found.shape == ()
        same_bits(found.asnumpy(), one_by_one(function, x).asnumpy())
        assert not chain_of(jitted).calls


class Scores(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.w = ms.Parameter(tensor(24), name="w")

    def construct(self, x: Any, m: Any) -> Any:
        p = ops.softmax(x * self.w + m, -1)
        return p - mint.mean(p * p, -1, keepdim=True)


def test_models() -> None:
    cell = Scores()
    x, m = tensor(2, 4, 24), tensor(2, 1, 24)
    wanted = cell(x, m).asnumpy()
    bcvm.enable()
    try:
        for _ in range(60):
            found = cell(x, m)
            sites = [site for site in _chains() if site.calls]
            if sites:
                break
            loops.wait(120)
            time.sleep(0.06)
        assert sites
        for shape in ((2, 4, 24), (3, 7, 24)):
            x, m = tensor(*shape), tensor(shape[0], 1, 24)
            found = cell(x, m).asnumpy()
            with bcvm.override(fuse=False):
                other = Scores()
                other.w.set_data(cell.w)
                same_bits(found, other(x, m).asnumpy())
    finally:
        bcvm.disable()
    np.testing.assert_allclose(cell(x, m).asnumpy(), found, rtol=1e-5, atol=1e-6)
    assert wanted.shape == (2, 4, 24)


def _chains() -> list[ChainSite]:
    import gc

    return [site for site in gc.get_objects() if type(site) is ChainSite]
