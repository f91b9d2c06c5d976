"""Generated calls: types x broadcasting shapes x views, against MindSpore itself."""

from __future__ import annotations

import os
from typing import Any

import mindspore as ms
import numpy as np
import pytest
from door_support import array, by_mindspore, by_site, tensor, type_name
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from bcvm_core.errors import Decline
from bcvm_core.mindspore import memory

pytestmark = pytest.mark.mindspore
EXAMPLES = settings(max_examples=int(os.environ.get("BCVM_EXAMPLES", "80")))
TYPES = st.sampled_from(["float32", "float64", "float16", "int8", "int32", "int64", "uint8", "bool"])
LAYOUTS = st.sampled_from(["whole", "transposed", "step", "offset", "stretched"])
ARITHMETIC = ["x + y", "x - y", "x * y", "x / y", "x < y", "x >= y", "x == y", "x != y"]
BINARY = st.sampled_from([*ARITHMETIC, "ops.maximum(x, y)", "mint.minimum(x, y)", "ops.where(c, x, y)"])
FUNCTIONS = ["ops.square(x)", "ops.relu(x)", "ops.exp(x)", "mint.tanh(x)", "ops.sigmoid(x)", "ops.sin(x)", "ops.isnan(x)"]
UNARY = st.sampled_from(["-x", "abs(x)", *FUNCTIONS, "x.astype(ms.float64)"])
MIXED = st.sampled_from(["x + s", "s - x", "x * s", "x < s", "s == x", "ops.maximum(x, s)"])
REDUCTIONS = st.sampled_from(["sum", "mean", "max", "min", "prod", "all", "any"])
TOLERANCE = {"float16": 4e-3, "float32": 2e-5, "float64": 2e-5}  # float64: MindSpore computes some ops in float32


def view(values: np.ndarray, layout: str) -> Any:
    """A tensor with these elements whose memory is laid out another way."""
    if layout == "transposed":
        return tensor(values.T.copy(), values.dtype).T
    if layout == "step" and values.ndim:
        return tensor(np.repeat(values, 2, -1), values.dtype)[..., ::2]
    if layout == "offset" and values.ndim:
        return tensor(np.concatenate([values[:1], values]), values.dtype)[1:]
    if layout == "stretched" and values.ndim and values.shape[0]:
        return tensor(values[:1], values.dtype).broadcast_to(values.shape)
    return tensor(values, values.dtype)


@st.composite
def operands(draw: st.DrawFn, count: int = 2) -> tuple[Any, ...]:
    """Tensors whose shapes broadcast; small values, so that nothing overflows and no order of additions shows."""
    shapes = draw(hnp.mutually_broadcastable_shapes(num_shapes=count, max_dims=3, min_side=1, max_side=4)).input_shapes
    made = []
    for shape in shapes:
        dtype = np.dtype(draw(TYPES))
        quarters = st.integers(-20, 20).map(lambda k: k / 4)
        elements = {"b": st.booleans(), "u": st.integers(0, 9), "i": st.integers(-9, 9)}.get(dtype.kind, quarters)
        made.append(view(draw(hnp.arrays(dtype, shape, elements=elements)), draw(LAYOUTS)))
    return tuple(made)


def agree(text: str, **names: Any) -> None:
    try:
        with np.errstate(all="ignore"):
            theirs = by_mindspore(text, **names)
            wanted = array(theirs)
    except Exception:
        assume(False)
    try:
        ours = by_site(text, **names)
    except (Decline, TypeError):
        return  # left to MindSpore
    assert type_name(ours) == type_name(theirs)
    found = array(ours)
    assert found.shape == wanted.shape
    rtol = TOLERANCE.get(str(wanted.dtype), 0)
    finite = np.isfinite(np.asarray(wanted, np.float64)) | (wanted.dtype.kind in "biu")
    np.testing.assert_allclose(np.asarray(found, np.float64)[finite], np.asarray(wanted, np.float64)[finite], rtol=rtol, atol=rtol)


@EXAMPLES
@given(operands(), BINARY)
def test_two_tensors(pair: tuple[Any, Any], text: str) -> None:
    x, y = pair
    assume("maximum" not in text and "minimum" not in text or not np.isnan(array(x).astype(float)).any())
    if "/" in text:
        assume((array(y) != 0).all())
    agree(text, x=x, y=y, c=tensor(True, np.bool_))


