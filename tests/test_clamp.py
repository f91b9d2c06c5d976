"""Clamping: fewer versions per size, and nothing of it in any result."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import bcvm_core as bcvm
import bcvm_core.ops as ops
from bcvm_core import config, grouping
from bcvm_core.codegen.onednn import library, primitives
from bcvm_core.codegen.stencils import target
from bcvm_core.grouping import Rule
from bcvm_core.testing import TIERS
from bcvm_core.tiers import hot, recompile
from tests.cases.records import Case, Recorder, assert_matches, load, run, tolerance

F32 = np.float32
with_onednn = pytest.mark.skipif(library.library() is None, reason=library.state()[1])
with_stencils = pytest.mark.skipif(target.host() is None, reason="no stencils for this processor")


@pytest.fixture(autouse=True)
def _no_rules() -> Iterator[None]:
    grouping.notes.clear()
    yield
    assert grouping.rules() == ()


def data(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(F32)


# -- groups --------------------------------------------------------------------------------------


def test_groups_are_the_least_size_and_the_multiples_of_the_step() -> None:
    rule = Rule(1, 32, 4)
    assert [rule.group(n) for n in (0, 1, 2, 4, 5, 31, 32, 33, 1000)] == [0, 1, 4, 4, 8, 32, 32, 33, 1000]
    assert len({rule.group(n) for n in range(1, 33)}) == 9
    odd = Rule(3, 10, 4)
    assert [odd.group(n) for n in (1, 3, 4, 5, 9, 10, 11)] == [3, 3, 4, 8, 10, 10, 11]


@pytest.mark.parametrize("rule", [Rule(1, 32, 4), Rule(2, 9, 3), Rule(5, 5, 1), Rule(1, 7, 100)])
def test_a_group_holds_its_sizes_and_is_its_own(rule: Rule) -> None:
    for n in range(1, 50):
        found = rule.group(n)
        assert found >= n and rule.group(found) == found and (n > rule.most or found <= rule.most)


@pytest.mark.parametrize("wrong", [{"min": 0}, {"max": 0}, {"step": 0}, {"min": 5, "max": 4}, {"step": 2.0}, {"dim": "B"}, {"min": True}])
def test_sizes_that_make_no_groups_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must be|less than"):
        bcvm.clamp_batch_size(**wrong)


def test_rules_hold_everywhere_until_they_are_removed() -> None:
    clamp = bcvm.clamp_batch_size(1, 32, 4)
    assert grouping.grouped((5, 7)) == (8, 7) and "min=1, max=32, step=4, dim=0" in repr(clamp)
    clamp.remove()
    clamp.remove()
    assert grouping.grouped((5, 7)) == (5, 7)
    with bcvm.clamp_batch_size(1, 32, 4), bcvm.clamp_batch_size(1, 128, 16, dim=1):
        assert grouping.grouped((5, 17)) == (8, 32) and grouping.grouped((5,)) == (8,) and grouping.grouped(()) == ()


def test_rules_of_a_function_hold_for_its_calls() -> None:
    seen: list[Any] = []

    def f(x: Any) -> Any:
        """What it says."""
        seen.append(grouping.grouped(x.shape))
        if x.shape[0] == 3:
            raise KeyError("inner")
        return x

    inner = bcvm.clamp_batch_size(1, 8, 2, function=f)
    outer = bcvm.clamp_batch_size(1, 64, 16, function=lambda x: (seen.append(grouping.grouped(x.shape)), inner(x))[1])
    assert inner.__name__ == "f" and inner.__doc__ == "What it says."
    outer(np.zeros(5))
    assert seen == [(16,), (6,)]
    with pytest.raises(KeyError):
        outer(np.zeros(3))
    assert grouping.rules() == ()
    with bcvm.clamp_batch_size(1, 100, 100):
        seen.clear()
        inner(np.zeros(5))
        assert seen == [(6,)] and grouping.grouped((5,)) == (100,)


# -- convolutions --------------------------------------------------------------------------------


@with_onednn
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("groups", [1, 2])
def test_convolutions_have_the_bits_of_their_true_size(layout: str, groups: int) -> None:
    w, b = data(6, 4 // groups, 3, 3, seed=1), data(6, seed=2)
    for n in range(1, 10):
        x = data(n, 4, 9, 8, seed=n) if layout == "NCHW" else data(n, 9, 8, 4, seed=n)
        plain = ops.conv2d(x, w, b, groups=groups, padding=1, layout=layout)
        with bcvm.clamp_batch_size(1, 8, 4):
            padded = ops.conv2d(x, w, b, groups=groups, padding=1, layout=layout)
        assert padded.tobytes() == plain.tobytes() and padded.shape == plain.shape and padded.strides == plain.strides
        assert padded.flags.owndata == plain.flags.owndata and padded.base is None


@with_onednn
def test_there_are_fewer_primitives() -> None:
    w = data(8, 4, 3, 3, seed=1)
    sizes = np.random.default_rng(5).integers(1, 33, 200)

    def made() -> int:
        ops.conv2d(data(1, 8, 8, 4), w, layout="NHWC")  # which brings the weight in order, by a primitive of its own
        primitives.forget()
        for n in sizes:
            ops.conv2d(data(int(n), 8, 8, 4), w, layout="NHWC")
        return primitives.figures()["primitives"]

    without = made()
    with bcvm.clamp_batch_size(1, 32, 4):
        within = made()
    assert without - within == len(set(sizes.tolist())) - 9


@with_onednn
def test_what_fills_up_raises_nothing_of_its_own() -> None:
    w = np.full((2, 1, 1, 1), np.inf, F32)
    x = np.ones((3, 1, 4, 4), F32)
    for clamped in (False, True):
        with warnings.catch_warnings(), np.errstate(all="raise"):
            warnings.simplefilter("error")
            if clamped:
                with bcvm.clamp_batch_size(1, 32, 4):
                    found = ops.conv2d(x, w)
            else:
                found = ops.conv2d(x, w)
        assert np.isposinf(found).all() and found.shape == (3, 2, 4, 4)


@with_onednn
def test_explain_says_what_ran_how() -> None:
    w = data(2, 1, 3, 3)
    assert "clamp" not in bcvm.explain()
    with bcvm.clamp_batch_size(1, 8, 4):
        for n in (3, 3, 4, 20):
            ops.conv2d(data(n, 1, 6, 6), w)
        text = bcvm.explain()
    assert "clamp_batch_size(min=1, max=8, step=4, dim=0): one version per group" in text
    assert "conv: filled up to the size of its group (2 calls)" in text and "conv: at its true size" in text and "(2 calls)" in text


# -- versions of hot kernels ---------------------------------------------------------------------


@with_stencils
def test_recompiled_versions_are_shared_by_a_group(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("llvmlite")
    assert bcvm.ready()
    from bcvm_core.codegen.stencils.graph import Const, FusedGraph, Input, Node
    from bcvm_core.codegen.stencils.kernel import FusedKernel

    monkeypatch.setattr("bcvm_core.tiers.race.ENOUGH", 10.0)
    graph = FusedGraph((Input("float32"),) * 2, (Node("add", (0, 1)), Node("maximum", (2, Const(0)))), (3,))
    arrays = {n: (data(n, 512, seed=n), data(n, 512, seed=n + 99)) for n in range(1, 33)}
    spliced = FusedKernel(graph)
    expected = {n: spliced(pair).tobytes() for n, pair in arrays.items()}  # type: ignore[union-attr]

    def versions() -> tuple[int, int]:
        """(classes, those with code) after sizes that come and go."""
        hot.forget()
        recompile.figures.worker_cpu_s = 0.0
        kernel = FusedKernel(graph)
        hot.watch(kernel, ("add", "maximum"))
        for _ in range(25):
            for n, pair in arrays.items():
                assert kernel(pair).tobytes() == expected[n]  # type: ignore[union-attr]
            assert recompile.wait()
            recompile.figures.worker_cpu_s = 0.0
        classes = kernel.heat.classes.values()  # type: ignore[union-attr]
        return len(classes), sum(found.code is not None for found in classes)

    with config.override(hot_threshold_ms=0.0, specialise="shape"):
        with bcvm.clamp_batch_size(1, 32, 8):
            within = versions()
        hot.forget()
    assert within[0] == 5 and within[1] >= 4
    with config.override(specialise="shape"):
        assert len({hot.class_of((n, 512)) for n in range(1, 33)}) == 32
    assert len({hot.class_of((n, 512)) for n in range(1, 33)}) == 6  # as it is by default: sizes to a power of two


# -- nothing padded is ever visible --------------------------------------------------------------


def everything(x: Any, w: Any) -> Any:
    y = np.maximum(x * 2 - 0.5, 0)
    z = np.exp(x - x.max(axis=0)) / np.exp(x - x.max(axis=0)).sum(axis=0)
    n = (x - x.mean(axis=0)) / np.sqrt(x.var(axis=0) + 1e-5)
    c = ops.conv2d(x.reshape(-1, 1, 4, 4), w, padding=1)
    both = np.concatenate([x, y])
    return (
        *(x.mean(), x.var(), x.std(axis=0), z, n, np.argmax(x), np.argmin(x, axis=0), x.max(axis=0), x.min(), x.prod(axis=0)),
        *(np.sqrt((x * x).sum()), both, both.shape[0], x[-1], x[::-1], x[1:], len(x), x.size, c, c.mean(), c.sum(axis=0), len(c)),
        *((x / (x + 1)).sum(), np.cumsum(x, axis=0), np.sort(x, axis=0), (x > 0).all(), (x > 5).any(), x.T @ x),
    )


@pytest.mark.parametrize("n", [1, 2, 3, 5, 7, 8, 9, 31, 33])
def test_results_are_those_of_the_true_size(n: int) -> None:
    f, g = bcvm.jit(everything), bcvm.jit(everything)
    x, w = np.abs(data(n, 16, seed=n)) + 1, data(2, 1, 3, 3)
    for tier in (None, None, *TIERS):
        with np.errstate(all="raise"), config.override(force_tier=tier):
            expected = f(x, w)
            with bcvm.clamp_batch_size(1, 32, 4):
                found = g(x, w)
        for a, b in zip(found, expected, strict=True):
            assert np.asarray(a).tobytes() == np.asarray(b).tobytes() and np.shape(a) == np.shape(b), tier


def test_random_numbers_are_drawn_for_the_true_size() -> None:
    f = bcvm.jit(lambda x: (x + np.random.rand(*x.shape), np.random.standard_normal(x.shape[0])))
    x = np.zeros((5, 3))
    state = np.random.get_state()
    expected, after = f(x), np.random.rand()
    np.random.set_state(state)
    with bcvm.clamp_batch_size(1, 32, 4):
        found, again = f(x), np.random.rand()
    assert all((a == b).all() for a, b in zip(found, expected, strict=True)) and again == after


CASES = [case for case in load() if case.kind == "d"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_recorded_cases(case: Case) -> None:
    more = "\nout = layernorm(x)\n" if case.id == "c35" else ""
    prepared = Case(case.id, case.kind, case.symptom, case.repro + more, case.check, case.tol, case.expected_data)
    with bcvm.clamp_batch_size(1, 32, 4), bcvm.clamp_batch_size(1, 32, 4, dim=1), config.override(hot_threshold_ms=0.0):
        assert_matches(run(prepared, Recorder(strict=True)), case.expected_data, *tolerance(case.tol))


def test_c40_no_event_comes_of_dead_lanes() -> None:
    case = next(case for case in CASES if case.id == "c40")
    with bcvm.clamp_batch_size(1, 32, 4), warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        assert_matches(run(case, Recorder(strict=True)), case.expected_data, *tolerance(case.tol))


@pytest.mark.mindspore
def test_gradients_are_those_of_the_true_size() -> None:
    import mindspore as ms

    @bcvm.jit
    def loss(x: Any, w: Any) -> Any:
        return ms.ops.conv2d(x, w).mean()

    x, w = ms.Tensor(data(5, 2, 6, 6)), ms.Tensor(data(3, 2, 3, 3))
    grad = ms.value_and_grad(loss, (0, 1))
    value, expected = grad(x, w)
    with bcvm.clamp_batch_size(1, 32, 4):
        again, found = grad(x, w)
    assert float(value) == float(again)
    for a, b in zip(found, expected, strict=True):
        assert a.shape == b.shape and np.allclose(a.asnumpy(), b.asnumpy(), rtol=1e-6, atol=0)
