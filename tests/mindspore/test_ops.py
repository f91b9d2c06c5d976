"""Every kind of spelled op on samples: MindSpore's own result where it runs on the CPU, else NumPy in float64."""

from __future__ import annotations

import functools
from typing import Any

import mindspore as ms
import numpy as np
import pytest
from door_support import MODULES, array, by_site, numpy_type, tensor, type_name

pytestmark = pytest.mark.mindspore
RNG = np.random.default_rng(7)
X = RNG.normal(size=(3, 4))
SIGNED = np.array([[-7, 7, -8, 8], [0, 3, -3, 5], [1, 2, -1, 6]])


@functools.cache
def names(dtype: str) -> dict[str, Any]:
    """The operands of the samples in one element type."""
    make = lambda values: tensor(values, numpy_type(dtype))  # noqa: E731
    return {
        "x": make(X), "y": make(RNG.normal(size=(3, 4))), "p": make(np.abs(X) + 0.1), "u": make(X / 4), "row": make([1.0, -2.0, 3.0, 0.5]),
        "sq": make(RNG.normal(size=(4, 4))), "b3": make(RNG.normal(size=(2, 3, 4))), "v": make([1.0, 2.0, 3.0, 4.0]),
        "b4": make(RNG.normal(size=(2, 4, 5))), "img": make(RNG.normal(size=(2, 3, 6, 6))), "w": make(RNG.normal(size=(4, 3, 3, 3))),
        "bias": make(RNG.normal(size=4)), "t": make(X).T, "strided": make(RNG.normal(size=(3, 8)))[:, ::2],
        "m": tensor(X > 0, np.bool_), "i": tensor([2, 0, 1], np.int64),
        "ix": tensor(np.array([[0, 1, 2, 0]] * 3), np.int64),
        "labels": tensor([1, 0, 3], np.int32), "ch": make([1.0, 2.0, 3.0]), "cp": make([0.5, 1.5, 2.5]),
        "seq": make(RNG.normal(size=(2, 3, 9))),
        "w1": make(RNG.normal(size=(4, 3, 3))), "prob": make(1 / (1 + np.exp(-X))), "half": make(np.full((3, 4), 0.25)),
    }  # fmt: skip


