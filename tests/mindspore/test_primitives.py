"""Primitive objects: each sample by its row against MindSpore's own result or NumPy in float64; what no row expresses is MindSpore's."""

from __future__ import annotations

import gc
import math
from typing import Any

import mindspore as ms
import numpy as np
import pytest
from door_support import MODULES, array, by_site, tensor, type_name
from mindspore import ops
from mindspore.ops import auto_generate as A
from mindspore.ops import operations as P
from primitive_samples import SAMPLES, operands
from test_ops import check, names

import bcvm_core as bcvm
from bcvm_core.errors import Decline
from bcvm_core.mindspore import primitives
from bcvm_core.ops import registry

pytestmark = pytest.mark.mindspore
MODULES.update({"P": P, "A": A})
LINES = [line for line in SAMPLES.splitlines() if line]
STATISTICS = "ops.BatchNorm("  # of its results only the first says something in inference: the others are left-over memory


def scope(dtype: str) -> dict[str, Any]:
    return {**names(dtype), **operands(dtype)}


def reference(text: str, oracle: str, dtype: str) -> Any:
    """(values, element types or None)."""
    if not oracle:
        theirs = eval(text, {**MODULES, **scope(dtype)})
        return array(theirs), type_name(theirs)
    wide = {name: array(value) for name, value in scope(dtype).items()}
    wide = {name: value.astype(np.float64) if getattr(value, "dtype", np.dtype("b")).kind == "f" else value for name, value in wide.items()}
    return eval(oracle, {"np": np, "math": math, **wide}), None


@pytest.mark.parametrize("line", LINES)
def test_sample(line: str) -> None:
    text, _, oracle = (part.strip() for part in line.partition("##"))
    for dtype in ("float32", "float16", "float64"):
        try:
            values, types = reference(text, oracle, dtype)
        except (RuntimeError, TypeError, ValueError) as error:
            assert dtype != "float32", f"{text}: MindSpore does not run it and there is no oracle: {error}"
            continue
        ours = by_site(text, **scope(dtype))
        assert types is None or type_name(ours) == types, dtype
        if text.startswith(STATISTICS):
            ours, values = ours[0], values[0]
        check(array(ours), values, dtype)


INTEGERS = """
ops.Add()(a, b)
ops.Mul()(a, b)
ops.Sub()(a, 3)
ops.Div()(a, b)
ops.FloorDiv()(a, b)
ops.Mod()(a, b)
ops.Maximum()(a, b)
ops.Abs()(a)
ops.Neg()(a)
ops.ReLU()(a)
ops.Square()(a)
ops.SquaredDifference()(a, b)
ops.BitwiseAnd()(a, b)
ops.BitwiseOr()(a, b)
ops.BitwiseXor()(a, b)
ops.ReduceSum()(a, 1)
ops.ReduceSum(True)(a)
ops.ReduceProd()(a, 1)
ops.ReduceMax()(a, 0)
ops.Argmax()(a)
ops.ArgMinWithValue(1)(a)
ops.CumSum()(a, 1)
ops.MatMul(transpose_b=True)(a, a)
ops.BatchMatMul()(a[None], a.T[None])
ops.Concat(1)((a, a))
ops.Cast()(a, ms.float32)
ops.Tile()(a, (1, 2))
ops.Greater()(a, b)
ops.Sort()(a)
ops.Gather()(a, tensor([2, 0], np.int32), 0)
ops.StridedSlice()(a, (0, 1), (3, 4), (2, 2))
ops.ZerosLike()(a)
"""


@pytest.mark.parametrize("text", INTEGERS.split("\n")[1:-1])
@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8"])
def test_integers(text: str, dtype: str) -> None:
    signed = np.array([[-7, 7, -8, 8], [0, 3, -3, 5], [1, 2, -1, 6]])
    operands = {"a": tensor(signed if dtype[0] == "i" else abs(signed), dtype), "b": tensor([2, 3, 5, 7], dtype), "tensor": tensor}
    try:
        theirs = eval(text, {**MODULES, **operands})
        values = array(theirs)
    except (RuntimeError, TypeError):
        pytest.skip("no kernel of MindSpore's to compare with")
    ours = by_site(text, **operands)
    assert type_name(ours) == type_name(theirs)
    np.testing.assert_array_equal(array(ours), values)


