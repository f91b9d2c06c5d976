"""The encoder of the benchmark of networks: by BCVM as Cells and as a function over arrays, beside its formula in float64."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bcvm_core as bcvm
from bcvm_core.codegen import loops

sys.path.append(str(Path(__file__).parents[1] / "bench" / "peers"))
import network_data as networks  # noqa: E402
import networks_numpy  # noqa: E402

LAYERS, SMALL = 2, {"words": 50, "width": 96, "hidden": 128}
HEADS = networks.HEADS
CALLS = ((1, 16), (2, 7), (4, 33), (1, 1), (2, 16))
TOLERANCE = 2e-6  # of the root mean square, float32


@pytest.fixture(scope="module")
def weights() -> networks.Arrays:
    return networks.bert_weights(LAYERS, **SMALL)


def _apart(ours: Any, ids: Any, mask: Any, weights: networks.Arrays) -> float:
    truth = networks_numpy.reference(ids, mask, weights, LAYERS)
    assert ours.dtype == np.float32 and ours.shape == truth.shape and np.isfinite(ours).all()
    assert np.std(truth[0] - truth[-1]) > 0.1 or len(truth) == 1  # the sentences matter in the result
    return float(np.max(np.abs(ours - truth)) / np.sqrt(np.mean(truth**2)))


def test_as_a_function_over_arrays(weights: networks.Arrays) -> None:
    parts = networks_numpy.by_layer(weights, LAYERS)
    encoder = bcvm.jit(networks_numpy.encoder)
    for batch, length in (*CALLS, *CALLS):
        ids, mask = networks.sentences(batch, length, words=SMALL["words"])
        ours = encoder(ids, mask, weights, parts)
        assert _apart(ours, ids, mask, weights) < TOLERANCE, (batch, length)
        loops.wait(60)


@pytest.fixture(scope="module")
def cell(weights: networks.Arrays) -> Iterator[Any]:
    ms = pytest.importorskip("mindspore")
    ms.set_context(pynative_synchronize=True)
    import networks_mindspore

    yield networks_mindspore.encoder(weights, LAYERS, heads=HEADS, **SMALL)


def test_as_cells_in_one_program_for_every_batch_and_length(cell: Any, weights: networks.Arrays) -> None:
    import mindspore as ms

    before = bcvm.stats()
    for batch, length in (*CALLS, *CALLS):
        ids, mask = networks.sentences(batch, length, words=SMALL["words"])
        with bcvm.enable():
            ours = cell(ms.Tensor(ids), ms.Tensor(mask)).asnumpy()
            again = cell(ms.Tensor(ids), ms.Tensor(mask)).asnumpy()
        np.testing.assert_array_equal(ours, again)
        assert _apart(ours, ids, mask, weights) < TOLERANCE, (batch, length)
        loops.wait(60)
    counted = bcvm.stats().since(before)
    assert counted.share() == 1.0 and counted.call_op > 1000, counted.reasons
    report = bcvm.explain(cell)
    assert "left to MindSpore" not in report and report.count("in one program") == 1, report


def test_padding_does_not_change_what_stands_before_it(cell: Any) -> None:
    """Three words alone, and with padding behind them that the mask takes out."""
    import mindspore as ms

    ids = np.array([[5, 9, 2]], np.int32)
    longer = np.array([[5, 9, 2, 7, 7]], np.int32)
    mask = np.array([0, 0, 0, networks.MASKED, networks.MASKED], np.float32)[None, None, None]
    with bcvm.enable():
        short = cell(ms.Tensor(ids), ms.Tensor(mask[..., :3])).asnumpy()
        long = cell(ms.Tensor(longer), ms.Tensor(mask)).asnumpy()
    np.testing.assert_allclose(long[:, :3], short, rtol=1e-5, atol=1e-5)