UNARY = {
    "x": "abs neg square sign floor ceil trunc exp expm1 sin cos tan sinh cosh tanh sigmoid erf erfc relu atan asinh isnan isinf isfinite"
    " logical_not softplus silu gelu elu",
    "p": "sqrt rsqrt reciprocal log log1p log2 log10 exp2",
    "u": "asin acos atanh",
}
SAMPLES = """
x + y
x - row
x * 2
3 - x
x / y
x // y
x % y
p ** 2
x < y
x >= 0
x == x
-x
abs(x)
t + t
strided * 2.5
ops.add(x, row)
mint.sub(x, y)
ops.maximum(x, y)
mint.minimum(x, 0.25)
ops.atan2(x, y)
ops.clamp(x, -0.5, 0.5)
mint.clamp(x, min=-0.5)
x.clip(-1, 1)
ops.where(m, x, y)
mint.where(m, x, 0.0)
x.where(m, y)
ops.masked_fill(x, m, -1.0)
x.masked_fill(m, 3)
x.round()
x.add(y)
x.pow(2)
x.isnan()
x.astype(ms.float64)
x.to(ms.int32)
ops.cast(x, ms.float16)
x.half()
x.sum()
x.sum(0)
x.sum(1, True)
x.sum(axis=(0, 1))
x.sum(dim=1, keepdim=True)
x.sum(axis=1, keepdims=True)
ops.sum(x, dim=0)
mint.sum(x, dim=(0, 1))
x.mean()
x.mean(axis=1)
x.mean(1, True)
ops.mean(x, 0, True)
mint.mean(x, dim=-1)
x.prod()
ops.prod(x, 1)
x.max()
x.max(axis=1)
x.min(axis=0, keepdims=True)
ops.amax(x, 1)
mint.amin(x, dim=(0,))
x.argmax()
x.argmax(axis=1)
ops.argmin(x, axis=0)
mint.argmax(x, dim=1) ## np.argmax(x, 1)
mint.argmin(x) ## np.argmin(x)
x.any()
ops.all(x, axis=1)
x.var()
x.std(axis=1, ddof=1)
ops.std(x, axis=0)
mint.var(x, dim=1) ## np.var(x, 1, ddof=1)
mint.std(x) ## np.std(x, ddof=1)
mint.std(x, dim=0, correction=0, keepdim=True) ## np.std(x, 0, keepdims=True)
ops.norm(x)
ops.logsumexp(x, 1)
mint.logsumexp(x, 1, True) ## np.log(np.exp(x).sum(1, keepdims=True))
x.cumsum(0)
ops.cumsum(x, 1)
mint.cumsum(x, 1) ## np.cumsum(x, 1)
mint.cumprod(x, 0)
ops.count_nonzero(x, axis=1)
x.argsort()
ops.sort(x, axis=0)
mint.sort(x, dim=1) ## (np.sort(x, 1), np.argsort(x, 1))
mint.argsort(x) ## np.argsort(x)
x @ sq
ops.matmul(b3, sq)
mint.matmul(b3, b4)
ops.bmm(b3, b4)
x.matmul(v)
mint.mm(x, sq) ## x @ sq
mint.dot(v, v) ## v @ v
ops.outer(v, v)
F.linear(x, sq, bias)
mint.einsum('ij,jk->ik', x, sq) ## x @ sq
x.T
x.shape
x.ndim
x.size
x.reshape(4, 3)
x.reshape((2, -1))
x.view(2, 6)
ops.reshape(x, (6, 2))
x.transpose(1, 0)
b3.transpose(0, 1)
b3.transpose(2, 0, 1)
mint.transpose(b3, 1, 2)
ops.transpose(b3, (1, 2, 0))
mint.permute(b3, (2, 1, 0))
b3.permute(1, 0, 2)
x.swapaxes(0, 1)
ops.moveaxis(b3, 0, -1)
x.expand_dims(1)
mint.unsqueeze(x, 0)
x.expand_dims(0).squeeze(0)
mint.squeeze(x.expand_dims(0), 0)
x.flatten()
x.ravel()
ops.broadcast_to(row, (3, 4))
row.broadcast_to((2, 4))
row.expand(3, 4)
mint.flip(x, (0,))
ops.flip(x, (0, 1))
x.diagonal()
ops.cat((x, y))
ops.concat([x, y], axis=1)
mint.cat((x, y), dim=-1)
ops.stack((x, y))
mint.stack((x, y), dim=1) ## np.stack((x, y), 1)
ops.tile(x, (2, 1))
x.tile((1, 2))
ops.repeat_interleave(x, 2, 0)
mint.roll(x, 1, 0) ## np.roll(x, 1, 0)
ops.triu(x)
mint.tril(sq) ## np.tril(sq)
ops.gather_elements(x, 1, ix)
mint.gather(x, 1, ix)
ops.gather(x, i, 0)
mint.index_select(x, 0, i) ## x[i]
ops.split(x, 2, axis=1)
mint.split(x, [1, 2], dim=0)
x.chunk(2, axis=1)
mint.chunk(x, 3, 1)
ops.unstack(x, 1)
mint.unbind(x)
ops.meshgrid(row, v)
ops.nonzero(x)
x.nonzero()
ops.zeros_like(x)
mint.ones_like(x) ## np.ones_like(x)
ops.full_like(x, 2.5)
x[0]
x[-1, ::2]
x[:, 1:3]
x[..., 0]
x[None]
x[i]
x[m]
x[:, i]
x[[0, 2]]
x[::-1]
x[5:2]
ops.softmax(x)
ops.softmax(x, axis=0)
mint.softmax(x, dim=1)
ops.log_softmax(x, axis=-1)
F.log_softmax(x, dim=1) ## x - np.log(np.exp(x).sum(1, keepdims=True))
ops.leaky_relu(x)
F.leaky_relu(x, 0.1) ## np.where(x > 0, x, x * 0.1)
ops.hardswish(x)
ops.hardsigmoid(x)
ops.relu6(x * 4)
F.gelu(x) ## x * 0.5 * np.vectorize(math.erfc)(-x / math.sqrt(2))
F.elu(x) ## np.where(x > 0, x, np.expm1(x))
ops.logsigmoid(x)
ops.mish(x)
ops.layer_norm(x, (4,), bias, v) ## (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * bias + v
F.layer_norm(x, (4,)) ## (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
F.group_norm(img, 3)
F.batch_norm(img, ch, cp, ch, cp)
ops.conv2d(img, w)
F.conv2d(img, w, bias, 2, 1) ## mindspore: ops.conv2d(img, w, bias, 2, 'pad', 1)
ops.conv1d(seq, w1)
ops.max_pool2d(img, 2)
ops.avg_pool2d(img, 2, 2)
F.max_pool2d(img, 3, 2, 1)
F.adaptive_avg_pool2d(img, (2, 2))
F.embedding(ix, sq) ## sq[ix]
F.pad(x, (1, 2)) ## np.pad(x, ((0, 0), (1, 2)))
F.pad(x, (1, 0, 0, 2), value=1.5) ## np.pad(x, ((0, 2), (1, 0)), constant_values=1.5)
ops.mse_loss(x, y)
ops.l1_loss(x, y, 'sum')
ops.smooth_l1_loss(x, y)
F.smooth_l1_loss(x, y, 'none')
ops.binary_cross_entropy_with_logits(x, half, half, half)
F.binary_cross_entropy(prob, half)
ops.cross_entropy(x, labels)
"""