HOST = """
ops.Conv2D(4, 3, data_format='NCHW', mode=0)
ops.ReduceSum(skip_mode=True)
ops.CumSum(exclusive=True)
ops.CumSum(reverse=True)
ops.CumProd(reverse=True)
ops.TopK(sorted=False)
ops.BatchNorm(is_training=True)
ops.LayerNorm(2, 1)
ops.Gather(batch_dims=1)
ops.OneHot(axis=0)
ops.MaxPool3D(2, 2, 'same')
ops.AvgPool3D(2, 2, ceil_mode=True)
ops.Conv3D(2, 2, pad_mode='pad', pad=(1, 0, 0, 0, 0, 0))
ops.MatMul().set_device('Ascend')
ops.Dropout(0.5)
"""


@pytest.mark.parametrize("text", HOST.split("\n")[1:-1])
def test_what_no_row_expresses_is_left_to_mindspore(text: str) -> None:
    try:
        value = eval(text, MODULES)
    except ValueError:
        pytest.skip("MindSpore itself does not take it here")
    assert registry.by_callable(value) is None


@pytest.mark.parametrize(
    "text",
    [
        "ops.MatMul()(b3, b4)",  # stacks
        "ops.MatMul()(x, half16)",  # two element types
        "ops.Dense()(x, half16)",
        "ops.AddN()((x,))",
        "ops.Split(1, 3)(x)",
        "ops.BroadcastTo((5, -1, 3, 4))(x)",
        "ops.Unstack(1, 3)(x)",
        "ops.LogSoftmax()(i)",
        "ops.Conv2D(4, 3)(img, half16)",
    ],
)
def test_operands_that_are_mindspores(text: str) -> None:
    with pytest.raises(Decline):
        by_site(text, half16=tensor(np.ones((4, 4)), np.float16), **scope("float32"))


def test_special_values() -> None:
    x = tensor([np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0])
    y = tensor([0.0, 1.0, np.nan, 0.0, 0.0, 0.0])
    special = array(x)
    np.testing.assert_array_equal(array(by_site("ops.ReLU()(x)", x=x)), np.maximum(special, 0))
    np.testing.assert_array_equal(array(by_site("ops.Maximum()(x, y)", x=x, y=y)), np.maximum(special, array(y)))
    np.testing.assert_array_equal(array(by_site("ops.DivNoNan()(x, y)", x=x, y=y)), [0, np.inf, np.nan, 0, 0, 0])
    assert np.isnan(array(by_site("ops.ReduceMax()(x)", x=x)))
    assert array(by_site("ops.Argmax()(x)", x=x)) == 0
    rows = tensor([[-np.inf, -np.inf], [0.0, 0.0], [np.nan, 1.0]])
    np.testing.assert_array_equal(array(by_site("ops.Softmax()(x)", x=rows)), [[np.nan, np.nan], [0.5, 0.5], [np.nan, np.nan]])


def test_empty_and_0d() -> None:
    empty, point = tensor(np.zeros((0, 3))), tensor(2.0)
    assert array(by_site("ops.ReduceSum()(e)", e=empty)).tolist() == 0
    assert array(by_site("ops.MatMul()(e, w)", e=empty, w=tensor(np.ones((3, 2))))).shape == (0, 2)
    assert array(by_site("ops.Concat()((e, e))", e=empty)).shape == (0, 3)
    assert array(by_site("ops.Square()(p)", p=point)).tolist() == 4
    assert array(by_site("ops.ExpandDims()(p, 0)", p=point)).tolist() == [2]


SHARING = """
ops.Identity()(x) | ops.StopGradient()(x) | ops.Reshape()(x, (4, 3)) | ops.Reshape()(x.T, (12,)) | ops.Flatten()(x) | ops.Squeeze()(x)
ops.ExpandDims()(x, 0) | ops.Transpose()(x, (1, 0)) | ops.BroadcastTo((3, 4))(x) | ops.BroadcastTo((2, 3, 4))(x) | ops.Split(1, 2)(x)
ops.Unstack(0)(x) | ops.Slice()(x, (0, 0), (2, 2)) | ops.StridedSlice()(x, (0, 0), (2, 2), (1, 1)) | ops.Cast()(x, ms.float32)
ops.Concat()((x, x)) | ops.Tile()(x, (1, 1)) | ops.ReverseV2((0,))(x) | ops.ReLU()(x) | ops.Pad(((0, 0), (0, 0)))(x) | ops.Tril(5)(x)
"""