@EXAMPLES
@given(operands(1), MIXED, st.sampled_from([True, 3, -2, 0.5, 0.1]))
def test_a_tensor_and_a_number(single: tuple[Any], text: str, number: Any) -> None:
    agree(text, x=single[0], s=number)


@EXAMPLES
@given(operands(1), UNARY)
def test_one_tensor(single: tuple[Any], text: str) -> None:
    agree(text, x=single[0])


@EXAMPLES
@given(operands(1), REDUCTIONS, st.data())
def test_reductions(single: tuple[Any], name: str, data: st.DataObject) -> None:
    (x,) = single
    assume(name != "any" or str(x.dtype)[:5] != "Float")  # MindSpore takes fractions for zero
    axes = st.one_of(st.none(), st.integers(-x.ndim, x.ndim - 1)) if x.ndim else st.none()
    axis, keep = data.draw(axes), data.draw(st.booleans())
    word = "keepdims" if name in ("sum", "max", "min") else "keep_dims"
    agree(f"x.{name}(axis={axis}, {word}={keep})", x=x)


@EXAMPLES
@given(operands(1), st.data())
def test_basic_indexing_shares_memory(single: tuple[Any], data: st.DataObject) -> None:
    (x,) = single
    key = data.draw(hnp.basic_indices(x.shape, allow_newaxis=True, allow_ellipsis=True)) if x.ndim else ...
    text = f"x[{_spelled(key)}]"
    try:
        wanted = by_mindspore(text, x=x)
    except Exception:
        assume(False)
    found = by_site(text, x=x)
    backwards = any(isinstance(k, slice) and k.step is not None and k.step < 0 for k in (key if isinstance(key, tuple) else (key,)))
    if backwards:
        wanted = tensor(array(x)[key], array(x).dtype)  # MindSpore forgets the sign beside another slice
    assert found.shape == wanted.shape and np.array_equal(array(found), array(wanted))
    if found.size and not backwards:
        assert np.shares_memory(memory.view(found), memory.view(x))


def _spelled(key: Any) -> str:
    if isinstance(key, tuple):
        return ", ".join(map(_spelled, key)) + ("," if len(key) == 1 else "") if key else "()"
    if isinstance(key, slice):
        return ":".join("" if part is None else str(part) for part in (key.start, key.stop, key.step))
    return {None: "None", ...: "..."}.get(key, str(key))


@EXAMPLES
@given(operands(1), st.data())
def test_views_and_writes(single: tuple[Any], data: st.DataObject) -> None:
    """Reshape, transpose, expand: shapes are MindSpore's, and a write through the view reaches the tensor."""
    (x,) = single
    assume(x.ndim and x.is_contiguous())
    order = data.draw(st.permutations(range(x.ndim)))
    for text in (f"x.permute{tuple(order)}" if x.ndim > 1 else "x.T", "x.reshape(-1)", "x.expand_dims(0)", "x.swapaxes(0, -1)"):
        found, wanted = by_site(text, x=x), by_mindspore(text, x=x)
        assert found.shape == wanted.shape and found.data_ptr() == x.data_ptr()
        assert [s for s, d in zip(found.stride(), found.shape, strict=True) if d > 1] == [
            s for s, d in zip(wanted.stride(), wanted.shape, strict=True) if d > 1
        ]
        memory.view(found)[...] = 1
        assert (array(x) == 1).all()


@EXAMPLES
@given(operands(2), st.data())
def test_stores(pair: tuple[Any, Any], data: st.DataObject) -> None:
    x, y = (t.copy() for t in pair)
    assume(x.ndim)
    key = data.draw(st.one_of(st.integers(-x.shape[0], x.shape[0] - 1), st.just(slice(None, 2)), st.just(...)))
    from bcvm_core.tiers.select import CallSite

    theirs = x.copy()
    try:
        theirs[key] = y
    except Exception:
        assume(False)
    mine = x.copy()
    try:
        CallSite("setitem")(mine, key, y)
    except ValueError:
        assume(False)  # MindSpore stretches the target's shape in ways NumPy does not
    assert type_name(mine) == type_name(theirs)
    np.testing.assert_allclose(array(mine).astype(np.float64), array(theirs).astype(np.float64), rtol=1e-6)


def test_the_suite_runs_synchronously() -> None:
    assert ms.get_context("pynative_synchronize")