def exists(line: str) -> bool:
    """Whether this release of MindSpore has the function."""
    module, _, name = line.partition("(")[0].partition(".")
    return module not in MODULES or hasattr(MODULES[module], name)


LINES = [line for line in SAMPLES.splitlines() if line]
LINES += [f"{module}.{name}({operand})" for operand, group in UNARY.items() for name in group.split() for module in ("ops", "mint", "F")]
LINES = [line for line in LINES if exists(line)]
TOLERANCE = {"float16": (2e-3, 2e-3), "bfloat16": (2e-2, 2e-2), "float32": (1e-5, 2e-6), "float64": (1e-5, 3e-6)}
# float64: MindSpore computes some ops in float32


def reference(text: str, oracle: str | None, dtype: str) -> Any:
    """(values, element types or None) that the sample must have."""
    import math

    scope = names(dtype)
    if oracle is None or oracle.startswith("mindspore:"):
        text = text if oracle is None else oracle.removeprefix("mindspore:").strip()
        try:
            theirs = eval(text, {**MODULES, **scope})
        except RuntimeError:  # no CPU kernel under this name; `ops` may have one
            theirs = eval("ops" + text[text.index(".") :], {**MODULES, **scope})
        return array(theirs), type_name(theirs)
    wide = {name: array(value) for name, value in scope.items()}
    wide = {name: value.astype(np.float64) if value.dtype.kind == "f" else value for name, value in wide.items()}
    return eval(oracle, {"np": np, "math": math, **wide}), None


def check(ours: Any, theirs: Any, dtype: str) -> None:
    if isinstance(theirs, tuple | list):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            check(a, b, dtype)
        return
    if not isinstance(theirs, np.ndarray | np.generic):
        assert ours == theirs and type(ours) is type(theirs)
        return
    rtol, atol = TOLERANCE[dtype]
    assert ours.shape == np.shape(theirs)
    np.testing.assert_allclose(np.asarray(ours, np.float64), np.asarray(theirs, np.float64), rtol=rtol, atol=atol)


@pytest.mark.parametrize("line", LINES)
def test_sample(line: str) -> None:
    text, _, oracle = (part.strip() for part in line.partition("##"))
    for dtype in ("float32", "float64", "float16"):
        try:
            values, types = reference(text, oracle or None, dtype)
        except (RuntimeError, TypeError, ValueError) as error:
            assert dtype != "float32", f"{text}: MindSpore does not run it and there is no oracle: {error}"
            continue
        if dtype == "float16" and "sort" in text:
            continue  # ties among rounded numbers
        ours = by_site(text, **names(dtype))
        if types is not None:
            assert type_name(ours) == types, dtype
        check(array(ours), values, dtype)


INTEGERS = ("a // b", "a % b", "a * b", "-a", "a.sum()", "a.prod(1)", "a.max(axis=0)", "a.cumsum(0)", "a < b", "a & b", "a ** 2")


@pytest.mark.parametrize("text", INTEGERS)
@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8"])
def test_integers(text: str, dtype: str) -> None:
    scope = {"a": tensor(SIGNED if dtype[0] == "i" else abs(SIGNED), dtype), "b": tensor([2, 3, 5, 7], dtype)}
    theirs = eval(text, scope)
    ours = by_site(text, **scope)
    assert type_name(ours) == type_name(theirs)
    assert array(ours).tolist() == array(theirs).tolist()


def test_augmented_assignment_makes_a_new_tensor() -> None:
    from bcvm_core.tiers.select import CallSite

    x = tensor([1.0, 2.0])
    result = CallSite("add")(x, 10, out=x)
    assert result is not x and array(result).tolist() == [11, 12] and array(x).tolist() == [1, 2]


def test_attributes_are_mindspores() -> None:
    x = tensor(X)
    assert by_site("x.dtype", x=x) is ms.float32
    assert by_site("x.shape", x=x) == (3, 4)
    assert by_site("len(x)", x=x) == 3 and by_site("float(x)", x=tensor([2.5])) == 2.5
    assert by_site("x.item()", x=tensor(2.5)) == 2.5 and by_site("x.tolist()", x=tensor([[1.0]])) == [[1.0]]


def test_floating_point_events_are_silent() -> None:
    import warnings

    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        assert array(by_site("ops.log(x)", x=tensor([0.0, -1.0])))[0] == -np.inf
        assert array(by_site("x / 0", x=tensor([1.0]))).tolist() == [np.inf]
