"""Sample calls of every op: one list that feeds tests over ops, kernels and tiers.

`samples(op)` gives (operands, attrs) by the registry's calling convention; every op has some, and
`tests/tiers/test_corruption.py` asserts that they tell a kernel from one that is wrong in a bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np

from bcvm_core import dtypes
from bcvm_core.ops import registry
from bcvm_core.ops.registry import OpInfo

Sample = tuple[tuple[Any, ...], dict[str, Any]]

FLOATS = (np.float32, np.float64, np.float16, ml_dtypes.bfloat16)
DTYPES = (*FLOATS, np.int32, np.uint8, np.bool_, np.complex64)
EVERY_DTYPE = tuple(row.numpy for row in dtypes.TABLE)


def tensor(shape: tuple[int, ...], dtype: Any = np.float32, seed: int = 0, low: float = 0.05, high: float = 2.0) -> np.ndarray[Any, Any]:
    """Positive numbers without zeros, the same every time."""
    rng = np.random.default_rng(seed)
    if np.dtype(dtype) == np.bool_:
        return rng.random(shape) > 0.5
    if np.dtype(dtype).kind in "iu":
        return rng.integers(1, 9, shape).astype(dtype)
    values = rng.uniform(low, high, shape)
    return values.astype(np.float64).astype(dtype)


def _matrix(dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    return tensor((3, 4), dtype, 1)


def _images(seed: int = 2) -> np.ndarray[Any, Any]:
    return tensor((2, 4, 5, 6), np.float32, seed)


def _key() -> Any:
    return 7


def _call(*operands: Any, **attrs: Any) -> Sample:
    return operands, attrs


_INDEX = np.array([2, 0, 1])

_SPECIAL: dict[str, Callable[[], list[Sample]]] = {
    "astype": lambda: [_call(_matrix(), dtype=np.float64), _call(_matrix(), dtype=np.int32)],
    "cast": lambda: [_call(_matrix(), dtype=np.float16)],
    "where": lambda: [_call(_matrix() > 1, _matrix(), 2.0), _call(_matrix() > 1, _matrix(), -_matrix())],
    "clip": lambda: [_call(_matrix(), a_min=0.5, a_max=1.0)],
    "clip_method": lambda: [_call(_matrix(), min=0.5, max=1.0)],
    "arccosh": lambda: [_call(_matrix() + 1)],
    "arctanh": lambda: [_call(_matrix() / 3)],
    "arcsin": lambda: [_call(_matrix() / 3)],
    "arccos": lambda: [_call(_matrix() / 3)],
    "matmul": lambda: [_call(_matrix(), _matrix().T), _call(_matrix(np.int32), _matrix(np.int32).T)],
    "dot": lambda: [_call(_matrix(), _matrix().T)],
    "vdot": lambda: [_call(_matrix(), _matrix())],
    "inner": lambda: [_call(_matrix(), _matrix())],
    "outer": lambda: [_call(_matrix()[0], _matrix()[1])],
    "kron": lambda: [_call(_matrix(), _matrix())],
    "tensordot": lambda: [_call(_matrix(), _matrix().T, axes=1)],
    "einsum": lambda: [_call(["ij,kj->ik", _matrix(), _matrix()])],
    "bmm": lambda: [_call(tensor((2, 3, 4)), tensor((2, 4, 5)))],
    "linear": lambda: [_call(_matrix(), tensor((5, 4))), _call(_matrix(), tensor((5, 4)), bias=tensor((5,)))],
    "conv2d": lambda: [
        _call(_images(), tensor((3, 4, 3, 3)), padding=1),
        _call(_images(), tensor((3, 4, 1, 1)), bias=tensor((3,))),
        _call(_images(), tensor((4, 1, 3, 3)), groups=4),
        _call(tensor((2, 5, 6, 4)), tensor((3, 4, 3, 3)), layout="NHWC"),
    ],
    "conv1d": lambda: [_call(tensor((2, 4, 9)), tensor((3, 4, 3)))],
    "max_pool2d": lambda: [_call(_images(), kernel_size=2)],
    "avg_pool2d": lambda: [_call(_images(), kernel_size=2)],
    "adaptive_avg_pool2d": lambda: [_call(_images(), output_size=(2, 3))],
    "getitem": lambda: [_call(_matrix(), 1), _call(_matrix(), (slice(None), slice(0, 3, 2))), _call(_matrix(), _INDEX)],
    "setitem": lambda: [_call(_matrix(), 1, 5.0), _call(_matrix(), (slice(None), 2), tensor((3,)))],
    "fill": lambda: [_call(_matrix(), value=2.5)],
    "take": lambda: [_call(_matrix(), _INDEX), _call(_matrix(), _INDEX, axis=1)],
    "take_along_axis": lambda: [_call(_matrix(), np.argsort(_matrix(), axis=1), axis=1)],
    "gather": lambda: [_call(_matrix(), np.argsort(_matrix(), axis=1), axis=1)],
    "reshape": lambda: [_call(_matrix(), shape=(2, 6)), _call(_matrix(), shape=-1)],
    "transpose": lambda: [_call(_matrix()), _call(_images(), axes=(0, 2, 3, 1))],
    "permute": lambda: [_call(_images(), dims=(0, 2, 3, 1))],
    "swapaxes": lambda: [_call(_images(), axis1=1, axis2=2)],
    "moveaxis": lambda: [_call(_images(), source=1, destination=-1)],
    "squeeze": lambda: [_call(tensor((3, 1, 4)))],
    "expand_dims": lambda: [_call(_matrix(), axis=1)],
    "broadcast_to": lambda: [_call(_matrix(), shape=(2, 3, 4))],
    "view": lambda: [_call(_matrix(), dtype=np.int32), _call(_matrix())],
    "split": lambda: [_call(_matrix(), indices_or_sections=2, axis=1)],
    "array_split": lambda: [_call(_matrix(), indices_or_sections=3, axis=1)],
    "hsplit": lambda: [_call(_matrix(), indices_or_sections=2)],
    "vsplit": lambda: [_call(_matrix(), indices_or_sections=[1])],
    "dsplit": lambda: [_call(_images(), indices_or_sections=5)],
    "sort_in_place": lambda: [_call(-_matrix()), _call(_matrix(np.int32), axis=0)],
    "tile": lambda: [_call(_matrix(), reps=(2, 1))],
    "repeat": lambda: [_call(_matrix(), repeats=2, axis=0)],
    "roll": lambda: [_call(_matrix(), shift=1, axis=1)],
    "pad": lambda: [_call(_matrix(), pad_width=1, mode="constant")],
    "searchsorted": lambda: [_call(np.arange(5.0), np.array([0.5, 3.0]))],
    "item": lambda: [_call(_matrix()[:1, :1])],
    "int": lambda: [_call(np.array(3)), _call(2.5)],
    "float": lambda: [_call(np.array(3.5)), _call(2)],
    "bool": lambda: [_call(np.array(True))],
    "min_of": lambda: [_call([np.float32(2), np.float32(1)])],
    "max_of": lambda: [_call([np.float32(2), np.float32(1)])],
    "zeros": lambda: [_call(shape=(2, 3)), _call(shape=4, dtype=np.int32)],
    "ones": lambda: [_call(shape=(2, 3))],
    "empty": lambda: [_call(shape=(2, 3))],
    "full": lambda: [_call(shape=(2, 3), fill_value=1.5)],
    "full_like": lambda: [_call(_matrix(), fill_value=1.5)],
    "linspace": lambda: [_call(start=0.5, stop=2.0, num=5)],
    "eye": lambda: [_call(N=3)],
    "identity": lambda: [_call(n=3)],
    "array": lambda: [_call(object=[1.5, 2])],
    "asarray": lambda: [_call(object=[1.5, 2])],
    "arange": lambda: [_call(args=(1, 9, 2))],
    "range": lambda: [_call(args=(1, 9, 2))],
    "slice": lambda: [_call(start=1, stop=9)],
    "one_hot": lambda: [_call(_INDEX, depth=4)],
    "layer_norm": lambda: [
        _call(_matrix(), normalized_shape=(4,)),
        _call(_matrix(), normalized_shape=4, weight=tensor((4,)), bias=tensor((4,), seed=5)),
    ],
    "rms_norm": lambda: [_call(_matrix(), normalized_shape=(4,))],
    "group_norm": lambda: [_call(_images(), num_groups=2)],
    "batch_norm": lambda: [_call(_images(), running_mean=tensor((4,)), running_var=tensor((4,), seed=3))],
    "attention": lambda: [_call(tensor((2, 3, 4)), tensor((2, 5, 4), seed=3), tensor((2, 5, 6), seed=4))],
    "embedding": lambda: [_call(_INDEX, tensor((5, 4)))],
    "interpolate": lambda: [_call(_images(), size=(7, 3)), _call(_images(), size=(10, 12), mode="bilinear")],
    "cross_entropy": lambda: [_call(_matrix(), np.array([1, 3, 0]))],
    "binary_cross_entropy": lambda: [_call(_matrix() / 3, _matrix() / 3)],
    "normal": lambda: [_call(shape=(2, 3), key=_key())],
    "uniform": lambda: [_call(shape=(2, 3), key=_key())],
    "dropout": lambda: [_call(tensor((8, 9)), p=0.5, training=True, key=_key())],
}

_CLASSES = np.array([1, 3, 0])
_SIGNS = np.array([1.0, -1.0, 1.0], np.float32)
_ROWS = np.array([[2, 0, 1, 1], [0, 2, 1, 1]])


def _volume() -> np.ndarray[Any, Any]:
    return tensor((2, 2, 3, 4, 5), np.float32, 6)


def _square() -> np.ndarray[Any, Any]:
    return tensor((3, 3), np.float64, 7) + 2 * np.eye(3)


_SPECIAL |= {
    "lerp": lambda: [
        _call(_matrix(), tensor((3, 4)), 0.25),
        _call(_matrix(np.float16), tensor((3, 4), np.float16), tensor((4,), np.float16)),
    ],
    "addcmul": lambda: [_call(_matrix(), tensor((3, 4)), tensor((4,)), value=0.5)],
    "addcdiv": lambda: [_call(_matrix(), tensor((3, 4)), tensor((4,)), value=0.5)],
    "logit": lambda: [_call(_matrix() / 3), _call(_matrix() / 3, eps=0.25)],
    "erfinv": lambda: [_call(_matrix(dtype) / 3) for dtype in FLOATS],
    "masked_fill": lambda: [_call(_matrix(), _matrix() > 1, 2.5)],
    "gcd": lambda: [_call(_matrix(np.int32), tensor((3, 4), np.int32))],
    "lcm": lambda: [_call(_matrix(np.int32), tensor((3, 4), np.int32))],
    "prelu": lambda: [_call(_matrix() - 1, np.float32(0.25)), _call(_images() - 1, tensor((4,)))],
    "celu": lambda: [_call(_matrix() - 1, alpha=1.5)],
    "selu": lambda: [_call(_matrix() - 1)],
    "glu": lambda: [_call(_matrix()), _call(_images(), axis=1)],
    "softshrink": lambda: [_call(_matrix() - 1, lambd=0.25)],
    "hardshrink": lambda: [_call(_matrix() - 1, lambd=0.25)],
    "threshold": lambda: [_call(_matrix() - 1, threshold=0.25, value=-3.0)],
    "gather_elements": lambda: [_call(_matrix(), _ROWS, axis=0)],
    "gather_nd": lambda: [_call(_images(), np.array([[0, 1], [1, 3]]))],
    "index_select": lambda: [_call(_images(), _INDEX, axis=1)],
    "masked_select": lambda: [_call(_matrix(), _matrix() > 1)],
    "scatter": lambda: [
        _call(_matrix(), _ROWS, tensor((2, 4)), axis=0),
        _call(_matrix(), _ROWS, tensor((2, 4)), axis=0, reduce="multiply"),
        _call(_matrix(), _ROWS, tensor((2, 4)), axis=0, reduce="max"),
    ],
    "scatter_add": lambda: [_call(_matrix(), _ROWS, tensor((2, 4)), axis=0)],
    "index_add": lambda: [_call(_matrix(), np.array([2, 2]), tensor((2, 4)), axis=0, alpha=0.5)],
    "index_fill": lambda: [_call(_matrix(), np.array([2, 0]), 1.5, axis=1)],
    "scatter_nd": lambda: [_call(np.array([[0, 1], [2, 2], [0, 1]]), tensor((3,)), shape=(3, 4))],
    "tensor_scatter": lambda: [
        _call(_matrix(), np.array([[0], [2]]), tensor((2, 4)), mode=mode) for mode in ("update", "add", "sub", "mul", "div", "max", "min")
    ],
    "narrow": lambda: [_call(_matrix(), axis=1, start=1, length=2)],
    "select": lambda: [_call(_matrix(), axis=1, index=-1)],
    "unbind": lambda: [_call(_matrix(), axis=1)],
    "chunk": lambda: [_call(_matrix(), chunks=3, axis=1)],
    "topk": lambda: [_call(_matrix(), k=2), _call(_matrix(np.int32), k=2, axis=0, largest=False)],
    "max_pairs": lambda: [_call(_matrix(), axis=1)],
    "min_pairs": lambda: [_call(_matrix(), axis=0, keepdims=True)],
    "flatten_axes": lambda: [_call(_images(), start=1, end=2)],
    "steps": lambda: [_call(start=1, end=9, step=2), _call(start=4, dtype=np.float32)],
    "dropout_channels": lambda: [_call(_images(), p=0.5, training=True, key=_key())],
    "divide_rounded": lambda: [_call(_matrix(), tensor((3, 4)), rounding_mode=mode) for mode in (None, "floor", "trunc")],
    "add_scaled": lambda: [_call(_matrix(), tensor((3, 4)), alpha=0.5)],
    "subtract_scaled": lambda: [_call(_matrix(), tensor((3, 4)), alpha=0.5)],
    "kthvalue": lambda: [_call(_matrix(), k=2)],
    "lower_median": lambda: [_call(_matrix()), _call(_matrix(), axis=1)],
    "cummax": lambda: [_call(_matrix(), axis=1)],
    "cummin": lambda: [_call(_matrix(), axis=1)],
    "unique_consecutive": lambda: [_call(_ROWS), _call(_ROWS, return_inverse=True, return_counts=True)],
    "bincount": lambda: [_call(_CLASSES), _call(_CLASSES, weights=tensor((3,)), minlength=5)],
    "histc": lambda: [_call(_matrix(), bins=4), _call(_matrix(), bins=4, min=0.5, max=1.5)],
    "bucketize": lambda: [_call(_matrix(), np.array([0.5, 1.0, 1.5]))],
    "search_rows": lambda: [_call(np.sort(_matrix()), tensor((3, 2)))],
    "kl_div": lambda: [_call(-_matrix(), tensor((3, 4)) / 3), _call(-_matrix(), -tensor((3, 4)), reduction="batchmean", log_target=True)],
    "nll_loss": lambda: [_call(-_matrix(), _CLASSES), _call(-_matrix(), _CLASSES, weight=tensor((4,)), reduction="none")],
    "soft_margin_loss": lambda: [_call(tensor((3,)), _SIGNS)],
    "hinge_embedding_loss": lambda: [_call(tensor((3,)), _SIGNS)],
    "margin_ranking_loss": lambda: [_call(tensor((3,)), tensor((3,), seed=1), _SIGNS, margin=0.5)],
    "cosine_embedding_loss": lambda: [_call(_matrix(), tensor((3, 4)), _SIGNS, margin=0.25)],
    "triplet_margin_loss": lambda: [_call(_matrix(), tensor((3, 4)), tensor((3, 4), seed=9), swap=True)],
    "gaussian_nll_loss": lambda: [_call(_matrix(), tensor((3, 4)), tensor((3, 4), seed=9), full=True)],
    "cdist": lambda: [_call(_matrix(), tensor((2, 4))), _call(_matrix(), tensor((2, 4)), p=1.0)],
    "max_pool1d": lambda: [_call(tensor((2, 4, 9)), kernel_size=2), _call(tensor((2, 4, 9)), kernel_size=2, return_indices=True)],
    "max_pool3d": lambda: [_call(_volume(), kernel_size=2)],
    "avg_pool1d": lambda: [_call(tensor((2, 4, 9)), kernel_size=3, padding=1, count_include_pad=False)],
    "avg_pool3d": lambda: [_call(_volume(), kernel_size=2, ceil_mode=True)],
    "adaptive_max_pool1d": lambda: [_call(tensor((2, 4, 9)), output_size=4)],
    "adaptive_max_pool2d": lambda: [_call(_images(), output_size=(2, 3), return_indices=True)],
    "adaptive_max_pool3d": lambda: [_call(_volume(), output_size=2)],
    "adaptive_avg_pool1d": lambda: [_call(tensor((2, 4, 9)), output_size=4)],
    "adaptive_avg_pool3d": lambda: [_call(_volume(), output_size=2)],
    "lp_pool2d": lambda: [_call(_images(), norm_type=2, kernel_size=2)],
    "max_unpool2d": lambda: [_call(tensor((1, 1, 2, 2)), np.array([[[[0, 3], [8, 15]]]]), kernel_size=2)],
    "conv3d": lambda: [_call(_volume(), tensor((3, 2, 2, 2, 2)), bias=tensor((3,)))],
    "conv_transpose2d": lambda: [_call(_images(), tensor((4, 3, 3, 3)), stride=2, padding=1, output_padding=1)],
    "conv_transpose1d": lambda: [_call(tensor((2, 4, 9)), tensor((4, 3, 3)), bias=tensor((3,)), stride=2)],
    "unfold": lambda: [_call(_images(), kernel_size=2)],
    "fold": lambda: [_call(tensor((2, 8, 6)), output_size=(3, 4), kernel_size=2)],
    "pixel_shuffle": lambda: [_call(_images(), upscale_factor=2)],
    "pixel_unshuffle": lambda: [_call(tensor((2, 3, 4, 6)), downscale_factor=2)],
    "channel_shuffle": lambda: [_call(_images(), groups=2)],
    "addmm": lambda: [_call(tensor((3, 5)), _matrix(), tensor((4, 5)), beta=0.5, alpha=2)],
    "addmv": lambda: [_call(tensor((3,)), _matrix(), tensor((4,)))],
    "addr": lambda: [_call(_matrix(), tensor((3,)), tensor((4,)))],
    "addbmm": lambda: [_call(tensor((3, 5)), tensor((2, 3, 4)), tensor((2, 4, 5)))],
    "baddbmm": lambda: [_call(tensor((2, 3, 5)), tensor((2, 3, 4)), tensor((2, 4, 5)), beta=0)],
    "cross": lambda: [_call(tensor((4, 3)), tensor((4, 3), seed=1))],
    "triangular_solve": lambda: [_call(_square(), tensor((3, 2), np.float64)), _call(_square(), tensor((3, 2), np.float64), upper=False)],
    **{name: lambda: [_call(_square())] for name in ("inverse", "det", "qr")},
    "cholesky": lambda: [_call(_square() @ _square().T)],
    "solve": lambda: [_call(_square(), tensor((3, 2), np.float64))],
    "vector_norm": lambda: [_call(_matrix()), _call(_matrix(), ord=1, axis=1), _call(_matrix(), ord=3, axis=0, keepdims=True)],
    "batch_norm_train": lambda: [
        _call(_images()),
        _call(_images(), running_mean=tensor((4,)), running_var=tensor((4,)), weight=tensor((4,))),
    ],
    "instance_norm": lambda: [_call(_images(), weight=tensor((4,)), bias=tensor((4,)))],
    "grid_sample": lambda: [
        _call(_images(), tensor((2, 3, 2, 2)) - 1),
        _call(_images(), tensor((2, 3, 2, 2)) - 1, mode="bicubic"),
        _call(_volume(), tensor((2, 1, 2, 2, 3)) - 1),
    ],
    "affine_grid": lambda: [
        _call(tensor((2, 2, 3)), size=(2, 1, 3, 4)),
        _call(tensor((2, 3, 4)), size=(2, 1, 2, 3, 2), align_corners=True),
    ],
    "multinomial": lambda: [_call(_matrix(), num_samples=3, key=_key()), _call(_matrix(), num_samples=6, key=_key(), replacement=True)],
    "bernoulli": lambda: [_call(_matrix() / 3, key=_key())],
    "randint": lambda: [_call(low=0, high=9, shape=(2, 3), key=_key())],
    "permutation": lambda: [_call(n=9, key=_key())],
}

_DATA_FREE = ("empty", "empty_like")
"""Ops whose elements mean nothing."""


def _generic(op: OpInfo) -> Iterator[Sample]:
    """Calls of ops whose operands are all of one kind, over the element types that they take."""
    if op.params and op.params[0].role == "tensors":
        for dtype in (np.float32, np.int32):
            yield ([tensor((3, 4), dtype, 1), tensor((3, 4), dtype, 2)],), {}
        return
    count = len(op.operands)
    for dtype in DTYPES if op.exact else EVERY_DTYPE:
        operands = tuple(tensor((3, 4), dtype, seed + 1) for seed in range(count))
        yield operands, {}
        if op.shape_rule == "reduce":
            yield operands, {"axis": 1}


def _works(op: OpInfo, sample: Sample) -> bool:
    try:
        with np.errstate(all="ignore"):
            op.definition(*copied(sample[0]), **sample[1])
    except Exception:
        return False
    return True


def copied(value: Any) -> Any:
    """A copy of operands: writes to it leave the original alone."""
    if isinstance(value, np.ndarray):
        return value.copy(order="K")
    return type(value)([copied(v) for v in value]) if type(value) in (tuple, list) else value


def samples(op: OpInfo | str) -> list[Sample]:
    """Calls of an op that succeed. Never empty for an op of the table."""
    op = registry.row(op) if isinstance(op, str) else op
    made = _SPECIAL[op.name]() if op.name in _SPECIAL else list(_generic(op))
    return [sample for sample in made if _works(op, sample)]


_PYTHON: dict[str, tuple[Any, ...]] = {"getitem": ([5, 6], 1), "setitem": ([5, 6], 1, 7)}


def python_samples(op: OpInfo | str) -> list[tuple[Any, ...]]:
    """Operands that are no tensors, for which Python's operator runs the op; none where it always raises (`2 @ 3`)."""
    op = registry.row(op) if isinstance(op, str) else op
    if op.scalar is None or op.name == "matmul":
        return []
    return [_PYTHON.get(op.name, (5, 3)[: len(op.operands)])]


def has_data(op: OpInfo | str) -> bool:
    """Whether the elements of an op's result mean something."""
    return (op if isinstance(op, str) else op.name) not in _DATA_FREE
