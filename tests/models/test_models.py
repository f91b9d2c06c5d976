"""Models of mindcv as they are: the values of MindSpore PyNative, by one flat Program, for every batch and image size."""

from __future__ import annotations

import functools
import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import bcvm_core as bcvm

from . import zoo

pytestmark = [pytest.mark.mindspore, pytest.mark.models, pytest.mark.slow]
CASES = [pytest.param(m, size, id=f"{m.name}-{size}") for m in zoo.MODELS for size in m.sizes]


@functools.lru_cache(maxsize=1)  # models are large: one at a time
def _built(model: zoo.Model, size: int | None) -> Any:
    gc.collect()
    return zoo.built(model, size or model.sizes[0])


@pytest.fixture(scope="module", autouse=True)
def _no_model_outlives_the_tests() -> Iterator[None]:
    yield
    _built.cache_clear()  # Cells that die after MindSpore's modules print errors
    gc.collect()


def _model(model: zoo.Model, size: int) -> Any:
    return _built(model, size if model.fixed_size else None)


@pytest.mark.parametrize(("model", "size"), CASES)
def test_same_values_as_mindspore(model: zoo.Model, size: int) -> None:
    """A new batch size is no new program, nor is a new image size where the model takes any: the Cell is the same for all of them."""
    cell = _model(model, size)
    for batch in zoo.BATCHES:
        x = zoo.images(batch, size)
        theirs = cell(x).asnumpy()
        before = bcvm.stats()
        with bcvm.enable():
            first, second = (cell(x).asnumpy() for _ in range(2))  # found, then run
            counted = bcvm.stats().since(before)
        assert zoo.difference(first, theirs) <= zoo.TOLERANCE, batch
        np.testing.assert_array_equal(first, second)  # one answer, whether cold or warm
        assert counted.share() >= zoo.LEAST_SHARE, counted.reasons
        assert counted.call_op > 100
        if batch > 1:
            apart = np.std(theirs - theirs.mean(0)) / np.sqrt(np.mean(theirs**2))
            assert apart > 100 * zoo.TOLERANCE, "the result hardly depends on the pictures: the comparison shows nothing"
    report = bcvm.explain(cell)
    assert "left to MindSpore" not in report and report.count("in one program") == 1, report


def test_weights_are_the_same_in_every_run() -> None:
    model = zoo.MODELS[2]
    one, other = (zoo.built(model, model.sizes[0]) for _ in range(2))
    for a, b in zip(one.get_parameters(), other.get_parameters(), strict=True):
        np.testing.assert_array_equal(a.asnumpy(), b.asnumpy())


def test_differences_are_relative() -> None:
    ours, theirs = np.float32([[1, 2, 1000]]), np.float32([[1, 2, 1001]])
    assert zoo.difference(theirs, theirs) == 0
    assert zoo.difference(ours, theirs) == pytest.approx(1 / 1001)
    assert zoo.difference(ours + np.float32([[0, 1, 0]]), theirs) == pytest.approx(1 / np.sqrt((1 + 4 + 1001**2) / 3), rel=1e-3)