@pytest.mark.parametrize("text", SHARING.strip().replace("\n", " | ").split(" | "))
def test_memory_is_shared_where_mindspore_shares_it(text: str) -> None:
    shared = []
    for run in (lambda names: eval(text, {**MODULES, **names}), lambda names: by_site(text, **names)):
        x = tensor(np.arange(12.0).reshape(3, 4))
        result = run({"x": x, "ms": ms})
        part = result[0] if isinstance(result, tuple) else result
        array(part)
        x[...] = tensor(77.0)
        shared.append(bool((array(part) == 77).any()))
    assert shared[0] == shared[1]


def test_primitives_in_programs() -> None:
    matmul, bias_add, relu = ops.MatMul(transpose_b=True), ops.BiasAdd(), ops.ReLU()
    mean, shape = ops.ReduceMean(keep_dims=True), ops.Shape()

    @bcvm.jit(strict=True)
    def f(x: Any, w: Any, b: Any) -> Any:
        y = relu(bias_add(matmul(x, w), b))
        return y - mean(y, -1), shape(y)[0]

    x, w, b = (tensor(np.random.default_rng(1).normal(size=s)) for s in ((3, 4), (5, 4), (5,)))
    wide = [array(t).astype(np.float64) for t in (x, w, b)]
    y = np.maximum(wide[0] @ wide[1].T + wide[2], 0)
    for _ in range(3):
        result, rows = f(x, w, b)
        np.testing.assert_allclose(array(result), y - y.mean(-1, keepdims=True), rtol=1e-5, atol=1e-6)
        assert rows == 3
    stats = f.stats()
    assert stats.call_host == 0 and stats.call_op >= 15


def test_a_primitive_given_as_an_argument() -> None:
    @bcvm.jit(strict=True)
    def f(op: Any, x: Any) -> Any:
        return op(x, 1)

    x = tensor([[1.0, 2.0], [3.0, 4.0]])
    assert array(f(ops.ReduceSum(), x)).tolist() == [3, 7]
    assert array(f(ops.ReduceSum(keep_dims=True), x)).tolist() == [[3], [7]]
    assert array(f(ops.ReduceMean(), x)).tolist() == [1.5, 3.5]


def test_attributes_that_change() -> None:
    value = ops.MatMul()
    assert registry.by_callable(value)[0].name == "matmul"  # type: ignore[index]
    value.transpose_b = True  # the object passes it on: it counts
    assert registry.by_callable(value)[1].fixed["transpose_y"] is True  # type: ignore[index]
    pool = ops.MaxPool(2, 2)
    assert registry.by_callable(pool)[1].fixed["stride"] == (2, 2)  # type: ignore[index]
    pool.strides = (1, 1, 1, 1)  # MindSpore's kernel was told nothing of it
    assert registry.by_callable(pool) is None
    pool.add_prim_attr("strides", (1, 1, 1, 1))
    assert registry.by_callable(pool)[1].fixed["stride"] == (1, 1)  # type: ignore[index]


def test_subclasses_are_not_asked() -> None:
    class Odd(P.ReLU):
        def __call__(self, x: Any) -> Any:
            return x * 0

    assert registry.by_callable(Odd()) is None and registry.by_callable(ops.ReLU()) is not None


def test_objects_that_are_gone_leave_nothing() -> None:
    door = primitives.doors()[ops.MatMul]
    for i in range(50):
        value = ops.MatMul(transpose_b=bool(i % 2))
        found = door(value)
        assert found is not None and found[0].name == ("matmul_transposed" if i % 2 else "matmul")
        del value, found
    gc.collect()
    assert not door._known


def test_parameters_are_those_of_the_calls() -> None:
    for name, texts in primitives.lines().items():
        for kind in primitives.classes_called(name):
            theirs = primitives.parameters_of(kind)
            for form in (primitives._form(text, kind) for text in texts):
                assert form is not None, texts
                own = registry._parse_signature(form.spelling.signature)
                assert (theirs is None and not own.names) or list(own.positional) == theirs, (name, own, theirs)


def test_gradients_and_dispatch_are_left_to_mindspore() -> None:
    square = ops.Square()

    @bcvm.jit
    def f(x: Any) -> Any:
        return square(x) * 3

    assert array(ms.grad(f)(tensor([1.0, 2.0]))).tolist() == [6, 12]
