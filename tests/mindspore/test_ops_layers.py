"""`mindspore.ops` around layers: the same types, shapes and numbers as MindSpore's own kernels."""

from __future__ import annotations

from typing import Any

import mindspore as ms
import numpy as np
import pytest
from door_support import array, by_mindspore, by_site, tensor, type_name
from mindspore import ops

from bcvm_core.errors import Decline

pytestmark = pytest.mark.mindspore

CALLS = """
ops.conv3d(vol, w3) | ops.conv3d(vol, w3, b2, 2, 'pad', 1) | ops.conv3d(vol, w3, None, 1, 'same')
ops.avg_pool3d(vol, 2, 2) | ops.avg_pool3d(vol, 2, 2, 1, count_include_pad=False) | ops.max_pool3d(vol, 2)
ops.max_pool3d(vol, 2, 1, 1, return_indices=True) | ops.adaptive_avg_pool3d(vol, 2) | ops.adaptive_avg_pool3d(vol, (1, None, 2))
ops.adaptive_max_pool1d(seq, 2) | ops.adaptive_max_pool3d(vol, 2) | ops.adaptive_max_pool3d(vol, (1, 2, 3), True)
ops.lp_pool2d(im + 3, 2, 2) | ops.lp_pool1d(seq + 3, 3.0, 3, 2) | ops.lp_pool1d(seq + 3, 2.0, 2)
ops.max_unpool1d(b34, spots, 2) | ops.max_unpool1d(b34, spots, 2, 2, 0, (9,))
ops.max_unpool3d(pooled[:, None], places[:, None], 2, (2, 2, 2))
ops.max_unpool2d(pooled, places, 2) | ops.fold(cols, size, (2, 2)) | ops.fold(cols, size, 2)
ops.bias_add(im, b4) | ops.bias_add(x, b4) | ops.lrn(im) | ops.lrn(im, 1, 1.0, 0.5, 0.75) | ops.fast_gelu(x)
ops.one_hot(i, 4) | ops.one_hot(i, 3, s2, s1) | ops.one_hot(i, 5, 2, 1)
ops.full((2, 3), 2, dtype=ms.float16) | ops.full((2,), 1.5, dtype=ms.float32)
ops.fill(ms.int32, (2, 2), 3) | ops.fill(ms.float32, (2, 2), 3.7) | ops.range(1, 9, 2) | ops.range(0.0, 1.0, 0.25)
ops.median(x) | ops.median(x, 0, True) | ops.unique_consecutive(runs) | ops.unique_consecutive(runs, True, True) | ops.histc(x, 4)
ops.diff(x) | ops.diff(x, 1, 0) | ops.vector_norm(x, 2, 1) | ops.vector_norm(x, 3)
ops.addr(x, b3, b4) | ops.addr(x, b3, b4, beta=0.5, alpha=2.0)
ops.ger(b3, b4) | ops.lcm(runs, runs) | ops.frac(x) | ops.truncate_mod(x, y) | ops.clip_by_value(x, -1, 1) | ops.det(sq) | ops.cholesky(spd)
ops.row_stack((x, y)) | ops.addn((x, y)) | ops.positive(x) | ops.slice(x, (0, 1), (2, 2)) | ops.strided_slice(x, (0, 1), (3, 4), (2, 1))
ops.mirror_pad(x, widths, 'REFLECT') | ops.mirror_pad(x, widths, 'SYMMETRIC') | ops.reverse_sequence(x, i, 1)
ops.reverse_sequence(x, lengths, 0, 1) | ops.unsorted_segment_sum(x, i, 3) | ops.unsorted_segment_max(x, i, 3)
ops.unsorted_segment_min(x, i, 3) | ops.unsorted_segment_prod(x, i, 3) | ops.unsorted_segment_sum(x, sparse, 3)
"""
EACH = [call.strip() for line in CALLS.strip().splitlines() for call in line.split(" | ")]


def operands() -> dict[str, Any]:
    rng = np.random.default_rng(11)

    def normal(*shape: int) -> Any:
        return tensor(rng.normal(size=shape))

    square = rng.normal(size=(3, 3))
    pooled, places = ops.max_pool2d(tensor(rng.normal(size=(2, 4, 6, 6))), 2, return_indices=True)
    return {
        "pooled": pooled, "places": places, "b34": normal(2, 3, 4), "spots": tensor(np.tile([0, 3, 5, 6], (2, 3, 1)), np.int64),
        "x": normal(3, 4), "y": normal(3, 4), "im": normal(2, 4, 6, 6), "vol": normal(2, 3, 4, 5, 6), "w3": normal(2, 3, 2, 2, 2),
        "seq": normal(2, 3, 8), "b2": normal(2), "b3": normal(3), "b4": normal(4), "cols": normal(2, 8, 6),
        "size": tensor([3, 4], np.int32),
        "i": tensor([0, 2, 1], np.int32), "sparse": tensor([2, -1, 2], np.int32), "s1": tensor(1.0), "s2": tensor(2.5),
        "runs": tensor([1, 1, 2, 2, 3, 1], np.int32), "sq": tensor(square), "spd": tensor(square @ square.T + np.eye(3)),
        "widths": tensor([[1, 2], [0, 1]], np.int64), "lengths": tensor([1, 3, 0, 2], np.int32), "ms": ms,
    }  # fmt: skip


@pytest.mark.parametrize("call", EACH)
def test_the_same_as_mindspore(call: str) -> None:
    ours, theirs = by_site(call, **operands()), by_mindspore(call, **operands())
    assert type_name(ours) == type_name(theirs)
    for a, b in zip(*(v if isinstance(v, tuple) else (v,) for v in (array(ours), array(theirs))), strict=True):
        assert np.shape(a) == np.shape(b)
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=3e-6)


@pytest.mark.parametrize("call", ["ops.one_hot(i, 3, 1.5, 0)", "ops.fold(cols, (3, 4), 2)", "ops.conv3d(vol, w3, None, 1, 'valid', 1)"])
def test_calls_that_mindspore_refuses_are_left_to_it(call: str) -> None:
    with pytest.raises(Decline):
        by_site(call, **operands())


@pytest.mark.parametrize("call", ["ops.one_hot(i, 3, axis=0)", "ops.lrn(im, norm_region='OTHER')", "ops.cholesky(spd, True)"])
def test_parameters_without_a_row_are_left_to_mindspore(call: str) -> None:
    with pytest.raises((Decline, AssertionError)):
        by_site(call, **operands())
