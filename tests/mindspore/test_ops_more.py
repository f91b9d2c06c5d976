"""More of `mindspore.ops` and Tensor methods: the same types, shapes and numbers as MindSpore's own kernels."""

from __future__ import annotations

from typing import Any

import mindspore as ms
import numpy as np
import pytest
from door_support import array, by_mindspore, by_site, tensor, type_name

from bcvm_core.mindspore import mint_table

pytestmark = pytest.mark.mindspore

CALLS = """
ops.zeros((2, 3)) | ops.zeros(3, ms.int32) | ops.ones((2, 3), ms.float16)
ops.arange(5) | ops.arange(1, 9, 2) | ops.arange(0.0, 1.0, 0.25) | ops.arange(3, dtype=ms.float32)
ops.gather_nd(x, pairs) | ops.gather_nd(im, pairs) | x.gather_nd(pairs) | ops.scatter_nd(pairs, v[:2], (3, 4))
ops.tensor_scatter_add(x, pairs, v[:2]) | ops.tensor_scatter_max(x, pairs, v[:2]) | ops.tensor_scatter_min(x, pairs, v[:2])
ops.narrow(x, 1, 1, 2) | x.narrow(0, 1, 2) | ops.masked_select(x, m) | x.masked_select(m)
ops.topk(x, 2) | ops.topk(x, 2, dim=0) | x.topk(2) | ops.cummax(x, 1) | ops.cummin(x, 0) | ops.vstack((x, y))
ops.var_mean(x, 1) | ops.std_mean(x, 1, 1)
ops.addmm(q, x, w, beta=0.5, alpha=2) | ops.addbmm(q, b1, b2) | ops.baddbmm(b3, b1, b2) | q.addmm(x, w) | b3.baddbmm(b1, b2)
ops.cdist(x, y) | ops.inverse(sq)
ops.lerp(x, y, 0.25) | ops.lerp(x, y, p) | x.lerp(y, 0.25) | ops.addcmul(x, y, p)
ops.addcdiv(x, y, p) | ops.xlogy(x, p) | x.xlogy(p) | ops.logaddexp2(x, y) | ops.erfinv(u) | u.erfinv() | ops.isclose(x, x) | s.isneginf()
ops.selu(x) | ops.celu(x, 1.5) | ops.glu(x) | ops.tanhshrink(x) | ops.threshold(x, 0.1, 9.0) | ops.logit(u / 2, 1e-5)
ops.softshrink(x) | ops.hardshrink(x) | ops.prelu(im, p4)
ops.interpolate(im, (12, 12), mode='bilinear') | ops.interpolate(im, (3, 9), mode='nearest')
ops.interpolate(im, (9, 4), None, 'bilinear', True)
ops.avg_pool1d(seq, 3, 2) | ops.adaptive_avg_pool1d(seq, 3) | ops.pixel_shuffle(im, 2) | ops.pixel_unshuffle(im, 2)
ops.channel_shuffle(im, 2)
ops.unfold(im, 2)
ops.kl_div(x, p) | ops.kl_div(x, p, 'sum') | ops.nll_loss(x, c3i) | ops.nll_loss(x, c3i, p4, reduction='sum')
ops.huber_loss(x, y) | ops.huber_loss(x, y, 'none', 0.5) | ops.cosine_embedding_loss(x, y, oi, 0.25)
ops.margin_ranking_loss(v, p4, sg[0], 0.5) | ops.hinge_embedding_loss(x, sg)
ops.gaussian_nll_loss(x, y, p) | ops.cosine_similarity(x, y)
"""
EACH = [call.strip() for line in CALLS.strip().splitlines() for call in line.split(" | ")]


def operands() -> dict[str, Any]:
    more = {"pairs": np.array([[0, 1], [1, 3]]), "rows": np.array([[2, 0, 1, 1], [0, 2, 1, 1]]), "c3i": np.array([1, 3, 0], np.int32)}
    more["oi"] = np.array([1, -1, 1], np.int32)
    return {name: tensor(value, value.dtype) for name, value in {**mint_table.operands(), **more}.items()} | {"tensor": tensor, "ms": ms}


@pytest.mark.parametrize("call", EACH)
def test_the_same_as_mindspore(call: str) -> None:
    ours, theirs = by_site(call, **operands()), by_mindspore(call, **operands())
    assert type_name(ours) == type_name(theirs)
    for a, b in zip(*(v if isinstance(v, tuple) else (v,) for v in (array(ours), array(theirs))), strict=True):
        assert np.shape(a) == np.shape(b)
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=3e-6)
